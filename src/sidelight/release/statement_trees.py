"""Trees of scalar SQL over released numbers: their value for one group, and the interval of it.

A tree is `["number", name]` (a released number), `["key", place, type]`, `["constant", type, text]`, or an operation
with its arguments. Every operation is total: whatever was released, it gives a value or NULL (None), as DuckDB does
with `ieee_floating_point_ops` off: division by zero and NaN are NULL. Numbers that SQL holds exactly (integers and
decimals) are fractions, others floats.
"""

from __future__ import annotations

import math
import operator
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from sidelight.group_table import ALL
from sidelight.records.cells import nearest_or_infinite as real

#: A fraction, float, text, truth, or None for NULL.
Cell: TypeAlias = Any
Tree: TypeAlias = Sequence[Any]
#: Operations through which an interval passes.
_INTERVAL = ("constant", "number", "+", "-", "*", "/", "neg", "round", "double", "nullif")
#: Of the numerator and the denominator of an exact number; larger ones are NULL.
_MOST_BITS = 4096
_LARGEST = sys.float_info.max


class StatementRow:
    """The released numbers of one group, by name, the ends of their intervals, and its labels."""

    def __init__(
        self,
        labels: Sequence[str],
        numbers: Mapping[str, Cell],
        *,
        totals: bool,
        ends: Mapping[str, Cell] | None = None,
    ) -> None:
        self.numbers, self.ends = numbers, ends or {}
        self._labels = labels
        self._totals = totals

    def key(self, place: int, kind: str) -> Cell:
        label = self._labels[place]
        if self._totals and label == ALL:  # a total has no label in SQL
            return None
        if kind in ("text", "truth"):
            return label if kind == "text" else label == "true"
        return Fraction(label)


# --- operations -------------------------------------------------------------------------------------------------------


def evaluated(tree: Tree, row: StatementRow) -> Cell:
    """Return the value of a tree for one group."""
    word, *parts = tree
    if word == "number":
        return row.numbers[parts[0]]
    if word == "key":
        return row.key(int(parts[0]), parts[1])
    if word == "constant":
        return constant_cell(parts[0], parts[1])
    if word == "case":
        *branches, default = parts
        for condition, result in branches:
            if evaluated(condition, row) is True:
                return evaluated(result, row)
        return evaluated(default, row)
    cells = [evaluated(part, row) for part in parts]
    if word in _LENIENT:
        return _LENIENT[word](cells)
    return None if None in cells else _no_nan(_STRICT[word](*cells))


def constant_cell(kind: str, text: str) -> Cell:
    """Return a constant of a tree."""
    if kind == "null":
        return None
    if kind == "truth":
        return text == "true"
    if kind == "text":
        return text
    return float(text) if kind == "double" else Fraction(text)


def _no_nan(cell: Cell) -> Cell:
    return None if isinstance(cell, float) and math.isnan(cell) else cell


def _is_finite(cell: Cell) -> bool:
    """Return whether a number is finite; math.isfinite raises for fractions beyond the floats."""
    return isinstance(cell, Fraction) or math.isfinite(cell)


def _numbers(a: Cell, b: Cell) -> tuple[Any, Any]:
    """Return both as fractions, or both as floats."""
    return (a, b) if isinstance(a, Fraction) and isinstance(b, Fraction) else (real(a), real(b))


def _exactly(operation: Callable[[Any, Any], Cell]) -> Callable[[Cell, Cell], Cell]:
    def exactly(a: Cell, b: Cell) -> Cell:
        found = operation(*_numbers(a, b))
        if (
            isinstance(found, Fraction)
            and max(found.numerator.bit_length(), found.denominator.bit_length()) > _MOST_BITS
        ):
            return None  # products of products would have digits without end
        return found

    return exactly


def _divided(a: Cell, b: Cell) -> Cell:
    divisor = real(b)  # 0 for the least fractions, too
    return None if divisor == 0 else real(a) / divisor


def _whole_quotient(a: Cell, b: Cell) -> Cell:
    quotient = None if b == 0 else a / b
    return None if quotient is None or not _is_finite(quotient) else Fraction(math.trunc(quotient))


def _remainder(a: Cell, b: Cell) -> Cell:
    if b == 0 or not _is_finite(a):
        return None
    return a - b * math.trunc(a / b) if isinstance(a, Fraction) else math.fmod(a, b)


def _rounded(a: Cell, digits: Cell = Fraction(0)) -> Cell:
    """Round half away from zero, as SQL does."""
    places = int(max(-300, min(300, digits)))
    if isinstance(a, Fraction):
        near = math.floor(abs(a) * Fraction(10) ** places + Fraction(1, 2))
        return (near if a >= 0 else -near) / Fraction(10) ** places
    power = 10.0 ** abs(places)
    scaled = abs(a) * power if places >= 0 else abs(a) / power
    if not math.isfinite(scaled):
        return a
    above = float(math.floor(scaled)) + (scaled - math.floor(scaled) >= 0.5)
    return math.copysign(above / power if places >= 0 else above * power, a)


def _to_whole(a: Cell) -> Cell:
    """Cast to an integer: half to even, as DuckDB casts floats."""
    if isinstance(a, bool):
        return Fraction(int(a))
    return Fraction(round(a)) if _is_finite(a) else None


def _whole_part(rounding: Callable[[Any], int]) -> Callable[[Cell], Cell]:
    def part(a: Cell) -> Cell:
        if isinstance(a, Fraction):
            return Fraction(rounding(a))
        return float(rounding(a)) if math.isfinite(a) else a

    return part


