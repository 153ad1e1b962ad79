"""Bugs that views, folds, caps and statements might have, planted into the real code, and found by its own checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from benchmarks.tables_brute_force import owned_rows, sampled, two_levels, violations, violations_of_months

import sidelight as sl
from sidelight.aggregates import collect, folds, owners, pairs
from sidelight.aggregates.contributions import Persons, places_that_count
from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import Groups, groups_of
from sidelight.aggregates.owners import ClaimedKeys, Owners
from sidelight.aggregates.view_rows import open_view
from sidelight.audit import audit_query
from sidelight.records.rows import Batch, Wanted
from sidelight.session.query import Answer
from sidelight.summaries.sql_query import PreparedSQL

WARDS = ("north", "south", "east")
#: Two wards are one region: a group that is derived from a looked-up label.
REGION = sl.col("visit.ward").lookup({"north": "coast", "south": "coast", "east": "inland"})


# --- caps come after every derived column -----------------------------------------------------------------------------


def hospital(rows: Mapping[str, list[Any]]) -> sl.Database:
    """Return one visit to each ward of every person, and drugs that name some of them."""
    people = sorted(set(rows["who"]))
    visits = [(who, f"{who} {ward}", ward) for who in people for ward in WARDS]
    columns = {name: [row[at] for row in visits] for at, name in enumerate(("who", "id", "ward"))}
    who, ward = sl.PersonId("who", max_rows=3), sl.Category("ward", WARDS, other=None)
    dose = sl.Number("dose", lower=0, upper=9, granularity=1)
    return sl.Database(
        {
            "visit": sl.Table(columns, schema=[who, sl.Key("id"), ward]),
            "drug": sl.Table(dict(rows), schema=[who, sl.Reference("visit", to="visit"), dose]),
        },
        name="hospital",
    )


def _regions(rows: Mapping[str, list[Any]]) -> tuple[Any, Groups]:
    table = open_view(hospital(rows).view("drug", columns=["visit.ward"]))
    groups = groups_of(table.schema, by=REGION, max_groups=2, max_rows_per_group=1)
    return group_counts(table, groups).value, groups


def beyond_the_norms() -> int:
    """Return how many bundles of at most 4 rows of a person move counts by region by more than their norms."""
    beyond = 0
    for size in range(1, 5):
        for bundle in combinations_with_replacement(WARDS, size):
            rows = {"who": ["p"] * size, "visit": [f"p {ward}" for ward in bundle], "dose": [1] * size}
            counts, groups = _regions(rows)
            moved = {"l1": np.abs(counts).sum(), "l2": float(np.sqrt((counts**2).sum())), "linf": counts.max()}
            beyond += any(moved[norm] > float(groups.norms.sensitivity(norm)) for norm in ("l1", "l2", "linf"))  # type: ignore[arg-type]
    return beyond


def test_no_person_moves_derived_groups_beyond_their_norms() -> None:
    assert beyond_the_norms() == 0


@pytest.mark.planted("cap before a derived group", of=("Count",))
def test_a_cap_before_a_derived_group_breaks_the_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row in each of two wards is within the cap by ward; both are in one region."""

    def capped(batches: Iterator[Batch], coding: Any, cap: Any, *, totals: Any, persons: Any = None) -> Any:
        del totals, persons
        ids, parts = Persons(), []
        for batch in batches:
            codes, kept = coding.kernel(batch)
            wards = np.array([WARDS.index(text) for text in batch.texts["visit.ward"].tolist()])
            stays = ids.fold(batch.person, kept)
            parts.append(tuple(each[stays] for each in (wards, *codes)))
        ward, *codes = (np.concatenate(each) for each in zip(*parts, strict=True))
        stays_at = places_that_count((ids, ids.numbers()), (ward,), (ward,), [(0, len(WARDS) - 1)], cap)
        return tuple(code[stays_at] for code in codes)

    monkeypatch.setattr(collect, "_capped", capped)
    assert beyond_the_norms() > 0


# --- which rows of a person count depends neither on other persons nor on the order of the file -----------------------


