"""Sessions of a database: refusals before a row is read, restated claims, and what a ledger keeps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks.audit_extremes import MAKERS, Dice

import sidelight as sl
from sidelight.errors import (
    BudgetError,
    ClaimError,
    KeyReusedError,
    RangeError,
    SchemaError,
    ScopeError,
    SidelightError,
)
from sidelight.guarantees import Person, PersonOf, Row, claims_to_replace, rows_of_unit, unit_from_text, unit_to_text
from sidelight.ledger import Scope
from sidelight.published.paid_report import PaidFit
from sidelight.records import Schema, Table
from sidelight.regression.losses import LogisticLoss
from sidelight.session import persons_and_periods
from sidelight.session.paid_estimator import ExternalRows
from sidelight.session.persons_and_periods import names_in, restated
from sidelight.stability.pate.labels import NoisyLabels
from sidelight.tuning import PublicScore, Selection

COST = sl.Number("cost", lower=0, upper=9, granularity=1)
VISIT: list[Any] = [sl.PersonId("who", max_rows=3), sl.Key("id"), sl.Reference("ward", to="ward"), COST]
WARD: list[Any] = [sl.Key("ward"), sl.Category("floor", ["1", "2"])]
VISITS = {"who": ["a", "a", "b"], "id": [1, 2, 3], "ward": ["x", "y", "x"], "cost": [1, 2, 3]}


def clinic(**changed: Any) -> sl.Database:
    tables: dict[str, Any] = {
        "person": sl.Table(
            {"who": ["a", "b"], "sex": ["F", "M"]},
            schema=[sl.PersonId("who", max_rows=1), sl.Category("sex", ["F", "M"])],
        ),
        "visit": sl.Table(VISITS, schema=VISIT),
        "drug": sl.Table(
            {"visit": [1, 1, 3, 9], "dose": [1, 2, 3, 4]},
            schema=[sl.PersonVia("visit", to="visit", max_rows=5), sl.Number("dose", lower=0, upper=9, granularity=1)],
        ),
        "ward": sl.Table({"ward": ["x", "y"], "floor": ["1", "2"]}, schema=WARD, public=True),
    }
    return sl.Database({name: table for name, table in (tables | changed).items() if table}, name="clinic")


def _visit(*columns: Any, data: dict[str, Any] | None = None) -> Table:
    return sl.Table(VISITS if data is None else data, schema=[*columns, COST])


WHO, KEY, TO_WARD = VISIT[0], VISIT[1], VISIT[2]
REFUSED: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "no path to a person": (lambda: {"visit": _visit(KEY), "drug": None}, "no path to a person"),
    "unknown table": (
        lambda: {"visit": _visit(WHO, KEY, sl.Reference("ward", to="wards"))},
        "leads to a table 'wards'",
    ),
    "no key there": (lambda: {"visit": _visit(WHO, TO_WARD)}, "declares no sl.Key"),
    "two columns for one": (lambda: {"visit": _visit(WHO, KEY, sl.Reference("ward", "id", to="ward"))}, "2 column"),
    "circle": (
        lambda: {
            "visit": _visit(sl.PersonVia("id", to="drug", max_rows=2), KEY),
            "drug": sl.Table({"v": [1]}, schema=[sl.PersonVia("v", to="visit", max_rows=2), sl.Key("v")]),
        },
        "circle",
    ),
    "person in a public table": (
        lambda: {"visit": _visit(sl.PersonVia("ward", to="ward", max_rows=2), KEY)},
        "is public",
    ),
    "public to private": (
        lambda: {
            "ward": sl.Table(
                {"ward": ["x"], "floor": ["1"]}, schema=[*WARD, sl.Reference("floor", to="visit")], public=True
            )
        },
        "public ones may not",
    ),
    "keys of two kinds": (
        lambda: {"ward": sl.Table(_typed([1, 2], ["1", "2"]), schema=WARD, public=True), "visit": _typed_visit()},
        "two kinds",
    ),
    "repeated public key": (
        lambda: {"ward": sl.Table({"ward": ["x", "x"], "floor": ["1", "2"]}, schema=WARD, public=True)},
        r"key \('x',\) twice",
    ),
    "a reading of a key": (
        lambda: {
            "visit": _visit(sl.PersonId("who", max_rows=3), sl.Category("ward", ["x"], casefold=True), KEY, TO_WARD)
        },
        "letter for letter",
    ),
    "ids read in two ways": (lambda: {"visit": _visit(sl.PersonId("who", max_rows=3, strip=True), KEY)}, "in two ways"),
    "no table": (lambda: {"visit": "visit.csv"}, "holds sl.Table"),
}


def _typed(ward: list[Any], floor: list[str]) -> Any:
    return {"ward": np.array(ward), "floor": floor}


def _typed_visit() -> Table:
    return _visit(WHO, KEY, TO_WARD, data=VISITS | {"ward": np.array(["x", "y", "x"])})


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_declaration_is_refused_when_the_database_is_made(name: str) -> None:
    changed, message = REFUSED[name]
    with pytest.raises(SchemaError, match=message):
        clinic(**changed())


def test_floats_are_not_keys() -> None:
    with pytest.raises(SchemaError, match="whole numbers or texts"):
        clinic(visit=_visit(WHO, KEY, TO_WARD, data=VISITS | {"id": np.array([1.0, 2.0, 3.0])}))


def test_a_row_finds_its_person_in_one_way_and_a_public_one_has_none() -> None:
    with pytest.raises(SchemaError, match="in one way"):
        Schema([WHO, sl.PersonVia("id", to="visit", max_rows=2)])
    with pytest.raises(SchemaError, match="public table has no person"):
        sl.Table(VISITS, schema=[WHO, COST], public=True)
    with pytest.raises(SchemaError, match="open the session on it"):
        _ = Schema([sl.PersonVia("id", to="visit", max_rows=2), COST]).unit


def test_refusals_read_no_row_and_charge_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    database, another = clinic(), clinic()
    session, untouched = sl.Session(database, budget=sl.PureDP(3)), sl.Session(another, budget=sl.PureDP(3))

    def read(*_: Any, **__: Any) -> Any:
        raise AssertionError("a row was read")

    for name in ("person", "visit", "drug"):
        monkeypatch.setattr(type(database[name].rows), "batches", read)
    count = sl.Count(epsilon=1)
    for refused in (
        lambda: session.release(count),
        lambda: session.release(count, of="ward"),
        lambda: session.release(count, of="vist"),
        lambda: session.release(count, of=another.view("visit")),
        lambda: session.release(sl.Count(by="person.age", epsilon=1), of="visit"),
        lambda: session.release(sl.Count(epsilon=5), of="visit"),
        lambda: sl.Session(database["visit"], budget=sl.PureDP(1)),
        lambda: sl.Session(database["drug"], budget=sl.PureDP(1)),
        lambda: sl.Session(database["ward"], budget=sl.PureDP(1)),
        lambda: count.release(database["visit"]),
        lambda: session.table,
        lambda: database.view("visit", drugs=sl.fold.count("person", upper=3)),
        lambda: database.view("person", floors=sl.fold.count("ward", upper=3)),
        lambda: sl.per_person(database, of="person", costs=sl.fold.mode("visit", "cost")),
        lambda: sl.per_person(database, of="person", where=sl.col("sex")),
    ):
        with pytest.raises((SchemaError, BudgetError)):
            refused()
    assert str(session.remaining) == str(untouched.remaining)


def test_views_share_one_budget_for_the_person() -> None:
    database = clinic()
    session = sl.Session(database, budget=sl.PureDP(3))
    found = session.release(sl.Count(by="person.sex", epsilon=1), of="drug")
    assert found.guarantee.unit == PersonOf("clinic")
    assert found.query["view"]["paths"]["drug"] == "via visit to visit by id"
    people = sl.per_person(database, of="person", doses=sl.fold.sum("drug", "dose", lower=0, upper=20))
    assert session.release(sl.Mean("doses", epsilon=1), of=people).guarantee.unit == PersonOf("clinic")
    found = session.release(sl.Count(by="floor", max_groups=1, epsilon=1), of="visit")
    assert set(found.query["view"]["public"]) == {"ward"}
    with pytest.raises(BudgetError):
        session.release(sl.Count(epsilon="0.001"), of="person")


def test_claims_for_a_row_are_restated_for_a_grouped_view_alone() -> None:
    database = clinic()
    grouped, rows = sl.per_person(database, of="visit", n=sl.fold.count("drug", upper=2)), database.view("visit")
    row = sl.Claims.of(sl.PureDP(1, unit=Row()))
    assert restated(row, grouped).unit == PersonOf("clinic")
    assert restated(row.with_unit(Person("who", 3)), rows).unit == PersonOf("clinic")
    for unit in (Row(), Person("who", 1), Person("other", 3), PersonOf("clinic")):
        with pytest.raises(ClaimError, match="nothing was charged"):
            restated(row.with_unit(unit), rows)
    for unit in (Person("who", 1), PersonOf("clinic")):
        with pytest.raises(ClaimError):
            restated(row.with_unit(unit), grouped)
    with pytest.raises(ClaimError, match="not public"):
        restated(claims_to_replace(row), grouped)


class _ForOneRow:
    """A query that counts rows, never caps them, and claims its price for one row."""

    def prepare(self, schema: Schema) -> Any:
        return sl.Count(of="rows", epsilon=1).prepare(
            Schema([each for each in schema.columns if each != schema.person])
        )


def test_a_query_that_prices_one_row_is_refused_on_rows_of_persons() -> None:
    session = sl.Session(clinic(), budget=sl.PureDP(3))
    with pytest.raises(ClaimError, match="protects one row"):
        session.release(_ForOneRow(), of="visit")


@pytest.mark.planted("row claims restated for a view that is not grouped by owner")
def test_restating_by_type_alone_sells_a_row_as_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        persons_and_periods, "restated", lambda claims, view: claims.with_unit(PersonOf(view.tables.name))
    )
    database = clinic()
    session = sl.Session(database, budget=sl.PureDP(3))
    claimed = session.release(_ForOneRow(), of="visit").guarantee.pure()
    honest = sl.Count(of="rows", epsilon=1).prepare(database.view("visit").schema)
    assert claimed is not None
    assert claimed.epsilon == 1  # with noise for one row, where a person has three
    assert honest.claims.unit == Person("who", 3)


def test_rows_that_a_caller_brings_are_refused() -> None:
    database = clinic()
    session = sl.Session(database, budget=sl.PureDP(3))
    brought = sl.Table({"cost": [1, 2]}, schema=[COST])
    query = ExternalRows(prepared=sl.Count(epsilon=1).prepare(brought.schema), rows=brought)
    people = sl.per_person(database, of="visit", n=sl.fold.count("drug", upper=2))
    with pytest.raises(RangeError, match="that a caller brings"):
        session.release(query, of=people)
    with pytest.raises(RangeError):
        session.release(query, of="visit")
    with pytest.raises(SchemaError):
        query.release(session)
    assert str(session.remaining) == str(sl.Session(clinic(), budget=sl.PureDP(3)).remaining)


def _brought() -> dict[str, Any]:
    rows, labels = np.ones((4, 2)), np.array([0, 1, 0, 1])
    votes = NoisyLabels(votes=[[190, 7, 3], [4, 2, 194]], noise_scale=20)
    bought = PaidFit(loss=LogisticLoss(classes=(0, 1)), X=rows, y=labels, epsilon=1, delta="1e-6", data_norm=1)
    search = Selection(candidates=[votes], score=PublicScore(lambda _: 0.0, "nothing"), delta="1e-5")
    return {"votes": votes, "rows of a fit": bought, "votes in a search": search}


@pytest.mark.parametrize("name", sorted(_brought()))
def test_votes_and_rows_within_a_query_are_refused_on_views(name: str) -> None:
    """The price for the cap of a view, or for one row, says nothing about whose the votes are."""
    database = clinic()
    session = sl.Session(database, budget=sl.ApproxDP(9, "1e-4"))
    before = str(session.remaining)
    with pytest.raises(RangeError, match="that a caller brings"):
        session.release(_brought()[name], of=sl.per_person(database, of="visit", n=sl.fold.count("drug", upper=2)))
    with pytest.raises(RangeError):
        session.release(_brought()[name], of="visit")
    assert str(session.remaining) == before


def test_a_path_that_changed_is_refused_and_a_new_table_is_not(tmp_path: Any) -> None:
    book = tmp_path / "budget.db"
    sl.Session(clinic(drug=None), budget=sl.PureDP(3), ledger=book).release(sl.Count(epsilon=1), of="visit")
    assert "PureDP" in repr(sl.Session(clinic(), budget=sl.PureDP(3), ledger=book))
    payees = _visit(sl.PersonId("ward", max_rows=3), KEY)
    with pytest.raises(ScopeError, match="was found by 'person who'"):
        sl.Session(clinic(visit=payees), budget=sl.PureDP(3), ledger=book)


def test_paths_are_compared_at_every_release_of_sessions_that_opened_together(tmp_path: Any) -> None:
    book = tmp_path / "budget.db"
    payees = _visit(sl.PersonId("ward", max_rows=3), KEY)
    payers, others = (sl.Session(each, budget=sl.PureDP(3), ledger=book) for each in (clinic(), clinic(visit=payees)))
    payers.release(sl.Count(epsilon=1), of="visit")
    left = str(others.remaining)
    with pytest.raises(ScopeError, match="was found by 'person who'"):
        others.release(sl.Count(epsilon=1), of="visit")
    assert str(others.remaining) == left
    payers.release(sl.Count(epsilon=1), of="visit")


def test_of_two_requests_at_one_time_the_second_is_refused_before_a_row_is_read(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = tmp_path / "budget.db"
    changed = clinic(visit=_visit(sl.PersonId("ward", max_rows=3), KEY))
    payers, others = (sl.Session(each, budget=sl.PureDP(3), ledger=book) for each in (clinic(), changed))
    reserve = Scope.reserve

    def after_another(scope: Scope, *given: Any, **more: Any) -> Any:
        monkeypatch.setattr(Scope, "reserve", reserve)
        payers.release(sl.Count(epsilon=1), of="visit")
        monkeypatch.setattr(type(changed["visit"].rows), "batches", None)
        return reserve(scope, *given, **more)

    monkeypatch.setattr(Scope, "reserve", after_another)
    with pytest.raises(ScopeError, match="was found by 'person who'"):
        others.release(sl.Count(epsilon=1), of="visit")


@pytest.mark.parametrize("read", [{"casefold": True}, {"strip": True}, {"missing_texts": ["a"]}])
def test_how_ids_are_read_is_part_of_the_path(read: dict[str, Any]) -> None:
    read_so = clinic(
        person=None, drug=None, visit=sl.Table(VISITS, schema=[sl.PersonId("who", max_rows=3, **read), *VISIT[1:]])
    )
    assert read_so.linked.paths()["visit"] != clinic().linked.paths()["visit"]


@pytest.mark.parametrize(
    "columns",
    [
        [sl.PersonId("who", max_rows=2), *VISIT[1:]],
        [*VISIT[:3], sl.Number("cost", lower=1, upper=9, granularity=1)],
        [*VISIT[:2], sl.Reference("other", to="ward"), COST],
    ],
)
def test_a_key_returns_no_answer_that_was_bought_with_other_declarations(tmp_path: Any, columns: list[Any]) -> None:
    changed = clinic(visit=sl.Table(VISITS | {"other": ["y", "y", "y"]}, schema=columns))

    def ask(database: sl.Database) -> Any:
        people = sl.per_person(database, of="person", n=sl.fold.count("visit", upper=3, where=sl.col("cost") >= 1))
        session = sl.Session(database, budget=sl.PureDP(9), ledger=tmp_path / "budget.db")
        return session.release(sl.Mean("n", epsilon=1), of=people, key="once").to_json()

    assert ask(clinic()) == ask(clinic())
    with pytest.raises(KeyReusedError):
        ask(changed)


def test_a_release_of_a_view_says_how_many_rows_of_a_person_count() -> None:
    session = sl.Session(clinic(), budget=sl.PureDP(9))
    found = session.release(sl.Quantiles([0.5], column="cost", epsilon=1), of="visit")
    assert str(found.rows_counted).startswith("at most 3 rows of a person")


def test_labels_of_a_prediction_name_no_column() -> None:
    assert "sex" not in names_in(sl.Count(by="floor", max_groups=1, epsilon=1, prediction={"1": 3, "sex": 4}))
    assert "floor" in names_in(sl.Count(by="floor", max_groups=1, epsilon=1, prediction={"1": 3}))


def test_units_are_written_and_read_and_an_unknown_one_has_no_rows() -> None:
    unit = PersonOf("clinic: north")
    assert unit_from_text(unit_to_text(unit)) == unit
    with pytest.raises(ClaimError, match="has no cap"):
        rows_of_unit(unit)
    for unknown in (None, "row", object()):
        with pytest.raises(ClaimError):
            rows_of_unit(unknown)  # type: ignore[arg-type]
    with pytest.raises(RangeError):
        PersonOf("")


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_no_query_takes_one_row_for_a_unit_that_it_does_not_know(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema whose unit has no cap: every query raises, or prices it as it prices a person with three rows."""
    for number in range(6):
        made = _prepared_as(Person("who", 3), kind, number, monkeypatch)
        unknown = _prepared_as(PersonOf("clinic"), kind, number, monkeypatch)
        if unknown is not None:
            assert made is not None
            assert unknown == made


