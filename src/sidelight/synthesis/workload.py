"""What a data release should answer well: marginals, prefixes and ranges of an ordered column, any linear queries.

A workload is declared with column names, before any domain is known. Every part of it is a function of the marginal of
a few columns, so no query is ever written out over the whole domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import ceil, prod
from typing import Any, TypeAlias

import numpy as np

from sidelight.errors import RangeError
from sidelight.guarantees.amounts import whole
from sidelight.records.schema import listed_names
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.query_blocks import CellQueries, MatrixQueries, PrefixQueries, QueryBlock, RangeQueries

#: All ranges of a column with at most this many values are queries; beyond, the dyadic ones.
MOST_FOR_ALL_RANGES = 2000
#: An ordered column with more values than this also enters with its dyadic coarsenings.
COARSEN_ABOVE = 100


@dataclass(frozen=True)
class Marginal:
    """A partition of the rows by the values of a few columns, each grouped into runs of `widths` neighbouring values.

    >>> Marginal(("age",), (4,)).shape(Domain(("age",), (10,)))
    (3,)
    """

    columns: tuple[str, ...]
    widths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.widths:
            object.__setattr__(self, "widths", (1,) * len(self.columns))

    @property
    def fine(self) -> bool:
        """Whether no column is grouped."""
        return all(width == 1 for width in self.widths)

    def shape(self, domain: Domain) -> tuple[int, ...]:
        """The number of groups of each column."""
        sizes = domain.shape_of(self.columns)
        return tuple(-(-size // width) for size, width in zip(sizes, self.widths, strict=True))

    def cells(self, domain: Domain) -> int:
        """How many cells the partition has."""
        return prod(self.shape(domain))

    def grouped(self, fine: Any) -> Any:
        """Return the counts of the groups from the counts of the columns' values."""
        for axis, width in enumerate(self.widths):
            if width > 1:
                fine = np.add.reduceat(fine, np.arange(0, fine.shape[axis], width), axis=axis)
        return fine

    def spread(self, grouped: Any, domain: Domain) -> Any:
        """Return an array over the columns' values that is constant within groups: the adjoint of `grouped`."""
        for axis, (width, name) in enumerate(zip(self.widths, self.columns, strict=True)):
            if width > 1:
                grouped = np.repeat(grouped, width, axis=axis).take(range(*domain.shape_of([name])), axis=axis)
        return grouped

    def __str__(self) -> str:
        return " x ".join(n if w == 1 else f"{n} by {w}" for n, w in zip(self.columns, self.widths, strict=True))


@dataclass(frozen=True)
class Marginals:
    """All marginals of `ways` columns, among `columns` or all; or exactly the sets named in `sets`."""

    ways: int = 2
    columns: tuple[str, ...] | None = None
    sets: tuple[tuple[str, ...], ...] | None = None

    def attribute_sets(self, domain: Domain) -> list[tuple[str, ...]]:
        """Return the sets of columns, each in the domain's order."""
        if self.sets is not None:
            return list(dict.fromkeys(domain.in_order(each) for each in self.sets))
        names = domain.columns if self.columns is None else domain.in_order(self.columns)
        if self.ways > len(names):
            raise RangeError(
                f"marginals of {self.ways} columns need as many columns, got {len(names)}; "
                f"ask for marginals({len(names)})"
            )
        return list(combinations(names, self.ways))

    def partitions(self, domain: Domain, *, closure: bool) -> list[Marginal]:
        """Return what is worth measuring for them: themselves and, on request, their subsets of two columns on."""
        found = self.attribute_sets(domain)
        if closure:
            found = [
                part
                for each in found
                for size in range(len(each), min(2, len(each)) - 1, -1)
                for part in combinations(each, size)
            ]
        return [Marginal(each) for each in dict.fromkeys(found)]

    def blocks(self, domain: Domain) -> list[QueryBlock]:
        """Return one counting query for each cell of each marginal."""
        return [CellQueries(each, domain.shape_of(each)) for each in self.attribute_sets(domain)]


@dataclass(frozen=True)
class OrderedQueries:
    """Prefixes ("at most v") or ranges ("from u to v") of one ordered column."""

    column: str
    ranges: bool

    def partitions(self, domain: Domain, *, closure: bool) -> list[Marginal]:
        """Return the histogram and, for a long column, its dyadic coarsenings."""
        (size,) = domain.shape_of([self.column])
        widths = [1]
        if size > COARSEN_ABOVE and closure:
            widths += [1 << level for level in range(1, size.bit_length()) if ceil(size / (1 << level)) >= 2]
        return [Marginal((self.column,), (width,)) for width in widths]

    def blocks(self, domain: Domain) -> list[QueryBlock]:
        """Return the counting queries."""
        (size,) = domain.shape_of([self.column])
        if not self.ranges:
            return [PrefixQueries((self.column,), (size,))]
        return [RangeQueries((self.column,), (size,), dyadic=size > MOST_FOR_ALL_RANGES)]


