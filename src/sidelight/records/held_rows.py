"""Rows that were read once and are held in memory: copies of public tables, and views of a database."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.records.rows import (
    BATCH_ROWS,
    Batch,
    ColumnType,
    DistinctTexts,
    NoExpressions,
    Rows,
    TextCells,
    Wanted,
    WholeIds,
)
from sidelight.records.source_protocols import batches_with_keys

#: How many cells of 8 bytes a distinct text counts for, beyond the first few.
_CELLS_OF_TEXT, _FEW_TEXTS = 16, 1 << 16
#: Ids and keys: whole numbers, or texts.
IdCells = DistinctTexts | WholeIds


@dataclass(frozen=True, eq=False, repr=False)
class HeldRows(NoExpressions):
    """Columns in memory: numbers, texts, keys, and the person of each row."""

    length: int
    numbers: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    texts: Mapping[str, DistinctTexts] = field(default_factory=dict)
    person: IdCells | None = None
    keys: Mapping[str, IdCells] = field(default_factory=dict)
    types: Mapping[str, ColumnType] = field(default_factory=dict)
    name = "memory"
    streams = True

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Return all rows in slices."""
        for start in range(0, self.length, rows):
            part = slice(start, min(start + rows, self.length))
            yield Batch(
                part.stop - start,
                {name: self.numbers[name][part] for name in wanted.numbers},
                {name: self.texts[name][part] for name in wanted.texts},
                None if wanted.person is None or self.person is None else self.person[part],
            )

    def at(self, kept: NDArray[Any]) -> HeldRows:
        """Return some of the rows, by their places or a condition, without their keys."""
        return HeldRows(
            int(np.count_nonzero(kept)) if kept.dtype == bool else len(kept),
            {name: cells[kept] for name, cells in self.numbers.items()},
            {name: cells[kept] for name, cells in self.texts.items()},
            None if self.person is None else self.person[kept],
        )

    def digest(self) -> str:
        """Return the SHA-256 of all cells of public rows, in their order."""
        found = hashlib.sha256()
        for name, numbers in sorted(self.numbers.items()):
            found.update(f"number {len(name)} {name} {len(numbers)};".encode())
            found.update(np.ascontiguousarray(numbers, "<f8").tobytes())
        for name, texts in sorted(self.texts.items()):
            found.update(f"text {len(name)} {name} {len(texts)};".encode())
            for cell in texts.tolist():
                found.update(b"-;" if cell is None else f"{len(cell)}:{cell};".encode("utf-8", "surrogatepass"))
        return found.hexdigest()

    def __repr__(self) -> str:
        return "HeldRows(private)"


def read_whole(rows: Rows, wanted: Wanted, *, most_cells: int) -> HeldRows | None:
    """Read all rows of a source in one pass; None if they are more than may be held. An empty text is missing."""
    growing = GrowingRows(wanted)
    for batch in batches_with_keys(rows, wanted):
        growing.add(batch, slice(None))
        if growing.cells > most_cells:
            return None
    return growing.rows()


class GrowingRows:
    """Collect some rows of batches; rows of batches before may be dropped again."""

    def __init__(self, wanted: Wanted) -> None:
        self._lengths: list[int] = []
        self._numbers: dict[str, list[NDArray[np.float64]]] = {name: [] for name in wanted.numbers}
        self._texts = {name: GrowingTexts() for name in wanted.texts}
        self._keys = {name: GrowingIds() for name in wanted.keys}

    def add(self, batch: Batch, kept: Any) -> None:
        """Add the kept rows of a batch."""
        self._lengths.append(len(np.empty(batch.length, bool)[kept]))
        for name, parts in self._numbers.items():
            parts.append(np.array(batch.numbers[name][kept], np.float64))
        for name, texts in self._texts.items():
            texts.add(batch.texts[name][kept])
        for name, ids in self._keys.items():
            ids.add(batch.keys[name][kept])

    def drop(self, kept: Sequence[NDArray[np.bool_]]) -> None:
        """Keep some of the rows that were added, by the batches in which they came."""
        self._lengths = [int(np.count_nonzero(each)) for each in kept]
        for numbers in self._numbers.values():
            numbers[:] = [part[each] for part, each in zip(numbers, kept, strict=True)]
        self._texts = {name: texts.at(kept) for name, texts in self._texts.items()}
        for ids in self._keys.values():
            ids.drop(kept)

    @property
    def cells(self) -> int:
        """How many cells are held, a distinct text as `_CELLS_OF_TEXT`: PRIVATE."""
        texts = sum(map(len, self._texts.values())) + sum(map(len, self._keys.values()))
        columns = 1 + len(self._numbers) + len(self._texts) + len(self._keys)
        return sum(self._lengths) * columns + _CELLS_OF_TEXT * max(texts - _FEW_TEXTS, 0)

    def rows(self) -> HeldRows:
        """Return all rows that were kept; what was collected is let go column by column."""
        numbers = {}
        for name in list(self._numbers):
            numbers[name] = np.concatenate([np.empty(0, np.float64), *self._numbers.pop(name)])
        texts = {name: self._texts.pop(name).texts() for name in list(self._texts)}
        keys = {name: self._keys.pop(name).ids() for name in list(self._keys)}
        return HeldRows(sum(self._lengths), numbers, texts, keys=keys)


