"""What a ledger must not tell: nothing in it, and no refusal, depends on the data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sidelight.errors import BudgetError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Reservation, Scope, open_ledger

FIRST = "2026-01-01T00:00:00.000000Z"


class Source:
    """A data set that remembers whether it was opened."""

    def __init__(self, rows: list[int]) -> None:
        self._rows = rows
        self.opened = False

    def total(self) -> int:
        self.opened = True
        return sum(self._rows)


def ask(scope: Scope, source: Source, epsilon: str) -> str:
    """Do what a session does: reserve, then open the data."""
    reservation = scope.reserve(Claims.of(PureDP(epsilon)), request={"kind": "sum"}, at_utc=FIRST)
    assert isinstance(reservation, Reservation)
    if source.total() < 0:
        reservation.fail()
        return "failed"
    return reservation.release("noisy")


def test_refusals_are_byte_equal_on_neighbours_and_open_nothing(tmp_path: Path) -> None:
    """Trap 15."""
    texts = []
    for number, rows in enumerate(([1, 2, 3], [1, 2, 3, 4_000_000])):
        source = Source(rows)
        with open_ledger(tmp_path / f"{number}.db") as ledger:
            scope = ledger.open_scope("people", budget=PureDP(1))
            scope.reserve(Claims.of(PureDP("0.8")), request={"kind": "sum"})
            with pytest.raises(BudgetError) as refused:
                ask(scope, source, "0.3")
        assert not source.opened
        error = refused.value
        texts.append(repr([str(error), error.requested, error.remaining, error.difference, error.args]))
    assert texts[0] == texts[1]


def test_two_runs_on_neighbours_leave_ledgers_that_differ_in_random_names_only(tmp_path: Path) -> None:
    """The bodies hold the request, the claims, the charge and the release: nothing else of a run is written."""
    written = []
    for number, rows in enumerate(([1, 2, 3], [1, 2, 3, 4_000_000])):
        with open_ledger(tmp_path / f"{number}.db") as ledger:
            scope = ledger.open_scope("people", budget=PureDP(1))
            ask(scope, Source(rows), "0.3")
            written.append([(event.kind, event.content) for event in ledger.events()[1:]])
    for history in written:
        for _, content in history:
            if "idem_key" in content:
                assert str(content.pop("idem_key")).startswith("auto:")
    assert json.dumps(written[0]) == json.dumps(written[1])
