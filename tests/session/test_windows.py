"""Sessions with a window: what the whole life and each period are charged, and attacks on it."""

from __future__ import annotations

import functools
import itertools
import math
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import sidelight as sl
from plain_statistics import made_rows
from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.view_rows import open_view
from sidelight.errors import BudgetError, ClaimError, KeyReusedError, LedgerError, RangeError, SchemaError, ScopeError
from sidelight.guarantees import PersonPeriod, unit_from_text, unit_to_text
from sidelight.ledger import Scope, open_ledger
from sidelight.session import persons_and_periods
from sidelight.session.persons_and_periods import PeriodAccounts, period_charge, prepared_for
from sidelight.testing import SeededSession, seeded_release

MONTHS = ("2024-01", "2024-02", "2024-03")
PERSON, VISIT = sl.PersonId("who", max_rows=1), sl.PersonId("who", max_rows=3)


def clinic(
    people: dict[str, list[Any]] | None = None, visits: dict[str, list[Any]] | None = None, **window: Any
) -> sl.Database:
    people = people or {"who": ["a", "b"], "sex": ["F", "M"]}
    visits = visits or {"who": ["a", "a", "b"], "id": [1, 2, 3], "day": [f"{month}-09" for month in MONTHS]}
    sexes = sorted(set(people["sex"]))
    given = {"length": "month", "start": MONTHS[0], "end": MONTHS[-1], "dates": {"visit": "day"}} | window
    day = sl.Date("day", start="2024-01-01", end="2024-12-31")
    return sl.Database(
        {
            "person": sl.Table(people, schema=[PERSON, sl.Category("sex", sexes, other=None)]),
            "visit": sl.Table(visits, schema=[VISIT, sl.Key("id"), day]),
        },
        name="clinic",
        window=sl.Window(**given) if given["dates"] else None,
    )


@pytest.mark.parametrize("source", ["columns", "pandas", "polars", "csv", "parquet"])
def test_a_day_has_one_period_in_tables_whose_date_columns_have_other_ends(tmp_path: Path, source: str) -> None:
    """Clamped first, a day of February stood in June in one table and in February in the other: paid by both."""

    def table(name: str, start: str) -> sl.Table:
        rows: Any = {"who": ["a", "b"], "day": ["2024-02-10", "2024-07-03"]}
        if source == "pandas":
            rows = pd.DataFrame(rows)
        elif source == "polars":
            rows = pl.DataFrame(rows)
        elif source in ("csv", "parquet"):
            path = tmp_path / f"{name}.{source}"
            frame = pl.DataFrame(rows)
            frame.write_csv(path) if source == "csv" else frame.write_parquet(path)
            rows = str(path)
        return sl.Table(rows, schema=[VISIT, sl.Date("day", start=start, end="2024-12-31")], name=name)

    database = sl.Database(
        {"visit": table("visit", "2024-06-01"), "note": table("note", "2024-01-01")},
        name="clinic",
        window=sl.Window("month", start="2024-01", end="2024-12", dates={"visit": "day", "note": "day"}),
    )
    for name in ("visit", "note"):
        for month, rows in (("2024-02", 1), ("2024-06", 0), ("2024-07", 1)):
            opened = open_view(database.view(name).within(month))
            assert int(group_counts(opened, groups_of(opened.schema)).value) == rows


def session(ledger: Any, database: sl.Database | None = None, **given: Any) -> sl.Session:
    usual: dict[str, Any] = {"budget": sl.PureDP(9), "window_budget": sl.PureDP(3)}
    return sl.Session(database or clinic(), ledger=ledger, **(usual | given))


def spent(scope: Any) -> Fraction:
    """Return the epsilon that stands charged to a session, or to an account of one."""
    return Fraction(scope.totals().epsilon, 10**30)


def balances(ledger: Any) -> Any:
    """Return what a ledger's whole life and each period are charged."""
    scopes = {each.scope_id: each for each in ledger.scopes()}
    everywhere = scopes["clinic:periods"].balances()
    all_of_them = Fraction(everywhere.own.epsilon, 10**30)
    parts = {name.rpartition(":")[2]: Fraction(each.epsilon, 10**30) for name, each in everywhere.parts.items()}
    return spent(scopes["clinic"]), {month: all_of_them + parts.get(month, 0) for month in MONTHS}


