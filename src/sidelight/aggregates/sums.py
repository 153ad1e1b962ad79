"""The sum of a bounded column in fixed point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import VALUE_LIMIT, Bounded
from sidelight.aggregates.coding import CodeArrays, NumberCoding
from sidelight.aggregates.collect import Lowering, collect
from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.aggregates.mix import words_of
from sidelight.errors import RangeError, SchemaError
from sidelight.grid import Grid
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.units import Unit
from sidelight.records import Number, Table
from sidelight.records.numbers import Real, exact_number
from sidelight.records.rows import collected

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

# Integer sums inside an engine that cannot wrap, whatever the number of rows.
#
# Polars and Arrow wrap silently at 2**63, DuckDB widens. So a bounded integer is made non-negative (signed remainders
# differ between engines), split into words of 20 bits, and the words are summed: up to 2**42 rows their sums stay below
# 2**62. Python puts them together again.


_WORD = 1 << 20


def engine_sums(frame: nw.LazyFrame[Any], terms: Mapping[str, tuple[nw.Expr, int, int]]) -> tuple[int, dict[str, int]]:
    """Return the number of rows, and the exact sum of each term; a term is (expression, smallest, largest value)."""
    import narwhals.stable.v2 as nw

    sums = [nw.len().alias("rows")]
    for name, (term, first, last) in terms.items():
        rest = term - first
        words = words_of(last - first)
        for place in range(words):
            word = rest if place == words - 1 else rest % _WORD
            sums.append(word.sum().alias(f"{name}_{place}"))
            rest = rest // _WORD
    found = {name: values[0] for name, values in collected(frame.select(*sums)).to_dict(as_series=False).items()}
    rows = int(found["rows"])
    totals = {}
    for name, (_, first, last) in terms.items():
        shifted = sum(int(found[f"{name}_{place}"] or 0) << (20 * place) for place in range(words_of(last - first)))
        totals[name] = shifted + rows * first
    return rows, totals


def engine_products(
    frame: nw.LazyFrame[Any], columns: Sequence[str], sizes: Sequence[int]
) -> tuple[int, NDArray[Any], NDArray[Any]]:
    """Return the number of rows, the sum of each column and of each product of two, as Python integers.

    `sizes` are the largest absolute values of the columns.
    """
    import narwhals.stable.v2 as nw

    terms = {f"s{i}": (nw.col(name), -sizes[i], sizes[i]) for i, name in enumerate(columns)}
    for i, first in enumerate(columns):
        for j, second in enumerate(columns[: i + 1]):
            bound = sizes[i] * sizes[j]
            terms[f"p{i}_{j}"] = (nw.col(first) * nw.col(second), -bound, bound)
    rows, sums = engine_sums(frame, terms)
    total, products = np.zeros(len(columns), object), np.zeros((len(columns), len(columns)), object)
    for i in range(len(columns)):
        total[i] = sums[f"s{i}"]
        for j in range(i + 1):
            products[i, j] = products[j, i] = sums[f"p{i}_{j}"]
    return rows, total, products


def engine_group_sums(frame: nw.LazyFrame[Any], key: str, terms: Sequence[str]) -> tuple[Any, Any]:
    """Return the groups that are there, and for each the number of rows and the sums of terms below 2**40.

    The second array has a row for the numbers of rows and one for each term. Sums saturate at `VALUE_LIMIT`.
    """
    import narwhals.stable.v2 as nw

    words = {f"{name}_0": nw.col(name) % _WORD for name in terms}
    words |= {f"{name}_1": nw.col(name) // _WORD for name in terms}
    if words:
        frame = frame.with_columns(*(word.alias(name) for name, word in words.items()))
    found = collected(frame.group_by(key).agg(nw.len().alias("rows"), *(nw.col(name).sum() for name in words)))
    columns = {name: [int(each) for each in found[name].to_list()] for name in found.columns}
    rows = [columns["rows"]]
    for name in terms:
        both = zip(columns[f"{name}_0"], columns[f"{name}_1"], strict=True)
        rows.append([min(low + (high << 20), VALUE_LIMIT) for low, high in both])
    return np.array(columns[key], np.int64), np.array(rows, np.int64)


#: Codes stay below this, so that a batch of 2**20 rows cannot wrap.
_CODE_LIMIT = 1 << 40
_CHUNK = 1 << 20

#: Rows, and the sum of their codes: Python integers, which cannot wrap.
SumState = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class ClippedSum:
    """The sum over rows of code(x) - centre.

    Guarantee: with codes in a..b, c = centre and at most k rows a unit, the rows of a unit add a number between
    k * min(a - c, 0) and k * max(b - c, 0). Adding or removing a unit moves the sum by the larger of the two in size;
    replacing one moves it by their difference, or, where each unit is exactly one row that cannot be dropped, by b - a.
    """

    coding: NumberCoding
    rows_per_unit: int
    unit: Unit
    centre: int = 0
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    @property
    def sensitivity(self) -> Fraction:
        """How far one unit moves the sum."""
        ((first, last),) = self.coding.ranges
        low, high = min(first - self.centre, 0), max(last - self.centre, 0)
        if self.neighbours is Neighbours.ADD_REMOVE:
            return Fraction(self.rows_per_unit * max(-low, high))
        if self.rows_per_unit == 1 and not self.coding.drops:
            return Fraction(last - first)
        return Fraction(self.rows_per_unit * (high - low))

    wide = False  # one sum is cheapest in the engine
    folds_in_parallel = True

    def empty(self) -> SumState:
        return 0, 0

    def fold(self, state: SumState, codes: CodeArrays) -> SumState:
        (code,) = codes
        rows, total = state
        for start in range(0, len(code), _CHUNK):
            total += int(code[start : start + _CHUNK].sum())
        return rows + len(code), total

    def merge(self, first: SumState, second: SumState) -> SumState:
        return first[0] + second[0], first[1] + second[1]

    def finish(self, state: SumState) -> Bounded:
        rows, total = state
        return Bounded(total - rows * self.centre, self.sensitivity, "l1", self.neighbours, self.unit)

    def query(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> SumState:
        import narwhals.stable.v2 as nw

        ((first, last),) = self.coding.ranges
        rows, totals = engine_sums(frame, {"sum": (nw.col(columns[0]), first, last)})
        return rows, totals["sum"]


def clipped_sum(
    table: Table,
    column: str,
    *,
    step: Real | None = None,
    centre: Real = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    lowering: Lowering = "auto",
) -> Bounded:
    """Sum a bounded column in units of a public step: the value times `step` is the sum of x - centre.

    Guarantee: as `ClippedSum` proves. Accuracy: each row is rounded to the nearest multiple of the step. A public
    centre near the middle of the bounds halves the sensitivity.

    Args:
        table: The rows and their schema.
        column: A `Number` with both bounds.
        step: The public unit; the column's granularity by default.
        centre: A public number that is subtracted from every row, rounded to the step.

    >>> ages = Table([31, 47, 500, None], schema=[Number("age", lower=0, upper=120, granularity=1)])
    >>> total = clipped_sum(ages, "age")
    >>> total.value, total.sensitivity
    (198, Fraction(120, 1))
    """
    number = table.schema.number(column)
    grid = _sum_grid(number, step)
    middle = (exact_number(centre, name="centre") / grid.resolution + Fraction(1, 2)).__floor__()
    if abs(middle) > _CODE_LIMIT:
        raise RangeError(f"the centre must lie within 2**40 steps of 0, got {centre}; choose one within the bounds")
    total = ClippedSum(
        coding=NumberCoding(column, FixedPoint.on_grid(number, grid)),
        rows_per_unit=table.schema.rows_per_unit,
        unit=table.schema.unit,
        centre=middle,
        neighbours=neighbours,
    )
    return collect(table, total, lowering=lowering)


def _sum_grid(number: Number, step: Real | None) -> Grid:
    """Return the grid of multiples of the step within the bounds."""
    if number.lower is None or number.upper is None:
        raise SchemaError(
            f"a sum needs both bounds of column {number.name!r}; declare Number({number.name!r}, lower=..., upper=...)"
        )
    width = number.granularity if step is None else exact_number(step, name="step")
    if width is None:
        raise SchemaError(
            f"a sum needs a step: declare the granularity of column {number.name!r}, or give sl.Sum a step=..."
        )
    if width <= 0:
        raise RangeError(f"step must be positive, got {step}")
    first = (number.lower / width + Fraction(1, 2)).__floor__()
    last = (number.upper / width + Fraction(1, 2)).__floor__()
    if max(abs(first), abs(last)) > _CODE_LIMIT:
        raise RangeError(f"the bounds of column {number.name!r} are more than 2**40 steps from 0; use a coarser step")
    return Grid(resolution=width, first=first, last=last, dither_bits=0, snap="nearest")
