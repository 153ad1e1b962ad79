"""The traps that engines set, each reproduced where it is still there, and what we do instead."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from plain_statistics import clipped_sum, grid_counts
from sidelight.aggregates import cell_counts, clipped_moments
from sidelight.aggregates.sums import engine_sums
from sidelight.errors import RangeError, SchemaError
from sidelight.grid import Grid
from sidelight.records import Category, Number, PersonId, Table


def frames(values):
    table = pa.table({"x": pa.array(values)})
    return {
        "polars": nw.from_native(pl.from_arrow(table).lazy()),
        "pandas": nw.from_native(table.to_pandas()).lazy(),
        "arrow": nw.from_native(table).lazy(),
        "duckdb": nw.from_native(duckdb.connect().from_arrow(table)),
    }


def test_polars_wraps_and_our_sums_do_not():
    values = [2**62, 2**62, 2**62, -5]
    assert pl.Series(values).sum() != sum(values)  # the trap
    for frame in frames(values).values():
        rows, totals = engine_sums(frame, {"t": (nw.col("x"), -(2**20), 2**62)})
        assert (rows, totals["t"]) == (4, sum(values))


def test_sums_of_no_rows():
    for frame in frames(np.empty(0, np.int64)).values():
        assert engine_sums(frame, {"t": (nw.col("x"), -5, 5)}) == (0, {"t": 0})


def test_polars_clip_keeps_nan_and_we_do_not():
    assert math.isnan(pl.Series([math.nan]).clip(0, 1)[0])  # the trap
    table = Table(pl.DataFrame({"x": [math.nan, 0.5]}), schema=[Number("x", lower=0, upper=1)])
    for lowering in ("batches", "engine"):
        assert clipped_sum(table, "x", step="0.5", lowering=lowering).value == 1


def test_polars_divides_by_a_constant_through_its_reciprocal():
    """So x / 49 has other bits there, and our expressions hold no division by a constant."""
    dividends = np.arange(1.0, 2000.0)
    quotients = pl.DataFrame({"x": dividends}).select(pl.col("x") / 49.0)["x"].to_numpy()
    assert (quotients != dividends / 49.0).any()  # the trap
    grid = Grid(resolution=Fraction(3), first=-(2**61), last=2**61)
    values = np.array([3.0 * k for k in range(-200, 200)] + [1e15, 2.0**52 - 1])
    from sidelight.aggregates.fixed_point import FixedPoint

    encode = FixedPoint.on_grid(Number("x"), grid)
    expected = [math.floor(Fraction(value) / 3) for value in values.tolist()]
    assert encode.codes(values).tolist() == expected
    for frame in frames(values).values():
        assert encode.lower(frame, "x", "c").collect()["c"].to_list() == expected


def test_casts_and_rounding_differ_and_floor_does_not():
    """DuckDB's cast rounds, its round is half-away; Polars rounds half to even."""
    halves = [0.5, 1.5, 2.5, -0.5, -1.5, 0.9]
    assert duckdb.sql("select cast(0.9::double as bigint)").fetchall() == [(1,)]
    assert int(0.9) == 0
    grid = Grid(resolution=Fraction(1), first=-5, last=5, snap="nearest")
    for source in (pl.DataFrame({"x": halves}).lazy(), duckdb.connect().from_arrow(pa.table({"x": halves}))):
        counts = grid_counts(Table(source, schema=[Number("x")]), "x", grid).value.tolist()
        assert counts == [0, 0, 0, 0, 1, 1, 2, 1, 1, 0, 0]


