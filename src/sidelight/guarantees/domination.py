"""From a profile in closed form to one number: the epsilon at a delta, and the smallest GDP that dominates it.

A profile is below the Gaussian's for all x as soon as it is for x >= 0 in both directions: below zero
H_x(P||Q) = 1 - e^x + e^x H_-x(Q||P), and the Gaussian pair is symmetric. Between two points both sides fall, so a cell
[a, b] is proved by profile(a) <= gaussian(b); cells that fail are halved; beyond the last cell the curve's own tail
argument holds (accounting proof page, section 2). Cells are compared in floats with a slack of many times their error.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from sidelight.errors import RangeError
from sidelight.guarantees.curves import ProfileCurve, gaussian_float_error, gaussian_floats
from sidelight.guarantees.search import grid_ceil, smallest

if TYPE_CHECKING:
    from sidelight.guarantees.curves import Floats

_MOST_CELLS = 200_000  # where a proof exists a few thousand do


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
