"""Calibration: the noise of a Gaussian in higher precision, and the solver."""

from __future__ import annotations

from fractions import Fraction

import mpmath as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.accounting import gaussian_noise_scale
from sidelight.errors import RangeError
from sidelight.guarantees.amounts import grid_ceil, grid_floor, largest, smallest

F = Fraction
mpmath = oracle.MPContext()
mpmath.dps = 60


def mp(x: Fraction) -> oracle.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


def test_gaussian_noise_reference_and_proof() -> None:
    sigma = gaussian_noise_scale(1, "1e-6")
    assert abs(float(sigma) - 4.224678889327) < 1e-11
    for factor, within in ((1, True), (1 - mpmath.mpf("1e-11"), False)):
        mu = 1 / (mp(sigma) * factor)
        value = mpmath.ncdf(mu / 2 - 1 / mu) - mpmath.e * mpmath.ncdf(-mu / 2 - 1 / mu)
        assert (value <= mpmath.mpf("1e-6")) is within
    assert abs(float(gaussian_noise_scale(1, "1e-6", sensitivity=3)) / float(3 * sigma) - 1) < 1e-11


# --- the solver -------------------------------------------------------------------------------------------------------


@given(st.fractions(F(1, 10**9), 10**9), st.integers(1, 14))
def test_grid_neighbours(x: Fraction, digits: int) -> None:
    low, high = grid_floor(x, digits=digits), grid_ceil(x, digits=digits)
    assert low <= x <= high
    assert grid_floor(low, digits=digits) == low == grid_ceil(low, digits=digits)
    assert high - low <= low * F(10) ** (1 - digits)


@settings(max_examples=60, deadline=None)
@given(st.fractions(F(1, 10**6), 10**6), st.fractions(F(1, 10**8), 10**8), st.integers(2, 12))
def test_the_solver_returns_the_last_that_holds(target: Fraction, start: Fraction, digits: int) -> None:
    options = {"start": start, "lower": F(1, 10**8), "upper": F(10**8), "digits": digits, "name": "x"}
    assert largest(lambda v: v <= target, **options) == grid_floor(target, digits=digits)  # type: ignore[arg-type]
    assert smallest(lambda v: v >= target, **options) == grid_ceil(target, digits=digits)  # type: ignore[arg-type]


def test_the_solver_names_its_bracket() -> None:
    with pytest.raises(RangeError, match="between 1e-6 and 10"):
        largest(lambda v: False, start=F(1), lower=F("1e-6"), upper=F(10), name="rho")
    assert largest(lambda v: True, start=F(1), lower=F("1e-6"), upper=F(10), name="rho") == 10
    with pytest.raises(RangeError, match="rho"):
        smallest(lambda v: False, start=F(1), lower=F("1e-6"), upper=F(10), name="rho")
    assert smallest(lambda v: True, start=F(1), lower=F("1e-6"), upper=F(10), name="rho") == F("1e-6")