def as_texts(ids: WholeIds) -> DistinctTexts:
    """Return whole numbers as their texts, each distinct one written once."""
    named = ids.named
    distinct, places = np.unique(ids.values, return_inverse=True)
    cells: list[str | None] = [str(value) for value in distinct.tolist()]
    places = places.astype(np.int64)
    if named is not None and not named.all():
        cells.append(None)
        places = np.where(named, places, len(cells) - 1)
    return DistinctTexts(cells, places)


def as_wholes(cells: TextCells) -> tuple[WholeIds, bool]:
    """Return texts as the whole numbers of which each is the one spelling, missing otherwise; and whether all are."""
    texts = cells.cells if isinstance(cells, DistinctTexts) else cells.tolist()
    found = [whole_number(text) for text in texts]
    every = not any(value is None and text for value, text in zip(found, texts, strict=True))
    values = np.array([*(value or 0 for value in found), 0], np.int64)
    named = np.array([*(value is not None for value in found), False], bool)
    if isinstance(cells, DistinctTexts):
        return WholeIds(values[cells.places], named[cells.places]), every
    return WholeIds(values[:-1], named[:-1]), every


def whole_number(text: str | None) -> int | None:
    """Return the whole number of 64 bits whose one spelling a text is: "7" and "-7", not "007", "+7" or "-0".

    >>> [whole_number(text) for text in ("7", "-12", "007", "-0", "1e3", "", None)]
    [7, -12, None, None, None, None, None]
    """
    if not text or len(text) > 20 or not (text.isdecimal() or text[0] == "-"):
        return None
    try:
        value = int(text)
    except ValueError:
        return None
    return value if str(value) == text and -(1 << 63) <= value < 1 << 63 else None


class GrowingTexts:
    """Collect the texts of batches, each distinct one once; compared letter by letter."""

    def __init__(self) -> None:
        self._numbers: dict[str | None, int] = {None: 0}
        self.parts: list[NDArray[np.int64]] = []

    def get(self, text: str | None, default: int) -> int:
        """Return the number of a text; an empty one is missing."""
        del default
        return self._numbers.setdefault(text or None, len(self._numbers))

    def add(self, cells: TextCells) -> None:
        """Add the cells of a batch."""
        if isinstance(cells, DistinctTexts) and len(cells) >= len(cells.cells):
            self.parts.append(cells.codes(self, lambda: self, 0))
        elif isinstance(cells, DistinctTexts):  # of many texts those alone that occur
            used, places = np.unique(cells.places, return_inverse=True)
            numbers = np.array([self.get(cells.cells[place], 0) for place in used.tolist()], np.int64)
            self.parts.append(numbers[places.reshape(-1)])
        else:
            self.parts.append(np.fromiter((self.get(cell, 0) for cell in cells.tolist()), np.int64, len(cells)))

    def at(self, kept: Sequence[NDArray[np.bool_]]) -> GrowingTexts:
        """Return some of the cells, by the batches in which they came, without the texts that no other cell has.

        A new object: batches remember the numbers of their texts by the one that gave them.
        """
        found, names = GrowingTexts(), list(self._numbers)
        for part, each in zip(self.parts, kept, strict=True):
            used, places = np.unique(part[each], return_inverse=True)
            numbers = np.array([found.get(names[place], 0) for place in used.tolist()], np.int64)
            found.parts.append(numbers[places.reshape(-1)])
        return found

    def __len__(self) -> int:
        return len(self._numbers)

    def texts(self) -> DistinctTexts:
        """Return all cells."""
        return DistinctTexts(list(self._numbers), np.concatenate([np.empty(0, np.int64), *self.parts]))


class GrowingIds:
    """Collect ids or keys of batches: whole numbers as long as nothing else comes, spelled or not, then texts."""

    def __init__(self) -> None:
        self._wholes: list[WholeIds] = []
        self._texts: GrowingTexts | None = None

    def add(self, cells: TextCells | WholeIds) -> None:
        """Add the cells of a batch."""
        if self._texts is None:
            wholes, every = (cells, True) if isinstance(cells, WholeIds) else as_wholes(cells)
            if every:
                self._wholes.append(wholes)
                return
        if self._texts is None:
            self._texts = GrowingTexts()
            for each in self._wholes:
                self._texts.add(as_texts(each))
        self._texts.add(as_texts(cells) if isinstance(cells, WholeIds) else cells)

    def drop(self, kept: Sequence[NDArray[np.bool_]]) -> None:
        """Keep some of the cells that were added, by the batches in which they came."""
        if self._texts is None:
            self._wholes = [ids[each] for ids, each in zip(self._wholes, kept, strict=True)]
        else:
            self._texts = self._texts.at(kept)

    def __len__(self) -> int:
        return 0 if self._texts is None else len(self._texts)

    def ids(self) -> IdCells:
        """Return all cells."""
        if self._texts is not None:
            return self._texts.texts()
        named = None
        if any(each.named is not None for each in self._wholes):
            named = np.concatenate(
                [np.ones(len(each), bool) if each.named is None else each.named for each in self._wholes]
            )
        return WholeIds(np.concatenate([np.empty(0, np.int64), *(each.values for each in self._wholes)]), named)