def test_one_month_of_a_dated_base_costs_what_the_whole_life_is_charged(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "b.db") as ledger:
        made = clinic()
        asked = session(ledger, made)
        asked.release(sl.Count(epsilon="0.5"), of=made.view("visit").within("2024-02"))
        asked.release(sl.Count(epsilon="0.25"), of=sl.per_person(made, of="visit").within("2024-02"))
        assert balances(ledger) == (Fraction(3, 4), {"2024-01": 0, "2024-02": Fraction(3, 4), "2024-03": 0})
        assert asked.periods.remaining("2024-02").epsilon == Fraction(9, 4)
        assert "Σε 0.75 of 3" in str(asked.periods.spent("2024-02"))
        assert ledger.verify().ok


@pytest.mark.parametrize(
    ("view", "months"),
    [
        (lambda made: made.view("visit").within("2024-01", "2024-02"), {"2024-01", "2024-02"}),
        (lambda made: made.view("visit"), set(MONTHS)),
        (
            lambda made: sl.per_person(made, of="person", n=sl.fold.count("visit", upper=2)).within("2024-02"),
            {"2024-02"},
        ),
        (lambda made: made.view("person"), set()),
    ],
)
def test_several_months_and_timeless_bases_cost_two_steps(tmp_path: Path, view: Any, months: set[str]) -> None:
    with open_ledger(tmp_path / "b.db") as ledger:
        made = clinic()
        session(ledger, made).release(sl.Count(epsilon="0.5"), of=view(made))
        life, found = balances(ledger)
        assert life == Fraction(1, 2)
        assert found == {month: Fraction(month in months) for month in MONTHS}


@pytest.mark.parametrize(
    ("options", "said", "charged"),
    [
        ({}, "PureDP(ε = 0.5) to every period", {month: Fraction(1, 2) for month in MONTHS}),
        ({"within": "2024-02"}, "PureDP(ε = 0.25) to 2024-02", {"2024-02": Fraction(1, 4)}),
        (
            {"within": ("2024-01", "2024-02")},
            "PureDP(ε = 0.5) to each of 2024-01 to 2024-02",
            {"2024-01": Fraction(1, 2), "2024-02": Fraction(1, 2)},
        ),
        (
            {"within": ("2024-01", "2024-02"), "cap": "block"},
            "PureDP(ε = 0.125) to each of 2024-01 to 2024-02",
            {"2024-01": Fraction(1, 8), "2024-02": Fraction(1, 8)},
        ),
    ],
)
def test_a_dry_run_quotes_what_periods_and_the_whole_life_pay(
    tmp_path: Path, options: dict[str, Any], said: str, charged: dict[str, Fraction]
) -> None:
    with open_ledger(tmp_path / "b.db") as ledger:
        asked = session(ledger)
        quoted = str(asked.sql("SELECT COUNT(*) FROM visit", epsilon="0.25", dry_run=True, **options))
        assert f"charged to the accounts of periods: {said}; " in quoted
        assert "price: PureDP(ε = 0.25; " in quoted
        asked.sql("SELECT COUNT(*) FROM visit", epsilon="0.25", **options)
        assert balances(ledger) == (Fraction(1, 4), {month: charged.get(month, 0) for month in MONTHS})
        timeless = asked.sql("SELECT COUNT(*) FROM person", epsilon="0.25", dry_run=True)
        assert "periods" not in str(timeless)


@pytest.mark.parametrize(("price", "amount"), [("epsilon", "epsilon"), ("rho", "mu"), ("mu", "mu")])
def test_two_steps_in_every_kind_of_price(price: str, amount: str) -> None:
    view = clinic().view("visit")
    query: Any = sl.Count(**{price: "0.01"})  # type: ignore[arg-type]
    prepared = prepared_for(query.prepare(view.schema), view)
    two, one = (
        period_charge([replace(prepared, view=each)], prepared.claims) for each in (view, view.within("2024-02"))
    )
    assert two is not None
    assert one is not None
    assert (two.periods, one.periods) == (None, ("2024-02",))
    assert one.claims == prepared.claims.with_unit(PersonPeriod("clinic", "month"))
    assert (two.claims.unit, two.claims.neighbours) == (one.claims.unit, sl.Neighbours.ADD_REMOVE)
    whole, period = (
        {type(claim): getattr(claim, amount) for claim in claims if hasattr(claim, amount)}
        for claims in (prepared.claims, two.claims)
    )
    assert whole
    assert period == {kind: 2 * value for kind, value in whole.items()}


