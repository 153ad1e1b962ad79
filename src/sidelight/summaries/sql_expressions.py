"""Conditions, numbers and CASE of a SQL statement as the expressions that `where=` and `by=` take.

Texts, numbers and missing cells mean what they mean there. Every node and clause that is not named here, anywhere in
the tree, is refused with the nearest thing that works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import Any, NoReturn

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.records import Category, Number, Schema
from sidelight.records.expression_shapes import Constant, constant
from sidelight.records.expression_text import DEEPEST, arithmetic, conjoin
from sidelight.records.expressions import (
    Compare,
    Comparison,
    Expression,
    IsIn,
    IsMissing,
    Joined,
    Literally,
    Named,
    Not,
    Operator,
)
from sidelight.records.numbers import exact_number

UNDERSTOOD = "a statement is SELECT columns and aggregates FROM table [WHERE condition] [GROUP BY columns]"
_FREE = "the released table is yours: filter and sort it afterwards, which costs nothing (release.value.to_pandas())"
_AGGREGATES = (
    "SELECT takes columns of GROUP BY, COUNT(*), COUNT(DISTINCT person), SUM, AVG, VAR_SAMP, STDDEV, MEDIAN and "
    "QUANTILE; compute with the released numbers afterwards"
)
_CONDITIONS = "conditions are made of declared columns, constants, + - * /, comparisons, IN, IS NULL, AND, OR, NOT"
#: Clauses that are not understood, by sqlglot's name: the SQL word, and what works instead.
_CLAUSES: Mapping[str, tuple[str, str]] = {
    "joins": ("JOIN", "join the tables before sl.Table reads them, and declare what one person can add"),
    "with_": ("WITH", "declare the columns that the table has, and write the condition into WHERE"),
    "distinct": ("SELECT DISTINCT", "GROUP BY the column and COUNT(*); declared labels are public"),
    "having": ("HAVING", _FREE),
    "order": ("ORDER BY", _FREE),
    "limit": ("LIMIT", "the k most frequent labels are sl.TopK(column, k=10, epsilon=...)"),
    "offset": ("OFFSET", _FREE),
    "windows": ("WINDOW", "GROUP BY a column"),
    "qualify": ("QUALIFY", _FREE),
    "sample": ("TABLESAMPLE", "ask all rows; a sample of them is no cheaper"),
    "hint": ("an optimizer hint", "leave it out"),
    "into": ("INTO", "write release.value.to_pandas() where it should go"),
    "locks": ("FOR UPDATE", "leave it out"),
    "laterals": ("LATERAL", "give the table one row per record before sl.Table reads it"),
    "pivots": ("PIVOT", _FREE),
    "rollup": ("ROLLUP", "sl.Count(by=[...], rollup=True, epsilon=...) releases totals that add up"),
    "cube": ("CUBE", "sl.Count(by=[...], rollup=True, epsilon=...) releases totals that add up"),
    "grouping_sets": ("GROUPING SETS", "sl.Count(by=[...], rollup=True, epsilon=...) releases totals that add up"),
    "all": ("GROUP BY ALL", "name the columns"),
    "totals": ("WITH TOTALS", "sl.Count(by=[...], rollup=True, epsilon=...)"),
    "db": ("the name of a database", "name the table alone; it is the session's"),
    "catalog": ("the name of a catalog", "name the table alone; it is the session's"),
    "query": ("a subquery", "list the constants: region IN ('N', 'S')"),
    "unnest": ("UNNEST", "list the constants: region IN ('N', 'S')"),
    "symmetric": ("SYMMETRIC", "write BETWEEN with the smaller number first"),
}
#: The same for nodes inside expressions, by sqlglot's key.
_NODES: Mapping[str, tuple[str, str]] = {
    "subquery": ("a subquery", "one statement reads the session's table; write the condition into WHERE"),
    "select": ("a subquery", "one statement reads the session's table; write the condition into WHERE"),
    "exists": ("EXISTS", "one statement reads the session's table; write the condition into WHERE"),
    "window": ("a window (OVER)", "GROUP BY the column"),
    "filter": ("FILTER", "write the condition into WHERE, and ask a second statement for another one"),
    "star": ("*", "name the columns; rows themselves are never released"),
    "min": ("MIN", "an extreme is one person's value: QUANTILE(column, 0.01)"),
    "max": ("MAX", "an extreme is one person's value: QUANTILE(column, 0.99)"),
    "variancepop": ("VAR_POP", "VAR_SAMP(column)"),
    "stddevpop": ("STDDEV_POP", "STDDEV(column)"),
    "approxdistinct": ("APPROX_COUNT_DISTINCT", "COUNT(DISTINCT person) counts persons"),
    "case": ("CASE", "write the condition into WHERE; sl.col(...).lookup({...}) makes other labels"),
    "if": ("IF", "write the condition into WHERE; sl.col(...).lookup({...}) makes other labels"),
    "cast": ("CAST", "the schema declares what a column is"),
    "like": ("LIKE", "list the labels: job IN ('nurse', 'cook')"),
    "ilike": ("ILIKE", "list the labels: job IN ('nurse', 'cook')"),
    "null": ("NULL", "write column IS NULL"),
    "placeholder": ("a placeholder", "write the constant"),
    "parameter": ("a parameter", "write the constant"),
    "mod": ("%", "+ - * / and comparisons are understood"),
    "dpipe": ("||", "compare columns with texts: job = 'nurse'"),
    "nullsafeeq": ("<=>", "write = or IS NULL"),
    "coalesce": ("COALESCE", "declare missing=sl.Fill(...) for the column"),
}
_COMPARED: Mapping[str, Comparison] = {"eq": "==", "neq": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_COMPUTED: Mapping[str, Operator] = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
#: What sqlglot calls the conditions.
CONDITIONS = (*_COMPARED, "and", "or", "not", "in", "is", "between")
_FLIPPED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_WANTED = (
    "CASE in GROUP BY compares one declared column with constants: CASE WHEN age < 18 THEN 'child' ELSE 'adult' END"
)


class ExpressionReader:
    """Reads conditions and numbers of one statement against a schema; `table` is its name and its alias."""

    def __init__(self, schema: Schema, table: tuple[str, str]) -> None:
        self._schema, self._table = schema, table

    def condition(self, node: Any, depth: int) -> Expression:
        """Read a condition."""
        self._deep(depth)
        node = plain(node)
        if node.key in ("and", "or"):
            only(node, "this", "expression")
            return conjoin(node.key, [self.condition(each, depth + 1) for each in _chain(node)])
        if node.key == "not":
            only(node, "this")
            return Not(self.condition(node.this, depth + 1))
        if node.key in _COMPARED:
            only(node, "this", "expression")
            return Compare(_COMPARED[node.key], self.number(node.this, depth + 1), self.number(node.expression, depth))
        if node.key == "in":
            only(node, "this", "expressions")
            values = tuple(self._constant(each, depth + 1) for each in node.expressions)
            return IsIn(self.number(node.this, depth + 1), values)
        if node.key == "is":
            only(node, "this", "expression")
            if node.expression.key != "null":
                raise RangeError(f"IS {sql_text(node.expression)} is not understood; write IS NULL, IS NOT NULL, or =")
            return IsMissing(self.number(node.this, depth + 1))
        if node.key == "between":
            only(node, "this", "low", "high")
            of = self.number(node.this, depth + 1)
            low, high = (self.number(node.args[end], depth + 1) for end in ("low", "high"))
            return conjoin("and", [Compare(">=", of, low), Compare("<=", of, high)])
        if node.key in ("column", "literal", "boolean", *_COMPUTED, "neg"):
            raise RangeError(f"{sql_text(node)} is not a condition, and one is needed here; compare it with something")
        return refuse(node)

    def number(self, node: Any, depth: int) -> Expression:
        """Read a column, a constant, or arithmetic of them."""
        self._deep(depth)
        node = plain(node)
        if node.key == "column":
            return Named(self.column(node))
        if node.key == "literal":
            only(node, "this", "is_string")
            if node.args["is_string"]:
                return Literally(constant(node.name))
            return Literally(exact_number(node.name, name="a number of the statement"))
        if node.key == "boolean":
            return Literally(constant(bool(node.this)))
        if node.key == "neg":
            only(node, "this")
            return arithmetic("-", Literally(Fraction(0)), self.number(node.this, depth + 1))
        if node.key in _COMPUTED:
            only(node, "this", "expression", "typed", "safe")
            left, right = self.number(node.this, depth + 1), self.number(node.expression, depth + 1)
            return arithmetic(_COMPUTED[node.key], left, right)
        if node.key in CONDITIONS:
            raise RangeError(
                f"{sql_text(node)} is a condition where a number is needed; join conditions with AND, OR, NOT"
            )
        return refuse(node)

    def _constant(self, node: Any, depth: int) -> Constant:
        found = self.number(node, depth)
        if not isinstance(found, Literally):
            raise RangeError(f"IN needs a list of constants, got {sql_text(node)}: region IN ('N', 'S')")
        return found.value

    def column(self, node: Any) -> str:
        """Return the declared name that a column of the statement stands for."""
        only(node, "this", "table")
        if node.this.key != "identifier":
            refuse(node.this)
        given = node.text("table")
        if given and given not in self._table:
            raise RangeError(f"{given}.{node.name}: the statement reads {self._table[0]!r} and no table {given!r}")
        name: str = node.name
        names = [column.name for column in self._schema.columns]
        if name in names:
            return name
        # Names without quotes have no case in SQL.
        alike = [] if node.this.args.get("quoted") else [each for each in names if each.casefold() == name.casefold()]
        if len(alike) == 1:
            return alike[0]
        quoted = "; texts stand in 'single quotes'" if node.this.args.get("quoted") else ""
        raise SchemaError(f"column {name!r} is not declared; {nearest(name, names)}{quoted}")

    def _deep(self, depth: int) -> None:
        if depth > DEEPEST:
            raise RangeError(f"the statement is nested more than {DEEPEST} deep; split it")


def plain(node: Any) -> Any:
    """Take parentheses off."""
    while node.key == "paren":
        node = node.this
    return node


def _chain(node: Any) -> list[Any]:
    """Return the parts of a AND b AND c, which sqlglot nests to the left, however many they are."""
    found = []
    key = node.key
    while node.key == key:
        found.append(node.expression)
        node = node.this
    return [node, *reversed(found)]


# --- CASE as groups ---------------------------------------------------------------------------------------------------


def case_groups(whens: Sequence[tuple[Expression, str]], default: str | None, schema: Schema) -> Expression:
    """Return a CASE as a cut or a public lookup; a row that no branch takes is in no group.

    CASE WHEN age < 18 THEN 'child' ELSE 'adult' END is `lookup(cut(age, [18]), {...})`: every condition is about one
    declared column and constant between two thresholds, so that it is decided here, without any row. The first
    condition that holds decides; `default` is the label of ELSE.
    """
    names = dict.fromkeys(name for condition, _ in whens for name in condition.columns)
    if len(names) != 1:
        raise RangeError(f"{_WANTED}; it compares {', '.join(names) or 'nothing'} here")
    (name,) = names
    column = next((each for each in schema.columns if each.name == name), None)
    if isinstance(column, Number):
        return _by_thresholds(column, whens, default)
    if not isinstance(column, Category):
        raise RangeError(f"{_WANTED}; {name!r} is neither a number nor a category with declared labels")
    labels = Named(name).check(schema).labels  # type: ignore[union-attr]
    found = {label: _chosen(whens, label, default) for label in labels}
    return Named(name).lookup({label: chosen for label, chosen in found.items() if chosen is not None})


def _by_thresholds(column: Number, whens: Sequence[tuple[Expression, str]], default: str | None) -> Expression:
    step = None if column.granularity is None else Fraction(column.granularity)
    edges = sorted({edge for condition, _ in whens for edge in _edges(condition, step)})
    if not edges:
        raise RangeError(f"{_WANTED}; no threshold is there")
    cut = Named(column.name).cut(edges)
    before = edges[0] - (1 if step is None else step)
    bins = cut.check(Schema([column])).labels  # type: ignore[union-attr]
    found = {label: _chosen(whens, at, default) for label, at in zip(bins, (before, *edges), strict=True)}
    return cut.lookup({label: chosen for label, chosen in found.items() if chosen is not None})


def _edges(condition: Expression, step: Fraction | None) -> list[Fraction]:
    """Return where a condition changes: before the edge it has one value, from the edge on another."""
    if isinstance(condition, Joined):
        return _edges(condition.left, step) + _edges(condition.right, step)
    if isinstance(condition, Not):
        return _edges(condition.of, step)
    if isinstance(condition, IsIn):
        return [edge for value in condition.values for edge in _around("==", value, step)]
    operator, value = _compared(condition)
    return _around(operator, value, step)


def _around(operator: Comparison, value: Constant, step: Fraction | None) -> list[Fraction]:
    if not isinstance(value, Fraction):
        raise RangeError(f"{_WANTED}; a number is compared with {value!r}")
    if operator in ("<", ">="):
        return [value]
    if step is None:
        raise RangeError(
            f"{operator} {value} ends inside the numbers of a column without granularity; write < or >=, or declare "
            "its granularity"
        )
    after = (floor(value / step) + 1) * step  # the next number of the grid
    return [after] if operator in ("<=", ">") else [value, after]


def _chosen(whens: Sequence[tuple[Expression, str]], value: Constant, default: str | None) -> str | None:
    return next((label for condition, label in whens if _holds(condition, value)), default)


def _holds(condition: Expression, value: Constant) -> bool:
    """Return whether a condition about one column holds where it has this value."""
    if isinstance(condition, Joined):
        both = _holds(condition.left, value), _holds(condition.right, value)
        return all(both) if condition.word == "and" else any(both)
    if isinstance(condition, Not):
        return not _holds(condition.of, value)
    if isinstance(condition, IsIn):
        return value in condition.values
    operator, bound = _compared(condition)
    if operator in ("==", "!="):
        return (value == bound) is (operator == "==")
    if not isinstance(value, Fraction) or not isinstance(bound, Fraction):
        raise RangeError(f"{_WANTED}; labels are compared with =, <> and IN")
    return {"<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound}[operator]


def _compared(condition: Expression) -> tuple[Comparison, Constant]:
    if isinstance(condition, Compare):
        left, right = condition.left, condition.right
        if isinstance(left, Named) and isinstance(right, Literally):
            return condition.operator, right.value
        if isinstance(right, Named) and isinstance(left, Literally):
            return _FLIPPED[condition.operator], left.value
    raise RangeError(f"{_WANTED}; {condition} is something else")


# --- refusals ---------------------------------------------------------------------------------------------------------


def only(node: Any, *known: str) -> None:
    """Refuse every part of a node that is not one of these: nothing is skipped silently."""
    for key, value in node.args.items():
        if key in known or value in (None, False) or value == []:
            continue
        unnamed = f"{key.strip('_').replace('_', ' ').upper()} of {node.key.upper()}"
        name, instead = _CLAUSES.get(key, (unnamed, UNDERSTOOD))
        raise RangeError(f"{name} is not understood; {instead}")


def refuse_clause(key: str) -> NoReturn:
    """Refuse a clause by sqlglot's name for it."""
    name, instead = _CLAUSES[key]
    raise RangeError(f"{name} is not understood; {instead}")


def refuse(node: Any, *, aggregate: bool = False) -> NoReturn:
    """Refuse a node by its name, or quote it; `aggregate` says that SELECT wants an aggregate there."""
    instead = _AGGREGATES if aggregate else _CONDITIONS
    name, instead = _NODES.get(node.key, (sql_text(node), instead))
    raise RangeError(f"{name} is not understood; {instead}")


def sql_text(node: Any) -> str:
    """Return a part of the statement as a message quotes it."""
    try:
        text = str(node.sql())
    except Exception:  # sqlglot cannot write everything that it reads
        text = str(node.key).upper()
    return shortened(text)


def shortened(text: str) -> str:
    """Return at most 60 characters of a text."""
    return text if len(text) <= 60 else text[:57] + "..."
