"""The two bounds on a change of leader: reference values, their inverses, and the chance itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.experts.adabatch import change_probability, needed_margin, paper_tail, paper_tail_inverse


def test_the_papers_tail_and_its_inverse():
    values = paper_tail([0.5, 1, 2, 3])
    assert values == pytest.approx([0.95740539, 0.74288560, 0.18736230, 0.01569017], rel=1e-6)
    assert paper_tail_inverse([1e-3, 1e-6]) == pytest.approx([3.80900540, 5.32204549], rel=1e-5)
    assert paper_tail([-1.0, 0.0]).tolist() == [1.0, 1.0]


def test_needed_margins():
    d = [1e-2, 1e-4, 1e-6]
    assert needed_margin(d, actions=25) == pytest.approx([3.529296, 4.602891, 5.483638], rel=1e-6)
    assert needed_margin(d, actions=25, bound="paper") == pytest.approx([5.114265, 6.339472, 7.289582], rel=1e-6)


@given(st.floats(1e-9, 0.5), st.integers(2, 10_000), st.sampled_from(["union", "paper"]))
def test_the_margin_is_the_inverse_of_the_bound(d, n, bound):
    x = needed_margin(d, actions=n, bound=bound)
    assert float(change_probability(x, actions=n, bound=bound)) == pytest.approx(min(d, 1.0), rel=1e-6)


@given(st.integers(2, 10_000), st.floats(1.0, 8.0))
def test_the_union_bound_is_the_smaller_one_where_it_matters(n, factor):
    x = 1.5 * math.sqrt(math.log(2 * n - 2)) * factor + 1e-9
    union, paper = (float(change_probability(x, actions=n, bound=b)) for b in ("union", "paper"))
    assert union <= paper + 1e-300


@pytest.mark.parametrize(("gap", "union", "paper"), [(60, 0.0005, 0.105), (50, 0.0098, 0.392)])
def test_the_chance_itself_lies_below_both_bounds(gap, union, paper):
    n, steps, runs = 25, 100, 20_000
    x = gap / math.sqrt(2 * steps)
    bounds = [float(change_probability(x, actions=n, bound=b)) for b in ("union", "paper")]
    assert bounds == pytest.approx([union, paper], rel=0.07)
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(20):
        walk = np.cumsum(rng.standard_normal((runs // 20, steps, n), dtype=np.float32), axis=1)
        hits += int(((walk[:, :, 1:].max(axis=2) - walk[:, :, 0]) > gap).any(axis=1).sum())
    # five standard errors; a bound that forgets the factor 2 of Lévy's inequality is below the chance at 50
    error = 5 * math.sqrt(max(hits, 1)) / runs
    assert hits / runs <= bounds[0] + error
    assert hits / runs <= bounds[1]


def test_an_unknown_bound_is_refused():
    with pytest.raises(RangeError, match="union"):
        change_probability(1.0, actions=3, bound="unoin")
