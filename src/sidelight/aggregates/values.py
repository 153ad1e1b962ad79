"""A bounded number of a row as a code c in 0..M, and the vectors of whole numbers that statistics add up of it.

A row's code stands for the value lower + c * step, where [lower, upper] is a public or a released interval and M is at
most 2**30. All vectors are non-negative whole numbers but for e = 2c - M:

    pair     (c, M - c)                                        l1 = M
    triple   (p, T - p - r, r), p = ⌊c² F/M⌋, r = ⌊(M-c)² F/M⌋ l1 = T
    disc     (e F, ⌊4 c (M-c) F/M⌋)                            l2 <= T

with a public factor F, T = F M <= 2**30: squares on a grid of 2**30 levels as well. p + r <= ⌊(c² + (M-c)²) F/M⌋ <= T,
so the middle is not negative. (M²-e²) = 4c(M-c), and e²M² + (M²-e²)² = M⁴ - e²(M²-e²) <= M⁴; rounding the second entry
down makes it no longer. F is a multiple of M where that fits (M <= 2**15): then nothing is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from sidelight.aggregates.coding import Coding, NumberCoding, column_of
from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.aggregates.groups import ROWS_OF_A_TOTAL
from sidelight.aggregates.person_vectors import PersonVector
from sidelight.aggregates.predicates import ExpressionCoding
from sidelight.errors import SchemaError
from sidelight.grid import Grid
from sidelight.records import Number, Schema
from sidelight.records.expression_shapes import StepShape, TruthShape
from sidelight.records.expressions import Expression, Named
from sidelight.records.numbers import Real, exact_number

#: The most levels of codes and squares.
LEVELS = 1 << 30
#: An interval reaches no further, so that its step stays a step of a grid.
_FARTHEST = Fraction(2) ** 929
_FINEST = Fraction(1, 2**900)
#: Rows of a total without bounds are clamped to this many steps.
TOTAL_STEPS = 1 << 40


@dataclass(frozen=True, kw_only=True, eq=False)
class Value:
    """A number of each row: coding gives whole numbers of `step`; c = (clamp(code, first, last) - first) // divisor."""

    coding: Coding
    step: Fraction
    first: int
    last: int
    divisor: int = 1
    total: bool = False

    @property
    def levels(self) -> int:
        """The largest code M."""
        return (self.last - self.first) // self.divisor

    @property
    def lower(self) -> Fraction:
        """The value of code 0."""
        return self.first * self.step

    @property
    def upper(self) -> Fraction:
        """The value of code M."""
        return self.lower + self.levels * self.code_step

    @property
    def code_step(self) -> Fraction:
        """What one code is worth."""
        return self.step * self.divisor

    @cached_property
    def factor(self) -> int:
        """The public F, by which squares are scaled."""
        most = LEVELS // self.levels
        return most - most % self.levels if most >= self.levels else most

    @property
    def square_levels(self) -> int:
        """T: the norm of the triple and the disc of one row."""
        return self.factor * self.levels

    @property
    def coarseness(self) -> int:
        """How many steps a unit of a whole sum has, so that one row adds at most 2**30 units."""
        return -(-max(abs(self.first), abs(self.last)) // LEVELS) or 1

    @property
    def farthest(self) -> int:
        """The most units that one row moves a whole sum by: that of the end farther from 0."""
        return -(-max(abs(self.first), abs(self.last)) // self.coarseness)

    @property
    def whole_step(self) -> Fraction:
        """What one unit of a whole sum is worth."""
        return self.step * self.coarseness

    def clamped(self, code: Any) -> Any:
        """Return c of a row's code: an array, or an expression of an engine."""
        ((low, high),) = self.coding.ranges
        if self.total or low < self.first or high > self.last:
            code = code.clip(self.first, self.last)
        code = code - self.first if self.first else code
        return code if self.divisor == 1 else code // self.divisor

    def upper_square(self, c: Any) -> Any:
        """Return p of the triple."""
        return c * c * self.factor // self.levels

    def lower_square(self, c: Any) -> Any:
        """Return r of the triple."""
        return (self.levels - c) * (self.levels - c) * self.factor // self.levels

    def product(self, c: Any) -> Any:
        """Return the second entry of the disc."""
        return c * (self.levels - c) * 4 * self.factor // self.levels


def value_of(schema: Schema, of: str | Expression, *, lower: Real | None = None, upper: Real | None = None) -> Value:
    """Return the code of a column, a derived number or a condition on an interval.

    Args:
        schema: The public declarations.
        of: A number column, a derived number, or a condition (0 where it is false, 1 where it is true).
        lower, upper: The interval, within the declared bounds; these where left out.

    Returns:
        The value. Its interval is rounded to whole steps; an empty one is made one step wide, never an error, since it
        may come from an earlier release, and within the declared bounds where a step of them fits.
    """
    low = None if lower is None else exact_number(lower, name="lower")
    high = None if upper is None else exact_number(upper, name="upper")
    number = column_of(schema, of)
    if isinstance(number, Number):
        return _column_value(number, low, high)
    expression = Named(of) if isinstance(of, str) else of
    shape = expression.check(schema)
    if isinstance(shape, TruthShape):
        return Value(coding=ExpressionCoding(expression, schema), step=Fraction(1), first=0, last=1)
    if not isinstance(shape, StepShape):
        raise SchemaError(f"{expression} gives labels, and a number is needed")
    first, last = shape.first, shape.last
    if low is not None:
        first = min(max(first, _nearest(low / shape.step)), last)
    if high is not None:
        last = max(min(last, _nearest(high / shape.step)), first)
    return _clipped(
        ExpressionCoding(expression, schema), shape.step, *_a_step_wide(first, last, shape.first, shape.last)
    )


def total_of(schema: Schema, of: str | Expression, *, lower: Real | None = None, upper: Real | None = None) -> Value:
    """Return the total of a person's rows as a value: rows in whole steps, their sum clamped to an interval.

    Args:
        schema: The public declarations.
        of: A number column, whose rows are rounded to its granularity (or to a step that its bounds give) and clamped
            to its bounds, or to 2**40 steps; or a derived number.
        lower, upper: The interval of totals, in the unit of the number; by default all possible totals.
    """
    coding, unit = _rows_of_totals(schema, of)
    ((low, high),) = coding.ranges
    least, most = first, last = min(low, low * ROWS_OF_A_TOTAL), max(high, high * ROWS_OF_A_TOTAL)
    if lower is not None:
        first = min(max(first, _nearest(exact_number(lower, name="lower") / unit)), last)
    if upper is not None:
        last = max(min(last, _nearest(exact_number(upper, name="upper") / unit)), first)
    return replace(_clipped(coding, unit, *_a_step_wide(first, last, least, most)), total=True)


def has_totals(schema: Schema, of: str | Expression) -> bool:
    """Return whether a derived number can be added up per person: it has a step, and not too many of them."""
    if isinstance(of, (str, Named)):
        return True  # what a column lacks is said where its total is made
    shape = of.check(schema)
    return isinstance(shape, StepShape) and max(abs(shape.first), abs(shape.last)) <= TOTAL_STEPS


def vector_of(schema: Schema, of: str | Expression, *, person_total: Real) -> tuple[Value, PersonVector]:
    """Return a person's totals of all groups, cut together, as a value in whole units, and the cut.

    Args:
        schema: The public declarations.
        of: As in `total_of`.
        person_total: U, the most that the absolute totals of a person add up to; at least a step, at most 2**60.
    """
    coding, unit = _rows_of_totals(schema, of)
    ((low, high),) = coding.ranges
    most = min(max(_nearest(exact_number(person_total, name="person_total") / unit), 1), 1 << 60)
    steps = -(-most // (LEVELS // 2 if low < 0 < high else LEVELS))  # of a unit
    most //= steps
    first, last = -most if low < 0 else 0, most if high > 0 or low >= 0 else 0
    value = Value(coding=coding, step=unit * steps, first=first, last=last, total=True)
    return value, PersonVector(most=most, unit=steps)


def _rows_of_totals(schema: Schema, of: str | Expression) -> tuple[Coding, Fraction]:
    """Return how rows become whole steps that are added up to totals, at most 2**40 of them, and the step."""
    if not isinstance(of, (str, Named)):
        return _derived_rows(schema, of)
    number = schema.number(of if isinstance(of, str) else of.name)
    unit = number.granularity
    if unit is None:
        if number.lower is None or number.upper is None:
            raise SchemaError(
                f"a total of column {number.name!r} needs a step on which it is counted: declare "
                f"sl.Number({number.name!r}, granularity=...), or both bounds"
            )
        unit = _column_value(number, None, None).step
    low = -TOTAL_STEPS if number.lower is None else max(_nearest(number.lower / unit), -TOTAL_STEPS)
    high = TOTAL_STEPS if number.upper is None else min(_nearest(number.upper / unit), TOTAL_STEPS)
    low, high = min(low, TOTAL_STEPS), max(high, -TOTAL_STEPS)
    grid = Grid(resolution=unit, first=low, last=high, snap="nearest")
    return NumberCoding(number.name, FixedPoint.on_grid(number, grid)), unit


def _derived_rows(schema: Schema, of: Expression) -> tuple[Coding, Fraction]:
    shape = of.check(schema)
    if isinstance(shape, TruthShape):
        return ExpressionCoding(of, schema), Fraction(1)
    if not isinstance(shape, StepShape):
        raise SchemaError(
            f"totals of {of} need a number with a step: declare sl.Number(..., granularity=...) for its columns, or "
            "add up rows with max_rows_per_group=..."
        )
    if max(abs(shape.first), abs(shape.last)) > TOTAL_STEPS:
        raise SchemaError(
            f"{of} may have more than 2**40 steps of {shape.step}, too many for a total; declare both bounds of its "
            "columns, or a coarser granularity, or add up rows with max_rows_per_group=..."
        )
    return ExpressionCoding(of, schema), shape.step


def _column_value(number: Number, low: Fraction | None, high: Fraction | None) -> Value:
    start, end = number.lower if low is None else low, number.upper if high is None else high
    if start is None or end is None:
        raise SchemaError(
            f"column {number.name!r} needs an interval; declare Number({number.name!r}, lower=..., upper=...)"
        )
    start, end = _within(start, number), _within(end, number)
    end = max(start, end)
    far = max(abs(start), abs(end))
    step = number.granularity
    if step is None or (end - start) / step > LEVELS or far / step > 2**53:
        least = max((end - start) / LEVELS, far / 2**52, _FINEST)
        step = Fraction(2) ** _exponent(least)
    lowest = None if number.lower is None else _nearest(number.lower / step)
    highest = None if number.upper is None else _nearest(number.upper / step)
    first, last = _a_step_wide(_nearest(start / step), _nearest(end / step), lowest, highest)
    grid = Grid(resolution=step, first=first, last=last, snap="nearest")
    return Value(coding=NumberCoding(number.name, FixedPoint.on_grid(number, grid)), step=step, first=first, last=last)


def _within(end: Fraction, number: Number) -> Fraction:
    """Move the end of an interval into the column's bounds, and where a step of it is a step of a grid."""
    end = min(max(end, -_FARTHEST), _FARTHEST)
    end = end if number.lower is None else max(end, number.lower)
    return end if number.upper is None else min(end, number.upper)


def _a_step_wide(first: int, last: int, least: int | None, most: int | None) -> tuple[int, int]:
    """Make an empty interval one step wide: upwards, but downwards at the upper end of what is possible."""
    if last > first:
        return first, last
    at_the_top = most is not None and first >= most and (least is None or first > least)
    return (first - 1, first) if at_the_top else (first, first + 1)


def _clipped(coding: Coding, step: Fraction, first: int, last: int) -> Value:
    divisor = -(-(last - first) // LEVELS)
    return Value(
        coding=coding, step=step, first=first, last=first + (last - first) // divisor * divisor, divisor=divisor
    )


def _nearest(number: Fraction) -> int:
    return (number + Fraction(1, 2)).__floor__()


def _exponent(number: Fraction) -> int:
    """Return the least e with 2**e >= number."""
    guess = number.numerator.bit_length() - number.denominator.bit_length()
    while Fraction(2) ** guess < number:
        guess += 1
    while Fraction(2) ** (guess - 1) >= number:
        guess -= 1
    return guess
