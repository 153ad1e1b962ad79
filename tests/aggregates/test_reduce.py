"""The seam of engines: states as bytes, folds by threads, and folds by other processes, to the same integers."""

from __future__ import annotations

import multiprocessing
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plain_statistics import clipped_sum, grid_counts, row_count
from sidelight.aggregates import cell_counts, clipped_moments, collect_ranks
from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.moments import ClippedMoments, MomentState
from sidelight.aggregates.state_bytes import state_from_bytes, state_to_bytes
from sidelight.aggregates.values import value_of
from sidelight.errors import RangeError, SourceError
from sidelight.grid import Grid
from sidelight.noise import Source
from sidelight.records import Category, Number, Table
from sidelight.records.engines import parquet
from sidelight.records.engines.arrays import ArrayRows
from sidelight.records.expressions import col
from sidelight.records.rows import Batch, Wanted
from sidelight.testing import SeededEntropy

SCHEMA = [
    Number("x", lower=-100, upper=100, granularity="1/8"),
    Number("y", lower=-3, upper=3),
    Category("c", ["a", "b"]),
]
COARSE = Grid(resolution=Fraction(1), snap="nearest")
FINE = Grid(resolution=Fraction(1, 2**30))


def columns(rows: int = 5000) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    x = rng.integers(-900, 900, rows) / 8
    x[::97], x[5::89] = np.nan, np.inf
    return {"x": x, "y": rng.normal(size=rows), "c": [["a", "b", None, "z"][at] for at in rng.integers(0, 4, rows)]}


def statistics(table: Table, *, ranks: bool = True) -> dict[str, Any]:
    moments = clipped_moments(table, ["x", "y"], radius=60, lowering="batches")
    groups = groups_of(table.schema, by="c")
    by_group = group_statistics(table, groups, [value_of(table.schema, "x")], lowering="batches")
    found = {
        "rows": row_count(table, lowering="batches").value,
        "cells": cell_counts(table, ["c"], lowering="batches").value.tolist(),
        "grid": grid_counts(
            table, "x", Grid(resolution=Fraction(3), first=-9, last=9), lowering="batches"
        ).value.tolist(),
        "sum": clipped_sum(table, "x", lowering="batches").value,
        "moments": (moments.count.value, moments.total.value.tolist(), moments.second.value.tolist()),
        "groups": (by_group.counts.value.tolist(), by_group.values[0].value.tolist()),
    }
    for grid in (COARSE, FINE) if ranks else ():
        with Source(SeededEntropy(0)) as source:
            ordered = collect_ranks(table, "x", grid, source)
            found[str(grid)] = [ordered.order(k) for k in range(1, ordered.size + 1, 7)]
    return found


@pytest.mark.parametrize(
    "state",
    [
        0,
        -(2**80),
        np.arange(6).reshape(2, 3),
        np.zeros((0, 4), np.int64),
        np.array([[2**70, -1], [0, 5]], object),
        (3, np.array([1, -2]), (np.array([7]), 2**64)),
        MomentState(3, np.array([1, 2]), np.array([[2**63, 1], [1, 0]], object)),
    ],
    ids=str,
)
def test_states_are_written_and_read(state: Any) -> None:
    def same(first: Any, second: Any) -> bool:
        if isinstance(first, tuple):
            return len(first) == len(second) and all(map(same, first, second))
        return np.array_equal(first, second) and np.asarray(first).dtype == np.asarray(second).dtype

    found = state_from_bytes(state_to_bytes(state))
    assert same(state, found)
    assert state_to_bytes(found) == state_to_bytes(state)


@pytest.mark.parametrize("state", [1.5, np.zeros(2), "text", True, [1], {"a": 1}, None], ids=str)
def test_only_sums_of_integers_are_states(state: Any) -> None:
    with pytest.raises(RangeError, match="whole numbers"):
        state_to_bytes(state)


def test_bytes_that_were_cut_are_refused() -> None:
    whole = state_to_bytes((1, np.arange(5)))
    for wrong in (whole[:-1], whole + b"0", b"other", whole[5:]):
        with pytest.raises(RangeError):
            state_from_bytes(wrong)


def test_threads_give_the_same_integers(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table(columns()), tmp_path / "t.parquet", row_group_size=300)
    expected = statistics(Table(columns(), schema=SCHEMA))
    for threads in (1, 3):
        monkeypatch.setattr(parquet, "cores", lambda threads=threads: threads)
        assert statistics(Table(tmp_path / "t.parquet", schema=SCHEMA)) == expected


def test_merged_moments_are_whole_numbers_beyond_64_bits() -> None:
    vector = ClippedVector(columns=(SCHEMA[0],), radius=Fraction(50), levels=2**14, centres=(Fraction(0),))
    moments = ClippedMoments(coding=vector, rows_per_unit=1, unit=Table([1.0], schema=SCHEMA[:1]).schema.unit)
    for rows in (2**20, 2**33, 2**34):  # of the last two, two sets of rows leave 62 bits together
        state = MomentState(rows, np.array([rows]), np.array([[min(rows * 2**28, 2**61 + 2**60)]]))
        both = moments.merge(state, state_from_bytes(state_to_bytes(state)))
        assert both.rows == 2 * rows
        assert int(both.second[0, 0]) == 2 * int(state.second[0, 0])
        assert both.second.dtype == (np.int64 if rows == 2**20 else object)


