"""CSV files: the header is read, records are split by our own code, and DuckDB runs expressions on the cells.

Cells are text and are read as the declared type; no type is guessed from rows. The delimiter is found in the header: of
comma, semicolon, tab and bar the one under which most declared columns occur. `csv_records` defines a record and says
why no library's reader is used.

Before a charge a file is scanned: is it records as standard writers write them? A standard record (RFC 4180) is fields
between delimiters, ended by a line feed, with or without a carriage return before it. A field either holds no quotation
mark, delimiter or line feed, or it stands between quotation marks and every mark in it is doubled. A file of such
records splits into them in one way only, and removing one changes no other (docs: records, with the proof). In any
other file a quotation mark in one record could change how thousands of others parse: it is refused, with a line number
and no cell.

The marks of a file alternate between opening and closing. A file is standard if and only if

1. before each opening mark there is a delimiter, a line feed, the start of the file, or a mark (doubled);
2. after each closing mark there is a delimiter, a line end, the end of the file, or a mark (doubled);
3. the file ends outside of quotation marks.

So a window of the file needs one byte before it, two after it, and whether it begins inside: the marks before it are
counted while it is read, which is fast, and then all cores check windows.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from typing import IO, ClassVar

import numpy as np
import pyarrow as pa

from sidelight.errors import SchemaError, SourceError
from sidelight.records.dates import Calendar
from sidelight.records.engines.csv_records import (
    BLOCK_BYTES,
    Records,
    blocks_of,
    cells_of,
    in_order,
    is_utf8,
    odd_widths,
    open_bytes,
    split,
)
from sidelight.records.engines.duckdb import RelationRows, RowsByDuckDB, connect
from sidelight.records.engines.files import Files
from sidelight.records.engines.folders import shown
from sidelight.records.rows import ColumnType, Wanted

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


def scan(path: str, delimiter: str, *, size: int = BLOCK_BYTES) -> None:
    """Look through a whole file, and refuse one that no standard writer wrote with the number of a line."""
    fault, line, failed = None, 0, ""
    try:
        with open_bytes(path) as file:
            fault = first_fault(file, delimiter, size=size)
        if fault is not None:
            with open_bytes(path) as file:
                line = 1 + _line_feeds(file, up_to=fault.offset)
    except (OSError, EOFError, zlib.error) as error:  # also a .gz file that is broken or cut off
        failed = type(error).__name__
    if failed:
        raise SourceError(f"{shown(path)!r} cannot be read to its end ({failed}); write it again. Nothing was charged")
    if fault is not None:
        raise SourceError(refusal(path, fault, line=line))


def refusal(path: str, fault: Fault, *, line: int) -> str:
    """Return the message of a refusal: where and what, quoting no cell."""
    return (
        f"{shown(path)!r}, line {line}: {fault.words}. No standard writer writes that, and where records end is not "
        "known; nothing was charged. Write the file again with the writer of pandas, Polars, DuckDB or Python, or "
        'declare records="lines" if every line is a record'
    )


def first_fault(file: IO[bytes], delimiter: str, *, size: int = BLOCK_BYTES) -> Fault | None:
    """Return the first deviation of a file, read from its start, from what standard writers write."""
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


_DELIMITERS = (",", ";", "\t", "|")
#: The most bytes of a header.
_HEADER_LIMIT = 1 << 20


@dataclass(frozen=True)
class _Header:
    """The first record of a file: its bytes, its delimiter and the names of the columns."""

    raw: bytes
    delimiter: str
    names: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class CellStream:
    """The cells of some columns as an Arrow stream, which DuckDB starts anew for every query; nothing is kept."""

    headers: Mapping[str, _Header]
    places: tuple[int, ...]
    records: Records

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand a new stream over; no row is read before its first batch is asked for."""
        schema = pa.schema([(f"c{place}", pa.string()) for place in self.places])
        return pa.RecordBatchReader.from_batches(schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for path, header in self.headers.items():
            work = partial(split, delimiter=header.delimiter, places=self.places, records=self.records)
            with open_bytes(path) as file:
                file.read(len(header.raw))
                yield from in_order(work, blocks_of(file, records=self.records))


class CsvRows(RowsByDuckDB):
    """The records of one or several CSV files with the same header."""

    check_reads_records: ClassVar[bool] = True

    def __init__(
        self,
        headers: Mapping[str, _Header],
        files: Files,
        *,
        records: Records,
        dates: Mapping[str, Calendar] | None = None,
    ) -> None:
        self.name = (
            "duckdb:csv" if records == "standard" else "duckdb:csv-lines"
        )  # a line is another unit: the name says so
        self._headers = dict(headers)
        self._files = files
        self._records: Records = records
        names = next(iter(headers.values())).names
        self._places = {name: place for place, name in enumerate(names)}  # a header may name a column twice, or not
        self._scanned: set[str] = set()
        self._dates = dict(dates or {})

    def check_records(self) -> None:
        """Refuse files that no standard writer wrote; each file is scanned once, for it must stay as it is.

        For the owner, before a charge: whether it raises depends on records.
        """
        if self._records == "standard":
            for path, header in self._headers.items():
                if path not in self._scanned:
                    scan(path, header.delimiter)
                    self._scanned.add(path)

    def fault(self) -> str | None:
        """Return what is wrong with the first changed file, from its metadata."""
        return self._files.fault()

    def check_files(self) -> None:
        """Refuse files that are not those of when the table was made."""
        self._files.check()

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The columns that the header names; all hold text cells."""
        return {name: ColumnType("any", "text cells") for name in self._places}

    def cells(self, names: Iterable[str]) -> CellStream:
        """Return the cells of some columns, in the order of the file, to be read after a check."""
        self.check_records()  # of rows that no release reads: the release pipeline checks before every charge
        places = tuple(sorted(self._places[name] for name in names))
        return CellStream(self._headers, places, self._records)

    def nonprivate_broken_records(self) -> int:
        """Count the records with more or fewer cells than the header: NOT PRIVATE."""
        found = 0
        for path, header in self._headers.items():
            work = partial(odd_widths, delimiter=header.delimiter, cells=len(header.names), records=self._records)
            with open_bytes(path) as file:
                file.read(len(header.raw))
                found += sum(in_order(work, blocks_of(file, records=self._records)))
        return found

    def nonprivate_rows_by_pandas(self) -> int | None:
        """Count the rows that pandas reads of the files: NOT PRIVATE; None where it is not installed or fails."""
        if find_spec("pandas") is None:
            return None
        from sidelight.records.engines.pandas import rows_of_csv

        return rows_of_csv({path: header.delimiter for path, header in self._headers.items()})

    def relation(self, wanted: Wanted) -> RelationRows:
        columns = {name: f"c{self._places[name]}" for name in wanted.names}
        relation = connect().from_arrow(self.cells(wanted.names))
        return RelationRows(relation, name=self.name, columns=columns, untyped=True, dates=self._dates, within=self)


def open_csv(
    paths: Sequence[str],
    names: Sequence[str],
    files: Files,
    *,
    records: Records = "standard",
    dates: Mapping[str, Calendar] | None = None,
) -> CsvRows:
    """Look at the headers, which must be the same, and find the declared columns in them."""
    headers = {path: _header_of(path, names, records=records) for path in paths}
    header = headers[paths[0]]
    for other, found in headers.items():
        if (found.delimiter, found.names) != (header.delimiter, header.names):
            raise SchemaError(
                f"{shown(other)!r} has another header than {shown(paths[0])!r}; "
                "files of one table have the same columns"
            )
    if names and not set(names) & set(header.names):
        raise SchemaError(
            f"the source has no column {names[0]!r}, nor any other declared one: the first line of "
            f"{shown(paths[0])!r} must name the columns, letter for letter and without spaces around them. Nothing of "
            "it is shown, because it may be a record"
        )
    twice = sorted({name for name in names if header.names.count(name) > 1})
    if twice:
        raise SchemaError(f"the header of {shown(paths[0])!r} names column {twice[0]!r} twice; rename one of them")
    return CsvRows(headers, files, records=records, dates=dates)


def _header_of(path: str, names: Sequence[str], *, records: Records) -> _Header:
    raw = b""
    try:
        # Bytes, and only this record is decoded: a text file decodes ahead, and rows would decide whether that raises.
        with open_bytes(path) as file:
            lines = [file.readline(_HEADER_LIMIT)]
            size, marks = len(lines[0]), lines[0].count(b'"')
            while records == "standard" and marks % 2 and lines[-1] and size < _HEADER_LIMIT:
                lines.append(file.readline(_HEADER_LIMIT - size))
                size, marks = size + len(lines[-1]), marks + lines[-1].count(b'"')
            raw = b"".join(lines)
    except (OSError, EOFError, zlib.error):
        raw = b""
    line = raw.removeprefix(BYTE_ORDER_MARK).removesuffix(b"\n").removesuffix(b"\r")
    if line.count(b'"') % 2:
        raise SourceError(
            f"the header of {shown(path)!r} has a quotation mark that is not closed; nothing of it is shown"
        )
    if b"\r" in re.sub(rb'"[^"]*"', b"", line) or len(raw) >= _HEADER_LIMIT:
        # Nothing of this "header" may be quoted: it is probably the whole file.
        raise SourceError(
            f"the lines of {shown(path)!r} do not end with a line feed; write the file with \\n or \\r\\n"
        )
    if not line.strip() or not is_utf8(line):
        raise SourceError(f"{shown(path)!r} has no header line in UTF-8; the first line must name the columns")
    found = [(delimiter, tuple(cells_of(line, delimiter) or ())) for delimiter in _DELIMITERS]
    delimiter, columns = max(found, key=lambda each: (len(set(names) & set(each[1])), len(each[1])))
    fault = first_fault(BytesIO(raw), delimiter) if records == "standard" else None
    if fault is not None:
        raise SourceError(refusal(path, fault, line=1 + raw.count(b"\n", 0, fault.offset)))
    return _Header(raw, delimiter, columns)
