"""No neighbour moves a bounded statistic further than it says, and a forgotten bound is caught.

Rows are drawn from floats that break naive code. The same check, run against planted bugs, must fail: a check that
passes everything proves nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from plain_statistics import with_neighbours
from sidelight.aggregates import cell_counts, clipped_moments, clipped_vector, collect, collect_ranks
from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.mix import PRIME
from sidelight.aggregates.values import value_of
from sidelight.grid import Grid
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.units import Person, Row
from sidelight.noise import Source
from sidelight.records import Category, Drop, Fill, Number, PersonId, Table
from sidelight.records.rows import Batch
from sidelight.testing import SeededEntropy

NASTY = [0.0, -0.0, 5e-324, 1e300, -1e300, math.inf, -math.inf, math.nan, 0.5, 1.0, -1.0, 0.7071067811865476, 1e16]
numbers = st.sampled_from(NASTY) | st.floats() | st.floats(-2, 2)
labels = st.sampled_from(["a", "b", "c", "", None])
persons = st.sampled_from(["p", "q", "r", None, ""])
records = st.tuples(numbers, numbers, labels, persons)
record_lists = st.lists(records, max_size=8)
ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE


def table_of(rows, *, fill, person):
    schema = [
        Number("x", lower=-1, upper="1.5", missing=Fill(1) if fill else Drop()),
        Number("y", missing=Fill(0) if fill else Drop()),
        Category("c", ["a", "b"], other="other" if fill else None),
        *([PersonId("p", max_rows=2)] if person else []),
    ]
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    return Table(
        {
            "x": np.array(columns[0], np.float64),
            "y": np.array(columns[1], np.float64),
            "c": list(columns[2]),
            "p": list(columns[3]),
        },
        schema=schema,
    )


GRID = Grid(resolution=Fraction(1, 4), first=-3, last=5)
SUMS = (("whole", "l1"), ("whole", "l2"), ("pair", "l1"), ("triple", "l1"), ("centred", "l2"), ("disc", "l2"))
STATISTICS = {
    "cells": lambda table, kind: [
        cell_counts(table, columns, grids={"x": GRID, "y": GRID})
        for columns in (["x"], ["c", "y"])
        if kind is ADD_REMOVE
    ],
    "groups": lambda table, kind: [
        statistic
        for sums, norm in SUMS
        for groups in [with_neighbours(groups_of(table.schema, by="c", max_groups=table.schema.person and 2), kind)]
        for found in [group_statistics(table, groups, [value_of(table.schema, "x")], kind=sums, norm=norm)]
        for statistic in (found.counts, *found.values)
    ],
    "moments": lambda table, kind: [
        statistic
        for levels in (3, 2**14)
        for moments in [
            clipped_moments(table, ["x", "y"], radius="0.8", levels=levels, centres={"y": "0.1"}, neighbours=kind)
        ]
        for statistic in (moments.count, moments.total, moments.second)
    ],
}


def within(first, second):
    """Compare with exact integers; squares for l2."""
    difference = [abs(int(a) - int(b)) for a, b in zip(np.ravel(first.value), np.ravel(second.value), strict=True)]
    assert (first.sensitivity, first.norm) == (second.sensitivity, second.norm)
    if first.norm == "l2":
        return sum(step * step for step in difference) <= first.sensitivity**2
    return (sum(difference) if first.norm == "l1" else max(difference, default=0)) <= first.sensitivity


def check(statistic, rows, extra, other, *, fill):
    """Add a row, replace a row, add a person, replace a person."""
    run = STATISTICS[statistic]
    base, more, changed = rows, [*rows, extra], [*rows, other]
    by_row = {
        kind: [table_of(part, fill=fill, person=False) for part in (base, more, changed)]
        for kind in (ADD_REMOVE, REPLACE)
    }
    for one, two in zip(run(by_row[ADD_REMOVE][0], ADD_REMOVE), run(by_row[ADD_REMOVE][1], ADD_REMOVE), strict=True):
        assert one.unit == Row()
        assert within(one, two)
    for one, two in zip(run(by_row[REPLACE][1], REPLACE), run(by_row[REPLACE][2], REPLACE), strict=True):
        assert within(one, two)
    without = [row for row in rows if row[3] != "p"]
    someone = [row for row in rows if row[3] == "p"] + [(*extra[:3], "p")] * 3
    newcomer = [(*other[:3], "p"), (*extra[:3], "p"), (*other[:3], "p")]
    tables = [table_of(part, fill=fill, person=True) for part in (without, without + someone, newcomer + without)]
    for one, two in zip(run(tables[0], ADD_REMOVE), run(tables[1], ADD_REMOVE), strict=True):
        assert one.unit == Person("p", 2)
        assert within(one, two)
    for one, two in zip(run(tables[1], REPLACE), run(tables[2], REPLACE), strict=True):
        assert within(one, two)


@pytest.mark.parametrize("statistic", list(STATISTICS))
@settings(max_examples=40, deadline=None)
@given(record_lists, records, records, st.booleans())
def test_no_neighbour_moves_a_statistic_too_far(statistic, rows, extra, other, fill):
    check(statistic, rows, extra, other, fill=fill)


@settings(max_examples=40, deadline=None)
@given(record_lists, records, st.booleans())
def test_a_unit_adds_no_more_ranks_than_it_may(rows, extra, person):
    grid = Grid(resolution=Fraction(1, 4), dither_bits=0)
    someone = [(*extra[:3], "new")] * (5 if person else 1)
    with Source(SeededEntropy(0)) as source:
        first = collect_ranks(table_of(rows, fill=False, person=person), "x", grid, source)
        second = collect_ranks(table_of(rows + someone, fill=False, person=person), "x", grid, source)
        steps = {second.below(code) - first.below(code) for code in range(-20, 20)}
    assert steps <= set(range(3 if person else 2))


def drop_the_clamp(monkeypatch):
    """Forget to bound numbers: only the cast to integers stays."""

    def unbounded(self, values, out, kept):
        work = np.clip(np.where(np.isnan(values), 0.0, values), -(2.0**30), 2.0**30) * self.scale
        np.copyto(out, np.floor(work), casting="unsafe")

    monkeypatch.setattr(FixedPoint, "all_codes_into", unbounded)


def drop_the_length_clip(monkeypatch):
    """Forget to clip the length of rows, but not their entries."""
    monkeypatch.setattr(clipped_vector, "_SCALED_LIMIT", 1.0)
    monkeypatch.setattr(clipped_vector.np, "sqrt", np.ones_like)


def away_from_zero(values, out=None):
    return np.copysign(np.ceil(np.abs(values)), values, out=out)


def round_instead_of_truncate(monkeypatch):
    """Round entries to the nearest: rows can become longer than the radius."""
    monkeypatch.setattr(clipped_vector.np, "trunc", away_from_zero)


def drop_the_cap(monkeypatch):
    """Forget that at most two rows of a person count."""
    monkeypatch.setattr(collect, "cap_arrays", lambda persons, codes, ranges, k: codes)


def cap_by_position(monkeypatch):
    """Cap the number of all rows instead of each person's."""
    monkeypatch.setattr(
        collect, "cap_arrays", lambda persons, codes, ranges, k: tuple(code[: 2 * k + 1] for code in codes)
    )


