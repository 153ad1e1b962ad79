"""The certified normal law against mpmath: every enclosure holds the true value and is narrow."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import mpmath as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.guarantees.intervals import (
    Interval,
    erfc,
    gaussian_delta,
    inverse_erfc_upper,
    normal_cdf,
)

mpmath = oracle.MPContext()  # its own precision: other tests set theirs
mpmath.dps = 130
Number = oracle.mpf


def exactly(x: Fraction) -> Number:
    return mpmath.mpf(x.numerator) / x.denominator


def of(x: Decimal) -> Number:
    return mpmath.mpf(str(x))


def holds(interval: Interval, value: Number, *, relative: float) -> bool:
    low, high = of(interval.lower), of(interval.upper)
    return bool(low <= value <= high and high - low <= relative * abs(value))


@pytest.mark.parametrize(
    "z",
    ["0", "1e-30", "0.001", "0.5", "1", "2.5", "4.999", "5", "5.001", "8", "20", "300", "1000", "-1e-9", "-1", "-7"],
)
def test_erfc_encloses(z: str) -> None:
    assert holds(erfc(Interval.of(Fraction(z))), mpmath.erfc(exactly(Fraction(z))), relative=1e-60)


@settings(max_examples=60, deadline=None)
@given(st.fractions(min_value=-12, max_value=30, max_denominator=10**6))
def test_erfc_encloses_everywhere(z: Fraction) -> None:
    assert holds(erfc(Interval.of(z)), mpmath.erfc(exactly(z)), relative=1e-60)


def test_erfc_of_a_wide_interval() -> None:
    wide = erfc(Interval(Decimal("-0.5"), Decimal("0.5")))
    assert of(wide.lower) <= mpmath.erfc(0.5) < mpmath.erfc(-0.5) <= of(wide.upper)


@settings(max_examples=40, deadline=None)
@given(
    st.fractions(min_value=Fraction(1, 10**4), max_value=8, max_denominator=10**5),
    st.fractions(min_value=-6, max_value=20, max_denominator=10**4),
)
def test_the_gaussian_profile_encloses(mu: Fraction, x: Fraction) -> None:
    m, at = exactly(mu), exactly(x)
    value = mpmath.ncdf(m / 2 - at / m) - mpmath.exp(at) * mpmath.ncdf(-m / 2 - at / m)
    found = gaussian_delta(mu, x)
    assert of(found.lower) <= value <= of(found.upper)
    assert of(found.upper) - of(found.lower) <= max(1e-30 * value, mpmath.mpf("1e-70"))


@pytest.mark.parametrize("c", ["0.9999999999", "0.9", "0.5", "0.05", "1e-9", "1e-280", "1e-295", "1e-400"])
def test_the_inverse_is_bracketed(c: str) -> None:
    target = Interval.of(Fraction(c))
    high = of(inverse_erfc_upper(target))
    assert mpmath.erfc(high) <= exactly(Fraction(c)) <= mpmath.erfc(high * (1 - mpmath.mpf("1e-50")))


def test_results_do_not_depend_on_the_callers_context() -> None:
    from decimal import localcontext

    gaussian_delta.cache_clear()
    before = gaussian_delta(Fraction(1, 3), Fraction(2))
    with localcontext() as context:
        context.prec = 3
        gaussian_delta.cache_clear()
        after = gaussian_delta(Fraction(1, 3), Fraction(2))
        cdf = normal_cdf(Interval.of(Fraction(1, 3)))
    assert (before.lower, before.upper) == (after.lower, after.upper)
    assert holds(cdf, mpmath.ncdf(mpmath.mpf(1) / 3), relative=1e-70)
