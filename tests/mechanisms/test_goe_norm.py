"""The norm of symmetric Gaussian noise: reference quantiles, the exact law in small dimensions, and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.mechanisms.goe_norm import (
    density,
    expected_above,
    goe_norm_closed_form,
    goe_norm_quantile,
    hermite_functions,
    upper_integral,
)

RHOS = (1e-2, 1e-3, 1e-6, 1e-9)
TABLE = {
    1: (3.64277, 4.65351, 6.91782, 8.64001, 9.618),
    2: (4.45053, 5.38677, 7.52651, 9.18038, 10.446),
    5: (6.00197, 6.84108, 8.80060, 10.34509, 12.090),
    10: (7.75618, 8.52249, 10.33499, 11.78211, 13.943),
    21: (10.47937, 11.16981, 12.81987, 14.15230, 16.783),
    50: (15.31543, 15.92200, 17.38391, 18.57601, 21.760),
    100: (21.06388, 21.60850, 22.92693, 24.00788, 27.618),
    200: (29.24458, 29.73228, 30.91648, 31.89103, 35.902),
}


@pytest.mark.parametrize("dimension", TABLE)
def test_reference_quantiles(dimension: int) -> None:
    *quantiles, closed = TABLE[dimension]
    for rho, reference in zip(RHOS, quantiles, strict=True):
        assert goe_norm_quantile(dimension, rho) == pytest.approx(reference, abs=6e-6)
    assert goe_norm_closed_form(dimension, 1e-6) == pytest.approx(closed, abs=6e-4)
    assert goe_norm_quantile(dimension, 1e-6) < closed


def test_one_dimension_is_a_normal_of_variance_two() -> None:
    from scipy.special import ndtri

    for rho in RHOS:
        assert goe_norm_quantile(1, rho) == pytest.approx(-math.sqrt(2) * ndtri(rho / 2), rel=1e-6)
        assert goe_norm_quantile(1, rho) >= -math.sqrt(2) * ndtri(rho / 2)


@pytest.mark.parametrize("dimension", [1, 2, 3, 8, 51, 400])
def test_the_density_counts_all_eigenvalues(dimension: int) -> None:
    x = np.linspace(-45, 45, 18001)
    assert np.sum(density(dimension, x)) * (x[1] - x[0]) == pytest.approx(dimension, abs=1e-8 * dimension)


@pytest.mark.parametrize("degree", [0, 1, 6, 7])
def test_upper_integrals_against_quadrature(degree: int) -> None:
    from scipy.integrate import quad

    for start in (-3.0, 0.4, 5.0):
        exact, _ = quad(lambda t: hermite_functions(degree, np.array([t]))[degree, 0], start, 14, epsabs=1e-13)
        assert upper_integral(degree, np.array([start]))[0] == pytest.approx(exact, rel=1e-9, abs=1e-14)


def largest_eigenvalue_below(dimension: int, level: float) -> float:
    """P(λ₁ <= t), exactly: √(det S(t) / det S(∞)), S skew with double integrals of Hermite functions."""
    return math.sqrt(_pfaffian_squared(dimension, level / math.sqrt(2)) / _pfaffian_squared(dimension, 12.0))


def _pfaffian_squared(dimension: int, end: float) -> float:
    x = np.linspace(-12.0, end, 24001)
    step = x[1] - x[0]
    values = hermite_functions(max(dimension - 1, 1), x)[:dimension]
    # the trapezoid rule: the functions vanish at the left end, and the step is small
    cumulative = np.concatenate(
        [np.zeros((dimension, 1)), np.cumsum((values[:, 1:] + values[:, :-1]) / 2 * step, axis=1)], axis=1
    )
    weights = np.full(len(x), step)
    weights[[0, -1]] /= 2
    double = (cumulative * weights) @ values.T  # ∫ (∫_{u<v} φᵢ(u) du) φⱼ(v) dv
    skew = double - double.T
    if dimension % 2:
        border = cumulative[:, -1:]
        skew = np.block([[skew, border], [-border.T, np.zeros((1, 1))]])
    return float(np.linalg.det(skew))


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 5, 8, 10])
def test_safe_and_close_to_the_exact_law(dimension: int) -> None:
    for rho in (1e-2, 1e-3):
        level = goe_norm_quantile(dimension, rho)
        above = 1 - largest_eigenvalue_below(dimension, level)
        assert above <= rho / 2 * (1 + 2e-4)  # the quadrature of this test
        assert above >= rho / 2 * 0.998
        # the normalisation of a part of the literature, √2 too small, is far from a bound
        assert 1 - largest_eigenvalue_below(dimension, level / math.sqrt(2)) > 3 * rho


def test_the_level_twelve_of_the_thesis_is_in_another_scale() -> None:
    """In dimension 50, 12 is exceeded nearly always; 12·√2 with probability 8.465e-6/2 for one end."""
    assert expected_above(50, 12 * math.sqrt(2)) == pytest.approx(8.465e-6 / 2, rel=1e-4)
    assert expected_above(50, 12.0) > 1.8
    assert goe_norm_quantile(50, 8.465e-6) == pytest.approx(12 * math.sqrt(2), abs=1e-4)
    rng = np.random.default_rng(50)
    z = rng.standard_normal((200, 50, 50))
    norms = np.linalg.norm((z + z.transpose(0, 2, 1)) / math.sqrt(2), 2, axis=(1, 2))
    assert np.mean(norms > 12) > 0.9
    assert np.max(norms) < 12 * math.sqrt(2)


def test_simulated_norms_and_a_scale_thirty_percent_off() -> None:
    rng = np.random.default_rng(6)
    z = rng.standard_normal((20_000, 6, 6))
    norms = np.abs(np.linalg.eigvalsh((z + z.transpose(0, 2, 1)) / math.sqrt(2))).max(axis=1)
    level = goe_norm_quantile(6, 0.01)
    missed = np.mean(norms > level)
    assert 0.006 < missed < 0.0135  # 0.01 give or take 5 standard errors
    assert np.mean(1.3 * norms > level) > 0.05


def test_far_out_the_closed_form_takes_over() -> None:
    assert goe_norm_quantile(401, 1e-6) == goe_norm_closed_form(401, 1e-6)
    assert goe_norm_quantile(10, 1e-40) == goe_norm_closed_form(10, 1e-40)
    assert goe_norm_quantile(400, 1e-30) < goe_norm_closed_form(400, 1e-30)
    levels = [goe_norm_quantile(30, rho) for rho in (0.5, 1e-1, 1e-4, 1e-12, 1e-29, 1e-31)]
    assert levels == sorted(levels)


@pytest.mark.parametrize(("dimension", "rho"), [(0, 0.1), (3, 0.0), (3, 1.0)])
def test_what_makes_no_sense_is_refused(dimension: int, rho: float) -> None:
    with pytest.raises(RangeError, match="dimension"):
        goe_norm_quantile(dimension, rho)
