"""Statements over a database: which view each of them reads, and the same statement over that view."""

from __future__ import annotations

from typing import Any

from sidelight.errors import RangeError
from sidelight.records import PairedView, View
from sidelight.records.linked_tables import LinkedTables
from sidelight.summaries.sql_derived import written_out
from sidelight.summaries.sql_dialects import MEANINGS
from sidelight.summaries.sql_joins import JoinReader, columns_of
from sidelight.summaries.sql_pairs import PairReader
from sidelight.summaries.sql_people import people_over
from sidelight.summaries.sql_public import with_public_lists
from sidelight.summaries.sql_subselects import SelectReader
from sidelight.summaries.sql_tree import parsed_statement, statement_tree


def statement_over(
    text: str, tables: LinkedTables, *, dialect: str, max_rows: int | None = None
) -> tuple[View | PairedView, str]:
    """Return the view that a statement reads, and the statement over it.

    Args:
        text: The statement over tables of the database.
        tables: The tables and their keys.
        dialect: Whose spelling it has.
        max_rows: How many pairs of a person count, where the statement joins two tables with several rows each.
    """

    def read(select: Any) -> SelectReader:
        return JoinReader(select, tables, dialect).settled()

    written = written_out(with_public_lists(parsed_statement(text, dialect), tables, dialect), tables, read)
    grouped = people_over(written.copy(), tables, read)
    if grouped is not None:
        _refuse_max_rows(max_rows)
        return grouped[0], str(grouped[1].sql(dialect=MEANINGS[dialect].parser))
    declared = [name for each in tables.tables for name in columns_of(tables, each)]
    tree = statement_tree(written, dialect=dialect, declared=declared)
    joined = JoinReader(tree.copy(), tables, dialect)
    if joined.base:
        _refuse_max_rows(max_rows)
    else:
        joined = PairReader(tree.copy(), tables, dialect, max_rows=max_rows).settled()
    joined.rewrite()
    return joined.view(), str(joined.tree.sql(dialect=MEANINGS[dialect].parser))


def _refuse_max_rows(max_rows: int | None) -> None:
    if max_rows is not None:
        raise RangeError(
            "max_rows is for a JOIN of two tables with several rows a person each, and the statement has none; leave "
            "it out"
        )
