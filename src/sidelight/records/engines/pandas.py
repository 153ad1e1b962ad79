"""Rows of a pandas frame, read as NumPy arrays. Columns are found by place, so that odd names cannot confuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sidelight.records.cells import numbers_of, texts_of
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrays import KINDS, ArrayRows
from sidelight.records.person_key import person_key
from sidelight.records.rows import (
    BATCH_ROWS,
    Batch,
    ColumnType,
    DistinctTexts,
    TextCells,
    Wanted,
    hide_engine_errors,
    stream_at_once,
    types_by_name,
)

with suppress(ModuleNotFoundError):  # without pyarrow, pandas has no column that Arrow holds
    from sidelight.records.engines.arrow_cells import cells_of_arrow, distinct_of_arrow, kind_of, numbers_of_arrow


class PandasRows:
    """The rows of a pandas frame."""

    name = "pandas"
    streams = True

    def __init__(self, frame: pd.DataFrame, *, dates: Mapping[str, Calendar] | None = None) -> None:
        self._frame = frame
        self._dates = dict(dates or {})

    @property
    def types(self) -> Mapping[str, ColumnType]:
        names = map(str, self._frame.columns)
        return types_by_name(zip(names, map(_type_of, self._frame.dtypes), strict=True))

    @property
    def length(self) -> int:
        return len(self._frame)

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        return self._arrays(wanted).batches(wanted, rows=rows)

    def frame(self, wanted: Wanted) -> nw.LazyFrame[Any]:
        """Return the typed columns as a frame that narwhals runs on pandas."""
        columns: dict[str, Any] = {wanted.number_alias(name): self._numbers(name) for name in wanted.numbers}
        columns |= {wanted.text_alias(name): pd.array(self._texts(name), dtype="string") for name in wanted.texts}
        if wanted.person is not None:
            ids = self._texts(wanted.person)
            columns["person"] = pd.array(ids, dtype="string")
            columns["person_key"] = np.fromiter((0 if text is None else person_key(text) for text in ids), np.int64)
        frame: nw.LazyFrame[Any] = nw.from_native(pd.DataFrame(columns)).lazy()
        return frame

    def stream(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        return stream_at_once(frame, columns)

    def objects(self, name: str) -> list[Any]:
        """Return the cells of an untyped column as they were given."""
        return cells_of_series(self._column(name))

    def _arrays(self, wanted: Wanted) -> ArrayRows:
        # a key may be a number or a date, too: then it is read in both ways
        labels = {*wanted.texts, *wanted.keys, *([] if wanted.person is None else [wanted.person])}
        return ArrayRows(
            {name: self._numbers(name) for name in wanted.numbers},
            labels={name: distinct_of_series(self._column(name)) for name in labels},
        )

    def _column(self, name: str) -> pd.Series[Any]:
        return self._frame.iloc[:, [str(label) for label in self._frame.columns].index(name)]

    def _numbers(self, name: str) -> NDArray[np.float64]:
        column = self._column(name)
        if name in self._dates:
            return _dates_of_series(column, self._dates[name])
        if _type_of(column.dtype).kind == "any":
            return numbers_of(cells_of_series(column))
        if isinstance(column.dtype, pd.ArrowDtype):
            return numbers_of_arrow(column.array.__arrow_array__())
        with np.errstate(all="ignore"):
            return np.asarray(hide_engine_errors(lambda: column.to_numpy(dtype=np.float64, na_value=np.nan)))

    def _texts(self, name: str) -> NDArray[Any]:
        return texts_of(cells_of_series(self._column(name)))


def _dates_of_series(column: pd.Series[Any], calendar: Calendar) -> NDArray[np.float64]:
    if isinstance(column.dtype, pd.ArrowDtype):
        return numbers_of_arrow(column.array.__arrow_array__(), calendar)
    if column.dtype.kind != "M":
        return calendar.of_cells(cells_of_series(column))
    # without its zone, the time is in UTC
    return calendar.of_array(np.asarray(column.to_numpy(dtype=f"datetime64[{column.dt.unit}]")))


def series_of(source: Any) -> pd.Series[Any] | None:
    """Return a column, an index or an extension array as a column; None if it is something else."""
    if type(source) is pd.Series:
        return source
    if isinstance(source, pd.MultiIndex):
        return None
    if isinstance(source, (pd.Index, pd.api.extensions.ExtensionArray)):
        return pd.Series(source)
    return None


def cells_of_series(column: pd.Series[Any]) -> list[Any]:
    """Return the cells as Python objects. What a cell is never depends on another one.

    Categories are looked up by their codes: pandas itself makes floats of whole numbers once one is missing. Columns
    that Arrow holds are read by Arrow, where a text that is not UTF-8 is missing instead of an error.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        labels = [*cells_of_series(pd.Series(column.cat.categories)), None]  # the code -1 is a missing cell
        return [labels[code] for code in column.cat.codes.tolist()]
    if _held_by_arrow(column):
        return cells_of_arrow(column.array.__arrow_array__())
    try:
        return list(column.tolist())
    except Exception:  # some cell decides it, such as a time in a zone beyond the years of Python
        return [_cell(column, place) for place in range(len(column))]


def _cell(column: pd.Series[Any], place: int) -> Any:
    try:
        return column.iloc[place]
    except Exception:
        return None


def distinct_of_series(column: pd.Series[Any]) -> TextCells:
    """Return a column as its different texts and their places, or cell by cell where it has no type of its own."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        cells = texts_of(cells_of_series(pd.Series(column.cat.categories))).tolist()
        return DistinctTexts([*cells, None], column.cat.codes.to_numpy())  # the code -1 is a missing cell
    if _held_by_arrow(column):
        return distinct_of_arrow(column.array.__arrow_array__())
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iub":
        places, distinct = pd.factorize(column.to_numpy(column.dtype.newbyteorder("=")))  # it takes no other order
        return DistinctTexts(texts_of(distinct.tolist()).tolist(), places)
    return texts_of(cells_of_series(column))


def _held_by_arrow(column: pd.Series[Any]) -> bool:
    return isinstance(column.dtype, pd.ArrowDtype) or (
        isinstance(column.dtype, pd.StringDtype) and column.dtype.storage == "pyarrow"
    )


def _type_of(dtype: Any) -> ColumnType:
    if isinstance(dtype, pd.ArrowDtype):
        return ColumnType(kind_of(dtype.pyarrow_dtype), str(dtype))
    text = isinstance(dtype, (pd.StringDtype, pd.CategoricalDtype))
    return ColumnType("text" if text else KINDS.get(dtype.kind, "other"), str(dtype))


def rows_of_csv(delimiters: Mapping[str, str]) -> int | None:
    """Count the rows that pandas reads of CSV files, by their delimiters: NOT PRIVATE; None if it cannot read them."""
    found = 0
    try:
        for path, delimiter in delimiters.items():
            parts = pd.read_csv(path, sep=delimiter, dtype=str, index_col=False, chunksize=1 << 18)
            found += sum(len(part) for part in parts)
    except Exception:  # its message may quote a record
        return None
    return found
