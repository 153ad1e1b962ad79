"""Sub-selects of the rows that name a row's key, or of a person's rows, as folds: EXISTS, IN, and aggregates.

A fold looks at rows of the same owner alone, also where SQL would look at everybody's; keys that are missing match
nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from sqlglot import exp

from sidelight.errors import RangeError
from sidelight.records import Label, Number, PairedView, View, fold
from sidelight.records.columns import MAX_ROWS_LIMIT
from sidelight.records.expression_shapes import LabelShape
from sidelight.records.expression_text import conjoin
from sidelight.records.expressions import Expression, IsMissing, Named, Not
from sidelight.records.fold import MISSING, Fold
from sidelight.records.linked_tables import LinkedTables, Step
from sidelight.summaries.sql_averages import check_values, compared_by_sums, is_average, less, step_of_average
from sidelight.summaries.sql_expressions import ExpressionReader
from sidelight.summaries.sql_groups import CONDITIONS
from sidelight.summaries.sql_nodes import column_named, has_aggregate, plain, written_name
from sidelight.summaries.sql_tree import only, refuse, sql_text

BY_KEY = (
    "a sub-select is tied to the row around it by a declared key and nothing else; fold the other column (MIN, MAX, "
    "COUNT), or release what it computes first and write it as a constant"
)


AGGREGATES = (
    "COUNT, COUNT(DISTINCT ...), SUM, AVG, MIN, MAX, BOOL_OR, BOOL_AND, MODE, MIN_BY, MAX_BY, FIRST(x ORDER BY d)"
)


class SelectReader(Protocol):
    """One SELECT over tables of a database: its base, and the path of every other table (`sql_joins.JoinReader`)."""

    tables: LinkedTables
    base: str
    paths: dict[str, tuple[Step, ...]]
    features: dict[str, Fold]
    names: dict[str, str]
    grouped: bool | None
    correlated: list[tuple[str, str]]

    def view(self) -> View | PairedView:
        """Return the view of the base with the columns that were named."""

    def within(self, select: Any) -> SelectReader:
        """Return the reader of a sub-select of this SELECT."""

    def conditions(self) -> list[Any]:
        """Return the conditions of its rows, by paths."""

    def written(self, node: Any) -> Any:
        """Return a column by its path."""

    def reader(self) -> ExpressionReader:
        """Return the reader of expressions of its view."""

    def source_of(self, node: Any) -> tuple[str, str] | None:
        """Return the table and the name of a column."""

    def correlate(self, own: tuple[str, str] | None, other: tuple[str, str] | None, node: Any) -> None:
        """Note that two columns are equal, one of them of the SELECT around it."""


def folded(outer: SelectReader, node: Any) -> Any:
    """Return a node with EXISTS, IN (SELECT ...) and scalar sub-selects replaced by columns of folds."""

    def put(each: Any) -> Any:
        negates = each.key in ("not", "is", "eq", "neq")  # (x IN (...)) = FALSE, too
        if negates and any(one.args.get("query") is not None for one in each.find_all(exp.In)):
            raise RangeError("NOT IN (SELECT ...) is empty for everybody if one key is missing; write NOT EXISTS")
        if each.key == "exists":
            return _exists(outer, each.this, None)
        if each.key == "in" and each.args.get("query") is not None:
            return _exists(outer, each.args["query"].this, each.this)
        if each.key in CONDITIONS and any(map(is_average, each.iter_expressions())):
            return _average(outer, each)
        return _scalar(outer, each.this) if each.key == "subquery" else each

    return node if node.find(exp.Select) is None else node.transform(put)


def _exists(outer: SelectReader, select: Any, column: Any) -> Any:
    """Return the condition that a row of the sub-select belongs to the row of the base."""
    if any(map(has_aggregate, select.expressions)):  # which has a row whatever is there
        raise RangeError(f"{sql_text(select)} always has a row; compare its aggregate, or write EXISTS (SELECT * ...)")
    inner, where, of_person = _inner(outer, select, column)
    for each in select.expressions:
        node = plain(each.unalias())
        found = node.key != "column" or node.is_star or inner.source_of(node) or outer.source_of(node)
        if node.key not in ("star", "literal", "column", "null", "boolean") or not found:
            raise RangeError(f"{sql_text(node)} in EXISTS is not understood; write EXISTS (SELECT * ...)")
    made = replace(fold.count(inner.base, where=where, upper=1), of_person=of_person)
    found = _feature(outer, f"exists {select.sql(dialect='duckdb')}", made)
    return exp.GTE(this=found, expression=exp.Literal.number(1))


def _average(outer: SelectReader, node: Any) -> Any:
    """Return a comparison of an average with constants as one of sums."""
    select = next(plain(each).this for each in node.iter_expressions() if is_average(each))
    of = plain(select.expressions[0].unalias())
    only(of, "this")

    def moved(constant: Any) -> Any:
        made = select.copy()
        made.set("expressions", [less(of.this, constant)])
        return _scalar(outer, made)

    return compared_by_sums(node, is_average, moved)


def _scalar(outer: SelectReader, select: Any) -> Any:
    """Return the column of a sub-select of one aggregate."""
    if len(select.expressions) != 1 or not has_aggregate(select.expressions[0]):
        raise RangeError(f"{sql_text(select)} is no aggregate; {BY_KEY}")
    node = plain(select.expressions[0].unalias())
    if node.key == "coalesce" and len(node.expressions) == 1 and plain(node.expressions[0]).key == "literal":
        bare = select.copy()
        bare.set("expressions", [node.this.copy()])
        return exp.Coalesce(this=_scalar(outer, bare), expressions=[node.expressions[0].copy()])
    inner, where, of_person = _inner(outer, select, None)
    made = aggregate_fold(inner, node, where)
    if made is None:
        raise RangeError(f"{sql_text(node)} of a sub-select is not understood; {AGGREGATES} and EXISTS are")
    return _feature(outer, str(select.sql(dialect="duckdb")), replace(made, of_person=of_person))


def aggregate_fold(inner: SelectReader, node: Any, where: Expression | None) -> Fold | None:
    """Return an aggregate over the rows of a base as a fold; None where it is none that is understood.

    Counts have no clamp yet: `clamp_counts` puts it on those whose value is released.
    """
    if node.key in ("logicalor", "logicaland"):
        return _truth(inner, node, where)
    if node.key in ("first", "last", "argmin", "argmax"):
        return _one_row(inner, node, where)
    if node.key in ("mode", "withingroup"):
        return _mode(inner, node, where)
    if node.key not in ("count", "min", "max", "sum", "avg"):
        return None
    only(node, "this", "big_int")
    of: Any = None if node.this is None else plain(node.this)
    if counts_rows(node):
        if of is not None:
            only(of, "this", "is_string")  # COUNT(* EXCLUDE ...) is none
        return fold.count(inner.base, where=where, upper=MAX_ROWS_LIMIT)
    if node.key == "count" and of.key == "distinct":
        only(of, "expressions")
        if len(of.expressions) != 1:
            return None
        return fold.distinct(inner.base, _named(inner, of.expressions[0]), where=where, upper=MAX_ROWS_LIMIT)
    if node.key == "count":
        return fold.count(inner.base, where=_where_known(inner, of, where), upper=MAX_ROWS_LIMIT)
    if node.key == "sum":  # SQL's is NULL over no known value
        return fold.sum(inner.base, _named(inner, of), where=where, empty=MISSING)
    if node.key == "avg":
        mean = fold.mean(inner.base, _named(inner, of), where=where)
        schema = inner.view().reading(mean.columns).schema
        return replace(mean, granularity=step_of_average(mean.of[0], schema))
    made = (fold.min if node.key == "min" else fold.max)(inner.base, _named(inner, of), where=where)
    _check_order(inner, made, node)
    return made


def _truth(inner: SelectReader, node: Any, where: Expression | None) -> Fold:
    """Return BOOL_OR or BOOL_AND as a fold of the rows in which its condition is known, missing over none."""
    only(node, "this")
    condition = inner.reader().condition(_own(inner, node.this).transform(inner.written))
    known = conjoin("or", [condition, Not(condition)])
    rows = known if where is None else conjoin("and", [where, known])
    if node.key == "logicaland":
        return fold.all(inner.base, condition, where=rows)
    return fold.any(inner.base, condition, where=rows, empty=MISSING)


def _one_row(inner: SelectReader, node: Any, where: Expression | None) -> Fold:
    """Return a column of the first or last row in some order; rows in which either is missing are left out."""
    descends, of, order = False, plain(node.this), node.args.get("expression")
    if node.key in ("first", "last"):
        only(node, "this")
        ordered = of.expressions if of.key == "order" else []
        if len(ordered) != 1:
            raise RangeError(f"{sql_text(node)} needs one column to go by; write FIRST(x ORDER BY d)")
        only(ordered[0], "this", "desc", "nulls_first")
        of, order, descends = of.this, ordered[0].this, bool(ordered[0].args.get("desc"))
    else:
        only(node, "this", "expression")
    names = [_named(inner, each) for each in (of, order)]
    if not all(isinstance(each, str) for each in names):
        raise RangeError(f"{sql_text(node)} takes a column of one row, and the column to go by; name both")
    earliest = (node.key in ("first", "argmin")) is not descends
    return (fold.first if earliest else fold.last)(inner.base, str(names[0]), order=str(names[1]), where=where)


def _mode(inner: SelectReader, node: Any, where: Expression | None) -> Fold:
    """Return MODE(x), or MODE() WITHIN GROUP (ORDER BY x), as a fold of labels."""
    of = node.this
    if node.key == "withingroup":
        ordered = node.expression.expressions if node.this.key == "mode" else []
        of = ordered[0].this if len(ordered) == 1 else None
    else:
        only(node, "this")
    named = None if of is None else _named(inner, of)
    schema = inner.view().reading([named] if isinstance(named, str) else []).schema
    if not isinstance(named, str) or any(isinstance(e, Number) and e.name == named for e in schema.columns):
        raise RangeError(f"{sql_text(node)} is not understood; write MODE(column), of a column of labels")
    return fold.mode(inner.base, named, where=where)


def counts_rows(node: Any) -> bool:
    """Return whether a node is COUNT(*), or the same as COUNT(1)."""
    return node.key == "count" and (node.this is None or plain(node.this).key in ("star", "literal"))


def _where_known(inner: SelectReader, of: Any, where: Expression | None) -> Expression | None:
    """Return the condition of the rows in which COUNT(of) finds a value: in keys and persons it always does."""
    found = inner.source_of(of) if of.key == "column" else None
    if found is not None and not inner.paths[found[0]]:
        schema, person = inner.tables.schema(inner.base), inner.tables.own_person(inner.base)
        known = [each for link in (schema.key, schema.via) if link is not None for each in link.columns]
        known += [own for own, _ in inner.correlated] + ([] if person is None else [person.name])
        if found[1] in known:
            return where
    named = _named(inner, of)
    there = Not(IsMissing(Named(named) if isinstance(named, str) else named))
    return there if where is None else conjoin("and", [where, there])


def _named(inner: SelectReader, node: Any) -> str | Expression:
    """Return a column by its path, or a derived number; all of its columns are of the sub-select's own tables."""
    written = plain(_own(inner, node).transform(inner.written))
    return str(written.name) if written.key == "column" else inner.reader().number(written)


