"""The rows of a view, made from the tables of a database when they are read, in slices of persons that fit into memory.

The order of work, each step a map of one person's owned rows: owners; lookups and folds; then, in the query itself,
`where`, rows that the schema drops, the caps, and the statistic. Caps come after every derived column.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np

from sidelight.aggregates.expression_values import BatchScope, truth_of
from sidelight.aggregates.folds import FoldedColumn, FoldedRows, empty_value, fold_columns
from sidelight.aggregates.key_numbers import NONE, KeyNumbers, Whole
from sidelight.aggregates.lookups import Lookups, PairIndex, at, least_rows
from sidelight.aggregates.owners import NeededColumns, OpenDatabase, OpenTable, Owners, slices
from sidelight.aggregates.pairs import MatchedRows, PairSide
from sidelight.errors import SourceError
from sidelight.records import Category, Label, Number, PairedView, PersonId, Table, View
from sidelight.records.fold import TRUTHS, Fold
from sidelight.records.held_rows import HeldRows
from sidelight.records.linked_tables import LinkedTables
from sidelight.records.person_key import person_key
from sidelight.records.rows import BATCH_ROWS, Batch, ColumnType, DistinctTexts, NoExpressions, Wanted
from sidelight.records.source_protocols import ChecksFiles
from sidelight.records.views import FOUND


class ViewRows(NoExpressions):
    """The rows of a view. Nothing is read before `batches` runs."""

    name = "view"
    streams = True

    def __init__(self, view: View | PairedView) -> None:
        self._view = view
        self._made: dict[frozenset[str], HeldRows] = {}

    @property
    def types(self) -> Mapping[str, ColumnType]:
        kinds = {PersonId: "text", Category: "text", Label: "text"}
        return {each.name: ColumnType(kinds.get(type(each), "float"), "view") for each in self._view.schema.columns}  # type: ignore[arg-type]

    @property
    def length(self) -> int:
        """Return 0: views come as arrays, and a buffer that is too small grows. The number of rows is private."""
        return 0

    @property
    def check_reads_records(self) -> bool:
        """Whether a table of the view is one in which a record can change how others parse."""
        return any(not self._view.tables.table(name).has_typed_records for name in tables_read(self._view))

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Hold the locks of all tables that the view reads."""
        with ExitStack() as held:
            for name in (*tables_read(self._view), *public_tables_read(self._view)):
                held.enter_context(self._view.tables.table(name).in_turn())
            yield

    def check_records(self) -> None:
        """Refuse CSV files that no standard writer wrote, of every table that the view reads."""
        for name in tables_read(self._view):
            self._view.tables.table(name).check_records()

    def check_files(self) -> None:
        """Refuse files that are not those of when the tables were made, of every table that the view reads."""
        for name in tables_read(self._view):
            rows = self._view.tables.table(name).rows
            if isinstance(rows, ChecksFiles):
                rows.check_files()

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Return all rows of the view, in batches."""
        for part in self.by_persons(wanted, rows=rows):
            yield from part

    def by_persons(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Iterator[Batch]]:
        """Return the rows of one slice of the persons after the other; what fits into one is made once."""
        names = frozenset(wanted.names)
        if names in self._made:
            yield self._made[names].batches(wanted, rows=rows)
            return
        slices_of = made_by_persons(self._view, names)
        while True:
            with np.errstate(all="ignore"):
                made, only = next(slices_of, (None, False))
            if made is None:
                return
            if only:
                self._made[names] = made
            yield made.batches(wanted, rows=rows)
            del made  # before the next one is made

    def fault(self) -> str | None:
        """Return what is wrong with the files, if that is known: nothing here."""
        return None

    def __repr__(self) -> str:
        return "ViewRows(private)"


class ViewTable(Table):
    """A view as a table: what queries run on."""

    __slots__ = ("view",)

    def __init__(self, view: View | PairedView) -> None:
        self.view = view
        self._schema, self._rows, self._path = view.schema, ViewRows(view), None
        self._origin = self._within = None
        self._name, self._public, self._database = f"{view.tables.name}.{view.base}", False, view.tables.name

    def is_file(self, path: str) -> bool:
        """Return whether a path names a file of one of the private tables of the database."""
        return any(self.view.tables.table(name).is_file(path) for name in self.view.tables.private())


def tables_read(view: View | PairedView) -> tuple[str, ...]:
    """Return the tables that a view may read, public ones not counted: those were read before."""
    if isinstance(view, PairedView):
        return tuple(dict.fromkeys(name for side in view.sides for name in tables_read(side)))
    tables = view.tables
    found = [*tables.person_path(view.base)]
    for each in view.lookups.values():
        for step in each.steps:
            found += () if tables.is_public(step.to) else tables.person_path(step.to)
    for fold in view.features.values():
        found += tables_read(view.folded(fold))
    found += () if view.where is None else tables_read(view.source)
    return tuple(dict.fromkeys(found))


def public_tables_read(view: View | PairedView) -> tuple[str, ...]:
    """Return the public tables that the lookups of a view, and of what it folds, lead to."""
    if isinstance(view, PairedView):
        return tuple(dict.fromkeys(name for side in view.sides for name in public_tables_read(side)))
    found = [step.to for each in view.lookups.values() for step in each.steps if view.tables.is_public(step.to)]
    for other in (
        *(view.folded(fold) for fold in view.features.values()),
        *([] if view.where is None else [view.source]),
    ):
        found += public_tables_read(other)
    return tuple(dict.fromkeys(found))


def made_by_persons(view: View | PairedView, wanted: frozenset[str]) -> Iterator[tuple[HeldRows, bool]]:
    """Return the rows of a view with the named columns, of a slice of the persons at a time, and whether it is all."""
    needed: dict[str, NeededColumns] = defaultdict(NeededColumns)
    if isinstance(view, PairedView):
        named = wanted if view.where is None else wanted | {*view.where.columns}
        for place, side in enumerate(view.sides):
            _add_columns(side, _inner(view, place, named), needed)
            needed[side.base].keys |= {*(() if view.links is None else view.links[place])}
        for database in slices(_owners_of(view), needed):
            yield from _pairs_of_slice(view, database, named)
        return
    _add_columns(view, wanted, needed)
    for database in slices(_owners_of(view), needed):
        yield _of_slice(view, database, wanted), database.slice.slices == 1


def _owners_of(view: View | PairedView) -> Owners:
    return Owners(view.tables, periods=view.periods, by_period=view.cap == "block")


def _of_slice(view: View, database: OpenDatabase, wanted: frozenset[str]) -> HeldRows:
    making = ViewOfSlice(view, database, wanted)
    made = making.made()
    inside = database.has(view.base, making.owner)  # tables that were read before a slice was halved have more persons
    database.close()
    return made if inside.all() else made.at(inside)


def _inner(view: PairedView, side: int, names: frozenset[str]) -> frozenset[str]:
    """Return the columns of a side of pairs by their names there."""
    return frozenset(view.named[name][1] for name in names if view.named.get(name, (None,))[0] == side)


def _pairs_of_slice(view: PairedView, database: OpenDatabase, names: frozenset[str]) -> Iterator[tuple[HeldRows, bool]]:
    """Return the pairs of the persons of a slice in parts, and whether there is one alone."""
    made = [ViewOfSlice(side, database, _inner(view, place, names)) for place, side in enumerate(view.sides)]
    held = [each.made() for each in made]
    keys = None if view.links is None else KeyNumbers(view.tables.keys_are_whole(view.linked_table))
    owners, conditions = database.owners, view.conditions()
    sides = []
    for place, (making, rows) in enumerate(zip(made, held, strict=True)):
        texts = [] if view.links is None else [making.base.rows.keys[column] for column in view.links[place]]
        cells = {name: view.named[name][1] for name in names if view.named.get(name, (None,))[0] == place}
        numbers = {name: rows.numbers[inner] for name, inner in cells.items() if inner in rows.numbers}
        labels = {name: rows.texts[inner] for name, inner in cells.items() if inner in rows.texts}
        owner = np.where(database.has(making.view.base, making.owner), making.owner, NONE)
        # all keys are numbered: if a row were left out because no other names its key, other rows would decide about it
        key = None if keys is None else keys.of(texts, grow=True)
        side = PairSide(HeldRows(rows.length, numbers, labels), owner, key, texts, view.read_of(place, names))
        most = view.tables.max_rows(making.view.base)
        sides.append(side.cut(view.schema, conditions[place], _OwnerKeys(owners, making.view.base), most))
    database.close()
    paired = MatchedRows(sides[0], sides[1], (owners.size(view.left), 0 if keys is None else keys.size))
    parts = paired.parts()
    for part in parts:
        yield (
            paired.made(part, view.schema, conditions[2], partial(owners.cells, view.left)),
            len(parts) == 1 and database.slice.slices == 1,
        )


class _OwnerKeys:
    """The keys of the owners of rows of a table, by which a choice among their rows is spread."""

    def __init__(self, owners: Owners, name: str) -> None:
        self._owners, self._name = owners, name

    def keys(self, numbers: Whole) -> Whole:
        """Return the key of each of some owners."""
        distinct, places = np.unique(numbers, return_inverse=True)
        texts = self._owners.cells(self._name, distinct).tolist()
        return np.fromiter((person_key(str(text)) for text in texts), np.int64, len(distinct))[places.reshape(-1)]


def _add_columns(view: View, wanted: frozenset[str], needed: dict[str, NeededColumns]) -> None:
    """Add what a view needs of each table; the path to the person is read anyway."""
    tables = view.tables
    needed[view.base].columns |= wanted if view.keeps_base else set()
    for name, found in view.lookups.items():
        source = view.base
        for step in found.steps if name in wanted else ():
            if step.kind == "key":
                needed[source].keys |= {*step.columns}
                needed[step.to].keys |= {*_key(tables, step.to)}
            source = step.to
        needed[source].columns.add(found.column.name)
    for fold in _folds(view, wanted):
        if not view.folds_persons(fold):
            needed[fold.table].keys |= {*(view.fold_link(fold) or ())}
            needed[view.base].keys |= {*_key(tables, view.base)}
        _add_columns(view.folded(fold), frozenset(fold.columns), needed)
    if view.where is not None:
        _add_columns(view.source, frozenset(view.where.columns), needed)


def _key(tables: LinkedTables, name: str) -> tuple[str, ...]:
    key = tables.schema(name).key
    assert key is not None
    return key.columns


def _folds(view: View, wanted: frozenset[str]) -> Iterator[Fold]:
    """Return the folds that have a wanted column."""
    for name, fold in view.features.items():
        if any(each.name in wanted for each in fold.declared(name, view.folded(fold).schema)):
            yield fold


class ViewOfSlice:
    """A view of the rows of some persons: which rows it has, and their cells.

    `rows` are those of the base, None for all of them, one after the other.
    """

    def __init__(
        self, view: View, database: OpenDatabase, wanted: frozenset[str], base: OpenTable | None = None
    ) -> None:
        self.view, self.database, self.wanted = view, database, wanted
        declared = view.tables.schema(view.base).columns if view.keeps_base else ()
        self.own = [each.name for each in declared if each.name in wanted and not isinstance(each, PersonId)]
        self.base = database.table(view.base) if base is None else base
        self.rows = self._chosen() if view.grouped else None
        self.owner = at(self.base.owner, self.rows, NONE)
        self.lookups = Lookups(database, view.base, self.base, self.owner, self.rows)

    def _chosen(self) -> Whole:
        """Return a row of each person's: the least, by all columns, where it matters which."""
        owner = self._grouped_by()
        there = np.flatnonzero(owner != NONE)
        row = np.full(self.database.owners.size(self.view.base), NONE)
        row[owner[there]] = there
        row = row[np.flatnonzero(row != NONE)]
        if self.view.keeps_base and len(row) < len(there):
            self.base = self.database.table(self.view.base, whole=True)
            return least_rows(self.base, self.view.tables.schema(self.view.base), self._grouped_by())
        return row

    def _grouped_by(self) -> Whole:
        """Return the owner of each row of the base that passes `where`, -1 of others."""
        if self.view.where is None:
            return self.base.owner
        source = ViewOfSlice(self.view.source, self.database, frozenset(self.view.where.columns), self.base)
        held = source.made()
        condition = BatchScope(self.view.source.schema, Batch(held.length, held.numbers, held.texts))
        passed = np.broadcast_to(np.asarray(truth_of(self.view.where, condition)[0], bool), (held.length,))
        return np.where(passed, self.base.owner, NONE)

    def made(self) -> HeldRows:
        """Return the rows with their cells."""
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
                    cells[each.name] = DistinctTexts(["row"], np.zeros(len(self.owner), np.int64))
                (numbers if isinstance(each, Number) else texts)[each.name] = cells[each.name]
        person = None if self.view.grouped else self.database.owners.cells(self.view.base, self.owner)
        return HeldRows(len(self.owner), numbers, texts, person)

    def _found(self, steps: Any, column: str, name: str) -> Any:
        """Return the cells of a column at the end of a path, missing where nothing was found."""
        table, rows = self.lookups.rows_of(steps)
        if column == FOUND:
            return DistinctTexts(list(TRUTHS), np.asarray(rows != NONE).astype(np.int64))
        declared = next(each for each in self.view.schema.columns if each.name == name)
        if isinstance(declared, Number):
            cells = table.rows.numbers[column]
            return cells if rows is None else np.append(cells, np.nan)[rows]
        texts = table.rows.texts[column]
        return texts if rows is None else DistinctTexts([*texts.cells, None], at(texts.places, rows, len(texts.cells)))

    def _folded(self, fold: Fold, declared: Any) -> list[Any]:
        """Return the columns of a fold for each row of the view."""
        view = self.view.folded(fold)
        making = ViewOfSlice(view, self.database, frozenset(fold.columns))
        held = making.made()
        owners = self.database.owners
        owner = owners.matching(self.view.base, fold.table, self.owner)
        if self.view.folds_persons(fold):
            index = PairIndex(owner, None, owners.size(fold.table))
            group = index.find(making.owner, None)
        else:
            link = self.view.fold_link(fold)
            assert link is not None
            index = PairIndex(owner, self.base.own_keys, self.base.numbers.size)
            group = index.find(making.owner, self.base.keys_named(making.base, link))

        def keys_of(groups: Whole) -> Whole:
            """Return the key of the owner of each group."""
            return _OwnerKeys(owners, fold.table).keys(owner[index.row][groups])

        rows = FoldedRows(Batch(held.length, held.numbers, held.texts), view.schema, group, index.groups, keys_of)
        columns: tuple[FoldedColumn, ...] = fold_columns(fold, rows, declared)
        return [
            column.cells(index.group, empty_value(fold, each)) for column, each in zip(columns, declared, strict=True)
        ]


def open_view(view: View | PairedView) -> ViewTable:
    """Return a view as a table for one release. Reads no row.

    Raises:
        SourceError: the view is none.
    """
    if not isinstance(view, (View, PairedView)):
        raise SourceError(f"a view of a database was wanted, got {type(view).__name__}")
    return ViewTable(view)
