"""The losses of published reports, with bounds on their first and second derivatives.

The exact minimum lies within `slack` of what is published. f is convex, so f' is monotone in the predictor u, and over
|u' - u| <= h it lies between f'(u - h) and f'(u + h); the curvature is bounded by its extremes over the same interval.
All functions are safe against overflow: an exponential that runs away gives a slope of 0 or 1, which is right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Positive = Annotated[float, msgspec.Meta(gt=0)]


class Weights(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"negative": "-1", "positive": "1"}
):
    """Public class weights, by the sign of the label."""

    negative: Positive
    positive: Positive


class _NamedLoss(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="name"):
    """A loss, with its name in the file."""


class Logistic(_NamedLoss, frozen=True, kw_only=True, tag="logistic"):
    """f = w·log(1 + exp(-y·u))."""

    weights: Weights


class LogCosh(_NamedLoss, frozen=True, kw_only=True, tag="log-cosh"):
    """f = κ²·log cosh((u - y)/κ)."""

    kappa: Positive


class Huber(_NamedLoss, frozen=True, kw_only=True, tag="huber"):
    """f' = u - y, cut at ±κ."""

    kappa: Positive


class SquaredClipped(_NamedLoss, frozen=True, kw_only=True, tag="squared-clipped"):
    """f' = u - y, cut at ±C/‖x‖."""

    clip: Positive


class SmoothedHinge(_NamedLoss, frozen=True, kw_only=True, tag="smoothed-hinge"):
    """f' = -y·clamp((1 + w - y·u)/(2w), 0, 1)."""

    width: Positive


class ClippedPoisson(_NamedLoss, frozen=True, kw_only=True, tag="poisson"):
    """f' = exp(u) - y, cut at ±C/‖x‖."""

    clip: Positive


class Softmax(_NamedLoss, frozen=True, kw_only=True, tag="softmax"):
    """f = -w_y·log p_y, p = softmax(u); the classes are in the label, and `weights`, where present, in their order."""

    weights: Annotated[list[Positive], msgspec.Meta(min_length=2)] | None = None


Loss = Logistic | LogCosh | Huber | SquaredClipped | SmoothedHinge | ClippedPoisson | Softmax


@dataclass(frozen=True)
class Reach:
    """Bounds over the slack interval: f'·‖x‖ from `low` to `high`, f''·‖x‖² from `bend_low` to `bend_high`."""

    low: Floats
    high: Floats
    bend_low: Floats
    bend_high: Floats

    @property
    def steepest(self) -> Floats:
        """The largest |f'|·‖x‖."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def flattest(self) -> Floats:
        """The smallest |f'|·‖x‖; 0 where the slope changes sign."""
        return np.where(self.low * self.high <= 0, 0.0, np.minimum(np.abs(self.low), np.abs(self.high)))


def lipschitz_bounds(loss: Loss, norm: float, *, largest: float = 0.0) -> tuple[float, float]:
    """Return L and β of a loss for rows of at most this norm, the constant column included.

    `largest` bounds the counts of a Poisson loss. For a softmax β is the largest eigenvalue of a row's Hessian.
    """
    match loss:
        case Logistic():
            weight = max(loss.weights.negative, loss.weights.positive)
            return weight * norm, weight * norm**2 / 4
        case LogCosh() | Huber():
            return loss.kappa * norm, norm**2
        case SquaredClipped():
            return loss.clip, norm**2
        case SmoothedHinge():
            return norm, norm**2 / (2 * loss.width)
        case ClippedPoisson():
            return loss.clip, largest * norm**2 + loss.clip * norm
        case Softmax():
            weight = max(loss.weights or [1.0])
            return math.sqrt(2) * weight * norm, weight * norm**2 / 2


