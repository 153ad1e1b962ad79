"""The plan of cells: budgets that add up exactly, the specification's numbers, and levels in the tails."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.grid import FloatGrid
from sidelight.quantiles.forms.cells import _beyond
from sidelight.quantiles.forms.cells_plan import QUARTILES, cells_plan, fine_levels, tailed
from sidelight.quantiles.forms.interpolation import Breakpoints
from sidelight.quantiles.tree import even_levels


@pytest.mark.parametrize("size", [-50, 0, 1, 7, 1000, 10_000, 10**6, 10**12, 10**40])
@pytest.mark.parametrize("epsilon", ["1/1000", "1/10", "49/50", "1", "7", "1000"])
@pytest.mark.parametrize("count", [1, 16, 999])
def test_budgets_add_up_exactly(epsilon: str, size: int, count: int) -> None:
    for currency in ("epsilon", "rho"):
        plan = cells_plan(even_levels(count), size=size, **{currency: Fraction(epsilon)})  # type: ignore[arg-type]
        assert plan.breakpoints + plan.coarse + plan.middle + plan.fine == plan.budget == Fraction(epsilon)
        assert plan.rough + plan.left == plan.fine
        assert plan.rough * 3 == plan.fine, "Theorem 7 needs a third, not something near it"
        assert min(plan.breakpoints, plan.coarse, plan.fine) > 0
        assert (plan.middle > 0) == plan.three_rounds == (plan.middle_count > 0)
        assert 4 <= plan.breakpoint_count <= 48
        assert 12 <= plan.fine_count <= 2000
        levels = plan.breakpoint_levels
        assert list(levels) == sorted(set(levels))
        assert all(0 < level < 1 for level in levels)
        assert all(abs(level - quartile) >= Fraction(15, 1000) for level in levels for quartile in QUARTILES)


def test_the_numbers_of_the_specification() -> None:
    plan = cells_plan(even_levels(99), size=10_000, epsilon=Fraction(1))
    assert plan.breakpoint_count == round(10_000**0.28) == 13
    assert plan.fine_count == 200
    share = 0.05 * 10**0.35
    assert float(plan.breakpoints) == pytest.approx(share, abs=1e-6)
    assert float(plan.coarse) == pytest.approx(0.4 * (1 - share), abs=1e-6), "chosen: more than the specification"
    assert not plan.three_rounds
    large = cells_plan(even_levels(99), size=6_000_000, epsilon=Fraction(1))
    assert large.three_rounds
    assert float(large.breakpoints) == pytest.approx(0.04, abs=1e-6)
    assert float(large.coarse) == pytest.approx(0.15 * 0.96, abs=1e-6)
    assert float(large.middle) == pytest.approx(0.25 * 0.96, abs=1e-6)
    small = cells_plan(even_levels(99), size=1000, epsilon=Fraction(1, 10))
    assert float(small.breakpoints) == pytest.approx(0.017, abs=1e-6), "capped at 0.17"


@pytest.mark.parametrize(
    ("worth", "share", "cells"), [(10, 0.3, 12), (1000, 0.3, 63), (10**4, 0.4, 200), (10**5, 0.4, 777)]
)
def test_more_records_have_more_cells_and_coarse_counts_a_larger_share(worth: int, share: float, cells: int) -> None:
    plan = cells_plan(even_levels(1999), size=worth, epsilon=Fraction(1))
    assert plan.fine_count == pytest.approx(cells, abs=1)
    assert float(plan.coarse / (plan.coarse + plan.fine)) == pytest.approx(share, abs=1e-5)
    assert plan.coarse >= Fraction(3, 10) * (plan.coarse + plan.fine) * (1 - Fraction(1, 2**18)), "the dearest claim"


def test_levels_have_a_cell_each_if_they_are_not_far_too_many() -> None:
    assert cells_plan(even_levels(99), size=1000, epsilon=Fraction(1)).fine_count == 99
    assert cells_plan(even_levels(199), size=1000, epsilon=Fraction(1)).fine_count == 63


def test_levels_that_are_hopeless_leave_the_quartiles() -> None:
    assert cells_plan(even_levels(99), size=300, epsilon=Fraction(1, 10)).breakpoint_levels == ()


def test_tailed_levels_solve_their_equation() -> None:
    first, last, count = 0.007, 0.98, 40
    levels = [float(level) for level in tailed(first, last, count=count, weight=0.3)]
    assert len(levels) == count

    def logit(level: float) -> float:
        return math.log(level / (1 - level))

    for k, level in enumerate(levels):
        place = 0.7 * (level - first) / (last - first)
        place += 0.3 * (logit(level) - logit(first)) / (logit(last) - logit(first))
        assert place == pytest.approx(k / (count - 1), abs=1e-4)
    gaps = np.diff(levels)
    assert gaps[0] < gaps[len(gaps) // 2] > gaps[-1]


def test_tailed_levels_of_hardly_any_room() -> None:
    assert tailed(0.5, 0.5, count=7, weight=0.3) == [Fraction(1, 2)]
    few = tailed(0.5, 0.5 + 3 / 2**20, count=7, weight=0.3)
    assert 1 < len(few) <= 4
    assert few == sorted(set(few))
    assert tailed(0.2, 0.8, count=1, weight=0.3)[0] == pytest.approx(0.2, abs=1e-6)


def test_fine_levels_are_those_asked_for_while_they_are_few() -> None:
    levels = even_levels(99)
    assert fine_levels(levels, low=0.105, high=0.895, count=200) == [i / 100 for i in range(11, 90)]
    chosen = fine_levels(even_levels(9999), low=0.1, high=0.9, count=200)
    assert len(chosen) == 200
    assert 0.1 < chosen[0] < chosen[-1] < 0.9
    assert fine_levels(levels, low=0.5, high=0.501, count=9) == []


def test_one_currency() -> None:
    for wrong in ({}, {"epsilon": Fraction(1), "rho": Fraction(1)}):
        with pytest.raises(RangeError, match="exactly one"):
            cells_plan(even_levels(3), size=10, **wrong)


def test_rates_give_the_variances_of_both_laws() -> None:
    pure = cells_plan(even_levels(99), size=10_000, epsilon=Fraction(1))
    assert pure.variance(pure.coarse) == pytest.approx(2 / float(pure.coarse) ** 2)
    concentrated = cells_plan(even_levels(199), size=10_000, rho=Fraction(1, 10))
    assert concentrated.variance(concentrated.coarse) == pytest.approx(1 / (2 * float(concentrated.coarse)))
    assert all(isinstance(each, str) for each in concentrated.to_json().values())


@pytest.mark.parametrize("far", [1.0, 1e-290, 1e290])
def test_cuts_beyond_the_outermost_points_lie_beyond_them_at_every_scale(far: float) -> None:
    """Places are whole numbers over one denominator, too long for a float: a failure here would depend on records."""
    grid = FloatGrid()
    points = tuple(grid.index_of(far * each) for each in (0.5, 0.7, 0.8, 0.9, 1.0))
    ends = np.cumsum([0.0, 90, 150, 260, 260, 150, 90])
    weak, strong = Breakpoints(grid, points, ends), Breakpoints(grid, points, 100 * ends)
    plan = cells_plan(even_levels(99), size=1000, epsilon=Fraction(1))
    found = _beyond(weak, np.arange(1, 100) / 100, plan)
    assert len([index for index in found if index < points[0]]) == 7
    assert len([index for index in found if index > points[-1]]) == 7
    assert not _beyond(strong, np.arange(1, 100) / 100, plan)
    assert not _beyond(weak, np.array([0.5]), plan), "nothing is asked for out there"
