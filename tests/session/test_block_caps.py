"""`cap="block"`: what limits a person is counted for each period alone, and one of n periods pays an n-th."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest, laplace
from test_windows import ALL, MONTHS, NEVER, _cells, _loss, _many, balances, clinic, session

import sidelight as sl
from plain_statistics import made_rows
from sidelight.aggregates import owners
from sidelight.aggregates.group_sums import group_counts, group_statistics
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.owners import Owners
from sidelight.aggregates.values import total_of, vector_of
from sidelight.aggregates.view_rows import open_view
from sidelight.errors import RangeError, SchemaError
from sidelight.ledger import open_ledger
from sidelight.records import PairedView, View
from sidelight.report import Item, Report, render
from sidelight.session import persons_and_periods
from sidelight.session.persons_and_periods import at_share, period_charge, prepared_for

ENDS = (MONTHS[0], MONTHS[-1])
GROUPS = ("x", "y")
Bundle = tuple[tuple[str, str, str], ...]


def history(bundle: Bundle) -> sl.Database:
    """Return one person's visits, and drugs that name them: rows are (table, month, group)."""
    day = sl.Date("day", start="2024-01-01", end="2024-12-31")
    group = sl.Category("g", GROUPS, other=None)
    tables = {}
    for name in ("visit", "drug"):
        rows = [(month, g) for table, month, g in bundle if table == name]
        data = {
            "who": ["p"] * len(rows),
            "id": [1] * len(rows),
            "day": [f"{month}-09" for month, _ in rows],
            "g": [g for _, g in rows],
            "n": [1 if g == "x" else -1 for _, g in rows],
        }
        link: Any = sl.Key("id") if name == "visit" else sl.Reference("id", to="visit")
        number = sl.Number("n", lower=-1, upper=1, granularity=1)
        tables[name] = sl.Table(data, schema=[sl.PersonId("who", max_rows=1), link, day, group, number])
    tables["person"] = sl.Table({"who": ["p"]}, schema=[sl.PersonId("who", max_rows=1)])
    return sl.Database(
        tables,
        name="clinic",
        window=sl.Window("month", start=ENDS[0], end=ENDS[1], dates={"visit": "day", "drug": "day"}),
    )


def _by_group(made: sl.Database, cap: Any) -> Any:
    return made.view("visit").within(*ENDS, cap=cap), "g"


def _folded(made: sl.Database, cap: Any) -> Any:
    more = sl.fold.count("drug", upper=2)
    return made.view("visit", n_drugs=more, some=sl.fold.any("drug", sl.col("g") == "x")).within(*ENDS, cap=cap), "some"


def _person_folds(made: sl.Database, cap: Any) -> Any:
    some = replace(sl.fold.any("drug", sl.col("g") == "x"), of_person=True)
    return made.view("visit", some=some).within(*ENDS, cap=cap), "some"


def _looked_up(made: sl.Database, cap: Any) -> Any:
    return made.view("drug", columns=["visit.g"]).within(*ENDS, cap=cap), "visit.g"


def _persons(made: sl.Database, cap: Any) -> Any:
    people = sl.per_person(made, of="visit", some=sl.fold.any("drug", sl.col("g") == "x"))
    return people.within(*ENDS, cap=cap), "some"


def _pairs(made: sl.Database, cap: Any) -> Any:
    return made.pairs("visit", "drug", max_rows=1).within(*ENDS, cap=cap), "visit.g"


def _totals(made: sl.Database, cap: Any) -> Any:
    return made.view("visit").within(*ENDS, cap=cap), ("g", "total")


def _vector(made: sl.Database, cap: Any) -> Any:
    return made.view("visit").within(*ENDS, cap=cap), ("g", "vector")


def statistic(view: Any, bundle: Bundle, cap: str) -> Any:
    """Return the exact statistic of a view: counts by group, or sums of bounded contributions."""
    asked, by = view(history(bundle), cap)
    table = open_view(asked)
    if isinstance(by, str):
        return group_counts(table, groups_of(table.schema, by=by)).value
    by, kind = by
    if kind == "vector":
        value, limit = vector_of(table.schema, "n", person_total=1)
        groups = replace(groups_of(table.schema, by=by, totals="vector"), totals=limit)
    else:
        value, groups = total_of(table.schema, "n", lower=-1, upper=1), groups_of(table.schema, totals=True)
    return group_statistics(table, groups, [value], kind="whole").values[0].value


