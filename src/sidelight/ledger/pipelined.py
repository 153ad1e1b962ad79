"""Questions of a transaction in PostgreSQL, sent together: one answer is waited for in place of one for each.

Written by hand, because SQLAlchemy waits for every statement separately, and a charge has a dozen: with a remote
server or a busy machine, the waiting dominates the time of a charge. The order is that of the calls, and every
statement sees what was committed before it began, so what follows a lock sees what the lock waited for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import psycopg
from sqlalchemy.exc import DBAPIError

from sidelight.ledger.schema import Question, Row, Transaction

if TYPE_CHECKING:
    import sqlalchemy as sa

_PARAMETER: Final = re.compile(r"(?<![:\w]):(\w+)")


class PipelinedTransaction(Transaction):
    """An open transaction that sends what changes rows with the next question, or at its end."""

    def ask_ahead(self, *statements: Question) -> None:
        """Send questions together; `rows` and `row` with the same text and values return their answers, once."""
        answers = self._send(*statements)
        self._ahead = {_name(*asked): rows for asked, (rows, _) in zip(statements, answers, strict=True)}

    def rows(self, sql: str, **parameters: object) -> list[Row]:
        """Return all rows of a query."""
        found = self._ahead.pop(_name(sql, parameters), None)
        return self._send((sql, parameters))[0][0] if found is None else found

    def row(self, sql: str, **parameters: object) -> Row | None:
        """Return the first row of a query, or None."""
        return next(iter(self.rows(sql, **parameters)), None)

    def run(self, sql: str, **parameters: object) -> int:
        """Execute a statement and return how many rows it changed."""
        self._ahead = {}
        return self._send((sql, parameters))[0][1]

    def later(self, sql: str, **parameters: object) -> None:
        """Execute a statement with the next question, at the latest before the commit."""
        self._waiting.append((sql, parameters))
        self._ahead = {}  # what was asked before it is answered anew

    def each(self, sql: str) -> Iterator[Row]:
        """Go through the rows of a long query without holding them all."""
        self._send()
        yield from super().each(sql)

    def define(self, sql: str) -> None:
        """Execute a statement that defines tables or triggers."""
        self._ahead = {}
        self._send()
        super().define(sql)

    def tables(self) -> set[str]:
        """Return the names of the tables that are visible."""
        self._send()
        return super().tables()

    def _send(self, *statements: Question) -> list[tuple[list[Row], int]]:
        """Send what waits and some statements; return rows and number of changed rows of the latter."""
        waiting, self._waiting = self._waiting, []
        if waiting or statements:
            return _together(self._connection, [*waiting, *statements])[len(waiting) :]
        return []


def _name(sql: str, parameters: Mapping[str, object]) -> tuple[object, ...]:
    return (sql, *parameters.items())


@lru_cache(maxsize=256)
def _driver_text(sql: str) -> str:
    """Return a statement with its parameters as the driver writes them.

    >>> _driver_text("SELECT totals FROM scope WHERE scope_id = :scope_id")
    'SELECT totals FROM scope WHERE scope_id = %(scope_id)s'
    """
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


def _together(connection: sa.Connection, statements: Sequence[Question]) -> list[tuple[list[Row], int]]:
    raw: Any = connection.connection.dbapi_connection
    first: psycopg.Error | None = None
    try:
        with raw.pipeline():
            try:
                cursors = [raw.execute(_driver_text(sql), parameters) for sql, parameters in statements]
            except psycopg.Error as raised:  # if it left the pipeline, psycopg would print what it finds on its way out
                first = raised
        if first is not None:
            raise first
        return [(cursor.fetchall() if cursor.description else [], cursor.rowcount) for cursor in cursors]
    except psycopg.Error as raised:
        error = first or raised
        lost = bool(raw.closed or raw.pgconn.pipeline_status)  # in the middle of a pipeline it is of no use any more
        if lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            None, None, error, psycopg.Error, connection_invalidated=lost, dialect=connection.dialect
        ) from error
