"""Number persons and keys from 0 on: whole numbers by their value, texts letter for letter; no hash takes their place.

Which of the two a column is was decided by the types of all columns that are compared with it, which are public. A text
that is the one spelling of a whole number ("7", not "007") is numbered as that number, without the text being held.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sidelight.records.held_rows import IdCells, as_wholes, whole_number
from sidelight.records.rows import DistinctTexts, TextCells, WholeIds

Whole = NDArray[np.int64]
#: The number of what is missing: an id, a key, a row.
NONE = -1
#: Values in a window of at most this many numbers are numbered by their distance from its start, however few they are.
_WINDOW = 1 << 21
#: Numbers of parts of a key have at most this many bits, so that two of them fit into one whole number.
_BITS = 31


class Numbering:
    """Number whole numbers or texts; the same one has the same number in every table.

    Whole numbers within a window are numbered by their distance from its start, so that nothing is looked up; others
    follow in the order in which they came. Among texts, whole numbers have the even numbers, and other texts the odd.
    """

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._texts: dict[str, int] = {}
        self._low, self._window, self._seen = 0, 0, 0
        self._others, self._sorted, self._places = (np.empty(0, np.int64) for _ in range(3))

    @property
    def size(self) -> int:
        """One more than the largest number."""
        wholes = self._window + len(self._others)
        return wholes if self._whole else 2 * max(wholes, len(self._texts))

    def of(self, cells: TextCells | WholeIds, *, grow: bool) -> Whole:
        """Return the number of each cell, -1 where it is missing, or, unless they `grow`, was not there."""
        if self._whole:
            return self._of_wholes(cells if isinstance(cells, WholeIds) else as_wholes(cells)[0], grow=grow)
        if isinstance(cells, WholeIds):
            return _even(self._of_wholes(cells, grow=grow))
        return self.of_texts(cells, grow=grow)

    def of_texts(self, texts: TextCells, *, grow: bool) -> Whole:
        """Number texts; an empty one is missing."""
        cells = texts.cells if isinstance(texts, DistinctTexts) else texts.tolist()
        values = [whole_number(text) for text in cells]
        named = np.array([*(value is not None for value in values), False], bool)
        wholes = WholeIds(np.array([*(value or 0 for value in values), 0], np.int64), named)
        numbers, there = _even(self._of_wholes(wholes, grow=grow)), self._texts
        for place in np.flatnonzero(~named[:-1]).tolist():
            if text := cells[place]:
                found = there.setdefault(text, len(there)) if grow else there.get(text, NONE)
                numbers[place] = NONE if found == NONE else 2 * found + 1
        return numbers[texts.places] if isinstance(texts, DistinctTexts) else numbers[:-1]

    def cells(self, numbers: Whole) -> IdCells:
        """Return what was numbered."""
        if self._whole:
            return WholeIds(self._values(numbers))
        if not self._texts:
            return WholeIds(self._values(numbers >> 1))
        distinct, places = np.unique(numbers, return_inverse=True)
        names, values = list(self._texts), self._values(np.where(distinct & 1, 0, distinct >> 1)).tolist()
        spelled = (
            names[number >> 1] if number & 1 else str(value)
            for number, value in zip(distinct.tolist(), values, strict=True)
        )
        return DistinctTexts(list(spelled), places.reshape(-1))

    def _values(self, numbers: Whole) -> Whole:
        if not len(self._others):
            return numbers + self._low
        later = numbers >= self._window
        return np.where(later, self._others[np.where(later, numbers - self._window, 0)], numbers + self._low)

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
        most = 2 ** (_BITS if self._whole else _BITS - 1) - 1
        if self._window < width <= min(max(4 * self._seen, _WINDOW), most):
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


def _even(numbers: Whole) -> Whole:
    return np.where(numbers == NONE, NONE, 2 * numbers)


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
