"""Whose a row is: claimants along the path to the person, and rows that nobody or several people claim.

With A(r) the claimants of a row: its id with `PersonId`; with `PersonVia` the union over all rows of the other table
with its key. A row is owned by p if A(r) = {p}. Only the two ends of A(r) in some order of the persons are kept: a
union has the least of the least and the largest of the largest, and A(r) = {p} exactly if both ends are p. A contested
row hands both ends down, so that a row below one is claimed by all of its claimants; without that a person who leaves
would take rows from another (proof page persons-across-tables, Theorem 2).

Persons and keys are numbered by their texts, letter for letter; no hash takes their place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sidelight.records import Category, Label, Number
from sidelight.records.held_rows import HeldRows, read_whole
from sidelight.records.keys import Key
from sidelight.records.linked_tables import LinkedTables
from sidelight.records.rows import DistinctTexts, Wanted

Whole = NDArray[np.int64]
#: The number of what is missing: an id, a key, a row.
NONE = -1


class Numbering:
    """Number texts, or tuples of numbers, from 0 on; the same text has the same number in every table."""

    def __init__(self) -> None:
        self.places: dict[object, int] = {}

    def of_texts(self, texts: DistinctTexts) -> Whole:
        """Return the number of each cell, -1 where it is missing."""
        known = [NONE if text is None else self._place(text) for text in texts.cells]
        numbers: Whole = np.array([*known, NONE], np.int64)[texts.places]
        return numbers

    def of_parts(self, parts: Sequence[Whole]) -> Whole:
        """Return the number of each tuple, -1 where a part is missing."""
        rows, inverse = np.unique(np.stack(parts, axis=1), axis=0, return_inverse=True)
        known = [NONE if NONE in row else self._place(tuple(row)) for row in rows.tolist()]
        return np.array([*known, NONE], np.int64)[inverse.reshape(-1)]

    def _place(self, thing: object) -> int:
        return self.places.setdefault(thing, len(self.places))


@dataclass(eq=False, repr=False)
class OpenTable:
    """A table that was read: its cells, the number of each key, and the owner of each row (-1: nobody)."""

    rows: HeldRows
    keys: dict[tuple[str, tuple[str, ...]], Whole]
    owner: Whole
    least: Whole = field(default_factory=lambda: np.empty(0, np.int64))
    largest: Whole = field(default_factory=lambda: np.empty(0, np.int64))


class OpenDatabase:
    """The tables that a view reads, each read once in one pass: the state that its release is about."""

    def __init__(self, tables: LinkedTables, columns: Mapping[str, Collection[str]]) -> None:
        self.tables = tables
        self._columns = columns
        self.persons = Numbering()
        self._keys: dict[str, tuple[list[Numbering], Numbering]] = {}
        self._open: dict[str, OpenTable] = {}

    def table(self, name: str) -> OpenTable:
        """Return a table with those of its columns that are needed, and its keys.

        It is read once: the order of rows may differ between two passes, and rows of two passes are never mixed.
        """
        if name not in self._open:
            self._open[name] = self._read(name)
        return self._open[name]

    def key_size(self, name: str) -> int:
        """Return how many different keys were seen for a table."""
        return len(self._numbering(name)[1].places)

    def owner_ids(self) -> list[str | None]:
        """Return the id of each person, by number."""
        return [str(text) for text in self.persons.places]

    def _read(self, name: str) -> OpenTable:
        table, schema = self.tables.table(name), self.tables.schema(name)
        wanted = [each for each in schema.columns if each.name in self._columns.get(name, ())]
        tied = [column for link in schema.links for column in link.columns]
        labels = [each.name for each in wanted if isinstance(each, (Category, Label))]
        person = None if schema.via is not None else schema.person
        asked = Wanted(
            numbers=tuple(each.name for each in wanted if isinstance(each, Number)),
            texts=tuple(dict.fromkeys([*labels, *tied])),
            person=None if person is None else person.name,
        )
        held = self.tables.public_rows[name] if table.is_public else read_whole(table.rows, asked)
        keys = {}
        for link in schema.links:
            to = name if isinstance(link, Key) else link.to
            parts, tuples = self._numbering(to)
            numbers = [part.of_texts(held.texts[column]) for part, column in zip(parts, link.columns, strict=True)]
            keys[(to, link.columns)] = tuples.of_parts(numbers) if len(parts) > 1 else _single(numbers[0], tuples)
        found = OpenTable(held, keys, np.empty(0, np.int64))
        if not table.is_public:
            found.least, found.largest = self._claims(name, found)
            found.owner = owner_of(found.least, found.largest)
        return found

    def _claims(self, name: str, found: OpenTable) -> tuple[Whole, Whole]:
        """Return the two ends of the claimants of each row, -1 where there are none."""
        via = self.tables.schema(name).via
        if via is None:
            assert found.rows.person is not None
            person = self.persons.of_texts(found.rows.person)
            return person, person
        parent = self.table(via.to)
        key = self.tables.schema(via.to).key
        assert key is not None
        theirs, mine = parent.keys[(via.to, key.columns)], found.keys[(via.to, via.columns)]
        size = self.key_size(via.to)
        low, high = claims_handed_down(parent)
        claimed = (theirs != NONE) & (low != NONE)
        least = np.full(size + 1, np.iinfo(np.int64).max)
        largest = np.full(size + 1, NONE)
        np.minimum.at(least, theirs[claimed], low[claimed])
        np.maximum.at(largest, theirs[claimed], high[claimed])
        least = np.where(largest == NONE, NONE, least)
        least[size] = NONE  # what a missing key finds
        return least[mine], largest[mine]

    def _numbering(self, name: str) -> tuple[list[Numbering], Numbering]:
        if name not in self._keys:
            key = self.tables.schema(name).key
            assert key is not None
            self._keys[name] = ([Numbering() for _ in key.columns], Numbering())
        return self._keys[name]

    def __repr__(self) -> str:
        return "OpenDatabase(private)"


def owner_of(least: Whole, largest: Whole) -> Whole:
    """Return the one claimant of each row, -1 where there are none or several."""
    return np.where(least == largest, least, NONE)


def claims_handed_down(parent: OpenTable) -> tuple[Whole, Whole]:
    """Return the claims that rows below inherit: those of contested rows too, which keep them."""
    return parent.least, parent.largest


def _single(numbers: Whole, tuples: Numbering) -> Whole:
    """Number keys of one part: the numbers of the part are those of the keys."""
    for place in range(len(tuples.places), int(numbers.max(initial=NONE)) + 1):
        tuples.places[place] = place
    return numbers
