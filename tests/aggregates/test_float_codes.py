"""Codes of floats: the kernel, the expressions of every engine, and the definition agree on every bit pattern."""

from __future__ import annotations

import struct
import sys

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import pytest

import sidelight as sl
from sidelight.aggregates import collect_ranks
from sidelight.aggregates.fixed_point import FloatCodes
from sidelight.grid import FloatGrid, float_code
from sidelight.noise import OSEntropy, Source
from sidelight.records import Drop, Fill, Number

GRIDS = [FloatGrid(), FloatGrid(lowest=0.0, highest=1e6), FloatGrid(lowest=-0.1, highest=1 / 3)]


def hostile() -> np.ndarray:
    """Return random bit patterns, numbers below the normal ones, both zeros, infinities and NaN."""
    rng = np.random.default_rng(7)
    patterns = np.frombuffer(rng.bytes(8 * 3000), np.float64)
    small = np.array([struct.unpack("<d", struct.pack("<q", k))[0] for k in (1, 15, 16, 17, 2**51, 2**52 - 1, 2**52)])
    powers = np.concatenate([np.nextafter(2.0 ** np.arange(-1070, 1023, 11), to) for to in (0.0, np.inf)])
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, sys.float_info.max, -sys.float_info.max, 1.0, -1.0, 0.1]
    with np.errstate(all="ignore"):
        return np.concatenate([patterns, small, -small, powers, -powers, special])


def expected_codes(values: np.ndarray, grid: FloatGrid, fill: float | None) -> list[int]:
    found = []
    for x in values.tolist():
        if x != x:
            if fill is None:
                continue
            x = fill
        found.append(min(max(float_code(x), grid.first), grid.last))
    return found


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("fill", [None, 0.25])
def test_the_kernel_follows_the_definition(grid, fill):
    number = Number("x", missing=Drop() if fill is None else Fill(fill))
    encode = FloatCodes.on_grid(number, grid)
    values = hostile()
    assert encode.codes(values).tolist() == expected_codes(values, grid, fill)
    every_second = np.repeat(values, 2)[::2]
    assert encode.codes(every_second).tolist() == expected_codes(values, grid, fill)  # a view with gaps


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_every_engine_gives_the_integers_of_the_kernel(grid, engine):
    encode = FloatCodes.on_grid(Number("x"), grid)
    frame = pl.DataFrame({"x": hostile()})
    lazy = nw.from_native(frame.lazy() if engine == "polars" else duckdb.sql("select * from frame"))
    kept = encode.keep_expression(nw.col("x"))
    found = encode.lower(lazy, "x", "code").filter(kept).select("code").collect()["code"].to_list()
    assert sorted(found) == sorted(expected_codes(hostile(), grid, None))


@pytest.mark.parametrize("person", [False, True])
def test_ranks_on_a_grid_of_floats_agree_across_sources(person):
    rng = np.random.default_rng(3)
    values = np.round(rng.lognormal(0, 3, 500), 3)
    who = [f"p{k % 200}" for k in range(500)]
    columns = [Number("x"), *([sl.PersonId("who", max_rows=2)] if person else [])]
    data = {"x": values, "who": who}
    frame = pl.DataFrame(data)
    counts = []
    with Source(OSEntropy()) as source:
        for rows in (data, frame, duckdb.sql("select * from frame")):
            ranks = collect_ranks(sl.Table(rows, schema=columns), "x", FloatGrid(), source)
            counts.append([ranks.size, *(ranks.below(FloatGrid().index_of(v)) for v in (0.01, 0.5, 1.0, 7.25, 1e3))])
    assert counts[0] == counts[1] == counts[2]