def moves(view: Any, cap: str, *, rows: int = 4) -> tuple[int, int]:
    """Return how far one month, and a whole life, of a person with few rows moves a statistic, in L1."""
    tables = ("visit",) if view in (_by_group, _totals, _vector) else ("visit", "drug")
    kinds = list(itertools.product(tables, MONTHS, GROUPS))
    rows = rows if len(tables) == 1 else 3
    nothing, month, life = statistic(view, (), cap), 0, 0
    known: dict[Bundle, Any] = {}

    def found(bundle: Bundle) -> Any:
        if bundle not in known:
            known[bundle] = statistic(view, bundle, cap)
        return known[bundle]

    for size in range(1, rows + 1):
        for bundle in itertools.combinations_with_replacement(kinds, size):
            life = max(life, int(np.abs(found(bundle) - nothing).sum()))
            for gone in {each[1] for each in bundle}:
                left = found(tuple(each for each in bundle if each[1] != gone))
                month = max(month, int(np.abs(found(bundle) - left).sum()))
    return month, life


@pytest.mark.parametrize(
    ("view", "life"),
    [
        (_by_group, 3),
        (_folded, 3),
        (_person_folds, 3),
        (_persons, 3),
        (_totals, 3),
        (_vector, 3),
        (_looked_up, 1),
        (_pairs, 1),
    ],
)
def test_a_month_is_one_step_and_a_life_as_many_as_there_are_months(view: Any, life: int) -> None:
    """All caps are 1; every bundle of at most 4 rows, or 3 of two tables: a pair, or a row that finds, needs two."""
    assert moves(view, "block") == (1, life)


def test_pairs_of_three_months_are_three_steps_of_a_life() -> None:
    bundle = tuple((table, month, "x") for month in MONTHS for table in ("visit", "drug"))
    assert [np.sum(statistic(_pairs, bundle, cap)) for cap in ("block", "person")] == [3, 1]


@pytest.mark.parametrize(("view", "month"), [(_by_group, 2), (_totals, 2), (_vector, 2)])
def test_caps_over_months_move_by_two_steps(view: Any, month: int) -> None:
    assert moves(view, "person") == (month, 1)


@pytest.mark.planted("caps per period with a fold across periods")
def test_folds_across_months_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With k = 1 in each month, rows of other months change their group when one goes."""
    right = Owners.person_of

    def across(self: Owners, base: str, to: str, owner: Any) -> Any:
        del to
        return right(self, base, owner)

    monkeypatch.setattr(Owners, "matching", across)
    monkeypatch.setattr(Owners, "is_by_period", lambda self, name: self._by_period and name == "visit")
    assert moves(_folded, "block")[0] > 1


@pytest.mark.planted("period claims of one step for a cap over periods")
def test_one_step_for_a_cap_over_months_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One month moves counts by 2 where k = 1: the charge of a month is two steps, and one would be too little."""
    view = clinic().view("visit").within(*ENDS)
    prepared = prepared_for(sl.Count(epsilon="0.5").prepare(view.schema), view)

    def steps() -> float:
        charge = period_charge([prepared], prepared.claims)
        assert charge is not None
        return float(charge.claims.pure().epsilon / Fraction(1, 2))  # type: ignore[union-attr]

    moved = moves(_by_group, "person")[0]
    assert steps() == moved == 2
    monkeypatch.setattr(persons_and_periods, "claims_to_replace", lambda claims: claims)
    assert steps() < moved


