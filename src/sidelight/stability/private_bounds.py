"""Private bounds of a real statistic: below it, or above it, but for a stated probability.

The statistic is rounded to a public grid and meets exact integer noise; the bound is moved by the quantile of the noise
and by the roundings, so that it fails with at most the stated probability on the machine, too (stability proof page,
section 6). Lower bounds are for eigenvalues and gaps, upper bounds for norms and losses; the wrong one is no bound.
"""

from __future__ import annotations

import math
from fractions import Fraction

from sidelight.errors import RangeError
from sidelight.noise import Source, rounded_gaussian, scale_up
from sidelight.stability.distance_test import upper_quantile

#: Steps of the grid in one sensitivity: rounding costs a millionth.
_FINE = 1 << 20
#: Beyond this a statistic is cut off (one record still moves it by no more than before).
_FURTHEST = 1 << 80


def private_lower_bound(value: float, *, sensitivity: float, mu: float, failure: float, source: Source) -> float:
    """Return a number that exceeds the value with probability at most `failure`; a NaN counts as minus infinity.

    Guarantee: GDP(mu), if one record moves the value by at most `sensitivity`, a public number.
    """
    noisy, scale, step = _noisy(-math.inf if math.isnan(value) else value, sensitivity, mu, source)
    return noisy - scale * _quantile(failure) - step


def private_upper_bound(
    value: float, *, sensitivity: float, mu: float, failure: float, source: Source, for_neighbours: float = 0.0
) -> float:
    """Return a number that is below the value with probability at most `failure`; a NaN counts as infinity.

    Guarantee: GDP(mu), as for `private_lower_bound`. `for_neighbours=1` moves it by one sensitivity more, so that what
    a neighbour's data would have returned is above this data's value as well: a private selection needs that.
    """
    noisy, scale, step = _noisy(math.inf if math.isnan(value) else value, sensitivity, mu, source)
    return noisy + scale * (_quantile(failure) + for_neighbours * mu) + step


def _noisy(value: float, sensitivity: float, mu: float, source: Source) -> tuple[float, float, float]:
    """Return the noisy value, the deviation of its noise, and the grid's step."""
    if not (sensitivity > 0 and math.isfinite(sensitivity) and mu > 0):
        raise RangeError("a private bound wants a positive sensitivity and a positive mu")
    step = math.ldexp(1.0, math.frexp(sensitivity)[1] - 1) / _FINE
    exact_step = Fraction(step)
    scale = scale_up((Fraction(sensitivity) + exact_step) / Fraction(mu) / exact_step)
    noise = int(rounded_gaussian(1, scale, source)[0])
    return float((_rounded(value / step) + noise) * exact_step), float(scale * exact_step), step


def _rounded(x: float) -> int:
    return math.floor(min(max(x, -float(_FURTHEST)), float(_FURTHEST)) + 0.5)


def _quantile(failure: float) -> float:
    return upper_quantile(failure) * (1 + 1e-12)
