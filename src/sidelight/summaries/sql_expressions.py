"""Conditions and numbers of a statement: the same expressions that `where=` and plan files have.

Texts, numbers and missing cells mean what they mean there. Whatever is not named here, in any corner of the tree, is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.records import Schema
from sidelight.records.expression_shapes import Constant, constant
from sidelight.records.expression_text import DEEPEST, arithmetic, conjoin
from sidelight.records.expressions import (
    Compare,
    Comparison,
    Expression,
    IsIn,
    IsMissing,
    Literally,
    Named,
    Not,
    Operator,
)
from sidelight.records.numbers import exact_number
from sidelight.summaries.sql_refusals import only, refuse, sql_text

_COMPARED: Mapping[str, Comparison] = {"eq": "==", "neq": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_COMPUTED: Mapping[str, Operator] = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
#: What sqlglot calls the conditions.
CONDITIONS = (*_COMPARED, "and", "or", "not", "in", "is", "between")


class ExpressionReader:
    """Reads conditions and numbers of one statement against a schema.

    Args:
        schema: The public declarations, which columns are looked up in.
        table: What the statement calls the table: its name and its alias, each perhaps empty.
    """

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
            raise RangeError(f"{sql_text(node)} stands where a condition is needed; compare it with something")
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
