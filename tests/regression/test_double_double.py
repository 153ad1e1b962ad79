"""Numbers of twice the digits, against 60 digits: the errors that the last certificate counts with."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sidelight.regression.double_double import DoubleDouble

RELATIVE = 2.0**-106


def numbers(count, seed, spread=20):
    rng = np.random.default_rng(seed)
    high = rng.normal(size=count) * 10.0 ** rng.uniform(-spread, spread, count)
    return DoubleDouble(high, high * rng.uniform(-1, 1, count) * 2.0**-54)


def precise(number):
    return [mpmath.mpf(a) + mpmath.mpf(b) for a, b in zip(number.high.tolist(), number.low.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("name", "operation", "ulps"),
    [("plus", lambda a, b: a + b, 3.1), ("minus", lambda a, b: a - b, 3.1), ("times", lambda a, b: a * b, 7.1),
     ("over", lambda a, b: a / b, 15.1)],
)  # fmt: skip
def test_operations_keep_their_relative_errors(name, operation, ulps):
    a, b = numbers(3000, 0), numbers(3000, 1)
    near = DoubleDouble(-a.high * (1 + 2.0**-40), a.low)  # what almost cancels
    with mpmath.workdps(60):
        for other in (b, near):
            found = precise(getattr(a, name)(other))
            for got, x, y in zip(found, precise(a), precise(other), strict=True):
                ideal = operation(x, y)
                assert abs(got - ideal) <= ulps * RELATIVE * abs(ideal)


def test_exponential_and_its_ends():
    rng = np.random.default_rng(2)
    high = np.concatenate([rng.uniform(-600, 690, 800), rng.uniform(-2, 2, 800), [0.0, 1e-300, -1e-20]])
    x = DoubleDouble(high, high * rng.uniform(-1, 1, high.size) * 2.0**-54)
    with mpmath.workdps(60):
        for got, ideal in zip(precise(x.exponential()), precise(x), strict=True):
            assert abs(got / mpmath.exp(ideal) - 1) <= 2.0**-90
    far = DoubleDouble.of(np.array([-1e9, 1e9])).exponential().high
    assert far[0] == pytest.approx(0, abs=1e-300)
    assert np.isfinite(far).all()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100, 257])
def test_column_sums(count):
    terms = numbers(count, 3, spread=5)
    found = DoubleDouble(terms.high[:, None], terms.low[:, None]).column_sums()
    with mpmath.workdps(60):
        ideal = mpmath.fsum(precise(terms))
        sizes = mpmath.fsum(abs(each) for each in precise(terms))
        assert abs(precise(found)[0] - ideal) <= 30 * RELATIVE * sizes


def test_rationals_clipping_and_fractions():
    third = DoubleDouble.nearest(Fraction(1, 3))
    assert abs(third.fractions()[0] * 3 - 1) <= Fraction(1, 2**105)
    x = DoubleDouble.of(np.array([-2.0, 0.25, 1.0]))
    held = x.clipped(third.negated(), third)
    assert held.fractions() == [-third.fractions()[0], Fraction(1, 4), third.fractions()[0]]
    assert repr(x) == "DoubleDouble()"
