"""The sum of a bounded column in fixed point."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.coding import CodeArrays, NumberCoding
from sidelight.aggregates.collect import Lowering, collect
from sidelight.aggregates.engine_sums import engine_sums
from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.errors import RangeError, SchemaError
from sidelight.grid import Grid
from sidelight.guarantees.claims import Neighbours, Unit
from sidelight.records import Number, Table
from sidelight.records.numbers import Real, exact_number

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

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

    @property
    def wide(self) -> bool:
        """One sum is cheapest in the engine."""
        return False

    @property
    def folds_apart(self) -> bool:
        """Whether a state is small enough for every thread to have its own: two numbers are."""
        return True

    def empty(self) -> SumState:
        """Return the sum of no rows."""
        return 0, 0

    def fold(self, state: SumState, codes: CodeArrays) -> SumState:
        """Add a batch."""
        (code,) = codes
        rows, total = state
        for start in range(0, len(code), _CHUNK):
            total += int(code[start : start + _CHUNK].sum())
        return rows + len(code), total

    def merge(self, first: SumState, second: SumState) -> SumState:
        """Add two sums."""
        return first[0] + second[0], first[1] + second[1]

    def finish(self, state: SumState) -> Bounded:
        """Return the sum with its sensitivity."""
        rows, total = state
        return Bounded(total - rows * self.centre, self.sensitivity, "l1", self.neighbours, self.unit)

    def query(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> SumState:
        """Let the engine sum."""
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
        table: the rows and their schema.
        column: a `Number` with both bounds.
        step: the public unit; the column's granularity if it is left out.
        centre: a public number that is subtracted from every row, rounded to the step.
        neighbours: which data sets count as neighbours.
        lowering: for tests: "batches" or "engine".

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
