"""Tables of PostgreSQL, read by ADBC: batches of Arrow, and never a row as Python objects.

Types are those of the server's catalogue. What ADBC hands over in another way, or wraps around, is said in SQL, for
each cell by itself and so that none can fail: decimals become the nearest float, dates and times beyond the years 1 to
9999 (and the server's infinities, which ADBC would turn into dates long ago) become the first or the last of these.

Every pass reads the same snapshot, taken when the first row is read and held as long as the table: rows that others
write in between are not seen. Nothing that the server says is shown, because it may quote a cell, and nothing of the
address, because it may hold a password.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

import pyarrow as pa

from sidelight.errors import SourceError, nearest
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrow_streams import StreamRows
from sidelight.records.rows import ColumnType, TypeKind

#: From here on the nearest float is infinite, and below the second it is 0: a cast would raise for one such cell.
_INFINITE, _ZERO = 2**1024 - 2**970, "2.5e-324"
_KINDS: Mapping[str, TypeKind] = {
    **dict.fromkeys(("smallint", "integer", "bigint"), "integer"),
    **dict.fromkeys(("real", "double precision", "numeric"), "float"),
    **dict.fromkeys(("text", "character varying", "character", "name", "uuid"), "text"),
    **dict.fromkeys(("date", "timestamp without time zone", "timestamp with time zone"), "date"),
    "boolean": "boolean",
}
_LISTED = (
    "SELECT n.nspname::text, c.relname::text, pg_table_is_visible(c.oid) FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') "
    "AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'"
)
_COLUMNS = (
    "SELECT a.attname::text, format_type(a.atttypid, NULL)::text, t.typtype = 'e' FROM pg_attribute a "
    "JOIN pg_type t ON t.oid = a.atttypid JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n "
    "ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped "
    "ORDER BY a.attnum"
)
#: What every connection says first: it only reads, and all it reads is of one moment.
_BEGIN = ("SET client_encoding TO 'UTF8'", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
_INSTEAD = (
    "or, on a DuckDB connection of yours, connection.execute(\"INSTALL postgres; LOAD postgres; ATTACH '...' AS pg "
    "(TYPE postgres, READ_ONLY)\") and sl.Table(connection.sql('SELECT ... FROM pg.public.people'), ...)"
)


class PostgresRows(StreamRows):
    """The rows of a table or view of a PostgreSQL server."""

    name = "postgres"

    def __init__(
        self, source: Snapshot, kinds: Mapping[str, ColumnType], *, dates: Mapping[str, Calendar] | None = None
    ) -> None:
        super().__init__(source, source.schema, dates=dates)
        self._kinds = dict(kinds)

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """All columns of the table and their types, as the server's catalogue has them."""
        return self._kinds

    def fault(self) -> str:
        """Return the words for rows that could not be read."""
        return (
            "the PostgreSQL server could not be reached again, or failed while it read the rows; its message is "
            "withheld because it may quote a record: look into its log, check that the table has the columns and types "
            "that it had, that nobody ended the connection that holds the snapshot, and make the table again"
        )


class Snapshot:
    """Some columns of a table at one moment, as an Arrow stream that starts anew whenever it is asked for."""

    def __init__(self, address: str, statement: str) -> None:
        self._address, self._statement = address, statement
        self._number: str | None = None
        self._one_at_a_time = Lock()
        connection = _connected(address)
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"{statement} LIMIT 0")
                self.schema = cursor.fetch_record_batch().schema
        finally:
            _close(connection)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand a new stream over; no row is read before its first batch is asked for."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        number = self._moment()
        connection = _connected(self._address)
        try:
            _say(connection, f"SET TRANSACTION SNAPSHOT '{number}'")
            with connection.cursor() as cursor:  # whose end is the end of what it reads
                cursor.execute(self._statement)
                reader = cursor.fetch_record_batch()
                if not reader.schema.equals(self.schema):
                    raise SourceError("the PostgreSQL table has other columns or types than before; make it again")
                yield from reader
        finally:
            _close(connection)

    def _moment(self) -> str:
        """Return the number of the snapshot, which one connection holds as long as this object lives."""
        with self._one_at_a_time:
            if self._number is None:
                holder = _connected(self._address)
                weakref.finalize(self, _close, holder)
                with holder.cursor() as cursor:
                    cursor.execute("SELECT pg_export_snapshot()::text")
                    self._number = str(cursor.fetchone()[0])
            return self._number

    def __repr__(self) -> str:
        return "Snapshot(postgres)"


