"""The public lattices of outcomes on which ranks are counted and quantiles are released.

A grid is public: it never depends on the data. On a `Grid` of step h record x has code floor(x/h), or floor(x/h + 1/2)
for data declared on a granularity h; on a `FloatGrid` it has the leading bits of its own floating-point pattern, so
that the step is relative to the value and no bound, however wide, makes it coarse. Codes are clamped to [first, last].
Below each code lie 2**dither_bits fine indices: a record takes one of them at random, which spreads ties (quantiles
proof page, section 1.5); a released fine index drops these bits again.
"""

from __future__ import annotations

import math
import struct
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from sidelight.errors import RangeError

#: Codes live in int64, and so do their differences. Nanoseconds since 1970 reach 2**61 in the year 2043. Beyond it
#: records are clamped where no bounds are declared, and declared bounds are refused.
CODE_LIMIT = 2**61
#: A step is between 1 over this and this, so that neither 2**61 steps nor their reciprocals leave the floats.
STEP_LIMIT = Fraction(2) ** 900
#: Bits of the pattern of a double that a code of a `FloatGrid` drops: 52 - 4 = 48 bits of mantissa stay.
DROPPED_BITS = 4
MANTISSA_BITS = 52 - DROPPED_BITS
#: The code of the largest double; that of the most negative one would be the pattern of minus infinity.
FLOAT_CODE_LIMIT = 0x7FEFFFFFFFFFFFFF >> DROPPED_BITS


