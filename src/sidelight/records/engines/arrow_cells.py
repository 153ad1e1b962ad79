"""The cells of Arrow columns: as floats, one by one, or as the different texts and their places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sidelight.records.cells import decoded, texts_of
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrays import as_distinct
from sidelight.records.held_rows import GrowingTexts
from sidelight.records.rows import Batch, DistinctTexts, TextCells, TypeKind, Wanted, WholeIds, hide_engine_errors

#: The largest scales, by bits, of decimals that Arrow can write as texts.
_LARGEST_SCALES = {32: 9, 64: 18, 128: 38, 256: 76}


def numbers_of_arrow(column: Any, calendar: Calendar | None = None) -> NDArray[np.float64]:
    """Return an array or chunks of arrays as floats, NaN where nothing is; dates as a calendar counts them."""
    if calendar is not None:
        return _dates_of_arrow(column, calendar)
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, _wide(column.type.value_type))
    if pa.types.is_decimal128(column.type) and 0 <= column.type.scale <= 22:
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return np.concatenate([np.empty(0), *map(_floats_of_decimals, chunks)])
    return _floats_of_cells(column)


def _floats_of_decimals(column: Any) -> NDArray[np.float64]:
    """Return decimals as the nearest floats.

    Where the digits are a whole number up to 2**53, that number and the power of ten are floats, and their quotient is
    rounded once; other cells are read by their digits.
    """
    if not len(column):
        return np.empty(0)
    words = np.frombuffer(column.buffers()[1], "<i8").reshape(-1, 2)[column.offset : column.offset + len(column)]
    low, high = words[:, 0], words[:, 1]
    floats = low / float(10**column.type.scale)
    missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False))
    floats[missing] = np.nan
    large = np.flatnonzero(~missing & ((high != low >> 63) | (low > 2**53) | (low < -(2**53))))
    if len(large):
        floats[large] = _floats_of_cells(column.take(pa.array(large)))
    return floats


def _floats_of_cells(column: Any) -> NDArray[np.float64]:
    if pa.types.is_decimal(column.type):  # as the nearest float, by its digits: the cast itself is off by some units
        column = hide_engine_errors(lambda: pc.cast(column, pa.large_string()))
    # safe=False: the safe cast raises for an integer beyond 2**53, an error that a value decides.
    floats = (
        column if column.type == pa.float64() else hide_engine_errors(lambda: pc.cast(column, pa.float64(), safe=False))
    )
    whole = isinstance(floats, pa.ChunkedArray)  # these have no such argument
    return np.asarray(floats.to_numpy() if whole else floats.to_numpy(zero_copy_only=False), np.float64)


def _dates_of_arrow(column: Any, calendar: Calendar) -> NDArray[np.float64]:
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, _wide(column.type.value_type))
    if kind_of(column.type) != "date":
        texts = kind_of(column.type) == "text"
        return calendar.of_cells(cells_of_arrow(column)) if texts else np.full(len(column), np.nan)
    resolution = "D" if pa.types.is_date32(column.type) else getattr(column.type, "unit", "ms")  # date64 counts these
    missing = np.asarray(column.is_null().to_numpy(**_copied(column)))
    raw = column.cast(pa.int32()).cast(pa.int64()) if resolution == "D" else column.cast(pa.int64())
    # the least count is NaT for NumPy, and a date elsewhere: its neighbour replaces it
    counts = np.maximum(np.asarray(raw.fill_null(0).to_numpy(**_copied(column)), np.int64), -(2**63) + 1)
    return np.where(missing, np.nan, calendar.of_array(counts.view(f"datetime64[{resolution}]")))


def handed_to_duckdb(column: Any, calendar: Calendar | None = None) -> Any:
    """Convert a column that DuckDB reads otherwise than Arrow, or not at all.

    Dates become integers counted by the calendar, all null without one; decimals become floats.
    """
    kind = type_for_duckdb(column.type)
    if kind_of(column.type) == "date":
        counts = np.full(len(column), np.nan) if calendar is None else _dates_of_arrow(column, calendar)
        missing = np.isnan(counts)
        return pa.array(np.where(missing, 0.0, counts).astype(np.int64), kind, mask=missing)
    if pa.types.is_decimal(column.type):
        return pa.array(numbers_of_arrow(column), kind, from_pandas=True)
    return column if column.type == kind else column.cast(kind, safe=False)


def type_for_duckdb(kind: pa.DataType) -> pa.DataType:
    """Return the type of such a column."""
    if kind_of(kind) == "date":
        return pa.int64()
    if pa.types.is_decimal(kind):
        return pa.float64()
    return pa.float32() if kind == pa.float16() else kind


def _wide(kind: pa.DataType) -> pa.DataType:
    """Return a type of texts without an end at 2**31 bytes: those of several chunks, or of a dictionary's cells, go on.

    Whether they do depends on the records, and Arrow would raise or, in older versions, write wrong texts.
    """
    return pa.large_string() if kind == pa.string() else kind


def _copied(column: Any) -> dict[str, bool]:
    return {} if isinstance(column, pa.ChunkedArray) else {"zero_copy_only": False}


def cells_of_arrow(column: Any) -> list[Any]:
    """Return the cells as Python objects; a cell that Python has no object for is None, and no other is.

    Such are texts that are not UTF-8, which files and other libraries do not check, and dates, times and durations far
    beyond the years of Python. Arrow refuses the whole column for one of them; then each cell is read by itself.
    """
    try:
        if pa.types.is_dictionary(column.type):
            column = pc.cast(column, _wide(column.type.value_type))
        return list(column.to_pylist())
    except Exception:  # some cell decides it, so it must not be raised
        pass
    if kind_of(column.type) == "text" and not pa.types.is_dictionary(column.type):
        return [decoded(cell) for cell in column.cast(pa.large_binary(), safe=False).to_pylist()]
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [_cell(chunk, place) for chunk in chunks for place in range(len(chunk))]


def distinct_of_arrow(column: Any, known: KnownTexts | None = None) -> TextCells:
    """Return a column as its distinct texts and their indices, or cell by cell where Arrow cannot encode it.

    `known` texts of earlier batches are reused, with their lookups.
    """
    known = KnownTexts() if known is None else known
    if isinstance(column, pa.ChunkedArray) and pa.types.is_dictionary(column.type):
        # Arrow fails to put dictionaries together where one has a null, or the indices are too short for all texts
        whole = GrowingTexts()
        for chunk in column.chunks:
            whole.add(distinct_of_arrow(chunk, known))
        return whole.texts()
    if kind_of(column.type) not in ("integer", "boolean", "text"):
        return texts_of(cells_of_arrow(column))
    if isinstance(column, pa.ChunkedArray) and _wide(column.type) == pa.large_string() and len(column):
        # one dictionary for all chunks, whose texts are not copied into one array
        chunks = column.cast(pa.large_string(), safe=False).dictionary_encode().chunks
        return known.of_dictionary(chunks[0].dictionary, np.concatenate([_places(chunk) for chunk in chunks]))
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_integer(column.type) and not column.null_count:
        return known.of_integers(column.to_numpy(zero_copy_only=False))  # counts where Arrow would hash
    if getattr(pa.types, "is_string_view", bool)(column.type):
        column = column.cast(pa.binary_view(), safe=False).cast(pa.large_binary()).view(pa.large_string())
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return known.of_dictionary(encoded.dictionary, _places(encoded))


def _places(encoded: Any) -> NDArray[np.int64]:
    """Return the place of each cell in its dictionary; -1 where it is missing."""
    places = encoded.indices.cast(pa.int64(), safe=False)  # unsigned ones cannot hold what stands for none
    places = places.fill_null(-1) if places.null_count else places
    return np.asarray(places.to_numpy(zero_copy_only=False))


def batch_of_arrow(
    batch: Any,
    wanted: Wanted,
    places: Mapping[str, int],
    *,
    dates: Mapping[str, Calendar],
    known: Mapping[str, KnownTexts],
) -> Batch:
    """Read the wanted columns of an Arrow batch, each found by its place; `known` texts are looked up once."""
    columns = {name: batch.column(places[name]) for name in wanted.names}
    return Batch(
        batch.num_rows,
        {name: numbers_of_arrow(columns[name], dates.get(name)) for name in wanted.numbers},
        {name: distinct_of_arrow(columns[name], known.get(name)) for name in wanted.texts},
        None if wanted.person is None else ids_of_arrow(columns[wanted.person]),
        keys={name: ids_of_arrow(columns[name]) for name in wanted.keys},
    )


def ids_of_arrow(column: Any) -> TextCells | WholeIds:
    """Return the persons of rows: whole numbers as they are, others by their texts."""
    if not pa.types.is_integer(column.type) or column.type == pa.uint64():
        return distinct_of_arrow(column)
    named = np.asarray(column.is_valid().to_numpy(**_copied(column))) if column.null_count else None
    values = column.fill_null(0) if column.null_count else column
    return WholeIds(np.asarray(values.to_numpy(**_copied(column))).astype(np.int64, copy=False), named)


class KnownTexts:
    """The distinct texts of a column in an earlier batch, with their lookups."""

    __slots__ = ("_dictionary", "_first", "_texts", "_wholes")

    def __init__(self) -> None:
        self._texts: DistinctTexts | None = None  # of the dictionary
        self._dictionary: Any = None
        self._wholes: DistinctTexts | None = None  # of consecutive integers from the first; never of a dictionary
        self._first = 0

    def of_dictionary(self, dictionary: Any, places: NDArray[Any]) -> DistinctTexts:
        """Return a column by its Arrow dictionary; the index -1 is the last cell, missing."""
        if self._texts is None or self._dictionary is None or not self._dictionary.equals(dictionary):
            cells = texts_of(cells_of_arrow(dictionary)).tolist()
            self._texts, self._dictionary = DistinctTexts([*cells, None], places), dictionary
        return self._texts.at(places)

    def of_integers(self, values: NDArray[Any]) -> TextCells:
        """Return integers by their texts, one for each number between the ends where these are few."""
        if not len(values) or values.dtype == np.uint64:
            return as_distinct(values)
        low, high = int(values.min()), int(values.max())
        texts = self._wholes
        if texts is None or low < self._first or high >= self._first + len(texts.cells):
            if texts is not None:  # so that texts are not made again for every batch
                low, high = min(low, self._first), max(high, self._first + len(texts.cells) - 1)
            if 64 * (high - low + 1) >= len(values):
                return as_distinct(values)
            texts = DistinctTexts(texts_of(range(low, high + 1)).tolist(), values[:0])
            self._wholes, self._first = texts, low
        places = values.astype(np.int64, copy=False)
        return texts.at(places - self._first if self._first else places)


def _cell(column: Any, place: int) -> Any:
    try:
        return column[place].as_py()
    except Exception:
        return None


def kind_of(kind: Any) -> TypeKind:
    """Return what columns of an Arrow type hold."""
    if pa.types.is_dictionary(kind):
        return kind_of(kind.value_type)
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_decimal(kind) and abs(kind.scale) > _LARGEST_SCALES[kind.bit_width]:
        return "other"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "float"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "date"
    if pa.types.is_null(kind):
        return "any"
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or getattr(pa.types, "is_string_view", bool)(kind)
    return "text" if text else "other"
