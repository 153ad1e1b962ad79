"""Piecewise-linear CDFs in integers: knots of a law around a location, listed knots, indices, and whole numbers.

Knots make every prior a histogram, which costs accuracy and nothing else: with the knots used here the logarithm of
the density is off by at most about 0.05 (Cauchy, Laplace) or 0.12 (far tail of the Gaussian), that is 0.1 to 0.25 Δ/ε
ranks. The geometric part has 16 knots to each power of two.

Knots are positions on the number line and never depend on a grid; between them the mass is linear in the position of
an index (`Grid.stretch`), in integers. So two knots inside one index are harmless, and a grid whose step grows with the
value needs nothing special.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cached_property

from sidelight.grid import MANTISSA_BITS, FloatGrid, Outcomes
from sidelight.predictions.compiled import UNIT_BITS
from sidelight.predictions.pieces import FlooredLine

_FRACTION_BITS = 64
_PER_OCTAVE = 16
#: LawKnotss end where every law here has less than 2**-128 left.
_REACH_BITS = 128
#: Whole numbers have point masses up to this power of two, exclusive.
WHOLE_OCTAVES = 24
#: The exponent field of 1.0.
_BIAS = 1023
#: Stands for "no end": beyond every index of every grid.
_NO_END = 1 << 128


def _root(power: int) -> int:
    """Return floor-like 2**(power/16) in fixed point, in integers so that every machine has the same knots."""
    value = 1 << (power + 16 * _FRACTION_BITS)
    for _ in range(4):
        value = math.isqrt(value)
    return value


_ROOTS = tuple(_root(power) for power in range(_PER_OCTAVE))


class StandardLaw:
    """A law with location 0 and scale 1, evaluated at fixed knots.

    Knot i lies i/per_scale scales from the location up to `linear_until` scales, then 16 to each power of two; knot -i
    on the other side. `below(z)` is the mass below z as an integer of 2**128. It is asked only at knots, where a
    library function with a relative error below one in a thousand is monotone (quantiles proof page, section 1.4).
    """

    def __init__(
        self, below: Callable[[float], int], *, per_scale: int, linear_until: int, two_sided: bool = True
    ) -> None:
        self.per_scale, self.linear_until = per_scale, linear_until
        self.last = per_scale * linear_until + _PER_OCTAVE * (_REACH_BITS + 1 - linear_until.bit_length())
        self.first = -self.last if two_sided else 0
        self._below = below

    # Both tables are whole: one that grew by lookups would show afterwards where the records of a release lie.

    @cached_property
    def knots(self) -> tuple[int, ...]:
        """Where each knot lies, from `first` on, in units of 2**-64 scales; strictly increasing."""
        return tuple(self._knot(i) for i in range(self.first, self.last + 1))

    @cached_property
    def heights(self) -> tuple[int, ...]:
        """The mass below each knot, from `first` on."""
        return tuple(self._below(math.ldexp(knot, -_FRACTION_BITS)) for knot in self.knots)

    def _knot(self, i: int) -> int:
        straight = self.per_scale * self.linear_until
        if abs(i) <= straight:
            distance = (abs(i) << _FRACTION_BITS) // self.per_scale
        else:
            octave, step = divmod(abs(i) - straight, _PER_OCTAVE)
            distance = self.linear_until * _ROOTS[step] << octave
        return distance if i >= 0 else -distance

    def find(self, numerator: int, denominator: int) -> int:
        """Return the last knot at or below numerator/denominator scales, or first - 1: a guess, put right exactly."""
        scales = ratio(abs(numerator), denominator)
        if scales <= self.linear_until:
            guess = int(scales * self.per_scale)
        elif scales == math.inf:
            guess = self.last
        else:
            guess = self.per_scale * self.linear_until + int(_PER_OCTAVE * math.log2(scales / self.linear_until))
        i = min(max(guess if numerator >= 0 else -guess - 1, self.first - 1), self.last)
        scaled, knots, first = numerator << _FRACTION_BITS, self.knots, self.first
        while i >= first and knots[i - first] * denominator > scaled:
            i -= 1
        while i < self.last and knots[i + 1 - first] * denominator <= scaled:
            i += 1
        return i


def ratio(numerator: int, denominator: int) -> float:
    """Divide two integers with one correct rounding; infinite where a float ends."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


class _FewPieces:
    """A CDF of few pieces: a height is read off its piece."""

    __slots__ = ()
    many = False

    def flat_at(self, index: int) -> bool:
        """Return True: there are few pieces everywhere."""
        return True

    def line(self, index: int) -> FlooredLine:
        """Return the piece that holds an index."""
        raise NotImplementedError

    def at(self, index: int) -> int:
        """Return the height at an index."""
        return self.line(index).at(index)


