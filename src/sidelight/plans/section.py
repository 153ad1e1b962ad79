"""One table of a plan: its values, the place where they stand, and the resolver of the names in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from sidelight.errors import PlanError, SidelightError, SourceError
from sidelight.plans.toml_text import Place
from sidelight.records.source_files import is_file_of

T = TypeVar("T")


class Resolver(Protocol):
    """What the names of public rows and of earlier releases in a plan mean."""

    def open(self, name: str, read: Callable[[Path], T], *, title: str | None = None) -> T | str:
        """Return what `read` makes of the file that is called so; `title` chooses a release in it.

        Raises:
            SourceError: there is none; the message goes on after "... names 'x.csv', ".
        """

    def name_of(self, opened: Any) -> tuple[str, str | None]:
        """Return name and title of what was opened, or of a path.

        Raises:
            PlanError: it has no name.
        """


@dataclass(frozen=True)
class FolderResolver:
    """Names are paths that start at the folder of the plan; files of its private sources are refused.

    `sources` are paths, folders and patterns.
    """

    folder: Path = Path()
    sources: tuple[str, ...] = ()
    _opened: dict[int, tuple[Any, str, str | None]] = field(default_factory=dict, repr=False, compare=False)

    def open(self, name: str, read: Callable[[Path], T], *, title: str | None = None) -> T:
        """Read the file, and remember what it was called."""
        file = self.folder / name
        if any(is_file_of(file, source) for source in self.sources):
            raise SourceError(
                "the private source of this plan, or a file of it; a prediction from the private rows would void the "
                "guarantee"
            )
        if not file.is_file():
            raise SourceError("which is no file; a path starts at the plan's folder")
        found = read(file)
        self._opened[id(found)] = (found, name, title)
        return found

    def name_of(self, opened: Any) -> tuple[str, str | None]:
        """Return what was remembered; a path is written from the folder on."""
        if id(opened) in self._opened:
            return self._opened[id(opened)][1:]
        if isinstance(opened, str | Path):
            file, folder = Path(opened), self.folder.absolute()
            inside = file.absolute().is_relative_to(folder)
            return str(file.absolute().relative_to(folder) if inside else file), None
        raise PlanError(
            f"a {type(opened).__name__} in memory has no name that a plan could write; store it in a file, and name it"
        )


@dataclass(frozen=True)
class NameResolver:
    """A list of names, and no file is ever opened: for a process that only checks and forwards plans."""

    names: frozenset[str] | None = None

    def open(self, name: str, read: Callable[[Path], Any], *, title: str | None = None) -> str:
        """Return the name itself, if it is on the list."""
        del read, title
        if self.names is not None and name not in self.names:
            raise SourceError("which is not known here")
        return name

    def name_of(self, opened: Any) -> tuple[str, str | None]:
        """Return a text as it is."""
        if not isinstance(opened, str):
            raise PlanError(f"a {type(opened).__name__} has no name that a plan could write")
        return opened, None


@dataclass(frozen=True)
class Section:
    """One table of a plan."""

    values: Mapping[str, Any]
    file: str = "plan"
    lines: Mapping[Place, int] = field(default_factory=dict)
    path: Place = ()
    resolver: Resolver = field(default_factory=FolderResolver)

    def refuse(self, message: str, *, key: str | None = None) -> NoReturn:
        """Raise `PlanError` with the place in front of the message."""
        raise self._mistake(message, key)

    def _mistake(self, message: object, key: str | None) -> PlanError:
        mistake = PlanError(f"{self.place(key)}: {message}")
        mistake.path = self.path if key is None else (*self.path, key)
        return mistake

    def place(self, key: str | None = None) -> str:
        """Return where this table, or one key of it, stands."""
        path = self.path if key is None else (*self.path, key)
        line = next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), None)
        # "query 2", "budget", "query 1 prediction"
        title = " ".join(str(part + 1) if isinstance(part, int) else part for part in self.path)
        return ", ".join([self.file, *([f"line {line}"] if line else []), *([title] if title else [])])

    @contextmanager
    def naming(self, key: str | None = None) -> Iterator[None]:
        """Add the place in the plan to an error of the library about this table's values."""
        try:
            yield
        except PlanError:
            raise
        except SidelightError as error:
            raise self._mistake(error, key) from error

    def inside(self, values: Mapping[str, Any], *more: str | int) -> Section:
        """Return a table inside this one."""
        return Section(values, self.file, self.lines, (*self.path, *more), self.resolver)
