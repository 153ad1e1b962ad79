"""What a query may ask about the place where rows are, before anything is charged: public facts and nothing else.

`prepare` sees the schema alone, which says nothing about files. A query that cannot read every kind of source says so
in `check_source`, and the door asks it before the charge; without it the query would fail afterwards, and be paid for.
A prepared query that holds others passes the question on with `check_source(inner, table)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from sidelight.records import Schema, Table
from sidelight.session.query import Prepared


@dataclass(frozen=True, kw_only=True)
class PublicSource:
    """The public description of a table: its declarations, and where its rows are. Never how many they are.

    >>> from sidelight.records import Number
    >>> table = Table({"age": [31, 47]}, schema=[Number("age")])
    >>> PublicSource.of(table).engine, PublicSource.of(table).in_memory
    ('numpy', True)
    """

    schema: Schema
    engine: str
    in_memory: bool

    @classmethod
    def of(cls, table: Table) -> Self:
        """Describe a table. Reads no row."""
        return cls(schema=table.schema, engine=table.engine, in_memory=table.rows.length is not None)


@runtime_checkable
class ChecksSource(Protocol):
    """A prepared query that cannot read every kind of source."""

    def check_source(self, source: PublicSource) -> None:
        """Raise a `SourceError` if this query cannot read such a source; a function of public facts alone."""
        ...


@runtime_checkable
class ChecksRows(Protocol):
    """A prepared query that somebody may have handed private rows beside the table's."""

    def check_rows(self, table: Table) -> None:
        """Raise if what the query brings along is, by content, rows of the table.

        That is no public fact, but one for the owner, who gets an error and nothing else: no charge, no release.
        """
        ...


def check_source(prepared: Prepared, table: Table) -> None:
    """Let a prepared query refuse a table that it could not read, before it is charged.

    A CSV file that no standard writer wrote is refused here, too. That is no public fact but one for the owner, who
    gets an error and nothing else: no charge, no entry in the ledger, no release.
    """
    if isinstance(prepared, ChecksSource):
        prepared.check_source(PublicSource.of(table))
    if not getattr(prepared, "brings_rows", False):
        table.check_records()
    if isinstance(prepared, ChecksRows):
        prepared.check_rows(table)
