"""From a profile in closed form to one number: the epsilon at a delta, the smallest GDP that dominates it, and zCDP.

A profile is below the Gaussian's for all x as soon as it is for x >= 0 in both directions: below zero
H_x(P||Q) = 1 - e^x + e^x H_-x(Q||P), and the Gaussian pair is symmetric. Between two points both sides fall, so a cell
[a, b] is proved by profile(a) <= gaussian(b); cells that fail are halved; beyond the last cell the curve's own tail
argument holds (accounting proof page, section 2). Cells are compared in floats with a slack of many times their error.

zCDP by way of Renyi divergences of every order is often a third of what domination by GDP gives. D_a(P||Q) is an
integral of both directions' profiles over x >= 0 (Theorem T9), so the profile of the other direction replaces what a
bound of the loss alone cannot know: that little loss is gained where much is lost. Each cell of x is bounded from above
by the chord of the profile in e^x; beyond the last cell a Gaussian tail holds. Between orders (a - 1) D_a is convex, so
a few orders prove all of them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from sidelight.errors import RangeError
from sidelight.guarantees.amounts import grid_ceil, smallest
from sidelight.guarantees.curves import ProfileCurve, gaussian_float_error, gaussian_floats

if TYPE_CHECKING:
    from sidelight.guarantees.curves import Floats

_MOST_CELLS = 200_000  # where a proof exists a few thousand do
_CELLS = 1500
_FIRST = 1e-3  # the smallest order is 1 + _FIRST; below it D is bounded by its value there
_RATIO = 1.2
_LARGEST_ORDER = 2.0**17
_WIDENINGS = (1.03, 1.15)
_SLACK = 1e-9  # sums of some thousand positive floats are off by less than 1e-11


@lru_cache(maxsize=1024)
def epsilon_from_profile(remove: ProfileCurve, add: ProfileCurve, at: Fraction) -> Fraction | None:
    """Return the smallest epsilon of 12 digits at which both directions are proved to be at most `at`."""

    curves = dict.fromkeys((remove, add))  # a symmetric profile is evaluated once

    def holds(x: Fraction) -> bool:
        return all(curve.delta(x) <= at for curve in curves)

    if holds(Fraction(0)):
        return Fraction(0)
    try:
        return smallest(
            holds,
            start=_guess(remove, add, float(at)),
            lower=Fraction(1, 10**12),
            upper=Fraction(10**4),
            name="epsilon",
            close=10,
        )
    except RangeError:
        return None  # part of the mass is never reached, such as the delta of an (epsilon, delta) curve


@lru_cache(maxsize=256)
def gdp_from_profile(remove: ProfileCurve, add: ProfileCurve) -> Fraction | None:
    """Return a mu, within 1e-5 of the smallest, whose Gaussian dominates both directions; None without a proof."""
    low, high = 1e-6, 64.0
    if not _sampled_below(remove, add, high):
        return None
    while high / low > 1 + 1e-9:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _sampled_below(remove, add, middle) else (middle, high)
    for slack in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
        mu = grid_ceil(Fraction(high * (1 + slack)), digits=9)
        if all(_proved_below(curve, float(mu)) for curve in {remove, add}):
            return mu
    return None


@lru_cache(maxsize=256)
def zcdp_from_profile(remove: ProfileCurve, add: ProfileCurve) -> Fraction | None:
    """Return a rho of 6 digits with D_a <= rho a for every order a > 1 and both directions; None without a proof.

    >>> from sidelight.guarantees.curves import ApproxCurve
    >>> response = ApproxCurve(Fraction(1))  # randomised response: e tanh(e/2) = 0.462117
    >>> round(float(zcdp_from_profile(response, response)), 3)
    0.463
    """
    found, least = [], _tail_mu(remove, add)
    for widening in _WIDENINGS:
        mu = least * widening
        ends = [curve.gaussian_tail_from(mu) for curve in dict.fromkeys((remove, add))]
        if any(end is None for end in ends):
            continue
        found.append(_largest_ratio(remove, add, mu, max(end for end in ends if end is not None)))
    return grid_ceil(Fraction(min(found)), digits=6) if found else None


def _sampled_below(remove: ProfileCurve, add: ProfileCurve, mu: float) -> bool:
    """Compare on a sample of points, to find the neighbourhood of the answer."""
    import numpy as np

    for curve in {remove, add}:
        end = curve.gaussian_tail_from(mu)
        if end is None:
            return False
        if end <= 0:
            continue
        x = np.concatenate([np.linspace(0.0, end, 2001), np.geomspace(end * 1e-9, end, 500)])
        if bool((curve.floats(x) > gaussian_floats(mu, x)).any()):
            return False
    return True


def _proved_below(curve: ProfileCurve, mu: float) -> bool:
    """Halve the cells of [0, end] until every cell is proved, or one is too small to go on."""
    import numpy as np

    end = curve.gaussian_tail_from(mu)
    if end is None:
        return False
    if end <= 0:
        return True  # the tail argument covers all of it
    edges = np.linspace(0.0, end, 257)
    left, right = edges[:-1], edges[1:]
    seen = 0
    while left.size:
        seen += left.size
        if seen > _MOST_CELLS or float((right - left).min()) < 1e-13 * end:
            return False
        open_cells = curve.floats(left) > _gaussian_lower(mu, right)
        left, right = left[open_cells], right[open_cells]
        middle = (left + right) / 2
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    return True


def _gaussian_lower(mu: float, x: Floats) -> Floats:
    """Push the Gaussian profile down by ten times the bound of its float error."""
    import numpy as np

    return np.asarray(gaussian_floats(mu, x) - 10 * gaussian_float_error(mu, x), dtype=np.float64)


def _guess(remove: ProfileCurve, add: ProfileCurve, at: float) -> Fraction:
    """Find in floats where both directions fall to `at`: 64 points at a time, because arrays are cheap."""
    import numpy as np

    low, high = 0.0, 1e4
    for _ in range(9):
        points = np.linspace(low, high, 66)
        above = np.maximum.reduce([curve.floats(points) for curve in dict.fromkeys((remove, add))]) > at
        last = int(np.flatnonzero(above)[-1]) if above.any() else 0
        low, high = float(points[last]), float(points[min(last + 1, 65)])
    return Fraction(max(high, 1e-12))


def _tail_mu(remove: ProfileCurve, add: ProfileCurve) -> float:
    """Find about the smallest Gaussian whose tail is proved to lie above both profiles."""
    low, high = 1e-6, 64.0
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        proved = all(curve.gaussian_tail_from(middle) is not None for curve in (remove, add))
        low, high = (low, middle) if proved else (middle, high)
    return high


def _largest_ratio(remove: ProfileCurve, add: ProfileCurve, mu: float, start: float) -> float:
    """Bound D_a/a over all a > 1, given that both profiles lie below the Gaussian's of mu from `start` on."""
    import numpy as np

    def beyond(order: float) -> float:
        # E(dP/dQ)^a <= a (1 + e^(t start) + e^(t(1+t) mu^2/2)), t = a - 1; each term falls in a
        return math.log(3 * order) / (order * (order - 1)) + max(start / order, mu * mu / 2)

    aim, last = _log_moments(remove, add, mu, start, np.array([1.0]))[0] / 2, 64.0
    aim = max(aim, 1.01 * mu * mu / 2)  # no order is large enough for less
    while beyond(last) > aim and last < _LARGEST_ORDER:
        last *= 2
    count = math.ceil(math.log((last - 1) / _FIRST) / math.log(_RATIO)) + 1
    excess = np.geomspace(_FIRST, last - 1, count)
    moments = _log_moments(remove, add, mu, start, excess)
    ratios = _between(1 + excess, moments)
    return max(float(ratios.max()), float(moments[0]) / _FIRST, beyond(last)) * (1 + _SLACK)


