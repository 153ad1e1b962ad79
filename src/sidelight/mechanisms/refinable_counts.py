"""Counts that are released roughly first and, where the caller then asks for it, precisely, at no cost beyond that.

The refinement is not a second measurement: the same noise is partly taken away. Nothing is wasted on the first look,
and without a refinement two thirds of the budget are still there (quantiles proof page, Theorems 7 and 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Claims, Context, PureDP, positive
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import REFINEMENT_RATIO, Source, discrete_laplace, refinement_noise

_THEOREM = "quantiles proof page, Theorem 7"


class RefinableCounts:
    """Counts of disjoint cells with noise that can be made smaller once, cell by cell.

    Guarantee: for adding or removing one record, `rough` alone is (epsilon/3)-DP, and `rough` with what `refined`
    returns is epsilon-DP; a cell that is left rough has cost its records epsilon/3 and not more. Exact on the machine
    (quantiles proof page, Theorem 7). Which cells are refined must follow from released numbers; what was not refined
    can never be asked for again, and the fine noise is drawn once.

    Args:
        counts: The counts; one record moves one of them by one.
        epsilon: What a refined cell costs in all.
        source: The release's source.
        places, spans: What says where records lie, and the half-open intervals of the cells there, for the meter;
            without them all records pay.

    >>> from sidelight.guarantees.claims import Neighbours
    >>> from sidelight.guarantees.units import Row
    >>> from sidelight.noise import OSEntropy
    >>> counts = Bounded(np.array([400, 0, 30]), Fraction(1), "l1", Neighbours.ADD_REMOVE, Row())
    >>> with Source(OSEntropy()) as source:
    ...     cells = RefinableCounts(counts, epsilon=300, source=source)
    ...     rough, refined = cells.rough, cells.refined([True, False, True])
    >>> refined.tolist() == [400, int(rough[1]), 30]
    True
    """

    __slots__ = ("_fine", "_pay", "epsilon", "rough")

    def __init__(
        self,
        counts: Bounded,
        *,
        epsilon: Amount,
        source: Source,
        places: object = None,
        spans: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        if len(counts.shape) != 1 or counts.norm != "l1" or counts.sensitivity != 1:
            raise RangeError(
                "counts that can be refined have sensitivity 1 in l1 (one record moves one count by one), got "
                f"{counts!r}"
            )
        self.epsilon: Fraction = positive(epsilon, name="epsilon")
        size, scale = counts.shape[0], 1 / self.epsilon
        context: Context = {"neighbours": counts.neighbours, "unit": counts.unit}
        rough, fine_claims = (Claims.of(PureDP(each, **context)) for each in (self.rough_epsilon, self.epsilon))
        statistic = f"{size} counts, sensitivity 1"
        first = DrawPrice(
            law="discrete Laplace, refinable",
            claims=rough,
            samples=(("discrete_laplace", scale),),
            statistic=statistic,
            theorem=_THEOREM,
        )
        second = DrawPrice(
            law="the same noise, finer",
            claims=fine_claims,
            statistic=statistic,
            theorem=_THEOREM,
            beyond=rough,
        )

        def pay(chosen: NDArray[np.bool_]) -> None:
            held = None if spans is None else [span for span, one in zip(spans, chosen, strict=True) if one]
            with source.over(places=places, spans=held), source.paying(second):
                pass  # the noise was drawn with the rough counts

        with source.over(places=places, spans=spans), source.paying(first):
            fine = counts.value + discrete_laplace(size, scale, source)
            self.rough: NDArray[Any] = fine + refinement_noise(size, REFINEMENT_RATIO * scale, source)
        self._fine: NDArray[Any] | None = fine
        self._pay = pay

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
        if mask.any():
            self._pay(mask)
        refined = np.where(mask, self._fine, self.rough)
        self._fine = None
        return refined

    def __repr__(self) -> str:
        return f"RefinableCounts(private, cells={self.rough.size}, epsilon={self.epsilon})"
