"""Expressions of columns as codings: what `records.expressions` describes, done to arrays and inside engines alike.

A number or label is a code and whether it is known; a condition is two masks, where it is true and where it is false,
so that three-valued logic needs no nulls, which engines treat differently: not exchanges them, and intersects the true
ones and unites the false ones. Numbers with a granularity are compared as whole numbers of steps, others as clamped
floats against the nearest float on the right side of the constant, which is the same comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import CategoryCoding, CodeArrays, Coding, Keep, NumberCoding
from sidelight.aggregates.fixed_point import FixedPoint, is_missing
from sidelight.errors import SchemaError
from sidelight.grid import Grid
from sidelight.records import Category, Number, Schema
from sidelight.records.expressions import (
    Arithmetic,
    Compare,
    Comparison,
    Cut,
    Expression,
    IsIn,
    IsMissing,
    Joined,
    Literally,
    Lookup,
    Named,
    Not,
)
from sidelight.records.numbers import LARGEST_FLOAT, nearest_float
from sidelight.records.rows import Batch, Wanted
from sidelight.records.shapes import Labels, Reals, Steps, Truths, code_table, factors

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    from sidelight.aggregates.coding import Frame

#: Codes or floats, and which of them are known (None: all): arrays, or expressions of an engine.
Value: TypeAlias = tuple[Any, Any]
#: Where a condition is true, and where it is false.
Truth: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True)
class RealColumn:
    """A number column as clamped floats."""

    number: Number

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The bounds, or the ends of the floats."""
        low, high = self.number.lower, self.number.upper
        return (
            -LARGEST_FLOAT if low is None else nearest_float(low),
            LARGEST_FLOAT if high is None else nearest_float(high),
        )

    def kernel(self, batch: Batch) -> Value:
        """Clamp a batch."""
        values = batch.numbers[self.number.name]
        with np.errstate(all="ignore"):
            missing = np.isnan(values)
            stand_in = 0.0 if self.number.fill is None else self.number.fill
            clamped = np.clip(np.where(missing, stand_in, values), *self.ends)
        return clamped, None if self.number.fill is not None else ~missing

    def lower(self, frame: Frame, wanted: Wanted, name: str) -> tuple[Frame, nw.Expr | None]:
        """Clamp inside an engine."""
        import narwhals.stable.v2 as nw

        column = nw.col(wanted.number_alias(self.number.name))
        stand_in = nw.lit(0.0 if self.number.fill is None else self.number.fill)
        clamped = nw.when(is_missing(column)).then(stand_in).otherwise(column).clip(*self.ends)
        known = None if self.number.fill is not None else ~is_missing(column)
        return frame.with_columns(clamped.alias(name)), known


