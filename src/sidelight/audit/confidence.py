"""Exact one-sided confidence bounds on a probability, from counts (Clopper and Pearson, 1934).

SciPy inverts the incomplete beta function. A single bound that enters a conclusion is then moved outwards until the
forward function confirms it, so a rounding error of the inverse never puts it on the wrong side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


def lower_bounds(hits: Counts, draws: int, *, failure: float) -> Floats:
    """Return the lower bound for each count, unconfirmed: for the search among many events."""
    from scipy.special import betaincinv

    some = np.maximum(hits, 1)
    return np.where(hits == 0, 0.0, betaincinv(some, draws - some + 1, failure))


def upper_bounds(hits: Counts, draws: int, *, failure: float) -> Floats:
    """Return the upper bound for each count, unconfirmed: for the search among many events."""
    from scipy.special import betainccinv

    some = np.minimum(hits, draws - 1)
    return np.where(hits == draws, 1.0, betainccinv(some + 1, draws - some, failure))


def at_least(hits: int, draws: int, *, failure: float) -> float:
    """Return a number that exceeds the true probability with probability at most `failure`.

    >>> round(at_least(90, 100, failure=0.025), 4)
    0.8238
    """
    if hits == 0:
        return 0.0
    from scipy.special import betainc

    bound, step = float(lower_bounds(np.array(hits), draws, failure=failure)), 1e-12
    # At p = bound, P[Binomial(draws, p) >= hits] = I_p(hits, draws - hits + 1) must not exceed `failure`.
    while float(betainc(hits, draws - hits + 1, bound)) > failure:
        bound, step = bound * (1 - step), 2 * step
    return bound


def at_most(hits: int, draws: int, *, failure: float) -> float:
    """Return a number that lies below the true probability with probability at most `failure`.

    >>> round(at_most(0, 100, failure=0.05), 4)
    0.0295
    """
    if hits == draws:
        return 1.0
    from scipy.special import betaincc

    bound, step = float(upper_bounds(np.array(hits), draws, failure=failure)), 1e-12
    # At p = bound, P[Binomial(draws, p) <= hits] = 1 - I_p(hits + 1, draws - hits) must not exceed `failure`.
    while bound < 1 and float(betaincc(hits + 1, draws - hits, bound)) > failure:
        bound, step = min(1.0, bound * (1 + step)), 2 * step
    return bound