def _own(inner: SelectReader, node: Any) -> Any:
    """Return a copy of a part of an aggregate, all of whose columns are of the sub-select's own tables."""
    for each in node.find_all(exp.Column):
        if inner.source_of(each) is None:
            raise RangeError(
                f"{sql_text(each)} in an aggregate is not a column of the sub-select's own tables; name one of "
                f"{inner.base!r}"
            )
    return node.copy()


def _check_order(inner: SelectReader, made: Fold, node: Any) -> None:
    """Refuse MIN and MAX of declared labels in another order than that of their texts, which is SQL's."""
    schema = inner.view().reading(made.columns).schema
    if any(isinstance(each, Label) and each.name in made.columns for each in schema.columns):
        return  # MIN and MAX of undeclared labels are refused by the fold itself, before the charge
    shape = made.of[0].check(schema)
    if not isinstance(shape, LabelShape):
        return
    labels = list(shape.labels)
    whole = all(each.lstrip("-").isdecimal() for each in labels)
    if labels != sorted(labels) or (whole and labels != sorted(labels, key=int)):
        raise RangeError(
            f"{sql_text(node)} would go by the order in which the labels are declared, and SQL goes by their texts; "
            "declare the labels in that order, or compare with EXISTS (SELECT * ... AND column = 'label')"
        )


