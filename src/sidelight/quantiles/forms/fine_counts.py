"""Counts in two looks: rough ones of all leaves or parts, and better ones of those that nothing speaks against.

For a pure budget the second look takes noise away (`mechanisms.refinable_counts`); an independent second measurement
would cost its own epsilon beside the first. In rho it costs no more: precisions of Gaussian noise add up as rho does.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.refinable_counts import RefinableCounts
from sidelight.noise import REFINEMENT_RATIO, Source
from sidelight.quantiles.descend import Cell
from sidelight.quantiles.forms.cells_of_points import counts_of, spans_of
from sidelight.quantiles.forms.least_squares import Round


class FineCounts(Protocol):
    """Rough counts that were released, and the second look that may still be taken, once."""

    @property
    def noisy(self) -> NDArray[Any]:
        """The rough counts."""

    def rough(self, parents: Sequence[int]) -> Round:
        """Return the rough counts as a round."""

    def refined(self, flags: NDArray[np.bool_], parents: Sequence[int], source: Source) -> Round:
        """Return the counts of leaves without a flag with less noise, those with one as they are."""


def fine_counts(ranks: Ranks, cells: Sequence[Cell], *, budget: Budget, source: Source) -> FineCounts:
    """Release the rough counts of disjoint cells.

    Guarantee: a record of a cell pays a third of the budget, and all of it where its cell is refined. Which cells are
    must follow from released numbers.
    """
    if budget.kind == "epsilon":
        return _Pure(ranks, cells, budget.amount, source)
    return _Concentrated(ranks, cells, budget, source)


class _Pure:
    def __init__(self, ranks: Ranks, cells: Sequence[Cell], epsilon: Fraction, source: Source) -> None:
        self._counts = RefinableCounts(
            counts_of(ranks, cells), epsilon=epsilon, source=source, places=ranks, spans=spans_of(cells)
        )
        self.noisy = self._counts.rough
        self._variances = (2 / float(self._counts.rough_epsilon) ** 2, 2 / float(epsilon) ** 2)

    def rough(self, parents: Sequence[int]) -> Round:
        return Round.of(self.noisy, self._variances[0], parents)

    def refined(self, flags: NDArray[np.bool_], parents: Sequence[int], source: Source) -> Round:
        return Round.of(self._counts.refined(~flags), np.where(flags, *self._variances), parents)


class _Concentrated:
    def __init__(self, ranks: Ranks, cells: Sequence[Cell], budget: Budget, source: Source) -> None:
        counts, self._ranks, self._spans = counts_of(ranks, cells), ranks, spans_of(cells)
        self._counts: NDArray[Any] = np.asarray(counts.value)
        self._like = counts
        rough = Fraction(1, REFINEMENT_RATIO)
        self._left: Budget | None = budget.part(1 - rough)
        noise = budget.part(rough).on(counts)
        with source.over(places=ranks, spans=self._spans):
            self.noisy = np.asarray(noise.release(source))
        self._variance = noise.deviation**2

    def rough(self, parents: Sequence[int]) -> Round:
        return Round.of(self.noisy, self._variance, parents)

    def refined(self, flags: NDArray[np.bool_], parents: Sequence[int], source: Source) -> Round:
        if self._left is None:
            raise RangeError("these counts were refined already; a second choice could pay for one record twice")
        left, self._left = self._left, None
        # Only the leaves without a flag are measured again: the records of the others keep what is left.
        counts = Bounded(
            self._counts[~flags], self._like.sensitivity, self._like.norm, self._like.neighbours, self._like.unit
        )
        noise = left.on(counts)
        first, second = self._variance, noise.deviation**2
        both = np.asarray(self.noisy, np.float64).copy()
        variances = np.full(both.shape, first)
        held = [span for span, flag in zip(self._spans, flags, strict=True) if not flag]
        with source.over(places=self._ranks, spans=held):
            again = np.asarray(noise.release(source), np.float64)
        both[~flags] = (both[~flags] * second + again * first) / (first + second)
        variances[~flags] = first * second / (first + second)
        return Round.of(both, variances, parents)
