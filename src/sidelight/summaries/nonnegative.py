"""Counts that people read: not negative, whole, and adding up. Post-processing of noisy counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.noise import Source, random_order

#: Remainders are compared in these parts of 1.
_REMAINDERS = 2.0**30


def onto_simplex(values: ArrayLike, total: float) -> NDArray[np.float64]:
    """Return the nearest numbers of at least 0 that add up to `total`: (y - λ)₊, λ found by sorting.

    >>> onto_simplex([7, -2, 3, 0, -1], 7).tolist()
    [5.5, 0.0, 1.5, 0.0, 0.0]
    """
    y = np.asarray(values, dtype=np.float64)
    if y.ndim != 1 or not total >= 0:
        raise RangeError(f"a projection needs a list of values and a total of at least 0, got total={total}")
    if y.size == 0 or total == 0:
        return np.zeros_like(y)
    falling = np.sort(y)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, y.size + 1)
    last = int(np.flatnonzero(falling >= excess)[-1])  # the first is always there: y_1 >= y_1 - total
    return np.asarray(np.maximum(y - excess[last], 0.0))


def whole_numbers(values: ArrayLike, total: int | None = None, *, source: Source) -> NDArray[np.int64]:
    """Round numbers of at least 0 so that they add up: floors, and one more for the largest remainders.

    Which of equal remainders is among the largest is drawn: a fixed order would favour the first labels every time.

    Args:
        values: Numbers of at least 0.
        total: What they shall add up to; the rounded sum if left out. Must be within one a number of it.
        source: What the order of equal remainders is drawn from; not asked where it does not matter.

    >>> from sidelight.noise import OSEntropy
    >>> with Source(OSEntropy()) as source:
    ...     whole_numbers([5.5, 1.4, 0.1], source=source).tolist()
    [6, 1, 0]
    """
    x = np.asarray(values, dtype=np.float64)
    floors = np.floor(x)
    # a sum of floats may end just below a whole number
    goal = int(np.floor(x.sum() + 0.5)) if total is None else total
    more = min(max(goal - int(floors.sum()), 0), x.size)
    out = floors.astype(np.int64)
    if more:
        # remainders that differ by the rounding of floats alone are equal
        remainders = np.rint((x - floors) * _REMAINDERS)
        last = -np.partition(-remainders, more - 1)[more - 1]
        above, equal = np.flatnonzero(remainders > last), np.flatnonzero(remainders == last)
        wanted = more - above.size
        if wanted < equal.size:
            with source.free("which of equal remainders are rounded up"):
                equal = equal[random_order(equal.size, source)[:wanted]]
        out[above] += 1
        out[equal] += 1
    return out


def readable_counts(
    estimates: ArrayLike, unbiased: ArrayLike, *, bound: float, source: Source, total: float | None = None
) -> NDArray[np.int64]:
    """Return whole counts of at least 0: cells that surely are not empty as they are, the others adding up as they did.

    Cells whose `unbiased` value exceeds `bound` stay; the others are projected onto what they add up to, so that the
    bias of cutting off negative cells is taken from small cells and not from the large ones that people read.

    Accuracy: measured, never worse than cutting off at 0. Sums of `unbiased` are right, sums of these nearly.

    Args:
        estimates: The unbiased counts, or those counts after shrinkage.
        unbiased: The noisy counts.
        bound: The simultaneous bound of the noise over all cells (`intervals.laplace_bound(scale, cells=G)`).
        source: What ties are drawn from: post-processing of released numbers.
        total: A measured total of all cells (rolled up); their own sum if left out.

    >>> from sidelight.noise import OSEntropy
    >>> with Source(OSEntropy()) as source:
    ...     readable_counts([1000, -2, 3, 0, -1], [1000, -2, 3, 0, -1], bound=10, source=source).tolist()
    [1000, 0, 0, 0, 0]
    """
    x, y = np.asarray(estimates, dtype=np.float64), np.asarray(unbiased, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise RangeError(f"estimates and unbiased values must be lists of one length, got {x.shape} and {y.shape}")
    stays = y > bound
    out = np.zeros(x.size, np.int64)
    large = np.maximum(x[stays], 0.0)
    others = x[~stays]
    if total is None:
        rest = max(0.0, float(others.sum()))
        out[stays] = whole_numbers(large, source=source)
        goal = int(np.floor(rest + 0.5))
    else:
        whole_total = max(0, int(np.floor(total + 0.5)))
        out[stays] = whole_numbers(large, source=source)
        goal = max(0, whole_total - int(out.sum()))
    if others.size:
        out[~stays] = whole_numbers(onto_simplex(others, float(goal)), goal, source=source)
    return out
