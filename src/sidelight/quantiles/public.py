"""`fit_public`: predict the quantiles of a private data set from public data, one prior for each level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, nearest
from sidelight.predictions import Cauchy, Laplace, Prior, PublicData, hedge, own_prior
from sidelight.predictions.learning.laplace_fit import (
    LaplaceFit,
    fit_laplace,
    fit_laplace_averaged,
    fit_laplace_online,
)
from sidelight.predictions.learning.public_intervals import public_intervals
from sidelight.predictions.priors import positive
from sidelight.quantiles.tree import LevelLike, exact_levels

Solver = Literal["average", "cocob", "descent"]
_SOLVERS: Final = ("average", "cocob", "descent")

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
    solver: Solver = "average",
    seed: str = "",
) -> list[Prior]:
    """Fit one prior per level to public data, for a private data set of about `size` records.

    Each is a Laplace prior, fitted (a convex problem) to where the quantile of `size` records of the public population
    falls, and mixed with a robust prior that holds when the private population is another one.

    Accuracy: the better the public data, the fewer ranks; with `hedge_weight` w at most (2Δ/ε) log(1/w) ranks worse
    than `fallback` alone, however wrong the public data is, and (2Δ/ε) log(1/(1-w)) worse than the plain fit where it
    is right. w = 0.5 was chosen on generated populations: it gives up little where the public data is right and most of
    the harm where it is wrong. 0.1 is for public data that can be trusted; 0 leaves the mixing to you (and warns).

    Arguments: `size` is a public guess (the true number of private records is private). `granularity` is the step on
    which values lie, needed when they are tied. `fallback` defaults to the Cauchy prior with the median and the
    quartiles of the public data. `solver`: "average" solves the whole problem; "cocob" and "descent" make the
    one pass of the paper, for comparison. `seed` is a public text that names the shuffle of the public rows.

    >>> sample = PublicData(range(1000), "the numbers below 1000")
    >>> priors = fit_public(sample, levels=[0.25, 0.5], size=100)
    >>> [bool(abs(prior.priors[0].location - centre) < 10) for prior, centre in zip(priors, (250, 500))]
    [True, True]
    """
    check_public(sample)
    check_size(size)
    if solver not in _SOLVERS:
        raise RangeError(f"no solver is called {solver!r}; {nearest(str(solver), _SOLVERS)}")
    if not 0 <= hedge_weight < 1:
        raise RangeError(f"hedge_weight must lie in [0, 1), got {hedge_weight}; it is the share of the robust prior")
    read = exact_levels(levels)
    _check_rows(sample, read)
    step = None if granularity is None else positive(granularity, name="granularity")
    centre, spread = _population(sample, step, read)
    fit = _fit(sample, read, size=size, step=step, centre=centre, spread=spread, solver=solver, seed=seed)
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
    sample: PublicData,
    levels: Sequence[Fraction],
    *,
    size: int,
    step: float | None,
    centre: float,
    spread: float,
    solver: Solver,
    seed: str,
) -> LaplaceFit:
    finest = _FINEST_SHARE * spread if step is None else step
    a, b = public_intervals(sample, levels, size=size, granularity=finest, seed=seed)
    if step is None:
        widths = np.median(b - a, axis=0)
        for level, width in zip(levels, widths.tolist(), strict=True):
            if width <= 2 * finest:
                raise tied(float(level))
    smallest, largest = finest / 2, _WIDEST * spread
    if solver == "average":
        return fit_laplace(a, b, smallest_scale=smallest, largest_scale=largest)
    guess = {"location": centre, "scale": spread / 2}
    if solver == "cocob":
        return fit_laplace_online(a, b, **guess, smallest_scale=smallest, largest_scale=largest)
    # Its steps are as long as these bounds are far apart, so they are kept near the spread.
    return fit_laplace_averaged(
        a, b, **guess, smallest_scale=max(smallest, spread / 50), largest_scale=max(2 * smallest, 10 * spread)
    )


# What public data gives without fitting anything: its own quantiles, alone or as the centres of Cauchy priors.


def public_quantiles(sample: PublicData, *, levels: LevelLike | Sequence[LevelLike]) -> NDArray[np.float64]:
    """Return the quantiles of the public data themselves: they cost nothing and never look at the private data.

    Accuracy: as good as the two populations are alike; no budget makes it better. Publish them as what they are.
    """
    check_public(sample)
    return np.asarray(np.quantile(sample.values(), [float(level) for level in exact_levels(levels)]))


def public_cauchy(
    sample: PublicData,
    *,
    levels: LevelLike | Sequence[LevelLike],
    scale: float | None = None,
    size: int | None = None,
) -> list[Cauchy]:
    """Return Cauchy priors centred on the public quantiles.

    `scale` is a guess of how far the private quantiles lie from the public ones. With `size` instead (a public guess of
    the number of private records) it is the spread that so many records of the same population show, read off the
    public data: sqrt(q(1-q)(1/size + 1/N)) in probability.

    >>> sample = PublicData(range(1001), "the numbers to 1000")
    >>> [prior.location for prior in public_cauchy(sample, levels=[0.25, 0.5], scale=10)]
    [250.0, 500.0]
    """
    check_public(sample)
    if (scale is None) == (size is None):
        raise RangeError("public_cauchy wants either scale=... (a guess) or size=... (read the spread off the data)")
    origin = sample.origin
    read = [float(level) for level in exact_levels(levels)]
    centres = np.quantile(sample.values(), read).tolist()
    if scale is not None:
        return [Cauchy(centre, scale, origin=origin) for centre in centres]
    priors = []
    for level, centre in zip(read, centres, strict=True):
        spread = math.sqrt(level * (1 - level) * (1 / check_size(size) + 1 / len(sample.values())))
        low, high = np.quantile(sample.values(), [max(level - spread, 0), min(level + spread, 1)]).tolist()
        if not high > low:
            raise tied(level)
        priors.append(Cauchy(centre, (high - low) / 2, origin=origin))
    return priors


def check_public(sample: object) -> None:
    """Refuse anything that nobody has declared public."""
    if type(sample) is not PublicData:
        raise RangeError(
            f"this wants sl.PublicData, got {type(sample).__name__}; write sl.PublicData(values, 'where they are "
            "published') if, and only if, these values are public"
        )


def check_size(size: object) -> int:
    """Return the public guess of the number of private records."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise RangeError(f"size must be a whole number of at least 1, got {size!r}; a public guess is enough")
    return size


def tied(level: float) -> RangeError:
    """Raise: public values without spread need a granularity."""
    return RangeError(
        f"the public values are tied around level {level:g}, so they show no spread; pass granularity=..., the step on "
        "which values lie"
    )
