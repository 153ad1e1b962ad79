"""Dates and times as whole days or hours since a public start: one reading of a cell, the same on every engine.

A cell is a date, a time stamp, or a text in the ISO form ("2024-01-31", "2024-01-31 14:05", "2024-01-31T14:05:09.5Z").
It becomes the day, or the hour, that it lies in. A time with a zone or an offset is an instant and counts in UTC; one
without is taken as it stands. Everything else, numbers included, is missing: 20240131 may be a date, or an amount.
Texts are read by a pattern that Python and DuckDB read alike, so that no engine's own date parser decides.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, SchemaError
from sidelight.readable import date_text
from sidelight.records.cells import text_of
from sidelight.records.columns import Number
from sidelight.records.date_formats import ISO, DateFormat, check_formats
from sidelight.records.missing import Fill, Missing
from sidelight.records.numbers import Real
from sidelight.records.readings import MissingByValue, checked_texts

DateUnit = Literal["day", "hour"]
#: What a user may write for a public date.
DateLike = str | datetime.date

_MINUTES: dict[DateUnit, int] = {"day": 1440, "hour": 60}
_NUMPY: dict[DateUnit, str] = {"day": "D", "hour": "h"}
#: The ordinal of 1970-01-01, from which days are counted.
_EPOCH = datetime.date(1970, 1, 1).toordinal()
#: An ISO text with anything that is not a date left out, in the signs that both Python and DuckDB know.
ISO_PATTERN = (
    r" *[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]{1,9})?)?"
    r"( ?(Z|UTC|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?))?)? *"
)
#: The offset at the end of such a text, from its 17th sign on.
OFFSET_PATTERN = r"([+-])([0-9]{2}):?([0-9]{2})?$"
_ISO, _OFFSET = re.compile(ISO_PATTERN, re.ASCII), re.compile(OFFSET_PATTERN, re.ASCII)
#: So many units of NumPy's clocks are a minute; coarser ones are cast to days first.
_PER_MINUTE = {"m": 1, "s": 60, "ms": 60 * 10**3, "us": 60 * 10**6, "ns": 60 * 10**9, "ps": 60 * 10**12}
_CALENDAR_LIMIT = {"Y": 10**6, "M": 10**7, "W": 10**8, "D": 10**9}
#: Days around 1970 beyond which no calendar goes, for what is shown.
_FIRST_DAY, _LAST_DAY = 1 - _EPOCH, datetime.date.max.toordinal() - _EPOCH


@dataclass(frozen=True)
class Calendar:
    """Whole days or hours, counted from a public start: `start` is itself counted from 1970."""

    unit: DateUnit
    start: int

    @classmethod
    def since(cls, start: DateLike, unit: DateUnit, *, where: str) -> Calendar:
        """Return the calendar that counts from a public date."""
        return cls(unit, int(cls(unit, 0).of_constant(start, where=where)))

    @property
    def minutes(self) -> int:
        """How many minutes a unit has."""
        return _MINUTES[self.unit]

    def of_minutes(self, minutes: int) -> int:
        """Return the unit in which a minute since 1970 lies."""
        return minutes // self.minutes - self.start

    def of_text(self, text: str) -> float:
        """Return the unit in which an ISO text lies; NaN if it is none."""
        found = minutes_of_text(text)
        return math.nan if found is None else float(self.of_minutes(found))

    def of_cell(self, cell: Any) -> float:
        """Return the unit of an untyped cell; NaN if it is not a date. No cell raises an error."""
        try:
            return self._read(cell)
        except KeyboardInterrupt:
            raise
        except BaseException:  # any object can stand in a cell, and what it raises must not depend on the rows
            return math.nan

    def _read(self, cell: Any) -> float:
        kind = type(cell)  # what isinstance asks second, __class__, a cell may answer as it likes
        if issubclass(kind, str):
            return self.of_text("".join(str.__iter__(cell)))
        if issubclass(kind, datetime.datetime):
            if kind.__module__.partition(".")[0] == "pandas":  # stamps beyond the year 9999, and NaT, which is none
                return math.nan if cell != cell else float(self.of_array(np.array([cell.to_datetime64()]))[0])
            ordinal = datetime.date.toordinal(cell) - _EPOCH
            minutes = ordinal * 1440 + cell.hour * 60 + cell.minute
            offset = cell.utcoffset()
            seconds = 0 if offset is None else offset.days * 86400 + offset.seconds
            return float(self.of_minutes((minutes * 60 + cell.second - seconds) // 60))
        if issubclass(kind, datetime.date):
            return float(self.of_minutes((datetime.date.toordinal(cell) - _EPOCH) * 1440))
        return float(self.of_array(np.array([cell]))[0]) if kind is np.datetime64 else math.nan

    def of_cells(self, cells: Iterable[Any]) -> NDArray[np.float64]:
        """Return the unit of each untyped cell; a text that comes again is read once."""
        known: dict[str, float] = {}

        def read(cell: Any) -> float:
            if type(cell) is not str:
                return self.of_cell(cell)
            if cell not in known:
                known[cell] = self.of_cell(cell)
            return known[cell]

        return np.fromiter((read(cell) for cell in cells), np.float64)

    def of_array(self, stamps: NDArray[Any]) -> NDArray[np.float64]:
        """Return the units of an array of NumPy's datetime64; NaN for NaT. Stamps of any resolution are exact."""
        name, step = np.datetime_data(stamps.dtype)
        missing = np.isnat(stamps)
        # only native int64s can be looked at
        counts = np.where(missing, 0, stamps.astype(stamps.dtype.newbyteorder("="), copy=False).view(np.int64))
        if name == "generic" or (name not in _CALENDAR_LIMIT and name not in (*_PER_MINUTE, "h")):
            return np.full(stamps.shape, np.nan)
        counts = np.clip(counts, -((2**63 - 1) // step), (2**63 - 1) // step) * step
        if name in _CALENDAR_LIMIT:
            near = np.clip(counts, -_CALENDAR_LIMIT[name], _CALENDAR_LIMIT[name])
            days = near.view(f"datetime64[{name}]").astype("datetime64[D]").view(np.int64)
            units = days * (1440 // self.minutes)
        elif name == "h":
            units = np.floor_divide(counts, self.minutes // 60)
        else:
            units = np.floor_divide(counts, self.minutes * _PER_MINUTE[name])
        return np.where(missing, np.nan, (units - self.start).astype(np.float64))

    def of_constant(self, value: DateLike, *, where: str) -> Fraction:
        """Return a public date as a number of units since the start; one that falls inside a unit is an error."""
        text = value.isoformat() if isinstance(value, datetime.date) else value
        minutes = minutes_of_text(text) if isinstance(text, str) else None
        if minutes is None:
            raise SchemaError(f'{where}: {text!r} is not a date; write "2024-01-31", or "2024-01-31 14:00" for an hour')
        if minutes % self.minutes or re.search(r":[0-5][0-9]:[0-9.,]*[1-9]", text):
            raise SchemaError(
                f"{where}: {text!r} lies inside {'an' if self.unit == 'hour' else 'a'} {self.unit}, and the column "
                f"counts whole {self.unit}s; write the {self.unit} in which it lies"
            )
        return Fraction(self.of_minutes(minutes))

    def datetimes(self, values: Any) -> NDArray[Any]:
        """Return numbers of units since the start as NumPy's dates, the nearest ones that a calendar has."""
        numbers = np.asarray(values, np.float64) + self.start
        near = np.clip(numbers, *self._ends)
        whole = np.where(np.isnan(near), 0, np.floor(near)).astype(np.int64).astype(f"datetime64[{_NUMPY[self.unit]}]")
        return np.where(np.isnan(near), np.datetime64("NaT"), whole)

    @property
    def _ends(self) -> tuple[int, int]:
        """The first and the last unit that has a date, counted from 1970."""
        per_day = 1440 // self.minutes
        return _FIRST_DAY * per_day, (_LAST_DAY + 1) * per_day - 1

    def has(self, value: float) -> bool:
        """Return whether a number of units since the start is a date, of the years 0001 to 9999.

        >>> Calendar("day", 18262).has(30), Calendar("day", 18262).has(1e8)
        (True, False)
        """
        first, last = self._ends
        return first <= math.floor(value) + self.start <= last

    def text(self, value: Any) -> str:
        """Write a number of units since the start as a date again.

        >>> Calendar("day", 18262).text(30)
        '2020-01-31'
        """
        return date_text(self.datetimes(value).item())


def later_start(mine: Calendar | None, theirs: Calendar | None, *, name: str) -> int:
    """Return how many days or hours later a column starts than it did in a prediction; refuse other units of time.

    Args:
        mine: How the column counts now; None for plain numbers.
        theirs: How it counted in the prediction.
        name: The column, for the message.

    >>> later_start(Calendar("day", 18262), Calendar("day", 18261), name="visit")
    1
    """
    before, now = ("numbers" if each is None else f"{each.unit}s" for each in (theirs, mine))
    if before != now:
        raise RangeError(f"the prediction counts {name!r} in {before}, and here it counts in {now}; declare both alike")
    return 0 if mine is None or theirs is None else mine.start - theirs.start


def minutes_of_text(text: str) -> int | None:
    """Return the minutes from 1970 to an ISO text, in UTC if it names an offset; None if it is none.

    >>> minutes_of_text("1970-01-02"), minutes_of_text("1970-01-01T02:00+01:00"), minutes_of_text("1.2.1970")
    (1440, 60, None)
    """
    if not _ISO.fullmatch(text):
        return None
    text = text.strip(" ")
    try:
        days = datetime.date(int(text[:4]), int(text[5:7]), int(text[8:10])).toordinal() - _EPOCH
    except ValueError:  # 30 February, or the year 0
        return None
    minutes = days * 1440 + (int(text[11:13]) * 60 + int(text[14:16]) if len(text) > 10 else 0)
    offset = _OFFSET.search(text[16:])
    if offset is None:
        return minutes
    size = int(offset[2]) * 60 + int(offset[3] or 0)
    return minutes - size if offset[1] == "+" else minutes + size


@dataclass(frozen=True)
class DateReading(MissingByValue, Calendar):
    """A calendar that reads texts in declared forms, the first that fits, and knows texts that mean missing.

    Dates and time stamps stay what they are; a day that one of the texts for missing also names is missing.
    """

    formats: tuple[str, ...] = ()
    last_year: int = datetime.MAXYEAR
    missing: tuple[str, ...] = ()

    def of_array(self, stamps: NDArray[Any]) -> NDArray[np.float64]:
        """Return the units of NumPy's dates; NaN for NaT and for those that mean missing."""
        return self.of_values(super().of_array(stamps))

    def _plain(self, text: str) -> float:
        for each in self.formats:
            found = minutes_of_text(text) if each == ISO else DateFormat(each, self.last_year).minutes(text)
            if found is not None:
                return float(self.of_minutes(found))
        return math.nan

    def _read(self, cell: Any) -> float:
        if issubclass(type(cell), int) and not isinstance(cell, bool):  # 20240131, by its digits
            return self.of_text(text_of(cell))
        value = super()._read(cell)
        return math.nan if value in self.missing_values else value


@dataclass(frozen=True, init=False)
class Date(Number):
    """Declare a column of dates or times: a cell counts as the whole days, or hours, since a public start.

    It is a `Number` of granularity 1 with both bounds, so that whatever takes numbers takes it; what comes out is shown
    as dates again. Cells are dates, time stamps or ISO texts; earlier and later ones are clamped to the ends, and what
    is no date is missing. A time with a zone or an offset counts in UTC, one without as it stands: where days are to
    begin at local midnight, write local times without an offset into the source.

    Args:
        name: The name of the column.
        start, end: The first and the last day, public. For hours they may name the hour; an `end` without one is the
            last hour of its day.
        unit: "day" or "hour".
        missing: What becomes of a row whose cell is missing: `Drop()`, the default, or `Fill("2024-01-31")`.
        formats: The forms of texts, the first that fits, as `strptime` writes them: "%d.%m.%Y"; "iso" is the usual one.
        missing_texts: Texts that mean missing: "k.A.", or "01.01.1900", which is then missing as a date, too.

    >>> Date("visit", start="2020-01-01", end="2025-12-31", formats=["%d.%m.%Y"]).reading.of_text("31.1.2020")
    30.0
    >>> visit = Date("visit", start="2020-01-01", end="2025-12-31")
    >>> visit.upper, visit.calendar.of_text("2020-01-31 14:05"), visit.calendar.text(30)
    (Fraction(2191, 1), 30.0, '2020-01-31')
    """

    start: str = ""
    end: str = ""
    unit: DateUnit = "day"
    formats: tuple[str, ...] = field(default=(), repr=False)

    def __init__(
        self,
        name: str,
        *,
        start: DateLike,
        end: DateLike,
        unit: DateUnit = "day",
        missing: Missing | None = None,
        formats: Iterable[str] = (),
        missing_texts: Iterable[str] = (),
    ) -> None:
        if unit not in _MINUTES:
            raise SchemaError(f'unit of column {name!r} must be "day" or "hour", got {unit!r}')
        calendar = Calendar.since(start, unit, where=f"start of column {name!r}")
        last = calendar.of_constant(end, where=f"end of column {name!r}")
        whole_day = not isinstance(end, datetime.datetime) and len(str(end).strip()) == len("2024-01-31")
        if whole_day:
            last += 1440 // calendar.minutes - 1
        if last <= 0:
            raise RangeError(f"column {name!r} needs start < end, got {start} and {end}")
        if isinstance(missing, Fill) and isinstance(missing.value, (str, datetime.date)):
            missing = Fill(calendar.of_constant(missing.value, where=f"fill value of column {name!r}"))
        super().__init__(name, lower=0, upper=last, granularity=1, missing=missing, missing_texts=missing_texts)
        forms = checked_texts(formats, name=name, what="formats")
        check_formats(forms, name=name)
        own = {"start": calendar.text(0), "end": calendar.text(last), "unit": unit, "formats": forms}
        for key, content in own.items():
            object.__setattr__(self, key, content)

    @property
    def calendar(self) -> Calendar:
        """How cells are counted."""
        return Calendar.since(self.start, self.unit, where=self.name)

    @property
    def reading(self) -> DateReading | None:  # type: ignore[override]
        """How texts become dates; None where nothing is declared about it."""
        if not self.formats and not self.missing_texts:
            return None
        texts = tuple(text.strip() for text in self.missing_texts)
        calendar, last_year = self.calendar, int(self.end[:4])
        return DateReading(calendar.unit, calendar.start, self.formats or (ISO,), last_year, texts)


def looks_like_a_date(value: Real | DateLike) -> bool:
    """Return whether a public constant is written as a date and not as a number."""
    return isinstance(value, datetime.date) or (isinstance(value, str) and _ISO.fullmatch(value) is not None)
