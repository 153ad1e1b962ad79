"""Distributions of the integer laws at 10**6 draws; a scale 30 %, 3 % and 1 % off is refuted by the same tests."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from noise_laws import (
    PMF,
    agrees,
    discrete_gaussian_pmf,
    laplace_pmf,
    p_values,
    rounded_gaussian_pmf,
)
from reference_samplers import discrete_gaussian
from scipy import stats

from sidelight.noise import (
    OSEntropy,
    Source,
    discrete_laplace,
    rounded_gaussian,
)
from sidelight.testing import SeededEntropy

N = 1_000_000
LAPLACE = (discrete_laplace, laplace_pmf)
GAUSS = (rounded_gaussian, rounded_gaussian_pmf)
DISCRETE = (discrete_gaussian, discrete_gaussian_pmf)

Family = tuple[Callable[..., Any], Callable[[Fraction], PMF]]

#: At most nine laws, so that the suite fails by chance with probability below 1e-6.
CASES = [
    (LAPLACE, "1/5", N),
    (LAPLACE, "10/7", N),
    (LAPLACE, "3", N),
    (LAPLACE, "40", N),
    (GAUSS, "1/5", N),
    (GAUSS, "7/10", N),
    (GAUSS, "3", N),
    (DISCRETE, "1/2", 300_000),
    (DISCRETE, "9", 300_000),
]


@pytest.mark.parametrize(("family", "parameter", "n"), CASES)
def test_law(family: Family, parameter: str, n: int) -> None:
    sampler, pmf = family
    right = Fraction(parameter)
    values = sampler(n, right, Source(SeededEntropy(2026)))
    assert agrees(values, pmf(right), n)
    wrong = right * Fraction(13, 10)
    assert not agrees(values, pmf(wrong), n)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "parameter", "n"), CASES)
def test_law_of_the_production_source(family: Family, parameter: str, n: int) -> None:
    sampler, pmf = family
    with Source(OSEntropy()) as source:
        assert agrees(sampler(4 * n, Fraction(parameter), source), pmf(Fraction(parameter)), 4 * n)


@pytest.mark.planted("lattice noise 3 % off")
def test_three_percent_off_is_refuted_by_both_tests() -> None:
    for sampler, pmf in (GAUSS, LAPLACE):
        values = sampler(N, Fraction(309, 100), Source(SeededEntropy(1)))
        rigorous, chi_square = p_values(values, pmf(Fraction(3)), N)
        assert rigorous < 1e-20
        assert chi_square < 1e-100


def test_one_percent_off_is_refuted() -> None:
    values = rounded_gaussian(N, Fraction(303, 100), Source(SeededEntropy(1)))
    assert p_values(values, rounded_gaussian_pmf(Fraction(3)), N)[1] < 1e-20


@pytest.mark.planted("a signed Laplace whose -0 is kept")
def test_double_zero_is_refuted() -> None:
    """The planted bug of a signed Laplace whose -0 is not discarded: zero is too likely."""
    values = discrete_laplace(N, Fraction(3), Source(SeededEntropy(1)))
    extra = np.concatenate([values, np.zeros(int((values == 0).sum()), np.int64)])
    assert not agrees(extra, laplace_pmf(Fraction(3)), extra.size)


def test_two_scales_in_one_call() -> None:
    n = 400_000
    scales = [Fraction(3), Fraction(7, 10)]
    which = np.arange(n) % 2
    values = rounded_gaussian(n, scales, Source(SeededEntropy(3)), which=which)
    for k, scale in enumerate(scales):
        assert agrees(values[which == k], rounded_gaussian_pmf(scale), n // 2)
        assert not agrees(values[which == k], rounded_gaussian_pmf(scales[1 - k]), n // 2)


def test_large_scale() -> None:
    """b = 2**45: Kolmogorov-Smirnov against the normal, and the low bits are uniform."""
    b = 2**45
    values = rounded_gaussian(200_000, Fraction(b), Source(SeededEntropy(4)))
    assert stats.kstest(values / b, "norm").pvalue > 1e-9
    assert stats.kstest(values / b / 1.3, "norm").pvalue < 1e-9
    assert stats.chisquare(np.bincount(values & 255, minlength=256)).pvalue > 1e-9
    laplace = discrete_laplace(200_000, Fraction(b), Source(SeededEntropy(4)))
    assert stats.kstest(laplace / b, "laplace").pvalue > 1e-9
    assert stats.kstest(laplace / b / 1.3, "laplace").pvalue < 1e-9


def test_huge_scale() -> None:
    """b = 2**70, Python integers."""
    values = rounded_gaussian(5000, Fraction(2**70), Source(SeededEntropy(5)))
    assert stats.kstest([float(k / 2**70) for k in values], "norm").pvalue > 1e-9
    assert stats.kstest([float(k / 2**70 / 1.3) for k in values], "norm").pvalue < 1e-9


def test_variance_of_the_rounded_gaussian() -> None:
    """About b² + 1/12 from b = 1/2 on (2.4 % less there), and ten times less at b = 1/5."""
    for scale in (Fraction(1, 2), Fraction(1), Fraction(3)):
        pmf = rounded_gaussian_pmf(scale)
        variance = sum(2 * k * k * pmf(k) for k in range(1, 60))
        assert variance == pytest.approx(float(scale) ** 2 + 1 / 12, rel=0.025)
    assert 2 * rounded_gaussian_pmf(Fraction(1, 5))(1) == pytest.approx((1 / 25 + 1 / 12) / 10, rel=0.02)


def test_discrete_gaussian_needs_a_moderate_variance() -> None:
    from sidelight.errors import RangeError

    for bad in (Fraction(1, 2**101), Fraction(2**91)):
        with pytest.raises(RangeError, match="variance"):
            discrete_gaussian(1, bad, Source(SeededEntropy(0)))
    assert discrete_gaussian(100, Fraction(1, 2**100), Source(SeededEntropy(0))).tolist() == [0] * 100
    large = discrete_gaussian(2000, Fraction(2**90), Source(SeededEntropy(0)))
    assert stats.kstest(large / 2.0**45, "norm").pvalue > 1e-9
