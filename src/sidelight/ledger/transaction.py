"""One open transaction of a ledger's database: plain SQL text with named parameters, plain rows back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Protocol

import sqlalchemy as sa

from sidelight.ledger.schema import Dialect

Row = tuple[Any, ...]


class ComparedScopes(Protocol):
    """The scopes' rows, once they are compared with what the newest event signs (`signed.SignedScopes`)."""

    def digest(self) -> str:
        """Return the digest of the rows as they are now."""
        ...


@lru_cache(maxsize=256)
def _text(sql: str) -> sa.TextClause:
    return sa.text(sql)


class Transaction:
    """One open transaction: plain SQL text with named parameters, plain rows back."""

    def __init__(self, connection: sa.Connection, dialect: Dialect, *, ledger_id: str | None = None) -> None:
        self._connection = connection
        self.ledger_id = ledger_id
        self.dialect: Dialect = dialect
        self.head: tuple[str, int, str] | None = None  # identity, seq and hash, once the head is locked
        self.scopes: ComparedScopes | None = None

    def rows(self, sql: str, **parameters: object) -> list[Row]:
        """Return all rows of a query."""
        return [tuple(row) for row in self._connection.execute(_text(sql), parameters)]

    def row(self, sql: str, **parameters: object) -> Row | None:
        """Return the first row of a query, or None."""
        row = self._connection.execute(_text(sql), parameters).first()
        return None if row is None else tuple(row)

    def each(self, sql: str) -> Iterator[Row]:
        """Go through the rows of a long query without holding them all."""
        # for this statement alone: set on the connection it would stay, and PostgreSQL would open cursors for INSERTs
        with self._connection.execute(_text(sql), execution_options={"yield_per": 1000}) as result:
            for row in result:
                yield tuple(row)

    def run(self, sql: str, **parameters: object) -> int:
        """Execute a statement and return how many rows it changed."""
        return self._connection.execute(_text(sql), parameters).rowcount

    def define(self, sql: str) -> None:
        """Execute a statement that defines tables or triggers."""
        self._connection.exec_driver_sql(sql)

    def tables(self) -> set[str]:
        """Return the names of the tables that are visible."""
        return set(sa.inspect(self._connection).get_table_names())
