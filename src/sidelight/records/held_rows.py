"""Rows that were read once and are held in memory: copies of public tables, and views of a database."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True, eq=False, repr=False)
class HeldRows(NoExpressions):
    """Columns in memory: numbers, texts, and the person of each row."""

    length: int
    numbers: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    texts: Mapping[str, DistinctTexts] = field(default_factory=dict)
    person: DistinctTexts | None = None
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
    numbers: dict[str, list[NDArray[np.float64]]] = {name: [] for name in wanted.numbers}
    texts: dict[str, GrowingTexts] = {name: GrowingTexts() for name in wanted.texts}
    person = GrowingTexts()
    length = 0
    for batch in rows.batches(wanted):
        length += batch.length
        for name, parts in numbers.items():
            parts.append(np.array(batch.numbers[name], np.float64))
        for name, grown in texts.items():
            grown.add(batch.texts[name])
        if batch.person is not None:
            person.add(_as_texts(batch.person) if isinstance(batch.person, WholeIds) else batch.person)
    none = np.empty(0, np.float64)
    return HeldRows(
        length,
        {name: np.concatenate([none, *parts]) for name, parts in numbers.items()},
        {name: grown.texts() for name, grown in texts.items()},
        None if wanted.person is None else person.texts(),
    )


def _as_texts(ids: WholeIds) -> DistinctTexts:
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
        self._parts: list[NDArray[np.int64]] = []

    def get(self, text: str | None, default: int) -> int:
        """Return the number of a text; an empty one is missing."""
        del default
        return self._numbers.setdefault(text or None, len(self._numbers))

    def add(self, cells: TextCells) -> None:
        """Add the cells of a batch."""
        if isinstance(cells, DistinctTexts):
            self._parts.append(cells.codes(self, lambda: self, 0))
        else:
            self._parts.append(np.fromiter((self.get(cell, 0) for cell in cells.tolist()), np.int64, len(cells)))

    def texts(self) -> DistinctTexts:
        """Return all cells."""
        return DistinctTexts(list(self._numbers), np.concatenate([np.empty(0, np.int64), *self._parts]))
