"""Where a distribution lives: on all cells of a domain, or on chosen rows (the support). Marginals, and their adjoint.

Weights are one flat array; no object has a size of cells times queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.synthesis.cells.domain import Codes, Domain
from sidelight.synthesis.cells.marginal_sums import marginal_sums, spread_sums
from sidelight.synthesis.cells.workload import Marginal

Floats = NDArray[np.float64]

#: Three copies of this many cells are 480 MB.
MOST_DENSE_CELLS = 20_000_000


class Space(Protocol):
    """The points that carry weight."""

    domain: Domain

    @property
    def points(self) -> int:
        """How many points."""
        ...

    @property
    def possible(self) -> NDArray[np.bool_] | None:
        """Which points may carry weight; None for all."""
        ...

    def marginals(self, weights: Floats, wanted: Sequence[Marginal]) -> list[Floats]:
        """Return the mass of each cell of each partition."""
        ...

    def spread(self, parts: Sequence[Floats], given: Sequence[Marginal]) -> Floats:
        """Return, for every point, the sum of the entries of the cells it lies in."""
        ...

    def multiply(self, weights: Floats, factor: Floats, marginal: Marginal) -> None:
        """Multiply the weight of every point by the entry of the cell it lies in."""
        ...


class DenseSpace:
    """All cells of a domain.

    >>> space = DenseSpace(Domain(("a", "b"), (2, 2)))
    >>> space.marginals(np.array([0.1, 0.2, 0.3, 0.4]), [Marginal(("b",))])[0].tolist()
    [0.4, 0.6000000000000001]
    """

    def __init__(self, domain: Domain) -> None:
        check_dense(domain)
        self.domain = domain

    @property
    def points(self) -> int:
        """All cells."""
        return self.domain.cells

    @property
    def possible(self) -> NDArray[np.bool_] | None:
        """Where no structural zero was declared."""
        return self.domain.possible

    def marginals(self, weights: Floats, wanted: Sequence[Marginal]) -> list[Floats]:
        """Sum one axis at a time."""
        axes = [self.domain.axes(each.columns) for each in wanted]
        distinct = list(dict.fromkeys(axes))
        found = dict(zip(distinct, marginal_sums(weights, self.domain.sizes, distinct), strict=True))
        return [each.grouped(found[a]) for each, a in zip(wanted, axes, strict=True)]

    def spread(self, parts: Sequence[Floats], given: Sequence[Marginal]) -> Floats:
        """Add up the tree of sums, backwards."""
        fine = [each.spread(part, self.domain) for part, each in zip(parts, given, strict=True)]
        return spread_sums(fine, self.domain.sizes, [self.domain.axes(each.columns) for each in given])

    def multiply(self, weights: Floats, factor: Floats, marginal: Marginal) -> None:
        """Multiply by broadcasting."""
        fine = marginal.spread(factor, self.domain)
        inside = set(marginal.columns)
        shape, full = _joined(
            [(size, name in inside) for name, size in zip(self.domain.columns, self.domain.sizes, strict=True)]
        )
        table = weights.reshape(full)
        table *= np.asarray(fine).reshape(shape)


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
            raise RangeError("a support needs at least one possible row")
        self._cells: dict[Marginal, NDArray[np.int64]] = {}

    @property
    def points(self) -> int:
        """The rows."""
        return len(self.codes)

    @property
    def possible(self) -> NDArray[np.bool_] | None:
        """Impossible rows are no points."""
        return None

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

    def spread(self, parts: Sequence[Floats], given: Sequence[Marginal]) -> Floats:
        """Look the cells up."""
        total = np.zeros(self.points)
        for part, each in zip(parts, given, strict=True):
            total += np.asarray(part).reshape(-1)[self.cells(each)]
        return total

    def multiply(self, weights: Floats, factor: Floats, marginal: Marginal) -> None:
        """Look the factors up."""
        weights *= np.asarray(factor).reshape(-1)[self.cells(marginal)]


def check_dense(domain: Domain) -> None:
    """Refuse a domain that has too many cells to write down, and say what to use."""
    if domain.cells > MOST_DENSE_CELLS:
        raise RangeError(
            f"the domain has {domain.cells:.3g} cells, this engine takes at most {MOST_DENSE_CELLS:.0e}; with public "
            "rows use engine='support', without them engine='graphical' (pip install 'sidelight[graphical]'), or "
            "release fewer columns, coarser bins"
        )
