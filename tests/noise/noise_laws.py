"""Exact probabilities of the integer laws, and the two tests that every sampler must pass and a wrong law must fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

import mpmath
import numpy as np
from scipy import stats

PMF = Callable[[int], float]


def laplace_pmf(scale: Fraction) -> PMF:
    a = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
    return lambda k: float((1 - a) / (1 + a) * a ** abs(k))


def rounded_gaussian_pmf(scale: Fraction) -> PMF:
    b = mpmath.mpf(scale.numerator) / scale.denominator

    def pmf(k: int) -> float:
        near, far = (mpmath.mpf(abs(k)) + h for h in (-0.5, 0.5))
        if k == 0:
            return float(mpmath.erf(far / b / mpmath.sqrt(2)))
        with mpmath.workdps(150):  # the difference of two tiny tails
            root = b * mpmath.sqrt(2)
            return float((mpmath.erfc(near / root) - mpmath.erfc(far / root)) / 2)

    return pmf


def discrete_gaussian_pmf(variance: Fraction) -> PMF:
    two_variance = 2 * mpmath.mpf(variance.numerator) / variance.denominator
    total = mpmath.nsum(lambda k: mpmath.exp(-(k**2) / two_variance), [-mpmath.inf, mpmath.inf])
    return lambda k: float(mpmath.exp(-(mpmath.mpf(k) ** 2) / two_variance) / total)


def cells(pmf: PMF, n: int, *, least: float = 25.0) -> tuple[int, np.ndarray]:
    """Return m and the probabilities of {< -m}, -m, ..., m, {> m}, each inner cell expecting at least 25 of n."""
    inner = [pmf(0)]
    while n * (p := pmf(len(inner))) >= least and len(inner) < 400:
        inner.append(p)
    tail = (1.0 - inner[0] - 2.0 * sum(inner[1:])) / 2.0
    return len(inner) - 1, np.maximum(np.array([tail, *inner[:0:-1], *inner, tail]), 1e-300)


def counts(values: Iterable[int], m: int) -> np.ndarray:
    clipped = np.clip(np.asarray(values, np.int64), -m - 1, m + 1)
    return np.bincount(clipped + m + 1, minlength=2 * m + 3)


def binomial_p(observed: np.ndarray, probabilities: np.ndarray) -> float:
    """Bound the p-value rigorously: the least exact two-sided cell p-value times the number of cells."""
    n = int(observed.sum())
    lower = stats.binom.cdf(observed, n, probabilities)
    upper = stats.binom.sf(observed - 1, n, probabilities)
    return float(min(1.0, 2.0 * np.minimum(lower, upper).min() * observed.size))


def chi_square_p(observed: np.ndarray, probabilities: np.ndarray) -> float:
    """Return the chi-square p-value; cells that expect fewer than 5 are joined first."""
    expected = probabilities * observed.sum()
    small = expected < 5
    if small.any():
        observed = np.append(observed[~small], observed[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
        if expected[-1] < 5:
            observed = np.append(observed[:-2], observed[-2:].sum())
            expected = np.append(expected[:-2], expected[-2:].sum())
    return float(stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)


def p_values(values: Iterable[int], pmf: PMF, n: int) -> tuple[float, float]:
    """Return the p-values of test (a), rigorous, and test (b), chi-square."""
    m, probabilities = cells(pmf, n)
    observed = counts(values, m)
    return binomial_p(observed, probabilities), chi_square_p(observed, probabilities)


#: A right law falls below these with probability 1e-7 and about 1e-9.
RIGOROUS, CHI_SQUARE = 1e-7, 1e-9


def agrees(values: Iterable[int], pmf: PMF, n: int) -> bool:
    rigorous, chi_square = p_values(values, pmf, n)
    return rigorous > RIGOROUS and chi_square > CHI_SQUARE