def open_postgres(
    address: str, names: Sequence[str], *, table: str | None, dates: Mapping[str, Calendar] | None = None
) -> PostgresRows:
    """Find a table or view by its name, and the types of its columns; no row is read."""
    check_postgres(table)
    assert table is not None
    connection = _connected(address)
    try:
        place = _place(connection, table)
        with connection.cursor() as cursor:
            cursor.execute(_COLUMNS, place)
            found = cursor.fetchall()
    finally:
        _close(connection)
    kinds = {name: ColumnType("text" if enum else _KINDS.get(kind, "other"), kind) for name, kind, enum in found}
    read = [name for name in kinds if name in names and kinds[name].kind != "other"]
    columns = ", ".join(f"{_cell(_quoted(name), kinds[name])} AS {_quoted(name)}" for name in read)
    statement = f"SELECT {columns or '1 AS nothing'} FROM {'.'.join(map(_quoted, place))}"
    return PostgresRows(Snapshot(address, statement), kinds, dates=dates)


def check_postgres(table: str | None) -> None:
    """Refuse an address without a table: what it has is found out when it is opened."""
    if table is None:
        raise SourceError(
            "a PostgreSQL database holds several tables; say which, as in table='people' or table='public.people', "
            f"{_INSTEAD}"
        )


def _place(connection: Any, table: str) -> tuple[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(_LISTED)
        listed = cursor.fetchall()
    found = {f"{space}.{name}": (str(space), str(name)) for space, name, _ in listed}
    found |= {str(name): (str(space), str(name)) for space, name, visible in listed if visible}
    if table not in found:
        raise SourceError(
            f"the PostgreSQL database has no table {table!r} that this user finds; {nearest(table, found)}"
        )
    return found[table]


def _cell(column: str, kind: ColumnType) -> str:
    """Write a column so that ADBC hands over what its cells say, and no cell fails."""
    if kind.native == "numeric":
        return (
            f"CASE WHEN {column} IS NULL OR {column} = 'NaN' THEN NULL WHEN {column} >= {_INFINITE} THEN 'Infinity' "
            f"WHEN {column} <= -{_INFINITE} THEN '-Infinity' WHEN abs({column}) < {_ZERO} THEN 0 "
            f"ELSE {column}::float8 END"
        )
    if kind.kind == "text":
        return f"{column}::text"
    if kind.kind != "date":
        return column
    zone = "+00" if kind.native == "timestamp with time zone" else ""
    first, last = (f"'{day}{zone}'" for day in ("0001-01-01", "9999-12-31"))
    if kind.native != "date":
        last = f"'9999-12-31 23:59:59.999999{zone}'"
        first = f"'0001-01-01 00:00:00{zone}'"
    # LEAST and GREATEST pass over nulls
    limited = f"LEAST(GREATEST({column}, {first}::{kind.native}), {last}::{kind.native})"
    return f"CASE WHEN {column} IS NOT NULL THEN {limited} END"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _connected(address: str) -> Any:
    """Open a connection that reads one snapshot; what the server says about a failure is not shown."""
    try:
        import adbc_driver_postgresql.dbapi as driver
    except ImportError:
        raise SourceError(
            'tables of PostgreSQL are read by ADBC: pip install "sidelight[postgres-tables]", ' + _INSTEAD
        ) from None
    reason = ""
    try:
        connection = driver.connect(address)
    except Exception as error:
        reason = type(error).__name__
    if reason:
        raise SourceError(
            f"the PostgreSQL server cannot be reached ({reason}); its message is withheld because it may hold the "
            "address: try the same address by psql. A password is better kept in ~/.pgpass or PGPASSWORD than in it"
        )
    for statement in _BEGIN:
        _say(connection, statement)
    return connection


def _say(connection: Any, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def _close(connection: Any) -> None:
    with suppress(Exception):
        connection.close()
