"""CASE about one declared column as a cut or a public lookup, decided without any row.

CASE WHEN age < 18 THEN 'child' ELSE 'adult' END is a lookup of `cut(age, [18])`: every condition is about one declared
column and constant between two thresholds. The first condition that holds decides, in the logic of three values: a
missing number is in the group of ELSE, as in every database; a row that no branch takes is in no group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import Any

from sidelight.errors import RangeError
from sidelight.records import Category, Number, Schema
from sidelight.records.expression_shapes import Constant
from sidelight.records.expressions import (
    Compare,
    Comparison,
    Expression,
    FillMissing,
    IsIn,
    IsMissing,
    Joined,
    Literally,
    Named,
    Not,
)

WANTED = (
    "CASE in GROUP BY compares one declared column with constants: CASE WHEN age < 18 THEN 'child' ELSE 'adult' END"
)
_FLIPPED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
#: A condition and what the CASE gives where it holds; None for NULL.
Branches = Sequence[tuple[Expression, Constant | None]]


def case_groups(branches: Branches, default: Constant | None, schema: Schema) -> Expression:
    """Return a CASE as a lookup; `default` is what ELSE gives."""
    names = dict.fromkeys(name for condition, _ in branches for name in condition.columns)
    if len(names) != 1:
        raise RangeError(f"{WANTED}; it compares {', '.join(names) or 'nothing'} here")
    (name,) = names
    column = next((each for each in schema.columns if each.name == name), None)
    missing = _chosen(branches, None, default)
    if isinstance(column, Number):
        return _by_thresholds(column, branches, default, missing)
    if not isinstance(column, Category):
        raise RangeError(f"{WANTED}; {name!r} is neither a number nor a category with declared labels")
    for condition, _ in branches:
        condition.check(schema)
    labels = Named(name).check(schema).labels  # type: ignore[union-attr]
    return looked_up(Named(name), {label: _chosen(branches, label, default) for label in labels}, missing)


def looked_up(of: Expression, table: Mapping[Any, Constant | None], missing: Constant | None) -> Expression:
    """Return a public lookup of labels; `missing` is the result where there is no label, and None is no result."""
    there: dict[Any, Constant] = {label: result for label, result in table.items() if result is not None}
    if missing is not None:
        stand_in = "missing"
        while stand_in in table:
            stand_in += "_"
        of, there = FillMissing(of, stand_in), {**there, stand_in: missing}
    if not there:
        raise RangeError(f"a function of {of} is NULL for every label, so that no row would be in a group")
    return of.lookup(there)


def _by_thresholds(
    column: Number, branches: Branches, default: Constant | None, missing: Constant | None
) -> Expression:
    step = None if column.granularity is None else Fraction(column.granularity)
    edges = sorted({edge for condition, _ in branches for edge in _edges(condition, step)})
    if not edges:  # only whether it is missing
        edges = [Fraction(0) if column.lower is None else Fraction(column.lower)]
    cut = Named(column.name).cut(edges)
    before = edges[0] - (1 if step is None else step)
    bins = cut.check(Schema([column])).labels  # type: ignore[union-attr]
    found = {label: _chosen(branches, at, default) for label, at in zip(bins, (before, *edges), strict=True)}
    return looked_up(cut, found, missing)


def _edges(condition: Expression, step: Fraction | None) -> list[Fraction]:
    """Return where a condition changes: before the edge it has one value, from the edge on another."""
    if isinstance(condition, Joined):
        return _edges(condition.left, step) + _edges(condition.right, step)
    if isinstance(condition, Not):
        return _edges(condition.of, step)
    if isinstance(condition, IsMissing):
        _only_column(condition.of, condition)
        return []
    if isinstance(condition, IsIn):
        _only_column(condition.of, condition)
        return [edge for value in condition.values for edge in _around("==", value, step)]
    operator, value = _compared(condition)
    return _around(operator, value, step)


def _around(operator: Comparison, value: Constant, step: Fraction | None) -> list[Fraction]:
    if not isinstance(value, Fraction):
        raise RangeError(f"{WANTED}; a number is compared with {value!r}")
    if operator in ("<", ">="):
        return [value]
    if step is None:
        raise RangeError(
            f"{operator} {value} ends inside the numbers of a column without granularity; write < or >=, or declare "
            "its granularity"
        )
    after = (floor(value / step) + 1) * step  # the next number of the grid
    return [after] if operator in ("<=", ">") else [value, after]


def _chosen(branches: Branches, value: Constant | None, default: Constant | None) -> Constant | None:
    return next((result for condition, result in branches if _holds(condition, value) is True), default)


def _holds(condition: Expression, value: Constant | None) -> bool | None:
    """Return whether a condition about one column holds where it has this value; None where that is unknown."""
    if isinstance(condition, Joined):
        both = _holds(condition.left, value), _holds(condition.right, value)
        decides = condition.word == "or"
        return decides if decides in both else None if None in both else not decides
    if isinstance(condition, Not):
        inner = _holds(condition.of, value)
        return None if inner is None else not inner
    if isinstance(condition, IsMissing):
        return value is None if isinstance(condition.of, Named) else _holds(condition.of, value) is None
    if value is None:
        return None
    if isinstance(condition, IsIn):
        return value in condition.values
    operator, bound = _compared(condition)
    if operator in ("==", "!="):
        return (value == bound) is (operator == "==")
    if not isinstance(value, Fraction) or not isinstance(bound, Fraction):
        raise RangeError(f"{WANTED}; labels are compared with =, <> and IN")
    return {"<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound}[operator]


def _only_column(of: Expression, condition: Expression) -> None:
    if not isinstance(of, Named):
        raise RangeError(f"{WANTED}; {condition} is something else")


def _compared(condition: Expression) -> tuple[Comparison, Constant]:
    if isinstance(condition, Compare):
        left, right = condition.left, condition.right
        if isinstance(left, Named) and isinstance(right, Literally):
            return condition.operator, right.value
        if isinstance(right, Named) and isinstance(left, Literally):
            return _FLIPPED[condition.operator], left.value
    raise RangeError(f"{WANTED}; {condition} is something else")
