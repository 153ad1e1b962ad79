"""From float vectors to integers whose length is bounded exactly, whatever the floats were.

Privacy of a clipped vector rests on the integers alone: after rounding, the sum of squares is computed in integers and
the vector shrunk until it is at most M^2. A NaN, an infinity or a wrong clip upstream cannot exceed it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError

#: More coordinates than this, and the bound on a sum of squares would leave int64.
_MOST_COORDINATES = 2**20


@dataclass(frozen=True, kw_only=True)
class Quantiser:
    """Round vectors of `size` coordinates to multiples of norm_bound / 2^bits, and bound the integers.

    `shape="ball"`: codes have Euclidean length at most `radius`, so any two differ by at most 2 * radius. For a
    sensitivity that comes from clipping. `shape="box"`: each code is clamped, which moves no two vectors further apart.
    For a sensitivity that was proved for the vectors themselves, which shortening and rounding again could exceed.
    """

    size: int
    norm_bound: Fraction
    bits: int = 20
    shape: str = "ball"

    def __post_init__(self) -> None:
        if not 1 <= self.size <= _MOST_COORDINATES:
            raise RangeError(f"size must lie in 1..2**20 coordinates, got {self.size}")
        if not 4 <= self.bits <= 30:
            raise RangeError(f"gradient_bits must lie in 4..30, got {self.bits}")
        if not Fraction(2) ** -500 < self.norm_bound < Fraction(2) ** 500:
            raise RangeError(f"norm_bound must lie between 2**-500 and 2**500, got {float(self.norm_bound):.3g}")

    @property
    def quantum(self) -> Fraction:
        """What one integer step stands for."""
        return self.norm_bound / (1 << self.bits)

    @property
    def radius(self) -> int:
        """M = 2^bits + ceil(sqrt(size) / 2): what rounding can add to a vector of length norm_bound is inside."""
        halves = isqrt(self.size)
        return (1 << self.bits) + (halves + (halves * halves < self.size) + 1) // 2

    def codes(self, vector: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the integers; a vector with a NaN or an infinity counts as zero."""
        given = np.asarray(vector, dtype=np.float64)
        if given.shape != (self.size,):
            raise RangeError(f"this stream takes vectors of {self.size} coordinates, got shape {given.shape}")
        if not np.isfinite(given).all():
            return np.zeros(self.size, np.int64)
        limit = float(1 << self.bits)
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.clip(given * float(1 / self.quantum), -(2.0**300), 2.0**300)
        if self.shape == "box":
            edge = self.radius
            return np.clip(np.rint(np.clip(scaled, -2 * limit, 2 * limit)).astype(np.int64), -edge, edge)
        length = float(np.sqrt(scaled @ scaled))
        if length > limit:
            scaled = scaled * (limit / length)
        return _shrunk(np.rint(scaled).astype(np.int64), self.radius)


def _shrunk(codes: NDArray[np.int64], radius: int) -> NDArray[np.int64]:
    """Shorten until the integers obey; truncation makes every entry smaller, so this ends.

    Clipped to length 2^bits and rounded, the codes are shorter than 2^30 + 2^9 + 1, and their square fits int64.
    """
    while (square := int(codes @ codes)) > radius * radius:
        codes = np.trunc(codes * (radius / square**0.5 * (1 - 2.0**-40))).astype(np.int64)
    return codes
