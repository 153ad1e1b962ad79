"""Finishing a tail: which points count, and how it goes on beyond the outermost of them."""

from fractions import Fraction

import numpy as np
import pytest

from sidelight.mechanisms.budget import Budget
from sidelight.quantiles.descend import Cell
from sidelight.quantiles.forms.cells_bound import _beside_denser
from sidelight.quantiles.forms.finish import LocalTask, _continued, _outwards, _planned, outer_ranks, spread_levels
from sidelight.quantiles.forms.least_squares import Round
from sidelight.quantiles.forms.refined_counts import Parts


def tail(size: float, *, place="below", epsilon="0.06", targets: int = 60) -> LocalTask:
    levels = tuple((np.arange(1, targets + 1) / (targets + 1)).tolist())
    return LocalTask(cell=Cell(0, 10, 11), place=place, levels=levels, size=size, budget=Budget.of(epsilon=epsilon))


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 1.4])
def test_a_tail_goes_on_as_the_power_of_the_rank_that_its_last_points_show(power):
    """Linear in the rank at a hard edge, where a straight line in the logarithm would run far past it."""
    ranks = np.array([1000.0, 1400.0, 1960.0])
    asked = np.array([50.0, 200.0, 900.0])

    def height(rank):
        return np.log(rank) if power == 0 else rank**power

    found = _continued(np.log(ranks), height(ranks), np.log(asked), most_power=1.5)
    span = height(ranks[0]) - height(asked[0])
    assert np.abs(found - height(asked)).max() < 0.06 * span
    straight = height(ranks[0]) + (np.log(asked[0] / 1000)) * (height(1400.0) - height(1000.0)) / np.log(1.4)
    assert power < 1 or abs(straight - height(asked[0])) > 0.5 * span


@pytest.mark.parametrize("place", ["below", "above"])
def test_points_outside_the_data_do_not_count(place):
    """Four points beyond a hard edge at 0, whose ranks are noise, among points at even steps inside."""
    task = tail(13_000.0, place=place)
    inside = np.array([1000.0, 2000.0, 4000.0, 8000.0])
    places = np.array([-1000.0, -40.0, -30.0, -20.0, -10.0, *inside, 13_000.0])
    ends = np.array([0.0, 90.0, 130.0, 150.0, 170.0, *inside, 13_000.0])
    asked = np.array([100.0, 500.0, 3000.0])
    noise = np.full(9, 35.0)
    if place == "above":
        found = -_outwards(task, 13_000 - asked, (13_000 - ends)[::-1], -places[::-1], deviations=noise)
    else:
        found = _outwards(task, asked, ends, places, deviations=noise)
    assert np.abs(found - asked).max() < 120


def test_a_long_tail_has_more_points_at_small_steps():
    short, long = outer_ranks(tail(900.0, targets=8)), outer_ranks(tail(13_000.0, targets=130))
    assert short.size == 7
    assert 7 < long.size <= 22
    outer, inner = long[long < 0.125], long[long >= 0.125]
    assert (outer[1:] / outer[:-1]).max() < 1.5
    assert inner.tolist() == [each / 8 for each in range(1, 8)]


def test_precise_counts_lie_between_more_points():
    """More points where a count's noise is small compared with its cell's sampling error."""
    task = tail(13_000.0, targets=130, epsilon="0.6")
    assert np.diff(outer_ranks(task)).max() == pytest.approx(1 / 31)


def test_a_part_was_to_hold_as_much_as_the_largest_beside_its_place():
    """Points may lie anywhere: what a part was to hold goes by its released ranks, not by its number."""
    task = tail(1000.0, targets=60, epsilon="0.6")
    cuts = np.array([0.0, *spread_levels(task), 1.0])
    as_planned = _planned(task, spread_levels(task), cuts * 900)
    assert (as_planned >= np.diff(cuts) * 1000 - 1e-9).all()
    assert as_planned.max() == pytest.approx(np.diff(cuts).max() * 1000)
    missed = _planned(task, spread_levels(task), np.array([0.0, 0.0, 0.0, 890.0, 900.0]))
    assert missed.size == 4
    assert missed[0] < 40
    assert missed[2] == pytest.approx(as_planned.max()), "not the 890 that it holds"


@pytest.mark.filterwarnings("error")
def test_ranks_with_the_same_logarithm_are_one_point() -> None:
    """No slope between two points at one position, which would make the result NaN."""
    budget = Budget("epsilon", Fraction(1, 10**15))
    for place in ("below", "above"):
        task = LocalTask(cell=Cell(0, 9, 10), place=place, levels=(0.1, 0.5), size=3e17, budget=budget)
        ends = np.array([0.0, 1e17, 1e17 + 16, 2e17, 2e17 + 32, 3e17])
        places = np.array([0.0, 1.0, 1.0, 5.0, 5.0, 9.0])
        found = _outwards(task, np.array([1.0, 9e16, 1.5e17, 3e17]), ends, places, deviations=np.full(5, 2e15))
        assert np.isfinite(found).all()


@pytest.mark.filterwarnings("error")
def test_parts_of_no_width_are_denser_than_anything_beside_them() -> None:
    for counts, widths in (([0.0, 0.0], [0.0, 1e300]), ([50.0, 0.0], [0.0, 0.0]), ([0.0, 9.0], [1e300, 0.0])):
        parts = Parts((1,), (Round.of(counts, 2e4),), np.cumsum([0.0, *widths]), np.ones(2))
        for unevenness in (0.0, 0.5, 1.0):
            assert 0 < _beside_denser(parts, 0, unevenness) <= 1
