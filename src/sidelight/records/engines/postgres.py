"""Tables of PostgreSQL, read by ADBC as Arrow batches, never as Python objects.

Types are those of the server's catalogue. Types that ADBC changes or wraps are converted in SQL, cell by cell and so
that none can fail: decimals become the nearest float; dates and times beyond the years 1 to 9999 (and the server's
infinities, which ADBC would turn into dates long ago) become the first or the last of these; long texts, which could
make a row larger than the server sends, become their beginnings and digests.

Every pass reads the same snapshot, taken when the first row is read and held as long as the table, with a lock against
TRUNCATE, which no snapshot hides: later writes are not seen. Private tables of a database that come from one address
share it. A forked child may read it too, and does not end it.
Nothing runs before a charge, not even the planner, which may call functions of a view: the statement is only described.
No message of the server is shown, because it may quote a cell, and nothing of the address, because it may hold a
password.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, TypeVar

import pyarrow as pa

from sidelight.errors import SourceError, nearest
from sidelight.fork_guard import finalize_here, is_inherited, kept_from_children
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrow import StreamRows
from sidelight.records.engines.duckdb import quoted
from sidelight.records.rows import ColumnType, TypeKind, hide_engine_errors

Result = TypeVar("Result")

#: From here on the nearest float is infinite, and below the second it is 0: a cast would raise for one such cell.
_INFINITE, _ZERO = 2**1024 - 2**970, "2.5e-324"
#: The bytes of a text, and of the texts of a row, up to which they are sent as they are. The server sends rows of less
#: than 1 GiB: what stands for longer texts has at most four times these bytes, in all 512 MiB.
_LONGEST_TEXT, _LONGEST_ROW = 2**20, 2**27
#: Types of texts without a small limit of their own.
_LONG = ("text", "character varying", "character")
_KINDS: Mapping[str, TypeKind] = {
    **dict.fromkeys(("smallint", "integer", "bigint"), "integer"),
    **dict.fromkeys(("real", "double precision", "numeric"), "float"),
    **dict.fromkeys(("text", "character varying", "character", "name", "uuid"), "text"),
    **dict.fromkeys(("date", "timestamp without time zone", "timestamp with time zone"), "date"),
    "boolean": "boolean",
}
#: Foreign tables are left out: their rows are of another server, which no snapshot of this one holds still.
_LISTED = (
    "SELECT n.nspname::text, c.relname::text, pg_catalog.pg_table_is_visible(c.oid) FROM pg_catalog.pg_class c "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm') "
    "AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'"
)
_COLUMNS = (
    "SELECT a.attname::text, format_type(a.atttypid, NULL)::text, t.typtype = 'e', "
    "has_schema_privilege(n.oid, 'USAGE') AND has_column_privilege(c.oid, a.attnum, 'SELECT') FROM pg_attribute a "
    "JOIN pg_type t ON t.oid = a.atttypid JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n "
    "ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped "
    "ORDER BY a.attnum"
)
#: Limits on time would fail a release by how many rows there are; each with the first server that knows it.
_TIME_LIMITS = {"statement_timeout": 0, "idle_in_transaction_session_timeout": 90_600, "transaction_timeout": 170_000}
#: How long a pass waits for another transaction, which may itself wait for the end of the snapshot.
_PATIENCE = "30s"
#: What a transaction says first: it only reads, and all it reads is of one moment, or each statement of its own.
_ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
_EACH_ITS_OWN = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED READ ONLY"
_INSTEAD = (
    "or, on a DuckDB connection of yours, connection.execute(\"INSTALL postgres; LOAD postgres; ATTACH '...' AS pg "
    "(TYPE postgres, READ_ONLY)\") and sl.Table(connection.sql('SELECT ... FROM pg.public.people'), ...)"
)


class PostgresRows(StreamRows):
    """The rows of a table or view of a PostgreSQL server."""

    name = "postgres"
    starts_anew = True
    _source: Snapshot

    def __init__(
        self,
        source: Snapshot,
        kinds: Mapping[str, ColumnType],
        *,
        origin: tuple[str, ...],
        dates: Mapping[str, Calendar] | None = None,
    ) -> None:
        super().__init__(source, source.schema, dates=dates)
        self._kinds, self.origin = dict(kinds), origin

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """All columns of the table and their types, as the server's catalogue has them."""
        return self._kinds

    def read_at_moment_of(self, others: Sequence[Any]) -> None:
        """Read the same moment as another table of the same address, if there is one and neither was read yet."""
        for other in others:
            if isinstance(other, PostgresRows) and self._source.share(other._source):
                return

    def fault(self) -> str:
        """Return the message for rows that could not be read."""
        return (
            "the PostgreSQL server could not be reached again, or failed while it read the rows; its message is "
            "withheld because it may quote a record: look into its log, check that the table has the columns and types "
            "that it had, that the connection with the snapshot was not ended and no other session waits to change or "
            "empty the table, and make the table again"
        )


