"""OpenDP as an oracle: independent exact samplers of the same laws, indistinguishable from ours."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from reference_samplers import discrete_gaussian
from scipy import stats

from sidelight.noise import (
    Categorical,
    Source,
    discrete_laplace,
    rounded_gaussian,
)
from sidelight.testing import SeededEntropy

dp = pytest.importorskip("opendp.prelude")
dp.enable_features("contrib")

OURS = 400_000


def two_sample_p(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Chi-square of two samples, tails joined so that every cell holds at least 25 of the smaller sample."""
    values, counts = np.unique(theirs, return_counts=True)
    wide = values[counts >= 25]
    low, high = wide.min(), wide.max()
    table = np.array([np.bincount(np.clip(x, low, high) - low, minlength=high - low + 1) for x in (ours, theirs)])
    return float(stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)


def opendp_draws(make: Callable[..., object], metric: object, scale: float, n: int) -> np.ndarray:
    space = dp.vector_domain(dp.atom_domain(T=int)), metric
    return np.array(make(*space, scale=scale)([0] * n))  # type: ignore[operator]


def opendp_laplace(scale: float, n: int) -> np.ndarray:
    return opendp_draws(dp.m.make_laplace, dp.l1_distance(T=int), scale, n)


def opendp_gaussian(scale: float, n: int) -> np.ndarray:
    return opendp_draws(dp.m.make_gaussian, dp.l2_distance(T=int), scale, n)


@pytest.mark.parametrize("scale", ["3", "1/2"])
def test_laplace(scale: str) -> None:
    theirs = opendp_laplace(float(Fraction(scale)), 60_000)
    source = Source(SeededEntropy(1))
    assert two_sample_p(discrete_laplace(OURS, Fraction(scale), source), theirs) > 1e-9
    assert two_sample_p(discrete_laplace(OURS, Fraction(scale) * Fraction(13, 10), source), theirs) < 1e-9


@pytest.mark.parametrize("scale", ["3", "1/2"])
def test_gaussian(scale: str) -> None:
    """The discrete Gaussian agrees; the rounded one is another law, and at one half the test must see it."""
    theirs = opendp_gaussian(float(Fraction(scale)), 60_000)
    source = Source(SeededEntropy(2))
    assert two_sample_p(discrete_gaussian(OURS, Fraction(scale) ** 2, source), theirs) > 1e-9
    assert two_sample_p(discrete_gaussian(OURS, (Fraction(scale) * Fraction(13, 10)) ** 2, source), theirs) < 1e-9
    if scale == "1/2":
        assert two_sample_p(rounded_gaussian(OURS, Fraction(scale), source), theirs) < 1e-9


def test_selection() -> None:
    """Their Gumbel noisy max (zCDP), with 2 ln w added to the scores at scale 2, against our base measure."""
    scores, weights, n = [5, 0, 9, 7, 3], [1, 2, 1, 8, 5], 4000
    noisy_max = dp.m.make_noisy_max(
        dp.vector_domain(dp.atom_domain(T=float, nan=False)),
        dp.linf_distance(T=float),
        dp.zero_concentrated_divergence(),
        scale=2.0,
    )
    shifted = [s + 2.0 * float(np.log(w)) for s, w in zip(scores, weights, strict=True)]
    theirs = np.bincount([noisy_max(shifted) for _ in range(n)], minlength=5)
    source = Source(SeededEntropy(3))

    def ours(unit: Fraction) -> np.ndarray:
        law = Categorical(scores, unit, weights)
        return np.bincount([law.draw(source) for _ in range(3 * n)], minlength=5)

    assert stats.chi2_contingency(np.array([ours(Fraction(1, 2)), theirs])).pvalue > 1e-9
    assert stats.chi2_contingency(np.array([ours(Fraction(1, 2) * Fraction(13, 10)), theirs])).pvalue < 1e-9
