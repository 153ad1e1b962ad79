"""`fit_public`: predict the quantiles of a private data set from public data, one prior for each level.

Where the quantiles would lie is read off subsets of the private size. With many public rows these are disjoint; with
fewer than 50 subsets they are resampled: first the public data (its own error), and from that the subset. Only two
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
from sidelight.guarantees.amounts import whole
from sidelight.predictions import Cauchy, Laplace, Prior, PublicData, hedge, own_prior
from sidelight.predictions.compiled import positive
from sidelight.quantiles.laplace_fit import LaplaceFit, fit_laplace
from sidelight.quantiles.tree import LevelLike, exact_levels

#: The share of the robust prior. Chosen on generated populations (gamma, normal, log-normal; see `fit_public`).
HEDGE_WEIGHT: Final = 0.5

#: Where nothing says how fine the values are: this share of their spread.
_FINEST_SHARE: Final = 1e-8

#: The largest scale that a fit may have, in spreads of the public data.
_WIDEST: Final = 1e3


def fit_public(
    sample: PublicData,
    *,
    levels: LevelLike | Sequence[LevelLike],
    size: int,
    granularity: float | None = None,
    hedge_weight: float = HEDGE_WEIGHT,
    fallback: Prior | None = None,
    seed: str = "",
) -> list[Prior]:
    """Fit one prior per level to public data, for a private data set of about `size` records.

    Each is a Laplace prior, fitted (a convex problem) to where the quantile of `size` records of the public population
    falls, and mixed with a robust prior that holds when the private population is another one.

    Accuracy: the better the public data, the fewer ranks; with `hedge_weight` w at most (2Δ/ε) log(1/w) ranks worse
    than `fallback` alone, however wrong the public data is, and (2Δ/ε) log(1/(1-w)) worse than the plain fit where it
    is right. w = 0.5 was chosen on generated populations: it gives up little where the public data is right and most of
    the harm where it is wrong. 0.1 is for public data that can be trusted; 0 leaves the mixing to you (and warns).

    Args:
        sample: The public data.
        levels: The levels of the quantiles.
        size: A public guess of the number of private records, which itself is private.
        granularity: The step on which values lie, needed when they are tied.
        hedge_weight: w.
        fallback: The robust prior; by default the Cauchy with the median and the quartiles of the public data.
        seed: A public text that names the shuffle of the public rows.

    Returns:
        One prior for each level.

    >>> sample = PublicData(range(1000), "the numbers below 1000")
    >>> priors = fit_public(sample, levels=[0.25, 0.5], size=100)
    >>> [bool(abs(prior.priors[0].location - centre) < 10) for prior, centre in zip(priors, (250, 500))]
    [True, True]
    """
    check_public(sample)
    check_size(size)
    if not 0 <= hedge_weight < 1:
        raise RangeError(f"hedge_weight must lie in [0, 1), got {hedge_weight}; it is the share of the robust prior")
    read = exact_levels(levels)
    _check_rows(sample, read)
    step = None if granularity is None else positive(granularity, name="granularity")
    centre, spread = _population(sample, step, read)
    fit = _fit(sample, read, size=size, step=step, spread=spread, seed=seed)
    origin = sample.origin
    fitted = [
        Laplace(location, scale, origin=origin)
        for location, scale in zip(fit.location.tolist(), fit.scale.tolist(), strict=True)
    ]
    if hedge_weight == 0:
        return list(fitted)
    robust = Cauchy(centre, spread / 2, origin=origin) if fallback is None else own_prior(fallback, what="fallback")
    return [hedge(prior, with_=robust, weight=hedge_weight) for prior in fitted]


def _check_rows(sample: PublicData, levels: Sequence[Fraction]) -> None:
    wanted = max(2, max(-(-1 // min(level, 1 - level)) for level in levels))
    rows = len(sample.values())
    if rows < wanted:
        outermost = min(levels, key=lambda level: min(level, 1 - level))
        raise RangeError(
            f"level {float(outermost):g} needs at least {wanted} public rows, got {rows}; use a guess such as "
            "sl.priors.Cauchy(location, scale), or fewer extreme levels"
        )


def _population(sample: PublicData, step: float | None, levels: Sequence[Fraction]) -> tuple[float, float]:
    """Return the median and the spread of the public data: the interquartile range, or more where that is tied."""
    low, quarter, centre, three_quarters, high = np.quantile(sample.values(), [0, 0.25, 0.5, 0.75, 1]).tolist()
    spread = three_quarters - quarter or high - low
    if step is None and not spread > 0:
        raise tied(float(levels[0]))
    return centre, max(spread, step or 0.0)


def _fit(
    sample: PublicData, levels: Sequence[Fraction], *, size: int, step: float | None, spread: float, seed: str
) -> LaplaceFit:
    finest = _FINEST_SHARE * spread if step is None else step
    a, b = public_intervals(sample, levels, size=size, granularity=finest, seed=seed)
    if step is None:
        widths = np.median(b - a, axis=0)
        for level, width in zip(levels, widths.tolist(), strict=True):
            if width <= 2 * finest:
                raise tied(float(level))
    return fit_laplace(a, b, smallest_scale=finest / 2, largest_scale=_WIDEST * spread)


def check_public(sample: object) -> None:
    """Refuse anything that is not declared public."""
    if type(sample) is not PublicData:
        raise RangeError(
            f"this wants sl.PublicData, got {type(sample).__name__}; write sl.PublicData(values, 'where they are "
            "published') if, and only if, these values are public"
        )


def check_size(size: object) -> int:
    """Return the public guess of the number of private records."""
    return whole(size, name="size", advice="a public guess is enough")


def tied(level: float) -> RangeError:
    """Raise: public values without spread need a granularity."""
    return RangeError(
        f"the public values are tied around level {level:g}, so they show no spread; pass granularity=..., the step on "
        "which values lie"
    )


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
