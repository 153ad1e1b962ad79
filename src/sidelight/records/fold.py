"""Folds: the rows of another table that belong to a row become one value of it; `sl.fold.count(...)`.

A fold looks at rows of the same owner alone, so it costs nothing (docs: proofs, persons across tables, Theorem 1). Its
rows are those that name the base row's key, or, in a view with one row a person or where it says so, all rows of the
person.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from sidelight.errors import RangeError, SchemaError
from sidelight.grid import CODE_LIMIT
from sidelight.guarantees.amounts import own_int
from sidelight.records.columns import Category, Column, Label, Number, checked_limit
from sidelight.records.dates import Date
from sidelight.records.expression_shapes import LabelShape, RealShape, StepShape, TruthShape
from sidelight.records.expressions import Expression, Named
from sidelight.records.missing import Fill
from sidelight.records.numbers import Real, exact_number, number_text
from sidelight.records.schema import Schema

FoldKind: TypeAlias = Literal[
    "count", "any", "all", "sum", "mean", "min", "max", "first", "last", "distinct", "mode", "span", "gap"
]
#: The labels of a yes/no result, by code.
TRUTHS = ("false", "true")
#: `empty=` of a sum, or of `any`, that is missing over no known value, as in SQL.
MISSING = "missing"


@dataclass(frozen=True, kw_only=True, eq=False)
class Fold:
    """What becomes of the rows of a table that belong to one base row. Made by the functions of `sl.fold`.

    Args:
        kind: Which fold.
        table: The table whose rows are folded.
        of: The columns, derived numbers or conditions of that table's view that are folded.
        where: Which rows; a condition on the columns of that table's view.
        order: The column that decides what is first and last.
        lower, upper: The bounds of the result.
        granularity: The step of a mean.
        which: Of a gap, "least" or "largest".
        empty: The value over no rows, instead of the usual one.
        of_person: Whether all rows of the person are folded, also in a view with several rows a person.
    """

    kind: FoldKind
    table: str
    of: tuple[Expression, ...] = ()
    where: Expression | None = None
    order: str | None = None
    lower: Real | None = None
    upper: Real | None = None
    granularity: Real | None = None
    which: Literal["least", "largest"] = "least"
    empty: Real | str | None = None
    of_person: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.table, str) or not self.table:
            raise SchemaError(f"a fold names the table whose rows it folds, got {self.table!r}")
        for name in ("lower", "upper"):
            object.__setattr__(self, name, own_int(getattr(self, name)))
        if self.where is not None and not isinstance(self.where, Expression):
            raise SchemaError(f"where must be a condition such as sl.col('x') >= 1, got {type(self.where).__name__}")

    @property
    def is_missing(self) -> bool:
        """Whether it is a fold that is usually known, and here missing over no rows."""
        return self.kind in ("sum", "any") and self.empty == MISSING

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the folded table's view that are named."""
        parts = self.of if self.where is None else (*self.of, self.where)
        named = [name for each in parts for name in each.columns]
        return tuple(dict.fromkeys(named if self.order is None else [*named, self.order]))

    def to_json(self) -> dict[str, Any]:
        """Return the public description, as JSON of strings, for the request that a ledger stores."""
        found: dict[str, Any] = {"fold": self.kind, "table": self.table}
        found |= {"of": [str(each) for each in self.of]} if self.of else {}
        found |= {"where": str(self.where)} if self.where is not None else {}
        found |= {"of_person": "true"} if self.of_person else {}
        for name in ("order", "lower", "upper", "granularity", "empty"):
            value = getattr(self, name)
            if value is not None:
                found[name] = value if isinstance(value, str) else number_text(exact_number(value, name=name))
        return found | ({"which": self.which} if self.kind == "gap" else {})

    def declared(self, name: str, schema: Schema) -> tuple[Column, ...]:
        """Return the declared columns of the result; `schema` is that of the folded table's view.

        Raises:
            SchemaError: a column is of another kind than the fold needs.
        """
        if self.where is not None and not isinstance(self.where.check(schema), TruthShape):
            raise SchemaError(f"where of the fold {name!r} must be a condition, and {self.where} is none")
        if self.order is not None and not isinstance(Named(self.order).check(schema), StepShape):
            raise SchemaError(
                f"order of the fold {name!r} must be a date, or a number with a granularity, and {self.order!r} is not"
            )
        column = _declared(self, name, schema)
        return column if isinstance(column, tuple) else (self._with_empty(column),)

    def _with_empty(self, column: Column) -> Column:
        """Refuse a value for no rows that the result could not hold."""
        if self.empty is None or self.is_missing:
            return column
        if isinstance(column, Number):
            value: Any = Fill(self.empty)
            if isinstance(column, Date):
                Date(column.name, start=column.start, end=column.end, unit=column.unit, missing=value)
            else:
                Number(column.name, lower=column.lower, upper=column.upper, missing=value)
        elif isinstance(column, Category):
            Category(column.name, column.categories, other=column.other, missing=Fill(self.empty))
        return column


