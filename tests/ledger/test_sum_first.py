"""Ledgers that sum declared claims first: charges, verification, forgeries, and scopes of earlier versions."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import sidelight as sl
from sidelight.accounting import Rule
from sidelight.errors import BudgetError, LedgerError
from sidelight.guarantees import GDP, ZCDP, ApproxDP, Claim, Claims, PureDP
from sidelight.guarantees.conversions import gdp_within
from sidelight.ledger import open_ledger

BUDGET = ApproxDP(3, "1e-6")


def test_the_declared_sum_is_granted_booked_and_verified(tmp_path: Path) -> None:
    """Quantiles at 1, a covariance at (1, 1e-6), quantiles at 1: all of the budget."""
    people = sl.Table(
        {"age": [31.0, 47.0, 52.0] * 50, "pay": [1.0, 2.0, 3.0] * 50},
        schema=[sl.Number("age", lower=0, upper=100), sl.Number("pay", lower=0, upper=9)],
        name="people",
    )
    session = sl.Session(people, budget=BUDGET, ledger=tmp_path / "budget.db")
    ages = sl.Quantiles([0.5], column="age", epsilon=1)
    session.release(ages)
    session.release(sl.Covariance(["age", "pay"], radius=120, epsilon=1, delta="1e-6"))
    session.release(ages)
    with open_ledger(str(tmp_path / "budget.db")) as ledger:
        assert ledger.verify().ok
        assert [entry.charge.composed for entry in ledger.entries()] == [False] * 3
        assert ledger.entries()[1].charge.beside > 0
    with pytest.raises(BudgetError, match="remaining ε"):
        session.release(ages)


def test_a_composed_rest_is_verified_and_fixes_the_sum(tmp_path: Path) -> None:
    with open_ledger(str(tmp_path / "budget.db")) as ledger:
        scope = ledger.open_scope("people", budget=BUDGET)
        for number, claim in enumerate((PureDP("0.5"), GDP("0.2"), PureDP("0.1"))):
            scope.reserve(Claims.of(claim), request={"kind": str(number)}).release("{}")  # type: ignore[union-attr]
        assert scope.totals().composed is not None
        assert ledger.verify().ok


def test_a_scope_of_an_earlier_version_keeps_its_rule(tmp_path: Path) -> None:
    """Before the sum came first, a budget without routes had them side by side: it is opened as it was made."""
    with open_ledger(str(tmp_path / "budget.db")) as ledger:
        old = ledger.open_scope("people", budget=BUDGET, routes=["basic", "gdp", "zcdp"])
        again = ledger.open_scope("people", budget=BUDGET)
        assert again.rule == old.rule
        assert not again.rule.sum_first
        with pytest.raises(LedgerError, match="another rule"):
            ledger.open_scope("people", budget=BUDGET, routes=["basic"])
        ledger.open_scope("new", budget=BUDGET)
        with pytest.raises(LedgerError, match="another rule"):
            ledger.open_scope("new", budget=BUDGET, routes=["basic", "gdp", "zcdp"])


def test_rules_without_the_new_field_are_read_as_they_were() -> None:
    rule = Rule.for_budget(BUDGET)
    assert rule.to_json()["first"] == "sum"
    written = {name: value for name, value in rule.to_json().items() if name != "first"}
    assert not Rule.from_json(written).sum_first


def test_parts_of_a_partition_stand_side_by_side(tmp_path: Path) -> None:
    with open_ledger(str(tmp_path / "budget.db")) as ledger:
        whole = ledger.open_scope("all", budget=BUDGET, partitioned_by="day")
        assert not whole.rule.sum_first
        part = ledger.open_scope("all/monday", budget=BUDGET, parent="all")
        mu = gdp_within(BUDGET.epsilon / 6, BUDGET.delta / 10)
        part.reserve(Claims.of(GDP(mu)), request={"kind": "g"}, delta="1e-7").release("{}")  # type: ignore[union-attr]
        assert ledger.verify().ok


@pytest.mark.parametrize(
    "tiny",
    [ZCDP("1e-12"), GDP("1e-9"), PureDP("1e-9"), ApproxDP("1e-9", "1e-15")],
    ids=lambda claim: type(claim).__name__,
)
def test_a_child_does_not_change_what_is_left_to_another(tmp_path: Path, tiny: Claim) -> None:
    """A request of rho 1e-12 turned the parent's rule for good, and another child's whole budget was refused."""
    with open_ledger(str(tmp_path / "budget.db")) as ledger:
        parent = ledger.open_scope("people", budget=BUDGET)
        one = ledger.open_scope("one", budget=ApproxDP("0.5", "1e-7"), parent="people")
        two = ledger.open_scope("two", budget=ApproxDP("2.4", "8e-7"), parent="people")
        one.reserve(Claims.of(tiny), request={"kind": "tiny"}).release("{}")  # type: ignore[union-attr]
        assert parent.totals().composed is None
        assert two.remaining().epsilon == Fraction("2.4")
        for number in range(4):
            whole = Claims.of(ApproxDP("0.6", "2e-7"))
            two.reserve(whole, request={"kind": str(number)}).release("{}")  # type: ignore[union-attr]
        assert ledger.verify().ok


def test_a_child_cannot_spend_beyond_the_sum_what_others_have_left(tmp_path: Path) -> None:
    """One child's Gaussians: parallel routes on its own scope, the sum on the parent."""
    with open_ledger(str(tmp_path / "budget.db")) as ledger:
        parent = ledger.open_scope("people", budget=BUDGET)
        one = ledger.open_scope("one", budget=ApproxDP(9, "1e-6"), parent="people")
        asked = Claims.of(GDP(gdp_within(Fraction(1), Fraction("1e-8"))))
        for number in range(3):
            one.reserve(asked, request={"kind": str(number)}, delta="1e-8").release("{}")  # type: ignore[union-attr]
        with pytest.raises(BudgetError, match=r"'people'.*routes"):
            one.reserve(asked, request={"kind": "fourth"}, delta="1e-8")
        assert parent.totals().epsilon <= 3 * 10**30
        left = one.remaining().epsilon
        assert left is not None
        assert left < Fraction("1e-10")
        parent.reserve(asked, request={"kind": "own"}, delta="1e-8").release("{}")  # type: ignore[union-attr]
        assert ledger.verify().ok  # its own requests may still use the parallel routes


def test_what_is_left_to_a_child_is_granted(tmp_path: Path) -> None:
    with open_ledger(str(tmp_path / "budget.db")) as ledger:
        ledger.open_scope("people", budget=BUDGET)
        one = ledger.open_scope("one", budget=ApproxDP(9, "1e-5"), parent="people")
        one.reserve(Claims.of(PureDP(1)), request={"kind": "first"}).release("{}")  # type: ignore[union-attr]
        left = one.remaining()
        assert left.rho is not None
        assert left.mu is not None
        with pytest.raises(BudgetError):
            one.reserve(Claims.of(ZCDP(left.rho * Fraction("1.00002"))), request={"kind": "more"})
        one.reserve(Claims.of(ZCDP(left.rho)), request={"kind": "rho"}).release("{}")  # type: ignore[union-attr]
        assert ledger.verify().ok
