"""A query on rows other than the session's table, priced for the session's protected unit.

An estimator's X was derived from the session's table. How many of its rows a person has, only a schema of X says that
declares persons. Without one a session that protects persons is refused, because noise for one row would be sold as
noise for a person, who may have any number of rows in X.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sidelight.errors import RangeError
from sidelight.guarantees import Claims, Person
from sidelight.guarantees.units import rows_of_unit
from sidelight.noise import OSEntropy, Source
from sidelight.records import Schema, Table
from sidelight.release import Outcome
from sidelight.session.accounts import OneOffAccount
from sidelight.session.pipeline import release_through
from sidelight.session.query import Answer, Prepared, PublicSource, Refusal, check_source
from sidelight.session.session import Session


@dataclass(frozen=True, kw_only=True, eq=False)
class ExternalRows:
    """A query that was prepared for its own rows, and the rows: a matrix that the user derived from a table."""

    prepared: Prepared
    rows: Table

    def prepare(self, schema: Schema) -> PreparedExternalRows:
        """Price the query for the session's protected unit. Reads no row."""
        inner = self.prepared
        if self.rows.database is not None:
            raise RangeError(
                f"X is part of the database {self.rows.database!r}, whose people have a budget of their own; release "
                "the query in a session of the database. Nothing was charged"
            )
        return PreparedExternalRows(
            claims=claims_for(schema, inner.claims, external=self.rows.schema),
            request=inner.request,
            labels=inner.labels,
            prediction=inner.prediction,
            error=inner.error,
            prepared=inner,
            rows=self.rows,
        )

    def release(self, session: Session | None) -> Outcome:
        """Charge the session, or a budget of exactly this query."""
        if session is not None:
            return session.release(self)
        return release_through(self, self.rows, OneOffAccount(), entropy=OSEntropy())


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedExternalRows(Prepared):
    """The prepared query and the rows it will read; a unit with more rows than the noise is for is refused."""

    prepared: Prepared
    rows: Table
    reads_external_rows: ClassVar[bool] = True  # the session's own are not read, and need no check
    brings_private_data: ClassVar[bool] = True  # the rows are not those of the session's table

    @property
    def drawn_claims(self) -> Claims:
        """The claims for a row of X: that a unit of the session has no more of them was checked before."""
        return self.prepared.drawn_claims

    def check_source(self, source: PublicSource) -> None:
        """Check the external rows: the session's are not read."""
        del source
        check_source(self.prepared, self.rows)

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        """Run the query on the external rows."""
        del table
        return self.prepared.run(self.rows, source)


def claims_for(schema: Schema, claims: Claims, *, external: Schema) -> Claims:
    """Return the claims of a query on rows with the schema `external` for the unit of the session's `schema`.

    Raises:
        RangeError: a unit of the session may have more rows than the noise is for, or X has persons of another column.
    """
    unit, own = schema.unit, external.unit
    if isinstance(unit, Person) and isinstance(own, Person) and own.column != unit.column:
        raise RangeError(
            f"X bounds the rows of each {own.column!r}, and the session protects each {unit.column!r}, who may be in "
            "several of them; declare the session's person column in X"
        )
    check_rows_of_unit(schema, covered=external.rows_per_unit if isinstance(own, Person) else None)
    return claims.with_unit(unit)


def check_rows_of_unit(schema: Schema, *, covered: int | None = None) -> None:
    """Refuse rows that a caller brings where a unit of the session may have more of them than the noise is for.

    `covered` is how many rows of a person count in rows that declare persons. Nothing caps others: `max_rows`, also of
    1, is a cap on the session's table, in which alone it stands whose row it is.
    """
    rows = rows_of_unit(schema.unit)
    if isinstance(schema.unit, Person) and (covered is None or covered < rows):
        noise = "one row" if covered is None else f"{covered} row(s) of a person"
        raise RangeError(
            f"the noise is for {noise} of X, and the session counts up to {rows} row(s) of a person in its own table "
            "and caps none in X; bring a table that declares the persons, or release the query from the session's own "
            "table (fit_table). Nothing was charged"
        )