# --- counts -----------------------------------------------------------------------------------------------------------


def clamp_counts(tree: Any, features: dict[str, Fold], tables: LinkedTables) -> None:
    """Clamp the counts of a statement whose values are added up, averaged or grouped by to max_rows.

    A count that is compared is not clamped: a condition costs nothing whatever it compares. Where both are asked, the
    comparisons read a column of their own.
    """
    averages = {name: made for name, made in features.items() if made.kind == "mean"}
    check_values(tree, averages, lambda column: _use(column)[0])
    for name, made in list(features.items()):
        most = tables.max_rows(made.table)
        if made.kind not in ("count", "distinct") or made.upper != MAX_ROWS_LIMIT or most == MAX_ROWS_LIMIT:
            continue
        uses = [(each, *_use(each)) for each in tree.find_all(exp.Column) if each.name.casefold() == name.casefold()]
        of_groups = [compared for _, compared, in_group in uses if in_group]
        apart = [each for each, compared, in_group in uses if compared and (not in_group or all(of_groups))]
        if len(apart) == len(uses):
            continue
        features[name] = replace(made, upper=most)
        if apart:
            features[f"{name} of all rows"] = made
        for each in apart:
            each.replace(column_named(f"{name} of all rows"))


def _use(column: Any) -> tuple[bool, bool]:
    """Return whether a column is compared with something, and whether it stands outside of aggregates and WHERE.

    What stands there is a group, and must mean the same wherever it is written.
    """
    compared, node = False, column
    while node.parent is not None and node.key not in ("where", "select"):
        if isinstance(node, exp.AggFunc):
            return compared, False
        compared = compared or (node.parent.key == "case" and node.arg_key == "this")
        node = node.parent
        compared = compared or node.key in CONDITIONS
    return compared, node.key != "where"