def reach(loss: Loss, *, predictor: Floats, norm: Floats, target: Floats, slack: float) -> Reach:
    """Bound slope and curvature for every row; arrays have shape (n,)."""
    h = norm * slack
    if isinstance(loss, Logistic):
        return _logistic(loss, predictor, norm, target, h)
    if isinstance(loss, SmoothedHinge):
        return _hinge(loss.width, predictor, norm, target, h)
    if isinstance(loss, ClippedPoisson):
        return _poisson(loss.clip, predictor, norm, target, h)
    error = predictor - target
    size = np.abs(error)
    if isinstance(loss, LogCosh):
        low, high = (loss.kappa * np.tanh((error + sign * h) / loss.kappa) * norm for sign in (-1.0, 1.0))
        bends = (_sech_squared(z / loss.kappa) for z in (size + h, np.maximum(size - h, 0.0)))
    else:
        assert isinstance(loss, Huber | SquaredClipped)
        # the cut of |f'|·‖x‖: κ‖x‖, or C itself
        cut = loss.kappa * norm if isinstance(loss, Huber) else np.full_like(norm, loss.clip)
        low, high = (np.clip((error + sign * h) * norm, -cut, cut) for sign in (-1.0, 1.0))
        bends = (np.where(z * norm < cut, 1.0, 0.0) for z in (size + h, size - h))
    bend_low, bend_high = (bend * norm * norm for bend in bends)
    return Reach(low, high, bend_low, bend_high)


def softmax_reach(predictor: Floats, norm: Floats, target: Floats, slack: float) -> Floats:
    """Bound 1 - p_y from above: lower the logit of the label by the slack, raise all others; shape (n,)."""
    from scipy.special import expit, logsumexp

    rows, own = np.arange(len(norm)), target.astype(np.int64)
    others = predictor.copy()
    others[rows, own] = -np.inf
    margin = logsumexp(others, axis=1) - predictor[rows, own] + 2 * norm * slack
    return np.asarray(expit(margin), dtype=np.float64)


def _logistic(loss: Logistic, predictor: Floats, norm: Floats, target: Floats, h: Floats) -> Reach:
    from scipy.special import expit

    weight = np.where(target > 0, loss.weights.positive, loss.weights.negative)
    ends = (-target * weight * expit(-target * (predictor + sign * h)) * norm for sign in (-1.0, 1.0))
    low, high = ends
    size = np.abs(predictor)
    bend_low, bend_high = (weight * expit(z) * expit(-z) * norm * norm for z in (size + h, np.maximum(size - h, 0.0)))
    return Reach(low, high, bend_low, bend_high)


def _hinge(width: float, predictor: Floats, norm: Floats, target: Floats, h: Floats) -> Reach:
    low, high = (
        -target * np.clip((1 + width - target * (predictor + sign * h)) / (2 * width), 0.0, 1.0) * norm
        for sign in (-1.0, 1.0)
    )
    off = np.abs(1 - target * predictor)
    bend = norm * norm / (2 * width)
    return Reach(low, high, np.where(off + h < width, bend, 0.0), np.where(off - h < width, bend, 0.0))


def _poisson(clip: float, predictor: Floats, norm: Floats, target: Floats, h: Floats) -> Reach:
    rates = [np.exp(np.minimum(predictor + sign * h, 700.0)) for sign in (-1.0, 1.0)]
    low, high = (np.clip((rate - target) * norm, -clip, clip) for rate in rates)
    # inside the cut e^u < y + C/‖x‖, and f'' = e^u; where the whole interval lies outside, f'' = 0
    outside = ((rates[1] - target) * norm <= -clip) | ((rates[0] - target) * norm >= clip)
    inside = ((rates[0] - target) * norm > -clip) & ((rates[1] - target) * norm < clip)
    most = np.minimum(rates[1] * norm, target * norm + clip) * norm
    return Reach(low, high, np.where(inside, rates[0] * norm * norm, 0.0), np.where(outside, 0.0, most))


def _sech_squared(z: Floats) -> Floats:
    decay = np.exp(-2 * np.abs(z))
    return np.asarray(4 * decay / (1 + decay) ** 2)
