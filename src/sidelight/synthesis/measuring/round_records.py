"""What a round leaves behind for the error bounds: what it chose from, what was expected, what came out. All released.

Kept in memory while a release is made, and no longer. How much is kept depends on public sizes and released numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sidelight.synthesis.cells.spaces import Floats
from sidelight.synthesis.cells.workload import Marginal
from sidelight.synthesis.measuring.measurement import Measurement
from sidelight.synthesis.measuring.single_queries import AnsweredQuery

#: At most this many expected counts are kept, 128 MB; beyond, the oldest rounds are forgotten.
MOST_KEPT = 1 << 24


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


@dataclass(frozen=True, eq=False, kw_only=True)
class QueryRound:
    """A query was drawn among `places` with probability ∝ exp(steepness · |⟨q, x⟩ - expected|), and answered.

    `expected` belongs to all queries of the workload, on the grid of the scores; `noise_scale` is that of the answer,
    in steps of its block.
    """

    places: NDArray[np.int64] = field(repr=False)
    expected: Floats = field(repr=False)
    steepness: float
    answered: AnsweredQuery
    noise_scale: float

    @property
    def size(self) -> int:
        """How many numbers are kept."""
        return int(self.expected.size + self.places.size)


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