# --- what is charged --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("price", "power"), [("epsilon", 1), ("mu", 1), ("rho", 2)])
def test_a_month_pays_its_share_and_the_life_what_was_stated(price: str, power: int) -> None:
    view = clinic().view("visit").within(*ENDS, cap="block")
    query: Any = at_share(sl.Count(**{price: "0.06"}), view)  # type: ignore[arg-type]
    prepared = prepared_for(query.prepare(view.schema), view)
    charge = period_charge([prepared], prepared.claims)
    assert charge is not None
    assert charge.periods is None
    for claims, stated in ((prepared.claims, Fraction("0.06")), (charge.claims, Fraction("0.06") / 3**power)):
        found = {"epsilon": claims.pure, "mu": claims.gdp, "rho": claims.zcdp}[price]()
        # noise on a grid proves a little less than what was asked for, and never more
        assert float(stated) * (1 - 1e-9) <= float(getattr(found, price)) <= float(stated)


def test_both_accounts_of_releases_batches_and_statements(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "b.db") as ledger:
        made = clinic()
        asked = session(ledger, made, budget=sl.PureDP(9), window_budget=sl.PureDP(3))
        view = made.view("visit").within("2024-01", "2024-02", cap="block")
        found = asked.release(sl.Count(by="person.sex", epsilon="0.5"), of=view)
        assert str(found.guarantee.pure()).startswith("PureDP(ε = 0.5")
        assert found.query["view"]["cap"] == "block"
        assert balances(ledger) == (
            Fraction(1, 2),
            {"2024-01": Fraction(1, 4), "2024-02": Fraction(1, 4), "2024-03": 0},
        )
        asked.sql("SELECT COUNT(*) FROM visit", epsilon="0.75", within=ENDS, cap="block")
        assert balances(ledger) == (
            Fraction(5, 4),
            {"2024-01": Fraction(1, 2), "2024-02": Fraction(1, 2), "2024-03": Fraction(1, 4)},
        )
        told = asked.sql("SELECT COUNT(*) FROM visit", epsilon="0.75", within=ENDS, cap="block", dry_run=True)
        assert "each of 3 periods" in str(told)
        assert "price: PureDP(ε = 0.75; " in str(told)
        batch = asked.release_together([sl.Count(epsilon="0.2"), sl.Count(epsilon="0.4")], of=view, delta="1e-9")
        assert len(batch) == 2
        life, months = balances(ledger)
        assert life == Fraction(5, 4) + Fraction(3, 5)
        assert months["2024-01"] == Fraction(1, 2) + Fraction(3, 10)
        assert ledger.verify().ok


def test_releases_reports_and_records_say_that_rows_count_for_each_month_alone(tmp_path: Path) -> None:
    said = "of each month alone: "
    with open_ledger(tmp_path / "b.db") as ledger:
        made = clinic()
        asked = session(ledger, made)
        visits = made.view("visit").within(*ENDS, cap="block")
        people = sl.per_person(made, of="visit", n=sl.fold.count("visit", upper=9)).within(*ENDS, cap="block")
        whole = asked.release(sl.Count(of="rows", epsilon="0.1"), of=made.view("visit").within(*ENDS))
        assert str(whole.rows_counted).startswith("at most 3 rows of a person")
        facts: dict[str, Any] = {"curator": "a", "curator_type": "Government", "authors": ["b"]}
        facts |= {"intended_use": "c", "region": "d"}
        details = asked.disclosure(**facts).record["deployment"]["privacy_loss"]["privacy_unit_details"]
        assert "each period alone" not in details
        found = [
            (asked.release(sl.Count(of="rows", epsilon="0.1"), of=visits), f"{said}at most 3 rows of a person"),
            (asked.release(sl.Count(by="person.sex", epsilon="0.1"), of=visits), f"{said}each person once"),
            (asked.release(sl.Quantiles([0.5], column="day", epsilon="0.1"), of=visits), f"{said}at most 3 rows"),
            (asked.sql("SELECT COUNT(*) FROM visit", epsilon="0.1", within=ENDS, cap="block"), f"{said}at most 3 rows"),
            (asked.release(sl.Mean("n", epsilon="0.1"), of=people), "one row of each person and month"),
            (
                asked.release(sl.Quantiles([0.5], column="n", epsilon="0.1"), of=people),
                "one row of each person and mon",
            ),
        ]
        for release, words in found:
            assert str(release.rows_counted).startswith(words)
            page = render(Report(title="x", day="2026-01-01", items=(Item(title="y", outcome=release),)))
            for text in (str(release), release._repr_html_(), str(release.to_dict()), page):
                assert words in text
            assert sl.outcome_from_json(release.to_json()).rows_counted == release.rows_counted
        details = asked.disclosure(**facts).record["deployment"]["privacy_loss"]["privacy_unit_details"]
        assert "declared for each table, and holds for each period alone where a release says so;" in details


