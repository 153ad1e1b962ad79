"""A checked view of one table of a plan: every value is asked for by name and kind, and nothing is passed over.

Hand-made rather than msgspec structs: numbers must arrive exactly as written (0.1 means 1/10), and each refusal names
the key, the nearest valid one and the line where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any, NoReturn

from sidelight.cli.plans.lines import Path
from sidelight.errors import PlanError, SidelightError, nearest

#: A number as the plan has it; text may be a decimal or a fraction such as "1/3".
Amount = int | Decimal | str
#: Beyond this a decimal exponent is a slip of the pen, and the exact fraction would fill the memory.
LARGEST_EXPONENT = 400

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
    lines: Mapping[Path, int]
    path: Path
    values: Mapping[str, Any]
    folder: FilePath = FilePath()  # relative paths in the plan start here

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

    def existing_file(self, key: str) -> FilePath:
        """Read the path of a file that is there; a relative one starts at the plan's folder."""
        return self.found(key, self.text(key))

    def found(self, key: str, name: str) -> FilePath:
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
