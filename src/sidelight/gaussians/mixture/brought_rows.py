"""A mixture query that brings its rows along: a matrix that the user derived from the session's table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sidelight.gaussians.mixture.prepared import PreparedMixture
from sidelight.guarantees import Claims
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.session import Answer, Refusal
from sidelight.session.brought_rows import claims_for


@dataclass(frozen=True, kw_only=True, eq=False)
class BroughtRows:
    """The query, prepared for its own rows once, and the rows."""

    prepared: PreparedMixture
    rows: Table

    def prepare(self, schema: Schema) -> PreparedBroughtRows:
        """Price the query for the session's protected unit. Reads no row."""
        return PreparedBroughtRows(prepared=self.prepared, rows=self.rows, schema=schema)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedBroughtRows:
    """The prepared query and the rows it will read."""

    prepared: PreparedMixture
    rows: Table
    schema: Schema

    @property
    def claims(self) -> Claims:
        """The price, for the session's unit; a unit with more rows than the noise is for is refused."""
        return claims_for(self.schema, self.prepared.claims, brought=self.rows.schema)

    @property
    def numerics(self) -> Literal["exact"]:
        """Those of the query."""
        return self.prepared.numerics

    @property
    def request(self) -> Mapping[str, Any]:
        """The public description."""
        return self.prepared.request

    @property
    def prediction(self) -> Mapping[str, Any]:
        """The public rows."""
        return self.prepared.prediction

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        """Read the rows that were brought along."""
        del table
        return self.prepared.run(self.rows, source)