def test_a_batch_and_a_statement_are_charged_to_both(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "b.db") as ledger:
        made = clinic()
        asked = session(ledger, made, budget=sl.ApproxDP(9, "1e-6"), window_budget=sl.ApproxDP(3, "1e-6"))
        queries = [sl.Count(rho="0.01"), sl.Count(rho="0.02")]
        asked.release_together(queries, of=made.view("visit").within("2024-02"), delta="1e-7")
        asked.sql("SELECT COUNT(*) FROM visit", epsilon="0.5", within=("2024-01", "2024-02"))
        paid = {scope.scope_id: len(scope.entries()) for scope in ledger.scopes()}
        assert paid == {"clinic": 2, "clinic:periods": 2, "clinic:periods:2024-01": 1, "clinic:periods:2024-02": 2}
        assert ledger.verify().ok


def test_a_month_that_is_spent_refuses_and_others_do_not_until_the_life_is(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "b.db") as ledger:
        made = clinic()
        asked = session(ledger, made, budget=sl.PureDP(5), window_budget=sl.PureDP(2))
        for month in MONTHS[:2]:
            asked.release(sl.Count(epsilon=2), of=made.view("visit").within(month))
            before = balances(ledger)
            with pytest.raises(BudgetError, match=month):
                asked.release(sl.Count(epsilon="0.1"), of=made.view("visit").within(month))
            with pytest.raises(BudgetError, match="periods"):
                asked.release(sl.Count(epsilon="0.1"), of="visit")
            assert balances(ledger) == before
        with pytest.raises(BudgetError, match="scope 'clinic'"):  # the new month is empty, and forgets nothing
            asked.release(sl.Count(epsilon=2), of=made.view("visit").within(MONTHS[2]))
        assert balances(ledger) == (4, {"2024-01": 2, "2024-02": 2, "2024-03": 0})


def test_a_key_is_charged_once_and_names_its_months(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "b.db") as ledger:
        made = clinic()
        asked = session(ledger, made)
        found = [asked.release(sl.Count(epsilon=1), of=made.view("visit").within("2024-02"), key="k") for _ in range(2)]
        assert found[0].to_json() == found[1].to_json()
        assert balances(ledger)[0] == 1
        with pytest.raises(KeyReusedError):
            asked.release(sl.Count(epsilon=1), of=made.view("visit").within("2024-03"), key="k")


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"window_budget": None}, SchemaError, "say what a person's rows of one are promised"),
        ({"window_budget": 3}, RangeError, "must say what kind"),
        ({"window_budget": sl.PureDP(10)}, RangeError, "at least as much"),
        ({"window_budget": sl.ZCDP(50)}, RangeError, "at least as much"),
        ({"ledger": None}, RangeError, "outlive the process"),
        ({"database": lambda: clinic(dates={})}, SchemaError, "has none"),
    ],
)
def test_budgets_that_promise_nothing_are_refused(tmp_path: Path, given: Any, error: Any, message: str) -> None:
    book, database = tmp_path / "b.db", given.pop("database", clinic)()
    with pytest.raises(error, match=message):
        session(given.pop("ledger", book), database, **given)
    assert not book.exists()


def test_a_table_has_no_window(tmp_path: Path) -> None:
    people = sl.Table({"x": [1]}, schema=[sl.Number("x", granularity=1)])
    with pytest.raises(SchemaError, match="has none"):
        sl.Session(people, budget=sl.PureDP(1), window_budget=sl.PureDP(1), ledger=tmp_path / "b.db")