class LawKnots(_FewPieces):
    """Knots at location + scale times those of a law, with its mass times weight / 2**128."""

    __slots__ = ("_grid", "_law", "_place", "_slope", "_stretch", "_weight")

    def __init__(self, grid: Outcomes, law: StandardLaw, *, location: Fraction, scale: Fraction, weight: int) -> None:
        self._grid, self._law, self._weight = grid, law, weight
        _ = law.heights  # made now, before any record is seen
        # (x - location) / scale = (x * slope - place) / stretch
        self._slope = location.denominator * scale.denominator
        self._place = location.numerator * scale.denominator
        self._stretch = location.denominator * scale.numerator

    def line(self, index: int) -> FlooredLine:
        """Return the piece that holds an index."""
        start, end, slope, offset, divisor = self._grid.stretch(index)
        # z(j) = (position(j) - location) / scale = (a j + b) / c
        a, b, c = slope * self._slope, offset * self._slope - self._place * divisor, divisor * self._stretch
        law = self._law
        i = law.find(a * index + b, c)
        knots, heights, place = law.knots, law.heights, i - law.first
        low = self._weight * heights[max(place, 0)] >> UNIT_BITS
        below = None if i < law.first else knots[place]
        above = None if i == law.last else knots[place + 1]
        high = low if below is None or above is None else self._weight * heights[place + 1] >> UNIT_BITS
        return piece(start, end, a << _FRACTION_BITS, b << _FRACTION_BITS, c, (below, low), (above, high))