def _declared(fold: Fold, name: str, schema: Schema) -> Column | tuple[Column, ...]:
    if fold.kind in ("count", "distinct"):
        if fold.kind == "distinct":
            _codes(fold, name, schema)
        advice = "larger numbers of rows count as this one"
        checked_limit(fold.upper, name=f"upper of the fold {name!r}", advice=advice)
        return Number(name, lower=0, upper=fold.upper, granularity=1)
    if fold.kind in ("any", "all"):
        if not isinstance(fold.of[0].check(schema), TruthShape):
            raise SchemaError(
                f"the fold {name!r} wants a condition, and {fold.of[0]} is none; compare it with something"
            )
        return Category(name, TRUTHS, other=None)
    if fold.kind in ("first", "last"):
        names = [name] if len(fold.of) == 1 else [f"{name}.{each}" for each in fold.columns[: len(fold.of)]]
        return tuple(_like(_column(each, schema), wanted) for each, wanted in zip(fold.of, names, strict=True))
    if fold.kind == "mode":
        column = _column(fold.of[0], schema)
        if not isinstance(column, (Category, Label)):
            raise SchemaError(f"the fold {name!r} wants labels, and {fold.of[0]} is a number; write sl.fold.mean")
        return _like(column, name)
    if fold.kind in ("min", "max") and isinstance(fold.of[0], Named):
        _codes(fold, name, schema)
        return _like(_column(fold.of[0], schema), name)
    shape = _steps(fold, name, schema)
    step = shape.step
    if fold.kind in ("min", "max"):
        return Number(
            name, lower=shape.first * step, upper=builtins.max(shape.last, shape.first + 1) * step, granularity=step
        )
    if fold.kind == "sum":
        return Number(name, lower=fold.lower, upper=fold.upper, granularity=step)
    if fold.kind == "mean":
        unit = exact_number(fold.granularity if fold.granularity is not None else step, name=f"granularity of {name!r}")
        low, high = (_end(end, step / unit) for end in (shape.first, shape.last))
        return Number(name, lower=low * unit, upper=builtins.max(high, low + 1) * unit, granularity=unit)
    most = builtins.min(builtins.max(shape.last - shape.first, 1), CODE_LIMIT)  # of a column without bounds
    return Number(name, lower=0, upper=most * step, granularity=step)  # span, gap


def _end(code: int, ratio: Fraction) -> int:
    """Return an end in finer or coarser steps; where a column has no bound, its codes end at 2**61 of both."""
    found = (code * ratio).__floor__()
    return builtins.min(builtins.max(found, -CODE_LIMIT), CODE_LIMIT) if abs(code) == CODE_LIMIT else found


def _steps(fold: Fold, name: str, schema: Schema) -> StepShape:
    shape = fold.of[0].check(schema)
    if not isinstance(shape, StepShape):
        raise SchemaError(
            f"the fold {name!r} works on whole steps, and {fold.of[0]} has none; declare its granularity (and bounds)"
        )
    return shape


def _codes(fold: Fold, name: str, schema: Schema) -> None:
    if not isinstance(fold.of[0].check(schema), (StepShape, LabelShape)):
        raise SchemaError(f"the fold {name!r} compares codes, and {fold.of[0]} has none; declare its granularity")


def _column(expression: Expression, schema: Schema) -> Column:
    if not isinstance(expression, Named):
        raise SchemaError(f"first, last and mode take columns by name, got {expression}")
    found = next((each for each in schema.columns if each.name == expression.name), None)
    if isinstance(found, Number) and isinstance(expression.check(schema), RealShape):
        raise SchemaError(f"column {expression.name!r} has no steps; declare its granularity")
    if found is None or not isinstance(found, (Number, Category, Label)):
        expression.check(schema)  # says what is wrong with it
        raise SchemaError(f"column {expression.name!r} cannot be folded")
    return found


def _like(column: Column, name: str) -> Column:
    """Return a column's declaration under another name, without what was declared about reading texts."""
    if isinstance(column, Date):
        return Date(name, start=column.start, end=column.end, unit=column.unit)
    if isinstance(column, Number):
        return Number(name, lower=column.lower, upper=column.upper, granularity=column.granularity)
    if isinstance(column, Category):
        return Category(name, column.categories, other=column.other)
    assert isinstance(column, Label)
    return Label(name)


def _given(x: str | Expression) -> tuple[Expression, ...]:
    if not isinstance(x, (str, Expression)):
        raise SchemaError(f"a column's name or an expression was wanted, got {type(x).__name__}")
    return (Named(x) if isinstance(x, str) else x,)


def count(table: str, *, upper: int, where: Expression | None = None, empty: Real | None = None) -> Fold:
    """Describe the number of rows, at most `upper`; 0 over no rows."""
    return Fold(kind="count", table=table, upper=upper, where=where, empty=empty)


