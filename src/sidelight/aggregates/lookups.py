"""Many to one: which row of another table a row finds, by its owner and the key that it names.

A row of a private table is found only by rows of the same owner; a row that names somebody else's key finds nothing.
Where several rows of one owner have the key, the least is taken: by the codes of all declared columns of that table in
the order of its schema (of a `Label` its text), then by the texts of its references; missing counts as least. That is a
function of the owner's rows alone, the same for every query and every order of the rows. Rows equal in all of these are
interchangeable.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sidelight.aggregates.contributions import run_starts
from sidelight.aggregates.expression_values import BatchScope
from sidelight.aggregates.owners import NONE, OpenDatabase, OpenTable, Whole
from sidelight.records import Label, Number, PersonId, Schema
from sidelight.records.held_rows import HeldRows
from sidelight.records.keys import Key
from sidelight.records.linked_tables import Step
from sidelight.records.rows import Batch, DistinctTexts


class Lookups:
    """Follow paths from rows of a table; what was found for the first parts of a path is remembered."""

    def __init__(self, database: OpenDatabase, base: str, owner: Whole, rows: Whole) -> None:
        self._database, self._base = database, base
        self._owner = owner
        self._found: dict[tuple[Step, ...], Whole] = {(): rows}

    def rows_of(self, steps: tuple[Step, ...]) -> tuple[OpenTable, Whole]:
        """Return the table at the end of a path, and the row of it that each row finds, or -1."""
        return self._database.table(steps[-1].to if steps else self._base), self._rows(steps)

    def _rows(self, steps: tuple[Step, ...]) -> Whole:
        if steps not in self._found:
            self._found[steps] = self._step(steps[:-1], steps[-1])
        return self._found[steps]

    def _step(self, before: tuple[Step, ...], step: Step) -> Whole:
        database = self._database
        here = self._rows(before)
        private = not database.tables.is_public(step.to)
        if step.kind == "person":
            owner = np.where(here == NONE, NONE, self._owner) if before else self._owner
            return rows_found(database, step.to, owner, None)
        source = database.table(before[-1].to if before else self._base)
        named = np.append(source.keys[(step.to, step.columns)], NONE)[here]
        return rows_found(database, step.to, self._owner if private else None, named)


def rows_found(database: OpenDatabase, to: str, owner: Whole | None, named: Whole | None) -> Whole:
    """Return the row of a table that each (owner, key) finds, -1 for none.

    Args:
        database: The tables.
        to: The table.
        owner: The owner of each row that looks; None for a public table.
        named: The key that it names; None to look for the row of the person.
    """
    table = database.table(to)
    size = database.key_size(to) + 1 if named is not None else 1
    theirs = _pairs(table.owner if owner is not None else None, _own_keys(database, to, table, named), size)
    there = np.flatnonzero(theirs != NONE)
    order = there[np.argsort(theirs[there], kind="stable")]
    ordered = theirs[order]
    if (ordered[1:] == ordered[:-1]).any():
        order = least_rows(table, database.tables.schema(to), theirs)
        ordered = theirs[order]
    mine = _pairs(owner, named, size)
    places = np.searchsorted(ordered, mine)
    places[places == len(ordered)] = 0
    if not len(ordered):
        return np.full(len(mine), NONE)
    return np.where((mine != NONE) & (ordered[places] == mine), order[places], NONE)


def least_rows(table: OpenTable, schema: Schema, groups: Whole) -> Whole:
    """Return the least row of each group (-1: of none), in the order of the groups."""
    there = np.flatnonzero(groups != NONE)
    ranks = [rank[there] for rank in reversed(_ranks(table.rows, schema))]
    order = there[np.lexsort((*ranks, groups[there]))]
    return order[run_starts([groups[order]])]


def _own_keys(database: OpenDatabase, to: str, table: OpenTable, named: Whole | None) -> Whole | None:
    if named is None:
        return None
    key = database.tables.schema(to).key
    assert key is not None
    return table.keys[(to, key.columns)]


def _pairs(owner: Whole | None, key: Whole | None, size: int) -> Whole:
    """Return one number for an owner and a key, -1 where one of them is missing."""
    if owner is None:
        assert key is not None
        return key
    if key is None:
        return owner
    return np.where((owner == NONE) | (key == NONE), NONE, owner * size + key)


def _ranks(rows: HeldRows, schema: Schema) -> list[Whole]:
    """Return, for each declared column and then each part of a reference, numbers in the order of its values."""
    found = []
    scope = BatchScope(schema, Batch(rows.length, rows.numbers, rows.texts))
    for column in schema.columns:
        if isinstance(column, PersonId):
            continue
        if isinstance(column, Label):
            labels = [column.label_of(cell) for cell in rows.texts[column.name].cells]
            found.append(_by_bytes(DistinctTexts(labels, rows.texts[column.name].places)))
            continue
        value, known = scope.column(column.name)
        rank = np.unique(value, return_inverse=True)[1] if isinstance(column, Number) else value
        found.append(np.asarray(rank, np.int64) if known is None else np.where(known, rank, NONE))
    for link in schema.links:
        if not isinstance(link, Key):
            found += [_by_bytes(rows.texts[name]) for name in link.columns]
    return found


def _by_bytes(texts: DistinctTexts) -> Whole:
    """Number texts in the order of their bytes, -1 where one is missing."""
    there = sorted({text.encode("utf-8", "surrogatepass") for text in texts.cells if text is not None})
    place = {text: number for number, text in enumerate(there)}
    cells: Sequence[int] = [
        NONE if text is None else place[text.encode("utf-8", "surrogatepass")] for text in texts.cells
    ]
    numbers: Whole = np.array([*cells, NONE], np.int64)[texts.places]
    return numbers
