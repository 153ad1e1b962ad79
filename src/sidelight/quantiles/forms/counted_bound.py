"""How far off values are of which only the cell is known, between counted ones: a bound that assumes nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight.quantiles.forms.count_noise import Terms, linear_bound
from sidelight.release import NO_ASSUMPTION, TailBound

#: The variance that rounding to integers adds to Gaussian noise.
ROUNDING: Final = 1 / 12


def counted_bound(
    counts: NDArray[np.number],
    variance: float,
    cells: NDArray[np.intp],
    levels: Sequence[Fraction],
    *,
    gaussian: bool,
) -> TailBound:
    """Bound the gaps of values that lie in these cells, wherever in them, and wherever the records are.

    A value has at least the records below its cell under it, and at most those and the cell's. Both ranks are known but
    for the noise of sums of counts, whose law is known.

    Args:
        counts: The noisy counts of all cells, in order.
        variance: Of the noise of each; before it was rounded, if it is Gaussian.
        cells: For each level the cell in which its value lies.
        levels: The levels.
        gaussian: Whether the noise is rounded Gaussian noise, not discrete Laplace noise.
    """
    shares = np.array([float(level) for level in levels])
    places = np.arange(len(counts))
    lower, upper = (places < (cells + more)[:, None] for more in (0, 1))
    contrasts = np.concatenate([shares[:, None] - lower, upper - shares[:, None]])
    noise = [contrasts * math.sqrt(variance + (ROUNDING if gaussian else 0.0))]
    none = np.zeros(len(contrasts))
    terms = Terms(
        laplace=() if gaussian else noise,
        gaussian=noise if gaussian else (),
        chance=none,
        selections=np.zeros((len(contrasts), 0)),
        uneven=none,
        rows=np.full(len(contrasts), float(len(contrasts))),
        apart=np.inf,  # an end of a cell lies too far to its own side alone
        sharp=True,
    )
    away = contrasts @ counts
    found, per_log = linear_bound(terms, above=away)
    fixed, slope = ((away + found).reshape(2, -1), per_log.reshape(2, -1))
    return TailBound(
        unit="ranks",
        assumption=NO_ASSUMPTION,
        fixed=tuple(fixed.max(axis=0).tolist()),
        per_log=tuple(slope.max(axis=0).tolist()),
    )