def test_refusals_of_a_release_charge_nothing_and_read_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = clinic()
    with open_ledger(tmp_path / "b.db") as ledger:
        asked = session(ledger, made)
        monkeypatch.setattr(type(made["visit"].rows), "batches", None)
        monkeypatch.setattr(type(made["person"].rows), "batches", None)
        with pytest.raises(RangeError, match="no table whose rows have a date"):
            asked.release(sl.Count(epsilon=1), of=made.view("person").within("2024-02"))
        with pytest.raises(SchemaError, match="none of them"):
            asked.sql("SELECT COUNT(*) FROM visit", epsilon=1, within="2025-02")
        with pytest.raises(LedgerError, match="nothing here keeps them"):
            seeded_release(sl.Count(epsilon=1), open_view(made.view("visit")), seed=1)
        assert balances(ledger)[0] == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"end": "2024-04"},
        {"start": "2023-12"},
        {"length": "week", "start": "2024-W01", "end": "2024-W13"},
        {"dates": {}},
    ],
)
@pytest.mark.planted("a window whose end moved; a month's rows in an empty account")
def test_a_window_never_changes(tmp_path: Path, changed: dict[str, Any]) -> None:
    book = tmp_path / "b.db"
    session(book)
    given: dict[str, Any] = {} if changed.get("dates", True) else {"window_budget": None}
    with pytest.raises(ScopeError, match="never changes"):  # before anything was released
        session(book, clinic(**changed), **given)
    session(book).release(sl.Count(epsilon=1), of="visit")
    with pytest.raises(ScopeError, match="never changes"):
        session(book, clinic(**changed), **given)


def test_a_window_does_not_begin_after_a_release(tmp_path: Path) -> None:
    book = tmp_path / "b.db"
    session(book, clinic(dates={}), window_budget=None).release(sl.Count(epsilon=1), of="visit")
    with pytest.raises(ScopeError, match="never changes"):
        session(book)
    with open_ledger(tmp_path / "c.db") as ledger:
        session(ledger, clinic(dates={}), window_budget=None)
        ledger.record_external({"clinic": sl.Claims.of(sl.PureDP(1, unit=clinic().unit))}, note="another tool")
        with pytest.raises(ScopeError, match="before it had a window"):
            session(ledger)


def test_a_session_without_a_window_that_is_still_open_releases_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = tmp_path / "b.db"
    old = session(book, clinic(dates={}), window_budget=None)
    late = session(book)  # nothing was released yet
    with pytest.raises(ScopeError, match="now there is none"):
        old.release(sl.Count(epsilon=1), of="visit")
    late.release(sl.Count(epsilon=1), of="visit")
    # of two at the same time: the one without a window has checked, and charges before the window is there
    book = tmp_path / "c.db"
    old = session(book, clinic(dates={}), window_budget=None)
    after_the_check(monkeypatch, lambda: old.release(sl.Count(epsilon=1), of="visit"))
    with pytest.raises(ScopeError, match="before it had a window"):
        session(book)


def test_two_sessions_may_open_a_window_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = tmp_path / "b.db"
    query = sl.Count(epsilon="0.1")
    after_the_check(monkeypatch, lambda: session(book).release(query, of="visit"))
    assert session(book).release(query, of="visit").private


