"""A budget that protects little: whoever declares it is warned, at their own line, and once."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import sidelight as sl
from sidelight.errors import SidelightWarning
from sidelight.guarantees import ApproxDP, Claims, PureDP
from sidelight.ledger import open_ledger
from sidelight.session import Session

LITTLE = "protects little|lets whole records out"


def people() -> sl.Table:
    return sl.Table({"age": [30, 40]}, schema=[sl.Number("age", lower=0, upper=120)], name="people")


def test_the_warning_is_of_the_line_that_declares_it(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "budget.db") as ledger:
        declared = [
            lambda: Session(people(), budget=PureDP(100)),
            lambda: Session(people(), budget=PureDP(100), ledger=ledger, scope="people"),
            lambda: Session(people(), budget=PureDP(100), ledger=ledger, scope="people"),
            lambda: ledger.open_scope("others", budget=ApproxDP(1, "1/100")),
        ]
        for declare in declared:
            with pytest.warns(SidelightWarning, match=LITTLE) as found:
                declare()
            assert {each.filename for each in found} == {__file__}
            assert len(found) == 1


def test_reading_a_ledger_warns_of_nothing(tmp_path: Path) -> None:
    place = tmp_path / "budget.db"
    with open_ledger(place) as ledger:
        with pytest.warns(SidelightWarning, match=LITTLE):
            scope = ledger.open_scope("people", budget=ApproxDP(100, "1/100"))
        scope.reserve(Claims.of(PureDP(1)), request={"kind": "x"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with open_ledger(place) as ledger:
            scope = ledger.scope("people")
            assert [each.scope_id for each in ledger.scopes()] == ["people"]
            scope.reserve(Claims.of(PureDP(1)), request={"kind": "x"})
            assert str(scope.remaining())
            assert not ledger.verify().problems
