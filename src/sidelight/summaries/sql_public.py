"""IN (SELECT ...) of a public table: a list of constants, or a lookup where the column is a key.

The rows of a public table are known to everyone, so the SELECT is answered when the statement is read. What it found is
written into the statement, and stands in the request with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sqlglot import exp

from sidelight.aggregates.expression_values import BatchScope, truth_of
from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.records import Category, Date, Label, Number
from sidelight.records.linked_tables import LinkedTables
from sidelight.records.numbers import exact_number, number_text
from sidelight.records.rows import Batch
from sidelight.summaries.sql_expressions import ExpressionReader
from sidelight.summaries.sql_joins import columns_of, declared_table
from sidelight.summaries.sql_nodes import declared_name, flat_conditions, plain, table_named, written_name
from sidelight.summaries.sql_tree import MOST_PARTS, only, sql_text


def with_public_lists(tree: Any, tables: LinkedTables, dialect: str) -> Any:
    """Return a statement without IN (SELECT ...) of public tables: lists of constants, or lookups by JOIN."""
    _join_keys(tree, tables)
    for node in list(tree.find_all(exp.In)):
        inner = None if node.args.get("query") is None else node.args["query"].this
        if inner is not None and _public_table(inner, tables) is not None:
            node.replace(exp.In(this=node.this.copy(), expressions=_constants(inner, tables, dialect)))
    return tree


def _public_table(select: Any, tables: LinkedTables) -> str | None:
    """Return the public table that a SELECT reads; None if it reads another, or several."""
    source = select.args.get("from_") if select.key == "select" else None
    if source is None or source.this.key != "table" or select.args.get("joins"):
        return None
    named = {each.alias.casefold() for each in select.root().find_all(exp.CTE)}
    if source.this.name.casefold() in named:  # which is what the name means there
        return None
    name = declared_table(tables, source.this)
    return name if name is not None and tables.is_public(name) else None


def _constants(select: Any, tables: LinkedTables, dialect: str) -> list[Any]:
    """Return the constants that a SELECT of one column of a public table finds, as literals of a statement.

    Raises:
        RangeError: it is no SELECT of one column with a condition, or finds nothing, or a missing cell.
    """
    name = _public_table(select, tables)
    assert name is not None
    only(select, "expressions", "from_", "where", "distinct")
    source, schema, rows = select.args["from_"].this, tables.schema(name), tables.public_rows[name]
    asked = [plain(each.unalias()) for each in select.expressions]
    if len(asked) != 1 or asked[0].key != "column":
        raise RangeError(f"{sql_text(select)} must name one column of the public table {name!r}")
    if declared_name(asked[0], columns_of(tables, name)) not in (None, *(each.name for each in schema.columns)):
        raise RangeError(
            f"{sql_text(select)} is of a key, which is looked up where IN must hold for every row, by AND; elsewhere "
            f"LEFT JOIN {written_name(name)} and write a condition on its columns"
        )
    reader = ExpressionReader(schema, [source.alias_or_name, name], dialect)
    column = reader.declared(asked[0])
    if isinstance(column, Date):
        raise RangeError(f"{sql_text(select)} is of dates; write the dates as constants")
    kept = np.ones(rows.length, bool)
    if select.args.get("where") is not None:
        condition = reader.conditions(select.args["where"].this)
        if condition is not None:
            scope = BatchScope(schema, Batch(rows.length, rows.numbers, rows.texts))
            kept = np.broadcast_to(np.asarray(truth_of(condition, scope)[0], bool), (rows.length,))
    if isinstance(column, Number):
        cells: list[Any] = [None if cell != cell else cell for cell in rows.numbers[column.name][kept].tolist()]
    else:
        assert isinstance(column, (Category, Label))
        cells = rows.texts[column.name][kept].tolist()
    found = list(dict.fromkeys(cells))
    if None in found:
        raise RangeError(
            f"{sql_text(select)} finds missing cells, which IN compares with nothing; add WHERE {asked[0].name} IS NOT "
            "NULL"
        )
    if len(found) > MOST_PARTS // 2:
        raise RangeError(
            f"{sql_text(select)} finds {len(found)} different values, and a list holds at most {MOST_PARTS // 2}; make "
            f"the column a key of {name!r}, sl.Key(...), that the private table names by sl.Reference(...)"
        )
    if not found:
        raise RangeError(f"{sql_text(select)} finds no row of the public table, so nothing is in it; leave it out")
    if isinstance(column, Number):
        return [exp.Literal.number(number_text(exact_number(each, name="a public number"))) for each in found]
    return [exp.Literal.string(each) for each in found]


def _join_keys(tree: Any, tables: LinkedTables) -> None:
    """Look up a key that is IN (SELECT key FROM a public table) by a JOIN instead."""
    for number, (select, node) in enumerate(list(_conditions(tree))):
        inner = node.args["query"].this
        name = _public_table(inner, tables)
        key = None if name is None else tables.schema(name).key
        column, asked = plain(node.this), [plain(each.unalias()) for each in inner.expressions]
        if name is None or key is None or column.key != "column" or len(asked) != 1 or asked[0].key != "column":
            continue
        source = _table_of(column, select, tables)
        referring = None if source is None else declared_name(column, columns_of(tables, source[1]))
        links = [] if source is None else tables.links_of(source[1])
        if not any(columns == (referring,) and to == name for columns, to in links):
            continue
        if declared_name(asked[0], key.columns) is None:
            raise SchemaError(
                f"{sql_text(inner)} names {asked[0].name!r} for a key; {nearest(asked[0].name, key.columns)}"
            )
        if len(key.columns) > 1:
            continue
        only(inner, "expressions", "from_", "where", "distinct")
        assert source is not None
        alias, known = f"{name} in {number + 1}", {each.casefold() for each in columns_of(tables, name)}
        _qualify(select, known, tables)
        own = inner.args["from_"].this.alias_or_name.casefold()
        where = [] if inner.args.get("where") is None else [inner.args["where"].this]
        for each in (found for part in where for found in part.find_all(exp.Column) if found.parent_select is inner):
            if each.text("table").casefold() not in ("", own):
                raise RangeError(f"{sql_text(each)} is not a column of the public table {name!r}; name one of its own")
            each.set("table", exp.to_identifier(alias, quoted=True))
        node.replace(exp.paren(where[0].copy()) if where else exp.true())
        table = table_named(name, alias)
        sides = exp.column(referring, source[0], quoted=True), exp.column(key.columns[0], alias, quoted=True)
        select.append("joins", exp.Join(this=table, on=exp.EQ(this=sides[0], expression=sides[1])))


def _conditions(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Return the IN (SELECT ...) that must hold for every row, with the SELECT whose rows they are about."""
    for select in tree.find_all(exp.Select):
        where = select.args.get("where")
        for node in () if where is None else reversed([*flat_conditions(where.this)]):
            if node.key == "in" and node.args.get("query") is not None:
                yield select, node


def _tables_in(select: Any, tables: LinkedTables) -> list[tuple[str, str]]:
    """Return the aliases and names of the tables of a SELECT."""
    nodes = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
    named = [(node.alias_or_name, declared_table(tables, node)) for node in nodes if node.key == "table"]
    return [(alias, name) for alias, name in named if name is not None]


def _table_of(column: Any, select: Any, tables: LinkedTables) -> tuple[str, str] | None:
    """Return the alias and the name of the one table of a SELECT that a column is of; None if that is not known."""
    given = column.text("table").casefold()
    found = [
        (alias, name)
        for alias, name in _tables_in(select, tables)
        if given in ("", alias.casefold()) and declared_name(column, columns_of(tables, name)) is not None
    ]
    return found[0] if len(found) == 1 else None


def _qualify(select: Any, names: set[str], tables: LinkedTables) -> None:
    """Write the table with columns whose names another table will have, too."""
    for column in select.find_all(exp.Column):
        if not column.text("table") and column.name.casefold() in names and column.parent_select is select:
            found = _table_of(column, select, tables)
            if found is not None:
                column.set("table", exp.to_identifier(found[0], quoted=True))
