"""Number persons and keys from 0 on: whole numbers by their value, texts letter for letter; no hash takes their place.

Which of the two a column is was decided by the types of all columns that are compared with it, which are public.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sidelight.records.held_rows import IdCells, as_texts
from sidelight.records.rows import DistinctTexts, TextCells, WholeIds

Whole = NDArray[np.int64]
#: The number of what is missing: an id, a key, a row.
NONE = -1
#: Values in a window of at most so many numbers are numbered by their distance from its start, however few they are.
_WINDOW = 1 << 21
#: Numbers of parts of a key have at most so many bits, so that two of them fit into one whole number.
_BITS = 31


class Numbering:
    """Number whole numbers or texts; the same one has the same number in every table.

    Whole numbers within a window are numbered by their distance from its start, so that nothing is looked up; others
    follow in the order in which they came.
    """

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._texts: dict[str, int] = {}
        self._low, self._window, self._seen = 0, 0, 0
        self._others, self._sorted, self._places = (np.empty(0, np.int64) for _ in range(3))

    @property
    def size(self) -> int:
        """One more than the largest number."""
        return self._window + len(self._others) if self._whole else len(self._texts)

    def of(self, cells: TextCells | WholeIds, *, grow: bool) -> Whole:
        """Return the number of each cell, -1 where it is missing, or, unless they `grow`, was not there."""
        if self._whole:
            return self._of_wholes(cells if isinstance(cells, WholeIds) else _parsed(cells), grow=grow)
        return self.of_texts(as_texts(cells) if isinstance(cells, WholeIds) else cells, grow=grow)

    def of_texts(self, texts: TextCells, *, grow: bool) -> Whole:
        """Number texts; an empty one is missing."""
        cells = texts.cells if isinstance(texts, DistinctTexts) else texts.tolist()
        there = self._texts
        known = [
            NONE if not text else there.setdefault(text, len(there)) if grow else there.get(text, NONE)
            for text in cells
        ]
        numbers: Whole = np.array([*known, NONE], np.int64)
        return numbers[texts.places] if isinstance(texts, DistinctTexts) else numbers[:-1]

    def cells(self, numbers: Whole) -> IdCells:
        """Return what was numbered."""
        if not self._whole:
            return DistinctTexts([*self._texts], numbers)
        if not len(self._others):
            return WholeIds(numbers + self._low)
        later = numbers >= self._window
        return WholeIds(np.where(later, self._others[np.where(later, numbers - self._window, 0)], numbers + self._low))

    def _of_wholes(self, ids: WholeIds, *, grow: bool) -> Whole:
        values, named = ids.values, ids.named
        if grow:
            self._widen(values if named is None else values[named])
        numbers: Whole = values - self._low  # wraps beyond 64 bits, and is outside of the window then, too
        outside = numbers.view(np.uint64) >= np.uint64(self._window)
        if named is not None:
            numbers[~named] = NONE
            outside &= named
        if outside.any():
            numbers[outside] = self._later(values[outside], grow=grow)
        return numbers

    def _widen(self, values: Whole) -> None:
        """Let the window begin with the first values, and reach as far up as they do while none is outside."""
        self._seen += len(values)
        if not len(values) or len(self._others):
            return
        low = self._low if self._window else int(values.min())
        width = int(values.max()) - low + 1
        if self._window < width <= min(max(4 * self._seen, _WINDOW), 2**_BITS - 1):
            self._low, self._window = low, width

    def _later(self, values: Whole, *, grow: bool) -> Whole:
        """Number values outside of the window by a sorted list of them."""
        if grow:
            new = np.setdiff1d(values, self._sorted)
            if len(new):
                self._others = np.concatenate([self._others, new])
                self._places = np.argsort(self._others, kind="stable")
                self._sorted = self._others[self._places]
        if not len(self._sorted):
            return np.full(len(values), NONE)
        at = np.searchsorted(self._sorted, values)
        at[at == len(self._sorted)] = 0
        return np.where(self._sorted[at] == values, self._window + self._places[at], NONE)

    def __repr__(self) -> str:
        return "Numbering(private)"


class KeyNumbers:
    """Number the keys of a table, of one part or several; parts are never joined into one text."""

    def __init__(self, wholes: Sequence[bool]) -> None:
        self._parts = [Numbering(whole=whole) for whole in wholes]
        self._pairs = [Numbering(whole=True) for _ in wholes[1:]]

    @property
    def size(self) -> int:
        """One more than the largest number."""
        return (self._pairs or self._parts)[-1].size

    def of(self, cells: Sequence[TextCells | WholeIds], *, grow: bool) -> Whole:
        """Return the number of each key, -1 where a part is missing, or, unless they `grow`, it was not there."""
        numbers = self._parts[0].of(cells[0], grow=grow)
        for part, pair, more in zip(self._parts[1:], self._pairs, cells[1:], strict=True):
            other = part.of(more, grow=grow)
            both = (numbers << _BITS) + other
            numbers = pair.of(WholeIds(both, (numbers != NONE) & (other != NONE)), grow=grow)
        return numbers


def _parsed(cells: TextCells) -> WholeIds:
    """Read texts of a column of whole numbers back."""
    texts = cells.cells if isinstance(cells, DistinctTexts) else cells.tolist()
    named = np.array([bool(text) for text in [*texts, None]], bool)
    try:
        values = np.array([*map(int, (text or 0 for text in texts)), 0], np.int64)
    except (ValueError, OverflowError):  # the source holds another type than it said
        known = [_number(text) for text in [*texts, None]]
        named = np.array([value is not None for value in known], bool)
        values = np.array([value or 0 for value in known], np.int64)
    if isinstance(cells, DistinctTexts):
        return WholeIds(values[cells.places], named[cells.places])
    return WholeIds(values[:-1], named[:-1])


def _number(text: str | None) -> int | None:
    try:
        value = int(text or "")
    except ValueError:
        return None
    return value if -(1 << 63) <= value < 1 << 63 else None
