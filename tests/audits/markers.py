"""Private values that are easy to recognise, and a search for them in whatever leaves the library.

One record has the value 987654.321, one person the id "zeugin-41b", and there are 4873 rows: a number that appears
nowhere else. The column's bounds exclude the value, so it can never be released.
"""

from __future__ import annotations

import re
import struct
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sidelight as sl

VALUE = 987654.321
PERSON = "zeugin-41b"
ROWS = 4873
KEPT = ROWS - 1  # one value is missing

_TEXTS = re.compile(r"987654|9\.87654|zeugin|(?<![0-9A-Za-z.])(?:4873|4872)(?![0-9A-Za-z]|\.[0-9])")
#: Hashes, identifiers and times are drawn or read off the clock, and would hold a mark by chance once in a while.
_CHANCE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?=[0-9a-f]*[a-f])[0-9a-f]{12,}"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"
)
_BYTES = (
    struct.pack("<d", VALUE),
    struct.pack(">d", VALUE),
    struct.pack("<q", 987654321),
    PERSON.encode("utf-16-le"),
)


def columns() -> dict[str, list[Any]]:
    rng = np.random.default_rng(11)
    ages = rng.integers(18, 90, ROWS).astype(float).tolist()
    ages[17], ages[18] = VALUE, float("nan")
    ids = [f"p{i // 2}" for i in range(ROWS)]
    ids[17] = PERSON
    return {"age": ages, "id": ids}


def schema(*, persons: bool) -> list[Any]:
    declared: list[Any] = [sl.Number("age", lower=0, upper=120, granularity=1)]
    return [*declared, sl.PersonId("id", max_rows=2)] if persons else declared


def found_in(text: str) -> list[str]:
    """Return every private mark in a text."""
    return _TEXTS.findall(_CHANCE.sub("~", text))


def found_in_bytes(content: bytes) -> list[str]:
    """Return every private mark in a file, as text of any line or as a number in binary."""
    return found_in(content.decode("latin-1")) + [mark.hex() for mark in _BYTES if mark in content]


def found_in_error(error: BaseException) -> list[str]:
    """Return every private mark in what an error shows: its message, attributes, notes and printed causes."""
    shown = "".join(traceback.format_exception(error))
    # The source lines in a traceback are the tests' own; only what follows the exception's name is searched there.
    messages = [line for line in shown.splitlines() if not line.startswith("    ")]
    parts = [str(error), repr(error), repr(error.args), repr(vars(error)), *messages]
    for other in chain_of(error):
        parts += [str(other), repr(other.args)]
    return [mark for part in parts for mark in found_in(part)]


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that hang on this one, printed or not."""
    seen, waiting = {id(error)}, [error.__cause__, error.__context__]
    while waiting:
        other = waiting.pop()
        if other is not None and id(other) not in seen:
            seen.add(id(other))
            yield other
            waiting += [other.__cause__, other.__context__]


def files_below(folder: Path, *, but: set[Path]) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path not in but]
