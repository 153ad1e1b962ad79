"""The scan of a CSV file, before anything is charged: is it a row of records as standard writers write them?

A standard record (RFC 4180) is fields between delimiters, ended by a line feed, with or without a carriage return
before it. A field either holds no quotation mark, delimiter or line feed, or it stands between quotation marks and
every mark in it is doubled. A file that is such records, one after the other, comes apart into them in one way only,
and taking one out changes no other (docs: records, where this is proved). In any other file a quotation mark in
one record could decide what thousands of others are: it is refused, with the number of a line and no cell.

The marks of a file take turns: between two of them we are inside, then outside. A file is standard if and only if

1. before each mark that goes inside there is a delimiter, a line feed, the start of the file, or a mark (doubled);
2. behind each mark that goes outside there is a delimiter, a line end, the end of the file, or a mark (doubled);
3. the file ends outside.

So a window of the file needs one byte before it and two behind it, and to know whether it begins inside: the marks
before it are counted while it is read, which is quick, and then all cores look at windows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO

import numpy as np

from sidelight.errors import SourceError
from sidelight.records.engines.blocks import BLOCK_BYTES, Identity, identity_of, in_order, open_bytes
from sidelight.records.engines.folders import shown

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_FEED, _RETURN, _QUOTE = b'\n\r"'
#: Before the file and behind it there is, as far as records go, a line feed.
_EDGE = b"\n"
_BEHIND = 2

STRAY = "a quotation mark inside a field that does not begin with one"
TRAILING = "text behind the quotation mark that closes a field"
UNCLOSED = "a quotation mark that is never closed"


@dataclass(frozen=True)
class Fault:
    """Where in the file a rule is broken, and how."""

    offset: int
    words: str


@dataclass(frozen=True)
class _Window:
    """A piece of the file, with one byte before it and two behind it."""

    offset: int  # of its own first byte
    inside: bool  # whether it begins between quotation marks
    content: bytes


@dataclass(frozen=True)
class _Judged:
    """Whether a window ends between quotation marks, where its last mark is, and its first fault."""

    inside: bool
    last: int = -1
    fault: Fault | None = None


def scan(path: str, delimiter: str, *, size: int = BLOCK_BYTES) -> Identity:
    """Look through a whole file; return the identity of what was seen, or refuse it with the number of a line."""
    fault, line, failed = None, 0, ""
    try:
        identity = identity_of(path)
        with open_bytes(path, unchanged=identity) as file:
            fault = first_fault(file, delimiter, size=size)
        if fault is not None:
            with open_bytes(path, unchanged=identity) as file:
                line = 1 + _line_feeds(file, up_to=fault.offset)
    except (OSError, EOFError, zlib.error) as error:  # also a .gz file that is broken or cut off
        failed = type(error).__name__
    if failed:
        raise SourceError(f"{shown(path)!r} cannot be read to its end ({failed}); write it again. Nothing was charged")
    if fault is not None:
        raise SourceError(refusal(path, fault, line=line))
    return identity


def refusal(path: str, fault: Fault, *, line: int) -> str:
    """Return the words of a refusal: where and what, and nothing of the cells."""
    return (
        f"{shown(path)!r}, line {line}: {fault.words}. No standard writer writes that, and where records end cannot be "
        "told; nothing was charged. Write the file again with the writer of pandas, Polars, DuckDB or Python, or "
        'declare records="lines" if every line is a record'
    )


def first_fault(file: IO[bytes], delimiter: str, *, size: int = BLOCK_BYTES) -> Fault | None:
    """Return the first place at which a file, read from its start, is not what a standard writer writes."""
    inside, opened = False, -1
    for found in in_order(partial(_judge, delimiter=ord(delimiter)), _windows(file, size)):
        if found.fault is not None:
            return found.fault
        inside, opened = found.inside, max(found.last, opened)
    return Fault(opened, UNCLOSED) if inside else None


def _windows(file: IO[bytes], size: int) -> Iterator[_Window]:
    before, inside, offset, size = _EDGE, False, 0, max(size, len(BYTE_ORDER_MARK))
    chunk = file.read(size)
    if chunk.startswith(BYTE_ORDER_MARK):
        chunk, offset = chunk[len(BYTE_ORDER_MARK) :] or file.read(size), len(BYTE_ORDER_MARK)
    while chunk:
        following = file.read(size)
        yield _Window(offset, inside, before + chunk + (following[:_BEHIND] + _EDGE * _BEHIND)[:_BEHIND])
        if b'"' in chunk:
            inside ^= bool(np.count_nonzero(np.frombuffer(chunk, np.uint8) == _QUOTE) % 2)
        before, offset, chunk = chunk[-1:], offset + len(chunk), following


def _judge(window: _Window, *, delimiter: int) -> _Judged:
    if b'"' not in window.content:
        return _Judged(window.inside)
    data = np.frombuffer(window.content, np.uint8)
    marks = np.flatnonzero(data[1:-_BEHIND] == _QUOTE) + 1
    opening, closing = marks[int(window.inside) :: 2], marks[1 - int(window.inside) :: 2]  # they take turns
    before, behind = data.take(opening - 1), data.take(closing + 1)
    may_open = (before == delimiter) | (before == _LINE_FEED) | (before == _QUOTE)
    may_close = (behind == delimiter) | (behind == _LINE_FEED) | (behind == _QUOTE)
    may_close |= (behind == _RETURN) & (data.take(closing + 2) == _LINE_FEED)
    shift = window.offset - 1
    faults = [
        Fault(int(places[np.argmin(good)]) + shift, words)
        for places, good, words in ((opening, may_open, STRAY), (closing, may_close, TRAILING))
        if not good.all()
    ]
    return _Judged(
        window.inside ^ bool(marks.size % 2),
        int(marks[-1]) + shift if marks.size else -1,
        min(faults, key=lambda fault: fault.offset, default=None),
    )


def _line_feeds(file: IO[bytes], *, up_to: int) -> int:
    found = 0
    while up_to > 0 and (chunk := file.read(min(up_to, BLOCK_BYTES))):
        found += chunk.count(b"\n")
        up_to -= len(chunk)
    return found