def after_the_check(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen once, after a session has seen that nothing was charged and before it opens a window."""
    opened = PeriodAccounts._check_unspent

    def check(accounts: PeriodAccounts, found: str | None) -> None:
        opened(accounts, found)
        monkeypatch.setattr(PeriodAccounts, "_check_unspent", opened)
        act()

    monkeypatch.setattr(PeriodAccounts, "_check_unspent", check)


def test_the_unit_of_a_period_is_written_and_read() -> None:
    unit = PersonPeriod("clinic: north", "month")
    assert unit_from_text(unit_to_text(unit)) == unit
    for text in ("person-period:hour:clinic", "person-period:month:"):
        with pytest.raises(ClaimError):
            unit_from_text(text)
    with pytest.raises(RangeError):
        PersonPeriod("clinic", "hour")  # type: ignore[arg-type]


# --- brute force: how far one month moves a statistic ----------------------------------------------------------------

GROUPS = ("x", "y")


def _moves(view: Any, *, max_groups: int | None = None, rows: int = 3) -> int:
    """Return the largest L1 distance that one month of a person moves counts by group, over all bundles of few rows."""
    kinds = list(itertools.product(MONTHS, GROUPS))
    worst = 0
    for size in range(rows + 1):
        for bundle in itertools.combinations_with_replacement(kinds, size):
            whole = _counts(view, bundle, max_groups)
            for month in {each[0] for each in bundle}:
                left = _counts(view, tuple(each for each in bundle if each[0] != month), max_groups)
                worst = max(worst, sum(abs(whole[group] - left[group]) for group in whole | left))
    return worst


_KNOWN: dict[Any, Counter[Any]] = {}


def _counts(view: Any, bundle: tuple[tuple[str, str], ...], max_groups: int | None) -> Counter[Any]:
    if (view, bundle) not in _KNOWN:
        day = sl.Date("day", start="2024-01-01", end="2024-12-31")
        data = {"who": ["p"] * len(bundle), "day": [f"{month}-09" for month, _ in bundle], "g": [g for _, g in bundle]}
        group = sl.Category("g", GROUPS, other=None)
        made = sl.Database(
            {
                "person": sl.Table({"who": ["p"]}, schema=[PERSON]),
                "visit": sl.Table(data, schema=[sl.PersonId("who", max_rows=1), day, group]),
            },
            name="clinic",
            window=sl.Window("month", start=MONTHS[0], end=MONTHS[-1], dates={"visit": "day"}),
        )
        asked, by = view(made)
        table = open_view(asked)
        found = group_counts(table, groups_of(table.schema, by=by, max_groups=max_groups)).value
        _KNOWN[view, bundle] = Counter({place: int(each) for place, each in enumerate(np.ravel(found))})
    return _KNOWN[view, bundle]


def _one_month(made: sl.Database) -> Any:
    return made.view("visit").within("2024-02"), "g"


def _all_months(made: sl.Database) -> Any:
    return made.view("visit"), "g"


def _timeless(made: sl.Database) -> Any:
    number = sl.fold.count("visit", upper=2)
    return sl.per_person(made, of="person", n=number, g=sl.fold.any("visit", sl.col("g") == "x")).within("2024-02"), "g"


@pytest.mark.parametrize(("view", "steps"), [(_one_month, 1), (_all_months, 2), (_timeless, 2)])
def test_one_month_moves_as_many_steps_as_it_is_charged(view: Any, steps: int, tmp_path: Path) -> None:
    """Caps of k = 1, so one step is 1: bounds are attained, and the charge is what the bound is."""
    assert _moves(view, max_groups=None if view is _timeless else 1) == steps
    made = clinic(dates={"visit": "day"})
    of = {"_one_month": made.view("visit").within("2024-02"), "_all_months": made.view("visit")}
    people = sl.per_person(made, of="person", n=sl.fold.count("visit", upper=2)).within("2024-02")
    with open_ledger(tmp_path / "b.db") as ledger:
        session(ledger, made).release(sl.Count(epsilon="0.5"), of=of.get(view.__name__, people))
        assert balances(ledger)[1]["2024-02"] == Fraction(steps, 2)


# --- attacks: the loss of somebody who came in every month ------------------------------------------------------------

COPIES = 5_000
PRICE = 0.5


def _many(present: dict[str, bool]) -> sl.Database:
    """Return many copies of one person, each with a cell of their own and a visit in the months in which they came."""
    labels = [f"c{place}" for place in range(COPIES)]
    days = [f"{month}-09" for month in MONTHS if present[month]]
    who = labels * len(days)
    dated = [day for day in days for _ in labels]
    visits: dict[str, list[Any]] = {"who": who, "id": list(range(len(who))), "day": dated}
    return clinic({"who": labels, "sex": labels}, visits)


def _told(present: dict[str, bool], ask: Any, *, events: Any, seed: str) -> tuple[float, Any]:
    """Return how often an event was seen over all copies, and the ledger that was charged."""
    made = _many(present)
    ledger = open_ledger("sqlite://", testing=True)
    asked = SeededSession(made, seed=seed, budget=sl.PureDP(9), window_budget=sl.PureDP(3), ledger=ledger)
    answers = [asked.release(query, of=view).value for query, view in ask(made)]
    return float(events(answers).mean()), ledger


def _loss(before: dict[str, bool], after: dict[str, bool], ask: Any, events: Any) -> tuple[float, float, Any]:
    """Return the log of the ratio of an event's frequency, what it may be off by (one in 10^7), and the ledger."""
    (one, ledger), (other, _) = (_told(each, ask, events=events, seed=f"window {each}") for each in (before, after))
    error = math.sqrt(sum((1 - each) / (each * COPIES) for each in (one, other)))
    return math.log(one / other), 5.4 * error, ledger


def _cells(value: Any) -> Any:
    return np.asarray(value["unbiased"], dtype=float)


def _each_month(made: sl.Database) -> list[Any]:
    return [(sl.Count(by="person.sex", epsilon=str(PRICE)), made.view("visit").within(month)) for month in MONTHS]


def _always(answers: list[Any]) -> Any:
    first, second, third = map(_cells, answers)
    return (first >= 1) & (second >= 1) & (third >= 1)


ALL, NEVER = dict.fromkeys(MONTHS, True), dict.fromkeys(MONTHS, False)


@functools.cache
def _loss_of_all_months() -> tuple[float, float, Any]:
    return _loss(ALL, NEVER, _each_month, _always)


def test_somebody_who_came_every_month_loses_the_sum_and_is_charged_it() -> None:
    """Three months at 0.5 each: epsilon 1.5 for a person, 0.5 for each month."""
    loss, error, ledger = _loss_of_all_months()
    life, months = balances(ledger)
    assert loss - error <= float(life) == 3 * PRICE
    assert loss + error >= 3 * PRICE  # attained: no smaller charge would be honest
    assert loss - error > max(map(float, months.values())) == PRICE  # what a renewed budget would have claimed
    month, error, ledger = _loss(ALL, ALL | {"2024-02": False}, _each_month, lambda found: _cells(found[1]) >= 1)
    assert month - error <= float(balances(ledger)[1]["2024-02"]) == PRICE <= month + error


@pytest.mark.planted("period charged but lifetime not")
def test_a_lifetime_that_is_not_charged_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_periods_alone(scope: Scope, claims: Any, *, request: Any, beside: Any = None, **more: Any) -> Any:
        del claims
        return scope.ledger.reserve(beside, request=request, **more)

    monkeypatch.setattr(Scope, "reserve", of_periods_alone)
    loss, error, ledger = _loss(ALL, NEVER, _each_month, _always)
    assert loss - error > float(balances(ledger)[0]) == 0


@pytest.mark.planted("lifetime as the parent of the periods: the largest instead of the sum")
def test_the_dearest_month_instead_of_the_sum_is_refuted() -> None:
    loss, error, ledger = _loss_of_all_months()
    largest = ledger.scope("clinic:periods").totals().epsilon / 1e30
    assert loss - error > largest == PRICE


def _by_visits(made: sl.Database) -> list[Any]:
    people = sl.per_person(made, of="person", came=sl.fold.any("visit", sl.col("day") >= "2024-01-01")).within(
        "2024-02"
    )
    return [(sl.Count(by=["sex", "came"], epsilon=str(PRICE)), people)]


def _moved(answers: list[Any]) -> Any:
    cells = _cells(answers[0]).reshape(COPIES, 2)
    return (cells[:, 1] >= 1) & (cells[:, 0] <= 0)


def _timeless_loss() -> tuple[float, float, float]:
    loss, error, ledger = _loss(ALL, ALL | {"2024-02": False}, _by_visits, _moved)
    return loss, error, float(balances(ledger)[1]["2024-02"])


def test_a_month_of_somebody_who_stays_costs_two_steps() -> None:
    loss, error, charged = _timeless_loss()
    assert loss - error <= charged == 2 * PRICE <= loss + error


@pytest.mark.planted("period claims of one step for a timeless base")
def test_one_step_for_a_timeless_base_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persons_and_periods, "claims_to_replace", lambda claims: claims)
    loss, error, charged = _timeless_loss()
    assert loss - error > charged == PRICE


