"""Lines above the quantiles of normal noise: never below them, and nowhere far above."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chi

from sidelight.covariance.error_tails import ErrorTail, line_above, matrix_tail, vector_tail
from sidelight.mechanisms.goe_norm import goe_norm_quantile

PROBABILITIES = [0.999, 0.9, *np.geomspace(0.5, 1e-12, 60)]


def _shares(tail: ErrorTail, quantile: Callable[[float], float]) -> np.ndarray:
    return np.array([tail.at(1 - each) / quantile(each) for each in PROBABILITIES])


@pytest.mark.parametrize("size", [1, 2, 7, 300])
def test_the_length_of_a_vector_is_below_its_line(size: int) -> None:
    tail = vector_tail("gaussian", size=size, deviation=1.0)
    shares = _shares(tail, lambda probability: float(chi.isf(probability, size)))
    assert shares.min() >= 1
    assert shares[[0.005 < each < 0.1 for each in PROBABILITIES]].max() < 1.1


@pytest.mark.parametrize("size", [1, 2, 6])
def test_the_norm_of_a_matrix_is_below_its_line(size: int) -> None:
    """The quantiles are upper bounds themselves from a tenth on; the next test simulates the others."""
    tail = matrix_tail("goe", size=size, noise_scale=np.sqrt(2))
    shares = np.array([tail.at(1 - each) / goe_norm_quantile(size, each) for each in PROBABILITIES if each <= 0.1])
    assert shares.min() >= 1
    assert shares[0] < 1.1


@pytest.mark.parametrize("size", [1, 2, 6, 12])
def test_the_norm_of_simulated_matrices_exceeds_the_line_no_more_often_than_stated(size: int) -> None:
    """20,000 matrices; a false alarm is 6 standard deviations away, less than one in a hundred million."""
    rng = np.random.default_rng(size)
    normal = rng.standard_normal((20_000, size, size))
    norms = np.abs(np.linalg.eigvalsh((normal + np.swapaxes(normal, 1, 2)) / 2)).max(axis=1)
    tail = matrix_tail("goe", size=size, noise_scale=1.0)
    for confidence in (0.3, 0.5, 0.8, 0.95, 0.99):
        expected = (1 - confidence) * len(norms)
        assert (norms > tail.at(confidence)).sum() <= expected + 6 * np.sqrt(expected)
    assert (norms > 0.7 * tail.at(0.95)).mean() > 0.05  # 30 % less would be false


def test_a_quantile_that_jumps_between_two_steps_is_met() -> None:
    """Before the meeting point nothing but the order of quantiles is used."""

    def jump(probability: float) -> float:
        return 2.0 if probability <= 0.4999 else 0.0

    tail = line_above(jump)
    assert all(tail.at(1 - each) >= jump(each) for each in np.linspace(0.02, 0.999, 500))
