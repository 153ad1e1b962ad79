"""How large integer noise gets: levels that sums and l1 norms of the noise exceed with at most a given probability.

Hand-made because bounds depend on it: by Chernoff's method with the generating functions of the integers that are
really added, discrete Laplace and rounded Gaussian, not of the continuous laws they resemble (synthesis proof page,
Theorem 8). Any value of the method's parameter gives a valid level, so that its choice needs no proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, floor, inf, log, log1p, pi, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError

#: More than the rounding of floats in what follows, relative.
_MARGIN = 1.0 + 1e-6
#: Beyond this deviation the half row that rounding may add to each entry no longer matters.
_WIDE = 1000.0


@dataclass(frozen=True)
class NoiseTail:
    """Independent noise of one law: `scale` is b of the discrete Laplace law, σ of the rounded Gaussian one.

    >>> round(NoiseTail("gaussian", 10.0).sum_level(1, 0.05), 1)  # 1.64 deviations, a whole number
    16.0
    """

    law: Literal["gaussian", "laplace"]
    scale: float

    def __post_init__(self) -> None:
        if not 0 < self.scale < inf:
            raise RangeError(f"noise has a positive scale, got {self.scale}")

    def sum_level(self, count: int, probability: float) -> float:
        """Return a level that ±Z₁ ± … ± Z_j exceeds with at most this probability, for any signs and j <= count."""
        return _MARGIN * _sum_level(self.law, self.scale, count, probability)

    def norm_level(self, count: int, probability: float) -> float:
        """Return a level that |Z₁| + … + |Z_count| exceeds with at most this probability."""
        return _MARGIN * _norm_level(self.law, self.scale, count, probability)

    def log_moment(self, tilt: float) -> float:
        """Return a bound of log E exp(tilt · Z), tilt > 0; infinite where that is.

        >>> round(NoiseTail("gaussian", 10.0).log_moment(0.1), 4)  # 0.1² (10² + 1/12)/2
        0.5004
        """
        if self.law == "laplace":
            return inf if tilt * self.scale >= 1.0 else _MARGIN * float(_log_laplace(self.scale, tilt * self.scale))
        # every s >= σ is allowed: a narrow one has the smaller first term, a wide one the smaller second
        allowed = (max(self.scale, 0.5), max(self.scale, 0.75), max(self.scale, 1.0))
        return _MARGIN * min(tilt * tilt * (s * s + 1.0 / 12.0) / 2.0 + _ripple(s) for s in allowed)


@lru_cache(maxsize=4096)
def _sum_level(law: str, scale: float, count: int, probability: float) -> float:
    if count == 1:
        return _single_level(law, scale, probability)
    weight = log(1.0 / probability)
    if law == "laplace":
        tried = _tried_shares()
        return float(((count * _log_laplace(scale, tried) + weight) * scale / tried).min())
    from scipy.special import ndtri

    # Poisson summation: log E exp(θK) <= θ²(s² + 1/12)/2 + κ(s) for every s >= σ; and K is within 1/2 of N(0, σ²)
    chernoff = [
        sqrt(2.0 * count * (s * s + 1.0 / 12.0) * (weight + count * _ripple(s)))
        for s in (max(scale, 0.5), max(scale, 0.75), max(scale, 1.0))
    ]
    return min(*chernoff, -float(ndtri(probability)) * scale * sqrt(count) + count / 2.0)


def _log_laplace(scale: float, share: Any) -> Any:
    """Return log E exp(θZ) of discrete Laplace noise for θ = share/b."""
    return 2 * _log_gap(1.0 / scale) - _log_gap((1.0 - share) / scale) - _log_gap((1.0 + share) / scale)


def _single_level(law: str, scale: float, probability: float) -> float:
    """Return the smallest whole k with P(Z > k) <= probability, from the law itself."""
    if law == "laplace":  # P(Z >= k + 1) = a^(k + 1)/(1 + a), a = exp(-1/b)
        return float(max(floor(scale * (-log(probability) - log1p(exp(-1.0 / scale)))), 0))
    from scipy.special import ndtri

    return float(max(ceil(-float(ndtri(probability)) * scale - 0.5), 0))  # P(K >= k + 1) = P(N(0, σ²) >= k + 1/2)


@lru_cache(maxsize=4096)
def _norm_level(law: str, scale: float, count: int, probability: float) -> float:
    weight = log(1.0 / probability)
    if law == "laplace":
        tried = _tried_shares()
        ratio = np.exp(-(1.0 - tried) / scale)  # a·e^θ
        logs = _log_gap(1.0 / scale) - log1p(exp(-1.0 / scale)) + np.log1p(ratio) - _log_gap((1.0 - tried) / scale)
        return float(((count * logs + weight) * scale / tried).min())
    tilt = sqrt(2.0 * weight / count) / scale
    return (count * _log_absolute(scale, tilt) + weight) / tilt


def _log_absolute(scale: float, tilt: float) -> float:
    """Bound log E exp(θ|K|) of rounded Gaussian K from above: 1 + (1 - e^-θ) Σ_{k >= 1} e^(θk) P(|K| >= k)."""
    from scipy.special import log_ndtr, logsumexp

    if scale > _WIDE:  # |K| <= |X| + 1/2
        return log(2.0) + tilt * tilt * scale * scale / 2.0 + float(log_ndtr(tilt * scale)) + tilt / 2.0
    last = ceil(scale * (tilt * scale + 12.0)) + 1
    k = np.arange(1, last + 1, dtype=np.float64)
    logs = tilt * k + log(2.0) + log_ndtr(-(k - 0.5) / scale)
    # P(|K| >= k) <= exp(-(k - 1/2)²/(2σ²)): beyond `last` a geometric series
    ratio = exp(tilt - (last + 1) / scale**2)
    rest = tilt * (last + 1) - (last + 0.5) ** 2 / (2.0 * scale**2) - log1p(-ratio)
    return float(np.logaddexp(0.0, np.log(-np.expm1(-tilt)) + logsumexp([*logs, rest])))


def _ripple(s: float) -> float:
    """Return κ(s) = log(1 + 2 Σ_{j >= 1} exp(-2π²s²j²)): what the lattice adds."""
    # for s >= 1/2 ten terms leave out less than 1e-200
    return log1p(2.0 * sum(exp(-2.0 * pi**2 * s * s * j * j) for j in range(1, 11)))


def _log_gap(x: Any) -> Any:
    """Return log(1 - e^-x)."""
    return np.log(-np.expm1(-x))


@lru_cache(maxsize=1)
def _tried_shares() -> NDArray[np.float64]:
    """Return values of θb in (0, 1)."""
    steps = np.geomspace(1e-4, 0.5, 200)
    return np.concatenate([steps, 1.0 - steps])
