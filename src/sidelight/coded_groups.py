"""The labels of the rows of a large table as whole numbers into short lists of labels."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError

Group = tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class CodedGroups(Sequence[Group]):
    """The labels of each row, one for each key, held as codes: a million rows take a few bytes each.

    Args:
        codes: For each key, the place of each row's label in its list.
        labels: For each key, its labels.

    >>> rows = CodedGroups((np.array([0, 1, 1]),), (("cook", "nurse"),))
    >>> rows[1], len(rows)
    (('nurse',), 3)
    """

    codes: tuple[NDArray[np.int32], ...]
    labels: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        frozen = []
        for codes, labels in zip(self.codes, self.labels, strict=True):
            column = np.array(codes, np.int32)
            if column.shape != (len(self.codes[0]),) or (
                column.size and not 0 <= column.min() <= column.max() < len(labels)
            ):
                raise RangeError("every row of a table has one of the labels of each key")
            column.setflags(write=False)
            frozen.append(column)
        object.__setattr__(self, "codes", tuple(frozen))

    def __len__(self) -> int:
        return len(self.codes[0])

    @overload
    def __getitem__(self, place: int) -> Group: ...
    @overload
    def __getitem__(self, place: slice) -> list[Group]: ...
    def __getitem__(self, place: int | slice) -> Group | list[Group]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        return tuple(labels[codes[place]] for codes, labels in zip(self.codes, self.labels, strict=True))

    def __iter__(self) -> Iterator[Group]:
        return iter(zip(*(self.texts(key) for key in range(len(self.codes))), strict=True))

    def texts(self, key: int) -> list[str]:
        """Return the label of each row for one key."""
        labels = self.labels[key]
        return [labels[code] for code in self.codes[key].tolist()]

    def array(self, key: int) -> NDArray[Any]:
        """Return the label of each row for one key as an array of objects."""
        return np.array(self.labels[key], object)[self.codes[key]]

    def chosen(self, rows: NDArray[Any], keys: Sequence[int]) -> CodedGroups:
        """Return some rows and keys."""
        return CodedGroups(tuple(self.codes[key][rows] for key in keys), tuple(self.labels[key] for key in keys))

    def distinct(self) -> bool:
        """Return whether no two rows have the same labels."""
        mixed, many = np.zeros(len(self), np.int64), 1
        for codes, labels in zip(self.codes, self.labels, strict=True):
            if many * len(labels) >= 2**62:
                _, mixed = np.unique(mixed, return_inverse=True)
                many = len(self)
            mixed, many = mixed * len(labels) + codes, many * len(labels)
        mixed.sort()
        return not bool((mixed[1:] == mixed[:-1]).any())

    def to_json(self) -> dict[str, Any]:
        """Return lists of labels, and the codes as bytes."""
        return {"labels": [list(each) for each in self.labels], "codes": [packed(each) for each in self.codes]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CodedGroups:
        """Return what `to_json` wrote."""
        return cls(tuple(unpacked(each, "int32") for each in data["codes"]), tuple(map(tuple, data["labels"])))


def packed(values: NDArray[Any]) -> str:
    """Return the bytes of an array as text, the same on every machine."""
    written = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return base64.b64encode(written.tobytes()).decode("ascii")


def unpacked(text: str, dtype: str) -> NDArray[Any]:
    """Return the array that `packed` wrote."""
    read = np.frombuffer(base64.b64decode(text, validate=True), np.dtype(dtype).newbyteorder("<"))
    return read.astype(dtype)
