"""What an expression of declared columns gives: truths, labels, whole numbers of a public step, or floats."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Any, TypeAlias

from sidelight.errors import SchemaError, nearest
from sidelight.grid import CODE_LIMIT
from sidelight.records.columns import Number
from sidelight.records.dates import Calendar, Date
from sidelight.records.numbers import LARGEST_FLOAT, exact_number, nearest_float, number_text

#: A public constant: a number, or a label.
Constant: TypeAlias = Fraction | str


@dataclass(frozen=True)
class Truths:
    """True, false or unknown."""


@dataclass(frozen=True)
class Labels:
    """One of these texts, or missing."""

    labels: tuple[str, ...]


@dataclass(frozen=True)
class Steps:
    """A whole number of steps from first to last, or missing: value = code * step. A date has a calendar."""

    step: Fraction
    first: int
    last: int
    calendar: Calendar | None = None


@dataclass(frozen=True)
class Reals:
    """A float between the column's bounds, or missing."""


Shape = Truths | Labels | Steps | Reals


def constant(value: Any) -> Constant:
    """Read a public constant: a text or a boolean is a label, everything else an exact number."""
    if isinstance(value, str):
        if not value:
            raise SchemaError("an empty text is no label; ask for missing cells with .is_missing()")
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if value is None:
        raise SchemaError("None is no constant; ask for missing cells with .is_missing()")
    return exact_number(value, name="a constant of an expression")


def number_shape(number: Number) -> Steps | Reals:
    """Return what a number column gives: whole numbers of its granularity, or floats where none is declared."""
    step = number.granularity
    if step is None:
        return Reals()
    half = Fraction(1, 2)
    low = -CODE_LIMIT if number.lower is None else (number.lower / step + half).__floor__()
    high = CODE_LIMIT if number.upper is None else (number.upper / step + half).__floor__()
    calendar = number.calendar if isinstance(number, Date) else None
    return Steps(step, max(low, -CODE_LIMIT), min(high, CODE_LIMIT), calendar)


def code_table(found: Shape, constants: Iterable[Constant], *, where: str) -> list[int | Fraction]:
    """Return where each constant lies among the codes of labels or numbers; a label that is none is an error."""
    if isinstance(found, Labels):
        places = {label: place for place, label in enumerate(found.labels)}
        wanted = [each if isinstance(each, str) else number_text(each) for each in constants]
        for label in wanted:
            if label not in places:
                raise SchemaError(f"{where}: {label!r} is not among the declared labels; {nearest(label, places)}")
        return [places[label] for label in wanted]
    numbers = [number_in(found, each, where=where) for each in constants]
    return [each / found.step if isinstance(found, Steps) else nearest_double(each) for each in numbers]


def number_in(found: Shape, value: Constant, *, where: str) -> Fraction:
    """Return a constant that a number is compared with: itself, or what a calendar makes of a date."""
    if not isinstance(value, str):
        return value
    if isinstance(found, Steps) and found.calendar is not None:
        return found.calendar.of_constant(value, where=where)
    raise SchemaError(f"{where}: {value!r} is a label, and a number is needed")


def nearest_double(number: Fraction) -> Fraction:
    """Return what floats are compared with: the float that a source holds for this number; itself beyond all floats.

    >>> nearest_double(Fraction(1, 10)) == Fraction(0.1)
    True
    """
    return Fraction(nearest_float(number)) if abs(number) <= LARGEST_FLOAT else number


def common_step(values: Iterable[Fraction]) -> Fraction:
    """Return the largest number of which all are multiples; 1 if all are 0.

    >>> common_step([Fraction(1, 2), Fraction(3, 4)])
    Fraction(1, 4)
    """
    given = [value for value in values if value]
    if not given:
        return Fraction(1)
    return Fraction(gcd(*(value.numerator for value in given)), lcm(*(value.denominator for value in given)))


def factors(left: Steps, right: Steps) -> tuple[int, int]:
    """Return by what the codes of both are multiplied to count the common step."""
    step = common_step([left.step, right.step])
    return int(left.step / step), int(right.step / step)


def shape_word(found: Shape) -> str:
    """Return a word for a message."""
    return {Truths: "a condition", Labels: "labels"}.get(type(found), "a number")
