"""The prior of a tree node: the compiled prior seen from a sub-range of the outcomes.

Both views depend on the range and the outcome alone, so they are base measures again; no normalisation is needed, so a
range without prior mass is no special case (quantiles proof page, section 1.4).
"""

from __future__ import annotations

from typing import Literal, Protocol

from sidelight.errors import RangeError

Adaptation = Literal["conditional", "edge"]


class Masses(Protocol):
    """Exact integer masses of outcomes: what the rank selection sees of a prior."""

    @property
    def first(self) -> int:
        """The smallest outcome."""
        ...

    @property
    def last(self) -> int:
        """The largest outcome."""
        ...

    def cumulative(self, index: int) -> int:
        """Return the mass of all outcomes below an index: strictly increasing from first to last + 1."""
        ...

    def inverse(self, position: int) -> int:
        """Return the outcome j with cumulative(j) <= position < cumulative(j + 1)."""
        ...


class Conditional:
    """The prior restricted to first..last: mass outside is forgotten."""

    __slots__ = ("_masses", "first", "last")

    def __init__(self, masses: Masses, first: int, last: int) -> None:
        self._masses = masses
        self.first, self.last = _checked(masses, first, last)

    def cumulative(self, index: int) -> int:
        """Return C(index clamped to the range)."""
        if index < self.first:
            index = self.first
        elif index > self.last:
            index = self.last + 1
        return self._masses.cumulative(index)

    def inverse(self, position: int) -> int:
        """Return the outcome of a position between cumulative(first) and cumulative(last + 1)."""
        return self._masses.inverse(position)


class Edge:
    """The prior with all mass outside first..last moved to the nearer end."""

    __slots__ = ("_end", "_masses", "_second", "_top", "first", "last")

    def __init__(self, masses: Masses, first: int, last: int) -> None:
        self._masses = masses
        self.first, self.last = _checked(masses, first, last)
        self._top = masses.cumulative(masses.last + 1)
        self._second = self.cumulative(first + 1)
        self._end = self.cumulative(last)

    def cumulative(self, index: int) -> int:
        """Return 0 up to the first outcome, the whole mass after the last, C(index) in between."""
        if index <= self.first:
            return 0
        return self._top if index > self.last else self._masses.cumulative(index)

    def inverse(self, position: int) -> int:
        """Return the outcome of a position between 0 and the whole mass."""
        if position < self._second:
            return self.first
        return self.last if position >= self._end else self._masses.inverse(position)


def adapt(masses: Masses, first: int, last: int, adaptation: Adaptation) -> Conditional | Edge:
    """Return the view of a sub-range by name."""
    if adaptation == "conditional":
        return Conditional(masses, first, last)
    if adaptation == "edge":
        return Edge(masses, first, last)
    raise RangeError(f"adaptation must be 'conditional' or 'edge', got {adaptation!r}")


def _checked(masses: Masses, first: int, last: int) -> tuple[int, int]:
    if not masses.first <= first <= last <= masses.last:
        raise RangeError(
            f"a sub-range must satisfy {masses.first} <= first <= last <= {masses.last}, got first={first}, last={last}"
        )
    return first, last