def _feature(outer: SelectReader, text: str, made: Fold) -> Any:
    """Return the column of a fold; the same sub-select is one column wherever it stands."""
    name = outer.names.setdefault(text, f"subselect_{len(outer.names) + 1}")
    outer.features.setdefault(name, made)
    return column_named(name)


def _inner(outer: SelectReader, select: Any, column: Any) -> tuple[SelectReader, Expression | None, bool]:
    """Read a sub-select tied to the base by its key or its person.

    Returns the reader, the condition of its rows, and whether they are all rows of the person of one of several rows.
    """
    if select.key != "select":
        refuse(select)
    only_rows(select)
    inner = outer.within(select.copy())
    conditions = inner.conditions()
    if column is not None:
        key = select.expressions[0].unalias()
        if len(select.expressions) != 1 or key.key != "column" or plain(column).key != "column":
            raise RangeError(f"{sql_text(select)} must name one column, the key; write EXISTS (SELECT ...)")
        inner.correlate(inner.source_of(key), outer.source_of(plain(column)), select)
    if not inner.correlated:
        raise RangeError(f"{sql_text(select)} looks at all rows; {BY_KEY}")
    person, one = _is_person(outer, inner), outer.tables.max_rows(outer.base) == 1
    if not person and not _is_key(outer, inner):
        if {(own, other) for other, own in inner.correlated} == _link(outer.tables, of=inner.base, rows=outer.base):
            raise RangeError(
                f"each row of {outer.base!r} names one row of {inner.base!r} here; write JOIN "
                f"{written_name(inner.base)} ON its key, and the conditions of the sub-select in WHERE"
            )
        raise RangeError(f"{inner.base!r} is not tied to {outer.base!r} by its declared key here; {BY_KEY}")
    if one and outer.grouped not in (None, person):
        raise RangeError("sub-selects by the person and by a key do not stand in one statement; ask two statements")
    outer.grouped = one and person
    return inner, row_condition(inner, conditions), person and not one


def only_rows(select: Any, *known: str) -> None:
    """Refuse every clause of a sub-select but SELECT, FROM, JOIN, WHERE and those that are named."""
    for key in ("group", "having", "order", "limit", "offset", "distinct"):
        if key not in known and select.args.get(key) is not None:
            raise RangeError(f"{key.upper()} in a sub-select is not understood; {BY_KEY}")
    only(select, "expressions", "from_", "joins", "where", *known)


def row_condition(reader: SelectReader, conditions: list[Any]) -> Expression | None:
    """Return the condition of rows that are folded; it names columns of their tables, and no other fold."""
    if reader.features:
        raise RangeError(
            "a sub-select in WHERE of another sub-select is not understood; write both in WHERE of the whole statement"
        )
    return None if not conditions else reader.reader().conditions(exp.and_(*conditions))


def _is_key(outer: SelectReader, inner: SelectReader) -> bool:
    """Return whether the rows of a sub-select are those that name the key of the base's row."""
    return set(inner.correlated) == _link(outer.tables, of=outer.base, rows=inner.base)


def _link(tables: LinkedTables, *, of: str, rows: str) -> set[tuple[str, str]] | None:
    """Return by which columns rows name the key of another table, each with its column of the key; None if not."""
    key, link = tables.schema(of).key, View(tables=tables, base=of).fold_link(fold.count(rows, upper=1))
    return None if key is None or link is None else set(zip(link, key.columns, strict=True))


def _is_person(outer: SelectReader, inner: SelectReader) -> bool:
    """Return whether the rows of a sub-select are those of the base's person."""
    persons = [outer.tables.own_person(each) for each in (inner.base, outer.base)]
    if None in persons:
        return False
    return inner.correlated == [tuple(each.name for each in persons if each is not None)]
