"""The public lattice of outcomes on which ranks are counted and quantiles are released.

A grid is public: it never depends on the data. Record x has code floor(x/h) (continuous data) or floor(x/h + 1/2)
(data declared on a granularity h), clamped to [first, last]. Below each code lie 2**dither_bits fine indices: a record
takes one of them at random, which spreads ties (spec: dithering); a released fine index drops these bits again.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sidelight.errors import RangeError

#: Codes live in int64 with room to spare; 2**60 steps either way is "unbounded" for every practical resolution.
CODE_LIMIT = 2**60


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Outcome index j stands for the value floor(j / 2**dither_bits) * resolution.

    >>> grid = Grid(resolution=Fraction(1, 10), first=0, last=1000, dither_bits=20, snap="nearest")
    >>> grid.value(grid.fine_first + 3 * 2**20)
    0.3
    """

    resolution: Fraction
    first: int = -CODE_LIMIT
    last: int = CODE_LIMIT
    dither_bits: int = 20
    snap: Literal["floor", "nearest"] = "floor"

    def __post_init__(self) -> None:
        if self.resolution <= 0:
            raise RangeError(f"resolution must be positive, got {self.resolution}; declare the data's granularity")
        if not -CODE_LIMIT <= self.first <= self.last <= CODE_LIMIT:
            raise RangeError(
                f"grid codes must satisfy -2**60 <= first <= last <= 2**60, got first={self.first}, last={self.last}; "
                "use a coarser resolution or narrower bounds"
            )
        if not 0 <= self.dither_bits <= 40:
            raise RangeError(f"dither_bits must lie in 0..40, got {self.dither_bits}")

    @property
    def fine_first(self) -> int:
        """The smallest outcome index."""
        return self.first << self.dither_bits

    @property
    def fine_last(self) -> int:
        """The largest outcome index."""
        return ((self.last + 1) << self.dither_bits) - 1

    @property
    def half_step(self) -> float:
        """What is added to x/h before the floor: only floor is the same on every engine."""
        return 0.5 if self.snap == "nearest" else 0.0

    def value(self, index: int) -> float:
        """Return the released value of an outcome index, correctly rounded to a float."""
        return float((index >> self.dither_bits) * self.resolution)

    def index_of(self, value: float) -> int:
        """Return the first outcome index of the cell that holds a public value, clamped to the grid."""
        code = (Fraction(value) / self.resolution + Fraction(self.half_step)).__floor__()
        return min(max(code, self.first), self.last) << self.dither_bits
