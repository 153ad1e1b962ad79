"""Rows that are read as declared, as an Arrow stream on which DuckDB runs expressions, out of core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import pyarrow as pa

from sidelight.records.engines.duckdb import connect
from sidelight.records.person_key import person_key_sql
from sidelight.records.rows import Rows, Wanted


@dataclass(frozen=True, repr=False)
class DeclaredStream:
    """The wanted columns under their aliases; DuckDB starts it anew for every query."""

    rows: Rows
    wanted: Wanted

    @property
    def schema(self) -> pa.Schema:
        """Numbers as floats, labels and ids as texts; long ones fit, too."""
        fields = [(self.wanted.number_alias(name), pa.float64()) for name in self.wanted.numbers]
        fields += [(self.wanted.text_alias(name), pa.large_string()) for name in self.wanted.texts]
        return pa.schema(fields + ([] if self.wanted.person is None else [("person", pa.large_string())]))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand a new stream over; no row is read before its first batch is asked for."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self.rows.batches(self.wanted):
            columns = [pa.array(batch.numbers[name]) for name in self.wanted.numbers]
            texts: list[Any] = [batch.texts[name] for name in self.wanted.texts]
            texts += [] if self.wanted.person is None else [batch.person]
            columns += [pa.array(cells.tolist(), pa.large_string()) for cells in texts]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def frame_of(rows: Rows, wanted: Wanted) -> nw.LazyFrame[Any]:
    """Return the wanted columns as a frame of DuckDB, on a connection of our own."""
    stream = DeclaredStream(rows, wanted)
    parts = list(stream.schema.names)
    if wanted.person is not None:
        parts.append(f"{person_key_sql('person')} AS person_key")
    frame: nw.LazyFrame[Any] = nw.from_native(connect().from_arrow(stream).project(", ".join(parts)))
    return frame
