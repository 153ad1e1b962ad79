"""Rows in memory as NumPy arrays: one array, a Python list, or several of them side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, time, timedelta
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import SchemaError
from sidelight.records.cells import numbers_of, texts_of
from sidelight.records.dates import Calendar
from sidelight.records.rows import (
    BATCH_ROWS,
    Batch,
    ColumnType,
    DistinctTexts,
    NoExpressions,
    TextCells,
    TypeKind,
    Wanted,
    WholeIds,
)

#: What the kinds of NumPy's types hold.
KINDS: dict[str, TypeKind] = {
    **dict.fromkeys("iu", "integer"),
    **dict.fromkeys("UT", "text"),
    "f": "float",
    "b": "boolean",
    "M": "date",
    "O": "any",
}
#: The refusal of columns of different lengths, which are private.
DIFFERENT_LENGTHS = "the columns must have one length: row i of each belongs to the same record"
#: Accepted subclasses of `np.ndarray`; others may read their cells as they like.
_PLAIN = (np.memmap, np.matrix, np.recarray)
#: What to write instead of an object of another library.
_INSTEAD = {
    "cudf": "frame.to_pandas()",
    "cupy": "array.get()",
    "dask": "frame.compute()",
    "datasets": "dataset.to_pandas()",
    "geopandas": "pandas.DataFrame(frame)",
    "h5py": "dataset[:]",
    "ibis": "table.to_pyarrow()",
    "modin": "frame.modin.to_pandas()",
    "scipy": "matrix.toarray()",
    "tensorflow": "tensor.numpy()",
    "torch": "tensor.numpy()",
    "vaex": "frame.to_pandas_df()",
    "xarray": "dataset.to_dataframe()",
}
#: What no cell of a column of numbers is: texts in a list of nothing else, containers, and dates.
_NO_NUMBERS = (str, bytes, PathLike, dict, list, tuple, set, frozenset, date, time, timedelta)
_FILE_ENDINGS = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".pq")


def library_of(source: Any) -> str:
    """Return the library that defines the class of a source."""
    return type(source).__module__.partition(".")[0]


class ArrayRows(NoExpressions):
    """Columns as one-dimensional arrays of one length.

    `labels` are what labels, ids and keys are read from, where that is not what numbers are read from.
    """

    name = "numpy"
    streams = True

    def __init__(
        self,
        columns: Mapping[str, TextCells],
        *,
        labels: Mapping[str, TextCells] | None = None,
        listed: Collection[str] = (),
        dates: Mapping[str, Calendar] | None = None,
    ) -> None:
        if any(column.ndim != 1 for column in columns.values()):
            raise SchemaError("every column must be a one-dimensional array; a two-dimensional one is given by itself")
        self.cells = dict(columns)
        self._labels = {**columns, **(labels or {})}
        if len({column.shape[0] for column in self._labels.values()}) > 1:
            raise SchemaError(DIFFERENT_LENGTHS)
        self._listed = tuple(listed)
        self._dates = dict(dates or {})

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """The columns that are arrays."""
        return {name: column for name, column in self.cells.items() if isinstance(column, np.ndarray)}

    @property
    def lists(self) -> Mapping[str, NDArray[Any]]:
        """The columns that were given as lists."""
        return {name: self.columns[name] for name in self._listed}

    def objects(self, name: str) -> list[Any]:
        """Return the cells of an untyped column as they were given."""
        return list(self.columns[name].tolist())

    @property
    def types(self) -> Mapping[str, ColumnType]:
        kinds = {name: column.dtype for name, column in self.columns.items()}
        return {name: ColumnType(KINDS.get(dtype.kind, "other"), str(dtype)) for name, dtype in kinds.items()}

    @property
    def length(self) -> int:
        return next((column.shape[0] for column in self._labels.values()), 0)

    def hands_keys(self, wanted: Wanted) -> bool:
        """Return True: arrays of whole numbers are handed over as they are."""
        return True

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Return all rows in slices; float64 columns are views, others are converted by the slice."""
        ids = None if wanted.person is None else _ids(self._labels[wanted.person])
        keys = {name: _ids(self._labels[name]) for name in wanted.keys}
        for start in range(0, self.length, rows):
            stop = min(start + rows, self.length)
            yield Batch(
                stop - start,
                {name: self._numbers(name, slice(start, stop)) for name in wanted.numbers},
                {name: as_distinct(self._labels[name][start:stop]) for name in wanted.texts},
                None if ids is None else _sliced(ids, slice(start, stop)),
                keys={name: _sliced(cells, slice(start, stop)) for name, cells in keys.items()},
            )

    def _numbers(self, name: str, rows: slice) -> NDArray[np.float64]:
        cells = self.columns[name][rows]
        return as_dates(cells, self._dates[name]) if name in self._dates else as_numbers(cells)

    def __repr__(self) -> str:
        return "ArrayRows(private)"


