"""Which marginal is answered worst: the exponential mechanism, exact on the machine.

What the fit expects is put on a public integer grid first; the distance to the private counts is then a sum of integers
and moves by exactly the counts' sensitivity, so no allowance for rounding is needed (synthesis proof page, Theorem 2).

What a round saw and released is kept for the error bounds, in memory while a release is made, and no longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.exponential import choose
from sidelight.noise import Source
from sidelight.synthesis.cells.spaces import Floats
from sidelight.synthesis.cells.workload import Marginal
from sidelight.synthesis.measuring.measurement import MOST_ROWS, Measurement
from sidelight.synthesis.measuring.private_marginals import PrivateMarginals

#: Expected counts are rounded to multiples of 2**-16 of a row.
SCORE_STEPS = 1 << 16
#: A measured marginal is a candidate again while its released residual is above so many times the noise.
AGAIN_ABOVE = 2.0
#: At most this many expected counts are kept, 128 MB; beyond, the oldest rounds are forgotten.
MOST_KEPT = 1 << 24


def on_grid(values: Floats | float) -> NDArray[np.int64]:
    """Put public numbers of rows on the grid of the scores, as integers; beyond 2**40 rows they are clamped."""
    clamped = np.clip(np.nan_to_num(np.asarray(values, np.float64)), -float(MOST_ROWS), float(MOST_ROWS))
    return np.rint(clamped * SCORE_STEPS).astype(np.int64)


def distance(exact: NDArray[np.int64], expected: Floats) -> int:
    """Return ‖exact - expected‖₁ in steps of the grid: an integer that moves by at most the l1 change of `exact`."""
    return int(np.abs(exact * SCORE_STEPS - on_grid(expected)).sum())


def select_marginal(
    counts: PrivateMarginals,
    candidates: Sequence[Marginal],
    expected: Sequence[Floats],
    penalties: Sequence[float],
    *,
    price: Budget,
    source: Source,
) -> int:
    """Return the place of a candidate with a large ‖counts - expected‖₁ - penalty.

    Guarantee: `price.selection_claims`: every score moves by at most the counts' l1 sensitivity Δ, and a candidate is
    drawn with probability ∝ exp(ε_s · score / (2Δ)), exactly. The candidates, what is expected and the penalties must
    be functions of public and released numbers: leave a candidate out before the draw, never after it.
    """
    scores = [
        distance(each.grouped(counts.exact(each.columns)), mass) - int(on_grid(penalty))
        for each, mass, penalty in zip(candidates, expected, penalties, strict=True)
    ]
    protection = counts.protection
    moved = protection.sensitivity("l1") * SCORE_STEPS
    bounded = Bounded(np.asarray(scores, np.int64), moved, "linf", protection.neighbours, protection.unit)
    return choose(bounded, spread=price.spread, source=source)


def open_candidates(
    candidates: Sequence[Marginal], expected: Sequence[Floats], measurements: Sequence[Measurement]
) -> list[int]:
    """Return the places of the candidates that are worth a measurement, by released numbers alone.

    A measured marginal whose released counts the fit already meets, up to noise, would teach little. If that leaves
    none, all are open.
    """
    last = {each.marginal: each for each in measurements}
    places = [
        place
        for place, (each, mass) in enumerate(zip(candidates, expected, strict=True))
        if each not in last or last[each].residual(mass) > AGAIN_ABOVE
    ]
    return places or list(range(len(candidates)))


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginalRound:
    """A marginal was drawn among `candidates` with probability ∝ exp(steepness · score), score in rows, and measured.

    The score is ‖counts - expected‖₁ - penalty, both put on the grid of the scores first.
    """

    candidates: tuple[Marginal, ...]
    expected: tuple[Floats, ...] = field(repr=False)
    penalties: tuple[float, ...] = field(repr=False)
    steepness: float
    chosen: int
    measured: Measurement

    @property
    def size(self) -> int:
        """How many numbers are kept."""
        return sum(each.size for each in self.expected)


class _Sized(Protocol):
    @property
    def size(self) -> int: ...


Kept = TypeVar("Kept", bound=_Sized)


class RoundRecords(Generic[Kept]):
    """The rounds so far, the latest at least."""

    def __init__(self, *, most: int = MOST_KEPT) -> None:
        self._most = most
        self._kept: list[Kept] = []

    def add(self, record: Kept) -> None:
        """Keep a round; forget old ones where it gets too much."""
        self._kept.append(record)
        while len(self._kept) > 1 and sum(each.size for each in self._kept) > self._most:
            del self._kept[0]

    @property
    def kept(self) -> Sequence[Kept]:
        """The rounds that are kept, in order."""
        return tuple(self._kept)
