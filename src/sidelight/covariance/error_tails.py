"""Bounds of noise in the form fixed + per_log · log(1/β), so that those of several noises add up by public formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

from sidelight.errors import RangeError
from sidelight.mechanisms.additive import Law

#: √(2x) <= x/(2s) + s for every s > 0; this one is best at a failure probability of 5 %.
_TANGENT = 1.36


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


def added(tails: Sequence[ErrorTail]) -> ErrorTail:
    """Return a bound of the sum: each part gets an equal share of the failure probability."""
    per_log = sum(tail.per_log for tail in tails)
    return ErrorTail(sum(tail.fixed for tail in tails) + per_log * log(len(tails)), per_log)


def matrix_tail(law: Law, *, size: int, noise_scale: float) -> ErrorTail:
    """Bound the operator norm of the noise: no eigenvalue moves by more (Weyl).

    GOE: σ(√(2d) + t) but for 2 exp(-t²/2). Two-sided Wishart: the larger of two norms ‖G‖² of d × (d+1) Gaussian
    matrices, (√d + √(d+1) + t)²/(2c) but for 2 exp(-t²/2). Laplace: the largest sum of absolute values in a row, whose
    moment generating function at half the rate is at most 2^d.
    """
    if law == "goe":
        return ErrorTail(noise_scale * sqrt(2 * size), 0.0).plus_root(noise_scale, terms=2)
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
        return ErrorTail(deviation * sqrt(size), 0.0).plus_root(deviation, terms=1)
    scale = deviation / (sqrt(size + 1) if law == "spherical" else sqrt(2))
    return ErrorTail(2 * scale * size * log(2), 2 * scale)  # a gamma length, or the sum of absolute values


def count_tail(*, deviation: float, gaussian: bool) -> ErrorTail:
    """Bound the error of the number of rows."""
    if gaussian:
        return ErrorTail(0.5, 0.0).plus_root(deviation, terms=2)
    return ErrorTail(1.0, deviation / sqrt(2))


def pairing_tail(rows: float, square: float) -> ErrorTail:
    """Bound how far the covariance of randomly paired rows is from that of the rows, in operator norm.

    At most 2r²/√n on average and 2r²√(log(1/β)/n) more, and 1/(n - 1) of it for an even number (covariance proof page,
    Theorem 11).
    """
    least = max(rows, 4.0)
    average = 2 * square * (least / (least - 3)) ** 1.5 / sqrt(least) + square / (least - 1)
    return ErrorTail(average, 0.0).plus_root(square * sqrt(2 / (least - 1)), terms=1)
