"""How large noise can get, at many failure probabilities at once, and the line above what is made of such sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import log, pi, sqrt

import numpy as np

from sidelight.mechanisms.additive import Law
from sidelight.mechanisms.denoise import Floats
from sidelight.mechanisms.goe_norm import goe_norm_closed_form, goe_norm_quantile

#: With which probability a stated error may be wrong that is stated as surely as can be.
UNSURE = 1e-9
#: Values of log(1/β) that errors are computed at, β the failure probability: close where lines are to be low, and at
#: the end, where products of two long tails hold them up.
STEPS: Floats = np.array([*np.arange(0.1, 6.05, 0.1), *np.arange(6.25, 20.6, 0.25), -log(UNSURE)])
#: Where each step begins: what holds at its end holds from here on.
_STARTS: Floats = np.concatenate(([0.0], STEPS[:-1]))
#: At every this many steps a quantile is computed.
_COMPUTED = 5
#: The confidence that a line is lowest at.
_CHOSEN_AT = log(20)
#: Up to this size the quantiles of a matrix are computed; beyond, the closed form is near enough.
_LARGEST_COMPUTED = 10


@dataclass(frozen=True, eq=False)
class ErrorTail:
    """A number that exceeds each entry of `at_steps` with probability at most exp(-x) for the x of `STEPS`.

    Attributes:
        beyond: For x beyond the last step, the last entry and `beyond` for each 1 of x more is not exceeded.
    """

    at_steps: Floats
    beyond: float = 0.0

    def times(self, factor: float) -> ErrorTail:
        """Return the bound of a multiple."""
        return ErrorTail(self.at_steps * factor, self.beyond * factor)

    def line(self) -> tuple[float, float]:
        """Return a and b for which a + b · log(1/β) is nowhere below it, and at 95 % as low as can be.

        >>> a, b = ErrorTail(np.sqrt(2 * STEPS)).line()
        >>> sqrt(2 * log(20)) <= a + b * log(20) < 1.05 * sqrt(2 * log(20))
        True
        """
        early, late = _STARTS <= _CHOSEN_AT, _STARTS > _CHOSEN_AT
        left, right = _STARTS[early], _STARTS[late]
        low, high = self.at_steps[early], self.at_steps[late]
        slopes = (high[None, :] - low[:, None]) / (right[None, :] - left[:, None])
        reached = low[:, None] + slopes * (_CHOSEN_AT - left)[:, None]  # a line above both ends is above their chord
        slope = max(float(slopes.flat[int(reached.argmax())]), self.beyond, 0.0)
        return float((self.at_steps - slope * _STARTS).max()), slope


def _of_normals(quantile: Callable[[float], float], parts: int) -> ErrorTail:
    """Return the tail of a function of independent standard normal variables with Lipschitz constant 1.

    Between the quantiles that are computed, and beyond the last step, q(β) <= q(β₀) + u(β) - u(β₀) with the normal
    quantile u (Gaussian isoperimetry), which is concave in log(1/β) with slope β/φ(u); nor is q(β) above the next one.
    """
    from scipy.special import ndtri

    probabilities = np.exp(-STEPS) / parts
    normal, steps = -ndtri(probabilities), np.arange(len(STEPS))
    before = steps - steps % _COMPUTED
    after = np.minimum(before + _COMPUTED, steps[-1])
    known = {step: quantile(float(probabilities[step])) for step in {*before.tolist(), *after.tolist()}}
    lower, upper = (np.array([known[step] for step in ends.tolist()]) for ends in (before, after))
    found = np.minimum(lower + normal - normal[before], upper)
    return ErrorTail(found, float(probabilities[-1] * sqrt(2 * pi) * np.exp(normal[-1] ** 2 / 2)))


def _of_line(fixed: float, per_log: float, parts: int) -> ErrorTail:
    return ErrorTail(fixed + per_log * (STEPS + log(parts)), per_log)


@lru_cache(maxsize=64)
def _norm(size: int, parts: int) -> ErrorTail:
    """Return the tail of the operator norm of a symmetric matrix with standard deviations 1 and 1/√2."""
    computed = goe_norm_quantile if size <= _LARGEST_COMPUTED else goe_norm_closed_form
    return _of_normals(lambda probability: computed(size, probability) / sqrt(2), parts)


@lru_cache(maxsize=64)
def _length(size: int, parts: int) -> ErrorTail:
    """Return the tail of the length of a vector of independent standard normal variables."""
    from scipy.special import chdtri

    return _of_normals(lambda probability: sqrt(float(chdtri(size, probability))), parts)


def matrix_tail(law: Law, *, size: int, noise_scale: float, parts: int) -> ErrorTail:
    """Bound the operator norm of the noise: no eigenvalue moves by more (Weyl).

    GOE: its quantiles. Two-sided Wishart: the larger of two norms ‖G‖² of d × (d+1) Gaussian
    matrices, (√d + √(d+1) + t)²/(2c) but for 2 exp(-t²/2). Laplace: the largest sum of absolute values in a row, whose
    moment generating function at half the rate is at most 2^d.

    Args:
        law: That of the noise.
        size: The number of columns.
        noise_scale: The standard deviation on the diagonal.
        parts: How many noises share the failure probability equally.
    """
    if law == "goe":
        return _norm(size, parts).times(noise_scale)
    if law == "wishart":
        unit = noise_scale / sqrt(size + 1)  # 1/c
        reach = sqrt(size) + sqrt(size + 1)
        roots = np.sqrt(2 * (STEPS + log(2 * parts)))
        return ErrorTail(unit * (reach + roots) ** 2 / 2, unit * (1 + reach / float(roots[-1])))
    scale = noise_scale / sqrt(2)
    return _of_line(2 * scale * (size * log(2) + log(size)), 2 * scale, parts)


def vector_tail(law: Law, *, size: int, deviation: float, parts: int) -> ErrorTail:
    """Bound the Euclidean length of the noise of a vector sum."""
    if law == "gaussian":
        return _length(size, parts).times(deviation)
    scale = deviation / (sqrt(size + 1) if law == "spherical" else sqrt(2))
    return _of_line(2 * scale * size * log(2), 2 * scale, parts)  # a gamma length, or the sum of absolute values


def count_tail(*, deviation: float, gaussian: bool, parts: int) -> ErrorTail:
    """Bound the error of the number of rows."""
    if gaussian:
        tail = _length(1, parts).times(deviation)
        return ErrorTail(0.5 + tail.at_steps, tail.beyond)  # the noise is rounded
    return _of_line(1.0, deviation / sqrt(2), parts)


def pairing_tail(rows: float | Floats, square: float, *, parts: int) -> ErrorTail:
    """Bound how far the covariance of randomly paired rows is from that of the rows, in operator norm.

    At most 2r²/√n on average and 2r²√(log(1/β)/(n - 1)) more, and 1/(n - 1) of it for an even number (covariance proof
    page, Theorem 11).

    Args:
        rows: The number of rows, or at each of `STEPS` the least that there can be.
        square: The squared radius r².
        parts: How many errors share the failure probability equally.
    """
    least = np.maximum(rows, 4.0) * np.ones_like(STEPS)
    average = 2 * square * (least / (least - 3)) ** 1.5 / np.sqrt(least) + square / (least - 1)
    logs = STEPS + log(parts)
    return ErrorTail(
        average + 2 * square * np.sqrt(logs / (least - 1)), float(square / np.sqrt(logs[-1] * (least[-1] - 1)))
    )
