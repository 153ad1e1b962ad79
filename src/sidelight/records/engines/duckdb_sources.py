"""Tables of the user in DuckDB: relations, tables of a connection, and DuckDB files.

On the user's connection or file we run only the relation itself and the choice of its columns: no comparison, function
or operator of ours, because settings, collations and macros of a connection change their meaning. With `SET
default_collation = 'nocase'`, or a column declared so, "ann" equals "ANN", and a cap on rows would merge two persons. A
macro may be called `md5` or `isnan`. So the columns are handed over as Arrow, and all expressions run on a connection
of our own (`duckdb`), where texts are equal if their bytes are.

The user's settings still decide how types are written in Arrow (`arrow_lossless_conversion` and its like);
`RelationStream` unifies them. DuckDB has no Arrow type for 128-bit integers: they come as digits, by a cast, which no
setting changes. Texts come by 32-bit offsets unless the user set `arrow_large_buffer_size`, which is a setting of the
whole database and not ours to change: batches are smaller here, because one whose texts reach 2**31 bytes would raise.

A connection runs one query at a time, and a cursor of it would see other rows (those of its own transaction) and no
temporary tables. So releases of several threads wait for one another (`SourceRows.in_turn`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import RLock
from typing import Any

import duckdb
import pyarrow as pa

from sidelight.errors import SourceError, nearest
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrow import StreamRows
from sidelight.records.engines.duckdb import RowsByDuckDB, connect, quoted, reader_of, types_of
from sidelight.records.rows import BATCH_ROWS, ColumnType, Wanted, hide_engine_errors

#: One lock for all of them, by process: a relation does not say whose it is, and a child's may be held for ever.
_one_at_a_time: dict[int, AbstractContextManager[object]] = {}


@dataclass(frozen=True, repr=False)
class RelationStream:
    """Some columns of a relation as an Arrow stream, which starts anew whenever it is asked for."""

    relation: duckdb.DuckDBPyRelation
    names: tuple[str, ...]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand a new stream over."""
        reader = reader_of(self.relation, rows=BATCH_ROWS)
        schema = self._schema(reader.schema)
        if not schema.equals(reader.schema):
            reader = pa.RecordBatchReader.from_batches(schema, (_rewritten(batch, schema) for batch in reader))
        return reader.__arrow_c_stream__(requested_schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types in Arrow, found without a row."""
        return self._schema(reader_of(self.relation.limit(0)).schema)

    def _schema(self, found: pa.Schema) -> pa.Schema:
        return pa.schema(list(zip(self.names, map(_plain, found.types), strict=True)))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column: truths come as bytes of an extension where the user wants no type to be lost."""
    truths = isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.bool8"
    return pa.bool_() if truths else kind


def _rewritten(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        column if column.type == field.type else column.storage.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _turn() -> AbstractContextManager[object]:
    return _one_at_a_time.setdefault(os.getpid(), RLock())


class SourceRows(RowsByDuckDB):
    """The rows of a relation of the user."""

    name = "duckdb"
    check_reads_records = False

    def __init__(self, relation: duckdb.DuckDBPyRelation, *, dates: Mapping[str, Calendar] | None = None) -> None:
        self._relation = relation
        self._types = types_of(relation)
        self._places = {name: place for place, name in enumerate(relation.columns, start=1)}
        self._columns = hide_engine_errors(lambda: _columns_of(relation))
        self._dates = dict(dates or {})
        self._chosen(name for name, found in self._types.items() if found.kind != "other")  # bound now, not run

    @property
    def types(self) -> Mapping[str, ColumnType]:
        return self._types

    def hands_keys(self, wanted: Wanted) -> bool:
        """Return True: batches come as a stream of Arrow."""
        return True

    def in_turn(self) -> AbstractContextManager[object]:
        """Return the lock that is held while a table of a DuckDB connection is read."""
        return _turn()

    def check_records(self) -> None:
        """Refuse a relation that cannot be read now: another query of its connection is open, or it is closed.

        It is planned and not run: even without a row of its result, a query may meet rows that make it fail.
        """
        hide_engine_errors(
            lambda: self._relation.explain(),
            message="the DuckDB connection cannot run the table's relation now; fetch or close the result of your own "
            "query on it, in this and other threads, and make the table again if the connection was closed",
        )

    def relation(self, wanted: Wanted) -> StreamRows:
        if hide_engine_errors(lambda: _columns_of(self._relation)) != self._columns:
            raise SourceError(
                "the columns of the DuckDB relation have changed since sl.Table(...) was made, and one might be read "
                "for another; make the table anew. What was charged for this release stays charged"
            )
        names = wanted.names
        stream = RelationStream(self._chosen(names), names)
        dates = {name: calendar for name, calendar in self._dates.items() if name in names}
        return StreamRows(stream, hide_engine_errors(lambda: stream.schema), dates=dates)

    def _chosen(self, names: Iterable[str]) -> duckdb.DuckDBPyRelation:
        parts = [f"{self._cell(name)} AS {quoted(name)}" for name in names]
        return hide_engine_errors(lambda: self._relation.project(", ".join(parts))) if parts else self._relation

    def _cell(self, name: str) -> str:
        # by its position: names are found regardless of case, and of columns id, id, id_1 DuckDB calls the second id_1
        cell = f"#{self._places[name]}"
        return f"CAST({cell} AS VARCHAR)" if self._types[name].native in ("HUGEINT", "UHUGEINT") else cell


def _columns_of(relation: duckdb.DuckDBPyRelation) -> list[tuple[str, str]]:
    """Return the names and types of a relation as it is bound now; no row is read."""
    fresh = relation.limit(0)
    return list(zip(fresh.columns, map(str, fresh.types), strict=True))


def open_relation(source: Any, *, table: str | None = None, dates: Mapping[str, Calendar] | None = None) -> SourceRows:
    """Take a DuckDB relation, or a table of a connection by its name; they run on the user's own connection."""
    if isinstance(source, duckdb.DuckDBPyConnection):
        with _turn():
            return _named_table(source, table, where="the connection", dates=dates)
    if not isinstance(source, duckdb.DuckDBPyRelation):
        raise SourceError(
            f"a DuckDB source must be a relation or a connection, got {type(source).__name__}; write "
            "connection.table('name') or connection.sql('select ...')"
        )
    if table is not None:
        raise SourceError("table=... names a table of a DuckDB connection or file, and a relation is one; leave it out")
    with _turn():
        return SourceRows(source, dates=dates)


def open_database(path: str, *, table: str | None, dates: Mapping[str, Calendar] | None = None) -> SourceRows:
    """Open a DuckDB file for reading and take one of its tables; its views may read nothing outside of the file."""
    reason = ""
    try:
        connection = connect(path)
    except duckdb.Error as error:
        reason = type(error).__name__
    if reason:
        raise SourceError(
            f"the DuckDB file {path!r} cannot be opened ({reason}); if this program has it open, give that connection, "
            "sl.Table(connection, table=...), and if another one writes to it, wait until that is done"
        )
    return _named_table(connection, table, where=repr(path), dates=dates)


def _named_table(
    connection: duckdb.DuckDBPyConnection,
    table: str | None,
    *,
    where: str,
    dates: Mapping[str, Calendar] | None,
) -> SourceRows:
    """Find a table or view by its name, or by schema and name with a dot between them."""
    listed = (
        "SELECT database_name, schema_name, table_name FROM duckdb_tables() WHERE NOT internal UNION ALL "
        "SELECT database_name, schema_name, view_name FROM duckdb_views() WHERE NOT internal"
    )
    found: dict[str, list[tuple[str, ...]]] = {}
    for place in hide_engine_errors(lambda: connection.execute(listed).fetchall()):
        for end in (1, 2, 3):
            found.setdefault(".".join(place[-end:]), []).append(place)
    if table is None:
        names = ", ".join(repr(name) for name in sorted({place[-1] for places in found.values() for place in places}))
        raise SourceError(
            f"{where} may hold several tables; say which, as in table='people' (there are: {names or 'none'})"
        )
    places = found.get(table, [])
    if not places:
        raise SourceError(f"{where} has no table {table!r}; {nearest(table, found)}")
    if len(places) > 1:
        raise SourceError(f"{where} has several tables {table!r}; write schema and name, as in 'main.{table}'")
    found_name = ".".join(map(quoted, places[0]))
    return SourceRows(hide_engine_errors(lambda: connection.sql(f"SELECT * FROM {found_name}")), dates=dates)
