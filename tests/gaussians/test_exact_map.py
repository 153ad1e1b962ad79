"""Exact maps: a row's integers depend on no other row, are never too long, and are those of the plain map nearly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sidelight as sl
from away_rows import away_table
from mapped_moments import mapped_moments
from sidelight.aggregates.mapped_vector import RowMap
from sidelight.gaussians.exact_map import ExactMap, rounded
from sidelight.gaussians.row_reader import RowReader, sample_rows_of
from sidelight.guarantees import Neighbours
from sidelight.noise import Source
from sidelight.testing import SeededEntropy

LEVELS = 1 << 14


def turned(size: int, condition: float, seed: int = 0) -> np.ndarray:
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]
    return (turn * np.logspace(0, np.log10(condition), size)) @ turn.T


def coded(matrix: np.ndarray, rows: np.ndarray, radius: float = 5.0) -> np.ndarray:
    row_map = RowMap.of(rows.shape[1], centre=None, matrix=matrix, radius=radius)
    exact = ExactMap.of(row_map, LEVELS)
    assert exact is not None
    return exact.codes(exact.centred(list(rows.T), None, slice(0, len(rows))))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 40), st.integers(1, 50), st.integers(0, 1000), st.floats(1.5, 200))
def test_rows_do_not_look_at_each_other(size: int, count: int, seed: int, condition: float) -> None:
    rng = np.random.default_rng(seed)
    matrix, rows = rounded(turned(size, condition, seed)), rng.standard_normal((count, size)) * 3
    together = coded(matrix, rows)
    apart = np.hstack([coded(matrix, rows[place : place + 1]) for place in range(count)])
    np.testing.assert_array_equal(together, apart)
    np.testing.assert_array_equal(together[:, ::-1], coded(matrix, rows[::-1].copy()))
    assert (together == np.rint(together)).all()
    lengths = (together.astype(np.int64) ** 2).sum(axis=0)
    assert (lengths <= LEVELS**2).all()


def test_the_order_of_adding_changes_nothing_but_does_for_plain_floats() -> None:
    """The same product with its terms in another order, as BLAS may choose: equal for whole numbers only."""
    rng = np.random.default_rng(1)
    matrix, rows = rounded(turned(40, 50)), rng.standard_normal((500, 40))
    exact = ExactMap.of(RowMap.of(40, centre=None, matrix=matrix, radius=5), LEVELS)
    assert exact is not None
    whole = np.rint(np.clip(rows.T * exact.factors[:, None], -exact.largest, exact.largest))
    order = rng.permutation(40)
    np.testing.assert_array_equal(exact.matrix @ whole, exact.matrix[:, order] @ whole[order])
    assert np.abs(exact.matrix).sum(axis=1).max() * exact.largest < 2**53
    assert (matrix @ rows.T != matrix[:, order] @ rows.T[order]).any()


@given(st.integers(2, 12), st.floats(1.5, 300), st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_rounding_is_small_and_settled(size: int, condition: float, seed: int) -> None:
    matrix = turned(size, condition, seed) * 10.0 ** (seed % 7 - 3)
    near = rounded(matrix)
    assert np.abs(np.linalg.solve(matrix, near) - np.eye(size)).max() < 1e-3
    assert ExactMap.of(RowMap.of(size, centre=None, matrix=near, radius=1), LEVELS) is not None


def test_badly_conditioned_and_singular_maps_take_the_slow_way() -> None:
    for matrix in (turned(4, 1e6), np.zeros((4, 4)), np.eye(4), np.ones((4, 4))):
        assert ExactMap.of(RowMap.of(4, centre=None, matrix=rounded(matrix), radius=1), LEVELS) is None


def table_of(rows: np.ndarray, **bounds: float) -> sl.Table:
    return sl.Table(rows, schema=[sl.Number(f"x{place}", **bounds) for place in range(rows.shape[1])])


def reader(table: sl.Table, seed: int = 0) -> RowReader:
    source = Source(SeededEntropy(seed), declared="exact")
    return RowReader(table, table.schema.names, neighbours=Neighbours.ADD_REMOVE, source=source)


@pytest.mark.parametrize("bounds", [{}, {"lower": -1.0, "upper": 1.0}])
@pytest.mark.parametrize("order", ["C", "F"])
def test_moments_agree_with_the_plain_map(bounds: dict[str, float], order: str) -> None:
    rng = np.random.default_rng(3)
    rows = np.array(rng.standard_normal((40_000, 6)), order=order)  # type: ignore[call-overload]
    rows[5, 2], rows[7, 0], rows[9, 1] = np.nan, np.inf, 1e300
    matrix, centre = rounded(turned(6, 30)), np.full(6, 0.25)
    table = table_of(rows, **bounds)
    row_map = RowMap.of(6, centre=centre, matrix=matrix, radius=4)
    plain = mapped_moments(table, radius=4, centre=centre, matrix=matrix)
    found = reader(table).moments(row_map)
    assert found.count.value == plain.count.value
    limit = 3 * 40_000  # a last digit or so of each row
    assert np.abs(found.total.value - plain.total.value).max() < limit
    assert np.abs(found.second.value - plain.second.value).max() < limit * LEVELS
    assert found.second.sensitivity == plain.second.sensitivity
    assert found.total.sensitivity == plain.total.sensitivity


def test_counts_keep_all_of_few_rows_and_a_sample_of_many() -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((150_000, 3))
    rows[0, 0] = np.nan
    row_map = RowMap.of(3, centre=None, matrix=rounded(turned(3, 3)), radius=4)
    few, many = reader(table_of(rows[:1000])), reader(table_of(rows))
    assert few.count().count.value == 999
    assert few.moments(row_map).count.value == few.sampled(row_map, 1.0).count.value == 999
    assert many.count().count.value == 149_999
    sample = many.sampled(row_map, 0.25).count.value
    assert abs(sample - 37_500) < 6 * 170
    assert many.sampled(row_map, 0.25).count.value == sample  # kept, not drawn again
    assert abs(reader(table_of(rows)).sampled(row_map, 0.5).count.value - 75_000) < 6 * 200
    assert many.sampled(row_map, 1.0).count.value == 149_999
    np.testing.assert_array_equal(many.moments(row_map, second=False).total.value, many.moments(row_map).total.value)


@pytest.mark.parametrize("fresh", [False, True])
def test_one_row_more_changes_no_other_row_of_the_sample(monkeypatch: pytest.MonkeyPatch, *, fresh: bool) -> None:
    """Also where it is the row by which too many are held, so that all are read again; with fresh coins it does."""
    monkeypatch.setattr("sidelight.gaussians.row_reader.SAMPLE_ROWS", 50)  # 100 are held
    if fresh:
        monkeypatch.setattr(RowReader, "_coins", lambda self, _, count: self._source.words(count) * 2.0**-64)
    rows = np.random.default_rng(6).standard_normal((240, 3))
    row_map = RowMap.of(3, centre=None, matrix=rounded(turned(3, 3)), radius=4)
    sizes, moves = [], []
    before = None
    for count in range(170, 240):
        read = reader(table_of(rows[:count]))
        read.count()
        found = read.sampled(row_map, 0.5)
        sizes.append(found.count.value)
        if before is not None:
            moves.append(float(np.linalg.norm(np.asarray(found.total.value - before.total.value, float))))
        before = found
    assert min(sizes) <= 100 < max(sizes)  # the number that is held was crossed
    assert (max(moves) <= LEVELS) is not fresh


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("condition", [10, 1e7])
def test_numbers_at_the_end_of_the_floats_stay_within_the_radius(condition: float) -> None:
    """Huge numbers are clamped first: their products overflow, and infinity minus infinity is NaN."""
    rows = np.array([[1e303, -1e303, 1e303], [-1e303, 1e303, 1e303], [1.0, 2.0, 3.0]])
    read = reader(table_of(rows))
    assert read.count().count.value == 3
    row_map = RowMap.of(3, centre=None, matrix=rounded(turned(3, condition)), radius=4)
    found = read.moments(row_map)
    assert np.abs(found.total.value).max() <= 3 * LEVELS
    assert np.trace(found.second.value) <= 3 * LEVELS**2


def test_a_file_is_sampled_once_after_the_rate_is_known(tmp_path: Path) -> None:
    """Another reading may find rows in another order: no coin is tossed before the rate is known, and none twice."""
    rows = np.random.default_rng(8).standard_normal((90_000, 2))
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": rows[:, 0], "b": rows[:, 1]}), path)
    table = sl.Table(path, schema=[sl.Number("a"), sl.Number("b")])
    read = RowReader(
        table, ["a", "b"], neighbours=Neighbours.ADD_REMOVE, source=Source(SeededEntropy("file"), declared="exact")
    )
    row_map = RowMap.of(2, centre=None, matrix=rounded(turned(2, 3)), radius=4)
    assert read.count().count.value == 90_000
    assert read._kept is None
    sample = read.sampled(row_map, 0.5).count.value
    assert abs(sample - 45_000) < 6 * 150
    assert read.sampled(row_map, 0.5).count.value == sample


def test_persons_and_rows_elsewhere_have_no_sample() -> None:
    cells = pa.table({"a": [1.0, 2.0], "who": [1, 2]})
    assert sample_rows_of(sl.Table(cells, schema=[sl.Number("a"), sl.PersonId("who", max_rows=2)])) is None
    assert sample_rows_of(away_table(cells, [sl.Number("a")])) is None
    assert sample_rows_of(sl.Table(cells, schema=[sl.Number("a")])) is not None