@pytest.mark.planted("a bound of a sum, of moments or of rows forgotten")
@pytest.mark.parametrize(
    ("bug", "statistic"),
    [
        (drop_the_clamp, "groups"),
        (drop_the_length_clip, "moments"),
        (round_instead_of_truncate, "moments"),
        (drop_the_cap, "cells"),
        (drop_the_cap, "groups"),
        (drop_the_cap, "moments"),
        (cap_by_position, "cells"),
    ],
)
def test_planted_bugs_are_caught(bug, statistic, monkeypatch):
    """Negative control: with a bound forgotten, the property above fails."""
    bug(monkeypatch)

    @settings(
        max_examples=300,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],  # one counterexample is enough, it need not be small
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(record_lists, records, records, st.booleans())
    def check_again(rows, extra, other, fill):
        check(statistic, rows, extra, other, fill=fill)

    with pytest.raises(AssertionError):
        check_again()


@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=10), st.sampled_from([1, 7, 2**14, 2**20]))
def test_clipped_vectors_are_never_too_long(rows, levels):
    """In exact integers, at the largest number of levels too: floating point cannot lengthen a row past the radius."""
    columns = tuple(Number(name) for name in "abc")
    coding = clipped_vector.ClippedVector(
        columns=columns, radius=Fraction("0.37"), levels=levels, centres=(Fraction(0),) * 3
    )
    values = np.array(rows, np.float64)
    codes, _ = coding.kernel(Batch(len(rows), {name: values[:, place].copy() for place, name in enumerate("abc")}))
    assert all(sum(int(code[row]) ** 2 for code in codes) <= levels**2 for row in range(len(rows)))


def test_rows_on_the_sphere_stay_within_and_near_it():
    """Many directions at exactly the radius, and slightly beyond: the worst case for rounding."""
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(20_000, 5))
    rows *= np.exp(generator.uniform(-1e-9, 1e-9, (len(rows), 1))) / np.linalg.norm(rows, axis=1, keepdims=True)
    coding = clipped_vector.ClippedVector(
        columns=tuple(Number(name) for name in "abcde"), radius=Fraction(1), levels=2**20, centres=(Fraction(0),) * 5
    )
    codes, kept = coding.kernel(Batch(len(rows), {name: rows[:, place].copy() for place, name in enumerate("abcde")}))
    lengths = sum(code.astype(object) ** 2 for code in codes)
    assert kept is None
    assert max(lengths) <= 2**40
    assert min(lengths) > (2**20 - 5) ** 2
    assert PRIME % 3 == 2