def _prepared_as(unit: Any, kind: str, number: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    with warnings.catch_warnings(), monkeypatch.context() as patched:
        warnings.simplefilter("ignore")
        patched.setattr(Schema, "unit", property(lambda _: unit))
        try:
            columns, query = MAKERS[kind](Dice(f"{kind} {number}"))
            if isinstance(query, tuple):
                return None
            claims = query.prepare(Schema([*columns, sl.PersonId("who", max_rows=3)])).claims
        except SidelightError:
            return None
    return claims.with_unit(Row())


def test_a_public_table_is_no_file_of_a_private_one(tmp_path: Any) -> None:
    file, link = tmp_path / "people.csv", tmp_path / "link.csv"
    file.write_text("who,job\n1,cook\n")
    link.symlink_to(file)
    private = sl.Table(file, schema=[sl.PersonId("who", max_rows=1), sl.Category("job", ["cook"])])
    for path in (file, link):
        public = sl.Table(path, schema=[sl.Key("job"), sl.Category("who", ["1"])], public=True)
        with pytest.raises(SchemaError, match="'b' is read from the file or frame of 'a'"):
            sl.Database({"a": private, "b": public}, name="clinic")


def test_a_reference_that_is_also_the_way_to_the_person_is_one_path() -> None:
    parent = sl.Table(
        {"who": ["a", "b"], "k1": [1, 2], "k2": [1, 1], "days": [3, 4]},
        schema=[
            sl.PersonId("who", max_rows=2),
            sl.Key("k1", "k2"),
            sl.Number("days", lower=0, upper=9, granularity=1),
        ],
    )
    both = [sl.PersonVia("k1", "k2", to="stay", max_rows=3), sl.Reference("k1", "k2", to="stay"), COST]
    child = sl.Table({"k1": [1, 2], "k2": [1, 1], "cost": [5, 6]}, schema=both)
    database = sl.Database({"stay": parent, "bill": child}, name="clinic")
    view = database.view("bill", columns=["days"])
    assert view.lookups["days"].name == "stay.days"
    assert database.view("stay", bills=sl.fold.count("bill", upper=3)).schema.number("bills").upper == 3
    session = sl.Session(database, budget=sl.PureDP(300_000))
    assert round(float(session.release(sl.Sum("days", epsilon=100_000), of="bill").value["sum"][0])) == 7


def test_a_table_may_consist_of_the_person_alone() -> None:
    members = sl.Table({"who": ["a", "b", "c"]}, schema=[sl.PersonId("who", max_rows=1)])
    with pytest.raises(SchemaError, match="at least one Number or Category"):
        sl.Session(members, budget=sl.PureDP(1)).release(sl.Count(epsilon=1))
    with pytest.raises(SchemaError, match="at least one Number or Category"):
        Schema([])
    database = clinic(member=sl.Table({"who": ["a", "b", "c"]}, schema=[sl.PersonId("who", max_rows=1)]))
    session = sl.Session(database, budget=sl.PureDP(300_000))
    assert round(float(session.release(sl.Count(epsilon=100_000), of="member").value["count"][0])) == 3
    people = sl.per_person(database, of="member", visits=sl.fold.count("visit", upper=9))
    mean = session.release(sl.Mean("visits", epsilon=100_000), of=people).value["mean"][0]
    assert float(mean) == pytest.approx(1, abs=0.01)
