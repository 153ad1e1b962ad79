"""Evaluate an expression: codes and which are known, or where a condition is true and where it is false.

The same code evaluates arrays and expressions of an engine; scopes hold the differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sidelight.aggregates.coding import CategoryCoding, Coding, NumberCoding, both
from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.aggregates.real_column import RealColumn, Value
from sidelight.grid import Grid
from sidelight.records import Category, Number, Schema
from sidelight.records.expression_shapes import (
    LabelShape,
    RealShape,
    StepShape,
    TruthShape,
    code_table,
    factors,
    number_in,
)
from sidelight.records.expressions import (
    Arithmetic,
    Compare,
    Comparison,
    CutExpression,
    Expression,
    IsIn,
    IsMissing,
    Joined,
    Literally,
    Lookup,
    Named,
    Not,
)
from sidelight.records.filled_and_dated import DatePart, FillMissing
from sidelight.records.numbers import LARGEST_FLOAT, nearest_double, nearest_float
from sidelight.records.rows import Batch, Wanted

if TYPE_CHECKING:
    from sidelight.aggregates.coding import Frame


class ColumnScope:
    """The source of columns, each read once: a batch, or the frame of an engine, which grows by columns."""

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

    def where(self, known: Any, value: Any, stand_in: float) -> Any:
        """Return the value where it is known, and a constant elsewhere."""
        raise NotImplementedError


class BatchScope(ColumnScope):
    def __init__(self, schema: Schema, batch: Batch) -> None:
        super().__init__(schema)
        self.batch = batch

    def _find(self, name: str) -> Value:
        leaf = self._leaf(name)
        if isinstance(leaf, RealColumn):
            return leaf.kernel(self.batch)
        (codes,), kept = leaf.kernel(self.batch)
        return codes, kept

    def choose(self, value: Any, thresholds: Sequence[Any], results: Sequence[int]) -> Any:
        return np.array(results, np.int64)[np.searchsorted(np.array(thresholds), value, side="right")]

    def where(self, known: Any, value: Any, stand_in: float) -> Any:
        return np.where(known, value, stand_in)


class FrameScope(ColumnScope):
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

    def where(self, known: Any, value: Any, stand_in: float) -> Any:
        import narwhals.stable.v2 as nw

        constant = nw.lit(stand_in, nw.Float64 if isinstance(stand_in, float) else nw.Int64)
        return self.kept(nw.when(known).then(value).otherwise(constant))


def snapped(number: Number) -> FixedPoint:
    """Return the codes of a column with a granularity: the nearest whole number of steps within its bounds."""
    assert number.granularity is not None
    found = Named(number.name).shape(Schema([number]))
    assert isinstance(found, StepShape)
    return FixedPoint.on_grid(number, Grid(resolution=found.step, first=found.first, last=found.last, snap="nearest"))


#: Where a condition is true, and where it is false.
Truth: TypeAlias = tuple[Any, Any]


def code_of(whole: Expression, scope: ColumnScope) -> Value:
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
    if isinstance(whole, FillMissing):
        return _filled(whole, scope)
    if isinstance(whole, DatePart):
        return _date_part(whole, scope)
    assert isinstance(whole, CutExpression)
    return _cut(whole, scope)


def _arithmetic(whole: Arithmetic, scope: ColumnScope) -> Value:
    left, known = code_of(whole.left, scope)
    if whole.operator == "/":
        assert isinstance(whole.right, Literally)
        assert isinstance(whole.right.value, Fraction)
        return (left if whole.right.value > 0 else -1 * left), known
    right, also = code_of(whole.right, scope)
    known = both(known, also)
    if whole.operator == "*":
        return left * right, known
    shapes = [side.shape(scope.schema) for side in (whole.left, whole.right)]
    assert isinstance(shapes[0], StepShape)
    assert isinstance(shapes[1], StepShape)
    up, over = factors(shapes[0], shapes[1])
    apart = int(whole.starts_apart(scope.schema) * up / shapes[0].step)
    return left * up + right * (over if whole.operator == "+" else -over) + apart, known


def _looked_up(whole: Lookup, scope: ColumnScope) -> Value:
    found, gives = whole.of.shape(scope.schema), whole.shape(scope.schema)
    value, known = code_of(whole.of, scope)
    keys = code_table(found, [key for key, _ in whole.entries], where="")
    results = code_table(gives, [result for _, result in whole.entries], where="")
    table = {key: int(result) for key, result in zip(keys, results, strict=True) if _is_code(key, found)}
    default = None if whole.default is None else int(code_table(gives, [whole.default], where="")[0])
    return _by_table(scope, value, known, found, table, default)


def _is_code(key: int | Fraction, found: Any) -> bool:
    if isinstance(found, RealShape):
        return abs(Fraction(key)) <= LARGEST_FLOAT
    return Fraction(key).denominator == 1 and (isinstance(found, LabelShape) or found.first <= key <= found.last)


def _by_table(
    scope: ColumnScope, value: Any, known: Any, found: Any, table: dict[Any, int], default: int | None
) -> Value:
    """Return the result of each code in a table: a function that is constant between the codes of the table."""
    other = 0 if default is None else default
    thresholds: list[Any] = []
    results, listed = [other], [0]
    for key in sorted(table):
        behind = math.nextafter(float(key), math.inf) if isinstance(found, RealShape) else int(key) + 1
        start = float(key) if isinstance(found, RealShape) else int(key)
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
    return codes, both(known, scope.kept(scope.choose(value, thresholds, listed) == 1))


def _cut(whole: CutExpression, scope: ColumnScope) -> Value:
    found = whole.of.shape(scope.schema)
    value, known = code_of(whole.of, scope)
    numbers = whole.compared(found)
    edges = [_up(edge, found) for edge in numbers]
    if whole.outside == "keep":
        return scope.choose(value, edges, range(len(edges) + 1)), known
    edges[-1] = _behind(numbers[-1], found)  # the last interval is closed
    place = scope.kept(scope.choose(value, edges, [*range(-1, len(edges) - 1), -1]))
    return place, both(known, place >= 0)


def _filled(whole: FillMissing, scope: ColumnScope) -> Value:
    gives = whole.shape(scope.schema)
    value, known = code_of(whole.of, scope)
    if known is None:
        return value, None
    (place,) = code_table(gives, [whole.value], where="")
    return scope.where(known, value, float(place) if isinstance(gives, RealShape) else int(place)), None


def _date_part(whole: DatePart, scope: ColumnScope) -> Value:
    found = whole.of.shape(scope.schema)
    edges, _, results = whole.steps(found)
    value, known = code_of(whole.of, scope)
    if isinstance(found, StepShape) and (turn := whole.turn(found)) is not None:
        value = (value - found.first + turn[1]) % turn[0]  # not negative: engines differ on remainders of those
    return scope.choose(value, edges, results), known


def _up(number: Fraction, found: Any) -> Any:
    """Return the least code or float that is at least a number, which is a float itself or beyond all of them."""
    if isinstance(found, StepShape):
        return min(max((number / found.step).__ceil__(), found.first), found.last + 1)
    return nearest_float(number) if number <= LARGEST_FLOAT else math.inf


def _behind(number: Fraction, found: Any) -> Any:
    """Return the least code or float that is larger than a number."""
    if isinstance(found, StepShape):
        return min(max((number / found.step).__floor__() + 1, found.first), found.last + 1)
    return math.nextafter(float(number), math.inf) if abs(number) <= LARGEST_FLOAT else _up(number, found)


def truth_of(whole: Expression, scope: ColumnScope) -> Truth:
    """Return where a condition is true, and where it is false."""
    if isinstance(whole, Not):
        true, false = truth_of(whole.of, scope)
        return false, true
    if isinstance(whole, Joined):
        (first, not_first), (second, not_second) = truth_of(whole.left, scope), truth_of(whole.right, scope)
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


def _known(of: Expression, scope: ColumnScope) -> Any:
    if isinstance(of.shape(scope.schema), TruthShape):
        true, false = truth_of(of, scope)
        return true | false
    value, known = code_of(of, scope)
    value = scope.kept(value)
    return value == value if known is None else known


_MIRRORED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _compared(whole: Compare, scope: ColumnScope) -> Truth:
    left, right, operator = whole.left, whole.right, whole.operator
    if isinstance(left, Literally):
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    if not isinstance(right, Literally):
        if isinstance(left.shape(scope.schema), LabelShape):
            return _same_labels(left, right, operator, scope)
        left, right = Arithmetic("-", left, right), Literally(Fraction(0))
    found = left.shape(scope.schema)
    value, known = code_of(left, scope)
    value = scope.kept(value)
    if operator in ("==", "!="):
        equal = _equal(value, found, right.value)
        return _split(equal if operator == "==" else ~equal, known)
    bound = number_in(found, right.value, where="")
    bound = nearest_double(bound) if isinstance(found, RealShape) else bound
    # x >= c or x > c is to have reached a threshold; < and <= are their opposites
    threshold = (_up if operator in (">=", "<") else _behind)(bound, found)
    reached = value >= threshold if math.isfinite(threshold) else value != value
    return _split(reached if operator in (">=", ">") else ~reached, known)


def _same_labels(left: Expression, right: Expression, operator: Comparison, scope: ColumnScope) -> Truth:
    """Return where two labels are the same. Of two undeclared ones, both "other", that is unknown."""
    (one, known), (two, also) = code_of(left, scope), code_of(right, scope)
    one, known = scope.kept(one), both(known, also)
    equal = scope.kept(one == two)
    columns = {each.name: each for each in scope.schema.columns if isinstance(each, Category)}
    declared = [columns[side.name] for side in (left, right) if isinstance(side, Named)]
    others = {each.labels.index(each.other) for each in declared if each.other is not None}
    for code in others if len(declared) == 2 else ():
        known = both(known, ~(equal & (one == code)))
    return _split(equal if operator == "==" else ~equal, known)


def _member(whole: IsIn, scope: ColumnScope) -> Truth:
    found = whole.of.shape(scope.schema)
    value, known = code_of(whole.of, scope)
    value = scope.kept(value)
    within = value != value
    for each in dict.fromkeys(whole.values):
        within = within | _equal(value, found, each)
    return _split(scope.kept(within), known)


def _equal(value: Any, found: Any, constant: Any) -> Any:
    (place,) = code_table(found, [constant], where="")
    if not _is_code(place, found):
        return value != value
    return value == (float(place) if isinstance(found, RealShape) else int(place))


def _split(true: Any, known: Any) -> Truth:
    return (true, ~true) if known is None else (known & true, known & ~true)