class _Scope:
    """Where columns come from, each read once: a batch, or the frame of an engine, which grows by columns."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._read: dict[str, Value] = {}

    def column(self, name: str) -> Value:
        if name not in self._read:
            self._read[name] = self._find(name)
        return self._read[name]

    def _leaf(self, name: str) -> Coding | RealColumn:
        column = next(each for each in self.schema.columns if each.name == name)
        if isinstance(column, Category):
            return CategoryCoding(column)
        assert isinstance(column, Number)
        return RealColumn(column) if column.granularity is None else NumberCoding(name, snapped(column))

    def _find(self, name: str) -> Value:
        raise NotImplementedError

    def kept(self, value: Any) -> Any:
        """Return a value that will be used more than once."""
        return value

    def choose(self, value: Any, thresholds: Sequence[Any], results: Sequence[int]) -> Any:
        """Return results[j], where j is how many of the increasing thresholds the value has reached."""
        raise NotImplementedError


class _BatchScope(_Scope):
    def __init__(self, schema: Schema, batch: Batch) -> None:
        super().__init__(schema)
        self._batch = batch

    def _find(self, name: str) -> Value:
        leaf = self._leaf(name)
        if isinstance(leaf, RealColumn):
            return leaf.kernel(self._batch)
        (codes,), kept = leaf.kernel(self._batch)
        return codes, kept

    def choose(self, value: Any, thresholds: Sequence[Any], results: Sequence[int]) -> Any:
        return np.array(results, np.int64)[np.searchsorted(np.array(thresholds), value, side="right")]


class _FrameScope(_Scope):
    def __init__(self, schema: Schema, frame: Frame, wanted: Wanted, prefix: str) -> None:
        super().__init__(schema)
        self.frame, self._wanted, self._prefix, self._made = frame, wanted, prefix, 0

    def _name(self) -> str:
        self._made += 1
        return f"{self._prefix}_e{self._made}"

    def _find(self, name: str) -> Value:
        import narwhals.stable.v2 as nw

        leaf, code, known = self._leaf(name), self._name(), self._name()
        if isinstance(leaf, RealColumn):
            self.frame, stays = leaf.lower(self.frame, self._wanted, code)
        else:
            self.frame, stays = leaf.lower(self.frame, self._wanted, [code])
        if stays is None:
            return nw.col(code), None
        self.frame = self.frame.with_columns(stays.alias(known))
        return nw.col(code), nw.col(known)

    def kept(self, value: Any) -> Any:
        import narwhals.stable.v2 as nw

        name = self._name()
        self.frame = self.frame.with_columns(value.alias(name))
        return nw.col(name)

    def choose(self, value: Any, thresholds: Sequence[Any], results: Sequence[int]) -> Any:
        import narwhals.stable.v2 as nw

        def tree(first: int, last: int) -> Any:  # by halves: engines limit how deep an expression may be
            if first == last:
                return nw.lit(results[first], nw.Int64)
            middle = (first + last) // 2
            reached = column >= thresholds[middle]
            return nw.when(reached).then(tree(middle + 1, last)).otherwise(tree(first, middle))

        column = self.kept(value)
        if not thresholds:  # an engine makes no column of a constant alone
            return nw.when(column == column).then(tree(0, 0)).otherwise(tree(0, 0))
        return tree(0, len(thresholds))


def snapped(number: Number) -> FixedPoint:
    """Return the codes of a column with a granularity: the nearest whole number of steps within its bounds."""
    assert number.granularity is not None
    found = Named(number.name).shape(Schema([number]))
    assert isinstance(found, Steps)
    return FixedPoint.on_grid(number, Grid(resolution=found.step, first=found.first, last=found.last, snap="nearest"))


def _and(first: Any, second: Any) -> Any:
    return second if first is None else first if second is None else first & second


def _value(whole: Expression, scope: _Scope) -> Value:
    """Return the codes of a number or a label."""
    if isinstance(whole, Named):
        return scope.column(whole.name)
    if isinstance(whole, Literally):
        assert isinstance(whole.value, Fraction)
        return whole.value.numerator, None
    if isinstance(whole, Arithmetic):
        return _arithmetic(whole, scope)
    if isinstance(whole, Lookup):
        return _looked_up(whole, scope)
    assert isinstance(whole, Cut)
    return _cut(whole, scope)


def _arithmetic(whole: Arithmetic, scope: _Scope) -> Value:
    left, known = _value(whole.left, scope)
    if whole.operator == "/":
        assert isinstance(whole.right, Literally)
        assert isinstance(whole.right.value, Fraction)
        return (left if whole.right.value > 0 else -1 * left), known
    right, also = _value(whole.right, scope)
    known = _and(known, also)
    if whole.operator == "*":
        return left * right, known
    shapes = [side.shape(scope.schema) for side in (whole.left, whole.right)]
    assert isinstance(shapes[0], Steps)
    assert isinstance(shapes[1], Steps)
    up, over = factors(shapes[0], shapes[1])
    return left * up + right * (over if whole.operator == "+" else -over), known


def _looked_up(whole: Lookup, scope: _Scope) -> Value:
    found, gives = whole.of.shape(scope.schema), whole.shape(scope.schema)
    value, known = _value(whole.of, scope)
    keys = code_table(found, [key for key, _ in whole.entries], where="")
    results = code_table(gives, [result for _, result in whole.entries], where="")
    table = {key: int(result) for key, result in zip(keys, results, strict=True) if _is_code(key, found)}
    default = None if whole.default is None else int(code_table(gives, [whole.default], where="")[0])
    return _by_table(scope, value, known, found, table, default)


def _is_code(key: int | Fraction, found: Any) -> bool:
    if isinstance(found, Reals):
        return _is_float(Fraction(key))
    return Fraction(key).denominator == 1 and (isinstance(found, Labels) or found.first <= key <= found.last)


def _by_table(scope: _Scope, value: Any, known: Any, found: Any, table: dict[Any, int], default: int | None) -> Value:
    """Return the result of each code in a table: a function that is constant between the codes of the table."""
    other = 0 if default is None else default
    thresholds: list[Any] = []
    results, listed = [other], [0]
    for key in sorted(table):
        behind = math.nextafter(float(key), math.inf) if isinstance(found, Reals) else int(key) + 1
        start = float(key) if isinstance(found, Reals) else int(key)
        if thresholds and thresholds[-1] == start:
            thresholds.pop(), results.pop(), listed.pop()
        thresholds += [start, behind]
        results += [table[key], other]
        listed += [1, 0]
    if thresholds and thresholds[-1] == math.inf:
        thresholds.pop(), results.pop(), listed.pop()
    value = scope.kept(value)
    codes = scope.kept(scope.choose(value, thresholds, results))
    if default is not None:
        return codes, known
    return codes, _and(known, scope.kept(scope.choose(value, thresholds, listed) == 1))


def _cut(whole: Cut, scope: _Scope) -> Value:
    found = whole.of.shape(scope.schema)
    value, known = _value(whole.of, scope)
    edges = [_up(edge, found) for edge in whole.edges]
    if whole.outside == "keep":
        return scope.choose(value, edges, range(len(edges) + 1)), known
    edges[-1] = _behind(whole.edges[-1], found)  # the last interval is closed
    place = scope.kept(scope.choose(value, edges, [*range(-1, len(edges) - 1), -1]))
    return place, _and(known, place >= 0)


def _up(number: Fraction, found: Any) -> Any:
    """Return the least code or float that is at least a number."""
    if isinstance(found, Steps):
        return min(max((number / found.step).__ceil__(), found.first), found.last + 1)
    near = nearest_float(number)
    up = near if Fraction(near) >= number else math.nextafter(near, math.inf)
    return min(up, LARGEST_FLOAT) if number <= LARGEST_FLOAT else math.inf


def _behind(number: Fraction, found: Any) -> Any:
    """Return the least code or float that is larger than a number."""
    if isinstance(found, Steps):
        return min(max((number / found.step).__floor__() + 1, found.first), found.last + 1)
    up = _up(number, found)
    return math.nextafter(up, math.inf) if math.isfinite(up) and Fraction(up) == number else up


def _is_float(number: Fraction) -> bool:
    return Fraction(nearest_float(number)) == number


def _truth(whole: Expression, scope: _Scope) -> Truth:
    """Return where a condition is true, and where it is false."""
    if isinstance(whole, Not):
        true, false = _truth(whole.of, scope)
        return false, true
    if isinstance(whole, Joined):
        (first, not_first), (second, not_second) = _truth(whole.left, scope), _truth(whole.right, scope)
        if whole.word == "and":
            return first & second, not_first | not_second
        return first | second, not_first & not_second
    if isinstance(whole, IsMissing):
        known = _known(whole.of, scope)
        return ~known, known
    if isinstance(whole, IsIn):
        return _member(whole, scope)
    assert isinstance(whole, Compare)
    return _compared(whole, scope)


def _known(of: Expression, scope: _Scope) -> Any:
    if isinstance(of.shape(scope.schema), Truths):
        true, false = _truth(of, scope)
        return true | false
    value, known = _value(of, scope)
    value = scope.kept(value)
    return value == value if known is None else known


_MIRRORED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _compared(whole: Compare, scope: _Scope) -> Truth:
    left, right, operator = whole.left, whole.right, whole.operator
    if isinstance(left, Literally):
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    if not isinstance(right, Literally):
        left, right = Arithmetic("-", left, right), Literally(Fraction(0))
    found = left.shape(scope.schema)
    value, known = _value(left, scope)
    value = scope.kept(value)
    if operator in ("==", "!="):
        equal = _equal(value, found, right.value)
        return _split(equal if operator == "==" else ~equal, known)
    assert isinstance(right.value, Fraction)
    # x >= c or x > c is to have reached a threshold; < and <= are their opposites
    threshold = (_up if operator in (">=", "<") else _behind)(right.value, found)
    reached = value >= threshold if math.isfinite(threshold) else value != value
    return _split(reached if operator in (">=", ">") else ~reached, known)


def _member(whole: IsIn, scope: _Scope) -> Truth:
    found = whole.of.shape(scope.schema)
    value, known = _value(whole.of, scope)
    value = scope.kept(value)
    within = value != value
    for each in dict.fromkeys(whole.values):
        within = within | _equal(value, found, each)
    return _split(scope.kept(within), known)


def _equal(value: Any, found: Any, constant: Any) -> Any:
    (place,) = code_table(found, [constant], where="")
    if not _is_code(place, found):
        return value != value
    return value == (float(place) if isinstance(found, Reals) else int(place))


def _split(true: Any, known: Any) -> Truth:
    return (true, ~true) if known is None else (known & true, known & ~true)


@dataclass(frozen=True, eq=False)
class ExpressionCoding:
    """An expression as one code: the place of a label, the steps of a number, or 0 and 1 for false and true.

    Rows of which it is missing or unknown are left out.
    """

    expression: Expression
    schema: Schema

    def __post_init__(self) -> None:
        if isinstance(self.shape, Reals):
            raise SchemaError(f"{self.expression} needs a granularity to be a derived column of its own")

    @cached_property
    def shape(self) -> Truths | Labels | Steps | Reals:
        """What the expression gives."""
        return self.expression.check(self.schema)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The number columns that it reads."""
        return tuple(name for name in self.expression.columns if isinstance(self._declared[name], Number))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The category columns that it reads."""
        return tuple(name for name in self.expression.columns if isinstance(self._declared[name], Category))

    @cached_property
    def _declared(self) -> dict[str, Any]:
        return {column.name: column for column in self.schema.columns}

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The ends of the codes."""
        if isinstance(self.shape, Steps):
            return ((self.shape.first, self.shape.last),)
        return ((0, len(self.shape.labels) - 1 if isinstance(self.shape, Labels) else 1),)

    @property
    def drops(self) -> bool:
        """Something may be missing in every expression."""
        return True

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        """Evaluate a batch."""
        codes, kept = self._evaluated(_BatchScope(self.schema, batch), lambda mask: mask.astype(np.int64))
        return (np.broadcast_to(np.asarray(codes, np.int64), (batch.length,)),), kept

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        """Evaluate inside an engine."""
        import narwhals.stable.v2 as nw

        scope = _FrameScope(self.schema, frame, wanted, names[0])

        def as_code(mask: nw.Expr) -> nw.Expr:
            return nw.when(mask).then(nw.lit(1, nw.Int64)).otherwise(nw.lit(0, nw.Int64))

        codes, kept = self._evaluated(scope, as_code)
        return scope.frame.with_columns(codes.cast(nw.Int64).alias(names[0])), kept

    def _evaluated(self, scope: _Scope, as_code: Callable[[Any], Any]) -> Value:
        if not isinstance(self.shape, Truths):
            return _value(self.expression, scope)
        true, false = _truth(self.expression, scope)
        return as_code(true), true | false


