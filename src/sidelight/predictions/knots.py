"""The two kinds of knots: a ladder in closed form around a location, and a short list.

Knots make every prior a histogram, which costs accuracy and nothing else: with the ladders used here the logarithm of
the density is off by at most about 0.05 (Cauchy, Laplace) or 0.12 (far tail of the Gaussian), that is 0.1 to 0.25 Δ/ε
ranks. The geometric part reaches the ends of any grid in some 16 knots per power of two.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from sidelight.grid import Grid
from sidelight.predictions.compiled import UNIT_BITS
from sidelight.predictions.parameters import fine_length, fine_position

_FRACTION_BITS = 64
_UNIT_FRACTION_BITS = 32
_PER_OCTAVE = 16


def _root(power: int) -> int:
    """Return floor-like 2**(power/16) in fixed point, in integers so that every machine has the same knots."""
    value = 1 << (power + 16 * _FRACTION_BITS)
    for _ in range(4):
        value = math.isqrt(value)
    return value


_ROOTS = tuple(_root(power) for power in range(_PER_OCTAVE))


@dataclass(frozen=True, kw_only=True)
class Rungs:
    """Distances from the location: steps of 1/per_scale up to linear_until scales, then 16 to each power of two."""

    per_scale: int
    linear_until: int

    def distance(self, i: int) -> int:
        """Return rung i >= 0 in units of 2**-64 scales; strictly increasing by at least 1/per_scale."""
        straight = self.per_scale * self.linear_until
        if i <= straight:
            return (i << _FRACTION_BITS) // self.per_scale
        octave, step = divmod(i - straight, _PER_OCTAVE)
        return self.linear_until * _ROOTS[step] << octave

    def nearest(self, scales: float) -> int:
        """Return about the last rung at or below a distance; the caller corrects it by comparing integers."""
        if scales <= self.linear_until:
            return int(scales * self.per_scale)
        if scales == math.inf:
            return self.per_scale * self.linear_until + _PER_OCTAVE * 1024
        return self.per_scale * self.linear_until + int(_PER_OCTAVE * math.log2(scales / self.linear_until))


def ratio(numerator: int, denominator: int) -> float:
    """Divide two integers with one correct rounding; infinite where a float ends."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


class Ladder:
    """Knots location ± scale * rungs, and the mass of a standard law at them.

    `standard(z)` is the mass below z of the law with location 0 and scale 1, as an integer of 2**128. It is asked only
    at knots, which differ by at least half a rung. There a library function with a relative error below one in a
    thousand is monotone, and the heights are (quantiles proof page, section 1.4).
    """

    __slots__ = ("_center", "_end", "_first", "_heights", "_low", "_places", "_rungs", "_standard", "_unit", "_weight",
                 "_z", "cells")  # fmt: skip

    def __init__(
        self,
        grid: Grid,
        *,
        location: Fraction,
        scale: Fraction,
        rungs: Rungs,
        standard: Callable[[float], int],
        weight: int,
        two_sided: bool = True,
    ) -> None:
        position, length = fine_position(grid, location), fine_length(grid, scale)
        self._first, self._end = grid.fine_first, grid.fine_last + 1
        self._center = math.floor(position)
        # A rung is at least one index high: with a scale of a few indices every index near the location is a knot.
        self._unit = max(math.floor(length * (1 << _UNIT_FRACTION_BITS)), rungs.per_scale << _UNIT_FRACTION_BITS)
        # z = (index - position) / length as one division of integers, which Python rounds correctly.
        self._z = (
            position.denominator * length.denominator,
            position.numerator * length.denominator,
            position.denominator * length.numerator,
        )
        self._rungs, self._standard, self._weight = rungs, standard, weight
        self._low = self._first_rung_above(self._first, lowest=None if two_sided else 0)
        high = self._first_rung_above(self._end - 1, lowest=self._low)
        self.cells = high - self._low + 1
        self._places = {0: self._first, self.cells: self._end}
        self._heights = {0: 0, self.cells: weight}

    def place(self, k: int) -> int:
        """Return the index of knot k."""
        place = self._places.get(k)
        if place is None:
            place = self._places[k] = self._rung(self._low + k - 1)
        return place

    def height(self, k: int) -> int:
        """Return the mass below knot k; the end cells take the tails."""
        height = self._heights.get(k)
        if height is None:
            a, b, c = self._z
            mass = self._standard(ratio(self.place(k) * a - b, c))
            height = self._heights[k] = self._weight * mass >> UNIT_BITS
        return height

    def find(self, index: int) -> int:
        """Return the cell that holds an index: a guess in floats, corrected by comparing integers."""
        offset = index - self._center
        scales = ratio(abs(offset) << _UNIT_FRACTION_BITS, self._unit)
        i = self._rungs.nearest(scales)
        k = min(max((i if offset >= 0 else -i - 1) - self._low + 1, 0), self.cells - 1)
        while k > 0 and self.place(k) > index:
            k -= 1
        while k + 1 < self.cells and self.place(k + 1) <= index:
            k += 1
        return k

    def _rung(self, i: int) -> int:
        distance = self._unit * self._rungs.distance(abs(i)) >> _FRACTION_BITS + _UNIT_FRACTION_BITS
        return self._center + distance if i >= 0 else self._center - distance

    def _first_rung_above(self, index: int, *, lowest: int | None) -> int:
        """Return the smallest rung i >= lowest beyond an index, by bisection."""
        reach = self._rungs.per_scale * self._rungs.linear_until + _PER_OCTAVE * (
            abs(index - self._center).bit_length() + 1
        )
        low, high = -reach if lowest is None else lowest, max(reach, lowest or 0)
        while low < high:
            middle = (low + high) // 2
            if self._rung(middle) > index:
                high = middle
            else:
                low = middle + 1
        return low


class ListedKnots:
    """Knots given one by one: a step function of mass with linear pieces."""

    __slots__ = ("_heights", "_places", "cells")

    def __init__(self, grid: Grid, knots: Iterable[tuple[int, int]], *, weight: int) -> None:
        """Take (index, mass below it), both in order; those outside the grid leave their mass in the end cells."""
        first, end = grid.fine_first, grid.fine_last + 1
        spans: dict[int, tuple[int, int]] = {}
        for place, height in knots:
            if first <= place < end:
                spans[place] = (spans.get(place, (height, height))[0], height)
        places, heights = [first], [0]
        for place, (lowest, highest) in spans.items():
            if place > first:
                places.append(place)
                heights.append(lowest)
            # What lies between two knots inside one index is the mass of that index.
            if highest > lowest and place + 1 < end and place + 1 not in spans:
                places.append(place + 1)
                heights.append(highest)
        places.append(end)
        heights.append(weight)
        self._places, self._heights = places, heights
        self.cells = len(places) - 1

    def place(self, k: int) -> int:
        """Return the index of knot k."""
        return self._places[k]

    def height(self, k: int) -> int:
        """Return the mass below knot k."""
        return self._heights[k]

    def find(self, index: int) -> int:
        """Return the cell that holds an index."""
        return min(bisect_right(self._places, index) - 1, self.cells - 1)