# --- all or none ------------------------------------------------------------------------------------------------------


def _die_at(event: str, name: str) -> Any:
    """Return a trace function that kills the process when the ledger calls a function, or returns from it."""

    def trace(frame: Any, found: str, _: Any) -> Any:
        if frame.f_code.co_qualname == name and frame.f_globals["__name__"].startswith("sidelight.ledger"):
            if found == event:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace
        return None

    return trace


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("event", "name", "charged"),
    [("call", "book", 0), ("return", "book", 0), ("return", "reserve", 0), ("call", "Reservation.__init__", 1)],
)
def test_a_process_that_dies_charges_both_or_neither(tmp_path: Path, event: str, name: str, charged: int) -> None:
    """Killed before the totals are written, between that and the commit, and after it."""
    made, book = clinic(), tmp_path / "b.db"
    session(book, made)
    child = os.fork()
    if not child:
        try:
            asked = session(book, made)
            asked.periods.account("2024-02")
            sys.settrace(_die_at(event, name))
            asked.release(sl.Count(epsilon=1), of=made.view("visit").within("2024-02"))
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    with open_ledger(book) as ledger:
        assert ledger.verify().ok
        assert balances(ledger) == (charged, {"2024-01": 0, "2024-02": charged, "2024-03": 0})


_RACE = """
import sys, sidelight as sl
sys.path.insert(0, sys.argv[3])
from test_windows import clinic, session
made = clinic()
asked, granted = session(sys.argv[1], made), 0
for _ in range(40):
    try:
        asked.release(sl.Count(epsilon="0.1"), of=made.view("visit").within(sys.argv[2]))
        granted += 1
    except sl.errors.BudgetError:
        break
print(granted)
"""


