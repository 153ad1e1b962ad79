"""Averages of sub-selects: compared exactly, as sums; as values rounded down to a thousandth of a step.

AVG(x) > c is SUM(x - c) > 0, which needs no rounding. As a value an average must lie on some grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from sqlglot import exp

from sidelight.errors import RangeError
from sidelight.grid import CODE_LIMIT
from sidelight.records.expression_shapes import StepShape
from sidelight.records.expressions import Expression
from sidelight.records.schema import Schema
from sidelight.summaries.sql_groups import CONDITIONS
from sidelight.summaries.sql_nodes import plain
from sidelight.summaries.sql_tree import sql_text

#: An average of whole numbers is a multiple of one over this.
FINER = 1000


def is_average(node: Any) -> bool:
    """Return whether a node is a sub-select of an average."""
    select = plain(node).this if plain(node).key == "subquery" else None
    named = [] if select is None or select.key != "select" else select.expressions
    return len(named) == 1 and plain(named[0].unalias()).key == "avg"


def less(of: Any, constant: Any) -> Any:
    """Return SUM(of - constant)."""
    return exp.Sum(this=exp.Sub(this=exp.paren(of.copy()), expression=exp.paren(constant.copy())))


def compared_by_sums(node: Any, is_one: Callable[[Any], bool], moved: Callable[[Any], Any]) -> Any:
    """Return a comparison of an average with constants as one of sums.

    Args:
        node: The comparison, IN, BETWEEN or IS.
        is_one: Whether a part of it is the average.
        moved: Returns the sum of x - c for a constant c, a column.

    Raises:
        RangeError: the average is not first, or is compared with something else.
    """
    others = [each for each in node.iter_expressions() if not is_one(each)]
    if not is_one(node.this) or any(each.find(exp.Column, exp.Select) is not None for each in others):
        raise RangeError(
            f"{sql_text(node)} is not understood: write AVG of a sub-select first, and compare it with constants; or "
            "declare a feature that is the mean of a fold, with its granularity"
        )
    zero = exp.Literal.number(0)
    if node.key == "is":
        return exp.Is(this=moved(zero), expression=node.expression.copy())
    if node.key == "between":
        low, high = (moved(node.args[end]) for end in ("low", "high"))
        return exp.paren(exp.and_(exp.GTE(this=low, expression=zero), exp.LTE(this=high, expression=zero.copy())))
    if node.key == "in":
        each = [exp.EQ(this=moved(one), expression=zero.copy()) for one in node.expressions]
        return exp.paren(exp.or_(*each))
    return type(node)(this=moved(node.expression), expression=zero)


def compare_averages(tree: Any, averages: Mapping[str, Callable[[Any], Any]]) -> Any:
    """Return a statement in which columns of averages are compared as sums; elsewhere they stay as they are."""
    known = {name.casefold(): moved for name, moved in averages.items()}

    def name_in(node: Any) -> str | None:
        name = plain(node).name.casefold() if plain(node).key == "column" else ""
        return name if name in known else None

    def put(node: Any) -> Any:
        names = (
            [] if node.key not in CONDITIONS else [name for each in node.iter_expressions() if (name := name_in(each))]
        )
        if not names:
            return node
        return compared_by_sums(node, lambda each: name_in(each) == names[0], known[names[0]])

    return tree.transform(put) if known else tree


def check_values(tree: Any, names: Mapping[str, Any], compared: Callable[[Any], bool]) -> None:
    """Refuse averages that are compared after a computation: they are rounded."""
    known = {name.casefold() for name in names}
    for each in tree.find_all(exp.Column):
        if each.name.casefold() in known and compared(each):
            raise RangeError(
                "an average of a sub-select is rounded, and what is computed from it is not compared; compare the "
                "average itself with constants, with it on the left"
            )


def step_of_average(of: Expression, schema: Schema) -> Fraction | None:
    """Return the step to which averages are rounded down; None, that of the numbers, where a finer one does not fit."""
    shape = of.check(schema)
    if not isinstance(shape, StepShape):
        return None
    most = max(abs(shape.first), abs(shape.last))
    return shape.step / FINER if most * FINER < CODE_LIMIT else None