@lru_cache(maxsize=256)
def _pattern(text: str, escape: str, case: bool) -> re.Pattern[str]:  # noqa: FBT001 - a cache's key
    parts, signs = [""], iter(text)
    for sign in signs:
        if escape and sign == escape:
            parts[-1] += re.escape(next(signs, ""))
        elif sign == "%":
            parts.append("")
        else:
            parts[-1] += "." if sign == "_" else re.escape(sign)
    # The first place of each part leaves most to the others, so that no other is tried: (?>...) keeps it.
    first, *middle, last = parts if len(parts) > 1 else [*parts, ""]
    found = first + "".join(f"(?>.*?{part})" for part in middle if part) + (f".*{last}" if len(parts) > 1 else "")
    return re.compile(found, re.DOTALL if case else re.DOTALL | re.IGNORECASE)


def _like(text: str, pattern: str, escape: str = "") -> bool:
    return _pattern(text=pattern, escape=escape, case=True).fullmatch(text) is not None


def _ilike(text: str, pattern: str, escape: str = "") -> bool:
    return _pattern(text=pattern, escape=escape, case=False).fullmatch(text) is not None


_STRICT: Mapping[str, Callable[..., Cell]] = {
    "+": _exactly(operator.add),
    "-": _exactly(operator.sub),
    "*": _exactly(operator.mul),
    "/": _divided,
    "//": _exactly(_whole_quotient),
    "%": _exactly(_remainder),
    "neg": operator.neg,
    "abs": abs,
    "round": _rounded,
    "floor": _whole_part(math.floor),
    "ceil": _whole_part(math.ceil),
    "trunc": _whole_part(math.trunc),
    "sqrt": lambda a: math.sqrt(real(a)) if a >= 0 else None,
    "sign": lambda a: Fraction((a > 0) - (a < 0)),
    "double": real,
    "whole": _to_whole,
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "||": operator.add,
    "upper": str.upper,
    "lower": str.lower,
    "like": _like,
    "ilike": _ilike,
    "not": operator.not_,
    "strict_greatest": lambda *cells: max(cells),
    "strict_least": lambda *cells: min(cells),
}


def _and(cells: list[Cell]) -> Cell:
    return False if False in cells else None if None in cells else True


def _or(cells: list[Cell]) -> Cell:
    return True if True in cells else None if None in cells else False


def _in(cells: list[Cell]) -> Cell:
    value, *rest = cells
    if value is None:
        return None
    return True if value in [each for each in rest if each is not None] else None if None in rest else False


def _there(cells: list[Cell]) -> list[Cell]:
    return [each for each in cells if each is not None]


_LENIENT: Mapping[str, Callable[[list[Cell]], Cell]] = {
    "and": _and,
    "or": _or,
    "in": _in,
    "is null": lambda cells: cells[0] is None,
    "coalesce": lambda cells: next(iter(_there(cells)), None),
    "nullif": lambda cells: None if None not in cells and cells[0] == cells[1] else cells[0],
    "greatest": lambda cells: max(_there(cells), default=None),
    "least": lambda cells: min(_there(cells), default=None),
    "concat": lambda cells: "".join(_there(cells)),
}


# --- intervals --------------------------------------------------------------------------------------------------------


def numbers_in(tree: Tree) -> list[str]:
    """Return the released numbers that a tree reads, each once."""
    if tree[0] == "number":
        return [tree[1]]
    parts = [part for part in _parts(tree) for part in numbers_in(part)]
    return list(dict.fromkeys(parts))


def _parts(tree: Tree) -> list[Tree]:
    if tree[0] in ("number", "key", "constant"):
        return []
    if tree[0] == "case":
        return [part for branch in tree[1:-1] for part in branch] + [tree[-1]]
    return list(tree[1:])


def passes_interval(tree: Tree) -> bool:
    """Return whether an interval of each released number in a tree makes one of the tree."""
    return tree[0] in _INTERVAL and all(map(passes_interval, _parts(tree)))


def interval(tree: Tree, row: StatementRow) -> tuple[float, float]:
    """Return the least and the largest value of a tree while each released number stays in its interval."""
    word, *parts = tree
    if word == "number":
        low, high = row.ends.get(f"{parts[0]}_low"), row.ends.get(f"{parts[0]}_high")
        return (-math.inf if low is None else real(low), math.inf if high is None else real(high))
    if word == "constant":
        cell = evaluated(tree, row)
        return (-math.inf, math.inf) if cell is None else _outward(real(cell), real(cell))
    first = interval(parts[0], row)
    if word in ("double", "nullif"):
        return first
    if word == "neg":
        return -first[1], -first[0]
    if word == "round":  # a number between others lies between them when all are rounded
        digits = [evaluated(part, row) for part in parts[1:]]
        if None in digits:
            return -math.inf, math.inf
        return _rounded(first[0], *digits), _rounded(first[1], *digits)
    second = interval(parts[1], row)
    if word == "/":
        if 0 in second or second[0] < 0 < second[1]:
            return -math.inf, math.inf
        word, second = "*", (1 / second[1], 1 / second[0])
    ends: dict[str, Callable[[float, float], float]] = {"+": operator.add, "-": operator.sub}
    ends["*"] = lambda a, b: 0.0 if 0.0 in (a, b) else a * b
    corners = [ends[word](a, b) for a in first for b in second]
    return (-math.inf, math.inf) if any(map(math.isnan, corners)) else _outward(min(corners), max(corners))


def _outward(low: float, high: float) -> tuple[float, float]:
    """Return an interval that holds numbers beyond the floats, too: the largest float is below them."""
    return min(low, _LARGEST), max(high, -_LARGEST)
