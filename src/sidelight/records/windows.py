"""`Window`: the public periods into which the dated rows of a database fall, each with a budget of its own.

A declaration only: it says which period a date lies in. The accounts are kept by `session/persons_and_periods.py`.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import SchemaError, nearest
from sidelight.guarantees.units import PeriodLength
from sidelight.records.dates import Date
from sidelight.records.missing import Fill
from sidelight.records.schema import Schema

#: How a period is written: the pattern, and an example for errors.
_WRITTEN: Mapping[PeriodLength, tuple[str, str]] = {
    "day": (r"([0-9]{4})-([0-9]{2})-([0-9]{2})", "2024-03-31"),
    "week": (r"([0-9]{4})-W([0-9]{2})", "2024-W13"),
    "month": (r"([0-9]{4})-([0-9]{2})", "2024-03"),
    "quarter": (r"([0-9]{4})-Q([1-4])", "2024-Q1"),
    "year": (r"([0-9]{4})", "2024"),
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_EPOCH = datetime.date(1970, 1, 1).toordinal()
#: More periods than a century of days are a mistake.
_MOST = 40_000


@dataclass(frozen=True)
class Window:
    """Declare the periods of a database: each gives a person's rows a budget besides that of the whole life.

    Guarantee: `sl.Session(..., window_budget=...)` keeps one account for each period and one for the whole life, and
    charges both (docs: proofs, persons across tables, Theorem 8). A row has the period of its date, or of the row that
    its `PersonVia` leads to; dates before the first period count in it, later ones in the last. A row without a date
    is in no statistic.

    Args:
        length: "day", "week" (from Monday), "month", "quarter" or "year".
        start, end: The first and the last period: "2024-03-31", "2024-W13", "2024-03", "2024-Q1", "2024". They never
            change for a budget, and empty periods cost nothing: choose the end late.
        dates: For each table with dated rows, the name of its `sl.Date` column. The rows of others are timeless.

    >>> window = Window("month", start="2024-01", end="2024-12", dates={"visit": "day"})
    >>> window.names[2], len(window.names)
    ('2024-03', 12)
    """

    length: PeriodLength
    _: KW_ONLY
    start: str
    end: str
    dates: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.length not in get_args(PeriodLength):
            raise SchemaError(f"a window has periods of one {', '.join(get_args(PeriodLength))}; got {self.length!r}")
        if not isinstance(self.dates, Mapping) or not self.dates:
            raise SchemaError("a window wants the date column of each dated table: dates={'visit': 'day'}")
        object.__setattr__(self, "dates", dict(self.dates))
        first, last = self._first_day(self.start), self._first_day(self.end)
        if last < first or last.year == datetime.MAXYEAR:
            raise SchemaError(f"a window ends after it starts and before the year 9999, got {self.start} to {self.end}")
        if (last - first).days / {"day": 1, "week": 7}.get(self.length, 28) > _MOST:
            raise SchemaError(f"a window has at most {_MOST} periods; choose longer ones than a {self.length}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All periods in order, as they are written."""
        return tuple(self._name(datetime.date.fromordinal(int(day) + _EPOCH)) for day in self._first_days)

    @cached_property
    def _first_days(self) -> NDArray[np.int64]:
        """The first day of each period, since 1970."""
        day, last = self._first_day(self.start), self._first_day(self.end)
        found = [day]
        while found[-1] < last:
            found.append(self._next(found[-1]))
        return np.array([each.toordinal() - _EPOCH for each in found], np.int64)

    def number_of(self, period: str) -> int:
        """Return the place of a period among all.

        Raises:
            SchemaError: it is none of the window.
        """
        day = self._first_day(period).toordinal() - _EPOCH
        place = int(np.searchsorted(self._first_days, day))
        if place == len(self._first_days) or self._first_days[place] != day:
            raise SchemaError(f"the window has periods from {self.start} to {self.end}, and {period!r} is none of them")
        return place

    def places_of(self, first: str, last: str | None = None) -> tuple[int, int]:
        """Return the places of the first and the last of some periods.

        Args:
            first: A period, as the window writes it.
            last: The last one, if there are several.

        Raises:
            SchemaError: they are none of the window, or the last is before the first.
        """
        ends = self.number_of(first), self.number_of(first if last is None else last)
        if ends[0] > ends[1]:
            raise SchemaError(f"within names the first period and the last, got {first} and {last}")
        return ends

    def numbers_of(self, codes: NDArray[np.float64], date: Date) -> NDArray[np.int64]:
        """Return the place of the period of each cell of a date column, -1 where it is missing.

        The ends of the column do not matter: two tables whose columns begin and end elsewhere put a day in one period.

        Args:
            codes: The cells as the column counts them, before they are clamped; NaN for missing ones.
            date: The column.
        """
        calendar = date.calendar
        missing = np.isnan(codes)
        near = np.floor(np.clip(np.where(missing, 0, codes), -(2.0**50), 2.0**50)).astype(np.int64)
        days = (near + calendar.start) // (1440 // calendar.minutes)
        places = np.searchsorted(self._first_days, days, side="right") - 1
        return np.where(missing, -1, np.clip(places, 0, len(self._first_days) - 1))

    def check_dates(self, schemas: Mapping[str, Schema | None]) -> None:
        """Refuse dates that the tables do not have; `schemas` has None for a public table.

        Raises:
            SchemaError: a table is public or unknown, finds its person by a key, or its column cannot date a row.
        """
        for table, column in self.dates.items():
            if table not in schemas:
                raise SchemaError(f"the window dates a table {table!r}; {nearest(table, schemas)}")
            schema = schemas[table]
            if schema is None:
                raise SchemaError(
                    f"the window dates {table!r}, which is public and holds no persons' rows; leave it out"
                )
            if schema.via is not None:
                raise SchemaError(
                    f"the window dates {table!r}, whose rows belong to the period of the row of {schema.via.to!r} that "
                    f"they name: date {schema.via.to!r}, or give {table!r} a person column of its own"
                )
            found = {each.name: each for each in schema.columns}.get(column)
            if not isinstance(found, Date):
                raise SchemaError(f"{table}.{column} dates the rows of a window; declare sl.Date({column!r}, ...)")
            if isinstance(found.missing, Fill):
                raise SchemaError(
                    f"{table}.{column} dates the rows of a window, and one without a date is in no period; leave "
                    "missing=Fill(...) out"
                )

    def check_sources(
        self, tables: Mapping[str, Any], dates: Mapping[str, Date | None], is_one: Callable[[Any, Any], bool]
    ) -> None:
        """Refuse dated rows that stand in a second table without that date: nothing would charge their periods.

        Args:
            tables: All tables, by name.
            dates: What dates the rows of each private one.
            is_one: Whether two tables are read from the same rows.

        Raises:
            SchemaError: a table is read from the rows of a dated one, and is timeless or has other dates.
        """
        for dated, other in itertools.product(self.dates, dates):
            if dates[dated] != dates[other] and is_one(tables[dated], tables[other]):
                raise SchemaError(
                    f"{other!r} is read from the rows of {dated!r}, which have periods, and is not dated as these: no "
                    "account of a period would be charged for them. Date it by the same column, or give it a source of "
                    "its own"
                )

    def described(self, schemas: Mapping[str, Schema | None]) -> str:
        """Return the text that a ledger keeps: periods, date columns, and a digest of how these are read."""
        read = {
            table: Schema([each for each in schema.columns if each.name == self.dates[table]]).digest()
            for table, schema in schemas.items()
            if table in self.dates and schema is not None
        }
        content = json.dumps([self.length, self.start, self.end, self.dates, read], sort_keys=True)
        columns = ", ".join(f"{table}.{column}" for table, column in sorted(self.dates.items()))
        text = f"{self.length}s {self.start} to {self.end} by {columns}"
        return f"{text[:400]} ({hashlib.sha256(content.encode()).hexdigest()})"

    def _first_day(self, period: str) -> datetime.date:
        pattern, example = _WRITTEN[self.length]
        found = re.fullmatch(pattern, period, re.ASCII) if isinstance(period, str) else None
        try:
            if found is not None:
                parts = [int(part) for part in found.groups()]
                if self.length == "week":
                    return datetime.date.fromisocalendar(*parts, 1)  # type: ignore[call-arg]
                if self.length == "quarter":
                    parts[1] = 3 * parts[1] - 2
                return datetime.date(*[*parts, 1, 1][:3])
        except ValueError:
            pass
        raise SchemaError(f'a {self.length} is written as "{example}", got {period!r}')

    def _next(self, day: datetime.date) -> datetime.date:
        if self.length in _MONTHS:
            months = day.year * 12 + day.month - 1 + _MONTHS[self.length]
            return datetime.date(months // 12, months % 12 + 1, 1)
        return day + datetime.timedelta(days=7 if self.length == "week" else 1)

    def _name(self, day: datetime.date) -> str:
        if self.length == "week":
            year, week, _ = day.isocalendar()
            return f"{year:04d}-W{week:02d}"
        if self.length == "quarter":
            return f"{day.year:04d}-Q{(day.month + 2) // 3}"
        return day.isoformat()[: {"day": 10, "month": 7, "year": 4}[self.length]]
