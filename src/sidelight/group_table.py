"""`GroupTable`: the released table of statistics by group. One row per group, public numbers only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.aggregates.groups import ROWS_COUNTED
from sidelight.coded_groups import CodedGroups, packed, unpacked
from sidelight.errors import MissingPackageError, RangeError, nearest
from sidelight.readable import shown_html, shown_text
from sidelight.registry import import_with_extras
from sidelight.table_texts import column_texts, csv_line, flags_of

#: The label of a total over a key column.
ALL = "all"
#: The column that says which means are not a group's own, alone or behind the name of the mean, and what it means.
POOLED = "pooled"
POOLED_WORDS = "the number is mostly the mean of all groups, because its difference from it is mostly noise"
#: The note of a table whose groups were chosen by their noisy numbers.
CHOSEN = "chosen"
#: The number of rows that are printed; further ones are counted.
_MOST_PRINTED = 20
#: Tables with more rows are written as codes and bytes.
_LONG = 4096
#: Among how many groups a message looks for the one that was meant.
_MOST_SEARCHED = 10_000
#: The note of a table of a hierarchy, which says how it was measured, and its first keys but that of the labels.
HIERARCHY = "hierarchy"
LEVEL, PARENT = "level", "parent"

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
        repeats: Whether labels may stand in it twice, as a SQL statement may show them that leaves out a key.
        asked_for: The numbers that a SQL statement names: `AS low` is one, and not the end of an interval.

    >>> GroupTable(keys=["job"], groups=[("cook",), ("nurse",)], columns={"count": [12, 30]})
    job    count
    cook      12
    nurse     30
    >>> GroupTable(keys=[], groups=[()], columns={"mean": [41.5]}).mean
    41.5
    """

    __slots__ = ("_asked_for", "_coded", "_columns", "_groups", "_keys", "_notes", "_places")

    def __init__(
        self,
        *,
        keys: Sequence[str],
        groups: Sequence[Sequence[str]],
        columns: Mapping[str, ArrayLike],
        notes: Mapping[str, Any] | None = None,
        repeats: bool = False,
        asked_for: Iterable[str] = (),
    ) -> None:
        self._keys = tuple(keys)
        self._asked_for = frozenset(asked_for)
        self._coded = groups if isinstance(groups, CodedGroups) else None
        self._groups = None if self._coded is not None else tuple(map(tuple, groups))
        self._columns = {name: _column(values, self.rows, name) for name, values in columns.items()}
        self._notes = dict(notes or {})
        self._places: dict[tuple[str, ...], int] | None = None
        if self._coded is not None:
            fits = len(self._coded.codes) == len(self._keys) and (repeats or self._coded.distinct())
        else:
            fits = {*map(len, self.groups)} <= {len(self._keys)} and (repeats or len({*self.groups}) == self.rows)
        if not fits:
            raise RangeError("every group of a table has one label for each key, and stands in it once")

    def changed(
        self,
        *,
        columns: Mapping[str, ArrayLike] | None = None,
        notes: Mapping[str, Any] | None = None,
        asked_for: Iterable[str] | None = None,
    ) -> GroupTable:
        """Return the table of the same groups with other columns, other notes, or other numbers that were asked for."""
        return GroupTable(
            keys=self._keys,
            groups=self.groups if self._coded is None else self._coded,
            columns=self._columns if columns is None else columns,
            notes=self._notes if notes is None else notes,
            repeats=True,
            asked_for=self._asked_for if asked_for is None else asked_for,
        )

    def with_notes(self, more: Mapping[str, Any]) -> GroupTable:
        """Return the table with other notes next to, or instead of, some of its own."""
        return self.changed(notes=self._notes | dict(more))

    @property
    def asked_for(self) -> frozenset[str]:
        """The numbers that a SQL statement names; empty where columns have the names of this library."""
        return self._asked_for

    @property
    def _by_labels(self) -> dict[tuple[str, ...], int]:
        if self._places is None:
            self._places = {group: place for place, group in enumerate(self.groups)}
        return self._places

    @property
    def keys_of_groups(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return self._keys

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The labels of each row."""
        if self._groups is None:
            assert self._coded is not None
            self._groups = tuple(self._coded)
        return self._groups

    @property
    def coded(self) -> CodedGroups:
        """The labels of each row as codes, which large tables are made of."""
        if self._coded is None:
            columns = [self._texts(place) for place in range(len(self._keys))]
            labels = [tuple(dict.fromkeys(column)) for column in columns]
            at = [{label: place for place, label in enumerate(each)} for each in labels]
            codes = [np.array([places[text] for text in column]) for places, column in zip(at, columns, strict=True)]
            return CodedGroups(tuple(codes), tuple(labels))
        return self._coded

    def _texts(self, key: int) -> list[str]:
        return [group[key] for group in self.groups] if self._coded is None else self._coded.texts(key)

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
        return len(self._groups if self._coded is None else self._coded)  # type: ignore[arg-type]  # one of both is there

    def __getitem__(self, name: str) -> Any:
        if name in self._columns:
            return self._columns[name]
        if name in self._keys:
            return self._texts(self._keys.index(name))
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
        if labels not in self._by_labels:
            known = ["/".join(group) for group in self.groups[:_MOST_SEARCHED]]
            raise KeyError(f"no group {'/'.join(map(str, labels))!r}; {nearest('/'.join(map(str, labels)), known)}")
        return {name: values[self._by_labels[labels]].item() for name, values in self._columns.items()}

    def to_records(self) -> list[dict[str, Any]]:
        """Return a list of mappings, one per group."""
        numbers = {name: values.tolist() for name, values in self._columns.items()}
        return [
            dict(zip(self._keys, group, strict=True)) | {name: values[place] for name, values in numbers.items()}
            for place, group in enumerate(self.groups)
        ]

    def level(self, name: str, *others: str) -> GroupTable:
        """Return one level of a table of a hierarchy, by some of the other columns or in total.

        Args:
            name: The name of the level: "county".
            others: The columns that its counts are by; those that are left out are added up.

        Returns:
            The table of this level; `id`, or what the hierarchy calls it, is a column of text that joins the
            attributes of a map.
        """
        if not has_levels(self):
            raise RangeError("only a table of an sl.Hierarchy has levels; by names plain columns here")
        further = self._keys[3:]
        for each in others:
            if each not in further:
                raise KeyError(f"no column {each!r}; {nearest(each, list(further))}")
        coded = self.coded
        if name not in coded.labels[0]:
            raise KeyError(f"no level {name!r}; {nearest(name, list(coded.labels[0]))}")
        rows = coded.codes[0] == coded.labels[0].index(name)
        for key, column in enumerate(further, start=3):
            total = coded.codes[key] == coded.labels[key].index(ALL)
            rows &= ~total if column in others else total
        kept = [1, 2, *(key for key, column in enumerate(further, start=3) if column in others)]
        columns = {each: values[rows] for each, values in self._columns.items()}
        groups = coded.chosen(np.flatnonzero(rows), kept)
        return GroupTable(keys=[self._keys[key] for key in kept], groups=groups, columns=columns, notes=self._notes)

    def to_csv(self, path: Any) -> None:
        """Write the table as a CSV file with a head: a line for each group."""
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.writelines(self.csv_lines())

    def csv_lines(self) -> Iterator[str]:
        """Return the lines that `to_csv` writes."""
        yield csv_line(self)
        columns = (self[name] for name in self)
        cells = (each if isinstance(each, list) else each.tolist() for each in columns)
        yield from map(csv_line, zip(*cells, strict=True))

    def to_parquet(self, path: Any) -> None:
        """Write the table as a Parquet file, with labels as dictionaries; needs the extra `files`."""
        _package("pyarrow.parquet").write_table(
            self.to_arrow(), path, compression="zstd", use_dictionary=list(self._keys)
        )

    def to_pandas(self) -> Any:
        """Return a pandas data frame."""
        return _package("pandas").DataFrame(self._whole())

    def to_polars(self) -> Any:
        """Return a Polars data frame."""
        return _package("polars").DataFrame(self._whole())

    def to_arrow(self) -> Any:
        """Return an Arrow table; labels of large tables are dictionaries."""
        arrow = _package("pyarrow")
        if self._coded is None:
            return arrow.table(self._whole())
        keys = {
            name: arrow.DictionaryArray.from_arrays(codes, list(labels))
            for name, codes, labels in zip(self._keys, self._coded.codes, self._coded.labels, strict=True)
        }
        return arrow.table({**keys, **self._columns})

    def _whole(self) -> dict[str, Any]:
        if self._coded is None:
            return {name: self[name] for name in self}
        return {name: self._coded.array(place) for place, name in enumerate(self._keys)} | dict(self._columns)

    def to_json(self) -> dict[str, Any]:
        """Return everything as lists of texts and numbers; what is not there (NaN) is null. Long tables are bytes."""
        if self.rows > _LONG and self._keys and all(values.dtype.kind in "biufU" for values in self._columns.values()):
            packed_columns = [[name, *_packed(values)] for name, values in self._columns.items()]
            return {"keys": list(self._keys), **self.coded.to_json(), "packed": packed_columns, "notes": self._notes}
        columns = {
            name: {"dtype": _dtype_name(values), "values": _written(values)} for name, values in self._columns.items()
        }
        return {
            "keys": list(self._keys),
            "groups": [list(group) for group in self.groups],
            "columns": [[name, column] for name, column in columns.items()],  # their order is part of the table
            "notes": self._notes,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GroupTable:
        """Return the table that `to_json` wrote."""
        if "packed" in data:
            numbers = {name: _unpacked(*column) for name, *column in data["packed"]}
            groups = CodedGroups.from_json(data)
            return cls(keys=data["keys"], groups=groups, columns=numbers, notes=data["notes"])
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
        return "\n".join([*lines, *self._legend()])

    def _repr_html_(self) -> str:
        head, *rows = self._shown()
        titles = "".join(f"<th scope='col' dir='auto'>{shown_html(text)}</th>" for text in head)
        cells = ("".join(f"<td dir='auto'>{shown_html(text)}</td>" for text in row) for row in rows)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        legend = "".join(f"<p>{shown_html(line)}</p>" for line in self._legend())
        return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{legend}"

    def _legend(self) -> list[str]:
        """Return the lines below the table: groups left out, rows of a person that count, choice, clipping, pooling."""
        notes = {"counted": self._notes.get(ROWS_COUNTED), CHOSEN: self._notes.get(CHOSEN)}
        notes |= {name.replace("_", " "): note for name, note in self._notes.items() if name.endswith("clipped")}
        said = [f"{name}: {note}" for name, note in notes.items() if note]
        pooled = [name for name in flags_of(self, POOLED) if self._columns[name].any()]
        left_out = [f"... and {self.rows - _MOST_PRINTED} more groups"] if self.rows > _MOST_PRINTED else []
        return [*left_out, *map(shown_text, said), *([f"pooled: {POOLED_WORDS}"] if pooled else [])]

    def _shown(self) -> list[tuple[str, ...]]:
        """Return the texts of the head and of the first rows."""
        shown = (self.groups if self._coded is None else self._coded)[:_MOST_PRINTED]
        numbers = column_texts(self, _MOST_PRINTED)
        rows = ((*map(shown_text, group), *(texts[place] for texts in numbers)) for place, group in enumerate(shown))
        return [tuple(map(shown_text, self)), *rows]


def has_levels(table: GroupTable) -> bool:
    """Return whether a table is of a hierarchy and has all of its levels: level, label, parent, then other keys."""
    keys = table.keys_of_groups
    return HIERARCHY in table.notes and keys[:1] == (LEVEL,) and keys[2:3] == (PARENT,)


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
    if column.shape != (rows,) or column.dtype.kind not in "biufMU":
        raise RangeError(f"column {name!r} must have a number for each of the {rows} groups, got {column.shape}")
    column.setflags(write=False)
    return column


def _written(values: Any) -> list[Any]:
    found: list[Any] = values.tolist()
    if values.dtype.kind in "biu" or (values.dtype.kind == "f" and not np.isnan(values).any()):
        return found
    return [None if isinstance(each, float) and math.isnan(each) else each for each in found]


def _dtype_name(values: Column) -> str:
    return _name_of(values.dtype)


@lru_cache(maxsize=64)
def _name_of(dtype: np.dtype[Any]) -> str:
    return "str" if dtype.kind == "U" else dtype.name  # the longest text says how many bytes it takes


def _packed(values: Column) -> list[Any]:
    """Return the type and the bytes of a column; of texts the codes, and the texts they stand for."""
    if values.dtype.kind != "U":
        return [_dtype_name(values), packed(values)]
    texts, codes = np.unique(values, return_inverse=True)
    return [_dtype_name(values), packed(codes.astype(np.int32)), texts.tolist()]


def _unpacked(dtype: str, text: str, texts: Sequence[str] | None = None) -> Column:
    return unpacked(text, dtype) if texts is None else np.array(texts, dtype)[unpacked(text, "int32")]


def _package(name: str) -> Any:
    try:
        return import_with_extras(name, instead=", or use to_records()")
    except ModuleNotFoundError:
        raise MissingPackageError(f"{name} is not installed; pip install {name}, or use to_records()") from None
