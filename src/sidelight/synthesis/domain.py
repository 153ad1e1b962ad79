"""The finite public domain of a table: its columns, and how many values each has.

Everything here is declared or learned from public data; nothing is ever read off private rows.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, SchemaError, nearest

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Domain:
    """Column names and sizes; a row is one code in 0..size-1 for each column, a cell one combination of codes.

    Cells are numbered in mixed radix, the last column fastest, as NumPy does it.

    >>> domain = Domain(("sex", "age"), (2, 4))
    >>> domain.cells, domain.shape_of(("age",)), domain.ravel(np.array([[1, 2]])).tolist()
    (8, (4,), [6])
    """

    columns: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        if not self.columns or len(self.columns) != len(self.sizes):
            raise SchemaError(f"a domain needs columns, each with a size; got {len(self.columns)}, {len(self.sizes)}")
        if len(set(self.columns)) != len(self.columns):
            raise SchemaError("a domain names each column once")
        small = [name for name, size in zip(self.columns, self.sizes, strict=True) if size < 1]
        if small:
            raise SchemaError(f"column {small[0]!r} has no values; declare at least one category or bin")

    @cached_property
    def cells(self) -> int:
        """How many combinations there are."""
        return prod(self.sizes)

    def axis(self, column: str) -> int:
        """Return the place of a column."""
        if column not in self.columns:
            raise SchemaError(f"the domain has no column {column!r}; {nearest(column, self.columns)}")
        return self.columns.index(column)

    def axes(self, columns: Iterable[str]) -> tuple[int, ...]:
        """Return the places of columns, in the order given."""
        return tuple(self.axis(column) for column in columns)

    def in_order(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return columns in the domain's order, each once."""
        return tuple(self.columns[place] for place in sorted(set(self.axes(columns))))

    def shape_of(self, columns: Iterable[str]) -> tuple[int, ...]:
        """Return the sizes of columns, in the order given."""
        return tuple(self.sizes[place] for place in self.axes(columns))

    def cells_of(self, columns: Iterable[str]) -> int:
        """Return how many combinations of these columns there are."""
        return prod(self.shape_of(columns))

    def check_codes(self, codes: NDArray[np.integer]) -> Codes:
        """Return an array of rows x columns as int64, or say what is wrong with it. For public rows."""
        given = np.asarray(codes)
        if given.ndim != 2 or given.shape[1] != len(self.columns) or given.dtype.kind not in "iu":
            raise RangeError(
                f"coded rows are integers of shape (rows, {len(self.columns)}), got {given.dtype} {given.shape}"
            )
        if given.size and (given.min() < 0 or bool((given >= np.array(self.sizes)).any())):
            raise RangeError("coded rows have a code outside 0..size-1; code them with the domain's own categories")
        return given.astype(np.int64, copy=False)

    def ravel(self, codes: NDArray[np.integer], columns: Sequence[str] | None = None) -> Codes:
        """Return the cell number of each row among the cells of some columns (all of them, if not said)."""
        names = self.columns if columns is None else columns
        cells = np.zeros(len(codes), np.int64)
        for place, size in zip(self.axes(names), self.shape_of(names), strict=True):
            cells *= size
            cells += codes[:, place]
        return cells

    def unravel(self, cells: NDArray[np.integer]) -> Codes:
        """Return the codes of cells of the whole domain: one row each, one column a column."""
        rest = np.asarray(cells, np.int64).copy()
        codes = np.empty((len(rest), len(self.columns)), np.int64)
        for place in reversed(range(len(self.columns))):
            rest, codes[:, place] = np.divmod(rest, self.sizes[place])
        return codes


def distinct_rows(
    codes: Codes, sizes: Sequence[int], weights: NDArray[np.float64] | None = None
) -> tuple[Codes, NDArray[Any]]:
    """Return the distinct rows in order, and how often each occurs, or its weight: by numbers in mixed radix.

    >>> rows, times = distinct_rows(np.array([[1, 0], [0, 2], [1, 0]]), (2, 3))
    >>> rows.tolist(), times.tolist()
    ([[0, 2], [1, 0]], [1, 2])
    """
    numbers, most = np.zeros(len(codes), np.int64), 1
    for place, size in enumerate(sizes):
        if most * size >= 1 << 62:  # made small on the way
            numbers, most = np.unique(numbers, return_inverse=True)[1].reshape(-1).astype(np.int64), len(codes)
        numbers, most = numbers * size + codes[:, place], most * size
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    return codes[first], np.bincount(which.reshape(-1), weights, len(first))


@dataclass(frozen=True)
class CellNoise:
    """The columns of a measured marginal, none of them grouped, and the standard deviation of the noise of a cell."""

    columns: tuple[str, ...]
    deviation: float


