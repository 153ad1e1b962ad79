"""CSV files: the header line is looked at, the rows are split line by line, and DuckDB runs what is asked of the cells.

Cells are text and are read as the declared type; no type is guessed from rows. The delimiter is found in the header
line: of comma, semicolon, tab and bar the one under which most declared columns are there. What a record is, and why
no reader of a library is used for it, stands in `splitting`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sidelight.errors import SchemaError, SourceError
from sidelight.records.engines.duckdb import RelationRows, connect
from sidelight.records.engines.lines import blocks_of, open_bytes
from sidelight.records.engines.splitting import cells_of_line, split
from sidelight.records.rows import BATCH_ROWS, Batch, ColumnType, Wanted

_DELIMITERS = (",", ";", "\t", "|")
#: A header longer than this is no header.
_HEADER_LIMIT = 1 << 20


@dataclass(frozen=True, repr=False)
class CellStream:
    """The cells of some columns as an Arrow stream, which DuckDB starts anew for every query; nothing is kept."""

    paths: tuple[str, ...]
    delimiter: str
    places: tuple[int, ...]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand a new stream over; no row is read before its first batch is asked for."""
        schema = pa.schema([(f"c{place}", pa.string()) for place in self.places])
        return pa.RecordBatchReader.from_batches(schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for path in self.paths:
            for block in blocks_of(path):
                yield split(block, self.delimiter, self.places)


class CsvRows:
    """The records of one or several CSV files with the same header."""

    name = "duckdb:csv"
    streams = True
    length = None

    def __init__(self, paths: Sequence[str], *, delimiter: str, places: Mapping[str, int]) -> None:
        self._paths = tuple(paths)
        self._delimiter = delimiter
        self._places = dict(places)  # columns go by their place: a header may name a column twice, or not at all

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The columns that the header names; all hold text cells."""
        return {name: ColumnType("any", "text cells") for name in self._places}

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Stream the records; batches have the size that DuckDB gives them."""
        return self._relation(wanted).batches(wanted, rows=rows)

    def frame(self, wanted: Wanted) -> nw.LazyFrame[Any]:
        """Give the wanted columns as a frame; DuckDB runs what is built on it."""
        return self._relation(wanted).frame(wanted)

    def stream(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Run a frame and stream its integer columns."""
        return RelationRows.stream(frame, columns)

    def _relation(self, wanted: Wanted) -> RelationRows:
        names = {*wanted.numbers, *wanted.texts, *([] if wanted.person is None else [wanted.person])}
        columns = {name: f"c{self._places[name]}" for name in names}
        places = tuple(sorted(self._places[name] for name in names))
        cells = connect().from_arrow(CellStream(self._paths, self._delimiter, places))
        return RelationRows(cells, name=self.name, columns=columns, untyped=True)


def open_csv(paths: Sequence[str], names: Sequence[str]) -> CsvRows:
    """Look at the headers, which must be the same, and find the declared columns in them."""
    delimiter, header = _header_of(paths[0], names)
    for other in paths[1:]:
        if _header_of(other, names) != (delimiter, header):
            raise SchemaError(
                f"{other!r} has another header than {paths[0]!r}; files of one table have the same columns"
            )
    if names and not set(names) & set(header):
        raise SchemaError(
            f"the source has no column {names[0]!r}, nor any other declared one: the first line of {paths[0]!r} must "
            "name the columns, letter for letter and without spaces around them. Nothing of it is shown, because it "
            "may be a record"
        )
    twice = sorted({name for name in names if header.count(name) > 1})
    if twice:
        raise SchemaError(f"the header of {paths[0]!r} names column {twice[0]!r} twice; rename one of them")
    return CsvRows(paths, delimiter=delimiter, places={name: place for place, name in enumerate(header)})


def _header_of(path: str, names: Sequence[str]) -> tuple[str, list[str]]:
    line = b""
    try:
        # Bytes, and only this line is decoded: a text file decodes ahead, and rows would decide whether that raises.
        with open_bytes(path) as file:
            line = file.readline(_HEADER_LIMIT).removeprefix(b"\xef\xbb\xbf")
            line.decode()
    except (OSError, EOFError, UnicodeDecodeError):
        line = b""
    if not line.strip():
        raise SourceError(f"{path!r} has no header line in UTF-8; the first line must name the columns")
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if b"\r" in line or len(line) >= _HEADER_LIMIT:
        # Nothing of this "header" may be quoted: it is probably the whole file.
        raise SourceError(f"the lines of {path!r} do not end with a line feed; write the file with \\n or \\r\\n")
    if line.count(b'"') % 2:
        raise SourceError(
            f"the header of {path!r} has a quotation mark that is not closed; a line break inside quotation marks is "
            "not supported: name the columns in one line"
        )
    headers = [(delimiter, cells_of_line(line, delimiter) or []) for delimiter in _DELIMITERS]
    return max(headers, key=lambda found: (len(set(names) & set(found[1])), len(found[1])))