@pytest.mark.planted("cap by file order over all persons")
def test_a_cap_over_all_persons_couples_them(monkeypatch: pytest.MonkeyPatch) -> None:
    smalls = list(sampled(600, levels=2, seed=41))
    assert violations(smalls)[1] == 0
    monkeypatch.setattr(pairs, "places_that_count", lambda persons, *_: np.arange(len(persons[1]) // 2))
    assert violations(smalls)[1] > 0


DRUGS: dict[str, list[Any]] = {
    "who": ["p"] * 5 + ["q"] * 5,
    "visit": [f"{who} {WARDS[place % 3]}" for who in "pq" for place in range(5)],
    "dose": [3, 1, 4, 1, 5, 9, 2, 6, 5, 3],
}


def orders_that_differ(ask: Any) -> int:
    """Return in how many of a few orders of the rows of a table something else comes out."""
    draw = np.random.default_rng(41)
    expected, differ = ask(DRUGS), 0
    for _ in range(8):
        order = draw.permutation(len(DRUGS["who"]))
        differ += ask({name: [cells[place] for place in order] for name, cells in DRUGS.items()}) != expected
    return differ


def _by_region(rows: Mapping[str, list[Any]]) -> list[int]:
    counts: list[int] = _regions(rows)[0].tolist()
    return counts


def _by_ward(rows: Mapping[str, list[Any]]) -> list[int]:
    table = open_view(hospital(rows).view("drug", columns=["visit.ward"]))
    counts: list[int] = group_counts(table, groups_of(table.schema, by="visit.ward", max_groups=2)).value.tolist()
    return counts


def _first_doses(rows: Mapping[str, list[Any]]) -> Any:
    """Return the dose of the first row of each person, by an order in which all rows are equal."""
    same = {**rows, "day": [7] * len(rows["who"])}
    who, dose = sl.PersonId("who", max_rows=3), sl.Number("dose", lower=0, upper=9, granularity=1)
    day = sl.Number("day", lower=0, upper=9, granularity=1)
    people = {"who": sorted(set(rows["who"]))}
    made = sl.Database(
        {
            "person": sl.Table(people, schema=[sl.PersonId("who", max_rows=1), sl.Key("who")]),
            "drug": sl.Table(same, schema=[who, sl.Reference("who", to="person"), dose, day]),
        },
        name="hospital",
    )
    return owned_rows(made.view("person", early=sl.fold.first("drug", "dose", order="day")))


@pytest.mark.parametrize("ask", [_by_ward, _by_region, _first_doses])
def test_the_order_of_a_file_decides_nothing(ask: Any) -> None:
    assert orders_that_differ(ask) == 0


@pytest.mark.planted("cap by file order", of=("Count",))
def test_a_cap_by_file_order_is_found_by_other_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_rows(persons: Any, codes: Any, ranges: Any, cap: Any) -> Any:
        del ranges
        seen: dict[int, int] = {}
        stays = []
        for place, who in enumerate(persons[1].tolist()):
            seen[who] = seen.get(who, 0) + 1
            stays += [place] if seen[who] <= cap.rows else []
        return tuple(code[stays] for code in codes)

    monkeypatch.setattr(collect, "cap_arrays", first_rows)
    assert orders_that_differ(_by_ward) > 0


@pytest.mark.planted("ties of first by file order")
def test_ties_by_file_order_are_found_by_other_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "_mix", lambda rows, group, values: np.arange(len(group)))
    assert orders_that_differ(_first_doses) > 0


# --- owners -----------------------------------------------------------------------------------------------------------


@pytest.mark.planted("a line dated by itself and not by its order")
def test_a_line_dated_by_itself_couples_months(monkeypatch: pytest.MonkeyPatch) -> None:
    """An order of January with a line of February: without January the line of another month is gone."""
    claims, wanted = Owners.claims, Owners.wanted_for

    def by_itself(self: Owners, name: str, batch: Batch) -> ClaimedKeys:
        found, window = claims(self, name, batch), self.tables.window
        if window is None or self.tables.schema(name).via is None:
            return found
        date = next(each for each in self.tables.schema("t0").columns if isinstance(each, sl.Date))
        period, months = window.numbers_of(batch.numbers["day"], date), len(window.names)
        least, largest = (
            np.where(ends == owners.NONE, owners.NONE, ends // months * months + period)
            for ends in (found.least, found.largest)
        )
        return ClaimedKeys(least, largest)

    def with_day(self: Owners, name: str) -> Wanted:
        found = wanted(self, name)
        return found if self.tables.window is None else replace(found, numbers=("day",))

    smalls = list(sampled(60, levels=2, seed=38))
    assert violations_of_months(smalls)[1] == 0
    monkeypatch.setattr(Owners, "claims", by_itself)
    monkeypatch.setattr(Owners, "wanted_for", with_day)
    assert violations_of_months(smalls)[1] > 0


@pytest.mark.planted("contested keys decided per batch")
def test_keys_whose_claims_are_counted_per_batch_couple_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two orders with one key in two batches: each batch sees one claimant, and the last one owns the lines."""
    smalls = list(two_levels(most_top=2, most_low=1))
    assert violations(smalls)[1] == 0
    whole = owners._ends_by_key

    def per_batch(numbers: Any, low: Any, high: Any, size: int) -> ClaimedKeys:
        least, largest = np.full(size + 1, owners.NONE), np.full(size + 1, owners.NONE)
        for place in range(len(numbers)):
            at = slice(place, place + 1)
            part = whole(numbers[at], low[at], high[at], size)
            there = part.largest != owners.NONE
            least[there], largest[there] = part.least[there], part.largest[there]
        return ClaimedKeys(least, largest)

    monkeypatch.setattr(owners, "_ends_by_key", per_batch)
    assert violations(smalls)[1] > 0


# --- statements -------------------------------------------------------------------------------------------------------


@pytest.mark.planted("NULL for an outer SUM over nobody", of=("SQL",))
def test_a_null_for_a_sum_over_nobody_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL's NULL for a SUM over no rows, which would reveal an empty group."""
    schema = sl.Schema([sl.Category("kind", ["a", "b"], other=None), sl.Number("x", lower=0, upper=8, granularity=1)])
    query = sl.SQL("SELECT kind, SUM(x) AS total FROM t GROUP BY kind", epsilon=1)
    assert not audit_query(query, schema, runs=400, tries=12).refuted
    real = PreparedSQL.run

    def with_nulls(self: PreparedSQL, table: Any, source: Any) -> Answer:
        answer = real(self, table, source)
        rows = group_counts(table, groups_of(table.schema, by="kind")).value
        columns = {name: np.where(rows > 0, answer.value[name], np.nan) for name in answer.value.columns}
        value = replace_columns(answer.value, columns)
        return replace(answer, value=value)

    monkeypatch.setattr(PreparedSQL, "run", with_nulls)
    assert audit_query(query, schema, runs=400, tries=12).refuted


def replace_columns(table: Any, columns: dict[str, Any]) -> Any:
    """Return a table by group with other numbers."""
    return type(table)(keys=table.keys_of_groups, groups=table.groups, columns=columns, notes=table.notes)
