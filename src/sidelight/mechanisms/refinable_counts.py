"""Counts that are released roughly first and, where the caller then asks for it, precisely, at no cost beyond that.

The refinement is no second measurement: the same noise is partly taken away. So nothing is wasted on the first look,
and where nobody refines, two thirds of the budget are still there (quantiles proof page, Theorems 7 and 8).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees.amounts import Amount, positive
from sidelight.noise import REFINEMENT_RATIO, Source, discrete_laplace, refinement_noise


class RefinableCounts:
    """Counts of disjoint cells with noise that can be made smaller once, cell by cell.

    Guarantee: for adding or removing one record, `rough` alone is (epsilon/3)-DP, and `rough` with what `refined`
    returns is epsilon-DP; a cell that is left rough has cost its records epsilon/3 and not more. Exact on the machine
    (quantiles proof page, Theorem 7). Which cells are refined must follow from released numbers; what was not refined
    can never be asked for again, and the fine noise is drawn once.

    Args:
        counts: The counts, of which one record moves one by one.
        epsilon: What a refined cell costs in all.
        source: The release's source.

    >>> from sidelight.guarantees.claims import Neighbours, Row
    >>> from sidelight.noise import OSEntropy
    >>> counts = Bounded(np.array([400, 0, 30]), Fraction(1), "l1", Neighbours.ADD_REMOVE, Row())
    >>> with Source(OSEntropy()) as source:
    ...     cells = RefinableCounts(counts, epsilon=300, source=source)
    ...     rough, refined = cells.rough, cells.refined([True, False, True])
    >>> refined.tolist() == [400, int(rough[1]), 30]
    True
    """

    __slots__ = ("_fine", "epsilon", "rough")

    def __init__(self, counts: Bounded, *, epsilon: Amount, source: Source) -> None:
        if len(counts.shape) != 1 or counts.norm != "l1" or counts.sensitivity != 1:
            raise RangeError(
                "counts that can be refined are a list of which one record moves one by one (sensitivity 1 in l1), got "
                f"{counts!r}"
            )
        self.epsilon: Fraction = positive(epsilon, name="epsilon")
        size, scale = counts.shape[0], 1 / self.epsilon
        fine = counts.value + discrete_laplace(size, scale, source)
        self._fine: NDArray[Any] | None = fine
        self.rough: NDArray[Any] = fine + refinement_noise(size, REFINEMENT_RATIO * scale, source)

    @property
    def rough_epsilon(self) -> Fraction:
        """What a record of a cell has spent when it is not refined: a third."""
        return self.epsilon / REFINEMENT_RATIO

    @property
    def left(self) -> Fraction:
        """What a record of a cell that is not refined has left for something else: two thirds, exactly."""
        return self.epsilon - self.rough_epsilon

    def refined(self, chosen: ArrayLike) -> NDArray[Any]:
        """Return the counts with the small noise in the chosen cells and unchanged in the others. Works once."""
        if self._fine is None:
            raise RangeError("these counts were refined already; a second choice could pay for one record twice")
        mask = np.asarray(chosen, np.bool_)
        if mask.shape != self.rough.shape:
            raise RangeError(f"say of each of the {self.rough.size} cells whether it is refined, got {mask.size}")
        refined = np.where(mask, self._fine, self.rough)
        self._fine = None
        return refined

    def __repr__(self) -> str:
        return f"RefinableCounts(private, cells={self.rough.size}, epsilon={self.epsilon})"
