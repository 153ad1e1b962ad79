"""Dates and times in a declared form: "%d.%m.%Y %H:%M" reads "31.12.2025 08:05", the same on every machine.

Written by hand because `strptime` takes the names of months from the locale of the process and two-digit years from a
fixed century. The directives are those of `strptime`; numbers may lack their leading zero where a sign ends them.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from functools import lru_cache

from sidelight.errors import SchemaError
from sidelight.records.readings import composed

_EPOCH = datetime.date(1970, 1, 1).toordinal()
#: Directives, the names of what they give, and how many digits: the least where nothing else ends the number.
_NUMBERS = {
    "Y": ("year", 4, 4),
    "y": ("short_year", 2, 2),
    "m": ("month", 1, 2),
    "d": ("day", 1, 2),
    "H": ("hour", 1, 2),
    "I": ("half_hour", 1, 2),
    "M": ("minute", 1, 2),
    "S": ("second", 1, 2),
    "f": ("fraction", 1, 9),
    "j": ("day_of_year", 1, 3),
}
_LETTERS = r"[^\W\d_]+\.?"
_WORDS = {
    "b": f"(?P<name>{_LETTERS})",
    "B": f"(?P<name>{_LETTERS})",
    "a": _LETTERS,
    "A": _LETTERS,
    "p": r"(?P<half>[AaPp])\.?[Mm]\.?",
    "z": r"(?P<offset>Z|UTC|[+-][0-9]{2}:?[0-9]{2})",
}
#: The months in English, German, French, Spanish, Italian, Portuguese and Dutch; a beginning of three letters will do.
_MONTHS = (
    "january januar janvier enero gennaio janeiro januari jänner",
    "february februar février febrero febbraio fevereiro februari feber",
    "march märz mars marzo março maart mrt",
    "april avril abril aprile",
    "may mai mayo maggio maio mei",
    "june juni juin junio giugno junho",
    "july juli juillet julio luglio julho",
    "august août agosto augustus",
    "september septembre septiembre settembre setembro",
    "october oktober octobre octubre ottobre outubro",
    "november novembre noviembre novembro",
    "december dezember décembre diciembre dicembre dezembro",
)
ISO = "iso"
#: Where nothing separates two words of a form, reading takes a time that grows with the square of the text.
_LONGEST_DATE = 200


@dataclass(frozen=True)
class DateFormat:
    """One form of dates. `last_year` is the latest that a year of two digits means: public, the end of the column.

    >>> DateFormat("%d.%m.%Y", last_year=2030).minutes("2.1.1970"), DateFormat("%d/%b/%y", last_year=2030).minutes("x")
    (1440, None)
    """

    text: str
    last_year: int

    def minutes(self, text: str) -> int | None:
        """Return the minutes from 1970 to a text, in UTC if it has an offset; None if it is not of this form."""
        found = _pattern(self.text).fullmatch(text) if len(text) <= _LONGEST_DATE else None
        if found is None:
            return None
        part = {name: given for name, given in found.groupdict().items() if given is not None}
        number = {name: int(given) for name, given in part.items() if name not in ("name", "half", "offset")}
        year = number.get("year", 0)
        if "short_year" in number:
            year = self.last_year - (self.last_year - number["short_year"]) % 100
        hour = number.get("hour", 0)
        if "half_hour" in number:
            if not 1 <= number["half_hour"] <= 12:
                return None
            hour = number["half_hour"] % 12 + (12 if part["half"] in "Pp" else 0)
        minute, second = number.get("minute", 0), number.get("second", 0)
        if hour > 23 or minute > 59 or second > 60:
            return None
        month = _months().get(_folded(part["name"].rstrip(".")), 0) if "name" in part else number.get("month", 0)
        try:
            if "day_of_year" in number:
                first = datetime.date(year, 1, 1)
                day = first + datetime.timedelta(days=number["day_of_year"] - 1)
                if day.year != year:
                    return None
            else:
                day = datetime.date(year, month, number["day"])
        except (ValueError, OverflowError):  # 30 February, month 13, the year 0
            return None
        return (day.toordinal() - _EPOCH) * 1440 + hour * 60 + minute - _offset(part.get("offset", "Z"))


def check_formats(formats: tuple[str, ...], *, name: str) -> None:
    """Refuse forms that are not understood, or of which two read one text as different dates."""
    for each in formats:
        if each != ISO:
            _check(each, name=name)
    sample = datetime.datetime(2001, 2, 3, 4, 5, 6)
    for one in formats:
        for other in formats:
            if one == other or ISO in (one, other):
                continue
            read = DateFormat(other, 2050).minutes(written(sample, one))
            if read is not None and read // 1440 != sample.toordinal() - _EPOCH:
                raise SchemaError(
                    f"formats of column {name!r}: {one!r} and {other!r} read one text as different dates, and nothing "
                    "in a cell says which it is; declare the one that the program wrote"
                )


def _check(text: str, *, name: str) -> None:
    directives = re.findall("%(.?)", text.replace("%%", ""))
    unknown = [each for each in directives if each not in _NUMBERS and each not in _WORDS]
    if unknown:
        known = ", ".join(f"%{each}" for each in (*_NUMBERS, *_WORDS))
        raise SchemaError(
            f"formats of column {name!r}: %{unknown[0]} in {text!r} is not known; there are {known}, and {ISO!r}"
        )
    named = [_NUMBERS[each][0] if each in _NUMBERS else each.lower() for each in directives if each not in "aA"]
    day = "day_of_year" in named or ("day" in named and ("month" in named or "b" in named))
    if not day or not {"year", "short_year"} & set(named):
        raise SchemaError(f'formats of column {name!r}: {text!r} must give year, month and day, as "%d.%m.%Y" does')
    if len(set(named)) != len(named) or {"year", "short_year"} <= set(named) or {"month", "b"} <= set(named):
        raise SchemaError(f"formats of column {name!r}: {text!r} gives one part twice")
    if ("half_hour" in named) != ("p" in named) or {"half_hour", "hour"} <= set(named):
        raise SchemaError(f"formats of column {name!r}: %I goes with %p, and %H goes alone, in {text!r}")


@lru_cache
def _pattern(text: str) -> re.Pattern[str]:
    parts = re.findall(r"%.|\s+|[^%\s]", text)
    written = ""
    for place, part in enumerate(parts):
        directive = part[1:]
        if part[0] == "%" and directive in _NUMBERS:
            name, least, most = _NUMBERS[directive]
            beside = {parts[place - 1][:1] if place else "", parts[place + 1][:1] if place + 1 < len(parts) else ""}
            # numbers that nothing separates have all their digits
            written += f"(?P<{name}>[0-9]{{{most if '%' in beside and directive != 'f' else least},{most}}})"
        elif part[0] == "%" and directive in _WORDS:
            written += _WORDS[directive]
        else:
            written += r"\s+" if part.isspace() else re.escape(part[-1])
    return re.compile(written)


@lru_cache
def _months() -> dict[str, int]:
    """Return the month of every name, and of every beginning of three letters or more that only one month has."""
    found: dict[str, set[int]] = {}
    for month, names in enumerate(_MONTHS, start=1):
        for name in map(_folded, names.split()):
            for end in range(3, len(name) + 1):
                found.setdefault(name[:end], set()).add(month)
    return {name: min(months) for name, months in found.items() if len(months) == 1}


def _folded(text: str) -> str:
    return composed(composed(text).casefold())


def _offset(text: str) -> int:
    if text in ("Z", "UTC"):
        return 0
    size = int(text[1:3]) * 60 + int(text[-2:])
    return size if text[0] == "+" else -size


def written(moment: datetime.datetime, text: str) -> str:
    """Write a moment in a form, with English names; the weekday, which is not parsed, is always the same."""
    months = [names.split()[0] for names in _MONTHS]
    names = {"b": months[moment.month - 1][:3], "B": months[moment.month - 1], "a": "Sat", "A": "Saturday"}
    own = {"p": "AM" if moment.hour < 12 else "PM", "z": "+0000", **names}
    return re.sub("%(.)", lambda found: own.get(found[1]) or moment.strftime(found[0]), text)
