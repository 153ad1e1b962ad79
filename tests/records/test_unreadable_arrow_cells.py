"""Cells of Arrow that Python has no object for are missing, and no other cell is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sidelight.records.dates import Calendar
from sidelight.records.engines.arrow_cells import cells_of_arrow, distinct_of_arrow, ids_of_arrow, numbers_of_arrow
from sidelight.records.engines.frames import cells_of, column_array

_TEXTS = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes()), pa.py_buffer(b"a\xff")]
)


def counted(last: int, kind: pa.DataType) -> pa.Array:
    return pa.array([5, last], pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


UNREADABLE = {
    **{f"date32 {last}": counted(last, pa.date32()) for last in (2**30, -(2**31))},
    **{f"date64 {last}": counted(last, pa.date64()) for last in (2**62, -(2**63))},
    **{f"timestamp {unit}": counted(2**62, pa.timestamp(unit)) for unit in ("s", "ms", "us")},
    "zone": counted(2**62, pa.timestamp("s", "Europe/Berlin")),
    **{f"duration {unit}": counted(2**62, pa.duration(unit)) for unit in ("s", "ms")},
    "time64": counted(2**62, pa.time64("us")),
    "text": _TEXTS,
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1]), counted(2**30, pa.date32())),
    "dictionary of texts": pa.DictionaryArray.from_arrays(pa.array([0, 1]), _TEXTS),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), counted(2**30, pa.date32())),
    "lists": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), _TEXTS),
}


@pytest.mark.parametrize("column", UNREADABLE.values(), ids=list(UNREADABLE))
@pytest.mark.parametrize("chunked", [False, True])
def test_a_cell_without_an_object_is_missing_and_no_other(column: Any, chunked: bool) -> None:
    first = column[0].as_py()
    given = pa.chunked_array([column, column[:1]]) if chunked else column
    wanted = [first, None, first] if chunked else [first, None]
    assert cells_of_arrow(given) == cells_of(given) == column_array(given).tolist() == wanted
    assert len(distinct_of_arrow(given)) == len(ids_of_arrow(given)) == len(wanted)


@pytest.mark.parametrize("name", [name for name in UNREADABLE if name.startswith(("date", "timestamp", "zone"))])
def test_dates_are_counted_however_far_they_are(name: str) -> None:
    counts = numbers_of_arrow(UNREADABLE[name], Calendar.since("1970-01-01", "day", where="x"))
    assert counts[0] in (0, 5)
    assert abs(counts[1]) > 10**6


def test_decimals_of_all_digits_are_numbers() -> None:
    for kind, width in ((pa.decimal128(38, 0), 16), (pa.decimal256(76, 0), 32), (pa.decimal256(76, 76), 32)):
        largest = b"\xff" * (width - 1) + b"\x7f" + b"\1" + b"\0" * (width - 1)
        column = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(largest)])
        assert len(cells_of_arrow(column)) == 2
        assert np.isfinite(numbers_of_arrow(column)).all()


def test_a_zoned_time_of_pandas_beyond_all_years_is_missing() -> None:
    stamps = pd.Series(np.array([5, 2**62], "i8").view("M8[s]")).dt.tz_localize("UTC")
    cells = cells_of(stamps.astype("datetime64[s, Europe/Berlin]"))
    assert cells == [pd.Timestamp(5, unit="s", tz="Europe/Berlin"), None]
