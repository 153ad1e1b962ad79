"""Where a distribution lives: on all cells of a domain, or on chosen rows (the support).

Weights are one flat array; no object has a size of cells times queries.

Many marginals of one dense table are summed one axis at a time, with shared partial sums. Every set of columns is
reached by dropping the other columns in one fixed order, the longest first. Sets that drop the same columns first share
those sums; the sums form a tree, which is walked depth first, so that only one path of it is in memory: less than the
table itself when the first columns have two values or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from string import ascii_letters
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.noise import Source, integers_below
from sidelight.synthesis.domain import Codes, Domain
from sidelight.synthesis.workload import Marginal

Floats = NDArray[np.float64]

Axes = tuple[int, ...]


#: One engine holds fifteen numbers of each cell at a time: 1.5 GB.
MOST_DENSE_CELLS = 12_000_000


#: Tables from this size on are summed one axis at a time.
_LARGE = 1 << 16

#: Rows drawn from the product of the public one-way marginals, added to keep coverage.
EXTRA_POINTS = 20_000


class DenseSpace:
    """All cells of a domain.

    >>> space = DenseSpace(Domain(("a", "b"), (2, 2)))
    >>> space.marginals(np.array([0.1, 0.2, 0.3, 0.4]), [Marginal(("b",))])[0].tolist()
    [0.4, 0.6000000000000001]
    """

    def __init__(self, domain: Domain) -> None:
        check_dense(domain)
        self.domain = domain
        self._shapes: dict[tuple[str, ...], tuple[list[int], list[int], tuple[int, ...], str]] = {}

    @property
    def points(self) -> int:
        """All cells."""
        return self.domain.cells

    def marginals(self, weights: Floats, wanted: Sequence[Marginal]) -> list[Floats]:
        """Sum one axis at a time; for one set of columns of a small table all others at once."""
        if len(wanted) == 1 and len(weights) < _LARGE:
            _, full, fine, sums = self._joined(wanted[0])
            return [wanted[0].grouped(np.einsum(sums, weights.reshape(full)).reshape(fine))]
        places = [self.domain.axes(each.columns) for each in wanted]
        distinct = list(dict.fromkeys(places))
        found = dict(zip(distinct, marginal_sums(weights, self.domain.sizes, distinct), strict=True))
        return [each.grouped(found[own]) for each, own in zip(wanted, places, strict=True)]

    def multiply(self, weights: Floats, factor: Floats, marginal: Marginal) -> None:
        """Multiply by broadcasting."""
        shape, full, _, _ = self._joined(marginal)
        table = weights.reshape(full)
        table *= np.asarray(marginal.spread(factor, self.domain)).reshape(shape)

    def add(self, logs: Floats, terms: Floats, marginal: Marginal) -> None:
        """Add by broadcasting."""
        shape, full, _, _ = self._joined(marginal)
        table = logs.reshape(full)
        table += np.asarray(marginal.spread(terms, self.domain)).reshape(shape)

    def _joined(self, marginal: Marginal) -> tuple[list[int], list[int], tuple[int, ...], str]:
        """Return the shapes of a factor, of the table and of the columns, and the sum; kept: refits ask again."""
        inside = marginal.columns
        if inside not in self._shapes:
            sizes = zip(self.domain.columns, self.domain.sizes, strict=True)
            shape, full = _joined([(size, name in inside) for name, size in sizes if size > 1])
            axes = ascii_letters[: len(full)]
            kept = "".join(axis for axis, size in zip(axes, shape, strict=True) if size > 1)
            self._shapes[inside] = shape, full, self.domain.shape_of(inside), f"{axes}->{kept}"
        return self._shapes[inside]


def _joined(axes: list[tuple[int, bool]]) -> tuple[list[int], list[int]]:
    """Join neighbouring axes of the same kind: shapes of the factor (1 where it is constant) and of the table."""
    factor: list[int] = []
    table: list[int] = []
    kinds: list[bool] = []
    for size, inside in axes:
        if kinds and kinds[-1] is inside:
            table[-1] *= size
            factor[-1] = table[-1] if inside else 1
        else:
            kinds.append(inside)
            table.append(size)
            factor.append(size if inside else 1)
    return factor, table


class SupportSpace:
    """Chosen rows of a domain of any size, each once: the distinct public rows, and rows drawn around them.

    >>> space = SupportSpace(Domain(("a", "b"), (2, 2)), np.array([[0, 0], [1, 1]]))
    >>> space.marginals(np.array([0.25, 0.75]), [Marginal(("b",))])[0].tolist()
    [0.25, 0.75]
    """

    def __init__(self, domain: Domain, codes: NDArray[np.integer]) -> None:
        self.domain = domain
        self.codes: Codes = domain.check_codes(codes)
        if not len(self.codes):
            raise RangeError("a support needs at least one row")
        self._cells: dict[Marginal, NDArray[np.int64]] = {}

    @property
    def points(self) -> int:
        """The rows."""
        return len(self.codes)

    def cells(self, marginal: Marginal) -> NDArray[np.int64]:
        """Return the cell of each point; kept, because every refit asks again."""
        if marginal not in self._cells:
            index = np.zeros(len(self.codes), np.int64)
            places = self.domain.axes(marginal.columns)
            for place, width, size in zip(places, marginal.widths, marginal.shape(self.domain), strict=True):
                index = index * size + self.codes[:, place] // width
            self._cells[marginal] = index
        return self._cells[marginal]

    def marginals(self, weights: Floats, wanted: Sequence[Marginal]) -> list[Floats]:
        """Count points with their weights."""
        return [
            np.asarray(np.bincount(self.cells(each), weights, each.cells(self.domain)), np.float64).reshape(
                each.shape(self.domain)
            )
            for each in wanted
        ]

    def multiply(self, weights: Floats, factor: Floats, marginal: Marginal) -> None:
        """Look the factors up."""
        weights *= np.asarray(factor).reshape(-1)[self.cells(marginal)]

    def add(self, logs: Floats, terms: Floats, marginal: Marginal) -> None:
        """Look the terms up."""
        logs += np.asarray(terms).reshape(-1)[self.cells(marginal)]


#: The points that carry weight.
Space: TypeAlias = DenseSpace | SupportSpace


def public_support(domain: Domain, codes: Codes, *, source: Source) -> SupportSpace:
    """Return the distinct public rows, and rows drawn around them: each column from a public row of its own.

    Nothing here sees private rows. What no point covers cannot be fitted; `Fitted.missed_regions` finds such regions
    from released numbers.
    """
    rows = domain.check_codes(codes)
    if not len(rows):
        raise RangeError("the support needs public rows, got none")
    drawn = np.empty((EXTRA_POINTS, len(domain.columns)), np.int64)
    for place in range(len(domain.columns)):
        drawn[:, place] = rows[integers_below(len(rows), EXTRA_POINTS, source).astype(np.int64), place]
    return SupportSpace(domain, np.unique(np.concatenate([rows, drawn]), axis=0))


def check_dense(domain: Domain) -> None:
    """Refuse a domain that has too many cells to write down, and say what to use."""
    if domain.cells > MOST_DENSE_CELLS:
        raise RangeError(
            f"the domain has {domain.cells:.3g} cells, this engine takes at most {MOST_DENSE_CELLS:.0e}; use "
            "engine='loglinear', or release fewer columns, coarser bins"
        )


def marginal_sums(table: NDArray[Any], sizes: Sequence[int], wanted: Sequence[Axes]) -> list[NDArray[Any]]:
    """Return the sums of a table over all axes but those wanted, for each wanted set of increasing axes.

    >>> table = np.arange(6)
    >>> [sums.tolist() for sums in marginal_sums(table, (2, 3), [(0,), (1,), ()])]
    [[3, 12], [3, 5, 7], 15]
    """
    found: dict[Axes, NDArray[Any]] = {}
    _descend(table.reshape(sizes), tuple(range(len(sizes))), _grouped(sizes, wanted), found)
    return [found[axes] for axes in wanted]


#: A tree: for each axis that is dropped next, the sets that drop it, as a tree; `None` marks a set that is complete.
_Tree = dict[int | None, Any]


def _grouped(sizes: Sequence[int], wanted: Sequence[Axes]) -> _Tree:
    order = sorted(range(len(sizes)), key=lambda axis: (-sizes[axis], axis))
    tree: _Tree = {}
    for axes in wanted:
        node = tree
        for axis in order:
            if axis not in axes:
                node = node.setdefault(axis, {})
        node[None] = None
    return tree


def _descend(table: NDArray[Any], axes: Axes, tree: _Tree, found: dict[Axes, NDArray[Any]]) -> None:
    for axis, below in tree.items():
        if axis is None:
            found[axes] = table
            continue
        place = axes.index(axis)
        sums = np.add.reduce(table, axis=place) if table.size < 4096 else _summed(table, place)
        _descend(sums, axes[:place] + axes[place + 1 :], below, found)


def _summed(table: NDArray[Any], place: int) -> NDArray[Any]:
    """Sum an axis; a short inner axis is faster one slice at a time than NumPy's loop over it."""
    shape = table.shape
    middle, after = shape[place], prod(shape[place + 1 :])
    parts = table.reshape(-1, middle, after)
    if after >= 16 or middle > 64:
        total = parts.sum(axis=1)
    elif after == 1 and table.dtype == np.float64:
        total = parts[:, :, 0] @ np.ones(middle)
    else:
        total = parts[:, 0, :].copy()
        for inner in range(1, middle):
            total += parts[:, inner, :]
    return np.asarray(total).reshape(shape[:place] + shape[place + 1 :])