class Snapshot:
    """Some columns of a table at one moment, as an Arrow stream that starts anew whenever it is asked for."""

    def __init__(self, address: str, statement: str) -> None:
        self._address, self._statement = address, statement
        self._moment = _Moment(address, statement)
        self.schema = _described(address, self._columns)

    def share(self, other: Snapshot) -> bool:
        """Take the moment of another table of the same address; return whether that was possible."""
        return self._address == other._address and other._moment.take_in(self)

    def _columns(self, connection: Any) -> pa.Schema:
        with connection.cursor() as cursor:
            return cursor.adbc_execute_schema(self._statement)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand a new stream over; no row is read before its first batch is asked for."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        number = self._moment.number()
        connection = _connected(self._address)
        try:
            _say(connection, f"SET TRANSACTION SNAPSHOT '{number}'")
            cursor = kept_from_children(connection.cursor())
            try:
                cursor.execute(self._statement)
                reader = kept_from_children(cursor.fetch_record_batch())
                if not reader.schema.equals(self.schema):
                    raise SourceError("the PostgreSQL table has other columns or types than before; make it again")
                yield from reader
            finally:
                _close(cursor)  # whose end is the end of what it reads
        finally:
            _close(connection)

    def __repr__(self) -> str:
        return "Snapshot(postgres)"


class _Moment:
    """One moment of a server, at which every pass over some tables reads them; taken when the first row is read."""

    def __init__(self, address: str, statement: str) -> None:
        self._address, self._statements = address, [statement]
        self._number: str | None = None
        self._one_at_a_time: dict[int, Lock] = {}  # by process: in a child, the parent's may be held for ever

    def take_in(self, table: Snapshot) -> bool:
        """Read another table at this moment, too, unless one of the two was taken already."""
        if self._number is not None or table._moment._number is not None:
            return False
        self._statements.append(table._statement)
        table._moment = self
        return True

    def number(self) -> str:
        """Return the number of the snapshot, which one connection holds as long as this object lives."""
        with self._one_at_a_time.setdefault(os.getpid(), Lock()):
            if self._number is None:
                holder = _connected(self._address, begin=_EACH_ITS_OWN)
                finalize_here(self, _close, holder)
                with holder.cursor() as cursor:
                    for statement in self._statements:
                        # locks all that it would read, and views are made of; the snapshot is of a later moment
                        cursor.execute(f"{statement} LIMIT 0")
                        cursor.fetchall()
                    cursor.execute("SELECT pg_export_snapshot()::text")
                    self._number = str(cursor.fetchone()[0])
            return self._number


