"""One-sided selection of a radius: reference laws, all tiny data sets, the law of the draws, the power prior."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from grid_law import ListMasses, ListRanks, machine_law, outcome_masses
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from ranks_of_codes import ranks_of_codes
from sidelight.errors import RangeError
from sidelight.grid import FloatGrid, Grid
from sidelight.mechanisms import rank_selection as one_sided
from sidelight.mechanisms.rank_selection import (
    rows_near,
    select_radius,
)
from sidelight.mechanisms.rings import Rings
from sidelight.noise import Source
from sidelight.predictions import PowerLaw
from sidelight.testing import SeededEntropy

#: Of the floats in which these laws are written down; the sampler itself has none.
ROUNDING = 1e-12
MASSES = [[1] * 6, [32, 16, 8, 4, 2, 1], [1, 2, 3, 4, 5, 6], [1, 1000, 1, 1, 50, 1]]


def inside_of(codes):
    return lambda j: sum(code <= j for code in codes)


def law_of(codes, masses, epsilon, *, rows_per_unit=1, slope=one_sided._slope):
    """The law that the integers of the sampler stand for."""
    view = one_sided._RowsWithin(inside_of(codes), masses.first, masses.last)
    rings = Rings(view, masses, replace(slope(epsilon, rows_per_unit), target=view.size))
    return machine_law(rings, outcome_masses(masses))


def textbook(codes, masses, epsilon):
    weights = [
        mass * math.exp(-epsilon * sum(code > j for code in codes)) for j, mass in outcome_masses(masses).items()
    ]
    return [weight / sum(weights) for weight in weights]


def test_reference_laws():
    """R2 of the specification."""
    flat = [0.014994038125] + [0.040758021369] * 2 + [0.301163306379] * 3
    assert law_of((1, 3, 3), ListMasses([1] * 6), 1) == pytest.approx(flat, rel=1e-9)
    falling = [
        0.310857271141, 0.256258497541, 0.128129248770, 0.174145704313, 0.087072852157, 0.043536426078,
    ]  # fmt: skip
    assert law_of((1, 3, 3), ListMasses(MASSES[1]), Fraction(1, 2)) == pytest.approx(falling, rel=1e-9)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(-2, 8), max_size=12),
    st.lists(st.integers(1, 9), min_size=2, max_size=8),
    st.sampled_from([Fraction(1), Fraction(1, 10**6), Fraction(3, 7), Fraction(25)]),
)
def test_the_machine_follows_the_textbook(codes, masses, epsilon):
    """Codes at, below and beyond the ends included: rows inside the first outcome are inside all."""
    prior = ListMasses(masses)
    for machine, book in zip(law_of(codes, prior, epsilon), textbook(codes, prior, float(epsilon)), strict=True):
        assert machine == pytest.approx(book, rel=1e-9, abs=1e-40)


def losses(law, most):
    """Every log ratio between a data set of at most `most` codes and one with a code more."""
    for n in range(most):
        for codes in combinations_with_replacement(range(7), n):
            for added in range(7):
                less, more = law(codes), law(tuple(sorted((*codes, added))))
                yield [math.log(p / q) for p, q in zip(less, more, strict=True)]


@pytest.mark.parametrize("masses", MASSES)
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3)])
def test_no_neighbour_moves_the_law_further_than_epsilon(masses, epsilon):
    prior = ListMasses(masses)
    found = list(losses(lambda codes: law_of(codes, prior, epsilon), 3))
    assert max(max(map(abs, loss)) for loss in found) <= epsilon + ROUNDING
    assert max(max(loss) - min(loss) for loss in found) <= epsilon + ROUNDING
    assert max(max(loss) - min(loss) for loss in found) > 0.999 * epsilon  # attained: nothing is wasted


@pytest.mark.planted("twice the slope of one-sided scores", of=("Mean", "Sum", "Variance", "StandardDeviation"))
def test_twice_the_slope_is_caught():
    """The negative control of the line above."""
    found = losses(lambda codes: law_of(codes, ListMasses(MASSES[0]), Fraction(2)), 2)
    assert max(max(loss) - min(loss) for loss in found) > 1.9


def test_a_person_of_two_rows_pays_with_half_the_slope():
    prior = ListMasses(MASSES[1])
    worst = 0.0
    for codes in combinations_with_replacement(range(7), 2):
        for person in combinations_with_replacement(range(7), 2):
            less = law_of(codes, prior, Fraction(1), rows_per_unit=2)
            more = law_of((*codes, *person), prior, Fraction(1), rows_per_unit=2)
            ratios = [math.log(p / q) for p, q in zip(less, more, strict=True)]
            worst = max(worst, max(ratios) - min(ratios))
    assert 0.999 < worst <= 1 + ROUNDING


def counts_of_draws(epsilon, draws):
    codes, prior = (1, 3, 3), ListMasses(MASSES[1])
    with Source(SeededEntropy("one-sided draws")) as source:
        found = Counter(select_radius(inside_of(codes), prior, epsilon=epsilon, source=source) for _ in range(draws))
    return [found[j] for j in range(6)]


def test_the_draws_have_the_law_and_not_one_with_another_slope():
    draws = 6000
    counts = counts_of_draws(1, draws)
    book = np.array(textbook((1, 3, 3), ListMasses(MASSES[1]), 1.0))
    assert chisquare(counts, draws * book).pvalue > 1e-7
    for wrong in (0.7, 1.3):
        other = np.array(textbook((1, 3, 3), ListMasses(MASSES[1]), wrong))
        assert chisquare(counts, draws * other).pvalue < 1e-7


@pytest.mark.parametrize(
    ("grid", "radii"),
    [
        (FloatGrid(), FloatGrid(lowest=0.0)),
        (FloatGrid(dither_bits=0), FloatGrid(lowest=0.0, dither_bits=0)),
        (Grid(resolution=Fraction(1, 100), snap="nearest"), Grid(resolution=Fraction(1, 10), first=0, dither_bits=0)),
    ],
)
def test_rows_near_a_centre_on_other_grids(grid, radii):
    """Each row is outside up to some radius and inside from there on, ends of the grids included."""
    places = sorted({radii.fine_first, radii.fine_last, *(radii.index_of(r) for r in np.geomspace(1e-9, 1e15, 60))})
    for x in (-1e12, -3.7, 0.0, 1e-7, 4.99, 5.0, 5.01, 1e300):
        ranks = ListRanks([grid.index_of(x)])
        counts = [rows_near(ranks, grid, 5.0, radii)(j) for j in places]
        assert set(counts) <= {0, 1}
        assert counts == sorted(counts)
    ranks = ListRanks([grid.index_of(x) for x in (-100.0, 4.0, 5.0, 7.0, 1000.0)])
    found = [rows_near(ranks, grid, 5.0, radii)(radii.index_of(r)) for r in (0.5, 1.5, 2.5, 200.0, 2000.0)]
    assert found == [1, 2, 3, 4, 5]


def test_a_radius_on_a_grid_of_floats():
    data = np.random.default_rng(3).normal(50, 10, 4000)
    grid, radii = FloatGrid(dither_bits=0), FloatGrid(lowest=0.0, dither_bits=0)
    ranks = ranks_of_codes(np.sort([grid.index_of(x) for x in data]).astype(np.int64), grid, None)
    prior = PowerLaw(13.5).compile(radii)
    with Source(SeededEntropy("floats")) as source:
        found = [
            radii.value(select_radius(rows_near(ranks, grid, 50.0, radii), prior, epsilon=1, source=source))
            for _ in range(5)
        ]
    assert all(20 < radius < 200 for radius in found)


def test_an_empty_table_draws_from_the_prior():
    with Source(SeededEntropy("empty")) as source:
        drawn = {select_radius(lambda j: 0, ListMasses([1, 5, 1]), epsilon=1, source=source) for _ in range(200)}
    assert drawn == {0, 1, 2}


def test_one_outcome_needs_no_draw():
    with Source(SeededEntropy("one")) as source:
        assert select_radius(lambda j: 3, ListMasses([4]), epsilon=1, source=source) == 0


@pytest.mark.parametrize(("epsilon", "rows"), [(0, 1), (-1, 1), (1, 0), (1, 1.5), (Fraction(1, 2**59), 4)])
def test_bad_public_numbers_are_refused(epsilon, rows):
    with Source(SeededEntropy("bad")) as source, pytest.raises(RangeError):
        select_radius(lambda j: 0, ListMasses([1, 1]), epsilon=epsilon, source=source, rows_per_unit=rows)


# --- the power law ---

DISTANCES = Grid(resolution=Fraction(1), first=0, last=2**40, dither_bits=0)


@pytest.mark.parametrize("exponent", [3, 4, 6])
def test_compiled_masses_follow_the_power_law(exponent):
    prior = PowerLaw(1000, exponent=exponent)
    compiled = prior.compile(DISTANCES)
    # At a knot the mass is exact; between knots the density is flat, so the tail is a few percent off.
    for t in (10, 500, 1000, 2000, 16000):
        assert compiled.cumulative(t) / compiled.total == pytest.approx(float(prior.cdf(t)), rel=1e-9)
        beyond = (compiled.total - compiled.cumulative(t)) / compiled.total
        assert beyond == pytest.approx(float(prior.sf(t)), rel=1e-6)
    for t in (1010, 1500, 30000):
        beyond = (compiled.total - compiled.cumulative(t)) / compiled.total
        assert beyond == pytest.approx(float(prior.sf(t)), rel=0.02)


def test_the_density_is_continuous_at_the_anchor():
    prior = PowerLaw(1000)
    left, right = float(prior.cdf(1000) - prior.cdf(999)), float(prior.cdf(1001) - prior.cdf(1000))
    assert left == pytest.approx(right, rel=0.01)
    assert float(prior.cdf(1000)) == pytest.approx(0.8)


@pytest.mark.parametrize("grid", [DISTANCES, FloatGrid(lowest=0.0, highest=1e300, dither_bits=0)])
@pytest.mark.parametrize("anchor", [Fraction(1, 10**9), 1, 1e12, 3e15])
def test_every_outcome_has_mass_and_heights_never_fall(grid, anchor):
    compiled = PowerLaw(anchor).compile(grid)
    places = sorted({grid.index_of(x) for x in np.geomspace(1e-3, 2**40, 300)})
    heights = [compiled.cumulative(j) for j in places]
    assert all(b - a >= j - i for a, b, i, j in zip(heights, heights[1:], places, places[1:], strict=False))
    for j in places[::20]:
        assert compiled.inverse(compiled.cumulative(j)) == j


@pytest.mark.parametrize("anchor", [0, -1, math.nan, math.inf, "x", True])
def test_a_bad_anchor_is_refused(anchor):
    with pytest.raises(RangeError):
        PowerLaw(anchor)


@pytest.mark.parametrize("exponent", [2, 17, 4.0, True])
def test_a_tail_that_makes_the_noise_infinite_is_refused(exponent):
    with pytest.raises(RangeError, match="exponent"):
        PowerLaw(1, exponent=exponent)


def test_the_radius_covers_an_exponential_tail():
    """About 4/ε rows stay outside, whatever the anchor within a factor of four."""
    data = np.floor(np.random.default_rng(7).exponential(1000, 20_000)).astype(np.int64)
    data.sort()
    outside = []
    with Source(SeededEntropy("tail")) as source:
        for anchor in (300, 1000, 4000):
            prior = PowerLaw(anchor).compile(DISTANCES)
            for _ in range(20):
                radius = select_radius(
                    lambda j: int(data.searchsorted(j, "right")), prior, epsilon=Fraction(1, 4), source=source
                )
                outside.append(int((data > radius).sum()))
    assert np.mean(outside) < 30
    assert max(outside) < 120
