"""Bounds of noise in the form fixed + per_log · log(1/β), so that those of several noises add up by public formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log, pi, sqrt

from sidelight.errors import RangeError
from sidelight.mechanisms.additive import Law
from sidelight.mechanisms.goe_norm import goe_norm_closed_form, goe_norm_quantile

#: √(2x) <= x/(2s) + s for every s > 0; this one is best at a failure probability of 5 %.
_TANGENT = 1.36

#: Quantiles of functions of normal noise are met here, where several parts share a failure probability of 5 %, and
#: exceeded by less than a tenth between a half and 1e-6.
_MET = 0.02
#: Steps of log(1/β) up to there.
_STEPS = 12
#: Up to this size the quantiles of a matrix are computed; beyond, the closed form is near enough.
_LARGEST_COMPUTED = 10


@dataclass(frozen=True)
class ErrorTail:
    """A number that exceeds fixed + per_log · log(1/β) with probability at most β."""

    fixed: float
    per_log: float

    def at(self, confidence: float) -> float:
        """Return the bound that holds with this confidence."""
        if not 0 < confidence < 1:
            raise RangeError(f"confidence must lie strictly between 0 and 1, got {confidence}; 0.95 is a usual choice")
        return self.fixed + self.per_log * log(1 / (1 - confidence))

    def times(self, factor: float) -> ErrorTail:
        """Return the bound of a multiple."""
        return ErrorTail(self.fixed * factor, self.per_log * factor)

    def plus_root(self, scale: float, *, terms: int) -> ErrorTail:
        """Add scale · t for a law that exceeds it with probability at most terms · exp(-t²/2)."""
        slope = scale / (2 * _TANGENT)
        return ErrorTail(self.fixed + scale * _TANGENT + slope * log(terms), self.per_log + slope)


def line_above(quantile: Callable[[float], float]) -> ErrorTail:
    """Return a line above the quantiles of a function of independent standard normal variables with slope at most 1.

    From the failure probability `_MET` on, q(β) <= q(β₀) + u(β) - u(β₀) with the normal quantile u (Gaussian
    isoperimetry), which is concave in log(1/β) with slope β/φ(u); before, by the quantile at the end of each step.

    Args:
        quantile: What is exceeded with at most this probability, or more.

    >>> line_above(lambda probability: sqrt(2 * log(2 / probability))).at(0.95) < 2.9
    True
    """
    from scipy.special import ndtri

    met = log(1 / _MET)
    slope = _MET * sqrt(2 * pi) * exp(float(ndtri(_MET)) ** 2 / 2)
    steps = [met * step / _STEPS for step in range(_STEPS + 1)]
    values = [quantile(exp(-step)) for step in steps[1:]]
    fixed = max(value - slope * step for value, step in zip(values, steps, strict=False))
    return ErrorTail(fixed, slope)


@lru_cache(maxsize=64)
def _norm_line(size: int) -> ErrorTail:
    """Return the line of the operator norm of a symmetric matrix with standard deviations 1 and 1/√2."""
    computed = goe_norm_quantile if size <= _LARGEST_COMPUTED else goe_norm_closed_form
    return line_above(lambda probability: computed(size, probability) / sqrt(2))


@lru_cache(maxsize=64)
def _length_line(size: int) -> ErrorTail:
    """Return the line of the length of a vector of independent standard normal variables."""
    from scipy.special import chdtri

    return line_above(lambda probability: sqrt(float(chdtri(size, probability))))


def added(tails: Sequence[ErrorTail]) -> ErrorTail:
    """Return a bound of the sum: each part gets an equal share of the failure probability."""
    per_log = sum(tail.per_log for tail in tails)
    return ErrorTail(sum(tail.fixed for tail in tails) + per_log * log(len(tails)), per_log)


def matrix_tail(law: Law, *, size: int, noise_scale: float) -> ErrorTail:
    """Bound the operator norm of the noise: no eigenvalue moves by more (Weyl).

    GOE: its quantiles. Two-sided Wishart: the larger of two norms ‖G‖² of d × (d+1) Gaussian
    matrices, (√d + √(d+1) + t)²/(2c) but for 2 exp(-t²/2). Laplace: the largest sum of absolute values in a row, whose
    moment generating function at half the rate is at most 2^d.
    """
    if law == "goe":
        return _norm_line(size).times(noise_scale)
    if law == "wishart":
        unit = noise_scale / sqrt(size + 1)  # 1/c
        reach = sqrt(size) + sqrt(size + 1)
        # (reach + t)²/(2c) = (reach² + 2 reach t + t²)/(2c), and t² = 2 log(2/β)
        return ErrorTail(unit * reach**2 / 2 + unit * log(2), unit).plus_root(unit * reach, terms=2)
    scale = noise_scale / sqrt(2)
    return ErrorTail(2 * scale * (size * log(2) + log(size)), 2 * scale)


def vector_tail(law: Law, *, size: int, deviation: float) -> ErrorTail:
    """Bound the Euclidean length of the noise of a vector sum."""
    if law == "gaussian":
        return _length_line(size).times(deviation)
    scale = deviation / (sqrt(size + 1) if law == "spherical" else sqrt(2))
    return ErrorTail(2 * scale * size * log(2), 2 * scale)  # a gamma length, or the sum of absolute values


def count_tail(*, deviation: float, gaussian: bool) -> ErrorTail:
    """Bound the error of the number of rows."""
    if gaussian:
        line = _length_line(1).times(deviation)
        return ErrorTail(0.5 + line.fixed, line.per_log)  # the noise is rounded
    return ErrorTail(1.0, deviation / sqrt(2))


def pairing_tail(rows: float, square: float) -> ErrorTail:
    """Bound how far the covariance of randomly paired rows is from that of the rows, in operator norm.

    At most 2r²/√n on average and 2r²√(log(1/β)/n) more, and 1/(n - 1) of it for an even number (covariance proof page,
    Theorem 11).
    """
    least = max(rows, 4.0)
    average = 2 * square * (least / (least - 3)) ** 1.5 / sqrt(least) + square / (least - 1)
    return ErrorTail(average, 0.0).plus_root(square * sqrt(2 / (least - 1)), terms=1)
