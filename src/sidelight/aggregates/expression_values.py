"""What an expression gives, by its tree: codes and which are known, or where a condition is true and where it is false.

Arrays and expressions of an engine are treated alike; `expression_scopes` has what differs between them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

from sidelight.aggregates.expression_scopes import Scope, Value
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
from sidelight.records.shapes import Labels, Reals, Steps, Truths, code_table, factors, nearest_double, number_in

#: Where a condition is true, and where it is false.
Truth: TypeAlias = tuple[Any, Any]


def _and(first: Any, second: Any) -> Any:
    return second if first is None else first if second is None else first & second


def code_of(whole: Expression, scope: Scope) -> Value:
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


def _arithmetic(whole: Arithmetic, scope: Scope) -> Value:
    left, known = code_of(whole.left, scope)
    if whole.operator == "/":
        assert isinstance(whole.right, Literally)
        assert isinstance(whole.right.value, Fraction)
        return (left if whole.right.value > 0 else -1 * left), known
    right, also = code_of(whole.right, scope)
    known = _and(known, also)
    if whole.operator == "*":
        return left * right, known
    shapes = [side.shape(scope.schema) for side in (whole.left, whole.right)]
    assert isinstance(shapes[0], Steps)
    assert isinstance(shapes[1], Steps)
    up, over = factors(shapes[0], shapes[1])
    return left * up + right * (over if whole.operator == "+" else -over), known


def _looked_up(whole: Lookup, scope: Scope) -> Value:
    found, gives = whole.of.shape(scope.schema), whole.shape(scope.schema)
    value, known = code_of(whole.of, scope)
    keys = code_table(found, [key for key, _ in whole.entries], where="")
    results = code_table(gives, [result for _, result in whole.entries], where="")
    table = {key: int(result) for key, result in zip(keys, results, strict=True) if _is_code(key, found)}
    default = None if whole.default is None else int(code_table(gives, [whole.default], where="")[0])
    return _by_table(scope, value, known, found, table, default)


def _is_code(key: int | Fraction, found: Any) -> bool:
    if isinstance(found, Reals):
        return abs(Fraction(key)) <= LARGEST_FLOAT
    return Fraction(key).denominator == 1 and (isinstance(found, Labels) or found.first <= key <= found.last)


def _by_table(scope: Scope, value: Any, known: Any, found: Any, table: dict[Any, int], default: int | None) -> Value:
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


def _cut(whole: Cut, scope: Scope) -> Value:
    found = whole.of.shape(scope.schema)
    value, known = code_of(whole.of, scope)
    numbers = whole.compared(found)
    edges = [_up(edge, found) for edge in numbers]
    if whole.outside == "keep":
        return scope.choose(value, edges, range(len(edges) + 1)), known
    edges[-1] = _behind(numbers[-1], found)  # the last interval is closed
    place = scope.kept(scope.choose(value, edges, [*range(-1, len(edges) - 1), -1]))
    return place, _and(known, place >= 0)


def _up(number: Fraction, found: Any) -> Any:
    """Return the least code or float that is at least a number, which is a float itself or beyond all of them."""
    if isinstance(found, Steps):
        return min(max((number / found.step).__ceil__(), found.first), found.last + 1)
    return nearest_float(number) if number <= LARGEST_FLOAT else math.inf


def _behind(number: Fraction, found: Any) -> Any:
    """Return the least code or float that is larger than a number."""
    if isinstance(found, Steps):
        return min(max((number / found.step).__floor__() + 1, found.first), found.last + 1)
    return math.nextafter(float(number), math.inf) if abs(number) <= LARGEST_FLOAT else _up(number, found)


def truth_of(whole: Expression, scope: Scope) -> Truth:
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


def _known(of: Expression, scope: Scope) -> Any:
    if isinstance(of.shape(scope.schema), Truths):
        true, false = truth_of(of, scope)
        return true | false
    value, known = code_of(of, scope)
    value = scope.kept(value)
    return value == value if known is None else known


_MIRRORED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _compared(whole: Compare, scope: Scope) -> Truth:
    left, right, operator = whole.left, whole.right, whole.operator
    if isinstance(left, Literally):
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    if not isinstance(right, Literally):
        left, right = Arithmetic("-", left, right), Literally(Fraction(0))
    found = left.shape(scope.schema)
    value, known = code_of(left, scope)
    value = scope.kept(value)
    if operator in ("==", "!="):
        equal = _equal(value, found, right.value)
        return _split(equal if operator == "==" else ~equal, known)
    bound = number_in(found, right.value, where="")
    bound = nearest_double(bound) if isinstance(found, Reals) else bound
    # x >= c or x > c is to have reached a threshold; < and <= are their opposites
    threshold = (_up if operator in (">=", "<") else _behind)(bound, found)
    reached = value >= threshold if math.isfinite(threshold) else value != value
    return _split(reached if operator in (">=", ">") else ~reached, known)


def _member(whole: IsIn, scope: Scope) -> Truth:
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
    return value == (float(place) if isinstance(found, Reals) else int(place))


def _split(true: Any, known: Any) -> Truth:
    return (true, ~true) if known is None else (known & true, known & ~true)