def test_a_key_of_one_cap_is_not_one_of_the_other(tmp_path: Path) -> None:
    made = clinic()
    with open_ledger(tmp_path / "b.db") as ledger:
        asked = session(ledger, made)
        asked.release(sl.Count(epsilon="0.5"), of=made.view("visit").within(*ENDS), key="k")
        with pytest.raises(sl.errors.KeyReusedError):
            asked.release(sl.Count(epsilon="0.5"), of=made.view("visit").within(*ENDS, cap="block"), key="k")


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.3, False), (1 / 1.3, False)])
def test_the_law_of_the_noise_of_a_block(factor: float, right: bool) -> None:
    """Laplace of scale |B| k / ε; one 30 % off is rejected."""
    made = _many(NEVER)
    ledger = open_ledger("sqlite://", testing=True)
    asked = sl.testing.SeededSession(
        made, seed="blocks", budget=sl.PureDP(9), window_budget=sl.PureDP(3), ledger=ledger
    )
    view = made.view("visit").within(*ENDS, cap="block")
    cells = _cells(asked.release(sl.Count(by="person.sex", epsilon="1.5", of="persons"), of=view).value)
    drawn = cells + np.random.default_rng(5).uniform(-0.5, 0.5, len(cells))  # counts are whole
    assert bool(kstest(drawn, laplace(scale=3 / 1.5 * factor).cdf).pvalue > 1e-6) is right


def _all_at_once(made: sl.Database) -> list[Any]:
    return [(sl.Count(by="person.sex", epsilon="0.9"), made.view("visit").within(*ENDS, cap="block"))]


def test_somebody_who_came_every_month_loses_what_the_life_is_charged() -> None:
    loss, error, ledger = _loss(ALL, NEVER, _all_at_once, lambda found: _cells(found[0]) >= 5)
    life, months = balances(ledger)
    assert loss - error <= float(life) == 0.9
    assert loss - error > float(months["2024-02"]) == pytest.approx(0.3)


@pytest.mark.planted("caps per period at the price of a cap over the life")
def test_a_life_that_is_charged_one_period_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(View, "steps_of_life", 1)
    loss, error, ledger = _loss(ALL, NEVER, _all_at_once, lambda found: _cells(found[0]) >= 2)
    assert loss - error > float(balances(ledger)[0]) == 0.9


# --- refusals ---------------------------------------------------------------------------------------------------------


