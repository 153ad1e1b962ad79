"""The stable mode: its distance against search, and releases."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest

import sidelight as sl
from sidelight.errors import SchemaError
from sidelight.guarantees import Neighbours
from sidelight.release import Refused, Release
from sidelight.stability import StableMode, mode_distance
from sidelight.testing import seeded_release

Counts = tuple[int, ...]


def mode(counts: Counts) -> int:
    return counts.index(max(counts))


def steps(counts: Counts, kind: Neighbours) -> Iterator[Counts]:
    for i, j in itertools.permutations(range(len(counts)), 2):
        if kind is Neighbours.REPLACE and counts[i]:
            yield tuple(c - (k == i) + (k == j) for k, c in enumerate(counts))
    if kind is Neighbours.ADD_REMOVE:
        for i in range(len(counts)):
            yield tuple(c + (k == i) for k, c in enumerate(counts))
            if counts[i]:
                yield tuple(c - (k == i) for k, c in enumerate(counts))


def searched(counts: Counts, kind: Neighbours) -> int:
    seen, edge, d = {counts}, [counts], 0
    while not any(mode(other) != mode(each) for each in edge for other in steps(each, kind)):
        edge = list({other for each in edge for other in steps(each, kind)} - seen)
        seen.update(edge)
        d += 1
    return d


@pytest.mark.parametrize("kind", [Neighbours.ADD_REMOVE, Neighbours.REPLACE])
def test_distance_is_the_distance(kind: Neighbours) -> None:
    for counts in itertools.product(range(5), repeat=3):
        if kind is Neighbours.ADD_REMOVE or sum(counts):
            assert mode_distance(counts, neighbours=kind) == searched(counts, kind), counts


def test_distance_under_replacement_where_labels_may_be_missing() -> None:
    """A row of a public number of rows may lose its label or gain one: the last count is of rows without one."""
    for rows in range(1, 8):
        tables = [c for c in itertools.product(range(rows + 1), repeat=4) if sum(c) == rows]
        beside = {table: list(steps(table, Neighbours.REPLACE)) for table in tables}
        away = {t: 0 for t in tables if any(mode(o[:3]) != mode(t[:3]) for o in beside[t])}
        edge, d = list(away), 0
        while edge:
            d += 1
            edge = list({other for table in edge for other in beside[table]} - away.keys())
            away.update(dict.fromkeys(edge, d))
        assert {t: mode_distance(t[:3], neighbours=Neighbours.REPLACE) for t in tables} == away


def test_reference() -> None:
    assert mode_distance([50, 30, 20], neighbours=Neighbours.ADD_REMOVE) == 20
    assert mode_distance([50, 30, 20], neighbours=Neighbours.REPLACE) == 10


CITY = sl.Category("city", ["Bonn", "Ulm"])


def test_clear_winners_come_out_and_close_races_are_refused() -> None:
    query = StableMode("city", epsilon=1, delta="1e-6")
    clear = seeded_release(query, sl.Table({"city": ["Ulm"] * 80 + ["Bonn"] * 20}, schema=[CITY]), seed=1)
    close = seeded_release(query, sl.Table({"city": ["Ulm"] * 51 + ["Bonn"] * 50}, schema=[CITY]), seed=1)
    assert isinstance(clear, Release)
    assert clear.value == "Ulm"
    assert isinstance(close, Refused)
    assert clear.guarantee == close.guarantee


def test_undeclared_labels_count_as_other() -> None:
    rows = sl.Table({"city": ["Hof"] * 90 + ["Bonn"] * 20}, schema=[CITY])
    assert seeded_release(StableMode("city", epsilon=1, delta="1e-6"), rows, seed=2).value == "other"


def test_no_rows_are_refused() -> None:
    empty = sl.Table({"city": [None, None]}, schema=[sl.Category("city", ["Bonn", "Ulm"], missing=sl.Drop())])
    assert isinstance(seeded_release(StableMode("city", epsilon=1, delta="1e-6"), empty, seed=3), Refused)


def test_one_label_needs_no_data() -> None:
    with pytest.raises(SchemaError, match="one label only"):
        StableMode("a", epsilon=1, delta="1e-6").prepare(sl.Schema([sl.Category("a", ["x"], other=None)]))


@pytest.mark.parametrize("kind", [Neighbours.ADD_REMOVE, Neighbours.REPLACE])
@pytest.mark.parametrize("labels", [["a", "b"], ["b", "a"]])
def test_a_label_with_the_stated_lead_is_answered_in_19_of_20_runs(kind: Neighbours, labels: list[str]) -> None:
    """The lead is the least whose distance is the threshold and the noise of one run in twenty."""
    query = StableMode("c", epsilon="0.5", delta="1e-6", neighbours=kind)
    schema = [sl.Category("c", labels, other=None)]
    prepared = query.prepare(sl.Table({"c": ["a"]}, schema=schema).schema)
    lead = int(prepared.error.assumption.split("leads by about ")[1].split(" ")[0].replace(",", ""))
    table = sl.Table({"c": ["a"] * (1000 + lead) + ["b"] * 1000}, schema=schema)
    answered = sum(isinstance(seeded_release(query, table, seed=seed), Release) for seed in range(200))
    # 190 of 200 at least are expected; 170 or fewer have a probability below 1e-7 (binomial, 0.95)
    assert answered > 170
    counts = [1000 + lead, 1000] if labels[0] == "a" else [1000, 1000 + lead]
    wanted = (math.log(1 / 2e-6) + math.log(10)) / 0.5
    assert wanted <= mode_distance(counts, neighbours=kind) <= wanted + 2  # a tie counts for the label that is first
