"""A prior as exact integer masses on the fine indices of a grid: what the sampler sees.

Hand-made because a guarantee depends on it: the mass of an outcome must be a positive function of that outcome alone,
and floats are neither. C(j), the mass below index j, is a public, strictly increasing integer function with
C(j+1) - C(j) >= 1, so every outcome is possible whatever the data (quantiles proof page, section 1.4).

Nothing is tabulated: knots are evaluated when a lookup first meets them and then remembered, so that compiling costs
microseconds however large the grid is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sidelight.mechanisms.adapted import Adaptation, Conditional, Edge, adapt

#: The mass that a prior spreads, on top of the single unit that every index has.
UNIT_BITS = 128
UNIT = 1 << UNIT_BITS


class Staircase(Protocol):
    """One component of a prior: a non-decreasing integer function of the index, linear between its own knots.

    place(0) is the first index, place(cells) one beyond the last; height(0) = 0 and height(cells) is the whole mass.
    """

    @property
    def cells(self) -> int:
        """Return the number of cells between knots."""
        ...

    def place(self, k: int) -> int:
        """Return the index of knot k; strictly increasing."""
        ...

    def height(self, k: int) -> int:
        """Return the mass below knot k; non-decreasing."""
        ...

    def find(self, index: int) -> int:
        """Return the cell k with place(k) <= index < place(k+1)."""
        ...


class CompiledPrior:
    """C(j) = (j - first) + sum of the components' masses below j at the union of their knots, linear in between.

    Guarantee: C depends on j alone, strictly increases, and `inverse` is its exact inverse: for every position below
    `total`, C(inverse(position)) <= position < C(inverse(position) + 1).
    """

    __slots__ = ("_at", "_cells", "_components", "_recent", "first", "last", "total")

    def __init__(self, first: int, last: int, components: Sequence[Staircase]) -> None:
        self.first = first
        self.last = last
        self._components = tuple(components)
        self._at: dict[int, int] = {}
        self._cells: dict[object, tuple[int, int, int, int]] = {}
        self.total = (last + 1 - first) + sum(part.height(part.cells) for part in self._components)
        self._recent = (first, 0, 0, 0)
        self._at[first] = 0
        self._at[last + 1] = self.total

    def cumulative(self, index: int) -> int:
        """Return C(index), the mass of all outcomes below it; clamped beyond the ends."""
        if index <= self.first:
            return 0
        if index > self.last:
            return self.total
        start, width, below, mass = self._recent
        if not 0 <= index - start < width:  # the records around a quantile mostly lie in one cell
            start, width, below, mass = self._recent = self._cell(index)
        return below + mass * (index - start) // width

    def inverse(self, position: int) -> int:
        """Return the index j with C(j) <= position < C(j+1), for 0 <= position < total."""
        low, high = self.first, self.last + 1
        for part in self._components:
            # Narrow to two neighbouring knots of this component; knots outside (low, high) cannot be met any more.
            k, end = part.find(low), part.find(high - 1) + 1
            while end - k > 1:
                middle = (k + end) // 2
                if self._at_knot(part.place(middle)) <= position:
                    k = middle
                else:
                    end = middle
            low, high = max(low, part.place(k)), min(high, part.place(end))
        below = self._at_knot(low)
        width, mass = high - low, self._at_knot(high) - below
        return low - (-(position - below + 1) * width // mass) - 1

    def adapted(self, first: int, last: int, adaptation: Adaptation) -> Conditional | Edge:
        """Return the prior of a tree node whose outcomes are first..last."""
        return adapt(self, first, last, adaptation)

    def _cell(self, index: int) -> tuple[int, int, int, int]:
        """Return start, width, mass below and mass of the cell of the union of knots that holds the index."""
        components = self._components
        key: object
        if len(components) == 1:
            key = k = components[0].find(index)
            found = self._cells.get(key)
            if found is None:
                start, end = components[0].place(k), components[0].place(k + 1)
                found = self._remember(key, start, end)
            return found
        cells = [part.find(index) for part in components]
        key = tuple(cells)
        found = self._cells.get(key)
        if found is None:
            start = max(part.place(k) for part, k in zip(components, cells, strict=True))
            end = min(part.place(k + 1) for part, k in zip(components, cells, strict=True))
            found = self._remember(key, start, end)
        return found

    def _remember(self, key: object, start: int, end: int) -> tuple[int, int, int, int]:
        below = self._at_knot(start)
        cell = self._cells[key] = (start, end - start, below, self._at_knot(end) - below)
        return cell

    def _at_knot(self, index: int) -> int:
        """Return C at a knot of the union, each component interpolated between its OWN knots.

        A component is never evaluated at a foreign knot: such a knot can lie one index from an own one, closer than the
        rounding of its distribution function, and the masses could turn negative.
        """
        known = self._at.get(index)
        if known is None:
            known = index - self.first
            for part in self._components:
                k = part.find(index)
                start, height = part.place(k), part.height(k)
                if index == start:
                    known += height
                else:
                    rise = part.height(k + 1) - height
                    known += height + rise * (index - start) // (part.place(k + 1) - start)
            self._at[index] = known
        return known

    def __repr__(self) -> str:
        return f"CompiledPrior(first={self.first}, last={self.last}, components={len(self._components)})"