def test_arrow_casts_of_large_integers_do_not_raise():
    with pytest.raises(pa.ArrowInvalid):
        pa.array([2**53 + 1]).cast(pa.float64())  # the trap
    table = Table(pa.table({"x": [2**53 + 1, 0]}), schema=[Number("x", lower=0, upper=10)])
    assert clipped_sum(table, "x", step=1).value == 10


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "values",
    [
        np.array([0x7FF0000000000001, 0x3FF0000000000000], np.uint64).view(np.float64),
        np.array([0x7F800001, 0x3F800000], np.uint32).view(np.float32),
        np.array([np.longdouble("1e4000") * 0 + 1, np.longdouble("nan")]),
        np.array([np.nan, 1.0], np.float16),
    ],
)
def test_no_warning_depends_on_a_value(values):
    """Signalling NaNs and numbers beyond float64 set the flags of the processor, which NumPy turns into warnings."""
    table = Table(values, schema=[Number("x", lower=0, upper=3)])
    assert clipped_sum(table, "x", step=1).value == 1
    assert clipped_moments(table, ["x"], radius=1, levels=4).total.value.tolist() == [4]
    assert clipped_sum(Table(np.array([np.longdouble("1e4000")]), schema=table.schema), "x", step=1).value == 3


def test_unsigned_and_huge_integers():
    table = Table(pa.table({"x": pa.array([2**64 - 1, 1], pa.uint64())}), schema=[Number("x", lower=0, upper=10)])
    for lowering in ("batches", "engine"):
        assert clipped_sum(table, "x", step=1, lowering=lowering).value == 11


def test_reserved_and_odd_column_names():
    for name in ("select", 'a"b', "one", "x0", "person", "kept", "Größe", "a b", "cell", "n0"):
        relation = duckdb.connect().from_arrow(pa.table({name: [1.0, 3.0], "who": ["a", "a"]}))
        table = Table(relation, schema=[Number(name, lower=0, upper=9), PersonId("who", max_rows=2)])
        assert clipped_sum(table, name, step=1).value == 4


def test_counts_refuse_what_does_not_fit():
    table = Table({"x": [1.0], "c": ["a"]}, schema=[Number("x"), Category("c", ["a"])])
    with pytest.raises(RangeError, match="cells"):
        grid_counts(table, "x", Grid(resolution=Fraction(1)))
    with pytest.raises(RangeError, match="at least one column"):
        cell_counts(table, [])
    with pytest.raises(SchemaError, match="'x' is declared as Number"):
        cell_counts(table, ["x"])


def test_moments_refuse():
    table = Table({"x": [1.0], "y": [1.0]}, schema=[Number("x"), Number("y")])
    for arguments in (
        {"columns": []},
        {"columns": ["x", "x"]},
        {"radius": 0},
        {"radius": "1e60"},
        {"levels": 0},
        {"levels": 2**26},
        {"centres": {"z": 1}},
        {"centres": {"x": "1e99"}},
    ):
        with pytest.raises(RangeError):
            clipped_moments(table, **({"columns": ["x", "y"], "radius": 1} | arguments))


def test_moments_against_floats():
    """Close to the real clipped moments, on ordinary data."""
    rows = np.random.default_rng(0).normal(size=(500, 3))
    table = Table(rows, schema=[Number("a"), Number("b"), Number("c")])
    moments = clipped_moments(table, ["a", "b", "c"], radius="1.7")
    clipped = rows * np.minimum(1, 1.7 / np.linalg.norm(rows, axis=1))[:, None]
    assert moments.count.value == 500
    assert np.allclose(moments.total.value * float(moments.scale), clipped.sum(axis=0), atol=0.06)
    assert np.allclose(moments.second.value * float(moments.scale) ** 2, clipped.T @ clipped, atol=0.2)
    assert moments.second.sensitivity == 2**28


def test_wide_state_never_wraps():
    from sidelight.aggregates.moments import ClippedMoments, MomentState

    huge = np.array([[2**90]], object)
    moments = SimpleNamespace(coding=SimpleNamespace(levels=2**45))
    merged = ClippedMoments.merge(moments, MomentState(1, huge[0], huge), MomentState(1, huge[0], huge))
    assert merged.second[0, 0] == 2**91