def open_postgres(
    address: str, names: Sequence[str], *, table: str | None, dates: Mapping[str, Calendar] | None = None
) -> PostgresRows:
    """Find a table or view by its name, and the types of its columns; no row is read."""
    check_postgres(table)
    assert table is not None
    place, found, encoding = _described(address, lambda connection: _catalogue(connection, table))
    kinds = {name: ColumnType("text" if enum else _KINDS.get(kind, "other"), kind) for name, kind, enum, _ in found}
    read = [name for name in kinds if name in names and kinds[name].kind != "other"]
    hidden = [name for name, _, _, may_read in found if name in read and not may_read]
    if hidden:
        raise SourceError(
            f"this user of the PostgreSQL database may not read {', '.join(map(repr, hidden))} of {table!r}; it "
            "needs GRANT SELECT on the table, and USAGE on its schema"
        )
    texts = [name for name in read if kinds[name].kind == "text" and kinds[name].native != "uuid"]
    if encoding != "UTF8" and texts:
        raise SourceError(
            f"the PostgreSQL database is in {encoding}, and one cell of {', '.join(map(repr, texts))} that has no "
            "place in UTF8 would fail a release; copy it into a database made with ENCODING 'UTF8', or declare no texts"
        )
    longest = min(_LONGEST_TEXT, _LONGEST_ROW // max(1, len(texts)))
    columns = ", ".join(f"{_cell(quoted(name), kinds[name], longest)} AS {quoted(name)}" for name in read)
    statement = f"SELECT {columns or '1 AS nothing'} FROM {'.'.join(map(quoted, place))}"
    return PostgresRows(Snapshot(address, statement), kinds, origin=(address, *place), dates=dates)


def check_postgres(table: str | None) -> None:
    """Refuse an address without a table."""
    if table is None:
        raise SourceError(
            "a PostgreSQL database holds several tables; say which, as in table='people' or table='public.people', "
            f"{_INSTEAD}"
        )


def _catalogue(connection: Any, table: str) -> tuple[tuple[str, str], list[Any], str]:
    """Return where a table is, its columns as rows of `_COLUMNS`, and the encoding of the database."""
    place = _place(connection, table)
    _say(connection, "SET search_path TO pg_catalog")  # or types of others would have the names of the server's own
    with connection.cursor() as cursor:
        cursor.execute(_COLUMNS, place)
        found = cursor.fetchall()
        cursor.execute("SELECT current_setting('server_encoding')")
        return place, found, str(cursor.fetchone()[0])


def _place(connection: Any, table: str) -> tuple[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(_LISTED)
        listed = cursor.fetchall()
    found: dict[str, set[tuple[str, str]]] = {}
    for space, name, visible in listed:
        for known_as in (f"{space}.{name}", str(name))[: 2 if visible else 1]:
            found.setdefault(known_as, set()).add((str(space), str(name)))
    if table not in found:
        raise SourceError(
            f"the PostgreSQL database has no table {table!r} that this user finds; {nearest(table, found)}"
        )
    if len(found[table]) > 1:
        raise SourceError(
            f"two tables of the PostgreSQL database answer to {table!r}: one has this name with its dot, the other is "
            "in the schema before the dot; write the schema before the first, or make a view of another name"
        )
    (place,) = found[table]
    return place


def _cell(column: str, kind: ColumnType, longest: int) -> str:
    """Write a column so that ADBC hands its cells over unchanged, except for texts of more bytes, and no cell fails.

    Names are those of `pg_catalog`, whatever the search path finds first; a view's functions keep the path of the user.
    """
    if kind.native == "numeric":
        same, above, below, less = (f"OPERATOR(pg_catalog.{sign})" for sign in ("=", ">=", "<=", "<"))
        return (
            f"CASE WHEN {column} IS NULL OR {column} {same} 'NaN'::numeric THEN NULL "
            f"WHEN {column} {above} '{_INFINITE}'::numeric THEN 'Infinity' "
            f"WHEN {column} {below} '-{_INFINITE}'::numeric THEN '-Infinity' "
            f"WHEN pg_catalog.abs({column}) {less} '{_ZERO}'::numeric THEN 0 ELSE {column}::pg_catalog.float8 END"
        )
    if kind.native in _LONG:
        # Longer than every text that stays, and different for different texts: equality is what it was.
        text = f"{column}::pg_catalog.text"
        digest = f"pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to({text}, 'UTF8')), 'hex')"
        return (
            f"CASE WHEN pg_catalog.octet_length({text}) OPERATOR(pg_catalog.<=) {longest} THEN {text} "
            f"ELSE pg_catalog.textcat(pg_catalog.substr({text}, 1, {longest}), {digest}) END"
        )
    if kind.kind == "text":
        return f"{column}::pg_catalog.text"
    if kind.kind != "date":
        return column
    zone = "+00" if kind.native == "timestamp with time zone" else ""
    first, last = (f"'{day}{zone}'" for day in ("0001-01-01", "9999-12-31"))
    if kind.native != "date":
        last = f"'9999-12-31 23:59:59.999999{zone}'"
        first = f"'0001-01-01 00:00:00{zone}'"
    native = "pg_catalog.date" if kind.native == "date" else kind.native
    # LEAST and GREATEST pass over nulls
    limited = f"LEAST(GREATEST({column}, {first}::{native}), {last}::{native})"
    return f"CASE WHEN {column} IS NOT NULL THEN {limited} END"


_REFUSED = (
    "the PostgreSQL server refused to describe the table, or to begin reading it; its message is withheld because it "
    "may quote a record: check by psql that this user may read it, and that no other session is changing it"
)


def _described(address: str, ask: Callable[[Any], Result]) -> Result:
    """Ask the server about a table on a new connection; its error messages are not shown."""
    connection = _connected(address)
    try:
        return hide_engine_errors(lambda: ask(connection), message=_REFUSED)
    finally:
        _close(connection)


def _connected(address: str, *, begin: str = _ONE_MOMENT) -> Any:
    """Open a connection and begin a transaction; error messages of the server are not shown."""
    try:
        import adbc_driver_postgresql.dbapi as driver
    except ImportError:
        raise SourceError(
            'tables of PostgreSQL are read by ADBC: pip install "sidelight[postgres-tables]", ' + _INSTEAD
        ) from None
    reason = ""
    try:
        connection = kept_from_children(driver.connect(address))
    except Exception as error:
        reason = type(error).__name__
    if reason:
        raise SourceError(
            f"the PostgreSQL server cannot be reached ({reason}); its message is withheld because it may hold the "
            "address: try the same address by psql. A password is better kept in ~/.pgpass or PGPASSWORD than in it"
        )
    begun = False
    try:
        hide_engine_errors(lambda: _begin(connection, begin), message=_REFUSED)
        begun = True
    finally:
        if not begun:
            _close(connection)
    return connection


def _begin(connection: Any, begin: str) -> None:
    """Apply the settings of this transaction before any query."""
    server = int(connection.adbc_get_info()["vendor_version"])
    unlimited = [f"{name} TO 0" for name, since in _TIME_LIMITS.items() if server >= since]
    # notices are printed by the library, and a view's function may put a cell into one
    first = ("client_encoding TO 'UTF8'", "client_min_messages TO error", f"lock_timeout TO '{_PATIENCE}'")
    for setting in (*first, *unlimited):
        _say(connection, f"SET {setting}")
    _say(connection, begin)


def _say(connection: Any, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def _close(open_one: Any) -> None:
    """Close a connection or a cursor, unless it is the parent's: a forked child shares its socket."""
    if not is_inherited(open_one):
        with suppress(Exception):
            open_one.close()