class AwayRows:
    """Remote rows, readable by worker processes only, in partitions that may fail the first time."""

    name, streams, length = "away", True, None

    def __init__(self, cells: dict[str, Any], pool: Executor, *, parts: int, broken: bool = False) -> None:
        ends = np.linspace(0, len(cells["x"]), parts + 1).astype(int)
        self._parts = [{name: cell[a:b] for name, cell in cells.items()} for a, b in pairwise(ends)]
        self._pool, self._broken = pool, broken
        self.types = ArrayRows({name: np.asarray(cell) for name, cell in cells.items()}).types

    def batches(self, wanted: Wanted, **more: Any) -> Iterator[Batch]:
        raise AssertionError("rows were pulled to the driver")

    def frame(self, wanted: Wanted) -> None:
        return None

    def stream(self, frame: Any, names: tuple[str, ...]) -> Any:
        raise NotImplementedError

    def pinned(self, wanted: Wanted, step: Any) -> Any:
        raise NotImplementedError

    def reduce(self, wanted: Wanted, step: Callable[[Iterator[Batch]], bytes]) -> Iterator[bytes]:
        for number, part in enumerate(self._parts):
            for attempt in range(3):
                fails = self._broken or (number % 3 == 0 and attempt == 0)
                found = self._pool.submit(worker, part, wanted, step, fails).result()
                if found is not None:
                    yield found
                    break
            else:
                raise SourceError("a part failed three times")


def worker(part: Any, wanted: Wanted, step: Callable[[Iterator[Batch]], bytes], fails: bool) -> bytes | None:
    """Fold one part; one that is to fail does so after it has read some rows."""
    cells = {name: np.asarray(cell, object if name == "c" else None) for name, cell in part.items()}
    batches = ArrayRows(cells).batches(wanted, rows=128)
    if fails:
        next(batches, None)
        return None
    return step(batches)


def away(rows: AwayRows) -> Table:
    table = Table(columns(1), schema=SCHEMA)
    table._rows = rows  # no engine of this kind exists yet
    return table


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    """A process that shares nothing with this one, as a worker on another machine."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as found:
        yield found


@pytest.mark.parametrize("parts", [1, 9])
def test_other_processes_give_the_same_integers_and_no_row_is_pulled(pool: Executor, parts: int) -> None:
    cells = columns(900)
    expected = statistics(Table(cells, schema=SCHEMA), ranks=False)
    assert statistics(away(AwayRows(cells, pool, parts=parts)), ranks=False) == expected


class AlikeRows(AwayRows):
    """An engine that hands rows that are alike over once, with how many they are."""

    grouped = 0

    def reduce_equal(self, wanted: Wanted, step: Callable[[Iterator[Batch]], bytes]) -> Iterator[bytes]:
        self.grouped += 1
        for part in self._parts:
            rows = list(zip(*(part[name] for name in wanted.texts), strict=True))
            times = Counter(rows)
            cells = {name: [row[place] for row in times] for place, name in enumerate(wanted.texts)}
            batches = ArrayRows({name: np.array(each, object) for name, each in cells.items()}).batches(wanted)
            yield pickle.loads(pickle.dumps(step))(
                replace(batch, times=np.array(list(times.values()), np.int64)) for batch in batches
            )


def test_rows_that_are_alike_may_come_once(pool: Executor) -> None:
    cells = columns(700)
    rows, plain = AlikeRows(cells, pool, parts=3), Table(cells, schema=SCHEMA)
    table = away(rows)
    for where in (None, col("c") == "a"):
        groups = groups_of(plain.schema, by="c", where=where)
        found, expected = (group_statistics(each, groups).counts.value.tolist() for each in (table, plain))
        assert found == expected
    assert cell_counts(table, ["c"]).value.tolist() == cell_counts(plain, ["c"]).value.tolist()
    assert rows.grouped == 3
    by_sum = [
        group_statistics(each, groups_of(plain.schema, by="c"), [value_of(plain.schema, "x")])
        for each in (table, plain)
    ]
    assert by_sum[0].values[0].value.tolist() == by_sum[1].values[0].value.tolist()
    assert rows.grouped == 3  # sums are not counts


def test_a_part_that_keeps_failing_fails_the_whole(pool: Executor) -> None:
    with pytest.raises(SourceError, match="three times"):
        clipped_sum(away(AwayRows(columns(90), pool, parts=2, broken=True)), "x", lowering="batches")


def test_a_thread_that_fails_stops_the_others(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table(columns()), tmp_path / "t.parquet", row_group_size=100)
    table = Table(tmp_path / "t.parquet", schema=SCHEMA)
    monkeypatch.setattr(parquet, "cores", lambda: 3)
    (tmp_path / "t.parquet").unlink()
    with pytest.raises(SourceError, match="not there any more"):
        clipped_sum(table, "x", lowering="batches")
