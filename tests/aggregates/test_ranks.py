"""Ranks of codes: against brute force, for sorted and counted codes, with and without dither."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranks_of_codes import ranks_of_codes
from sidelight.aggregates import collect_ranks
from sidelight.aggregates.collect_ranks import CodeBuffer
from sidelight.aggregates.fixed_point import FixedPoint, FloatCodes
from sidelight.aggregates.ranks import CountedCodes, DitheredRanks, SortedCodes, SortedFloats, order_codes
from sidelight.grid import FloatGrid, Grid
from sidelight.noise import Source
from sidelight.records import Number, Table
from sidelight.testing import SeededEntropy

code_lists = st.lists(st.integers(-30, 30), max_size=60) | st.lists(st.integers(-(2**61), 2**61), max_size=20)


def seeded():
    return Source(SeededEntropy("ranks"))


def counted(codes):
    distinct, counts = np.unique(np.array(codes, np.int64), return_counts=True)
    return CountedCodes(distinct, counts)


@given(code_lists, st.integers(-40, 40))
def test_sorted_and_counted_codes_agree(codes, probe):
    ordered = SortedCodes(np.sort(np.array(codes, np.int64)))
    tallied = counted(codes)
    assert ordered.size == tallied.size == len(codes)
    for code in [probe, *codes]:
        expected = (sum(c < code for c in codes), sum(c <= code for c in codes))
        assert ordered.span(code) == tallied.span(code) == expected
    for k, code in enumerate(sorted(codes), start=1):
        assert ordered.tie_at(k) == tallied.tie_at(k) == (code, *ordered.span(code))


@given(code_lists)
def test_order_codes_is_sorting(codes):
    ordered = order_codes(np.array(codes, np.int64))
    assert [ordered.tie_at(k)[0] for k in range(1, len(codes) + 1)] == sorted(codes)


@given(code_lists, st.integers(0, 12))
def test_ranks_are_consistent(codes, dither_bits):
    grid = Grid(resolution=Fraction(1), dither_bits=dither_bits)
    ranks = DitheredRanks(counted(codes), grid, seeded())
    fine = [ranks.order(k) for k in range(1, len(codes) + 1)]
    assert fine == sorted(fine)
    assert [index >> dither_bits for index in fine] == sorted(codes)
    for index in [
        grid.fine_first - 5,
        grid.fine_first,
        grid.fine_last,
        grid.fine_last + 5,
        0,
        *fine,
        *(i + 1 for i in fine),
    ]:
        assert ranks.below(index) == sum(other < index for other in fine)
    assert ranks.size == len(codes)


@given(code_lists)
def test_without_source_nothing_is_dithered(codes):
    ranks = ranks_of_codes(np.sort(np.array(codes, np.int64)), Grid(resolution=Fraction(1), dither_bits=20), None)
    assert [ranks.order(k) for k in range(1, len(codes) + 1)] == [code << 20 for code in sorted(codes)]
    for code in codes:
        assert ranks.below(code << 20) == sum(other < code for other in codes)
        assert ranks.below((code << 20) + 1) == sum(other <= code for other in codes)


def test_dither_does_not_depend_on_the_representation():
    codes = [1, 1, 1, 5, 5, 9]
    grid = Grid(resolution=Fraction(1))
    first = ranks_of_codes(np.array(codes, np.int64), grid, seeded())
    second = DitheredRanks(counted(codes), grid, seeded())
    assert [first.order(k) for k in range(1, 7)] == [second.order(k) for k in range(1, 7)]


def test_shows_nothing_private():
    ranks = ranks_of_codes(np.full(77777, 3), Grid(resolution=Fraction(1)), None)
    assert "77777" not in repr(ranks)


def brute(values, grid):
    scaled = [x for x in values if not np.isnan(x)]
    return sorted(FixedPoint.on_grid(Number("x"), grid).codes(np.array([x]))[0] for x in scaled)


@given(st.lists(st.floats(), max_size=50), st.sampled_from([Fraction(1), Fraction(1, 2**20), Fraction(10) ** 30]))
def test_collects_a_column_of_nasty_floats(values, step):
    grid = Grid(resolution=step, dither_bits=0)
    with seeded() as source:
        ranks = collect_ranks(Table(np.array(values, np.float64), schema=[Number("x")]), "x", grid, source)
        assert [ranks.order(k) for k in range(1, ranks.size + 1)] == brute(values, grid)


def test_reads_the_column_in_several_batches():
    values = np.linspace(-1, 1, 100_003)
    grid = Grid(resolution=Fraction(1, 10**7), dither_bits=0)
    with seeded() as source:
        ranks = collect_ranks(Table(values, schema=[Number("x")]), "x", grid, source)
    assert ranks.size == values.size
    assert ranks.order(1) == -(10**7)
    assert ranks.order(values.size) == 10**7


parts = st.lists(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), max_size=8), max_size=5)


@pytest.mark.parametrize("many", [1 << 24, 5])
@given(first=parts, second=parts, third=parts)
def test_buffers_are_a_monoid(many, first, second, third):
    """With single codes only, and with counts from the fifth code on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["sidelight.aggregates.collect_ranks"], "_MANY", many)
        check_monoid(first, second, third)


