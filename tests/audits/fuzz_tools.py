"""What fuzzing needs: decisions from bytes, a watch over everything that is said and written, private marks."""

from __future__ import annotations

import logging
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import markers

from sidelight.errors import SidelightError

#: Of one row: a number that no bound allows and no noise hits, and a name.
NUMBER, NAME = 987654321098.5, "zeugin-41b"
_MARKS = ("987654321", "9.8765432", "zeugin")


class Defect(Exception):  # noqa: N818 - what is looked for
    """A traceback that reached the user, or a private mark that left."""


class Choices:
    """Decisions read off bytes; when they end, every decision is the first."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def below(self, count: int) -> int:
        found = int.from_bytes(self._data[self._place : self._place + 2], "little")
        self._place += 2
        return found % count

    def pick(self, things: Any) -> Any:
        return things[self.below(len(things))]

    def raw(self) -> bytes:
        length = self.below(12)
        self._place += length
        return self._data[self._place - length : self._place]


@contextmanager
def watched() -> Iterator[Callable[[object], None]]:
    """Work in an empty folder; afterwards search all warnings, log lines and whatever was said for private marks."""
    said: list[str] = []
    before = Path.cwd()
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    root = logging.getLogger()
    with tempfile.TemporaryDirectory(prefix="sidelight-fuzz-") as place, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        root.addHandler(handler)
        os.chdir(place)
        try:
            yield lambda thing: said.append(str(thing))
            written = [path for path in Path(place).rglob("*") if path.is_file() and "given" not in path.parts]
            said += [path.read_bytes().decode("latin-1") for path in written]
        finally:
            os.chdir(before)
            root.removeHandler(handler)
    for text in [*said, *(str(each.message) for each in warned)]:
        look_for_marks(text)


def look_for_marks(text: str) -> None:
    """Raise where a private mark is in a text."""
    for mark in _MARKS:
        if mark in text:
            at = text.index(mark)
            raise Defect(f"a private mark left: ...{text[max(0, at - 60) : at + 30]!r}")


def allowed(work: Callable[[], Any], say: Callable[[object], None]) -> Any:
    """Do it; an error of ours is an answer, and is searched; any other is a defect."""
    try:
        return work()
    except SidelightError as error:
        for other in (error, *markers.chain_of(error)):
            say(f"{other} {other!r} {other.args} {getattr(other, '__notes__', '')}")
    except Exception as error:
        raise Defect(f"{type(error).__name__}: {''.join(traceback.format_exception(error)[-3:])}") from error
    return None
