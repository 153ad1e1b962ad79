"""A cumulative mass in pieces on which every component is a floored line, as far as one run looked them up.

Hand-made because a guarantee depends on it: what a lookup remembers would tell where records lie, so it is remembered
in pieces that are made for one run (`fresh`) and end with it, never in those of a compiled prior.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

#: Stands for "no end": beyond every index of every grid.
_NO_END = 1 << 128


class FlooredLine(NamedTuple):
    """A piece of a cumulative mass: its height at start <= j < end is floor((slope * j + offset) / divisor)."""

    start: int
    end: int
    slope: int
    offset: int
    divisor: int

    def at(self, index: int) -> int:
        """Return the height at an index of the piece."""
        return (self.slope * index + self.offset) // self.divisor


class PiecewiseCDF(Protocol):
    """One component of a prior: a non-decreasing integer function of the index, in pieces that are floored lines."""

    @property
    def many(self) -> bool:
        """Return whether pieces are so many that heights are better computed one by one, by `at`."""

    def line(self, index: int) -> FlooredLine:
        """Return the piece that holds an index; every index, beyond the ends of the grid too, has one."""

    def flat_at(self, index: int) -> bool:
        """Return whether many pieces are a few wide ones around an index; asked only where there are many."""

    def at(self, index: int) -> int:
        """Return the height at an index."""


#: What gives a component's height: slope, offset and divisor of a floored line, or a component of many pieces itself.
Height: TypeAlias = tuple[int, int, int] | PiecewiseCDF
#: First index, index behind the last, and what gives each component's height between.
Piece: TypeAlias = tuple[int, int, tuple[Height, ...]]


class Pieces:
    """The pieces on which the components are lines; those of one run are remembered as far as it asked."""

    __slots__ = ("_components", "_known", "_lines", "_starts", "kept")

    def __init__(self, components: Sequence[PiecewiseCDF], *, kept: bool = False) -> None:
        self._components = tuple(components)
        self.kept = kept
        self._lines: list[FlooredLine | PiecewiseCDF] = list(self._components)  # of the piece that was cut last
        self._starts: list[int] = []
        self._known: list[Piece] = []

    def fresh(self) -> Pieces:
        """Return the same pieces, none remembered yet."""
        return Pieces(self._components, kept=True)

    def at(self, index: int) -> Piece:
        """Return the piece that holds an index; a component of many pieces stands for itself."""
        place = bisect_right(self._starts, index)
        if place:
            piece = self._known[place - 1]
            if piece[0] <= index < piece[1]:
                return piece
        lines = [
            line
            if isinstance(line, FlooredLine) and line[0] <= index < line[1]
            else (part if part.many and not part.flat_at(index) else part.line(index))
            for part, line in zip(self._components, self._lines, strict=True)
        ]
        piece = _cut(lines)
        if self.kept:
            self._lines = lines
            self._known.insert(place, piece)
            self._starts.insert(place, piece[0])
        return piece

    def all_lines_at(self, index: int) -> Piece:
        """Return the piece that holds an index, all components being lines."""
        start, end, heights = piece = self.at(index)
        if all(isinstance(each, tuple) for each in heights):
            return piece
        lines = [FlooredLine(start, end, *each) if isinstance(each, tuple) else each.line(index) for each in heights]
        return _cut(lines)


def _cut(heights: Sequence[FlooredLine | PiecewiseCDF]) -> Piece:
    """Return the piece on which all of some lines hold; components of many pieces hold everywhere."""
    start, end = -_NO_END, _NO_END
    for each in heights:
        if isinstance(each, FlooredLine):  # compared in place: a call takes longer
            start, end = each[0] if each[0] > start else start, each[1] if each[1] < end else end
    return start, end, tuple([each[2:] if isinstance(each, FlooredLine) else each for each in heights])


def heights_at(piece: Piece, index: int) -> list[int]:
    """Return the height of each component at an index of a piece."""
    return [(each[0] * index + each[1]) // each[2] if isinstance(each, tuple) else each.at(index) for each in piece[2]]
