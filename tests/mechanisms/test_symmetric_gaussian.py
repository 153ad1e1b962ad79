"""Noise on symmetric matrices: its law entry by entry, its mirror, and the price of a change."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sidelight.aggregates import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.units import Row
from sidelight.mechanisms.additive import SymmetricGaussianNoise, root_half_up
from sidelight.noise import Source
from sidelight.testing import SeededEntropy


def matrix(value: np.ndarray, norm: str = "l2") -> Bounded:
    return Bounded(value, Fraction(1000), norm, Neighbours.ADD_REMOVE, Row())  # type: ignore[arg-type]


def test_the_law_of_every_entry_and_of_one_thirty_percent_off() -> None:
    source = Source(SeededEntropy("goe"))
    value = np.array([[5, -7, 1], [-7, 0, 2], [1, 2, 9]])
    noise = np.array([SymmetricGaussianNoise(matrix(value), mu=2).release(source) - value for _ in range(1500)], float)
    assert np.array_equal(noise, noise.transpose(0, 2, 1))
    diagonal = noise[:, range(3), range(3)].ravel()
    off = noise[:, [0, 0, 1], [1, 2, 2]].ravel()
    for sample, scale in [(diagonal, 500.0), (off, 500 / 2**0.5)]:
        assert stats.kstest(sample / scale, "norm").pvalue > 1e-8
        assert stats.kstest(sample / scale / 1.3, "norm").pvalue < 1e-8


def test_the_scales_cost_at_most_the_frobenius_norm() -> None:
    """Σ D_ii²/σ² + Σ_{i<j} D_ij²/s² <= ‖D‖²/σ² for the scales used: s² >= σ²/2, barely."""
    for scale in (Fraction(1, 3), Fraction(500), Fraction(10**9, 7)):
        off = root_half_up(scale)
        assert scale**2 / 2 <= off**2 < scale**2 / 2 * (1 + Fraction(1, 2**48))


def test_sums_beyond_int64_do_not_wrap() -> None:
    """A statistic at its limit with noise as large: Python integers take over."""
    value = np.array([[2**62, 0], [0, -(2**62)]])
    source = Source(SeededEntropy("beyond"))
    noisy = [SymmetricGaussianNoise(matrix(value), mu=Fraction(1, 2**60)).release(source) for _ in range(20)]
    assert max(abs(int(entry)) for each in noisy for entry in each.ravel()) > 2**63
    assert SymmetricGaussianNoise(matrix(value), mu=1).release(source).dtype == np.int64


def test_what_is_no_symmetric_statistic_is_refused() -> None:
    source = Source(SeededEntropy(0))
    with pytest.raises(RangeError, match="square"):
        SymmetricGaussianNoise(matrix(np.zeros((2, 3), int)), mu=1).release(source)
    with pytest.raises(RangeError, match="l2"):
        SymmetricGaussianNoise(matrix(np.zeros((2, 2), int), norm="linf"), mu=1).release(source)
