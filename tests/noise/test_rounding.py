"""The public grid of Theorem 5: widths, the half-step trap, and the bound on disagreement against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_samplers import disagreement

from sidelight.errors import RangeError
from sidelight.noise import Source, public_grid, standard_normal, to_grid
from sidelight.testing import SeededEntropy


@given(st.floats(min_value=1e-200, max_value=1e200))
def test_width(deviation: float) -> None:
    width = math.ldexp(1.0, public_grid(deviation))
    assert width <= deviation * 2.0**-10 < 2 * width


def test_a_grid_needs_noise() -> None:
    assert public_grid(1.0) == -10
    with pytest.raises(RangeError):
        public_grid(0.0)


def test_half_step_trap() -> None:
    """floor(0.49999999999999994 + 1/2) is 1 in float64: the sum's rounding belongs to the error e."""
    assert to_grid(np.array([0.49999999999999994, 0.5, -0.5, 0.25]), 0, limit=8.0).tolist() == [1, 1, 0, 0]


def test_clamp() -> None:
    assert to_grid(np.array([np.inf, -np.inf, np.nan, 1e300]), -2, limit=4.0).tolist() == [16, -16, 0, 16]
    with pytest.raises(RangeError, match="limit"):
        to_grid(np.zeros(1), -60, limit=1.0)


def test_disagreement_bounds_simulation() -> None:
    """Ideal values shifted by the whole error disagree no more often than the bound says, and not much less."""
    n, error, exponent = 400_000, 2.0**-12, -5
    ideal = standard_normal(n, Source(SeededEntropy(1)))
    differ = int((to_grid(ideal, exponent, limit=64.0) != to_grid(ideal + error, exponent, limit=64.0)).sum())
    bound = disagreement(error, exponent, [1 / math.sqrt(2 * math.pi)])
    assert differ / n < bound
    assert differ / n > bound / 4


def test_reference_costs() -> None:
    """A grid of 2**-10 of the scale gives about 2**-34 a coordinate at e = 2**-45; one of 2**-30 protects nothing."""
    assert disagreement(2.0**-45, -10, [0.0]) == 2.0**-34
    assert disagreement(2.0**-45, -30, [0.0]) == 2.0**-14
    with pytest.raises(RangeError):
        disagreement(1.0, 0, [0.4])
