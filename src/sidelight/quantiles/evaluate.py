"""Diagnostics of quantiles that look at the private data itself: for tests, benchmarks and public data only.

A gap computed from the records must never be released, and must never choose between mechanisms or priors. Bounds that
may be published are in `bounds`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.guarantees.amounts import Amount
from sidelight.quantiles.tree import exact_levels


def nonprivate_gap(
    values: ArrayLike,
    levels: Amount | Iterable[Amount],
    outputs: ArrayLike,
    *,
    ties: Literal["aware", "paper", "between"] = "aware",
) -> NDArray[np.float64]:
    """Return how many ranks each output is off. Not private.

    "aware": max(0, #{x < o} - q n, q n - #{x <= o}), which is 0 for every correct quantile, tied or not.
    "paper": |#{x < o} - floor(q n)| minus the smallest value that any output has on these records.
    "between": the records strictly between the output and the nearest correct quantile, which is what a likely error
    counts: ties with the quantile itself are not between.

    >>> nonprivate_gap([1, 2, 2, 2, 3], [0.5], [2.0])
    array([0.])
    """
    read = exact_levels(levels)
    ordered = sorted_values(values)
    given = np.atleast_1d(np.asarray(outputs, dtype=np.float64))
    if given.shape != (len(read),):
        raise RangeError(
            f"one output is needed for each of the {len(read)} levels, got an array of shape {given.shape}"
        )
    strictly_below = np.searchsorted(ordered, given, side="left")
    not_above = np.searchsorted(ordered, given, side="right")
    n = len(ordered)
    if ties == "aware":
        gaps = [
            max(Fraction(0), int(lo) - q * n, q * n - int(hi))
            for q, lo, hi in zip(read, strictly_below, not_above, strict=True)
        ]
        return np.array([float(gap) for gap in gaps])
    if ties == "between" and n:
        first = ordered[[max(math.ceil(q * n) - 1, 0) for q in read]]
        last = ordered[[min(math.floor(q * n), n - 1) for q in read]]
        below = np.searchsorted(ordered, first, side="left") - not_above
        above = strictly_below - np.searchsorted(ordered, last, side="right")
        return np.asarray(np.maximum(np.maximum(below, above), 0), dtype=np.float64)
    ranks = reachable_ranks(ordered)
    targets = [math.floor(q * n) for q in read]
    best = [int(np.abs(ranks - target).min()) for target in targets]
    return np.array(
        [float(abs(int(lo) - t) - b) for lo, t, b in zip(strictly_below, targets, best, strict=True)], dtype=np.float64
    )


def reachable_ranks(ordered: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the ranks that some real output has: a tie skips those inside it."""
    starts = np.flatnonzero(np.diff(ordered) > 0) + 1
    return np.concatenate(([0], starts, [len(ordered)])).astype(np.int64)


def sorted_values(values: ArrayLike) -> NDArray[np.float64]:
    """Return the values in order, without NaN; this code is for public data, so infinities may raise."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    flat = np.sort(flat[~np.isnan(flat)])
    if len(flat) and not (np.isfinite(flat[0]) and np.isfinite(flat[-1])):
        raise RangeError("values must be finite for a diagnostic or a simulation; clip them to public bounds first")
    return flat
