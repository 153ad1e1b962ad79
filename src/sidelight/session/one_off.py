"""`query.release(data)`: one query on a table or a bare array, with exactly the budget that it costs."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, overload

from sidelight.errors import SchemaError
from sidelight.noise import Entropy, OSEntropy
from sidelight.records import Table
from sidelight.release import Outcome, Release
from sidelight.session.accounts import OneOffAccount
from sidelight.session.pipeline import release_through
from sidelight.session.query import ArrayQuery, SureArrayQuery


@overload
def release_once(query: SureArrayQuery, data: Any, *, entropy: Entropy | None = None) -> Release: ...


@overload
def release_once(query: ArrayQuery, data: Any, *, entropy: Entropy | None = None) -> Outcome: ...


def release_once(query: ArrayQuery, data: Any, *, entropy: Entropy | None = None) -> Outcome:
    """Run one query on a table or a bare array, with exactly the budget that it costs."""
    table = data if isinstance(data, Table) else _bare_table(query, data)
    return release_through(query, table, OneOffAccount(), entropy=entropy or OSEntropy())


def _bare_table(query: ArrayQuery, data: Any) -> Table:
    if isinstance(data, list | tuple) and hasattr(query, "table"):
        table: Table = query.table(data)  # a query of rows: a list would be one column, whatever stands in its cells
        return table
    declared = query.declare()
    try:
        return Table(data, schema=[declared])
    except SchemaError:
        if hasattr(type(data), "columns") or isinstance(data, Mapping | str | PathLike):
            raise SchemaError(
                f"one column was wanted, an array or a Series, got {type(data).__name__}, which has named columns; "
                f"write sl.Table(data, schema=[sl.Number(...)]) and {type(query).__name__}(..., column=...)"
            ) from None
        raise
