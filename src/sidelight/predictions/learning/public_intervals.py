"""Where the quantiles of a private data set of a given size would lie, if it were like the public data.

Many public rows: shuffle, cut into disjoint subsets of the private size, take the optimal interval of each. Few rows
(fewer than 50 subsets): resample instead, first the public data (its own error) and from that the subset. Only two
neighbouring order statistics of each subset matter, and those of resampled data are Beta variables, so a resampled
subset costs a few numbers whatever the private size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.predictions.public_data import PublicData

# The interval in which a quantile may be put without any error: what a prior should have put its mass on.


def optimal_intervals(
    sorted_values: ArrayLike, levels: Sequence[Fraction], granularity: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends (a, b] of the optimal interval of every level: (x_(k), x_(k+1)] with k = floor(q n).

    The values are sorted along the last axis, which becomes the axis of the levels; other axes are data sets of one
    size. Where k = 0 the lower end is -inf; without values both ends are infinite (no loss). An interval narrower than
    `granularity`, as ties make it, is widened around its centre to that width: its loss would be infinite. Arithmetic
    alone: of private values the ends are private values.

    >>> [ends.tolist() for ends in optimal_intervals([1.0, 2.0, 2.0, 5.0], [Fraction(1, 10), Fraction(1, 2)], 1.0)]
    [[-inf, 1.5], [1.0, 2.5]]
    """
    values = np.asarray(sorted_values, dtype=np.float64)
    if not granularity > 0:
        raise RangeError(f"granularity must be positive, got {granularity}; give the step on which values lie")
    size = values.shape[-1]
    if size == 0:
        shape = (*values.shape[:-1], len(levels))
        return np.full(shape, -np.inf), np.full(shape, np.inf)
    ranks = np.array([(level.numerator * size) // level.denominator for level in levels], dtype=np.intp)  # floor(q n)
    low = np.where(ranks > 0, values[..., np.maximum(ranks - 1, 0)], -np.inf)
    high = values[..., ranks]
    with np.errstate(invalid="ignore"):
        narrow = high - low < granularity
        centre = low / 2 + high / 2
        low = np.where(narrow, np.minimum(centre - granularity / 2, np.nextafter(low, -np.inf)), low)
        high = np.where(narrow, np.maximum(centre + granularity / 2, np.nextafter(high, np.inf)), high)
    return low, high


# Reproducible choices about public data: a shuffle, and uniform numbers for resampling. This is not noise.
#
# Nothing private depends on these numbers and nothing is hidden by them, so they are a function of a public seed: the
# same fit comes out everywhere. SHAKE-128 from `hashlib`, so that no version of a library changes the stream.
_PREFIX = b"sidelight/public/1\0"


def public_words(seed: str, count: int) -> NDArray[np.uint64]:
    """Return 64-bit words that depend on the public seed alone."""
    stream = hashlib.shake_128(_PREFIX + seed.encode(), usedforsecurity=False).digest(8 * count)
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64)


def public_permutation(seed: str, size: int) -> NDArray[np.intp]:
    """Return a permutation of range(size): the order of hashed words.

    >>> public_permutation("any text", 5).tolist()
    [3, 4, 2, 1, 0]
    """
    return np.argsort(public_words(seed, size), kind="stable")


def public_uniforms(seed: str, *shape: int) -> NDArray[np.float64]:
    """Return numbers strictly inside (0, 1), on the multiples of 2**-53 moved by half a step."""
    words = public_words(seed, int(np.prod(shape))) >> np.uint64(11)
    return ((words.astype(np.float64) + 0.5) * 2.0**-53).reshape(shape)


Floats = NDArray[np.float64]

#: Below this number of disjoint subsets the fit would follow their accidents.
ENOUGH_SUBSETS: Final = 50

#: More subsets than this cost time and change nothing.
MOST_SUBSETS: Final = 2000
RESAMPLED_SUBSETS: Final = 400


def public_intervals(
    sample: PublicData, levels: Sequence[Fraction], *, size: int, granularity: float, seed: str
) -> tuple[Floats, Floats]:
    """Return the ends (a, b] of the optimal intervals, one row a subset and one column a level.

    Half lines (q size < 1) end where the public data does: below all of it no answer is wanted.
    """
    if type(sample) is not PublicData:
        raise RangeError(f"public data comes as sl.PublicData(values, description), got {type(sample).__name__}")
    values = sample.values()
    subsets = min(len(values) // size, MOST_SUBSETS)
    if subsets >= ENOUGH_SUBSETS:
        order = public_permutation(seed, len(values))[: subsets * size]
        low, high = optimal_intervals(np.sort(values[order].reshape(subsets, size), axis=1), levels, granularity)
    else:
        low, high = _resampled(np.sort(values), levels, size=size, granularity=granularity, seed=seed)
    floor = float(values.min()) - granularity
    low = np.maximum(low, floor)
    return low, np.maximum(high, low + granularity)


def _resampled(
    values: Floats, levels: Sequence[Fraction], *, size: int, granularity: float, seed: str
) -> tuple[Floats, Floats]:
    shape = (RESAMPLED_SUBSETS, len(levels))
    ranks = np.array([(level.numerator * size) // level.denominator for level in levels])
    draws = public_uniforms(seed, 3, *shape)
    low, high = _neighbours(draws[0], draws[1], ranks, size)
    # The subset is drawn from public data that was itself drawn: its quantile at `low` is (nearly) a Beta variable too,
    # and both ends move together.
    count = len(values)
    below = _beta_inverse(low * count + 0.5, (1 - low) * count + 0.5, draws[2])
    # Between two public values anything may lie: interpolation makes no ties that the data does not have.
    places = (np.arange(count) + 0.5) / count
    first, second = np.interp(below, places, values), np.interp(below + (high - low), places, values)
    pairs = np.stack([first, second], axis=-1)
    a, b = optimal_intervals(pairs, [Fraction(1, 2)], granularity)  # widens what is tied
    return np.where(ranks > 0, a[..., 0], -np.inf), b[..., 0]


def _neighbours(first: Floats, second: Floats, ranks: NDArray[np.int64], size: int) -> tuple[Floats, Floats]:
    """Return uniform order statistics k and k+1 of `size`, from two uniform draws (k = 0: only the second counts)."""
    k = np.maximum(ranks, 1).astype(np.float64)
    low = np.where(ranks > 0, _beta_inverse(k, size - k + 1, first), 0.0)
    return low, low + (1 - low) * _beta_inverse(np.ones_like(k), size - ranks.astype(np.float64), second)


def _beta_inverse(a: Floats, b: Floats, u: Floats) -> Floats:
    from scipy.special import betaincinv

    return np.asarray(betaincinv(a, b, u), dtype=np.float64)