def with_last_visit() -> sl.Database:
    """Return a database in which a timeless row names a dated one."""
    day = sl.Date("day", start="2024-01-01", end="2024-12-31")
    people = {"who": ["a"], "last": [1]}
    visits = {"who": ["a"], "id": [1], "day": ["2024-01-09"]}
    return sl.Database(
        {
            "person": sl.Table(people, schema=[sl.PersonId("who", max_rows=1), sl.Reference("last", to="visit")]),
            "visit": sl.Table(visits, schema=[sl.PersonId("who", max_rows=3), sl.Key("id"), day]),
        },
        name="clinic",
        window=sl.Window("month", start=ENDS[0], end=ENDS[1], dates={"visit": "day"}),
    )


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda made: made.view("person").within(*ENDS, cap="block"), "have no date"),
        (lambda made: sl.per_person(made, of="person").within(*ENDS, cap="block"), "have no date"),
        (lambda made: made.pairs("visit", "person", max_rows=3).within(*ENDS, cap="block"), "have no date"),
        (lambda made: made.view("visit").within(*ENDS, cap="period"), "person"),
        (
            lambda made: made.view("visit", columns=["person.visit.day"]).within(*ENDS, cap="block"),
            "would be found in all of them",
        ),
        (
            lambda made: made.view("visit").within(*ENDS, cap="block").reading(["person.visit.day"]),
            "would be found in all of them",
        ),
    ],
)
def test_what_is_no_sum_over_periods_is_refused(ask: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        ask(with_last_visit())


def test_prices_that_cannot_be_divided_are_refused(tmp_path: Path) -> None:
    made = clinic()
    with open_ledger(tmp_path / "b.db") as ledger:
        asked = session(ledger, made, budget=sl.ApproxDP(9, "1e-6"), window_budget=sl.ApproxDP(3, "1e-6"))
        view = made.view("visit").within(*ENDS, cap="block")
        with pytest.raises(RangeError, match="cannot be divided"):
            asked.release(sl.Count(epsilon=1, delta="1e-7"), of=view)
        with pytest.raises(SchemaError, match="name them by within"):
            asked.sql("SELECT COUNT(*) FROM visit", epsilon=1, cap="block")
        assert all(not scope.entries() for scope in ledger.scopes())


# --- rows -------------------------------------------------------------------------------------------------------------


def test_rows_of_other_months_are_not_found() -> None:
    made = history((("visit", "2024-01", "x"), ("drug", "2024-01", "y"), ("drug", "2024-02", "y")))
    for cap, expected in (("person", ["x", "x"]), ("block", [None, "x"])):
        view = made.view("drug", columns=["visit.g"]).within(*ENDS, cap=cap)  # type: ignore[arg-type]
        assert sorted(made_rows(view).texts["visit.g"].tolist(), key=str) == expected


def test_timeless_rows_are_found_from_every_month() -> None:
    made = clinic()
    rows = made_rows(made.view("visit", columns=["person.sex"]).within(*ENDS, cap="block"))
    assert sorted(rows.texts["person.sex"].tolist()) == ["F", "F", "M"]
    people = sl.per_person(made, of="visit", people=sl.fold.count("person", upper=2)).within(*ENDS, cap="block")
    assert made_rows(people).numbers["people"].tolist() == [1, 1, 1]


def test_slices_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(8)
    size = 3000
    visits = {
        "who": [f"p{each}" for each in random.integers(0, 400, size)],
        "id": random.integers(0, 900, size).tolist(),
        "day": [f"2024-0{month}-0{day}" for month, day in random.integers(1, 4, (size, 2))],
    }
    people = {"who": [f"p{each}" for each in range(400)], "sex": random.choice(["F", "M"], 400).tolist()}
    made = clinic(people, visits)
    views: list[View | PairedView] = [
        sl.per_person(made, of="visit", n=sl.fold.count("visit", upper=9)).within(*ENDS, cap="block"),
        made.pairs("visit", "visit", max_rows=4).within(*ENDS, cap="block"),
    ]

    def found() -> list[Any]:
        counts = []
        for view in views:
            table = open_view(view)
            counts.append(np.asarray(group_counts(table, groups_of(table.schema)).value).tolist())
        return counts

    whole = found()
    monkeypatch.setattr(owners, "MOST_CELLS", 2000)
    assert found() == whole
    months = {(who, day[:7]) for who, day in zip(visits["who"], visits["day"], strict=True)}
    assert whole[0] == len(months)


# --- several processes, threads and forks on one ledger ---------------------------------------------------------------

RANGES = (("2024-01", "2024-02"), ("2024-02", "2024-03"), ENDS, ("2024-02", "2024-02"))
Granted = list[tuple[str, ...]]


def spend(asked: sl.Session, made: sl.Database, seed: int, *, tries: int = 20) -> Granted:
    """Ask about overlapping months, each capped alone at 0.1, in three ways; return what was granted, and errors."""
    draw, granted = np.random.default_rng(seed), Granted()
    for _ in range(tries):
        first, last = RANGES[draw.integers(len(RANGES))]
        price = f"{MONTHS.index(last) - MONTHS.index(first) + 1}e-1"
        view = made.view("visit").within(first, last, cap="block")
        try:
            way = draw.integers(3)
            if way == 0:
                asked.release(sl.Count(by="person.sex", epsilon=price), of=view)
            elif way == 1:
                asked.sql("SELECT COUNT(*) FROM visit", epsilon=price, within=(first, last), cap="block")
            else:
                asked.release(sl.Mean("day", epsilon=price), of=view)
            granted.append((first, last))
        except sl.errors.BudgetError:
            continue
        except sl.errors.LedgerError as error:
            granted.append((type(error).__name__,))
    return granted


def owed(granted: Granted) -> tuple[Fraction, dict[str, Fraction]]:
    """Return what the whole life and each month must have been charged for what was granted."""
    months = dict.fromkeys(MONTHS, Fraction(0))
    for each in granted:
        if len(each) == 2:
            for month in MONTHS[MONTHS.index(each[0]) : MONTHS.index(each[1]) + 1]:
                months[month] += Fraction(1, 10)
    return sum(months.values(), Fraction(0)), months


def charged_as_granted(book: Path, granted: Granted) -> bool:
    """Return whether a ledger has what was granted, no month more than its budget of 1, and one month all of it."""
    with open_ledger(book) as ledger:
        found = balances(ledger)
        return ledger.verify().ok and found == owed(granted) and max(found[1].values()) == 1


_SPENDS = """
import json, sys
sys.path.insert(0, sys.argv[3])
import sidelight as sl
from test_block_caps import spend
from test_windows import clinic, session
made = clinic()
asked = session(sys.argv[1], made, window_budget=sl.PureDP(1))
print(json.dumps(spend(asked, made, int(sys.argv[2]))))
"""


@pytest.mark.slow
def test_two_processes_charge_overlapping_months_all_or_none(tmp_path: Path) -> None:
    book = tmp_path / "b.db"
    command = [sys.executable, "-c", _SPENDS, str(book)]
    here = str(Path(__file__).parent)
    runs = [subprocess.Popen([*command, str(seed), here], stdout=subprocess.PIPE) for seed in (1, 2)]
    granted = [tuple(each) for run in runs for each in json.loads(run.communicate(timeout=300)[0])]
    assert charged_as_granted(book, granted)


def test_threads_on_one_session_and_on_another_charge_all_or_none(tmp_path: Path) -> None:
    book, made = tmp_path / "b.db", clinic()
    sessions = [session(book, made, window_budget=sl.PureDP(1)) for _ in range(2)]
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(spend, asked, made, seed, tries=12) for seed, asked in enumerate([*sessions, sessions[0]])]
        granted = [each for run in runs for each in run.result()]
    assert charged_as_granted(book, granted)


