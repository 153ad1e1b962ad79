"""A checked view of one table of a plan: every value is asked for by name and kind, and nothing is passed over.

Hand-made rather than msgspec structs: numbers must arrive exactly as written (0.1 means 1/10), and each refusal names
the key, the nearest valid one and the line where it stands. `tomllib` gives the line of a syntax error only, and a plan
with a misspelt key is good TOML: `key_lines` follows headers and keys well enough to point at a line. It decides
nothing: where it does not know, the message has no line number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from sidelight.errors import PlanError, SidelightError, nearest

#: Where a key stands in a plan: ("query", 0, "epsilon").
Place = tuple[str | int, ...]

#: A number as the plan has it; text may be a decimal or a fraction such as "1/3".
Amount = int | Decimal | str
#: Beyond this a decimal exponent is a slip of the pen, and the exact fraction would fill the memory.
LARGEST_EXPONENT = 400

#: Keys that every query may have; the plan itself reads them.
COMMON = ("kind", "title")

_MISSING: Any = object()
_NAMES = {
    str: "text in quotes",
    bool: "true or false",
    int: "a whole number",
    Decimal: "a number",
    list: "a list in [brackets]",
    dict: "a table",
}


@dataclass(frozen=True)
class Section:
    """One table of the plan and where it stands."""

    file: str
    lines: Mapping[Place, int]
    path: Place
    values: Mapping[str, Any]
    folder: Path = Path()  # relative paths in the plan start here

    def only(self, *known: str) -> Section:
        """Refuse every key that is not one of these."""
        for key in self.values:
            if key not in known:
                self.refuse(f"unknown key {key!r}; {nearest(key, known)}", key=key)
        return self

    def refuse(self, message: str, *, key: str | None = None) -> NoReturn:
        """Raise `PlanError` with the place in front of the message."""
        raise PlanError(f"{self.place(key)}: {message}")

    def place(self, key: str | None = None) -> str:
        """Return where this table, or one key of it, stands."""
        path = self.path if key is None else (*self.path, key)
        line = next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), None)
        return ", ".join([self.file, *([f"line {line}"] if line else []), *([self.title] if self.path else [])])

    @property
    def title(self) -> str:
        """The table's name as a person would say it: "query 2", "budget", "query 1 prediction"."""
        return " ".join(str(part + 1) if isinstance(part, int) else part for part in self.path)

    @contextmanager
    def naming(self, key: str | None = None) -> Iterator[None]:
        """Turn an error of the library about this table's values into one that says where they stand."""
        try:
            yield
        except PlanError:
            raise
        except SidelightError as error:
            raise PlanError(f"{self.place(key)}: {error}") from error

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def text(self, key: str, default: Any = _MISSING) -> Any:
        """Read a text that is not empty."""
        value = self._read(key, (str,), default)
        if value == "":
            self.refuse(f"{key} must not be empty", key=key)
        return value

    def existing_file(self, key: str) -> Path:
        """Read the path of a file that is there; a relative one starts at the plan's folder."""
        return self.found(key, self.text(key))

    def found(self, key: str, name: str) -> Path:
        """Return the path of a file named under this key, or say that it is not there."""
        file = self.folder / name
        if not file.is_file():
            self.refuse(f"{key} names {name!r}, which is no file; a path starts at the plan's folder", key=key)
        return file

    def flag(self, key: str, *, default: bool) -> bool:
        """Read true or false."""
        return bool(self._read(key, (bool,), default))

    def integer(self, key: str, default: Any = _MISSING) -> Any:
        """Read a whole number."""
        return self._read(key, (int,), default)

    def amount(self, key: str, default: Any = _MISSING) -> Any:
        """Read a number exactly as it is written: 0.1, 3, or "1/3" in quotes."""
        return self._finite(key, self._read(key, (int, Decimal, str), default))

    def amounts(self, key: str) -> list[Any]:
        """Read a list of numbers, exactly as they are written."""
        return [self._finite(key, self._checked(key, entry, (int, Decimal, str))) for entry in self.entries(key)]

    def texts(self, key: str, default: Any = _MISSING) -> Any:
        """Read a list of texts."""
        if key not in self.values and default is not _MISSING:
            return default
        return [self._checked(key, entry, (str,)) for entry in self.entries(key)]

    def labels(self, key: str) -> list[str | int]:
        """Read a list of labels: texts or whole numbers."""
        return [self._checked(key, entry, (str, int)) for entry in self.entries(key)]

    def entries(self, key: str) -> list[Any]:
        """Read a list of anything."""
        return list(self._read(key, (list,), _MISSING))

    def choice(self, key: str, options: Sequence[str], default: Any = _MISSING) -> Any:
        """Read one of the named options."""
        value = self.text(key, default)
        if isinstance(value, str) and value not in options:
            self.refuse(f"{key} = {value!r} is not an option; {nearest(value, options)}", key=key)
        return value

    def section(self, key: str) -> Section:
        """Read a table inside this one."""
        return self._inside(self._read(key, (dict,), _MISSING), key)

    def sections(self, key: str) -> list[Section]:
        """Read a list of tables, such as all `[[query]]`."""
        return [
            self._inside(self._checked(key, entry, (dict,)), key, position)
            for position, entry in enumerate(self.entries(key))
        ]

    def _inside(self, values: Mapping[str, Any], *more: str | int) -> Section:
        return Section(self.file, self.lines, (*self.path, *more), values, self.folder)

    def _read(self, key: str, kinds: tuple[type, ...], default: Any) -> Any:
        if key in self.values:
            return self._checked(key, self.values[key], kinds)
        if default is _MISSING:
            how = f"[{key}] and its keys below" if kinds == (dict,) else f"{key} = ... ({_wanted(kinds)})"
            self.refuse(f"{key!r} is missing; write {how}")
        return default

    def _checked(self, key: str, value: Any, kinds: tuple[type, ...]) -> Any:
        # bool is an int in Python and is never meant as one in a plan.
        if (isinstance(value, bool) and bool not in kinds) or not isinstance(value, kinds):
            subject = f"each of {key}" if isinstance(self.values[key], list) and list not in kinds else key
            self.refuse(f"{subject} must be {_wanted(kinds)}, got {_shown(value)}", key=key)
        return value

    def _finite(self, key: str, value: Any) -> Any:
        if isinstance(value, Decimal) and (not value.is_finite() or abs(value.adjusted()) > LARGEST_EXPONENT):
            self.refuse(f"{key} must be a number of ordinary size, got {value}", key=key)
        return value


