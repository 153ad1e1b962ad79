"""Entries by their outcomes, and only those since a head: what a reader that keeps its place sees."""

from __future__ import annotations

from pathlib import Path

import pytest

import sidelight as sl
from sidelight.errors import LedgerError
from sidelight.guarantees import Claims
from sidelight.ledger import Reservation, open_ledger


def test_outcomes_in_order_and_since_a_head(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "ledger.db", testing=True) as ledger:
        scopes = [ledger.open_scope(name, budget=sl.PureDP(9)) for name in ("a", "b")]
        held = []
        for number, scope in enumerate((scopes[0], scopes[1], scopes[0])):
            reservation = scope.reserve(Claims.of(sl.PureDP(1)), request={"kind": "test", "number": str(number)})
            assert isinstance(reservation, Reservation)
            held.append(reservation)
        assert ledger.finished() == []  # reserved is not finished
        heads = [held[2].release("third"), held[1].refuse("second"), held[0].release("first")]
        assert [entry.text for entry in ledger.finished()] == ["third", "second", "first"]
        assert [entry.text for entry in ledger.finished(scope_id="a")] == ["third", "first"]
        assert [entry.text for entry in ledger.finished(after=heads[0])] == ["second", "first"]
        assert [entry.head for entry in ledger.finished()] == heads
        assert ledger.finished(after=heads[2]) == []
        by_id = {entry.entry_id: entry for entry in ledger.entries()}
        assert all(by_id[entry.entry_id] == entry for entry in ledger.finished())
        with pytest.raises(LedgerError, match="another ledger or an older copy"):
            ledger.finished(after="0" * 64)
