"""Conditions, numbers and groups of a statement as the expressions of rows that `where=` and `by=` take.

Texts, numbers and missing cells mean what they mean there. What is no arithmetic, a function of one column (LIKE, ||,
UPPER, CASE, a part of a date), is evaluated on the public values of the column (`sql_groups`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sqlglot import exp

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.records import Category, PersonId, Schema
from sidelight.records.expression_shapes import Constant, constant
from sidelight.records.expression_text import DEEPEST, arithmetic, conjoin
from sidelight.records.expressions import (
    Compare,
    Expression,
    FillMissing,
    IsIn,
    IsMissing,
    Literally,
    Named,
    Not,
    Operator,
)
from sidelight.records.numbers import exact_number
from sidelight.release.statement_trees import StatementRow, evaluated
from sidelight.summaries.sql_dialects import MEANINGS
from sidelight.summaries.sql_groups import COMPARED, CONDITIONS, GroupReader
from sidelight.summaries.sql_nodes import declared_name, plain
from sidelight.summaries.sql_scalars import ScalarReader, chain
from sidelight.summaries.sql_tree import only, refuse, sql_text

_COMPUTED: Mapping[str, Operator] = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
#: Functions of rows that are evaluated on every public value of a column.
_EVALUATED = (
    "abs",
    "round",
    "floor",
    "ceil",
    "trunc",
    "sign",
    "mod",
    "intdiv",
    "greatest",
    "least",
    "nullif",
    "coalesce",
)


class ExpressionReader:
    """Reads conditions, numbers and groups of one statement against a schema; `tables` are its names."""

    def __init__(self, schema: Schema, tables: Sequence[str], dialect: str = "duckdb") -> None:
        self._schema, self._tables, self._dialect = schema, tables, dialect
        self.groups = GroupReader(schema, self, dialect)
        self.divides_integers = MEANINGS[dialect].divides_integers

    # --- conditions

    def condition(self, node: Any, depth: int = 0) -> Expression:
        """Read a condition."""
        found = self.conditions(node, depth)
        if found is None:
            raise RangeError(f"{sql_text(node)} holds for every row and reads no column; leave it out")
        return found

    def conditions(self, node: Any, depth: int = 0) -> Expression | None:
        """Read a condition; None where it holds for every row."""
        self._deep(depth)
        node = plain(node)
        if node.key in ("and", "or"):
            only(node, "this", "expression")
            parts = [self.conditions(each, depth + 1) for each in chain(node)]
            known = [part for part in parts if part is not None]
            if node.key == "and":
                return conjoin("and", known) if known else None
            return conjoin("or", known) if len(known) == len(parts) else None
        if node.key == "not":
            only(node, "this")
            return Not(self.condition(node.this, depth + 1))
        if node.find(exp.Column) is None and node.key in (*CONDITIONS, "boolean"):
            self._of_constants(node)
            return None
        if node.key == "is" and node.expression.key == "boolean":
            only(node, "this", "expression")
            of = self.condition(node.this, depth + 1)
            return conjoin("and", [of if node.expression.this else Not(of), Not(IsMissing(of))])
        labels = self._two_labels(node)
        if labels is not None:
            only(node, "this", "expression")
            return Compare(COMPARED[node.key], *labels)
        if self.is_of_labels(node):
            return self.groups.condition(node)
        return self._simple(node, depth)

    def _simple(self, node: Any, depth: int) -> Expression:
        if node.key in COMPARED:
            only(node, "this", "expression")
            return Compare(COMPARED[node.key], self.number(node.this, depth + 1), self.number(node.expression, depth))
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

    def _of_constants(self, node: Any) -> None:
        """Decide a condition about constants alone, such as 1 = 1."""
        if self._of_no_row(node) is not True:
            raise RangeError(f"{sql_text(node)} holds for no row, whatever they are; leave the statement out")

    def _of_no_row(self, node: Any) -> Any:
        """Return the value of what reads no column."""
        tree = ScalarReader(lambda _: None, self._dialect).read(node).tree
        return evaluated(tree, StatementRow((), {}, totals=False))

    def _two_labels(self, node: Any) -> tuple[Named, Named] | None:
        """Return the two columns of labels that a condition compares; None if it is another."""
        sides = [plain(node.this), plain(node.expression)] if node.key in ("eq", "neq") else []
        declared: list[Any] = [self.declared(side) if side.key == "column" else None for side in sides]
        if not sides or not all(isinstance(each, Category) for each in declared):
            return None
        one, two = declared
        if one.labels != two.labels:
            raise RangeError(f"{sql_text(node)}: both must declare the same labels in the same order to be compared")
        return Named(one.name), Named(two.name)

    def is_of_labels(self, node: Any) -> bool:
        """Return whether a condition is more than a column of labels compared with constants."""
        if node.key == "column":
            return isinstance(self.declared(node), Category)
        if node.key not in CONDITIONS:
            return False
        bare = node.key in ("eq", "neq", "in", "is") and plain(node.this).key == "column"
        return self.groups.reads_labels(node) and not (bare and _has_constants(node))

    # --- numbers

    def number(self, node: Any, depth: int = 0) -> Expression:
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
            if node.key == "div" and node.args.get("typed") and self.groups.kind(node) == "whole":
                return self._whole_quotient(node)
            left, right = self.number(node.this, depth + 1), self.number(node.expression, depth + 1)
            return arithmetic(_COMPUTED[node.key], left, right)
        if node.key in ("cast", "trycast") and _keeps_value(node, MEANINGS[self._dialect].decimal_digits):
            return self.number(node.this, depth + 1)
        if node.key in ("cast", "trycast") and node.find(exp.Column) is None:
            return self._constant_number(node)
        if node.key == "coalesce" and len(node.expressions) == 1:
            other = self.number(node.expressions[0], depth + 1)
            if isinstance(other, Literally):
                return FillMissing(self.number(node.this, depth + 1), other.value)
        if node.key in ("case", "if"):
            return self.groups.case(node, self._number_result)
        if node.key in _EVALUATED:
            return self.groups.number(node)
        if node.key in CONDITIONS:
            raise RangeError(
                f"{sql_text(node)} is a condition where a number is needed; join conditions with AND, OR, NOT"
            )
        return refuse(node)

    def _whole_quotient(self, node: Any) -> Expression:
        """Return a division of integers, on the public values of one column."""
        if node.find(exp.Column) is None:
            return self._constant_number(node)
        try:
            return self.groups.number(node)
        except (RangeError, SchemaError):
            raise RangeError(
                f"{sql_text(node)} divides integers in this dialect, which is understood of one declared column with a "
                "granularity and a short list of values; write a divisor with a point for real numbers: age / 10.0"
            ) from None

    def _constant_number(self, node: Any) -> Literally:
        """Return a number that reads no column."""
        found = self._of_no_row(node)
        if isinstance(found, (bool, str)) or found is None:
            raise RangeError(f"{sql_text(node)} is no number, and one is needed here")
        return Literally(Fraction(found))

    def _number_result(self, node: Any) -> Constant | None:
        found = None if node.key == "null" else self.number(node)
        if found is not None and (not isinstance(found, Literally) or isinstance(found.value, str)):
            raise RangeError(
                f"{sql_text(node)} is not understood: a CASE inside an aggregate gives constants, or has one branch: "
                "SUM(CASE WHEN age >= 18 THEN income END)"
            )
        return None if found is None else found.value

    def _constant(self, node: Any, depth: int) -> Constant:
        found = self.number(node, depth)
        if not isinstance(found, Literally):
            raise RangeError(f"IN needs a list of constants, got {sql_text(node)}: region IN ('N', 'S')")
        return found.value

    def column(self, node: Any) -> str:
        """Return the declared name that a column of the statement stands for."""
        only(node, "this", "table", "db", "catalog")
        if node.this.key != "identifier":
            refuse(node.this)
        given, names = node.text("table"), [column.name for column in self._schema.columns]
        path = ".".join(part.name for part in node.parts)  # BigQuery splits quoted names at their dots
        if path in names:
            return path
        if given and given.casefold() not in [each.casefold() for each in self._tables]:
            raise RangeError(f"{given}.{node.name}: the statement reads {self._tables[0]!r} and no table {given!r}")
        found = declared_name(node, names)
        if found is not None:
            return found
        name: str = node.name
        quoted = "; texts stand in 'single quotes'" if node.this.args.get("quoted") else ""
        raise SchemaError(f"column {name!r} is not declared; {nearest(name, names)}{quoted}")

    def declared(self, node: Any) -> Any:
        """Return the declared column that a node names."""
        name = self.column(node)
        found = next(column for column in self._schema.columns if column.name == name)
        labels = found.labels if MEANINGS[self._dialect].ignores_case and isinstance(found, Category) else ()
        if len({label.rstrip(" ").casefold() for label in labels}) != len(labels):
            raise RangeError(
                f"labels of {name!r} differ in capitals or in blanks at their end alone, which T-SQL usually ignores "
                "when it compares texts; declare one of them, with Category(..., casefold=True, strip=True)"
            )
        return found

    def is_person(self, node: Any) -> bool:
        """Return whether a node is the column of persons."""
        node = plain(node)
        return node.key == "column" and isinstance(self.declared(node), PersonId)

    def _deep(self, depth: int) -> None:
        if depth > DEEPEST:
            raise RangeError(f"the statement is nested more than {DEEPEST} deep; split it")


def _has_constants(node: Any) -> bool:
    others = [node.expression] if node.key in ("eq", "neq", "is") else node.expressions
    return all(plain(each).key in ("literal", "boolean", "null") for each in others)


def _keeps_value(node: Any, decimal_digits: int | None) -> bool:
    """Return whether a cast leaves numbers, or a written date, as they are."""
    kind = getattr(node.args["to"].this, "name", "")
    kept = ["DOUBLE", "FLOAT", *([] if decimal_digits is not None or node.args["to"].expressions else ["DECIMAL"])]
    if plain(node.this).key == "literal" and not node.args["to"].expressions:
        kept += ["DATE", "TIMESTAMP", "DATETIME"]
    return kind in kept
