"""What public data gives without fitting anything: its own quantiles, alone or as the centres of Cauchy priors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.predictions import Cauchy, PublicData
from sidelight.quantiles.public import check_public, check_size, tied
from sidelight.quantiles.tree import LevelLike, exact_levels


def public_quantiles(sample: PublicData, *, levels: LevelLike | Sequence[LevelLike]) -> NDArray[np.float64]:
    """Return the quantiles of the public data themselves: they cost nothing and never look at the private data.

    Accuracy: as good as the two populations are alike; no budget makes it better. Publish them as public quantiles.
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
    the number of private records) it is the spread of samples of that size from the same population, read off the
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
