"""Aggregates are monoids: rows may be folded in any split and merged in any grouping."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.coding import CategoryCoding, CombinedCoding, NumberCoding
from sidelight.aggregates.counts import CellCounts
from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.aggregates.moments import ClippedMoments
from sidelight.grid import Grid
from sidelight.guarantees.units import Row
from sidelight.records import Category, Number

X = NumberCoding("x", FixedPoint.on_grid(Number("x"), Grid(resolution=Fraction(1), first=-3, last=4)))
AGGREGATES = {
    "counts": CellCounts(coding=CombinedCoding((X, CategoryCoding(Category("c", ["a"])))), rows_per_unit=1, unit=Row()),
    "moments": ClippedMoments(
        coding=ClippedVector(
            columns=(Number("x"), Number("y")), radius=Fraction(1), levels=5, centres=(Fraction(0), Fraction(0))
        ),
        rows_per_unit=1,
        unit=Row(),
    ),
}


def plain(result):
    if hasattr(result, "second"):
        return [result.count.value, result.total.value.tolist(), result.second.value.tolist()]
    return np.asarray(result.value).tolist()


@pytest.mark.parametrize("name", list(AGGREGATES))
@given(data=st.data())
def test_monoid(name, data):
    aggregate = AGGREGATES[name]
    row = st.tuples(*(st.integers(first, last) for first, last in aggregate.coding.ranges))
    parts = data.draw(st.lists(st.lists(row, max_size=6), min_size=3, max_size=3))

    def codes(rows):
        return tuple(np.array([r[place] for r in rows], np.int64) for place in range(len(aggregate.coding.ranges)))

    def folded(*batches):
        state = aggregate.empty()
        for batch in batches:
            state = aggregate.fold(state, codes(batch))
        return state

    def finished(state):
        return plain(aggregate.finish(state))

    a, b, c = parts
    whole = finished(folded(a + b + c))
    assert finished(folded(a, b, c)) == whole
    assert finished(aggregate.merge(aggregate.merge(folded(a), folded(b)), folded(c))) == whole
    assert finished(aggregate.merge(folded(a), aggregate.merge(folded(b), folded(c)))) == whole
    assert finished(aggregate.merge(folded(b), folded(a))) == finished(folded(a, b))
    assert finished(aggregate.merge(aggregate.empty(), folded(a))) == finished(folded(a))
    assert finished(aggregate.merge(folded(a), aggregate.empty())) == finished(folded(a))