def check_monoid(first, second, third):
    encode = FixedPoint.on_grid(Number("x"), Grid(resolution=Fraction(1, 8)))

    def folded(batches):
        buffer = CodeBuffer(encode, rows=3)
        for batch in batches:
            buffer.fold(np.array(batch, np.float64))
        return buffer

    def finished(buffer):
        codes = buffer.finish()
        return [codes.tie_at(k)[0] for k in range(1, codes.size + 1)]

    everything = finished(folded(first + second + third))
    assert finished(folded(first).merge(folded(second)).merge(folded(third))) == everything
    assert finished(folded(first).merge(folded(second).merge(folded(third)))) == everything
    assert (
        finished(CodeBuffer(encode).merge(folded(first)))
        == finished(folded(first).merge(CodeBuffer(encode)))
        == finished(folded(first))
    )
    left, right = folded(first), folded(second)
    both = left.merge(right)
    both.fold(np.array([1.0, 2.0]))
    assert (len(finished(left)), len(finished(right))) == (len(finished(folded(first))), len(finished(folded(second))))
    assert "private" in repr(left)


def test_many_repeated_codes_become_counts(monkeypatch):
    """Memory stays bounded by distinct codes; codes that do not repeat are kept one by one."""
    monkeypatch.setattr(sys.modules["sidelight.aggregates.collect_ranks"], "_MANY", 1000)
    encode = FixedPoint.on_grid(Number("x"), Grid(resolution=Fraction(1)))
    values = np.random.default_rng(0).integers(-20, 20, 50_000).astype(float)
    values[::100] = np.inf  # far outside: counting by range cannot work, sorting can
    buffer = CodeBuffer(encode)
    for start in range(0, len(values), 700):
        buffer.fold(values[start : start + 700])
        assert sum(buffer._used) < 1000
    codes = buffer.finish()
    expected = np.sort(encode.codes(values))
    assert [codes.tie_at(k)[0] for k in (1, 25_000, 50_000)] == [expected[0], expected[24_999], expected[-1]]
    distinct = CodeBuffer(encode)
    for start in range(0, 5000, 700):
        distinct.fold(np.arange(start, start + 700.0))
    assert distinct.finish().tie_at(5600)[0] == 5599


def test_a_record_alone_with_its_code_is_spread_like_any_other():
    """Offsets of 16,384 single records on four fine indices: each count within 7 standard deviations."""
    size = 1 << 14
    grid = Grid(resolution=Fraction(1), first=0, last=size, dither_bits=2)
    with Source(SeededEntropy("singles")) as source:
        ranks = ranks_of_codes(np.arange(size, dtype=np.int64), grid, source)
        indices = [ranks.order(k) for k in range(1, size + 1)]
        counts = np.bincount(np.array(indices) & 3, minlength=4)
        assert np.abs(counts - size / 4).max() < 7 * np.sqrt(size * 3 / 16)
        assert all(ranks.below(index) == k for k, index in enumerate(indices[:200]))
        assert all(ranks.below(index + 1) == k + 1 for k, index in enumerate(indices[:200]))


HOSTILE = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    1.0,
    -1.0,
    math.inf,
    -math.inf,
    math.nan,
    -math.nan,
    1e308,
    -1.7976931348623157e308,
]


@pytest.mark.parametrize("bounds", [{}, {"lowest": -1.0, "highest": 1.0}, {"lowest": 0.0, "highest": 1e9}])
def test_sorted_floats_answer_as_sorted_codes_do(bounds):
    """Codes made of the doubles that a question meets are those of all records coded one by one."""
    grid = FloatGrid(**bounds)
    rng = np.random.default_rng(5)
    near = np.nextafter(rng.choice([1.0, -1.0, 2.0, 1e9], 200), rng.choice([-9e9, 9e9], 200))
    spread = rng.choice([-1, 1], 300) * 10.0 ** rng.uniform(-320, 308, 300)
    for values in (np.array(HOSTILE), near, spread, np.concatenate([HOSTILE * 3, near, spread, np.full(40, 0.1)])):
        codes = np.sort(FloatCodes.on_grid(Number("x"), grid).codes(values))
        by_code, by_float = SortedCodes(codes), SortedFloats(values.copy(), grid)
        assert by_float.size == by_code.size
        assert [by_float.tie_at(k + 1) for k in range(len(codes))] == [by_code.tie_at(k + 1) for k in range(len(codes))]
        asked = {grid.first, grid.last, *codes.tolist(), *(codes[codes < grid.last] + 1).tolist()}
        assert all(by_float.span(code) == by_code.span(code) for code in asked)


def test_a_column_in_memory_is_only_sorted(monkeypatch):
    """On a grid of floats no record is coded: the sort is all that is done to every one."""
    monkeypatch.setattr(FloatCodes, "codes_into", lambda *_: pytest.fail("a record was coded"))
    table = Table(np.array([3.0, 1.0, math.nan, 2.0]), schema=[Number("value")])
    with seeded() as source:
        assert collect_ranks(table, "value", FloatGrid(), source).size == 3
    assert table.rows.length == 4
