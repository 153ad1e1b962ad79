"""The price of a query that brings its rows along, for the session's protected unit.

An estimator's X was derived from the session's table. How many of its rows a unit has, only the schema of X says: one,
unless X is a table with persons of its own. A session that protects persons with more rows is refused, because noise
for one row would be sold as noise for a person.
"""

from __future__ import annotations

from sidelight.errors import RangeError
from sidelight.guarantees import Claims, Person
from sidelight.records import Schema


def claims_for(schema: Schema, claims: Claims, *, brought: Schema) -> Claims:
    """Give the claims of a query on rows with the schema `brought` for the unit of the session's `schema`.

    Raises:
        RangeError: a unit of the session may have more rows than the noise is for, or X has persons of another column.
    """
    unit, own, covered = schema.unit, brought.unit, brought.rows_per_unit
    if isinstance(unit, Person) and isinstance(own, Person) and own.column != unit.column:
        raise RangeError(
            f"X bounds the rows of each {own.column!r}, and the session protects each {unit.column!r}, who may be in "
            "several of them; declare the session's person column in X"
        )
    if isinstance(unit, Person) and unit.max_rows > covered:
        raise RangeError(
            f"the noise is for {covered} row(s) of X, and a person of the session may have {unit.max_rows}; bring a "
            "table that declares the persons, release the query from the session's own table, or bound persons to one "
            "row"
        )
    return claims.with_unit(unit)
