"""Levels of sums and norms of integer noise against the exact laws, by convolution: never exceeded more often."""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any, Literal

import numpy as np
import pytest
from scipy.special import ndtr

from sidelight.errors import RangeError
from sidelight.noise import Source, discrete_laplace, rounded_gaussian
from sidelight.synthesis import answer_bounds as noise_tails
from sidelight.synthesis.answer_bounds import NoiseTail
from sidelight.testing import SeededEntropy

Law = Literal["gaussian", "laplace"]
SCALES: list[tuple[Law, float]] = [
    ("gaussian", 0.1),
    ("gaussian", 0.4),
    ("gaussian", 0.7),
    ("gaussian", 3.3),
    ("gaussian", 12.0),
    ("laplace", 0.2),
    ("laplace", 1.0),
    ("laplace", 7.5),
]
PROBABILITIES = (0.05, 1e-3, 1e-5)


def masses(law: Law, scale: float) -> np.ndarray:
    """P(Z = k) for k = -R..R, R beyond which there is less than 1e-17."""
    k = np.arange(-int(45 * scale) - 3, int(45 * scale) + 4)
    if law == "laplace":
        a = exp(-1 / scale)
        return np.asarray((1 - a) / (1 + a) * a ** np.abs(k))
    return np.asarray(ndtr((k + 0.5) / scale) - ndtr((k - 0.5) / scale))


def power(law: np.ndarray, count: int) -> np.ndarray:
    found = np.ones(1)
    for _ in range(count):
        found = np.convolve(found, law)
    return found


def above_sum(law: Law, scale: float, count: int, level: float) -> float:
    found = power(masses(law, scale), count)
    values = np.arange(len(found)) - (len(found) - 1) // 2
    return float(found[values > level].sum())


def above_norm(law: Law, scale: float, count: int, level: float) -> float:
    whole = masses(law, scale)
    middle = len(whole) // 2
    half = whole[middle:] * np.where(np.arange(middle + 1) > 0, 2.0, 1.0)
    found = power(half, count)
    return float(found[np.arange(len(found)) > level].sum())


@pytest.mark.parametrize("share", [0.01, 0.3, 0.8])
@pytest.mark.parametrize(("law", "scale"), SCALES)
def test_no_moment_is_larger_than_its_bound(law: Law, scale: float, share: float) -> None:
    tilt = share / scale
    whole = masses(law, scale)
    exact = log(float((whole * np.exp(tilt * (np.arange(len(whole)) - len(whole) // 2))).sum()))
    found = NoiseTail(law, scale).log_moment(tilt)
    assert found >= exact - 1e-12
    if scale >= 1:  # and of noise of 30 % less it would be
        assert found < exact * 1.01
        assert NoiseTail(law, 0.7 * scale).log_moment(tilt) < exact
    if law == "laplace":
        assert NoiseTail(law, scale).log_moment(1 / scale) == np.inf


@pytest.mark.parametrize("probability", PROBABILITIES)
@pytest.mark.parametrize("count", [1, 2, 5, 24])
@pytest.mark.parametrize(("law", "scale"), SCALES)
def test_no_level_is_exceeded_more_often_than_it_says(law: Law, scale: float, count: int, probability: float) -> None:
    tail = NoiseTail(law, scale)
    level = tail.sum_level(count, probability)
    assert above_sum(law, scale, count, level) <= probability
    assert above_norm(law, scale, count, tail.norm_level(count, probability)) <= probability
    if scale >= 1:  # and half of it would be wrong
        assert above_sum(law, scale, count, 0.5 * level - 1) > probability
        assert above_norm(law, scale, count, 0.5 * tail.norm_level(count, probability) - 1) > probability


@pytest.mark.parametrize(("law", "scale"), SCALES)
def test_a_level_for_noise_of_30_percent_less_is_exceeded(law: Law, scale: float) -> None:
    if scale < 1:
        return  # integers: nothing in between
    weak = NoiseTail(law, scale / 1.3)
    assert above_sum(law, scale, 1, weak.sum_level(1, 1e-5)) > 1e-5
    assert above_norm(law, scale, 24, weak.norm_level(24, 0.05)) > 0.05


@pytest.mark.parametrize("s", [0.5, 0.6, 0.75, 1.0, 2.5])
@pytest.mark.parametrize("tilt", [0.01, 0.3, 1.0, 4.0])
def test_the_generating_function_of_rounded_gaussian_noise(s: float, tilt: float) -> None:
    """log E exp(θK) <= θ²(s² + 1/12)/2 + κ(s), also for every smaller deviation."""
    bound = tilt**2 * (s * s + 1 / 12) / 2 + noise_tails._ripple(s)
    for deviation in (s, 0.9 * s, 0.3 * s, 0.05):
        k = np.arange(-60, 61)
        lower, upper = ndtr((np.abs(k) - 0.5) / -deviation), ndtr((np.abs(k) + 0.5) / -deviation)
        law = np.where(k == 0, 1 - 2 * ndtr(-0.5 / deviation), lower - upper)
        assert log(float((law * np.exp(tilt * k)).sum())) <= bound + 1e-12
    assert noise_tails._ripple(s) < 0.015


def test_levels_by_hand() -> None:
    # a = e^-0.1: a^24/(1 + a) = 0.0476, a^23/(1 + a) = 0.0526
    assert NoiseTail("laplace", 10.0).sum_level(1, 0.05) == pytest.approx(23, rel=1e-5)
    # 1.6449 · 10 - 1/2 = 15.95
    assert NoiseTail("gaussian", 10.0).sum_level(1, 0.05) == pytest.approx(16, rel=1e-5)
    # min(√(2·2·(1 + 1/12)·log 100) = 4.4672, 2.32635·√2 + 1 = 4.28995)
    assert NoiseTail("gaussian", 1.0).sum_level(2, 0.01) == pytest.approx(4.28995, rel=1e-5)
    # √(2·400·(100 + 1/12)·log 100) = 607.22 against 2.32635·200 + 200 = 665.27
    assert NoiseTail("gaussian", 10.0).sum_level(400, 0.01) == pytest.approx(607.22, rel=1e-4)


@pytest.mark.parametrize(("law", "sampler"), [("laplace", discrete_laplace), ("gaussian", rounded_gaussian)])
def test_the_noise_that_is_drawn_stays_below(law: Law, sampler: Any) -> None:
    from fractions import Fraction

    with Source(SeededEntropy(5), declared="exact") as source:
        noise = np.asarray(sampler(40_000, Fraction(6), source), np.float64).reshape(-1, 20)
    tail = NoiseTail(law, 6.0)
    runs = len(noise)
    most = 0.05 * runs + 5.5 * sqrt(0.05 * 0.95 * runs)  # P < 1e-7
    assert (noise.sum(axis=1) > tail.sum_level(20, 0.05)).sum() <= most
    assert (np.abs(noise).sum(axis=1) > tail.norm_level(20, 0.05)).sum() <= most
    assert (np.abs(noise).sum(axis=1) > NoiseTail(law, 6.0 / 1.3).norm_level(20, 0.05)).sum() > most


def test_wide_noise_and_bad_scales() -> None:
    narrow, wide = NoiseTail("gaussian", 999.0), NoiseTail("gaussian", 1001.0)
    ratio = wide.norm_level(50, 1e-3) / narrow.norm_level(50, 1e-3)
    assert 1.0 < ratio < 1.004  # the closed form takes over without a jump
    for scale in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(RangeError, match="positive scale"):
            NoiseTail("laplace", scale)