def open_arrays(source: Any, names: Sequence[str], *, dates: Mapping[str, Calendar] | None = None) -> ArrayRows:
    """Take a one- or two-dimensional array, a structured array, or a list as the named columns."""
    array = as_array(source)
    if array.dtype.names is not None and array.ndim == 1:
        return ArrayRows({name: array[name] for name in array.dtype.names}, dates=dates)
    if array.ndim == 1 and len(names) == 1:
        listed = isinstance(source, (list, tuple))
        if listed:
            _check_no_paths(array)
        return ArrayRows({names[0]: array}, listed=names if listed else (), dates=dates)
    if array.ndim == 2 and array.shape[1] == len(names):
        return ArrayRows({name: array[:, place] for place, name in enumerate(names)}, dates=dates)
    shape = f"{array.shape[1]} columns" if array.ndim == 2 else f"{array.ndim} dimension(s)"
    rows = "; of a list of rows make columns first, as in pandas.DataFrame(rows)" if isinstance(source, list) else ""
    raise SchemaError(
        f"the schema declares {len(names)} column(s), the array has {shape}; "
        "give a one-dimensional array for one column, or a two-dimensional one with its columns in the schema's order"
        f"{rows}"
    )


def as_array(column: Any) -> NDArray[Any]:
    """Return arrays as they are; lists and tuples cell by cell, so that no value can raise. All else is refused."""
    kind = type(column)
    if kind in (np.ndarray, np.ma.MaskedArray):
        array: NDArray[Any] = column
        return array
    if kind in _PLAIN:
        return np.ndarray.view(column, np.ndarray)
    if isinstance(column, (list, tuple)):
        # Always untyped, whatever the cells are: a type guessed from cells would be a type learned from rows.
        cells = list.__iter__(column) if isinstance(column, list) else tuple.__iter__(column)
        return untyped(list(cells))
    library = kind.__module__.partition(".")[0]
    instead = _INSTEAD.get(library, "np.asarray(data), data.to_pandas() or data.compute()")
    raise SchemaError(
        f"a column must be an array or a list, got {kind.__name__} of {library}; a table is a path, a frame of pandas, "
        "Polars or Arrow, a DuckDB relation, a mapping of columns or one array. Nothing else is read, because what it "
        f"would do is not known before the data is paid for: write {instead} first"
    )


def untyped(cells: Sequence[Any]) -> NDArray[Any]:
    """Return an array of objects, one for each cell, whatever the cells are."""
    array = np.empty(len(cells), object)
    for place, cell in enumerate(cells):
        array[place] = cell
    return array


def _check_no_paths(cells: NDArray[Any]) -> None:
    """Refuse a list of nothing but paths (`check_no_texts` says why no single record causes this error)."""
    if len(cells) and all(issubclass(type(cell), PathLike) or _names_a_file(cell) for cell in cells):
        raise SchemaError(
            "a list was given in which every entry is a path; one table is one path or a pattern, as in "
            "sl.Table('visits-*.parquet', ...), and a list is a column of cells"
        )


def _names_a_file(cell: Any) -> bool:
    return type(cell) is str and cell.lower().endswith(_FILE_ENDINGS)