def test_a_fork_of_a_session_spends_nothing(tmp_path: Path) -> None:
    """Locks do not survive a fork: the child is refused, by its session and by a new one, and the parent goes on."""
    book, made = tmp_path / "b.db", clinic()
    asked = session(book, made, window_budget=sl.PureDP(1))
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            found = spend(asked, made, 3, tries=4)
            try:
                found += spend(session(book, made, window_budget=sl.PureDP(1)), made, 4, tries=4)
            except sl.errors.LedgerError as error:
                found.append((type(error).__name__,))
            os.write(write, json.dumps(found).encode())
        finally:
            os._exit(0)
    granted = spend(asked, made, 5)
    os.waitpid(child, 0)
    theirs = json.loads(os.read(read, 10_000))
    os.close(read)
    os.close(write)
    assert {each[0] for each in theirs} == {"LedgerError"}
    assert charged_as_granted(book, granted)


def test_one_key_in_two_sessions_is_charged_once(tmp_path: Path) -> None:
    book, made = tmp_path / "b.db", clinic()
    view = made.view("visit").within(*ENDS, cap="block")
    with ThreadPoolExecutor(2) as pool:

        def ask(_: int) -> Any:
            asked = session(book, made, window_budget=sl.PureDP(1))
            try:
                return asked.release(sl.Count(epsilon="0.3"), of=view, key="visits").value.count
            except sl.errors.InProgressError:
                return None

        found = [each for each in pool.map(ask, range(2)) if each is not None]
    assert len({float(each) for each in found}) == 1
    with open_ledger(book) as ledger:
        assert balances(ledger) == (Fraction(3, 10), dict.fromkeys(MONTHS, Fraction(1, 10)))
