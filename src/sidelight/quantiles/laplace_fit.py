"""Fit one Laplace prior a level to intervals: a convex problem.

The sample-average problem is handed to SciPy's L-BFGS-B in coordinates in which every level has location 0 and scale 1,
so that values far from zero cost no accuracy. The one pass of the paper is `published.cocob`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.records.rows import one_blas_thread

# The loss of a Laplace prior on an interval, -log mu((a, b]), with its gradient; and the soft maximum over levels.
#
# The prior is written as theta = location/scale and phi = 1/scale, in which the loss is convex (Burridge 1981);
# theta may then be linear in features. Hand-made: the printed formula (with cosh and sinh) overflows for wide
# intervals and cancels for narrow ones; here (b - a) phi may be anything from 1e-300 to 1e300.

Floats = NDArray[np.float64]

#: Below this width (1 - exp(-w)) and w are the same float, and w itself may be too small to be written.
_NARROW = 1e-200


def laplace_loss(a: ArrayLike, b: ArrayLike, theta: ArrayLike, phi: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Return -log mass of (a, b] under Laplace(theta/phi, 1/phi), and its derivatives by theta and by phi.

    The ends may be infinite; all arguments broadcast. An empty interval has loss inf and the gradient of its limit. The
    loss has a continuous gradient, |d theta| <= 1 and |d phi| <= max(|a|, |b|) + 1/phi.

    >>> loss, d_theta, d_phi = laplace_loss(1, 2, 0, 1)
    >>> round(float(loss), 12), float(d_theta), round(float(d_phi), 12)
    (2.151822325947, -1.0, 0.418023293131)
    """
    low, high, t, f = np.broadcast_arrays(*(np.asarray(each, dtype=np.float64) for each in (a, b, theta, phi)))
    with np.errstate(all="ignore"):
        left, right = low * f - t, t - high * f  # how far the location lies to the left, to the right (in scales)
        one_sided = np.isinf(low) != np.isinf(high)
        whole_line = np.isinf(low) & np.isinf(high)
        found = _aside(low, high, left, right, f)
        inside = (left < 0) & (right < 0)
        found = _choose(inside, _inside(low, high, left, right, f), found)
        if one_sided.any():
            found = _choose(one_sided, _half_line(low, high, left, right), found)
    nothing = np.zeros_like(found[0])
    return _choose(whole_line, (nothing, nothing, nothing), found)


