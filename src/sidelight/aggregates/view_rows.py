"""The rows of a view, made from the tables of a database when they are first read, and held in memory.

The order of work, each step a map of one person's owned rows: owners; lookups and folds; then, in the query itself,
`where`, rows that the schema drops, the caps, and the statistic. Caps come after every derived column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sidelight.aggregates.expression_values import BatchScope, truth_of
from sidelight.aggregates.folds import FoldedColumn, FoldedRows, empty_value, fold_columns
from sidelight.aggregates.lookups import Lookups, least_rows
from sidelight.aggregates.owners import NONE, OpenDatabase, Whole
from sidelight.errors import SourceError
from sidelight.records import Category, Label, Number, PersonId, Table, View
from sidelight.records.fold import TRUTHS, Fold
from sidelight.records.held_rows import HeldRows
from sidelight.records.rows import BATCH_ROWS, Batch, ColumnType, DistinctTexts, NoExpressions, Wanted
from sidelight.records.views import FOUND


class ViewRows(NoExpressions):
    """The rows of a view. Nothing is read before `batches` runs."""

    name = "view"
    streams = True

    def __init__(self, view: View) -> None:
        self._view = view
        self._made: dict[frozenset[str], HeldRows] = {}

    @property
    def types(self) -> Mapping[str, ColumnType]:
        kinds = {PersonId: "text", Category: "text", Label: "text"}
        return {each.name: ColumnType(kinds.get(type(each), "float"), "view") for each in self._view.schema.columns}  # type: ignore[arg-type]

    @property
    def length(self) -> int:
        """Return 0: views are held in memory, and a buffer that is too small grows. The number of rows is private."""
        return 0

    @property
    def check_reads_records(self) -> bool:
        """Whether a table of the view is one in which a record can change how others parse."""
        return any(not self._view.tables.table(name).has_typed_records for name in tables_read(self._view))

    def check_records(self) -> None:
        """Refuse CSV files that no standard writer wrote, of every table that the view reads."""
        for name in tables_read(self._view):
            self._view.tables.table(name).check_records()

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Return all rows of the view, in batches."""
        names = frozenset(wanted.names)
        if names not in self._made:
            with np.errstate(all="ignore"):
                self._made[names] = made_rows(self._view, names)
        return self._made[names].batches(wanted, rows=rows)

    def fault(self) -> str | None:
        """Return what is wrong with the files, if that is known: nothing here."""
        return None

    def __repr__(self) -> str:
        return "ViewRows(private)"


class ViewTable(Table):
    """A view as a table: what queries run on."""

    __slots__ = ("view",)

    def __init__(self, view: View) -> None:
        self.view = view
        self._schema, self._rows, self._path = view.schema, ViewRows(view), None
        self._name, self._public, self._database = f"{view.tables.name}.{view.base}", False, view.tables.name

    def is_file(self, path: str) -> bool:
        """Return whether a path names a file of one of the private tables of the database."""
        return any(self.view.tables.table(name).is_file(path) for name in self.view.tables.private())


def tables_read(view: View) -> tuple[str, ...]:
    """Return the tables that a view may read, public ones not counted: those were read before."""
    tables = view.tables
    found = [*tables.person_path(view.base)]
    for each in view.lookups.values():
        for step in each.steps:
            found += () if tables.is_public(step.to) else tables.person_path(step.to)
    for fold in view.features.values():
        found += tables_read(view.folded(fold))
    found += () if view.where is None else tables_read(view.source)
    return tuple(dict.fromkeys(found))


def public_tables_read(view: View) -> tuple[str, ...]:
    """Return the public tables that the lookups of a view, and of what it folds, lead to."""
    found = [step.to for each in view.lookups.values() for step in each.steps if view.tables.is_public(step.to)]
    for other in (
        *(view.folded(fold) for fold in view.features.values()),
        *([] if view.where is None else [view.source]),
    ):
        found += public_tables_read(other)
    return tuple(dict.fromkeys(found))


def made_rows(view: View, names: frozenset[str] | None = None) -> HeldRows:
    """Return the rows of a view with the named columns, or all of them."""
    wanted = frozenset(view.schema.names) if names is None else names
    columns: dict[str, set[str]] = {}
    _add_columns(view, wanted, columns)
    return _Making(view, OpenDatabase(view.tables, columns), wanted).made()


def _add_columns(view: View, wanted: frozenset[str], columns: dict[str, set[str]]) -> None:
    """Add the columns that a view needs of each table: of those in which ties may have to be broken, all."""
    tables = view.tables
    own = wanted if not view.grouped else tables.schema(view.base).names if view.keeps_base else ()
    columns.setdefault(view.base, set()).update(own)
    for name, found in view.lookups.items():
        for step in found.steps if name in wanted else ():
            columns.setdefault(step.to, set()).update(tables.schema(step.to).names)
    for fold in _folds(view, wanted):
        _add_columns(view.folded(fold), frozenset(fold.columns), columns)
    if view.where is not None:
        _add_columns(view.source, frozenset(view.where.columns), columns)


def _folds(view: View, wanted: frozenset[str]) -> Iterator[Fold]:
    """Return the folds that have a wanted column."""
    for name, fold in view.features.items():
        if any(each.name in wanted for each in fold.declared(name, view.folded(fold).schema)):
            yield fold


