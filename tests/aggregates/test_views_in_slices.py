"""Views of whole numbers and of texts, all at once and in slices of persons: the same rows for everybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sidelight as sl
from sidelight.aggregates import owners
from sidelight.aggregates.group_sums import group_counts, group_statistics
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.key_numbers import NONE, KeyNumbers, Numbering
from sidelight.aggregates.values import vector_of
from sidelight.aggregates.view_rows import made_by_persons, open_view
from sidelight.errors import SchemaError
from sidelight.records import linked_tables
from sidelight.records.held_rows import GrowingRows
from sidelight.records.rows import Batch, DistinctTexts, Wanted, WholeIds

PEOPLE, KEYS = [*range(-2, 9), None], [*range(4), None]


def _clinic(seed: int, *, whole: bool) -> sl.Database:
    """Return tables with ids and keys that repeat, dangle, are missing or claimed by two; as numbers or as texts."""
    random = Random(seed)
    far = 10**12 if seed % 3 == 0 else 1  # too far apart to be numbered by their distance

    def ids(cells: list[int | None], size: int) -> Any:
        chosen = [None if cell is None else cell * far + 7 for cell in random.choices(cells, k=size)]
        if whole:
            return pa.array(chosen, pa.int64())
        return pa.array([None if cell is None else str(cell) for cell in chosen], pa.string())

    def cells(choices: list[Any], size: int) -> Any:
        return pa.array(random.choices(choices, k=size))

    persons, visits, drugs = random.randrange(14), random.randrange(40), random.randrange(60)
    n, x = sl.Number("n", lower=0, upper=9, granularity=1), sl.Number("x", lower=-4, upper=4)
    labels = ["a", "B", "\u00e9", "b", "", None]
    private: dict[str, tuple[dict[str, Any], list[Any]]] = {
        "person": (
            {
                "who": ids(PEOPLE, persons),
                "sex": cells(["F", "M", None], persons),
                "x": cells([1.5, -3.0, 99.0, None], persons),
                "ward": ids(KEYS, persons),
                "label": cells(labels, persons),
            },
            [
                *(sl.PersonId("who", max_rows=1), sl.Key("who"), sl.Category("sex", ["F", "M"]), x),
                *(sl.Reference("ward", to="ward"), sl.Label("label")),
            ],
        ),
        "visit": (
            {
                "who": ids(PEOPLE, visits),
                "one": ids(KEYS, visits),
                "two": ids(KEYS, visits),
                "n": cells([0, 1, 2, 3, None], visits),
                "label": cells(labels, visits),
            },
            [
                *(sl.PersonId("who", max_rows=4), sl.Key("one", "two"), sl.Reference("who", to="person")),
                *(n, sl.Label("label")),
            ],
        ),
        "drug": (
            {"one": ids(KEYS, drugs), "two": ids(KEYS, drugs), "n": cells([0, 1, 2, 9, None], drugs)},
            [sl.PersonVia("one", "two", to="visit", max_rows=4), n],
        ),
    }
    tables = {name: sl.Table(pa.table(columns), schema=schema) for name, (columns, schema) in private.items()}
    wards = {"ward": ids([0], 1), "floor": pa.array(["1"])}
    public = sl.Table(pa.table(wards), schema=[sl.Key("ward"), sl.Category("floor", ["1"])], public=True)
    return sl.Database({**tables, "ward": public}, name="clinic")


def _views(clinic: sl.Database) -> Iterator[Any]:
    fold, n = sl.fold, sl.col("n")
    drugs = {
        "number": fold.count("drug", upper=3),
        "some": fold.any("drug", n > 1),
        "total": fold.sum("drug", n * 3 - 2),
        "average": fold.mean("drug", "n", granularity="0.3"),
        "late": fold.last("drug", ["n", "visit.label"], order="n", where=sl.col("visit.n") > 0),
        "usual": fold.mode("drug", "visit.label"),
        "between": fold.gap("drug", "n", "largest"),
    }
    yield clinic.view("visit", columns=["person.sex", "person.x", "person.label", "person.ward.floor"], **drugs)
    yield clinic.view("drug", columns=["visit.label", "visit.person.sex", "person.x"])
    yield clinic.view("drug", number=replace(fold.count("visit", upper=9), of_person=True))
    yield sl.per_person(clinic, of="person", columns=["ward.floor"], **drugs)
    yield sl.per_person(clinic, of="person", where=sl.col("x") > 2, number=fold.count("visit", upper=9))
    yield sl.per_person(clinic, of="drug", where=sl.col("visit.n") > 1, usual=fold.mode("visit", "label"))


def _rows(view: Any) -> tuple[int, Counter[str]]:
    """Return in how many slices a view was made, and its rows."""
    found: Counter[str] = Counter()
    slices = 0
    for held, _ in made_by_persons(view, frozenset(view.schema.names)):
        slices += 1
        cells: dict[str, Any] = {**held.numbers, **held.texts}
        columns = [cells[name].tolist() for name in sorted(cells)]
        columns += [] if held.person is None else [held.person.tolist()]
        found.update(map(repr, zip(*columns, strict=True)))
    return slices, found


@pytest.mark.parametrize("seed", range(8))
def test_slices_and_texts_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clinics = [_clinic(seed, whole=whole) for whole in (True, False)]
    expected = [_rows(view) for view in _views(clinics[0])]
    assert {slices for slices, _ in expected} == {1}
    assert [_rows(view) for view in _views(clinics[1])] == expected
    monkeypatch.setattr(owners, "MOST_CELLS", 20)
    monkeypatch.setattr(owners, "_ROWS", 7)
    for clinic in clinics:
        found = [_rows(view) for view in _views(clinic)]
        assert [rows for _, rows in found] == [rows for _, rows in expected]
        assert seed != 1 or max(slices for slices, _ in found) > 3


@pytest.mark.parametrize("seed", range(4))
def test_statistics_of_persons_are_the_same_in_slices(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def counted() -> list[Any]:
        table = open_view(_clinic(seed, whole=True).view("drug", columns=["person.sex"]))
        by = groups_of(table.schema, by=sl.col("n").cut([0, 2, 5, 9]), max_groups=2, max_rows_per_group=1)
        sums = groups_of(table.schema, by="person.sex", totals="vector")
        value, limit = vector_of(table.schema, "n", person_total=7)
        vector = group_statistics(table, replace(sums, totals=limit), [value], kind="whole")
        return [group_counts(table, by).value.tolist(), vector.values[0].value.tolist()]

    expected = counted()
    monkeypatch.setattr(owners, "MOST_CELLS", 20)
    assert counted() == expected


@pytest.mark.planted("a person in two slices")
def test_a_person_in_two_slices_counts_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were slices not disjoint, the cap of a person would be applied in each of them."""
    clinic = _clinic(1, whole=True)
    table = open_view(clinic.view("visit"))
    expected = int(group_counts(table, groups_of(table.schema, max_rows_per_group=1)).value)
    monkeypatch.setattr(owners, "MOST_CELLS", 20)
    monkeypatch.setattr(owners, "_MOST_SLICES", 2)
    monkeypatch.setattr(owners.PersonSlice, "has", lambda self, persons: persons != NONE)
    table = open_view(clinic.view("visit"))
    assert int(group_counts(table, groups_of(table.schema, max_rows_per_group=1)).value) > expected


