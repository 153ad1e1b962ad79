"""Aggregates of a statement: what each counts, adds up or averages, of which rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from sqlglot import exp

from sidelight.errors import RangeError, SidelightError
from sidelight.records import Date, Schema
from sidelight.records.expression_text import conjoin
from sidelight.records.expressions import Expression, FillMissing, IsMissing, Literally, Named, Not
from sidelight.records.numbers import number_text
from sidelight.summaries.sql_expressions import ExpressionReader
from sidelight.summaries.sql_groups import CONDITIONS
from sidelight.summaries.sql_nodes import has_aggregate, plain
from sidelight.summaries.sql_scalars import Kind, case_branches
from sidelight.summaries.sql_tree import only, refuse, sql_text

#: What an aggregate function of the statement asks for.
Function = Literal[
    "count", "persons", "distinct", "sum", "mean", "proportion", "variance", "standard_deviation", "quantile"
]

#: Functions of one number, and what they divide by: n - ddof.
_FUNCTIONS: Mapping[str, tuple[Function, int | None]] = {
    "sum": ("sum", None),
    "avg": ("mean", None),
    "variance": ("variance", None),
    "variancepop": ("variance", 0),
    "stddev": ("standard_deviation", None),
    "stddevsamp": ("standard_deviation", None),
    "stddevpop": ("standard_deviation", 0),
}
_WHOLE: tuple[Function, ...] = ("count", "persons", "distinct")


@dataclass(frozen=True, kw_only=True)
class SelectItem:
    """One column of the released table."""

    name: str
    function: Function | None = None  # None for a column of GROUP BY
    of: Expression | None = None  # the argument, the column or CASE of GROUP BY; None of COUNT(*)
    level: Fraction | None = None  # of a quantile
    where: Expression | None = None  # of FILTER, in addition to WHERE
    ddof: int | None = None  # of a spread, where it is not that of a sample
    clause: str = "SELECT"  # where it stands
    #: Whether SQL divides it as an integer: a sum, or a value, of integers, in a dialect that divides integers.
    integer: bool = False

    @property
    def identity(self) -> tuple[str | None, ...]:
        """The same for two aggregates that ask the same."""
        parts = (self.function, self.of, self.level, self.where, self.ddof)
        return tuple(None if part is None else str(part) for part in parts)  # a column may be called "None"

    def default_name(self) -> str:
        """Return what an aggregate without AS is called: count, mean_income, quantile_0.9_income."""
        if self.function == "persons":
            return "persons"
        level = "" if self.level is None else f"_{number_text(self.level)}"
        of = "" if self.of is None else f"_{self.of}"
        pop = "_pop" if self.ddof == 0 else ""
        return f"{self.function}{level}{of}{pop}"

    def kind(self, schema: Schema) -> Kind:
        """Return the type of its number: counts are whole; means and quantiles of dates are dates."""
        if self.function in _WHOLE:
            return "whole"
        if isinstance(self.of, Named) and self.function in ("mean", "quantile"):
            named = self.of.name
            if any(isinstance(each, Date) and each.name == named for each in schema.columns):
                return "date"
        return "sum" if self.integer and self.function != "mean" else "double"


class AggregateReader:
    """Reads aggregate functions of one statement."""

    def __init__(self, schema: Schema, rows: ExpressionReader) -> None:
        self._schema, self._rows = schema, rows

    def read(self, node: Any) -> SelectItem | None:
        """Return what an aggregate asks; None where the node is none."""
        found = self._read(node)
        if found is None:
            return None
        if node.key in ("sum", "avg", "withingroup") and self._is_of_integers(node):
            found = replace(found, integer=True)
        return found if found.where is None else replace(found, name=sql_text(node))  # FILTER and CASE: no short name

    def _is_of_integers(self, node: Any) -> bool:
        """Return whether an aggregate is an integer in a dialect that divides integers."""
        if node.key == "withingroup" and node.this.key != "percentiledisc":
            return False
        of = node.this if node.key != "withingroup" else node.expression.expressions[0].this
        try:
            return self._rows.divides_integers and self._rows.groups.kind(of) == "whole"
        except SidelightError:  # not a number
            return False

    def _read(self, node: Any) -> SelectItem | None:
        if node.key == "filter":
            only(node, "this", "expression")
            found = self.read(node.this)
            return None if found is None else _where(found, self._rows.conditions(node.expression.this))
        if node.key == "count":
            return self._count(node)
        if node.key == "countif":
            only(node, "this", "zero_on_all_null")
            return _where(SelectItem(name="", function="count"), self._rows.condition(node.this))
        if node.key in _FUNCTIONS:
            only(node, "this")
            return self._of_number(node, *_FUNCTIONS[node.key])
        if node.key == "median":
            only(node, "this")
            return self._of_column(node.this, level=Fraction(1, 2))
        if node.key in ("quantile", "approxquantile"):
            only(node, "this", "quantile")
            return self._quantile(node.this, node.args.get("quantile"))
        if node.key in ("percentilecont", "percentiledisc"):
            only(node, "this", "expression")
            return self._quantile(node.this, node.expression)
        if node.key == "withingroup":
            return self._within_group(node)
        if node.key == "bracket" and node.this.key == "approxquantiles":
            return self._of_even_levels(node)
        other = isinstance(node, (exp.AggFunc, exp.Window, exp.IgnoreNulls))
        if other and node.key not in ("grouping", "groupingid"):
            refuse(node, aggregate=True)
        return None

    def _of_number(self, node: Any, function: Function, ddof: int | None) -> SelectItem:
        of = plain(node.this)
        if of.key == "distinct":
            raise RangeError("DISTINCT inside an aggregate is not understood; COUNT(DISTINCT person) counts persons")
        if has_aggregate(of):
            raise RangeError(f"{sql_text(node)} is an aggregate of an aggregate; ask the inner one by GROUP BY")
        if of.key in ("cast", "trycast") and plain(of.this).key in CONDITIONS:
            of = plain(of.this)
        if function in ("sum", "mean") and of.key in CONDITIONS:
            condition = self._rows.condition(of)
            if function == "sum":
                return _where(SelectItem(name="", function="count"), condition)
            return SelectItem(name="", function="proportion", of=condition)
        found = self._conditional(of, function) if function in ("sum", "mean") else None
        if found is not None:
            return found
        number = self._rows.number(of)
        if function == "sum" and isinstance(number, FillMissing) and number.value == 0:
            number = number.of  # nothing is added for it either way
        if function == "sum" and isinstance(number, Literally) and number.value == 1:
            return SelectItem(name=f"sum_{number}", function="count")
        return SelectItem(name="", function=function, of=number, ddof=ddof)

    def _conditional(self, node: Any, function: Function) -> SelectItem | None:
        """Read SUM and AVG of CASE WHEN condition THEN number [ELSE 0] END by its condition; None if it is another."""
        split = self._branch(node)
        if split is None:
            return None
        condition, then, other = split
        value, rest = _literal(then), _literal(other)
        if function == "sum" and rest in (None, 0) and then.key != "null":
            if value is not None and value != 1:
                return None
            item = SelectItem(name="", function="count" if value == 1 else "sum")
            return _where(item if value == 1 else replace(item, of=self._rows.number(then)), condition)
        if function == "mean" and other is None and value is None:
            return _where(SelectItem(name="", function="mean", of=self._rows.number(then)), condition)
        if function == "mean" and value == 1 and rest == 0:  # ELSE takes the rows of which nothing is known
            return SelectItem(name="", function="proportion", of=conjoin("and", [condition, Not(IsMissing(condition))]))
        return None

    def _branch(self, node: Any) -> tuple[Expression, Any, Any] | None:
        """Return condition, result and ELSE of a CASE with one branch; ELSE NULL is none."""
        if node.key not in ("case", "if"):
            return None
        branches = case_branches(node)
        if len(branches) != 1 or (node.key == "case" and node.this is not None):
            return None
        other = node.args.get("default") if node.key == "case" else node.args.get("false")
        other = None if other is None or plain(other).key == "null" else plain(other)
        if other is not None and _literal(other) is None:
            return None
        return self._rows.condition(branches[0][0]), plain(branches[0][1]), other

    def _count(self, node: Any) -> SelectItem:
        only(node, "this", "big_int")
        if node.this is None:
            return SelectItem(name="", function="count")
        of = plain(node.this)
        if of.key in ("star", "literal", "boolean"):  # COUNT(), COUNT(*) and COUNT(1) count rows
            if of.key == "star":
                only(of)
            return SelectItem(name="", function="count")
        if of.key == "distinct":
            only(of, "expressions")
            return self._distinct(of)
        if self._rows.is_person(of):  # rows without a person are in no statistic
            return SelectItem(name="", function="count")
        split = self._branch(of)
        if split is not None and split[2] is None:
            condition, then, _ = split
            counted = SelectItem(name="", function="count")
            if then.key not in ("literal", "boolean") and not self._rows.is_person(then):
                counted = replace(counted, of=self._rows.number(then))
            return _where(counted, condition)
        if of.key in CONDITIONS:
            raise RangeError(f"{sql_text(node)} counts rows of which it is known; write COUNT(*) FILTER (WHERE ...)")
        return SelectItem(name="", function="count", of=self._rows.number(of))

    def _distinct(self, node: Any) -> SelectItem:
        if len(node.expressions) != 1:
            raise RangeError("COUNT(DISTINCT ...) counts persons or the labels of one column, got several columns")
        of = plain(node.expressions[0])
        split = self._branch(of)
        if split is not None and split[2] is None:
            return _where(self._distinct_of(split[1]), split[0])
        return self._distinct_of(of)

    def _distinct_of(self, of: Any) -> SelectItem:
        if self._rows.is_person(of):
            person = self._schema.person
            assert person is not None
            return SelectItem(name="", function="persons", of=Named(person.name))
        return SelectItem(name="", function="distinct", of=self._rows.groups.read(of).of)

    def _within_group(self, node: Any) -> SelectItem:
        only(node, "this", "expression")
        kind = node.this
        if kind.key not in ("percentilecont", "percentiledisc"):
            refuse(kind, aggregate=True)
        only(kind, "this")
        ordered = node.expression.expressions if node.expression.key == "order" else []
        if len(ordered) != 1:
            raise RangeError("WITHIN GROUP wants ORDER BY one column; or write QUANTILE(column, 0.5)")
        found = self._quantile(ordered[0].this, kind.this)
        assert found.level is not None
        return replace(found, level=1 - found.level) if ordered[0].args.get("desc") else found

    def _of_even_levels(self, node: Any) -> SelectItem:
        """Read APPROX_QUANTILES(x, 100)[OFFSET(50)], which is [ORDINAL(51)]."""
        only(node.this, "this", "expression")
        only(node, "this", "expressions", "offset", "safe")
        at, parts = (_literal(each) for each in (node.expressions[0], node.this.expression))
        at = None if at is None else at - (node.args.get("offset") or 0)  # ORDINAL counts from 1
        if len(node.expressions) != 1 or at is None or parts is None or not 0 < at < parts:
            raise RangeError("a quantile has one public level strictly between 0 and 1: QUANTILE(income, 0.9)")
        return self._of_column(node.this.this, level=at / parts)

    def _quantile(self, of: Any, level: Any) -> SelectItem:
        found = None if level is None else self._rows.number(level)
        if not isinstance(found, Literally) or isinstance(found.value, str) or not 0 < found.value < 1:
            raise RangeError("a quantile has one public level strictly between 0 and 1: QUANTILE(income, 0.9)")
        return self._of_column(of, level=found.value)

    def _of_column(self, of: Any, *, level: Fraction) -> SelectItem:
        found = self._rows.number(of)
        if not isinstance(found, Named):
            raise RangeError(f"a quantile is of a declared column, got {sql_text(of)}; add it to the table as a column")
        return SelectItem(name="", function="quantile", of=found, level=level)


def _where(item: SelectItem, condition: Expression | None) -> SelectItem:
    if condition is None:
        return item
    return replace(item, where=condition if item.where is None else conjoin("and", [item.where, condition]))


def _literal(node: Any) -> Fraction | None:
    """Return a number that is written there."""
    if node is None or node.key != "literal" or node.args["is_string"]:
        return None
    return Fraction(node.name)
