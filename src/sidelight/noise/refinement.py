"""Noise that turns fine discrete Laplace noise into coarse one, so that taking it away again refines a release.

Lap(e_2) + Z ~ Lap(e_1) with Z independent of the first term (quantiles proof page, Theorem 7). A count released with
both costs e_1; the same count with the first alone, afterwards, costs e_2 in all and not e_1 + e_2, because the first
release is then the second one with noise that knows nothing of the data. The ratio e_2 = 3 e_1 makes Z exact in
integers: its one coin is a residue of a geometric number.
"""

from __future__ import annotations

from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.noise.enclosures import EXPONENTIAL
from sidelight.noise.integers_and_coins import check_size
from sidelight.noise.scales import exact_scale, fixed_point, scaled_floor
from sidelight.noise.source import Source
from sidelight.noise.strips import CHUNK, draw

#: How many times the epsilon of the first release the refined one has. Exactly: any other ratio needs another coin.
REFINEMENT_RATIO = 3


def geometric(size: int, scale: Rational, source: Source) -> NDArray[Any]:
    """Return `size` independent integers with P(k) = (1-a) · a^k for k >= 0, a = exp(-1/scale).

    Guarantee: exact: the floor of scale · X for an exponential variate X (noise proof page, Theorem 3).

    Returns:
        int64; Python integers (dtype object) if the scale is beyond about 2**49.

    >>> from fractions import Fraction
    >>> from sidelight.noise import OSEntropy, Source
    >>> with Source(OSEntropy()) as source:
    ...     bool((geometric(100, Fraction(3), source) >= 0).all())
    True
    """
    check_size(size)
    prepared = [fixed_point(exact_scale(scale), EXPONENTIAL.digits)]
    out = np.zeros(size, np.int64 if prepared[0].fast else object)
    for start in range(0, size, CHUNK):
        part = out[start : start + CHUNK]
        draws = draw(EXPONENTIAL, part.size, source)
        floors = scaled_floor(EXPONENTIAL, draws, prepared, None, source, halves=0)
        # beyond int64 with probability below 2^-5900, and only where the scale says int64
        part[:] = floors if part.dtype == object else np.minimum(floors, 2**62)
    return out


def refinement_noise(size: int, scale: Rational, source: Source) -> NDArray[Any]:
    """Return `size` integers Z such that discrete Laplace noise of a third of this scale, plus Z, has this scale.

    Guarantee: exact (quantiles proof page, Theorem 7). Z = G - G' with G = 0 if a geometric number of this scale is a
    multiple of three, which has probability 1/(1 + a + a²) = (1-a)/(1-a³), and else 1 + another geometric number.

    >>> from fractions import Fraction
    >>> from sidelight.noise import OSEntropy, Source
    >>> with Source(OSEntropy()) as source:
    ...     refinement_noise(5, Fraction(30), source).shape
    (5,)
    """
    return np.asarray(_one_side(size, scale, source) - _one_side(size, scale, source))


def _one_side(size: int, scale: Rational, source: Source) -> NDArray[Any]:
    nothing = geometric(size, scale, source) % REFINEMENT_RATIO == 0
    more = 1 + geometric(size, scale, source)
    return np.where(nothing, 0 * more, more)