@dataclass(frozen=True, eq=False)
class Filtered:
    """A coding of the rows for which a condition is true."""

    coding: Coding
    condition: ExpressionCoding

    def __post_init__(self) -> None:
        if not isinstance(self.condition.shape, Truths):
            raise SchemaError(
                f"where must be a condition, and {self.condition.expression} is none; compare it with something"
            )

    @property
    def numbers(self) -> tuple[str, ...]:
        """The number columns of both, each once."""
        return tuple(dict.fromkeys([*self.coding.numbers, *self.condition.numbers]))

    @property
    def texts(self) -> tuple[str, ...]:
        """The text columns of both, each once."""
        return tuple(dict.fromkeys([*self.coding.texts, *self.condition.texts]))

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Those of the coding."""
        return self.coding.ranges

    @property
    def drops(self) -> bool:
        """Rows that do not pass are left out."""
        return True

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        """Code a batch, and tell which rows pass."""
        codes, kept = self.coding.kernel(batch)
        true, _ = _truth(self.condition.expression, _BatchScope(self.condition.schema, batch))
        passed: NDArray[np.bool_] = np.broadcast_to(np.asarray(true, bool), (batch.length,))
        return codes, passed if kept is None else kept & passed

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        """Code inside an engine, and tell which rows pass."""
        frame, kept = self.coding.lower(frame, wanted, names)
        scope = _FrameScope(self.condition.schema, frame, wanted, "where")
        true, _ = _truth(self.condition.expression, scope)
        passed = scope.kept(true)
        return scope.frame, passed if kept is None else kept & passed


def filtered(coding: Coding, where: Expression | None, schema: Schema) -> Coding:
    """Return the coding of the rows that pass a public condition; None lets all pass."""
    return coding if where is None else Filtered(coding, ExpressionCoding(where, schema))
