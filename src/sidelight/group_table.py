"""`GroupTable`: the released table of statistics by group. One row per group, public numbers only."""

from __future__ import annotations

import datetime
import html
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.aggregates.groups import ROWS_COUNTED
from sidelight.errors import MissingPackageError, RangeError, nearest
from sidelight.records.dates import date_text

#: The label of a total over a key column.
ALL = "all"
#: The column that says which means are not a group's own, alone or behind the name of the mean, and what it means.
POOLED = "pooled"
POOLED_WORDS = "the number is mostly the mean of all groups, because the group's own is mostly noise"
#: The number of rows that are printed; further ones are counted.
_MOST_PRINTED = 20
#: Numbers of rows or persons, which are printed whole; a count that a mean is read from has decimals of its own.
_COUNTS = ("count", "count_unbiased")

Column = NDArray[Any]


class GroupTable(Mapping[str, Any]):
    """Hold statistics by group: key columns, then numbers, a row for each group.

    A released value. By name it is a mapping of columns; a table of one row reads as
    numbers (`release.value.mean`); `to_pandas()`, `to_polars()`, `to_arrow()` and `to_records()` hand it on. It is a
    prediction for the next release as it is.

    Args:
        keys: The names of the key columns; () where all rows are one group.
        groups: The labels of each row, one for each key.
        columns: The numbers of each row by name: the statistic, `unbiased`, `noise_sd`, `low`, `high`, ...
        notes: What else was released and holds for all rows, such as where values were clipped.

    >>> GroupTable(keys=["job"], groups=[("cook",), ("nurse",)], columns={"count": [12, 30]})
    job    count
    cook      12
    nurse     30
    >>> GroupTable(keys=[], groups=[()], columns={"mean": [41.5]}).mean
    41.5
    """

    __slots__ = ("_columns", "_groups", "_keys", "_notes", "_places")

    def __init__(
        self,
        *,
        keys: Sequence[str],
        groups: Sequence[Sequence[str]],
        columns: Mapping[str, ArrayLike],
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        self._keys = tuple(keys)
        self._groups = tuple(tuple(group) for group in groups)
        self._columns = {name: _column(values, len(self._groups), name) for name, values in columns.items()}
        self._notes = dict(notes or {})
        self._places = {group: place for place, group in enumerate(self._groups)}
        if any(len(group) != len(self._keys) for group in self._groups) or len(self._places) != len(self._groups):
            raise RangeError("every group of a table has one label for each key, and stands in it once")

    @property
    def keys_of_groups(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return self._keys

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The labels of each row."""
        return self._groups

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of numbers."""
        return tuple(self._columns)

    @property
    def notes(self) -> Mapping[str, Any]:
        """What else was released and holds for all rows."""
        return dict(self._notes)

    @property
    def rows(self) -> int:
        """How many groups there are."""
        return len(self._groups)

    def __getitem__(self, name: str) -> Any:
        if name in self._columns:
            return self._columns[name]
        if name in self._keys:
            return [group[self._keys.index(name)] for group in self._groups]
        raise KeyError(f"no column {name!r}; {nearest(name, [*self._keys, *self._columns])}")

    def __iter__(self) -> Iterator[str]:
        return iter((*self._keys, *self._columns))

    def __len__(self) -> int:
        return len(self._keys) + len(self._columns)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying and pickling ask before there are columns
            raise AttributeError(name)
        if name not in self._columns:
            raise AttributeError(f"a table of groups has no {name!r}; its columns are {', '.join(self)}")
        if self.rows != 1:
            raise AttributeError(f"a table of {self.rows} groups has no single {name!r}; write table[{name!r}]")
        return self._columns[name][0].item()

    def row(self, *labels: str) -> dict[str, Any]:
        """Return the numbers of one group by its labels."""
        if labels not in self._places:
            known = ["/".join(group) for group in self._groups]
            raise KeyError(f"no group {'/'.join(map(str, labels))!r}; {nearest('/'.join(map(str, labels)), known)}")
        return {name: values[self._places[labels]].item() for name, values in self._columns.items()}

    def to_records(self) -> list[dict[str, Any]]:
        """Return a list of mappings, one per group."""
        numbers = {name: values.tolist() for name, values in self._columns.items()}
        return [
            dict(zip(self._keys, group, strict=True)) | {name: values[place] for name, values in numbers.items()}
            for place, group in enumerate(self._groups)
        ]

    def to_pandas(self) -> Any:
        """Return a pandas data frame."""
        return _package("pandas").DataFrame(self._whole())

    def to_polars(self) -> Any:
        """Return a Polars data frame."""
        return _package("polars").DataFrame(self._whole())

    def to_arrow(self) -> Any:
        """Return an Arrow table."""
        return _package("pyarrow").table(self._whole())

    def _whole(self) -> dict[str, Any]:
        return {name: self[name] for name in self}

    def to_json(self) -> dict[str, Any]:
        """Return everything as lists of texts and numbers; what is not there (NaN) is null."""
        columns = {
            name: {"dtype": values.dtype.name, "values": [_written(each) for each in values.tolist()]}
            for name, values in self._columns.items()
        }
        return {
            "keys": list(self._keys),
            "groups": [list(group) for group in self._groups],
            "columns": [[name, column] for name, column in columns.items()],  # their order is part of the table
            "notes": self._notes,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GroupTable:
        """Return the table that `to_json` wrote."""
        columns = {
            name: np.array([math.nan if each is None else each for each in column["values"]], column["dtype"])
            for name, column in data["columns"]
        }
        return cls(keys=data["keys"], groups=data["groups"], columns=columns, notes=data["notes"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupTable) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]  # a mapping

    def __repr__(self) -> str:
        shown = self._shown()
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = [
            "  ".join(
                text.ljust(width) if place < len(self._keys) else text.rjust(width)
                for place, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in shown
        ]
        more = self.rows - _MOST_PRINTED
        return "\n".join([*lines, *([f"... and {more} more groups"] if more > 0 else []), *self._legend()])

    def _repr_html_(self) -> str:
        head, *rows = self._shown()
        titles = "".join(f"<th scope='col'>{html.escape(text)}</th>" for text in head)
        cells = ("".join(f"<td>{html.escape(text)}</td>" for text in row) for row in rows)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        legend = "".join(f"<p>{html.escape(line)}</p>" for line in self._legend())
        return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{legend}"

    def _legend(self) -> list[str]:
        """Return the notes below the table: which rows of a person count, and what pooled means."""
        counted = self._notes.get(ROWS_COUNTED)
        said = [f"counted: {counted}"] if counted else []
        pooled = [name for name, values in self._columns.items() if name.endswith(POOLED) and values.any()]
        return said + ([f"pooled: {POOLED_WORDS}"] if pooled else [])

    def _shown(self) -> list[tuple[str, ...]]:
        """Return the texts of the head and of the first rows."""
        found: list[tuple[str, ...]] = [tuple(self)]
        for place, group in enumerate(self._groups[:_MOST_PRINTED]):
            cells = (_text(values[place].item(), counted=name in _COUNTS) for name, values in self._columns.items())
            found.append((*group, *cells))
        return found


def check_keys(keys: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse key columns with the name of a number column of the same table: in a frame one would be lost.

    >>> check_keys(["job"], ["count", "low", "high"])
    """
    taken = sorted(set(keys) & set(columns))
    if taken:
        raise RangeError(
            f"output column names collide: {taken[0]!r} is a group and a number of the table; rename the column"
        )


def _column(values: ArrayLike, rows: int, name: str) -> Column:
    column = np.array(values)
    if column.shape != (rows,) or column.dtype.kind not in "biufM":
        raise RangeError(f"column {name!r} must have a number for each of the {rows} groups, got {column.shape}")
    column.setflags(write=False)
    return column


def _text(value: Any, *, counted: bool = False) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or isinstance(value, datetime.date):
        return date_text(value)
    if isinstance(value, float) and counted and math.isfinite(value):
        return str(round(value))
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return str(value)


def _written(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingPackageError(f"{name} is not installed; pip install {name}, or use to_records()") from None