def cell_deviation(columns: tuple[str, ...], domain: Domain, noises: Iterable[CellNoise]) -> float:
    """Return the standard deviation of one cell of some columns; infinite if no measured marginal contains them.

    A cell of the columns S is a sum of cells(T)/cells(S) cells of a measured marginal T that contains them.

    >>> domain = Domain(("a", "b"), (2, 3))
    >>> round(cell_deviation(("a",), domain, [CellNoise(("a", "b"), 2.0)]), 6)
    3.464102
    """
    information = 0.0
    for each in noises:
        if set(columns) <= set(each.columns):
            summed = prod(domain.shape_of(each.columns)) / prod(domain.shape_of(columns))
            information += 1.0 / (each.deviation**2 * summed)
    return 1.0 / sqrt(information) if information else inf


# A fitted distribution as whole units of 1/1024 of an expected row, far below the noise, packed for a release: running
# sums are rounded, so every prefix is off by at most half a unit, and JSON gives the same table to the last bit.

#: Units to an expected row.
_UNITS_PER_ROW = 1024
_LEAST_UNITS, _MOST_UNITS = 1 << 20, 1 << 44
#: Level 6 is no smaller and three times slower on such planes.
_LEVEL = 4


@dataclass(frozen=True, eq=False)
class Mass:
    """Whole units of weight on cells of a domain: on all of them in order, or on the coded rows of a support.

    >>> mass = Mass.of(Domain(("sex",), (2,)), np.array([0.25, 0.75]), size=100)
    >>> mass.units.tolist() == [mass.total // 4, 3 * mass.total // 4]
    True
    """

    domain: Domain
    units: NDArray[np.int64]
    support: NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls, domain: Domain, weights: NDArray[np.float64], *, size: float, support: NDArray[np.int64] | None = None
    ) -> Mass:
        """Round weights to units. Points of a support without a unit are left out."""
        total = int(min(max(_UNITS_PER_ROW * size, _LEAST_UNITS), _MOST_UNITS))
        sums = np.cumsum(weights, dtype=np.float64)
        ends = np.floor(sums / sums[-1] * total + 0.5).astype(np.int64)
        ends[-1] = total
        units = np.diff(ends, prepend=0)
        if support is None:
            return cls(domain, units)
        kept = units > 0
        return cls(domain, units[kept], support[kept])

    @property
    def total(self) -> int:
        """All units."""
        return int(self.units.sum())

    def marginal(self, columns: tuple[str, ...]) -> NDArray[np.float64]:
        """Return the share of rows of each combination of some columns, which are in the domain's order."""
        if self.support is None:
            places = set(self.domain.axes(columns))
            others = tuple(axis for axis in range(len(self.domain.columns)) if axis not in places)
            sums = self.units.reshape(self.domain.sizes).sum(axis=others)
        else:
            cells, size = self.domain.ravel(self.support, columns), self.domain.cells_of(columns)
            sums = np.bincount(cells, weights=self.units, minlength=size).reshape(self.domain.shape_of(columns))
        return np.asarray(sums / self.total, np.float64)

    def codes(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the coded rows at positions 0..total-1 of the units laid end to end."""
        points = np.searchsorted(np.cumsum(self.units), positions, side="right")
        return self.domain.unravel(points) if self.support is None else self.support[points]

    def to_value(self) -> dict[str, Any]:
        """Return texts and numbers for a release."""
        written: dict[str, Any] = {"units": _packed(self.units), "points": len(self.units)}
        if self.support is not None:
            written["support"] = [_packed(column) for column in self.support.T]
        return written

    @classmethod
    def from_value(cls, value: Mapping[str, Any], domain: Domain) -> Mass:
        """Read what `to_value` wrote."""
        points = int(value["points"])
        units = _unpacked(value["units"], points)
        if "support" not in value:
            return cls(domain, units)
        return cls(domain, units, np.stack([_unpacked(text, points) for text in value["support"]], axis=1))


def _packed(numbers: NDArray[np.int64]) -> str:
    """Write numbers >= 0: one plane a byte, so that the high bytes, mostly 0, cost nothing."""
    width = max((int(numbers.max(initial=0)).bit_length() + 7) // 8, 1)
    planes = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
    return base64.b64encode(zlib.compress(np.ascontiguousarray(planes.T).tobytes(), _LEVEL)).decode()


def _unpacked(text: str, count: int) -> NDArray[np.int64]:
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(-1, count)
    whole = np.zeros((count, 8), np.uint8)
    whole[:, : len(planes)] = planes.T
    return whole.view("<u8").reshape(-1).astype(np.int64)