def any(table: str, condition: Expression, *, where: Expression | None = None, empty: str | None = None) -> Fold:  # noqa: A001 - sl.fold.any
    """Describe whether a condition is true in some row; "false" over no rows, or `empty`: "missing" leaves it out."""
    return Fold(kind="any", table=table, of=_given(condition), where=where, empty=empty)


def all(table: str, condition: Expression, *, where: Expression | None = None, empty: str | None = None) -> Fold:  # noqa: A001 - sl.fold.all
    """Describe whether a condition is true in every row (unknown is not true); missing over no rows."""
    return Fold(kind="all", table=table, of=_given(condition), where=where, empty=empty)


def sum(  # noqa: A001 - sl.fold.sum
    table: str,
    x: str | Expression,
    *,
    lower: Real | None = None,
    upper: Real | None = None,
    where: Expression | None = None,
    empty: Real | None = None,
) -> Fold:
    """Describe the exact sum in steps of x, clamped to the bounds where there are any.

    Over no known value it is 0, or `empty`: "missing" leaves it out.
    """
    return Fold(kind="sum", table=table, of=_given(x), lower=lower, upper=upper, where=where, empty=empty)


def mean(
    table: str,
    x: str | Expression,
    *,
    granularity: Real | None = None,
    where: Expression | None = None,
    empty: Real | None = None,
) -> Fold:
    """Describe the mean, rounded down to whole steps of `granularity` (that of x if left out); missing over no rows."""
    if granularity is not None and exact_number(granularity, name="granularity") <= 0:
        raise RangeError(f"granularity of a mean must be positive, got {granularity}")
    return Fold(kind="mean", table=table, of=_given(x), granularity=granularity, where=where, empty=empty)


def min(table: str, x: str | Expression, *, where: Expression | None = None, empty: Real | str | None = None) -> Fold:  # noqa: A001 - sl.fold.min
    """Describe the least value, of a category the first of its labels; missing over no rows."""
    return Fold(kind="min", table=table, of=_given(x), where=where, empty=empty)


def max(table: str, x: str | Expression, *, where: Expression | None = None, empty: Real | str | None = None) -> Fold:  # noqa: A001 - sl.fold.max
    """Describe the largest value, of a category the last of its labels; missing over no rows."""
    return Fold(kind="max", table=table, of=_given(x), where=where, empty=empty)


def first(
    table: str, x: str | Sequence[str], *, order: str, where: Expression | None = None, empty: Real | str | None = None
) -> Fold:
    """Describe the columns x of the row with the least `order`; several columns come from one row."""
    return _of_one_row("first", table, x, order, where, empty)


def last(
    table: str, x: str | Sequence[str], *, order: str, where: Expression | None = None, empty: Real | str | None = None
) -> Fold:
    """Describe the columns x of the row with the largest `order`; several columns come from one row."""
    return _of_one_row("last", table, x, order, where, empty)


def distinct(
    table: str, x: str | Expression, *, upper: int, where: Expression | None = None, empty: Real | None = None
) -> Fold:
    """Describe the number of different values, at most `upper`; 0 over no rows."""
    return Fold(kind="distinct", table=table, of=_given(x), upper=upper, where=where, empty=empty)


def mode(table: str, x: str, *, where: Expression | None = None, empty: str | None = None) -> Fold:
    """Describe the label of most rows; missing over no rows."""
    return Fold(kind="mode", table=table, of=_given(x), where=where, empty=empty)


def span(table: str, x: str | Expression, *, where: Expression | None = None, empty: Real | None = None) -> Fold:
    """Describe the largest value minus the least; missing over no rows."""
    return Fold(kind="span", table=table, of=_given(x), where=where, empty=empty)


def gap(
    table: str,
    x: str | Expression,
    which: Literal["least", "largest"] = "least",
    *,
    where: Expression | None = None,
    empty: Real | None = None,
) -> Fold:
    """Describe the least or the largest distance of neighbouring values; missing below two rows."""
    if which not in ("least", "largest"):
        raise RangeError(f"which must be 'least' or 'largest', got {which!r}")
    return Fold(kind="gap", table=table, of=_given(x), which=which, where=where, empty=empty)


def _of_one_row(
    kind: Literal["first", "last"],
    table: str,
    x: str | Sequence[str],
    order: str,
    where: Expression | None,
    empty: Real | str | None,
) -> Fold:
    names = (x,) if isinstance(x, str) else tuple(x)
    if not names or not builtins.all(isinstance(name, str) for name in names):
        raise SchemaError(f"sl.fold.{kind} takes the name of a column or a list of names, got {x!r}")
    if len(names) > 1 and empty is not None:
        raise SchemaError(f"empty= is for one column, and sl.fold.{kind} has {len(names)}; leave it out")
    return Fold(kind=kind, table=table, of=tuple(map(Named, names)), order=order, where=where, empty=empty)
