"""CASE about declared columns as cuts and public lookups, decided without any row.

CASE WHEN age < 18 THEN 'child' ELSE 'adult' END is a lookup of `cut(age, [18])`: every comparison is about one declared
column and constant between two thresholds. The first condition that holds decides, in the logic of three values: a
missing number is in the group of ELSE, as in every database; a row that no branch takes is in no group. Where the
conditions are about several columns, the cells of each (its intervals or labels, and "missing") are numbered, the
numbers are put together to one as digits are, and that one is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import floor, prod
from typing import Any

from sidelight.errors import RangeError
from sidelight.records import Category, Number, Schema
from sidelight.records.expression_shapes import Constant
from sidelight.records.expressions import (
    Arithmetic,
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

WANTED = "CASE in GROUP BY compares declared columns with constants: CASE WHEN age < 18 THEN 'child' ELSE 'adult' END"
#: The most combinations of intervals and labels that the conditions of one CASE may tell apart.
_MOST_CELLS = 4096
_FLIPPED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
#: A condition and what the CASE gives where it holds; None for NULL.
Branches = Sequence[tuple[Expression, Constant | None]]


def case_groups(branches: Branches, default: Constant | None, schema: Schema) -> Expression:
    """Return a CASE as a lookup; `default` is what ELSE gives."""
    names = dict.fromkeys(name for condition, _ in branches for name in condition.columns)
    if not names:
        raise RangeError(f"{WANTED}; it compares nothing here")
    cells = [_cells_of(name, branches, schema) for name in names]
    if len(cells) == 1:
        ((name, of, found),) = cells
        results = {label: _chosen(branches, {name: at}, default) for label, at in found.items()}
        return looked_up(of, results, _chosen(branches, {name: None}, default))
    size = prod(len(found) + 1 for _, _, found in cells)
    if size > _MOST_CELLS:
        raise RangeError(
            f"a CASE may tell {_MOST_CELLS} combinations of its columns' values apart, and this one {size}"
        )
    place: Expression | None = None
    for _, of, found in cells:
        digit = looked_up(of, {label: Fraction(at) for at, label in enumerate(found)}, Fraction(len(found)))
        place = digit if place is None else Arithmetic("+", _times(place, len(found) + 1), digit)
    assert place is not None
    combinations = product(*([*found.values(), None] for _, _, found in cells))
    table = {
        Fraction(at): _chosen(branches, dict(zip(names, values, strict=True)), default)
        for at, values in enumerate(combinations)
    }
    return looked_up(place, table, None)


def _times(of: Expression, factor: int) -> Expression:
    return Arithmetic("*", of, Literally(Fraction(factor)))


def _cells_of(name: str, branches: Branches, schema: Schema) -> tuple[str, Expression, dict[str, Constant]]:
    """Return a column's labels, or intervals in which no condition changes, each with a value that stands for it."""
    column = next((each for each in schema.columns if each.name == name), None)
    if isinstance(column, Number):
        return name, *_by_thresholds(column, branches)
    if not isinstance(column, Category):
        raise RangeError(f"{WANTED}; {name!r} is neither a number nor a category with declared labels")
    for condition, _ in branches:
        condition.check(schema)
    labels = Named(name).check(schema).labels  # type: ignore[union-attr]
    return name, Named(name), {label: label for label in labels}


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


def _by_thresholds(column: Number, branches: Branches) -> tuple[Expression, dict[str, Constant]]:
    step = None if column.granularity is None else Fraction(column.granularity)
    edges = sorted({edge for condition, _ in branches for edge in _edges(condition, column.name, step)})
    if not edges:  # only whether it is missing
        edges = [Fraction(0) if column.lower is None else Fraction(column.lower)]
    cut = Named(column.name).cut(edges)
    before = edges[0] - (1 if step is None else step)
    bins = cut.check(Schema([column])).labels  # type: ignore[union-attr]
    return cut, dict(zip(bins, (before, *edges), strict=True))


def _edges(condition: Expression, name: str, step: Fraction | None) -> list[Fraction]:
    """Return where a condition changes with a column: before the edge it has one value, from the edge on another."""
    if isinstance(condition, Joined):
        return _edges(condition.left, name, step) + _edges(condition.right, name, step)
    if isinstance(condition, Not) or (isinstance(condition, IsMissing) and not isinstance(condition.of, Named)):
        return _edges(condition.of, name, step)
    of, operator, values = _compared(condition)
    if of != name or operator is None:
        return []
    return [edge for value in values for edge in _around(operator, value, step)]


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


def _chosen(branches: Branches, values: Mapping[str, Constant | None], default: Constant | None) -> Constant | None:
    return next((result for condition, result in branches if _holds(condition, values) is True), default)


def _holds(condition: Expression, values: Mapping[str, Constant | None]) -> bool | None:
    """Return whether a condition holds where its columns have these values; None where that is unknown."""
    if isinstance(condition, Joined):
        both = _holds(condition.left, values), _holds(condition.right, values)
        decides = condition.word == "or"
        return decides if decides in both else None if None in both else not decides
    if isinstance(condition, Not):
        inner = _holds(condition.of, values)
        return None if inner is None else not inner
    if isinstance(condition, IsMissing) and not isinstance(condition.of, Named):
        return _holds(condition.of, values) is None
    name, operator, constants = _compared(condition)
    value = values[name]
    if operator is None:
        return value is None
    if value is None:
        return None
    if operator in ("==", "!="):
        return (value in constants) is (operator == "==")
    (bound,) = constants
    if not isinstance(value, Fraction) or not isinstance(bound, Fraction):
        raise RangeError(f"{WANTED}; labels are compared with =, <> and IN")
    return {"<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound}[operator]


def _compared(condition: Expression) -> tuple[str, Comparison | None, Sequence[Constant]]:
    """Return the column of a comparison, its operator (None: whether it is missing) and the constants."""
    if isinstance(condition, IsMissing) and isinstance(condition.of, Named):
        return condition.of.name, None, ()
    if isinstance(condition, IsIn) and isinstance(condition.of, Named):
        return condition.of.name, "==", condition.values
    if isinstance(condition, Compare):
        left, right = condition.left, condition.right
        if isinstance(left, Named) and isinstance(right, Literally):
            return left.name, condition.operator, (right.value,)
        if isinstance(right, Named) and isinstance(left, Literally):
            return right.name, _FLIPPED[condition.operator], (left.value,)
    raise RangeError(f"{WANTED}; {condition} is something else")
