"""Who the rows belong to: ids as they come, batch by batch, and a running number for each person once all are there.

Whole numbers stay whole numbers: they are put in order once, and a text is made of an id only where a choice among the
person's rows needs its key. Texts are looked up one by one among those that came before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sidelight.records.rows import DistinctTexts, TextCells, WholeIds
from sidelight.records.schema import person_key

#: An odd number, by which the bits of ids are spread before a slice is chosen: 2**64 over the golden ratio.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Persons:
    """The persons of rows, or of those rows that belong to one of `slices` slices of all persons."""

    __slots__ = ("_first", "_numbers", "_parts", "_slice", "_slices", "_values", "_whole")

    def __init__(self, *, place: int = 0, slices: int = 1) -> None:
        self._slice, self._slices = place, slices
        self._whole = True
        self._parts: list[NDArray[np.int64]] = []
        self._numbers: dict[str, int] = {}
        self._first = 0
        self._values: NDArray[np.int64] | None = None

    def fold(self, ids: TextCells | WholeIds, kept: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """Add the rows of a batch that are kept (None: all) and name somebody of the slice; return which these are."""
        if isinstance(ids, WholeIds) and self._whole:
            stays = np.ones(len(ids), bool) if ids.named is None else ids.named
            stays = stays if kept is None else stays & kept
            if self._slices > 1:
                stays = stays & (_slices_of(ids.values, self._slices) == self._slice)
            self._parts.append(ids.values[stays])
            return stays
        assert self._slices == 1, "persons who are named by texts are held all at once"
        if self._whole:  # texts after whole numbers: these are texts, too
            self._whole = False
            self._parts = [self._looked_up(WholeIds(part)) for part in self._parts]
        numbers = self._looked_up(ids)
        stays = numbers >= 0 if kept is None else kept & (numbers >= 0)
        self._parts.append(numbers[stays])
        return stays

    def get(self, text: str | None, default: int) -> int:
        """Return the number of an id; `default` where there is none."""
        return default if text is None else self._numbers.setdefault(text, len(self._numbers))

    def _looked_up(self, ids: TextCells | WholeIds) -> NDArray[np.int64]:
        if isinstance(ids, DistinctTexts):
            return ids.codes(self, lambda: self, -1)
        return np.fromiter((self.get(text, -1) for text in ids.tolist()), np.int64, len(ids))

    def numbers(self) -> NDArray[np.int64]:
        """Return the number of each row's person, from 0 on, in the order of the rows that were added."""
        found = np.concatenate([np.empty(0, np.int64), *self._parts])
        self._parts = []
        if not self._whole or not len(found):
            return found
        low, high = int(found.min()), int(found.max())
        if high - low < 4 * len(found):  # numbers between them that nobody has cost less than an order
            self._first = low
            found -= low
            return found
        self._values, places = np.unique(found, return_inverse=True)
        return places.astype(np.int64, copy=False)

    def keys(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the key of each row's person; it is made for the persons among these rows only."""
        keys = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
        there = np.zeros(len(keys), bool)
        there[numbers] = True
        wanted = np.flatnonzero(there)
        if not self._whole:
            names = list(self._numbers)
            texts = (names[number] for number in wanted.tolist())
        else:
            values = wanted + self._first if self._values is None else self._values[wanted]
            texts = (str(value) for value in values.tolist())
        keys[wanted] = np.fromiter(map(person_key, texts), np.int64, len(wanted))
        return keys[numbers]

    def __repr__(self) -> str:
        return "Persons(private)"


def _slices_of(values: NDArray[np.int64], slices: int) -> NDArray[np.uint64]:
    """Return the slice of each id, by the id alone."""
    found: NDArray[np.uint64] = (values.view(np.uint64) * _SPREAD >> np.uint64(33)) % np.uint64(slices)
    return found
