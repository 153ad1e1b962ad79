"""What the days cost: in full by default, the most expensive day times k when no person is in more than k days."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from daily_fixtures import *  # noqa: F403 - fixtures
from daily_fixtures import Make, day, features, today

import sidelight as sl
from probes import Unreadable
from sidelight.accounting import amount_of
from sidelight.errors import BudgetError, LedgerError, RangeError
from sidelight.guarantees import Claims, Row
from sidelight.ledger import Ledger, open_ledger
from sidelight.quantiles.sequence.sequence import account_of_day, for_days
from sidelight.testing import SeededSession


def release(sequence: Any, t: int) -> Any:
    return sequence.release(today(t), day=day(t), features=features(t))


def spent(ledger: Ledger, scope: str = "trips") -> Fraction:
    return amount_of(ledger.scope(scope).totals().of("basic"))


def test_every_day_is_charged_in_full_by_default(make: Make, ledger: Ledger) -> None:
    sequence = make(budget=sl.PureDP("1.2"))
    release(sequence, 0)
    release(sequence, 1)
    assert spent(ledger) == 1
    head = ledger.head()
    with pytest.raises(BudgetError):
        release(sequence, 2)
    assert ledger.head() == head
    assert sequence.days == 2
    assert "A person may be in every day" in sequence.statement()


@pytest.mark.parametrize("days", [1, 2, 3])
def test_with_a_declaration_the_dearest_day_counts_so_many_times(make: Make, ledger: Ledger, days: int) -> None:
    sequence = make(budget=sl.PureDP("1.5"), days_per_person=days)
    for t in range(5):
        outcome = release(sequence, t)
        assert outcome.guarantee.pure().epsilon == Fraction(1, 2)  # what this day tells of somebody in it
    assert spent(ledger) == days * Fraction(1, 2)
    assert ledger.verify().ok
    assert f"more than {'one day' if days == 1 else f'{days} days'}" in sequence.statement()
    assert "not checked" in sequence.statement()
    assert len(ledger.scopes()) == 6


def test_a_person_in_so_many_days_is_covered(make: Make, ledger: Ledger) -> None:
    """The promise by hand: whichever k days somebody is in, the sum of what those days cost is within the total."""
    k = 2
    sequence = make(budget=sl.ApproxDP(3, "1e-6"), days_per_person=k)
    for t in range(4):
        release(sequence, t)
    claims = [sl.Release.from_json(str(entry.text)).guarantee for entry in ledger.entries()]
    totals = ledger.scope("trips").totals()
    worst = sorted(claims, key=lambda each: -each.pure().epsilon)[:k]  # type: ignore[union-attr]
    assert amount_of(totals.of("basic")) >= sum(each.pure().epsilon for each in worst)  # type: ignore[union-attr]
    assert amount_of(totals.of("zcdp")) >= sum(each.zcdp().rho for each in worst)  # type: ignore[union-attr]
    assert amount_of(totals.of("gdp")) >= sum(each.gdp().mu ** 2 for each in worst)  # type: ignore[union-attr]
    # and the planted mistake, one price instead of k, would not be
    assert amount_of(totals.of("basic")) * Fraction(1, k) < sum(each.pure().epsilon for each in worst)  # type: ignore[union-attr]


def test_a_day_that_is_tried_twice_is_paid_twice(make: Make, ledger: Ledger) -> None:
    sequence = make(budget=sl.PureDP("1.2"), days_per_person=1)
    broken = Unreadable(today(0), schema=list(sequence.plan.schema.columns))
    with pytest.raises(Exception, match=r".*"):
        sequence.release(broken, day=day(0), features=features(0))
    release(sequence, 0)
    assert spent(ledger) == 1  # both attempts touched the same day
    release(sequence, 1)
    assert spent(ledger) == 1


def test_not_even_one_day(make: Make, ledger: Ledger) -> None:
    with pytest.raises(BudgetError, match="not even one day"):
        make(budget=sl.PureDP("1.4"), days_per_person=3)
    assert ledger.scopes() == []


def test_nobody_else_spends_from_the_parts(make: Make, ledger: Ledger) -> None:
    sequence = make(budget=sl.PureDP(2), days_per_person=2)
    release(sequence, 0)
    table = sl.Table(today(0), schema=list(sequence.plan.schema.columns))
    for scope in ("trips", f"trips/{day(0)}"):
        with pytest.raises(LedgerError, match="exists with another"):
            SeededSession(table, seed=1, budget=sl.PureDP(2), ledger=ledger, scope=scope)
    with pytest.raises(LedgerError, match="exists with another partitioned_by"):
        make(budget=sl.PureDP(2), days_per_person=1, state="none.json")


@pytest.mark.parametrize("days", [0, -1, 1.5, True, "2"])
def test_the_declaration_is_a_whole_number(make: Make, days: object) -> None:
    with pytest.raises(RangeError, match="days_per_person"):
        make(days_per_person=days)


def test_days_compose() -> None:
    claims = Claims.of(sl.PureDP(1), sl.ZCDP("0.01"), sl.GDP("0.3"))
    three = for_days(claims, 3)
    assert three.pure() == sl.PureDP(3)
    assert three.zcdp() == sl.ZCDP("0.03")
    gdp = three.gdp()
    assert gdp is not None
    assert 3 * Fraction(9, 100) <= gdp.mu**2 <= 3 * Fraction(9, 100) * (1 + Fraction(1, 10**9))
    assert for_days(claims, 1) is claims
    assert three.unit == Row()


def test_persons_are_the_unit_when_the_schema_names_them(make: Make, ledger: Ledger) -> None:
    schema = [sl.Number("minutes", lower=0, granularity="0.1"), sl.PersonId("rider", max_rows=2)]
    sequence = make(schema=schema, budget=sl.PureDP(2), days_per_person=2, scope="riders")
    data = {**today(0), "rider": [f"r{i // 3}" for i in range(200)]}
    outcome = sequence.release(data, day=day(0), features=features(0))
    assert str(outcome.guarantee.unit) == "person (rider, at most 2 rows)"
    assert spent(ledger, "riders") == 1
    assert sequence.statement().endswith("no person is in more than 2 days.")


def test_what_a_new_day_may_cost(make: Make) -> None:
    sequence = make(budget=sl.PureDP(2), days_per_person=2)
    release(sequence, 0)
    assert "ε = 2" in str(sequence.remaining)
    whole = make(budget=sl.PureDP(2), scope="whole")
    release(whole, 0)
    assert "ε = 1.5" in str(whole.remaining)


def test_what_remains_for_a_new_day_is_what_its_account_says(tmp_path: Path) -> None:
    """One day closed all routes but one, for the days after it as well."""
    sequence = sl.Sequence(
        sl.Quantiles([0.5], column="m", epsilon="1.2"),
        schema=[sl.Number("m", lower=0, granularity=1)],
        budget=sl.ApproxDP(3, "1e-6"),
        ledger=f"sqlite:///{tmp_path}/budget.db",
        scope="minutes",
        days_per_person=2,
    )
    sequence.release({"m": [8, 9, 12] * 100}, day=day(0))
    account = account_of_day(sequence._scope, day(1), days_per_person=2, routes=sequence._routes)
    assert str(sequence.remaining) == str(account.scope.remaining())


def days_of(price: dict[str, str], ledger: Ledger, **options: Any) -> sl.Sequence:
    return sl.Sequence(
        sl.Quantiles([0.5], column="minutes", **price),
        schema=[sl.Number("minutes", lower=0, granularity="0.1")],
        **{"budget": sl.ApproxDP(1, "1e-6"), "ledger": ledger, "scope": "mixed", "days_per_person": 2} | options,
    )


def test_days_of_several_kinds_never_cost_a_person_more_than_the_promise(tmp_path: Path) -> None:
    """The (epsilon, delta) of two like days bounds no pair of unlike ones: the sum of these alone is refused."""
    with open_ledger(tmp_path / "ledger.db") as ledger:
        with pytest.raises(RangeError, match=r"days_per_person=2 .* only where it is priced in epsilon"):
            days_of({"rho": "0.012"}, ledger, routes=("basic",))
        assert list(ledger.scopes()) == []
        days_of({"epsilon": "0.5"}, ledger, routes=("basic",))  # adds up in proportion to the days
        days_of({"rho": "0.012"}, ledger, routes=("basic",), days_per_person=None, scope="in full")
        both = days_of({"rho": "0.001"}, ledger, routes=None, scope="named")
        for date in ("2025-11-03", "2025-11-04"):  # the first is selected, which has an epsilon, the second is counted
            both.release({"minutes": [8, 9, 12] * 100}, day=date)
        assert "basic" in ledger.scope("named").totals().closed  # a person's days add up by mu and rho alone