def test_whole_numbers_are_numbered_by_value_wherever_they_lie() -> None:
    ends = [-(2**63), 2**63 - 1]
    numbering = Numbering(whole=True)
    parts = [[5, 7, 9], [10, 5], [*ends, 6], [3, *ends, 10**15]]
    numbers = [numbering.of(WholeIds(np.array(part, np.int64)), grow=True).tolist() for part in parts]
    by_value: dict[int, set[int]] = {}
    for value, number in zip(chain(*parts), chain(*numbers), strict=True):
        by_value.setdefault(value, set()).add(number)
    assert all(len(found) == 1 for found in by_value.values())
    assert len({min(found) for found in by_value.values()}) == len(by_value)
    assert max(map(max, numbers)) < numbering.size
    for part, found in zip(parts, numbers, strict=True):
        assert numbering.cells(np.array(found)).tolist() == list(map(str, part))
    missing = WholeIds(np.array([5, 5, 4, 2**40]), np.array([True, False, True, True]))
    found = numbering.of(missing, grow=False).tolist()
    assert found[0] == numbers[0][0]
    assert found[1] == found[3] == NONE


def test_parts_of_whole_numbers_and_texts_make_one_key() -> None:
    keys = KeyNumbers([True, False])
    whole = WholeIds(np.array([1, 1, 2, 2]))
    texts = DistinctTexts(["x", "y", ""], np.array([0, 1, 0, 2]))
    numbers = keys.of([whole, texts], grow=True).tolist()
    assert len({*numbers[:3]}) == 3
    assert NONE not in numbers[:3]
    assert numbers[3] == NONE
    turned = [WholeIds(np.array([2, 3, 1])), DistinctTexts(["x", "z"], np.array([0, 0, 1]))]
    assert keys.of(turned, grow=False).tolist() == [numbers[2], NONE, NONE]


def test_texts_that_spell_whole_numbers_are_these_numbers_and_no_others_are() -> None:
    texts = ["7", "007", "-0", "0", "+7", "7 ", "-7", str(2**63), str(-(2**63)), "\u0667", "1_0", "x", "", None, "7"]
    numbering = Numbering(whole=False)
    numbers = numbering.of(DistinctTexts(texts, np.arange(len(texts))), grow=True)
    assert numbers[0] == numbers[-1]
    assert numbers[12] == numbers[13] == NONE
    assert len({*numbers.tolist()}) == len(texts) - 2
    assert int(numbers.max()) < numbering.size
    there = numbers != NONE
    assert numbering.cells(numbers[there]).tolist() == [text for text in texts if text]
    wholes = numbering.of(WholeIds(np.array([7, 0, -(2**63), 8])), grow=False).tolist()
    assert wholes == [*numbers[[0, 3, 8]].tolist(), NONE]


def test_texts_that_no_row_of_a_slice_has_are_let_go() -> None:
    growing = GrowingRows(Wanted(texts=("label",), keys=("key",)))
    cells = DistinctTexts([f"t{number}" for number in range(50)], np.arange(50))
    for _ in range(2):
        growing.add(Batch(50, texts={"label": cells}, keys={"key": cells}), slice(None))
    kept = np.arange(50) % 10 == 3
    growing.drop([kept, kept])
    growing.add(Batch(50, texts={"label": cells}, keys={"key": cells}), kept)
    held = growing.rows()
    expected = [f"t{number}" for number in range(3, 50, 10)] * 3
    assert held.texts["label"].tolist() == held.keys["key"].tolist() == expected
    assert len(held.texts["label"].cells) == 6  # and what is missing


def test_a_public_table_beyond_what_is_held_is_refused_when_the_database_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linked_tables, "MOST_PUBLIC_CELLS", 3)
    with pytest.raises(SchemaError, match="'ward' has more than 3 cells"):
        _clinic(1, whole=True)
