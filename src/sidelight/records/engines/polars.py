"""Rows of a Polars frame: read as NumPy arrays in memory, or by Polars itself where the frame is lazy.

Polars' engine in memory runs the expressions, not the streaming one, which has given wrong counts: also from version 2
on, where that is the default, and where the user's configuration (`pl.Config.set_engine_affinity`) prefers that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from sidelight.records.cells import decoded
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrays import ArrayRows
from sidelight.records.person_key import person_key
from sidelight.records.rows import (
    BATCH_ROWS,
    Batch,
    ColumnType,
    DistinctTexts,
    TypeKind,
    Wanted,
    collected,
    hide_engine_errors,
    stream_at_once,
)

#: The days of Python's first and last date, from 1970 on, and a day in the units of time.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_A_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


class PolarsRows:
    """The rows of a Polars DataFrame or LazyFrame."""

    name = "polars"
    streams = False

    def __init__(self, frame: pl.DataFrame | pl.LazyFrame, *, dates: Mapping[str, Calendar] | None = None) -> None:
        self._frame = frame
        self._dates = dict(dates or {})

    @property
    def types(self) -> Mapping[str, ColumnType]:
        return {name: ColumnType(_kind_of(dtype), str(dtype)) for name, dtype in self._frame.collect_schema().items()}

    @property
    def length(self) -> int | None:
        return self._frame.height if isinstance(self._frame, pl.DataFrame) else None

    def slices_in_memory(self, wanted: Wanted) -> int:
        """Return 1: Polars itself holds all rows at once to group persons."""
        return 1

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        typed = hide_engine_errors(lambda: collected(nw.from_native(self._typed(wanted, keyed=False))).to_native())
        texts = {name: wanted.text_alias(name) for name in wanted.texts}
        texts |= {} if wanted.person is None else {wanted.person: "person"}
        labels = {name: _distinct(typed[alias]) for name, alias in texts.items()}
        numbers = {name: typed[wanted.number_alias(name)].to_numpy() for name in wanted.numbers}
        return ArrayRows(numbers, labels=labels).batches(wanted, rows=rows)  # a key may be a number, too

    def frame(self, wanted: Wanted) -> nw.LazyFrame[Any]:
        """Return the typed columns; Polars runs what is built on them."""
        frame: nw.LazyFrame[Any] = nw.from_native(self._typed(wanted, keyed=True))
        return frame

    def stream(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        return stream_at_once(frame, columns)

    def _typed(self, wanted: Wanted, *, keyed: bool) -> pl.LazyFrame:
        types = self._frame.collect_schema()
        # by position: in a name, Polars takes "*" for all columns and "^...$" for a pattern
        cells = {name: pl.nth(place) for place, name in enumerate(types.names())}
        parts = [
            (_date(cells[name], types[name], self._dates[name]) if name in self._dates else _number(cells[name])).alias(
                wanted.number_alias(name)
            )
            for name in wanted.numbers
        ]
        parts += [_text(cells[name]).alias(wanted.text_alias(name)) for name in wanted.texts]
        if wanted.person is not None:
            text = _text(cells[wanted.person])
            parts.append(text.alias("person"))
            if keyed:
                parts.append(text.map_batches(_keys, return_dtype=pl.Int64).alias("person_key"))
        return self._frame.lazy().select(parts)


def _number(cell: pl.Expr) -> pl.Expr:
    return cell.cast(pl.Float64, strict=False)


def _date(cell: pl.Expr, dtype: Any, calendar: Calendar) -> pl.Expr:
    """Count the units from the calendar's start to a date; a time with a zone is held in UTC."""
    if dtype == pl.Null:
        return _number(cell)
    if dtype != pl.Date and dtype != pl.Datetime:
        return _text(cell).map_batches(lambda texts: _read(texts, calendar), return_dtype=pl.Float64)
    unit = "D" if dtype == pl.Date else str(dtype.time_unit)

    def counted(stamps: pl.Series) -> pl.Series:
        raw = stamps.to_physical().cast(pl.Int64)
        counts = raw.fill_null(0).to_numpy().view(f"datetime64[{unit}]")
        return pl.Series(np.where(raw.is_null().to_numpy(), np.nan, calendar.of_array(counts)), dtype=pl.Float64)

    return cell.map_batches(counted, return_dtype=pl.Float64)


def _read(texts: pl.Series, calendar: Calendar) -> pl.Series:
    return pl.Series(calendar.of_cells(cells_of_polars(texts)), dtype=pl.Float64)


def _text(cell: pl.Expr) -> pl.Expr:
    text = cell.cast(pl.String, strict=False).map_batches(_checked, return_dtype=pl.String)
    return pl.when(text != "").then(text)


def _checked(texts: pl.Series) -> pl.Series:
    """Return the texts, null for those that are not UTF-8: Polars takes texts of Arrow as they are, and would panic."""
    try:
        return texts.cast(pl.Binary).cast(pl.String)  # which checks them
    except Exception:  # some text is not UTF-8: each is decoded by itself
        return pl.Series(cells_of_polars(texts), dtype=pl.String)


def _distinct(texts: pl.Series) -> DistinctTexts:
    """Return checked texts as the different ones and the place of each row's; the place -1 is a missing cell."""
    cells = texts.drop_nulls().unique()
    places = texts.cast(pl.Enum(cells)).to_physical().cast(pl.Int64).fill_null(-1)
    return DistinctTexts([*cells.to_list(), None], places.to_numpy())


def cells_of_polars(column: pl.Series) -> list[Any]:
    """Return the cells as Python objects; a text that is not UTF-8, or a date that Python has not, is None."""
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        return [decoded(cell) for cell in column.cast(pl.String).cast(pl.Binary).to_list()]
    return list(_with_dates_of_python(column).to_list())


def _with_dates_of_python(column: pl.Series) -> pl.Series:
    """Return a column without the dates before year 1 and after 9999: Polars raises for them, or panics and prints it.

    Where a time has a zone the first and the last day are left out, too: local times may be in another year.
    """
    if column.dtype != pl.Date and column.dtype != pl.Datetime:
        return column
    a_day = 1 if column.dtype == pl.Date else _A_DAY[column.dtype.time_unit]
    margin = 0 if getattr(column.dtype, "time_zone", None) is None else 1
    low, high = (_FIRST_DAY + margin) * a_day, (_LAST_DAY + 1 - margin) * a_day - 1
    if a_day == _A_DAY["ns"]:
        return column  # 64 bits of nanoseconds end in the years 1677 and 2262
    raw = column.to_physical()
    return raw.zip_with(raw.is_between(low, high).fill_null(value=False), raw.clear(len(raw))).cast(column.dtype)


def _keys(ids: pl.Series) -> pl.Series:
    return pl.Series([None if text is None else person_key(text) for text in ids.to_list()], dtype=pl.Int64)


def _kind_of(dtype: Any) -> TypeKind:
    if dtype.is_integer():
        return "integer"
    if dtype.is_float() or dtype.is_decimal():
        return "float"
    if dtype == pl.Boolean:
        return "boolean"
    if dtype == pl.Date or dtype == pl.Datetime:
        return "date"
    if dtype == pl.Null:
        return "any"
    return "text" if dtype == pl.String or dtype in (pl.Categorical, pl.Enum) else "other"
