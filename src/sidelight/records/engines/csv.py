"""CSV files: the header is looked at, records are split by our own code, and DuckDB runs what is asked of the cells.

Cells are text and are read as the declared type; no type is guessed from rows. The delimiter is found in the header:
of comma, semicolon, tab and bar the one under which most declared columns are there. What a record is, and why no
reader of a library is used for it, stands in `splitting`; what is looked through before a charge, in `scanning`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sidelight.errors import SchemaError, SourceError
from sidelight.records.dates import Calendar
from sidelight.records.engines.blocks import Identity, blocks_of, changed, identity_of, in_order, open_bytes
from sidelight.records.engines.duckdb import RelationRows, connect, stream_of
from sidelight.records.engines.folders import shown
from sidelight.records.engines.scanning import BYTE_ORDER_MARK, first_fault, refusal, scan
from sidelight.records.engines.splitting import Records, cells_of, odd_widths, split
from sidelight.records.rows import BATCH_ROWS, Batch, ColumnType, Wanted

_DELIMITERS = (",", ";", "\t", "|")
#: A header longer than this is no header.
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
    checked: Mapping[str, Identity]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand a new stream over; no row is read before its first batch is asked for."""
        schema = pa.schema([(f"c{place}", pa.string()) for place in self.places])
        return pa.RecordBatchReader.from_batches(schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for path, header in self.headers.items():
            work = partial(split, delimiter=header.delimiter, places=self.places, records=self.records)
            with open_bytes(path, unchanged=self.checked.get(path)) as file:
                if file.read(len(header.raw)) != header.raw:
                    raise SourceError(changed(path))
                yield from in_order(work, blocks_of(file, records=self.records))


class CsvRows:
    """The records of one or several CSV files with the same header."""

    streams = True
    length = None

    def __init__(
        self, headers: Mapping[str, _Header], *, records: Records, dates: Mapping[str, Calendar] | None = None
    ) -> None:
        self.name = "duckdb:csv" if records == "standard" else "duckdb:csv-lines"  # a line is another unit: it is told
        self._headers = dict(headers)
        self._records: Records = records
        names = next(iter(headers.values())).names
        self._places = {name: place for place, name in enumerate(names)}  # a header may name a column twice, or not
        self._checked: dict[str, Identity] = {}
        self._dates = dict(dates or {})

    def check_records(self) -> None:
        """Refuse files that no standard writer wrote; one that was looked at before is not looked at again.

        For the owner and before a charge: whether it raises depends on the records of a file that is not standard.
        """
        if self._records == "standard":
            for path, header in self._headers.items():
                if path not in self._checked or self._checked[path] != _identity_or_none(path):
                    self._checked[path] = scan(path, header.delimiter)

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The columns that the header names; all hold text cells."""
        return {name: ColumnType("any", "text cells") for name in self._places}

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Stream the records; batches have the size that DuckDB gives them."""
        return self._relation(wanted).batches(wanted, rows=rows)

    def frame(self, wanted: Wanted) -> nw.LazyFrame[Any]:
        """Return the wanted columns as a frame; DuckDB runs what is built on it."""
        return self._relation(wanted).frame(wanted)

    def stream(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Run a frame and stream its integer columns."""
        return stream_of(frame, columns)

    def cells(self, names: Iterable[str]) -> CellStream:
        """Return the cells of some columns, in the order of the file, to be read after a check."""
        if self._checked.keys() != self._headers.keys():
            self.check_records()  # nobody has asked yet, so nothing is charged: the door asks before every charge
        for path, identity in self._checked.items():
            if identity != _identity_or_none(path):
                raise SourceError(changed(path))
        places = tuple(sorted(self._places[name] for name in names))
        return CellStream(self._headers, places, self._records, dict(self._checked))

    def nonprivate_broken_records(self) -> int:
        """Count the records with more or fewer cells than the header: NOT PRIVATE."""
        found = 0
        for path, header in self._headers.items():
            work = partial(odd_widths, delimiter=header.delimiter, cells=len(header.names), records=self._records)
            with open_bytes(path, unchanged=self._checked.get(path)) as file:
                file.read(len(header.raw))
                found += sum(in_order(work, blocks_of(file, records=self._records)))
        return found

    def nonprivate_rows_by_pandas(self) -> int | None:
        """Count the rows that pandas reads of the files: NOT PRIVATE; None where it is not installed or fails."""
        if find_spec("pandas") is None:
            return None
        from sidelight.records.engines.pandas import rows_of_csv

        return rows_of_csv({path: header.delimiter for path, header in self._headers.items()})

    def _relation(self, wanted: Wanted) -> RelationRows:
        names = {*wanted.numbers, *wanted.texts, *([] if wanted.person is None else [wanted.person])}
        columns = {name: f"c{self._places[name]}" for name in names}
        relation = connect().from_arrow(self.cells(names))
        return RelationRows(relation, name=self.name, columns=columns, untyped=True, dates=self._dates)


def open_csv(
    paths: Sequence[str],
    names: Sequence[str],
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
    return CsvRows(headers, records=records, dates=dates)


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
    if not line.strip() or not _is_text(line):
        raise SourceError(f"{shown(path)!r} has no header line in UTF-8; the first line must name the columns")
    found = [(delimiter, tuple(cells_of(line, delimiter) or ())) for delimiter in _DELIMITERS]
    delimiter, columns = max(found, key=lambda each: (len(set(names) & set(each[1])), len(each[1])))
    fault = first_fault(BytesIO(raw), delimiter) if records == "standard" else None
    if fault is not None:
        raise SourceError(refusal(path, fault, line=1 + raw.count(b"\n", 0, fault.offset)))
    return _Header(raw, delimiter, columns)


def _identity_or_none(path: str) -> Identity | None:
    try:
        return identity_of(path)
    except OSError:
        return None


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