class ListedKnots(_FewPieces):
    """Knots given one by one: positions, in multiples of a step, and the mass below them, both in order."""

    __slots__ = ("_grid", "_heights", "_places", "_unit")

    def __init__(
        self, grid: Outcomes, knots: Iterable[tuple[Fraction | int, int]], *, step: Fraction | int = 1
    ) -> None:
        listed = list(knots)
        self._grid = grid
        whole = math.lcm(*(place.denominator for place, _ in listed))
        self._unit = whole * step.denominator
        self._places = [place.numerator * (whole // place.denominator) * step.numerator for place, _ in listed]
        self._heights = [height for _, height in listed]

    def line(self, index: int) -> FlooredLine:
        """Return the piece that holds an index."""
        start, end, slope, offset, divisor = self._grid.stretch(index)
        a, b = slope * self._unit, offset * self._unit
        # The last knot at or below the index: compared as whole numbers of units, rounded down.
        k = bisect_right(self._places, (a * index + b) // divisor) - 1
        places, heights = self._places, self._heights
        low = heights[max(k, 0)]
        below = None if k < 0 else places[k]
        above = None if k + 1 == len(places) else places[k + 1]
        high = low if below is None or above is None else heights[k + 1]
        return piece(start, end, a, b, divisor, (below, low), (above, high))


class IndexLine(_FewPieces):
    """A mass that is spread evenly over the indices first..end-1 themselves, whatever they stand for."""

    __slots__ = ("_end", "_first", "_weight")

    def __init__(self, first: int, end: int, *, weight: int) -> None:
        self._first, self._end, self._weight = first, end, weight

    def line(self, index: int) -> FlooredLine:
        """Return the piece that holds an index."""
        if index < self._first:
            return FlooredLine(-_NO_END, self._first, 0, 0, 1)
        if index >= self._end:
            return FlooredLine(self._end, _NO_END, 0, self._weight, 1)
        return FlooredLine(self._first, self._end, self._weight, -self._weight * self._first, self._end - self._first)


class WholeNumbers:
    """Point masses on the whole numbers below 2**24 of a grid of floats: equal mass on 0 and on every power of two.

    A column of whole numbers without a declared granularity ties at single codes, which are 2**-48 of a power of two
    and would get nearly nothing of any density.
    """

    __slots__ = ("_bits", "_cells", "_negative", "_weight")

    def __init__(self, grid: FloatGrid, *, weight: int, both_signs: bool) -> None:
        self._bits, self._weight = grid.dither_bits, weight
        self._negative = WHOLE_OCTAVES if both_signs else 0
        self._cells = self._negative + 1 + WHOLE_OCTAVES

    many = True  # two pieces for each whole number

    def flat_at(self, index: int) -> bool:
        """Return whether an index lies between 0 and 1 or -1."""
        code = index >> self._bits
        return code != 0 and abs(code) < _BIAS << MANTISSA_BITS

    def at(self, index: int) -> int:
        """Return the height at an index."""
        code = index >> self._bits
        octave = (abs(code) >> MANTISSA_BITS) - _BIAS
        if code == 0:
            return self.line(index).at(index)
        if octave < 0:  # flat from here on; the line would say the same, and takes three times as long
            return self._height(self._negative + (code > 0))
        if octave >= (WHOLE_OCTAVES if code > 0 else self._negative):
            return self._height(self._cells if code > 0 else 0)
        place, beyond = divmod(abs(code) - (_BIAS + octave << MANTISSA_BITS), 1 << MANTISSA_BITS - octave)
        count = 1 << octave
        if code > 0:
            cell, below = self._negative + 1 + octave, place + (beyond > 0)
        else:
            cell, below = self._negative - 1 - octave, count - 1 - place
        low = self._height(cell)
        part = 0 if beyond else index - (code << self._bits)
        return low + (self._height(cell + 1) - low) * ((below << self._bits) + part) // (count << self._bits)

    def line(self, index: int) -> FlooredLine:
        """Return the piece that holds an index: one number, or the indices between two."""
        code = index >> self._bits
        octave = (abs(code) >> MANTISSA_BITS) - _BIAS
        if code == 0:
            return self._number(code, self._negative, 0, 1)
        if code > 0:
            if octave < 0:
                return self._flat(1, _BIAS << MANTISSA_BITS, self._negative + 1)
            if octave >= WHOLE_OCTAVES:
                return self._flat(_BIAS + WHOLE_OCTAVES << MANTISSA_BITS, _NO_END >> self._bits, self._cells)
        elif octave < 0:
            return self._flat(1 - (_BIAS << MANTISSA_BITS), 0, self._negative)
        elif octave >= self._negative:
            return self._flat(-_NO_END >> self._bits, 1 - (_BIAS + self._negative << MANTISSA_BITS), 0)
        # The numbers of a power of two are `step` codes apart; `at` is the nearest one towards zero.
        step, count = 1 << MANTISSA_BITS - octave, 1 << octave
        place, beyond = divmod(abs(code) - (_BIAS + octave << MANTISSA_BITS), step)
        at = abs(code) - beyond
        if code > 0:
            cell = self._negative + 1 + octave
            if beyond == 0:
                return self._number(code, cell, place, count)
            return self._flat(at + 1, at + step, cell, place + 1, count)
        cell, below = self._negative - 1 - octave, count - 1 - place
        return (
            self._number(code, cell, below, count)
            if beyond == 0
            else self._flat(1 - at - step, -at, cell, below, count)
        )

    def _height(self, cell: int) -> int:
        return self._weight * cell // self._cells

    def _number(self, code: int, cell: int, below: int, count: int) -> FlooredLine:
        """Return the piece of one number, `below` of the `count` numbers of its cell being smaller."""
        low, start, divisor = self._height(cell), code << self._bits, count << self._bits
        rise = self._height(cell + 1) - low
        return FlooredLine(
            start, code + 1 << self._bits, rise, low * divisor + rise * ((below << self._bits) - start), divisor
        )

    def _flat(self, first: int, end: int, cell: int, below: int = 0, count: int = 1) -> FlooredLine:
        low = self._height(cell)
        height = low + (self._height(cell + 1) - low) * below // count if below else low
        return FlooredLine(first << self._bits, end << self._bits, 0, height, 1)


def piece(
    start: int, end: int, a: int, b: int, c: int, below: tuple[int | None, int], above: tuple[int | None, int]
) -> FlooredLine:
    """Return the line between two neighbouring knots, for indices whose place is (a j + b) / c with a, c > 0.

    A knot is its place (None: there is none on this side) and the height there; `start` and `end` limit the indices to
    which a, b, c belong. The height between is low + floor((high - low) (place - below) / (above - below)).
    """
    (left, low), (right, high) = below, above
    from_left = from_right = 0
    if left is not None:
        from_left = b - left * c
        first = -(from_left // a)  # the first index at or beyond the knot
        start = first if first > start else start
    if right is not None:
        from_right = b - right * c
        last = -(from_right // a)
        end = last if last < end else end
    if left is None or right is None or high == low:
        return FlooredLine(start, end, 0, low, 1)
    rise, width = high - low, from_left - from_right
    slope, offset = rise * a, rise * from_left + low * width
    common = slope | offset | width
    twos = (common & -common).bit_length() - 1
    return FlooredLine(start, end, slope >> twos, offset >> twos, width >> twos)
