"""Bounds at many failure probabilities, and lines above them: never below a quantile, and near it at 95 %."""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np
import pytest
from scipy.stats import chi

from sidelight.covariance.error_tails import STEPS, ErrorTail, matrix_tail, vector_tail
from sidelight.mechanisms.goe_norm import goe_norm_quantile

PROBABILITIES = [0.999, 0.9, *np.geomspace(0.5, 1e-12, 60)]


def _at(tail: ErrorTail, probability: float) -> float:
    fixed, per_log = tail.line()
    return fixed + per_log * log(1 / probability)


def _shares(tail: ErrorTail, quantile: Callable[[float], float]) -> np.ndarray:
    return np.array([_at(tail, each) / quantile(each) for each in PROBABILITIES])


@pytest.mark.parametrize("size", [1, 2, 7, 300])
def test_the_length_of_a_vector_is_below_its_line(size: int) -> None:
    tail = vector_tail("gaussian", size=size, deviation=1.0, parts=1)
    shares = _shares(tail, lambda probability: float(chi.isf(probability, size)))
    assert shares.min() >= 1
    assert shares[[0.005 < each < 0.1 for each in PROBABILITIES]].max() < 1.1


@pytest.mark.parametrize("size", [1, 2, 6])
def test_the_norm_of_a_matrix_is_below_its_line(size: int) -> None:
    """The quantiles are upper bounds themselves from a tenth on; the next test simulates the others."""
    tail = matrix_tail("goe", size=size, noise_scale=np.sqrt(2), parts=1)
    shares = np.array([_at(tail, each) / goe_norm_quantile(size, each) for each in PROBABILITIES if each <= 0.1])
    assert shares.min() >= 1
    assert shares[0] < 1.1


@pytest.mark.parametrize("size", [1, 2, 6, 12])
def test_the_norm_of_simulated_matrices_exceeds_the_line_no_more_often_than_stated(size: int) -> None:
    """20,000 matrices; a false alarm is 6 standard deviations away, less than one in a hundred million."""
    rng = np.random.default_rng(size)
    normal = rng.standard_normal((20_000, size, size))
    norms = np.abs(np.linalg.eigvalsh((normal + np.swapaxes(normal, 1, 2)) / 2)).max(axis=1)
    tail = matrix_tail("goe", size=size, noise_scale=1.0, parts=1)
    for confidence in (0.3, 0.5, 0.8, 0.95, 0.99):
        expected = (1 - confidence) * len(norms)
        assert (norms > _at(tail, 1 - confidence)).sum() <= expected + 6 * np.sqrt(expected)
    assert (norms > 0.7 * _at(tail, 0.05)).mean() > 0.05  # 30 % less would be false


@pytest.mark.parametrize("size", [1, 2, 6, 40])
def test_no_step_is_below_the_quantile_that_it_stands_for(size: int) -> None:
    """Most are bounded from the step before, by isoperimetry; all of them are near their quantiles."""
    for parts in (1, 3):
        tail = vector_tail("gaussian", size=size, deviation=1.0, parts=parts)
        exact = chi.isf(np.exp(-STEPS) / parts, size)
        assert (tail.at_steps >= exact * (1 - 1e-12)).all()
        assert (tail.at_steps <= exact * 1.04)[STEPS >= 2].all()
        later = np.linspace(STEPS[-1], 3 * STEPS[-1], 50)
        beyond = tail.at_steps[-1] + tail.beyond * (later - STEPS[-1])
        assert (beyond >= chi.isf(np.exp(-later) / parts, size)).all()


def test_a_line_is_above_every_step_from_where_the_step_begins() -> None:
    """A bound that jumps at a step, one that grows like two noises at once, one that rests, and one with a slope."""
    starts = np.concatenate(([0.0], STEPS[:-1]))
    jumps = np.where(STEPS > 2.5, 2.0, 0.0) + 0.1
    for values in (jumps, STEPS + 0.1 * STEPS**2, np.full_like(STEPS, 3.0), np.sqrt(STEPS)):
        for beyond in (0.0, 0.5):
            fixed, per_log = ErrorTail(values, beyond).line()
            assert (fixed + per_log * starts >= values - 1e-12).all()
            assert per_log >= beyond
            # nothing lower at 95 %: two steps, one on each side, hold a line up
            lowest = max(
                np.interp(log(20), [starts[i], starts[j]], [values[i], values[j]])
                for i in np.flatnonzero(starts <= log(20))
                for j in np.flatnonzero(starts > log(20))
            )
            assert beyond or fixed + per_log * log(20) <= lowest * (1 + 1e-9)
