"""Many to one: which row of another table a row finds, by its owner and the key that it names.

A row of a private table is found only by rows of the same owner; a row that names another person's key finds nothing.
Where several rows of one owner have the key, the least is taken: by the codes of all declared columns of that table in
the order of its schema (of a `Label` its text), then by the texts of its references; missing counts as least. That is a
function of the owner's rows alone, the same for every query and every order of the rows. Rows equal in all of these are
interchangeable. All columns are read only where there are such rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.contributions import run_starts
from sidelight.aggregates.expression_values import BatchScope
from sidelight.aggregates.key_numbers import NONE, Whole
from sidelight.aggregates.owners import OpenDatabase, OpenTable
from sidelight.records import Label, Number, PersonId, Schema
from sidelight.records.held_rows import HeldRows, IdCells, as_texts
from sidelight.records.keys import Key
from sidelight.records.linked_tables import Step
from sidelight.records.person_key import spelled
from sidelight.records.rows import Batch, DistinctTexts, WholeIds


class PairIndex:
    """Find the rows of a table by owner and key, by the key alone (public rows), or by the owner alone.

    Rows with the same pair are one group. Where every key, or owner, has one row, that is found by its number;
    otherwise by a sorted list of pairs.

    Args:
        owner: The owner of each row; None for public rows.
        key: The number of each row's key; None to find rows by the owner.
        size: One more than the largest number of a key, or of an owner if there are no keys.
    """

    def __init__(self, owner: Whole | None, key: Whole | None, size: int) -> None:
        self._owner, self._size = owner, size
        number = key if key is not None else owner
        assert number is not None
        there = np.flatnonzero(number != NONE)
        at = np.full(size + 1, NONE)
        at[number[there]] = there
        self._at: Whole | None = at
        self.tied = False
        self.group = np.where(number == NONE, NONE, np.arange(len(number)))
        self.row: Whole = np.arange(len(number))
        if np.array_equal(at[number[there]], there):
            return
        self._at = None
        pairs = _pairs(owner, key, size)
        there = np.flatnonzero(pairs != NONE)
        self._pairs, first, group = np.unique(pairs[there], return_index=True, return_inverse=True)
        self.tied = len(self._pairs) < len(there)
        self.row = there[first]
        self.group = np.full(len(pairs), NONE)
        self.group[there] = group.reshape(-1)

    @property
    def groups(self) -> int:
        """How many groups there are, some of which may have no row."""
        return len(self.row)

    def find(self, owner: Whole | None, key: Whole | None) -> Whole:
        """Return the group of each pair, -1 where there is none."""
        if self._at is not None:
            number = key if key is not None else owner
            assert number is not None
            found = self._at[number]
            if owner is None or key is None or not len(self.row):
                return found
            assert self._owner is not None
            return np.where(_same_owner(self._owner[found], owner), found, NONE)
        mine = _pairs(owner, key, self._size)
        places = np.searchsorted(self._pairs, mine)
        places[places == len(self._pairs)] = 0
        return np.where((mine != NONE) & (self._pairs[places] == mine), places, NONE)


def _same_owner(theirs: Whole, mine: Whole) -> NDArray[np.bool_]:
    return np.asarray(theirs == mine)


def _pairs(owner: Whole | None, key: Whole | None, size: int) -> Whole:
    """Return one number for an owner and a key, -1 where one of them is missing."""
    if owner is None:
        assert key is not None
        return key
    if key is None:
        return owner
    return np.where((owner == NONE) | (key == NONE), NONE, owner * (size + 1) + key)


#: A table, and the row of it that each row of a view finds; None: its own, one after the other.
FoundRows = tuple[OpenTable, Whole | None]


class Lookups:
    """Follow paths from rows of a table; what was found for the first parts of a path is remembered."""

    def __init__(self, database: OpenDatabase, base: str, table: OpenTable, owner: Whole, rows: Whole | None) -> None:
        self._database, self._base, self._owner = database, base, owner
        self._found: dict[tuple[Step, ...], FoundRows] = {(): (table, rows)}

    def rows_of(self, steps: tuple[Step, ...]) -> FoundRows:
        """Return the table at the end of a path, and the row of it that each row finds, or -1."""
        if steps not in self._found:
            self._found[steps] = self._step(steps[:-1], steps[-1])
        return self._found[steps]

    def _step(self, before: tuple[Step, ...], step: Step) -> FoundRows:
        source, here = self.rows_of(before)
        private = not self._database.tables.is_public(step.to)
        owner = self._database.owners.matching(self._base, step.to, self._owner) if private else None
        if step.kind == "person":
            assert owner is not None
            table, index = self._indexed(step.to, by_key=False)
            group = index.find(np.where(here == NONE, NONE, owner) if before else owner, None)
        else:
            table, index = self._indexed(step.to, by_key=True)
            named = at(table.keys_named(source, step.columns), here, NONE)
            group = index.find(owner, named)
        if index.tied:
            least = least_rows(table, self._database.tables.schema(step.to), index.group)
            return table, at(least, group, NONE)
        return table, at(index.row, group, NONE)

    def _indexed(self, to: str, *, by_key: bool) -> tuple[OpenTable, PairIndex]:
        """Return a table and its index; where pairs repeat, the table with all columns."""
        table = self._database.table(to)
        index = self._index(table, to, by_key=by_key)
        if index.tied:
            table = self._database.table(to, whole=True)
            index = self._index(table, to, by_key=by_key)
        return table, index

    def _index(self, table: OpenTable, to: str, *, by_key: bool) -> PairIndex:
        owner = None if self._database.tables.is_public(to) else table.owner
        if not by_key:
            return PairIndex(owner, None, self._database.owners.size(to))
        return PairIndex(owner, table.own_keys, table.numbers.size)


def at(cells: NDArray[np.int64], rows: Whole | None, missing: int) -> Whole:
    """Return the cell of each row, and something else for the row -1; None are all rows, one after the other."""
    return cells if rows is None else np.append(cells, missing)[rows]


def least_rows(table: OpenTable, schema: Schema, groups: Whole) -> Whole:
    """Return the least row of each group (-1: of none), in the order of the groups."""
    there = np.flatnonzero(groups != NONE)
    ranks = [rank[there] for rank in reversed(_ranks(table.rows, schema))]
    order = there[np.lexsort((*ranks, groups[there]))]
    return order[run_starts([groups[order]])]


def _ranks(rows: HeldRows, schema: Schema) -> list[Whole]:
    """Return, for each declared column and then each part of a reference, numbers in the order of its values."""
    found = []
    scope = BatchScope(schema, Batch(rows.length, rows.numbers, rows.texts))
    for column in schema.columns:
        if isinstance(column, PersonId):
            continue
        if isinstance(column, Label):
            labels = [column.label_of(cell) for cell in rows.texts[column.name].cells]
            found.append(by_bytes(DistinctTexts(labels, rows.texts[column.name].places)))
            continue
        value, known = scope.column(column.name)
        rank = np.unique(value, return_inverse=True)[1] if isinstance(column, Number) else value
        found.append(np.asarray(rank, np.int64) if known is None else np.where(known, rank, NONE))
    for link in schema.links:
        if not isinstance(link, Key):
            found += [by_bytes(rows.keys[name]) for name in link.columns]
    return found


def by_bytes(ids: IdCells) -> Whole:
    """Number texts in the order of their bytes, whole numbers by their shortest form; -1 where one is missing."""
    texts = as_texts(ids) if isinstance(ids, WholeIds) else ids
    there = sorted({text for text in texts.cells if text is not None}, key=_bytes_of)
    place = {text: number for number, text in enumerate(there)}
    cells = [NONE if text is None else place[text] for text in texts.cells]
    numbers: Whole = np.array([*cells, NONE], np.int64)[texts.places]
    return numbers


def _bytes_of(text: str) -> tuple[bytes, bytes]:
    return spelled(text).encode("utf-8", "surrogatepass"), text.encode("utf-8", "surrogatepass")
