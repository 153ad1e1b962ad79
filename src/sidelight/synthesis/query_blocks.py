"""Single linear queries in blocks: each block is answered from one marginal, at once, in integers.

A query has integer coefficients on a public grid: 0 and 1 for counting queries, multiples of 2**-20 for a matrix. Its
answers on private counts are then exact integers, and so are their sensitivities.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from math import ceil, floor, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Coefficients of a matrix are rounded to multiples of 2**-20.
MATRIX_STEPS = 1 << 20


@dataclass(frozen=True, eq=False)
class QueryBlock:
    """Queries that are functions of one marginal: `columns` in the domain's order, and how many values each has.

    Counting queries, unless a kind of block says otherwise: their coefficients are 0 and 1.
    """

    columns: tuple[str, ...]
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many queries."""
        return prod(self.shape)

    @property
    def steps(self) -> int:
        """Integer coefficients are multiples of 1/steps."""
        return 1

    @property
    def bounds(self) -> tuple[int, int]:
        """The declared range of the integer coefficients."""
        return 0, 1

    def answers(self, marginal: NDArray[Any]) -> NDArray[Any]:
        """Return all answers, times `steps`, from an array over the columns' values; integers give integers."""
        raise NotImplementedError

    def coefficients(self, place: int) -> NDArray[np.float64]:
        """Return one query over the columns' values, not multiplied."""
        raise NotImplementedError


@dataclass(frozen=True)
class CellQueries(QueryBlock):
    """How many rows lie in each cell of a marginal."""

    def answers(self, marginal: NDArray[Any]) -> NDArray[Any]:
        """Return the cells."""
        return marginal.ravel()

    def coefficients(self, place: int) -> NDArray[np.float64]:
        """Return the indicator of one cell."""
        query = np.zeros(self.count)
        query[place] = 1.0
        return query.reshape(self.shape)


@dataclass(frozen=True)
class PrefixQueries(QueryBlock):
    """How many rows lie at or below each value but the last."""

    @property
    def count(self) -> int:
        """The last prefix is all rows, and is left out unless it is the only one."""
        return max(self.shape[0] - 1, 1)

    def answers(self, marginal: NDArray[Any]) -> NDArray[Any]:
        """Return the running sums."""
        return np.cumsum(marginal)[: self.count]

    def coefficients(self, place: int) -> NDArray[np.float64]:
        """Return the indicator of the first values."""
        return (np.arange(self.shape[0]) <= place).astype(np.float64)


@dataclass(frozen=True)
class RangeQueries(QueryBlock):
    """How many rows lie between two values: all pairs, or the dyadic ranges."""

    dyadic: bool

    @cached_property
    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and last value of each range."""
        size = self.shape[0]
        if not self.dyadic:
            first, last = np.triu_indices(size)
            return first.astype(np.int64), last.astype(np.int64)
        firsts, lasts, width = [], [], 1
        while width < max(size, 2):
            start = np.arange(0, size, width, dtype=np.int64)
            firsts.append(start)
            lasts.append(np.minimum(start + width, size) - 1)
            width *= 2
        return np.concatenate(firsts), np.concatenate(lasts)

    @property
    def count(self) -> int:
        """How many ranges."""
        return len(self.ends[0])

    def answers(self, marginal: NDArray[Any]) -> NDArray[Any]:
        """Return differences of running sums."""
        sums = np.concatenate([np.zeros(1, marginal.dtype), np.cumsum(marginal)])
        first, last = self.ends
        return np.asarray(sums[last + 1] - sums[first])

    def coefficients(self, place: int) -> NDArray[np.float64]:
        """Return the indicator of one range."""
        values = np.arange(self.shape[0])
        first, last = self.ends
        return np.asarray((values >= first[place]) & (values <= last[place]), np.float64)


@dataclass(frozen=True, eq=False)
class MatrixQueries(QueryBlock):
    """The rows of a matrix, rounded to the public grid; the rounded queries are the ones that are asked."""

    matrix: Any = field(repr=False)
    lower: float
    upper: float

    @property
    def steps(self) -> int:
        """Integer coefficients are multiples of 2**-20."""
        return MATRIX_STEPS

    @property
    def bounds(self) -> tuple[int, int]:
        """The declared bounds on the grid, rounded outwards."""
        return floor(self.lower * self.steps), ceil(self.upper * self.steps)

    @property
    def count(self) -> int:
        """One query a row."""
        return int(self.matrix.shape[0])

    @cached_property
    def _integers(self) -> Any:
        if not hasattr(self.matrix, "tocsr"):
            return np.rint(np.asarray(self.matrix, np.float64) * self.steps).astype(np.int64)
        sparse = self.matrix.tocsr().astype(np.float64)
        sparse.data = np.rint(sparse.data * self.steps)
        return sparse.astype(np.int64)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the queries that are asked: the same for a dense and a sparse matrix of equal entries."""
        entries = self._integers
        if hasattr(entries, "tocoo"):
            entries = entries.copy()
            entries.sum_duplicates()
            entries.eliminate_zeros()
            sparse = entries.tocoo()
            rows, places, values = sparse.row, sparse.col, sparse.data
        else:
            rows, places = np.nonzero(entries)
            values = entries[rows, places]
        found = sha256(repr(tuple(map(int, self.matrix.shape))).encode())
        for part in (rows, places, values):
            found.update(np.ascontiguousarray(part, "<i8").tobytes())
        return found.hexdigest()

    def answers(self, marginal: NDArray[Any]) -> NDArray[Any]:
        """Return the products with the integer coefficients."""
        return np.asarray(self._integers @ marginal.ravel())

    def coefficients(self, place: int) -> NDArray[np.float64]:
        """Return one row."""
        row = self._integers[[place]]
        dense = row.toarray() if hasattr(row, "toarray") else row
        return np.asarray(dense, np.float64).reshape(self.shape) / self.steps
