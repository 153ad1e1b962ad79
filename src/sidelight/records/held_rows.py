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
    batches_with_keys,
)

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
        """Return some of the rows, without their keys."""
        return HeldRows(
            int(np.count_nonzero(kept)),
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


def read_whole(rows: Rows, wanted: Wanted) -> HeldRows:
    """Read all rows of a source in one pass. A text that is empty is missing."""
    growing = GrowingRows(wanted)
    for batch in batches_with_keys(rows, wanted):
        growing.add(batch, slice(None))
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
        for texts in self._texts.values():
            texts.parts[:] = [part[each] for part, each in zip(texts.parts, kept, strict=True)]
        for ids in self._keys.values():
            ids.drop(kept)

    @property
    def cells(self) -> int:
        """How many cells are held: PRIVATE."""
        return sum(self._lengths) * (1 + len(self._numbers) + len(self._texts) + len(self._keys))

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


class GrowingTexts:
    """Collect the texts of batches, each distinct one once; they are told apart by their letters."""

    def __init__(self) -> None:
        self._numbers: dict[str | None, int] = {None: 0}
        self.parts: list[NDArray[np.int64]] = []

    def get(self, text: str | None, default: int) -> int:
        """Return the number of a text; an empty one is missing."""
        del default
        return self._numbers.setdefault(text or None, len(self._numbers))

    def add(self, cells: TextCells) -> None:
        """Add the cells of a batch."""
        if isinstance(cells, DistinctTexts):
            self.parts.append(cells.codes(self, lambda: self, 0))
        else:
            self.parts.append(np.fromiter((self.get(cell, 0) for cell in cells.tolist()), np.int64, len(cells)))

    def texts(self) -> DistinctTexts:
        """Return all cells."""
        return DistinctTexts(list(self._numbers), np.concatenate([np.empty(0, np.int64), *self.parts]))


class GrowingIds:
    """Collect ids or keys of batches: whole numbers as long as the source hands over nothing else, then texts."""

    def __init__(self) -> None:
        self._wholes: list[WholeIds] = []
        self._texts: GrowingTexts | None = None

    def add(self, cells: TextCells | WholeIds) -> None:
        """Add the cells of a batch."""
        if isinstance(cells, WholeIds) and self._texts is None:
            self._wholes.append(cells)
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
            self._texts.parts[:] = [part[each] for part, each in zip(self._texts.parts, kept, strict=True)]

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
