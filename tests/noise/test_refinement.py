"""Refinable noise (quantiles proof page, Theorem 7): the identity of laws, the sampler's law, the mechanism's care."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from noise_laws import PMF, agrees, laplace_pmf

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.units import Row
from sidelight.mechanisms.refinable_counts import RefinableCounts
from sidelight.noise import OSEntropy, Source, discrete_laplace, geometric, refinement_noise
from sidelight.testing import SeededEntropy


def one_side(scale: Fraction, reach: int) -> list[mpmath.mpf]:
    """Return P(G = 0), ..., P(G = reach - 1) of the noise on one side."""
    a = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
    nothing = 1 / (1 + a + a * a)
    return [nothing, *((1 - nothing) * (1 - a) * a**k for k in range(reach - 1))]


def refinement_pmf(scale: Fraction) -> PMF:
    """Return the exact probabilities of Z = G - G'."""
    side = one_side(scale, 40 * int(scale + 1))
    size = len(side)
    return lambda k: float(mpmath.fsum(side[i] * side[i + abs(k)] for i in range(max(size - abs(k), 0))))


@pytest.mark.parametrize("scale", ["2/5", "3", "25/2"])
def test_the_sum_has_the_law_of_the_coarse_noise(scale: str) -> None:
    """P(X + Z = k) is that of discrete Laplace noise of three times the scale, to 25 digits."""
    with mpmath.workdps(40):
        coarse = Fraction(scale)
        reach = 90 * int(coarse + 1)
        fine_a = mpmath.exp(-3 * mpmath.mpf(coarse.denominator) / coarse.numerator)
        coarse_a = mpmath.exp(-mpmath.mpf(coarse.denominator) / coarse.numerator)
        fine = [(1 - fine_a) * fine_a**k for k in range(reach)]
        side = one_side(coarse, reach)
        for k in range(12):  # one side: Geom(a^3) + G ~ Geom(a); the difference of two of them is the two-sided law
            found = mpmath.fsum(fine[i] * side[k - i] for i in range(k + 1))
            assert abs(found - (1 - coarse_a) * coarse_a**k) < mpmath.mpf(10) ** -25


@pytest.mark.parametrize("scale", ["2/5", "10"])
def test_refinement_noise_has_its_law(scale: str) -> None:
    right, n = Fraction(scale), 200_000
    values = refinement_noise(n, right, Source(SeededEntropy(19)))
    assert agrees(values, refinement_pmf(right), n)
    assert not agrees(values, refinement_pmf(right * Fraction(13, 10)), n)


@pytest.mark.parametrize("scale", ["2/5", "10"])
def test_rough_counts_have_the_coarse_law(scale: str) -> None:
    right, n = Fraction(scale), 300_000
    source = Source(SeededEntropy(20))
    values = discrete_laplace(n, right / 3, source) + refinement_noise(n, right, source)
    assert agrees(values, laplace_pmf(right), n)
    assert not agrees(values, laplace_pmf(right * Fraction(13, 10)), n)


def test_geometric_numbers_have_their_law() -> None:
    values = geometric(200_000, Fraction(7, 2), Source(SeededEntropy(21)))
    a = np.exp(-2 / 7)
    assert values.min() == 0
    assert abs(values.mean() - a / (1 - a)) < 6 * np.sqrt(a) / (1 - a) / np.sqrt(values.size)
    assert abs((values == 0).mean() - (1 - a)) < 6 * 0.5 / np.sqrt(values.size)


def test_very_large_scales_are_python_integers() -> None:
    with Source(OSEntropy()) as source:
        assert geometric(3, Fraction(2**70), source).dtype == object
        assert refinement_noise(3, Fraction(2**70), source).dtype == object


def counted(*counts: int) -> Bounded:
    return Bounded(np.array(counts), Fraction(1), "l1", Neighbours.ADD_REMOVE, Row())


def test_refined_cells_keep_the_fine_noise_and_others_stay_as_they_were() -> None:
    cells = RefinableCounts(counted(*[1000] * 4000), epsilon=3, source=Source(SeededEntropy(22)))
    rough = cells.rough.copy()
    chosen = np.arange(4000) % 2 == 0
    refined = cells.refined(chosen)
    assert (refined[~chosen] == rough[~chosen]).all()
    fine, coarse = refined[chosen].std(), rough.std()
    assert 0.3 < fine < 0.45, "scale 1/3: standard deviation about 0.36"
    assert 1.2 < coarse < 1.5, "scale 1: standard deviation about 1.36"
    assert cells.left + cells.rough_epsilon == cells.epsilon == 3
    assert cells.left == 2


def test_a_second_refinement_is_refused() -> None:
    cells = RefinableCounts(counted(5, 6), epsilon="0.1", source=Source(SeededEntropy(23)))
    with pytest.raises(RangeError, match="each of the 2 cells"):
        cells.refined([True])
    cells.refined([True, False])
    with pytest.raises(RangeError, match="refined already"):
        cells.refined([False, True])


@pytest.mark.parametrize(
    "counts",
    [
        Bounded(np.array([5]), Fraction(2), "l1", Neighbours.ADD_REMOVE, Row()),
        Bounded(np.array([5]), Fraction(1), "l2", Neighbours.ADD_REMOVE, Row()),
        Bounded(5, Fraction(1), "l1", Neighbours.ADD_REMOVE, Row()),
    ],
)
def test_other_sensitivities_are_refused(counts: Bounded) -> None:
    with pytest.raises(RangeError, match="one record moves one count by one"):
        RefinableCounts(counts, epsilon=1, source=Source(SeededEntropy(24)))


def test_nothing_private_is_shown() -> None:
    cells = RefinableCounts(counted(12345), epsilon=1, source=Source(SeededEntropy(25)))
    assert repr(cells) == "RefinableCounts(private, cells=1, epsilon=1)"