def _wanted(kinds: tuple[type, ...]) -> str:
    return _NAMES[Decimal] if Decimal in kinds else _NAMES[kinds[0]]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return f"{str(value).lower()} (true or false)"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, int | Decimal):
        return f"the number {value}"
    return f"a {type(value).__name__}"


_BARE = r"[A-Za-z0-9_-]+"
_KEY = rf"""(?:{_BARE}|"[^"\\\n]*"|'[^'\n]*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_DOTTED})\s*=")
_PART = re.compile(_KEY)
# What matters inside a value: strings (long ones first), comments, and brackets that let it go on over the line's end.
_TOKEN = re.compile(r'"""|\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#.*|[\[\]{}]')


def key_lines(text: str) -> Mapping[Place, int]:
    """Map the path of every table and key to its line, counted from 1; the n-th `[[query]]` is ("query", n-1).

    >>> key_lines('[source]\\npath = "a.csv"\\n[[query]]\\n[[query]]\\nepsilon = 1')[("query", 1, "epsilon")]
    5
    """
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    open_brackets, long_quote = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        rest = line
        if not open_brackets and not long_quote:
            header, assignment = _HEADER.match(line), _ASSIGNMENT.match(line)
            if header:
                table = _table(_parts(header[2]), counts, repeated=header[1] == "[[")
                found.setdefault(table, number)
                continue
            if assignment:
                found.setdefault((*table, *_parts(assignment[1])), number)
                rest = line[assignment.end() :]
        open_brackets, long_quote = _carry(rest, open_brackets, long_quote)
    return found


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(dotted)]


def _table(parts: list[str], counts: dict[Place, int], *, repeated: bool) -> Place:
    """Return the path of a header: a name that was repeated before means its latest table."""
    path: Place = ()
    for part in parts[:-1]:
        path = (*path, part)
        if path in counts:
            path = (*path, counts[path] - 1)
    path = (*path, parts[-1])
    if repeated:
        counts[path] = counts.get(path, 0) + 1
        path = (*path, counts[path] - 1)
    return path


def _carry(rest: str, open_brackets: int, long_quote: str) -> tuple[int, str]:
    """Return what is still open at the end of a line: brackets, or a string of several lines."""
    position = 0
    while position < len(rest):
        if long_quote:
            end = rest.find(long_quote, position)
            if end < 0:
                return open_brackets, long_quote
            position, long_quote = end + 3, ""
            continue
        token = _TOKEN.search(rest, position)
        if token is None or token[0].startswith("#"):
            break
        position = token.end()
        if token[0] in ('"""', "'''"):
            long_quote = token[0]
        elif token[0] in "[{":
            open_brackets += 1
        elif token[0] in "]}":
            open_brackets = max(0, open_brackets - 1)
    return open_brackets, long_quote