@dataclass(frozen=True, eq=False)
class LinearQueries:
    """The rows of a matrix over the cells of some columns, with bounds that are declared, never computed."""

    matrix: Any = field(repr=False)
    lower: float
    upper: float
    columns: tuple[str, ...] | None = None

    def partitions(self, domain: Domain, *, closure: bool) -> list[Marginal]:
        """Return the marginal of the columns, which answers them all."""
        return [Marginal(self._columns(domain))]

    def blocks(self, domain: Domain) -> list[MatrixQueries]:
        """Return the queries themselves."""
        columns = self._columns(domain)
        shape = domain.shape_of(columns)
        if self.matrix.shape[1] != prod(shape):
            raise RangeError(
                f"the matrix of linear queries has {self.matrix.shape[1]} columns, but {' x '.join(columns)} has "
                f"{prod(shape)} cells; one column is needed for each cell, the last column's values fastest"
            )
        return [MatrixQueries(columns, shape, matrix=self.matrix, lower=self.lower, upper=self.upper)]

    def _columns(self, domain: Domain) -> tuple[str, ...]:
        if self.columns is None:
            return domain.columns
        if domain.in_order(self.columns) != tuple(self.columns):
            raise RangeError("linear queries name their columns once, in the table's order, as their matrix is read")
        return tuple(self.columns)


Part: TypeAlias = Marginals | OrderedQueries | LinearQueries


@dataclass(frozen=True)
class Workload:
    """Parts that are answered from one release. Add workloads with `+`."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise RangeError("a workload asks for something: sl.marginals(2), or a sum of such parts")

    def __add__(self, other: Workload) -> Workload:
        return Workload(self.parts + other.parts)

    def partitions(self, domain: Domain, *, closure: bool = True) -> tuple[Marginal, ...]:
        """Return the candidates to measure, each once. Raises on unknown columns."""
        found = [each for part in self.parts for each in part.partitions(domain, closure=closure)]
        return tuple(dict.fromkeys(found))

    def blocks(self, domain: Domain) -> tuple[QueryBlock, ...]:
        """Return the single queries, in blocks."""
        return tuple(block for part in self.parts for block in part.blocks(domain))


def marginals(
    k: int = 2, columns: Sequence[str] | None = None, *, sets: Sequence[Sequence[str]] | None = None
) -> Workload:
    """Ask for all k-way marginals, among some columns or all; or for the sets of columns that are named.

    Args:
        k: How many columns a marginal has.
        columns: The columns to choose from; all if left out.
        sets: In place of both: lists of column names, one for each marginal.

    Returns:
        A `Workload`; workloads can be added with `+`.

    >>> len(marginals(2).partitions(Domain(("a", "b", "c"), (2, 3, 4))))
    3
    """
    k = whole(k, name="k")
    names = listed_names(columns)
    if sets is not None and (columns is not None or not sets or any(isinstance(e, str) or not e for e in sets)):
        raise RangeError("sets is a list of lists of column names, and stands alone")
    named = None if sets is None else tuple(tuple(each) for each in sets)
    return Workload((Marginals(k, names, named),))


def prefixes(column: str) -> Workload:
    """Ask how many rows lie at or below each value of an ordered column.

    Args:
        column: A number column, or a category whose labels are in order.

    Returns:
        A `Workload`.

    >>> prefixes("age") + marginals(1)
    Workload(parts=(OrderedQueries(column='age', ranges=False), Marginals(ways=1, columns=None, sets=None)))
    """
    return Workload((OrderedQueries(column, ranges=False),))


def ranges(column: str) -> Workload:
    """Ask how many rows lie in each range of an ordered column (the dyadic ones beyond 2000 values).

    Args:
        column: A number column, or a category whose labels are in order.

    Returns:
        A `Workload`.

    >>> ranges("age").parts[0].column
    'age'
    """
    return Workload((OrderedQueries(column, ranges=True),))


def linear_queries(
    matrix: Any, *, lower: float = 0.0, upper: float = 1.0, columns: Sequence[str] | None = None
) -> Workload:
    """Ask for the sums of q(cell) over the rows of the table, one for each row q of a dense or sparse matrix.

    Args:
        matrix: One query a row, one cell a column. It is copied: what is checked here is what is asked.
        lower, upper: Bounds of its entries, within -1 and 1. They are declared: noise is set by them, not by the
            entries.
        columns: The columns whose cells these are, the last one changing fastest; all if left out.

    Returns:
        A `Workload`.

    >>> linear_queries([[1, 1, 0], [0, 1, 1]], columns=["city"]).parts[0].columns
    ('city',)
    """
    sparse = hasattr(matrix, "tocsr")
    if sparse:
        matrix = matrix.tocsr().astype(np.float64)  # a copy
        matrix.sum_duplicates()  # an entry may be stored in parts, each inside the bounds, and be their sum
        matrix.data.flags.writeable = False
    else:
        matrix = np.array(matrix, np.float64)
        matrix.flags.writeable = False
    if len(matrix.shape) != 2 or not matrix.shape[0]:
        raise RangeError(f"linear queries are the rows of a matrix, got shape {matrix.shape}")
    if not (np.isfinite([lower, upper]).all() and lower < upper and max(abs(lower), abs(upper)) <= 1):
        raise RangeError(f"declare bounds with -1 <= lower < upper <= 1, got {lower}, {upper}; scale the queries")
    entries = matrix.data if sparse else matrix
    outside = entries.size and not bool((np.isfinite(entries) & (entries >= lower) & (entries <= upper)).all())
    if outside or (sparse and not lower <= 0 <= upper):
        raise RangeError(f"an entry of the matrix lies outside the declared bounds {lower}..{upper}")
    return Workload((LinearQueries(matrix, lower, upper, None if columns is None else tuple(columns)),))
