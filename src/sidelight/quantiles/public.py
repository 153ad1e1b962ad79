"""Predict quantiles from public data: one Cauchy prior for each level."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sidelight.errors import RangeError
from sidelight.predictions import Cauchy, PublicSample, public
from sidelight.quantiles.levels import LevelLike, exact_levels


def fit_public(
    sample: PublicSample,
    *,
    levels: LevelLike | Sequence[LevelLike],
    size: int,
    granularity: float | None = None,
) -> list[Cauchy]:
    """Fit one Cauchy prior per level to public data, for a private data set of about `size` records.

    Accuracy: the prior sits at the public quantile; its scale is the spread that a sample of `size` records of the same
    population would show, sqrt(q(1-q)(1/size + 1/N)) in probability, read off the public sample. The tails of the
    Cauchy keep the loss logarithmic where the two populations differ.

    Arguments: `size` is a public guess (the true number of private records is private); `granularity` is the smallest
    meaningful spread, needed when the public values are tied.

    >>> sample = PublicSample(range(1000), "the numbers below 1000")
    >>> [prior.location for prior in fit_public(sample, levels=[0.25, 0.5], size=100)]
    [249.75, 499.5]
    """
    if not isinstance(sample, PublicSample):
        raise RangeError(
            f"fit_public wants a PublicSample, got {type(sample).__name__}; write sl.PublicSample(values, 'where "
            "they are published') if, and only if, these values are public"
        )
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise RangeError(f"size must be a whole number of at least 1, got {size!r}; a public guess is enough")
    smallest = 0.0 if granularity is None else granularity / 2
    origin = public(sample.description)
    priors = []
    for level in (float(level) for level in exact_levels(levels)):
        spread = math.sqrt(level * (1 - level) * (1 / size + 1 / len(sample)))
        low, location, high = np.quantile(
            sample.values, [max(level - spread, 0), level, min(level + spread, 1)]
        ).tolist()
        scale = max((high - low) / 2, smallest)
        if scale <= 0:
            raise RangeError(
                f"the public values are tied around level {level:g}, so they show no spread; pass granularity=..., the "
                "step on which values lie"
            )
        priors.append(Cauchy(location, scale, origin=origin))
    return priors
