"""Statements about one row a person: FROM (SELECT person, aggregates FROM ... GROUP BY person) is `sl.per_person`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sidelight.errors import RangeError
from sidelight.records import View
from sidelight.records.fold import Fold
from sidelight.records.linked_tables import LinkedTables
from sidelight.summaries.sql_subselects import SelectReader, aggregate_fold, only_rows, row_condition
from sidelight.summaries.sql_tree import has_aggregate, only, plain, sql_text


def people_over(tree: Any, tables: LinkedTables, read: Callable[[Any], SelectReader]) -> tuple[View, Any] | None:
    """Return the view of persons that a statement reads, and the statement over it; None if it is another statement.

    Args:
        tree: The statement, from a sub-select in FROM or in WITH that is grouped by the person.
        tables: The tables.
        read: Reads a SELECT of tables and lookups.
    """
    from sqlglot import exp

    inner = _inner_select(tree)
    if inner is None:
        return None
    other = _taken_join(inner)
    reader = read(inner)
    person = tables.own_person(reader.base)
    by = plain(inner.args["group"].expressions[0])
    found = reader.source_of(by) if by.key == "column" else None
    if person is None or found is None or reader.paths[found[0]] or found[1] != person.name:
        return None
    only_rows(inner, "group")
    only(inner.args["group"], "expressions")
    source = tree.args["from_"].this
    only(source, "this", "alias")
    named = [] if tree.args.get("with_") is None else tree.args["with_"].expressions
    for alias in (each.args.get("alias") for each in (source, *named)):
        if alias is not None:
            only(alias, "this")
    counted = reader if other is None else _joined(other, reader, tables, read)
    where = row_condition(reader, reader.conditions())
    features: dict[str, Fold] = {}
    for each in inner.expressions:
        node = plain(each.unalias())
        if node.key == "column" and node.name == by.name:
            continue
        if not has_aggregate(node):
            raise RangeError(f"{sql_text(node)} is neither the person nor an aggregate of the person's rows")
        of = node.this
        if other is not None and node.key == "count" and of is not None and of.key == "column":
            node = exp.Count(this=exp.Star())  # of a row that is there, the key is
        made = aggregate_fold(counted, node, where if other is None else None)
        if made is None or not each.alias or (other is not None and of is not None and of.key == "star"):
            raise RangeError(
                f"{sql_text(each)} of a person's rows is not understood; write COUNT, MIN, MAX or SUM, AS ..."
            )
        features[each.alias] = made
    view = View(
        tables=tables,
        base=reader.base,
        grouped=True,
        where=where,
        features=features,
    )
    tree.set("with_", None)
    tree.args["from_"].set("this", exp.Table(this=exp.to_identifier(f"{tables.name}.{reader.base}", quoted=True)))
    return view, tree.transform(_without_table)


def _inner_select(tree: Any) -> Any:
    """Return the SELECT of FROM that groups by one column; None if there is none."""
    source = tree.args.get("from_")
    if tree.key != "select" or source is None or tree.args.get("joins"):
        return None
    of, named = source.this, tree.args.get("with_")
    inner = of.this if of.key == "subquery" else None
    if of.key == "table" and named is not None and len(named.expressions) == 1:
        only_one = named.expressions[0]
        inner = only_one.this if only_one.alias.casefold() == of.name.casefold() else None
    if inner is None or inner.key != "select" or inner.args.get("group") is None:
        return None
    if len(inner.args["group"].expressions) != 1 or inner.args.get("having") or inner.args.get("with_"):
        return None
    return inner


def _taken_join(inner: Any) -> Any:
    """Take a LEFT JOIN out of a SELECT and return it; None if there is none."""
    joins = inner.args.get("joins") or []
    if len(joins) != 1 or str(joins[0].side).upper() != "LEFT":
        return None
    inner.set("joins", None)
    return joins[0]


def _joined(join: Any, reader: SelectReader, tables: LinkedTables, read: Callable[[Any], SelectReader]) -> SelectReader:
    """Read the joined table by itself; ON must say that the persons are the same."""
    from sqlglot import exp

    other = read(exp.select("*").from_(join.this.copy()))
    on = join.args.get("on")
    sides = [] if on is None or plain(on).key != "eq" else [plain(plain(on).this), plain(plain(on).expression)]
    persons = [tables.own_person(each.base) for each in (reader, other)]
    names = [None if each is None else each.name for each in persons]
    if sorted(each.name for each in sides) != sorted(map(str, names)) or tables.max_rows(reader.base) != 1:
        raise RangeError(
            "ON of a LEFT JOIN under GROUP BY person says that both persons are the same, and nothing else"
        )
    return other


def _without_table(node: Any) -> Any:
    if node.key == "column":
        node.set("table", None)
    return node
