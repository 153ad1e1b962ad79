"""CASE as a group of SQL: labels by thresholds of a number, or by declared labels, as a cut or a public lookup.

CASE WHEN age < 18 THEN 'child' ELSE 'adult' END is `lookup(cut(age, [18]), {...})`: every condition is about one
declared column, and is the same for all numbers between two thresholds, so that it is decided here, without any row.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor

from sidelight.errors import RangeError
from sidelight.records import Category, Number, Schema
from sidelight.records.expression_shapes import Constant
from sidelight.records.expressions import Compare, Comparison, Expression, IsIn, Joined, Literally, Named, Not

_FLIPPED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_WANTED = (
    "CASE in GROUP BY compares one declared column with constants: CASE WHEN age < 18 THEN 'child' ELSE 'adult' END"
)


def case_groups(whens: Sequence[tuple[Expression, str]], default: str | None, schema: Schema) -> Expression:
    """Return the labels of a CASE as an expression; a row that no branch takes is in no group.

    Args:
        whens: Conditions with the label of each, the first that holds decides.
        default: The label of ELSE.
        schema: The public declarations.
    """
    names = dict.fromkeys(name for condition, _ in whens for name in condition.columns)
    if len(names) != 1:
        raise RangeError(f"{_WANTED}; it compares {', '.join(names) or 'nothing'} here")
    (name,) = names
    column = next((each for each in schema.columns if each.name == name), None)
    if isinstance(column, Number):
        return _by_thresholds(column, whens, default)
    if not isinstance(column, Category):
        raise RangeError(f"{_WANTED}; {name!r} is no number and no category with declared labels")
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
