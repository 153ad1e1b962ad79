"""The dates of an earlier release as a prediction: they count from its start, which may be another one by now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sidelight.errors import RangeError
from sidelight.records import Date, Number, Schema
from sidelight.records.dates import Calendar, later_start
from sidelight.records.expressions import Expression, Named


def later_than(query: Mapping[str, Any], name: str, calendar: Calendar | None) -> int:
    """Return how many days or hours later a column starts than in an earlier release, whose dates are larger by them.

    Args:
        query: The request of the earlier release.
        name: The column in that request, or the expression.
        calendar: How it counts now; None for numbers that are no dates.

    Raises:
        RangeError: one of them counts days, and the other hours, or numbers that are no dates, or the request does not
            say how it counts, as of several columns and of expressions none did before 0.6.0.
    """
    said = query.get("dates") or {}
    said = said["columns"].get(name) if "columns" in said else said
    if not said and calendar is not None:
        raise RangeError(
            f"the prediction counts {name!r} in numbers, and here it counts in {calendar.unit}s; declare both alike. "
            "A release of several columns by a version before 0.6.0 does not say how it counts dates: pass its numbers "
            "without it, from the start of the column"
        )
    theirs = Calendar.since(said["start"], said["unit"], where="a release") if said else None
    return later_start(calendar, theirs, name=name)


def calendar_of(number: Number) -> Calendar | None:
    """Return how a column counts; None where it is no date."""
    return number.calendar if isinstance(number, Date) else None


@dataclass(frozen=True, kw_only=True)
class CountedDates:
    """How a number that is predicted counts, where it is a date: an earlier release may count from another start.

    Args:
        name: The column or expression.
        calendar: How it counts now; None where it is no date.
        summed: Whether sums are predicted, which move with the number of rows and are refused.
    """

    name: str
    calendar: Calendar | None
    summed: bool

    @classmethod
    def of(cls, schema: Schema, of: str | Expression, *, summed: bool = False) -> CountedDates:
        """Return how a column or an expression counts by its schema."""
        calendar = (Named(of) if isinstance(of, str) else of).calendar_in(schema)
        return cls(name=str(of), calendar=calendar, summed=summed)

    def later(self, query: Mapping[str, Any]) -> int:
        """Return how much later it starts than in the release that answered a request; refuse what cannot be moved."""
        found = later_than(query, self.name, self.calendar)
        if found and self.summed:
            raise RangeError(
                f"the prediction is a sum of {self.name!r} from another start of its dates, which moves with the "
                "number of rows; declare both alike, or predict the mean"
            )
        return found