@pytest.mark.slow
def test_two_processes_at_once_never_overspend(tmp_path: Path) -> None:
    book = tmp_path / "b.db"
    session(book)
    command = [sys.executable, "-c", _RACE, str(book), "2024-02", str(Path(__file__).parent)]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    granted = [int(run.communicate()[0]) for run in runs]
    assert sum(granted) == 30
    with open_ledger(book) as ledger:
        assert ledger.verify().ok
        assert balances(ledger) == (3, {"2024-01": 0, "2024-02": 3, "2024-03": 0})


def _pairs_clinic(visits: dict[str, list[Any]]) -> sl.Database:
    day = sl.Date("day", start="2024-01-01", end="2024-12-31")
    drugs = {"who": ["a", "a", "b"], "dose": [1, 2, 1]}
    dose = sl.Number("dose", lower=0, upper=3, granularity=1)
    return sl.Database(
        {
            "visit": sl.Table(visits, schema=[VISIT, sl.Key("id"), day]),
            "drug": sl.Table(drugs, schema=[VISIT, dose]),
        },
        name="clinic",
        window=sl.Window("month", start=MONTHS[0], end=MONTHS[-1], dates={"visit": "day"}),
    )


def test_pairs_are_charged_to_the_periods_of_their_dated_side(tmp_path: Path) -> None:
    """One step where the one month of a side is all that the pairs rest on, two where other months' rows stay."""
    visits = {"who": ["a", "a", "b"], "id": [1, 2, 3], "day": [f"{month}-09" for month in MONTHS]}
    made = _pairs_clinic(visits)
    pairs = made.pairs("visit", "drug", max_rows=9)
    with open_ledger(tmp_path / "b.db") as ledger:
        asked = session(ledger, made)
        asked.release(sl.Count(epsilon="0.5"), of=pairs.within("2024-02"))
        assert balances(ledger) == (Fraction(1, 2), {"2024-01": 0, "2024-02": Fraction(1, 2), "2024-03": 0})
        asked.release(sl.Count(epsilon="0.25"), of=pairs.within("2024-02", "2024-03"))
        asked.release(sl.Count(epsilon="0.125"), of=pairs)
        assert balances(ledger) == (
            Fraction(7, 8),
            {"2024-01": Fraction(1, 4), "2024-02": Fraction(5, 4), "2024-03": Fraction(3, 4)},
        )
        with pytest.raises(SchemaError, match="already"):
            pairs.within("2024-02").within("2024-03")


def test_pairs_within_a_month_read_its_rows_alone() -> None:
    visits = {"who": ["a", "a", "b"], "id": [1, 2, 3], "day": [f"{month}-09" for month in MONTHS]}
    pairs = _pairs_clinic(visits).pairs("visit", "drug", max_rows=9)
    found = {
        within: made_rows(pairs.within(*within) if within else pairs).length
        for within in ((), ("2024-01",), ("2024-03",), ("2024-02", "2024-03"))
    }
    assert found == {(): 5, ("2024-01",): 2, ("2024-03",): 1, ("2024-02", "2024-03"): 3}
