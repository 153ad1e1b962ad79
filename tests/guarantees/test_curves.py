"""Profile curves: the float form is an upper bound near the certified value; the discrete Laplace is exact."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.guarantees import (
    ApproxCurve,
    BoundedRangeCurve,
    DiscreteLaplaceCurve,
    HingedGaussianCurve,
    ProfileCurve,
    RenyiOrders,
    ZCDPCurve,
)
from sidelight.guarantees.derived_curves import LeastCurve, TwoStepCurve

F = Fraction
CURVES: list[ProfileCurve] = [
    ApproxCurve(F(1)),
    ApproxCurve(F("0.3"), F("0.01")),
    BoundedRangeCurve(F("0.7")),
    HingedGaussianCurve(F("0.2"), F("0.05")),
    HingedGaussianCurve(F(1)),
    HingedGaussianCurve(F(6)),
    ZCDPCurve(F("0.125")),
    DiscreteLaplaceCurve(F(1), 7),
    DiscreteLaplaceCurve(F("0.25"), 1000),
]


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_floats_are_upper_bounds_and_close(curve: ProfileCurve) -> None:
    x = np.array([0.0, 0.01, 0.03, 0.05, 0.2, 0.31, 0.5, 0.69, 0.71, 0.99, 1.01, 1.5, 3.0, 6.0])
    fast = curve.floats(x)
    for point, value in zip(x, fast, strict=True):
        truth = float(curve.delta(F(float(point))))
        assert value >= truth * (1 - 1e-15)
        assert value <= truth * (1 + 1e-8) + 1e-15


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_two_steps_are_at_least_one(curve: ProfileCurve) -> None:
    twice = TwoStepCurve(curve, curve)
    least = LeastCurve((twice, twice))
    for x in (F(0), F(1, 3), F(2)):
        assert twice.delta(x) >= curve.delta(x)
        assert least.delta(x) == twice.delta(x)
    grid = np.linspace(0.0, 3.0, 31)
    values = twice.floats(grid)
    assert np.all(values >= curve.floats(grid) * (1 - 1e-12))
    for x, value in zip(grid[::10], values[::10], strict=True):
        assert abs(value - float(twice.delta(F(float(x))))) < 0.02  # interpolated splits are valid, if not the best


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.5, 1), (1.0, 3), (2.0, 8), (0.3, 5)])
def test_discrete_laplace_by_brute_force(epsilon: float, sensitivity: int) -> None:
    curve = DiscreteLaplaceCurve(F(str(epsilon)), sensitivity)
    rate = epsilon / sensitivity
    k = np.arange(-4000, 4001)
    p = np.exp(-rate * np.abs(k)) * (1 - math.exp(-rate)) / (1 + math.exp(-rate))
    q = np.exp(-rate * np.abs(k - sensitivity)) * (1 - math.exp(-rate)) / (1 + math.exp(-rate))
    for x in np.linspace(0, epsilon * 1.1, 23):
        truth = float(np.maximum(0.0, p - math.exp(x) * q).sum())
        assert abs(float(curve.delta(F(float(x)))) - truth) < 1e-12
    if sensitivity == 1:
        assert abs(float(curve.delta(F("0.1"))) - float(ApproxCurve(F(str(epsilon))).delta(F("0.1")))) < 1e-15


def test_renyi_orders() -> None:
    curve = RenyiOrders.of({2: "0.5", 4: "0.4", 8: 1})
    assert curve.at(F(2)) == F("0.4")  # the divergence is monotone, so a later smaller bound counts earlier too
    assert curve.at(F(5)) == 1
    assert curve.at(F(9)) is None
    assert curve.zcdp() is None
    for bad in ({}, {1: 1}, {"0.5": 1}):
        with pytest.raises(RangeError):
            RenyiOrders.of(bad)