class Stretch(NamedTuple):
    """Indices start <= j < end whose positions lie on one line: position(j) = (slope * j + offset) / divisor."""

    start: int
    end: int
    slope: int
    offset: int
    divisor: int


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
        if not 1 / STEP_LIMIT <= self.resolution <= STEP_LIMIT:
            raise RangeError(
                "the step of a grid (granularity or resolution) must lie between 2**-900 and 2**900, about 1e-270 and "
                "1e270; change the unit of the column"
            )
        if not -CODE_LIMIT <= self.first <= self.last <= CODE_LIMIT:
            raise RangeError(
                f"grid codes must satisfy -2**61 <= first <= last <= 2**61, got first={self.first}, last={self.last}; "
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

    @cached_property
    def line(self) -> Stretch:
        """The positions of all indices: records x in code c have their fine indices in [c, c+1) * 2**s.

        With snap="nearest" the records of code c are those of [(c - 1/2) h, (c + 1/2) h), hence the half step.
        """
        p, q = self.resolution.numerator, self.resolution.denominator
        shift = int(2 * self.half_step) << self.dither_bits
        return Stretch(self.fine_first, self.fine_last + 1, 2 * p, -shift * p, 2 * q << self.dither_bits)

    def stretch(self, index: int) -> Stretch:
        """Return the line on which the position of an index lies: all are on one."""
        return self.line

    def value(self, index: int) -> float:
        """Return the released value of an outcome index, correctly rounded to a float."""
        # a quotient of two integers is rounded correctly, and much quicker than by way of a Fraction
        return (index >> self.dither_bits) * self.resolution.numerator / self.resolution.denominator

    def reach(self, index: int) -> float:
        """Return how far the cell of an outcome index reaches: its value. It never falls as the index grows."""
        return self.value(index)

    def index_of(self, value: float) -> int:
        """Return the first outcome index of the cell that holds a public value, clamped to the grid."""
        above, below = float(value).as_integer_ratio()
        above, below = above * self.resolution.denominator, below * self.resolution.numerator
        code = above // below if self.snap == "floor" else (2 * above + below) // (2 * below)
        return min(max(code, self.first), self.last) << self.dither_bits


@dataclass(frozen=True, kw_only=True)
class FloatGrid:
    """All doubles of lowest..highest with 48 bits of mantissa: a relative step of 2**-48 whatever the bounds.

    The code of x >= 0 is the pattern of x as an integer without its last four bits; negative numbers are mirrored and
    rounded away from zero. Codes do not decrease in x, and the number of records below the least double of a code is
    the number of smaller codes, exactly (quantiles proof page, section 1.6). Outcome index j stands for the shortest
    decimal among the doubles of code floor(j / 2**dither_bits) that lie within the bounds.

    >>> grid = FloatGrid(lowest=0.0, highest=1e9)
    >>> grid.value(grid.index_of(0.1)), grid.value(grid.index_of(37.0)), grid.value(grid.index_of(5e12))
    (0.1, 37.0, 1000000000.0)
    """

    lowest: float = -sys.float_info.max
    highest: float = sys.float_info.max
    dither_bits: int = 20

    def __post_init__(self) -> None:
        if not -math.inf < self.lowest <= self.highest < math.inf:
            raise RangeError(
                f"a grid of floats needs finite bounds, lowest <= highest, got {self.lowest} and {self.highest}; leave "
                "out what is not known"
            )
        if self.highest < -_double(FLOAT_CODE_LIMIT << DROPPED_BITS):
            raise RangeError("a grid of floats below -1.797e308 holds no number; declare a larger upper bound")
        if not 0 <= self.dither_bits <= 40:
            raise RangeError(f"dither_bits must lie in 0..40, got {self.dither_bits}")

    @cached_property
    def first(self) -> int:
        """The code of the lower bound."""
        return float_code(self.lowest)

    @cached_property
    def last(self) -> int:
        """The code of the upper bound."""
        return float_code(self.highest)

    @property
    def fine_first(self) -> int:
        """The smallest outcome index."""
        return self.first << self.dither_bits

    @property
    def fine_last(self) -> int:
        """The largest outcome index."""
        return ((self.last + 1) << self.dither_bits) - 1

    def stretch(self, index: int) -> Stretch:
        """Return the line on which the position of an index lies: positions are linear within a power of two.

        X(j) = least double of the code + (dither share) * (distance to the next code), X(-j) = -X(j). With B = 48 + s
        bits of an index to a power of two and E = j >> B: X(j) = (j - (E-1) 2**B) 2**(E - 1071 - s) for E >= 1, and
        the numbers below the smallest normal one (E = 0) lie on the line of E = 1.
        """
        bits = MANTISSA_BITS + self.dither_bits
        negative = index < 0
        octave = (-index - 1 if negative else index) >> bits
        start, end = (octave << bits, (octave + 1) << bits) if octave > 1 else (0, 2 << bits)
        base = max(octave, 1)
        offset = -(base - 1) << bits
        if negative:
            start, end, offset = -end, -start, -offset
        exponent = base - 1071 - self.dither_bits
        if exponent >= 0:
            return Stretch(start, end, 1 << exponent, offset << exponent, 1)
        return Stretch(start, end, 1, offset, 1 << -exponent)

    def value(self, index: int) -> float:
        """Return the released value of an outcome index: of the doubles of its code, the one with the fewest digits.

        A function of the integer alone. A record with at most 14 significant digits whose code is released comes back
        digit by digit.
        """
        code = index >> self.dither_bits
        top = (abs(code) << DROPPED_BITS) + (0 if code < 0 else (1 << DROPPED_BITS) - 1)
        patterns = range(max(top - (1 << DROPPED_BITS) + 1, 0), top + 1)
        least, most = (-self.highest, -self.lowest) if code < 0 else (self.lowest, self.highest)
        sizes = [x for x in (_double(pattern) for pattern in (patterns[0], patterns[-1])) if least <= x <= most]
        if len(sizes) < 2 or sizes[0] < _SMALL:  # a code at a bound, or among the numbers below the normal ones
            sizes = [x for x in map(_double, patterns) if least <= x <= most]
            found = min(sizes, key=lambda x: (digits_of(x), x))
        else:
            found = _shortest(sizes[0], sizes[1], patterns)
        return (-found if code < 0 else found) + 0.0

    def reach(self, index: int) -> float:
        """Return how far the cell of an outcome index of at least 0 reaches: its largest double. Quicker than `value`.

        It never falls as the index grows, and is not below the value.

        >>> grid = FloatGrid(lowest=0.0)
        >>> 0.1 <= grid.reach(grid.index_of(0.1)) < 0.1 * (1 + 2**-47)
        True
        """
        code = max(index >> self.dither_bits, 0)
        return min(_double((code << DROPPED_BITS) + (1 << DROPPED_BITS) - 1), self.highest)

    def index_of(self, value: float) -> int:
        """Return the first outcome index of the code that holds a public value, clamped to the grid."""
        return min(max(float_code(value), self.first), self.last) << self.dither_bits


#: A public set of outcomes.
Outcomes: TypeAlias = Grid | FloatGrid


def exact_position(grid: Outcomes, index: int) -> Fraction:
    """Return where a fine index lies on the number line.

    >>> exact_position(Grid(resolution=Fraction(1, 2), dither_bits=1), 5)
    Fraction(5, 4)
    """
    stretch = grid.stretch(index)
    return Fraction(stretch.slope * index + stretch.offset, stretch.divisor)


def float_code(value: float) -> int:
    """Return the code of a double on an unbounded `FloatGrid`; infinities have those of the ends.

    >>> float_code(0.0) == float_code(-0.0) == float_code(5e-324) == 0
    True
    >>> float_code(-5e-324)
    -1
    """
    pattern: int = _AS_INTEGER.unpack(_AS_DOUBLE.pack(abs(value)))[0]
    code = -(-pattern >> DROPPED_BITS) if value < 0 else pattern >> DROPPED_BITS
    code = min(code, FLOAT_CODE_LIMIT)
    return -code if value < 0 else code


def least_double(code: int) -> float:
    """Return the least double of a code on an unbounded `FloatGrid`; infinity beyond the last code.

    >>> least_double(float_code(0.1)) <= 0.1 < least_double(float_code(0.1) + 1)
    True
    """
    value = _double(min(abs(code), FLOAT_CODE_LIMIT + 1) << DROPPED_BITS)
    return -value if code < 0 else value


_AS_INTEGER, _AS_DOUBLE = struct.Struct("<q"), struct.Struct("<d")


def _double(pattern: int) -> float:
    value: float = _AS_DOUBLE.unpack(_AS_INTEGER.pack(pattern))[0]
    return value


#: From here on a double tells all decimals of 15 digits apart, and so do its neighbours.
_SMALL = 1e-290


def _shortest(least: float, most: float, patterns: range) -> float:
    """Return the double with the fewest digits, and of these the smallest, of a code from least to most.

    Two decimals of 14 digits are further apart than a code is wide: if there is one, shorter ones are the same. Of
    those of 15 digits the smallest is the first that is not below `least`. Of the rest the first with 16 digits counts.
    """
    for digits in (14, 15):
        text = f"{least:.{digits - 1}e}"
        found = float(text)
        if found < least:  # rounded down: one step up
            mantissa, exponent = text.split("e")
            found = float(f"{int(mantissa.replace('.', '')) + 1}e{int(exponent) - digits + 1}")
        if least <= found <= most:
            return found
    return next((x for x in map(_double, patterns) if digits_of(x) == 16), least)


def digits_of(value: float) -> int:
    """Return the number of significant digits of the shortest decimal that reads back as this double."""
    return len(repr(value).partition("e")[0].replace(".", "").replace("-", "").strip("0"))
