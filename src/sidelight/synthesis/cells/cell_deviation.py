"""The standard deviation of a count that measured marginals tell, from the best weighting of all that cover it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, prod, sqrt

from sidelight.synthesis.cells.domain import Domain


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
