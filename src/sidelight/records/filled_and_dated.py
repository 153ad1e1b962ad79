"""Expressions that a missing cell or a date need: a constant where there is no value, and parts of declared dates."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.grid import CODE_LIMIT
from sidelight.records.dates import Calendar
from sidelight.records.expression_shapes import (
    Constant,
    Expression,
    LabelShape,
    RealShape,
    Shape,
    StepShape,
    TruthShape,
    number_in,
    quoted,
    written,
)
from sidelight.records.numbers import LARGEST_FLOAT, number_text
from sidelight.records.schema import Schema

#: Parts of a date that are labels: numbers as texts, or the first day of a period, as 2024-04-01.
Part = Literal["year", "quarter", "month", "weekday", "hour", "year_start", "quarter_start", "month_start"]
_MONTHS: dict[str, int] = {"year": 12, "quarter": 3, "month": 1}


@dataclass(frozen=True, eq=False, repr=False)
class FillMissing(Expression):
    """A label or a number, with a public constant where it is missing."""

    of: Expression
    value: Constant

    def _text(self) -> str:
        return f"fill_missing({self.of}, {written(self.value)})"

    def shape(self, schema: Schema) -> Shape:
        found = self.of.shape(schema)
        if isinstance(found, TruthShape):
            raise SchemaError(f"{self}: a condition is not filled; compare its parts with something")
        if isinstance(found, LabelShape):
            label = self.value if isinstance(self.value, str) else number_text(self.value)
            return LabelShape(tuple(dict.fromkeys([*found.labels, label])))
        number = number_in(found, self.value, where=str(self))
        if isinstance(found, RealShape):
            if abs(number) > LARGEST_FLOAT:
                raise RangeError(f"{self.of} cannot be filled with a number beyond the floats (about 1.8e308)")
            return found
        code = number / found.step
        if code.denominator != 1 or abs(code) > CODE_LIMIT:
            raise RangeError(f"{self}: {number_text(number)} is no whole number of steps of {number_text(found.step)}")
        return StepShape(found.step, min(found.first, int(code)), max(found.last, int(code)), found.calendar)


@dataclass(frozen=True, eq=False, repr=False)
class DatePart(Expression):
    """A part of a declared date: its year, quarter, month, weekday (1 is Monday) or hour, or the start of a period."""

    of: Expression
    part: Part

    def _text(self) -> str:
        return f"date_part({self.of}, {quoted(self.part)})"

    def shape(self, schema: Schema) -> LabelShape:
        return LabelShape(self.steps(self.of.shape(schema))[1])

    def turn(self, found: StepShape) -> tuple[int, int] | None:
        """Return after how many codes the labels repeat, and how far into a turn the first code is; None: never.

        1970 began on a Thursday.
        """
        calendar = found.calendar
        if calendar is None or self.part not in ("hour", "weekday"):
            return None
        per_day = 1440 // calendar.minutes
        turn, ahead = (per_day, 0) if self.part == "hour" else (7 * per_day, 3 * per_day)
        return turn, (calendar.start + found.first + ahead) % turn

    def steps(self, found: Shape) -> tuple[Sequence[int], tuple[str, ...], Sequence[int]]:
        """Return the codes at which the label changes, the labels, and which of them holds before each change.

        Of a weekday or an hour they repeat: the codes are those of one week or day from its start.
        """
        calendar = found.calendar if isinstance(found, StepShape) else None
        if not isinstance(found, StepShape) or calendar is None:
            raise SchemaError(f"{self}: only a declared date has a {self.part}; declare sl.Date(...)")
        per_day = 1440 // calendar.minutes
        if self.part == "hour":
            if per_day == 1:
                raise SchemaError(f"{self}: the column counts days; declare sl.Date(..., unit='hour')")
            return [*range(1, per_day)], tuple(map(str, range(per_day))), [*range(per_day)]
        if self.part == "weekday":
            return [per_day * day for day in range(1, 7)], tuple(map(str, range(1, 8))), [*range(7)]
        word, _, start = self.part.partition("_")
        if word not in _MONTHS or start not in ("", "start"):
            raise SchemaError(f"{self}: {nearest(str(self.part), get_args(Part))}")
        return _periods(self.part, calendar, found.first, found.last)


@lru_cache(maxsize=32)  # a shape is asked for many times while a query is prepared
def _periods(
    part: Part, calendar: Calendar, first: int, last: int
) -> tuple[tuple[int, ...], tuple[str, ...], tuple[int, ...]]:
    """Return the codes at which periods of a year begin, their labels, and the label of each period."""
    word, _, start = part.partition("_")
    begin, end = (datetime.date.fromisoformat(calendar.text(code)[:10]) for code in (first, last))
    length, month = _MONTHS[word], 12 * begin.year + begin.month - 1
    edges: list[int] = []
    labels: list[str] = []
    for period in range(month // length, (12 * end.year + end.month - 1) // length + 1):
        begins = datetime.date(period * length // 12, period * length % 12 + 1, 1)
        number = {"year": begins.year, "quarter": (begins.month + 2) // 3, "month": begins.month}[word]
        labels.append(begins.isoformat() if start else str(number))
        edges.append(int(calendar.of_constant(begins.isoformat(), where=part)))
    distinct = tuple(dict.fromkeys(labels)) if start else tuple(sorted(set(labels), key=int))
    places = {label: place for place, label in enumerate(distinct)}
    return tuple(edges[1:]), distinct, tuple(places[label] for label in labels)
