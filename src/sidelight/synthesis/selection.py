"""Which marginal is answered worst: the exponential mechanism, exact on the machine.

What the fit expects is put on a public integer grid first; the distance to the private counts is then a sum of integers
and moves by exactly the counts' sensitivity, so no allowance for rounding is needed (synthesis proof page, Theorem 2).

What a round saw and released is kept for the error bounds, in memory while a release is made, and no longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.exponential import choose
from sidelight.noise import Source
from sidelight.synthesis.measurement import MOST_ROWS, MarginalMeasurement, PrivateMarginals
from sidelight.synthesis.query_blocks import MATRIX_STEPS, QueryBlock
from sidelight.synthesis.spaces import Floats, Space
from sidelight.synthesis.workload import Marginal

#: Expected counts are rounded to multiples of 2**-16 of a row.
SCORE_STEPS = 1 << 16
#: A measured marginal is a candidate again while its released residual is above this multiple of the noise.
AGAIN_ABOVE = 2.0
#: At most this many expected counts are kept, 128 MB; beyond, the oldest rounds are forgotten.
MOST_KEPT = 1 << 24


def on_grid(values: Floats | float) -> NDArray[np.int64]:
    """Put public numbers of rows on the grid of the scores, as integers; beyond 2**40 rows they are clamped."""
    clamped = np.clip(np.nan_to_num(np.asarray(values, np.float64)), -float(MOST_ROWS), float(MOST_ROWS))
    return np.rint(clamped * SCORE_STEPS).astype(np.int64)


def distances(exact: NDArray[np.int64], expected: Floats, starts: Sequence[int]) -> NDArray[np.int64]:
    """Return ‖exact - expected‖₁ of each part from its start on, in steps of the grid.

    An integer that moves by at most the l1 change of a part of `exact`.
    """
    return np.asarray(np.add.reduceat(np.abs(exact * SCORE_STEPS - on_grid(expected)), starts))


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
    exact = [each.grouped(counts.exact(each.columns)).reshape(-1) for each in candidates]
    starts = np.cumsum([0, *map(len, exact)])[:-1].tolist()
    apart = distances(np.concatenate(exact), np.concatenate([each.reshape(-1) for each in expected]), starts)
    protection = counts.protection
    moved = protection.sensitivity("l1") * SCORE_STEPS
    bounded = Bounded(apart - on_grid(np.array(penalties)), moved, "linf", protection.neighbours, protection.unit)
    return choose(bounded, spread=price.spread, source=source)


def open_candidates(
    candidates: Sequence[Marginal], expected: Sequence[Floats], measurements: Sequence[MarginalMeasurement]
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
    measured: MarginalMeasurement

    @property
    def size(self) -> int:
        """How many numbers are kept."""
        return sum(each.size for each in self.expected)


@dataclass(frozen=True, eq=False, kw_only=True)
class AnsweredQuery:
    """A released answer: which query, the noisy number of rows, the noise scale."""

    place: int
    block: QueryBlock
    inside: int
    value: float
    scale: float


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


Round = TypeVar("Round", MarginalRound, QueryRound)


class RoundRecords(Generic[Round]):
    """The rounds so far, the latest at least."""

    def __init__(self, *, most: int = MOST_KEPT) -> None:
        self._most = most
        self._kept: list[Round] = []

    def add(self, record: Round) -> None:
        """Keep a round; forget old ones where it gets too much."""
        self._kept.append(record)
        while len(self._kept) > 1 and sum(each.size for each in self._kept) > self._most:
            del self._kept[0]

    @property
    def kept(self) -> Sequence[Round]:
        """The rounds that are kept, in order."""
        return tuple(self._kept)


class QuerySpace:
    """The queries of some blocks, numbered in their order, on the points of a space."""

    def __init__(self, blocks: Sequence[QueryBlock], space: Space) -> None:
        self.blocks = tuple(blocks)
        self.space = space
        self._marginals = [Marginal(block.columns) for block in self.blocks]
        self._starts = np.cumsum([0, *(block.count for block in self.blocks)])
        self._exact: NDArray[np.int64] | None = None

    def locate(self, place: int) -> tuple[QueryBlock, int]:
        """Return the block of a query and its number there."""
        which = int(np.searchsorted(self._starts, place, "right")) - 1
        return self.blocks[which], place - int(self._starts[which])

    def answers(self, weights: Floats) -> Floats:
        """Return ⟨q, w⟩ of every query."""
        fitted = self.space.marginals(weights, self._marginals)
        return np.concatenate(
            [np.asarray(b.answers(mass), np.float64) / b.steps for b, mass in zip(self.blocks, fitted, strict=True)]
        )

    def answer(self, weights: Floats, query: AnsweredQuery) -> float:
        """Return ⟨q, w⟩ of one query."""
        (mass,) = self.space.marginals(weights, [Marginal(query.block.columns)])
        return float((mass * query.block.coefficients(query.inside)).sum())

    def exact(self, counts: PrivateMarginals) -> NDArray[np.int64]:
        """Return the private ⟨q, x⟩ of every query, in steps of 2**-20: for selections only, and kept."""
        if self._exact is None:
            parts = [b.answers(counts.exact(b.columns)) * (MATRIX_STEPS // b.steps) for b in self.blocks]
            self._exact = np.concatenate(parts).astype(np.int64, copy=False)
        return self._exact

    def on_grid(self, fitted: Floats) -> NDArray[np.int64]:
        """Put expected numbers of rows on the same grid; beyond 2**40 they are clamped."""
        return np.rint(np.clip(fitted, -MOST_ROWS, MOST_ROWS) * MATRIX_STEPS).astype(np.int64)

    def tilt(self, weights: Floats, query: AnsweredQuery, amount: float) -> None:
        """Multiply weights by exp(q · amount) and normalise."""
        self.space.multiply(
            weights, np.exp(query.block.coefficients(query.inside) * amount), Marginal(query.block.columns)
        )
        weights /= weights.sum()