class _Making:
    """One view of an open database: which rows it has, and their cells."""

    def __init__(self, view: View, database: OpenDatabase, wanted: frozenset[str]) -> None:
        self.view, self.database, self.wanted = view, database, wanted
        declared = view.tables.schema(view.base).columns if view.keeps_base else ()
        self.own = [each.name for each in declared if each.name in wanted and not isinstance(each, PersonId)]
        self.rows = self._chosen()
        self.owner = self._owners()
        self.lookups = Lookups(database, view.base, self.owner, self.rows)

    def _chosen(self) -> Whole:
        """Return the rows of the base that the view has: all that are owned, or the least of each person's."""
        if not self.view.grouped:
            return np.flatnonzero(self.database.table(self.view.base).owner != NONE)
        base = self.database.table(self.view.base)
        group = base.owner
        if self.view.where is not None:
            source = _Making(self.view.source, self.database, frozenset(self.view.where.columns))
            held = source.made()
            condition = BatchScope(self.view.source.schema, Batch(held.length, held.numbers, held.texts))
            passed = np.broadcast_to(np.asarray(truth_of(self.view.where, condition)[0], bool), (held.length,))
            group = np.full(len(base.owner), NONE)
            group[source.rows[passed]] = base.owner[source.rows[passed]]
        if self.view.keeps_base:
            return least_rows(base, self.view.tables.schema(self.view.base), group)
        there = np.flatnonzero(group != NONE)
        return there[np.unique(group[there], return_index=True)[1]]

    def _owners(self) -> Whole:
        return self.database.table(self.view.base).owner[self.rows]

    def made(self) -> HeldRows:
        numbers: dict[str, Any] = {}
        texts: dict[str, DistinctTexts] = {}
        cells: dict[str, Any] = {}
        for name in self.own:
            cells[name] = self._found((), name, name)
        for name, found in self.view.lookups.items():
            if name in self.wanted:
                cells[name] = self._found(found.steps, found.column.name, name)
        for name, fold in self.view.features.items():
            declared = fold.declared(name, self.view.folded(fold).schema)
            if any(each.name in self.wanted for each in declared):
                for each, column in zip(declared, self._folded(fold, declared), strict=True):
                    cells[each.name] = column
        for each in self.view.schema.columns:
            if each.name in self.wanted and not isinstance(each, PersonId):
                if each.name not in cells:  # the constant column of a view that has no other
                    cells[each.name] = DistinctTexts(["row"], np.zeros(len(self.rows), np.int64))
                (numbers if isinstance(each, Number) else texts)[each.name] = cells[each.name]
        person = None if self.view.grouped else DistinctTexts(self.database.owner_ids(), self.owner)
        return HeldRows(len(self.rows), numbers, texts, person)

    def _found(self, steps: Any, column: str, name: str) -> Any:
        """Return the cells of a column at the end of a path, missing where nothing was found."""
        table, rows = self.lookups.rows_of(steps)
        if column == FOUND:
            return DistinctTexts(list(TRUTHS), (rows != NONE).astype(np.int64))
        declared = next(each for each in self.view.schema.columns if each.name == name)
        if isinstance(declared, Number):
            return np.append(table.rows.numbers[column], np.nan)[rows]
        texts = table.rows.texts[column]
        return DistinctTexts([*texts.cells, None], np.append(texts.places, len(texts.cells))[rows])

    def _folded(self, fold: Fold, declared: Any) -> list[Any]:
        """Return the columns of a fold for each row of the view."""
        view = self.view.folded(fold)
        making = _Making(view, self.database, frozenset(fold.columns))
        held = making.made()
        ids = self.database.owner_ids()
        if self.view.grouped:
            mine, theirs = self.owner, making.owner
        else:
            link = self.view.fold_link(fold)
            key = self.view.tables.schema(self.view.base).key
            assert link is not None
            assert key is not None
            own = self.database.table(self.view.base).keys[(self.view.base, key.columns)][self.rows]
            named = self.database.table(fold.table).keys[(self.view.base, link)][making.rows]
            size = self.database.key_size(self.view.base) + 1
            mine = np.where(own == NONE, NONE, self.owner * size + own)
            theirs = np.where(named == NONE, NONE, making.owner * size + named)
        groups, first, at = np.unique(mine, return_index=True, return_inverse=True)
        at = np.where(mine == NONE, NONE, at.reshape(-1))
        places = np.searchsorted(groups, theirs)
        places[places == len(groups)] = 0
        group = np.full(len(theirs), NONE)
        if len(groups):
            group = np.where((theirs != NONE) & (groups[places] == theirs), places, NONE)
        owners = [str(ids[number]) for number in self.owner[first].tolist()]
        rows = FoldedRows(Batch(held.length, held.numbers, held.texts), view.schema, group, owners)
        columns: tuple[FoldedColumn, ...] = fold_columns(fold, rows, declared)
        return [column.cells(at, empty_value(fold, each)) for column, each in zip(columns, declared, strict=True)]


def open_view(view: View) -> ViewTable:
    """Return a view as a table for one release. Reads no row.

    Raises:
        SourceError: the view is none.
    """
    if not isinstance(view, View):
        raise SourceError(f"a view of a database was wanted, got {type(view).__name__}")
    return ViewTable(view)