def check_no_texts(name: str, cells: NDArray[Any]) -> None:
    """Refuse a list of nothing but texts, containers and durations where numbers are declared: none of them is one.

    A list has no type that would tell, as an array of texts has. All cells are checked: where two records are not
    such, neither adding nor removing one record can cause this error.
    """
    if not len(cells) or not all(issubclass(type(cell), _NO_NUMBERS) for cell in cells):
        return
    if all(issubclass(type(cell), (str, bytes, PathLike)) for cell in cells):
        raise SchemaError(
            f"column {name!r} is declared as Number but the source is a list in which every cell is a text; convert it "
            "to numbers, as in [float(text) for text in cells], declare a Category if it holds labels, or give a path "
            "or a pattern if these are files"
        )
    raise SchemaError(
        f"column {name!r} is declared as Number but the source is a list in which no cell is one (rows, dates and "
        "durations are none); give one list of numbers for each column, as in {'age': [31, 54], 'hours': [40, 20]}"
    )


def as_numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return a slice as float64, with NaN where a value is missing."""
    if isinstance(values, np.ma.MaskedArray):
        filled = as_numbers(np.asarray(values.data)).copy()
        filled[np.ma.getmaskarray(values)] = np.nan
        return filled
    if values.dtype == np.float64 and values.dtype.isnative:
        return values
    if values.dtype.kind in "OUT":
        return numbers_of(values.tolist())
    with np.errstate(all="ignore"):  # a warning about a value would be one that rows decide
        return values.astype(np.float64)


def as_dates(values: NDArray[Any], calendar: Calendar) -> NDArray[np.float64]:
    """Return a slice of dates as units since the calendar's start, NaN for other cells."""
    if isinstance(values, np.ma.MaskedArray):
        read = as_dates(np.asarray(values.data), calendar)
        return np.where(np.ma.getmaskarray(values), np.nan, read)
    return calendar.of_array(values) if values.dtype.kind == "M" else calendar.of_cells(values.tolist())


def as_distinct(values: TextCells) -> TextCells:
    """Return a slice as its distinct texts, or cell by cell where its type does not distinguish them."""
    if isinstance(values, DistinctTexts):
        return values
    if type(values) is not np.ndarray or values.dtype.kind not in "iu" or not len(values):
        return as_texts(values)
    values = _native(values)
    low, high = int(values.min()), int(values.max())
    if high - low < 4 * len(values):  # count instead of sorting
        wide = values if values.dtype == np.uint64 else values.astype(np.int64, copy=False)
        shifted = (wide - wide.dtype.type(low)).astype(np.int64, copy=False)
        found = np.bincount(shifted)
        if 64 * len(found) < len(values):  # unused numbers cost less than renumbering the rows
            cells = texts_of(place + low if rows else None for place, rows in enumerate(found.tolist()))
            return DistinctTexts(cells.tolist(), shifted)
        there = np.flatnonzero(found)
        places = np.empty(high - low + 1, np.int64)
        places[there] = np.arange(len(there))
        return DistinctTexts(texts_of(place + low for place in there.tolist()).tolist(), places[shifted])
    distinct, inverse = np.unique(values, return_inverse=True)
    return DistinctTexts(texts_of(distinct.tolist()).tolist(), inverse)


def _native(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in the byte order of the machine, in which alone a type is one of NumPy's names."""
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _ids(cells: TextCells) -> TextCells | WholeIds:
    """Return integers unchanged, or, beyond signed 64 bits, as their distinct texts."""
    if isinstance(cells, DistinctTexts) or type(cells) is not np.ndarray or cells.dtype.kind not in "iu":
        return cells
    cells = _native(cells)
    if cells.dtype == np.uint64:
        return as_distinct(cells)
    return WholeIds(np.ascontiguousarray(cells).astype(np.int64, copy=False))


def _sliced(ids: TextCells | WholeIds, rows: slice) -> TextCells | WholeIds:
    return ids[rows] if isinstance(ids, WholeIds) else as_distinct(ids[rows])


def as_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Return a slice as texts, with None where a value is missing."""
    if isinstance(values, np.ma.MaskedArray):
        texts = as_texts(np.asarray(values.data))
        texts[np.ma.getmaskarray(values)] = None
        return texts
    return texts_of(values.tolist())
