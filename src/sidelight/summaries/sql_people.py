"""Statements about one row a person: FROM (SELECT person, aggregates FROM ... GROUP BY person) is `sl.per_person`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from sidelight.errors import RangeError
from sidelight.records import View
from sidelight.records.expressions import Expression
from sidelight.records.fold import Fold
from sidelight.records.linked_tables import LinkedTables
from sidelight.summaries.sql_averages import compare_averages, less
from sidelight.summaries.sql_nodes import column_named, has_aggregate, plain, table_named
from sidelight.summaries.sql_subselects import (
    AGGREGATES,
    SelectReader,
    aggregate_fold,
    clamp_counts,
    counts_rows,
    only_rows,
    row_condition,
)
from sidelight.summaries.sql_tree import only, sql_text

#: What is NULL if all of its columns are.
_STRICT = (
    *("column", "identifier", "literal", "distinct", "paren", "add", "sub", "mul", "div", "neg", "order", "ordered"),
    *("eq", "neq", "lt", "lte", "gt", "gte", "and", "or", "not", "between"),
)


def people_over(tree: Any, tables: LinkedTables, read: Callable[[Any], SelectReader]) -> tuple[View, Any] | None:
    """Return the view of persons that a statement reads, and the statement over it; None if it is another statement."""
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
    only_rows(inner, "group", "having")
    only(inner.args["group"], "expressions")
    source = tree.args["from_"].this
    only(source, "this", "alias")
    named = [] if tree.args.get("with_") is None else tree.args["with_"].expressions
    for alias in (each.args.get("alias") for each in (source, *named)):
        if alias is not None:
            only(alias, "this")
    readers = (reader,) if other is None else (reader, _joined(other, reader, tables, read))
    for each in inner.find_all(exp.Column) if len(readers) > 1 else ():
        if _resolved(each, readers)[0] and each.find_ancestor(exp.Where) is not None:
            raise RangeError(f"WHERE after a LEFT JOIN names columns of the first table, and {sql_text(each)} is none")
    where = row_condition(reader, reader.conditions())
    features: dict[str, Fold] = {}
    averages: dict[str, Callable[[Any], Any]] = {}
    names: set[str] = set()

    def fold_of(asked: Any) -> Fold | None:
        return aggregate_fold(reader, asked, where) if len(readers) == 1 else _of_join(asked, readers, where)

    own = {each.casefold() for each in View(tables=tables, base=reader.base, grouped=True).schema.names}
    for each in inner.expressions:
        node = plain(each.unalias())
        name = str(each.alias_or_name)
        if name.casefold() in names:
            raise RangeError(f"the sub-select names {name!r} twice; give each its own name with AS")
        names.add(name.casefold())
        if node.key == "column" and reader.source_of(node) == found:
            continue
        if not has_aggregate(node):
            raise RangeError(f"{sql_text(node)} is neither the person nor an aggregate of the person's rows")

        made = fold_of(node)
        if made is None or not each.alias:
            raise RangeError(f"{sql_text(each)} of a person's rows is not understood; write {AGGREGATES}, AS ...")
        if name.casefold() in own:
            raise RangeError(f"{name!r} is a column of {reader.base!r}, too; call the aggregate otherwise with AS")
        features[name] = made
        if made.kind == "mean":
            averages[name] = _sums_of(name, node, fold_of, features)
    having = inner.args.get("having")
    if having is not None:
        _choose_persons(tree, having, fold_of, features, averages)
    tree.set("with_", None)
    tree.args["from_"].set("this", table_named(f"{tables.name}.{reader.base}"))
    _check_columns(tree, source.alias_or_name, features, own)
    tree = compare_averages(tree, averages)
    clamp_counts(tree, features, tables)
    view = View(tables=tables, base=reader.base, grouped=True, where=where, features=features)
    for each in tree.find_all(exp.Column):
        each.set("table", None)
    return view, tree


def _choose_persons(
    tree: Any,
    having: Any,
    fold_of: Callable[[Any], Fold | None],
    features: dict[str, Fold],
    averages: dict[str, Callable[[Any], Any]],
) -> None:
    """Write HAVING of the sub-select, which chooses persons, as WHERE of the statement; its aggregates are features."""
    only(having, "this")

    def put(node: Any) -> Any:
        if not isinstance(node, exp.AggFunc):
            return node
        made = fold_of(plain(node))
        if made is None:
            raise RangeError(f"HAVING {sql_text(node)} of a person's rows is not understood; write {AGGREGATES}")
        name = f"having {node.sql(dialect='duckdb')}"
        features.setdefault(name, made)
        if made.kind == "mean":
            averages[name] = _sums_of(name, plain(node), fold_of, features)
        return column_named(name)

    where = tree.args.get("where")
    chosen = exp.paren(having.this.copy().transform(put))
    tree.set("where", exp.Where(this=chosen if where is None else exp.and_(where.this.copy(), chosen)))


def _sums_of(
    name: str, node: Any, fold_of: Callable[[Any], Fold | None], features: dict[str, Fold]
) -> Callable[[Any], Any]:
    """Return what makes the column of the sum of x - c, of which AVG(x) is compared with the constant c."""

    def moved(constant: Any) -> Any:
        called = f"{name} less {constant.sql(dialect='duckdb')}"
        made = fold_of(less(node.this, constant))
        assert made is not None
        features.setdefault(called, made)
        return column_named(called)

    return moved


def _check_columns(tree: Any, alias: str, features: dict[str, Fold], taken: set[str]) -> None:
    """Refuse columns that the sub-select does not have, though its base has: those are `taken`."""
    known = {each.casefold() for each in features}
    own = {each.alias.casefold() for each in tree.expressions if each.key == "alias"} - taken
    for each in tree.find_all(exp.Column):
        odd = each.text("db") or each.text("table").casefold() not in ("", alias.casefold())
        if odd or each.name.casefold() not in (known if each.text("table") else known | own):
            raise RangeError(
                f"{sql_text(each)} is not a column of the sub-select {alias!r} that is understood here: "
                f"{', '.join(features) or 'it has none'}"
            )


def _of_join(node: Any, readers: Sequence[SelectReader], where: Expression | None) -> Fold | None:
    """Return an aggregate of the rows of a LEFT JOIN from a table with one row a person."""
    reader, other = readers
    of: Any = None if node.this is None else plain(node.this)
    sides = {_resolved(each, readers)[0] for each in node.find_all(exp.Column)}
    is_person = of is not None and of.key == "column" and _resolved(of, readers) == _person(readers, 0)
    if counts_rows(node) or (node.key == "count" and is_person):
        only(node, "this", "big_int")
        made = aggregate_fold(other, exp.Count(this=exp.Star()), None)
        return None if made is None else replace(made, empty=1)  # a person without rows there has a row of NULLs
    if sides == {0} and (node.key in ("min", "max") or (node.key == "count" and of.key == "distinct")):
        return aggregate_fold(reader, node, where)  # rows that are repeated change nothing
    # of a row of NULLs the argument must be NULL
    strict = of is not None and all(each.key in _STRICT for each in of.walk())
    return aggregate_fold(other, node, None) if sides == {1} and strict else None


def _resolved(node: Any, readers: Sequence[SelectReader]) -> tuple[int, str]:
    """Return whether a column is of the first table, 0, or of the joined one, 1, and its name there."""
    found = [(side, each) for side, reader in enumerate(readers) if (each := reader.source_of(node)) is not None]
    if len(found) != 1:
        raise RangeError(
            f"{sql_text(node)} is a column of {'both tables' if found else 'no table'} of the LEFT JOIN; write the "
            "name of its table with it"
        )
    ((side, (alias, name)),) = found
    return side, "" if readers[side].paths[alias] else name


def _person(readers: Sequence[SelectReader], side: int) -> tuple[int, str] | None:
    person = readers[side].tables.own_person(readers[side].base)
    return None if person is None else (side, person.name)


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
    if len(inner.args["group"].expressions) != 1 or inner.args.get("with_"):
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
    other = read(exp.select("*").from_(join.this.copy()))
    if set(reader.paths) & set(other.paths):
        raise RangeError(f"FROM names {join.this.alias_or_name!r} twice; give each its own name with AS")
    readers, on = (reader, other), join.args.get("on")
    on = None if on is None else plain(on)
    sides = [] if on is None or on.key != "eq" else [plain(on.this), plain(on.expression)]
    equal = {_resolved(each, readers) for each in sides if each.key == "column"}
    alone = len(other.paths) == 1 and not join.args.get("method") and str(join.kind or "").upper() in ("", "OUTER")
    if equal != {_person(readers, 0), _person(readers, 1)} or not alone or tables.max_rows(reader.base) != 1:
        raise RangeError(
            "ON of a LEFT JOIN under GROUP BY person says that both persons are the same, and nothing else"
        )
    return other
