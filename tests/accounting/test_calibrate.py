"""Calibration: reference numbers, the safe side in higher precision, and that data is refused by type."""

from __future__ import annotations

from fractions import Fraction

import mpmath as oracle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.accounting import (
    Accuracy,
    DiscreteLaplace,
    RoundedGaussian,
    Rule,
    Selection,
    Totals,
    calibrate,
    find_remaining,
    gaussian_noise_scale,
)
from sidelight.errors import RangeError
from sidelight.guarantees import GDP, ApproxDP, BoundedRange, PureDP
from sidelight.guarantees.amounts import grid_ceil, grid_floor, largest, smallest

F = Fraction
mpmath = oracle.MPContext()
mpmath.dps = 60
TEN = Accuracy(10, failure_probability="0.05")


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


def test_discrete_laplace_reference() -> None:
    claim = calibrate(DiscreteLaplace(), TEN).claim
    assert isinstance(claim, PureDP)
    assert abs(float(claim.epsilon) - 0.2843485124) < 1e-10


def test_rounded_gaussian_reference() -> None:
    answer = calibrate(RoundedGaussian(), TEN)
    assert isinstance(answer.claim, GDP)
    assert abs(float(answer.noise_scale) - 5.3572412977) < 1e-10  # type: ignore[arg-type]
    assert abs(float(answer.claim.mu) - 0.1866632366) < 1e-10


def test_selection_formula() -> None:
    claim = calibrate(Selection(mass="0.01"), Accuracy(20, failure_probability="0.05")).claim
    assert isinstance(claim, BoundedRange)
    truth = 2 / mpmath.mpf(20) * mpmath.log(1 / (mpmath.mpf("0.05") * mpmath.mpf("0.01")))
    assert truth <= mp(claim.epsilon) <= truth * (1 + mpmath.mpf("1e-11"))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 500), st.fractions(F(1, 1000), F(9, 10), max_denominator=1000), st.integers(1, 40))
def test_the_accuracy_is_proved_and_nearly_tight(error: int, failure: Fraction, sensitivity: int) -> None:
    target = Accuracy(error, failure_probability=failure)
    laplace = calibrate(DiscreteLaplace(sensitivity=sensitivity), target).claim
    assert isinstance(laplace, PureDP)

    def off(epsilon: oracle.mpf) -> oracle.mpf:
        q = mpmath.exp(-epsilon / sensitivity)
        return 2 * q ** (error + 1) / (1 + q)

    assert off(mp(laplace.epsilon)) <= mp(failure)
    assert off(mp(laplace.epsilon) * (1 - mpmath.mpf("1e-10"))) > mp(failure)
    gaussian = calibrate(RoundedGaussian(sensitivity=sensitivity), target)
    sigma = mp(gaussian.noise_scale)  # type: ignore[arg-type]
    assert mpmath.erfc((error + mpmath.mpf("0.5")) / (sigma * mpmath.sqrt(2))) <= mp(failure)
    assert gaussian.claim.mu >= sensitivity / gaussian.noise_scale  # type: ignore[union-attr, operator]


def test_share_of_what_is_left() -> None:
    rule = Rule.for_budget(PureDP(1))
    left = find_remaining(rule, Totals.zero())
    answer = calibrate(DiscreteLaplace(), TEN, within=left)
    assert answer.share is not None
    assert abs(float(answer.share) - 0.284349) < 1e-6
    assert answer.fits
    tight = calibrate(RoundedGaussian(), TEN, within=ApproxDP("0.1", "1e-6"))
    assert tight.fits is False
    assert calibrate(DiscreteLaplace(), TEN).fits is None
    spent = Totals.zero().plus(rule.charge(calibrate(DiscreteLaplace(), Accuracy(0, failure_probability="0.6")).claims))
    assert spent.epsilon > 0


def test_data_is_refused_by_type() -> None:
    with pytest.raises(RangeError, match="never data"):
        Accuracy(np.array([1.0, 2.0]), failure_probability="0.05")  # type: ignore[arg-type]
    with pytest.raises(RangeError, match="never reads data"):
        calibrate(np.array([1.0]), TEN)  # type: ignore[arg-type]
    for bad in (0, 1, "1.5"):
        with pytest.raises(RangeError):
            Accuracy(1, failure_probability=bad)
    with pytest.raises(RangeError):
        Selection(mass=2)
    with pytest.raises(RangeError):
        calibrate(Selection(mass="0.1"), Accuracy(0, failure_probability="0.1"))


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