def lse_loss(a: ArrayLike, b: ArrayLike, theta: ArrayLike, phi: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
    """Return log sum exp of the losses over the last axis (the levels), the weights, and the gradients.

    The weights are the softmax of the losses; the gradients are those by theta and phi of each level, of l2 norm at
    most 1 and max(|a|, |b|) + 1/phi: a level with a loss larger than the rest takes the whole gradient.
    """
    losses, d_theta, d_phi = laplace_loss(a, b, theta, phi)
    top = losses.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        shares = np.where(losses == top, 1.0, np.exp(losses - top))  # two infinite losses share the weight
    total = shares.sum(axis=-1, keepdims=True)
    weights = shares / total
    value = (top + np.log(total))[..., 0]
    return value, weights, weights * d_theta, weights * d_phi


Parts = tuple[Floats, Floats, Floats]


def _choose(where: NDArray[np.bool_], yes: Parts, no: Parts) -> Parts:
    first, second, third = (np.where(where, x, y) for x, y in zip(yes, no, strict=True))
    return first, second, third


def _width(low: Floats, high: Floats, f: Floats) -> tuple[Floats, Floats]:
    """Return w = (b - a) phi and log(1 - exp(-w)), also where w is too small to be written."""
    width = (high - low) * f
    narrow = np.log(high - low) + np.log(f)
    return width, np.where(width < _NARROW, narrow, np.log(-np.expm1(-width)))


def _aside(low: Floats, high: Floats, left: Floats, right: Floats, f: Floats) -> Parts:
    """Return the parts for a location outside the interval (or on its edge)."""
    width, log_share = _width(low, high, f)
    on_left = left >= right
    loss = np.where(on_left, left, right) + math.log(2.0) - log_share
    shrink = np.where(width < _NARROW, 1.0 / f, (high - low) / np.expm1(width))  # (b - a) / (exp(w) - 1)
    shrink = np.where(np.isposinf(width), 0.0, shrink)
    d_phi = np.where(on_left, low, -high) - shrink
    return loss, np.where(on_left, -1.0, 1.0), d_phi


def _inside(low: Floats, high: Floats, left: Floats, right: Floats, f: Floats) -> Parts:
    """Return the parts for a location inside: with p the distance to the nearer end, Q = 2 - exp(-p) - exp(p - w)."""
    width, _ = _width(low, high, f)
    near = np.clip(-np.maximum(left, right), 0.0, width / 2)  # its error moves Q by no more than w times itself
    far = width - near
    nearer_left = left >= right
    missing = -np.expm1(-near) - np.expm1(-far)
    loss = np.where(missing > 0, math.log(2.0) - np.log(missing), math.log(2.0) - (np.log(high - low) + np.log(f)))
    gap = np.where(near == far, 0.0, np.exp(-near) * -np.expm1(near - far))  # exp(-near) - exp(-far)
    d_theta = np.where(nearer_left, -1.0, 1.0) * np.where(missing > 0, gap / missing, 0.0)
    at_left = np.exp(-np.where(nearer_left, near, far))
    at_right = np.exp(-np.where(nearer_left, far, near))
    wide = (low * at_left - high * at_right) / missing
    centre, half = low / 2 + high / 2, high / 2 - low / 2
    narrow = -centre * d_theta - np.where(missing > _NARROW, half * (at_left + at_right) / missing, 1.0 / f)
    return loss, d_theta, np.where(width > 1, wide, narrow)


def _half_line(low: Floats, high: Floats, left: Floats, right: Floats) -> Parts:
    """Return the parts for (-inf, b] or (a, inf): v is the distance of the location beyond the finite end."""
    below = np.isinf(low)
    v = np.where(below, right, left)
    share = np.exp(np.minimum(v, 0.0)) / 2
    loss = np.where(v >= 0, v + math.log(2.0), -np.log1p(-share))
    d_v = np.where(v >= 0, 1.0, share / (1 - share))
    return loss, np.where(below, d_v, -d_v), np.where(below, -high, low) * d_v


_MOST_ITERATIONS: Final = 2000
#: A step that improves the loss by less than this share ends the search: no rank shows it, and 99 levels would take a
#: thousand more.
_ENOUGH: Final = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class LaplaceFit:
    """Location and scale for each level, and the mean loss that they have on the intervals."""

    location: Floats
    scale: Floats
    objective: float


def fit_laplace(a: Floats, b: Floats, *, smallest_scale: float, largest_scale: float) -> LaplaceFit:
    """Minimise the mean over the rows of log sum over the levels of exp(-log mass of (a, b]).

    >>> fit = fit_laplace(np.array([[9.0], [10], [10.5], [8]]), np.array([[10], [11], [12], [9.5]]),
    ...                   smallest_scale=1e-6, largest_scale=1e3)
    >>> round(float(fit.location[0]), 4), round(float(fit.scale[0]), 6), round(fit.objective, 9)
    (10.0, 0.690501, 1.249603632)
    """
    from scipy.optimize import minimize

    check_scales(smallest_scale, largest_scale)
    centre, half = a / 2 + b / 2, b / 2 - a / 2
    zero = np.median(centre, axis=0)
    unit = np.clip(np.abs(centre - zero).mean(axis=0) + half.mean(axis=0), smallest_scale, largest_scale)
    low, high = (a - zero) / unit, (b - zero) / unit
    count = a.shape[1]

    def objective(point: Floats) -> tuple[float, Floats]:
        value, _, d_theta, d_phi = lse_loss(low, high, point[:count], point[count:])
        return float(value.mean()), np.concatenate([d_theta.mean(axis=0), d_phi.mean(axis=0)])

    bounds = [(None, None)] * count + [(u / largest_scale, u / smallest_scale) for u in unit.tolist()]
    start = np.concatenate([np.zeros(count), np.ones(count)])
    options = {"maxiter": _MOST_ITERATIONS, "maxfun": 4 * _MOST_ITERATIONS, "ftol": _ENOUGH, "gtol": 1e-9, "maxcor": 30}
    with one_blas_thread():  # of tiny systems of equations
        found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    theta, phi = found.x[:count], found.x[count:]
    return LaplaceFit(location=zero + unit * (theta / phi), scale=unit / phi, objective=float(found.fun))


def fitted(a: Floats, b: Floats, theta: Floats, phi: Floats) -> LaplaceFit:
    return LaplaceFit(location=theta / phi, scale=1 / phi, objective=float(lse_loss(a, b, theta, phi)[0].mean()))


def check_scales(smallest_scale: float, largest_scale: float) -> None:
    if not 0 < smallest_scale < largest_scale:
        raise RangeError(
            f"scales must satisfy 0 < smallest < largest, got {smallest_scale} and {largest_scale}; pass a granularity "
            "that is smaller than the spread of the values"
        )