def _log_moments(remove: ProfileCurve, add: ProfileCurve, mu: float, start: float, excess: Floats) -> Floats:
    """Bound (a - 1) D_a, the larger direction, at a = 1 + excess."""
    import numpy as np

    centre = mu * mu / 2 + min(float(excess[-1]) * mu + 10, 34) * mu  # further out a float profile is only its floor
    end = max(start, centre) * (1 + 1e-12)
    near = min(end, max(start, 8 * mu))
    x = np.concatenate([np.linspace(0.0, near, _CELLS), np.linspace(near, end, _CELLS)[1:]]) if end > near else (
        np.linspace(0.0, end, _CELLS)
    )  # fmt: skip
    curves = dict.fromkeys((remove, add))
    heights = {curve: np.minimum.accumulate(curve.floats(x)) for curve in curves}
    forward = _log_integral(x, heights[remove], heights[add], mu, excess)
    return (
        forward
        if len(curves) == 1
        else np.maximum(forward, _log_integral(x, heights[add], heights[remove], mu, excess))
    )


def _log_integral(x: Floats, mine: Floats, other: Floats, mu: float, excess: Floats) -> Floats:
    """log(1 + a t [integral of e^(tx) H_x(P||Q) + e^(-ax) H_x(Q||P)]), t = a - 1, over x >= 0, from above."""
    import numpy as np
    from scipy.special import log_ndtr, logsumexp

    t = excess[:, None]
    left, width = x[:-1], np.diff(x)
    # on a cell H <= h_left - (h_left - h_right) e^-width y/width, y = x - left; weights that rise put half on the mean
    with np.errstate(divide="ignore"):
        rising = np.log(mine[:-1] - (mine[:-1] - mine[1:]) * np.exp(-width) / 2)
        first = logsumexp(t * x[1:] + np.log(-np.expm1(-t * width)) - np.log(t) + rising, axis=1)
        order = 1 + t
        falling = other[:-1] * -np.expm1(-order * width) / order
        falling = falling - (other[:-1] - other[1:]) * np.exp(-(1 + order) * width) * width / 2
        second = logsumexp(-order * left + np.log(falling), axis=1)
        rest = np.log(other[-1]) - order[:, 0] * x[-1] - np.log(order[:, 0])
    t, order = excess, 1 + excess
    centre = mu * mu / 2 + t * mu * mu
    tail = t * mu * mu / 2 + (t * mu) ** 2 / 2 - np.log(t) + log_ndtr((centre - x[-1]) / mu)
    total = np.logaddexp(np.logaddexp(first, second), np.logaddexp(rest, tail))
    return np.asarray(np.logaddexp(0.0, np.log(order * t) + total), dtype=np.float64)


def _between(orders: Floats, moments: Floats) -> Floats:
    """Bound D_a/a on each cell of orders: (a - 1) D_a lies below its chord, and chord/(a(a-1)) has one maximum."""
    import numpy as np

    a, b = orders[:-1], orders[1:]
    slope = (moments[1:] - moments[:-1]) / (b - a)
    at_one, at_zero = moments[:-1] - slope * (a - 1), moments[:-1] - slope * a
    best = np.maximum(moments[:-1] / (a * (a - 1)), moments[1:] / (b * (b - 1)))
    # chord/(a(a-1)) = at_one/(a-1) - at_zero/a, with its stationary point where ((a-1)/a)^2 = at_one/at_zero
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(at_one / at_zero)
        place = np.clip(np.where(np.isfinite(root) & (root < 1), 1 / (1 - root), a), a, b)
    inside = (moments[:-1] + slope * (place - a)) / (place * (place - 1))
    return np.asarray(np.maximum(best, inside), dtype=np.float64)
