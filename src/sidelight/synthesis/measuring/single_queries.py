"""All single queries of a workload in one row, evaluated block by block on weights and on private counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sidelight.synthesis.cells.query_blocks import MATRIX_STEPS, QueryBlock
from sidelight.synthesis.cells.spaces import Floats, Space
from sidelight.synthesis.cells.workload import Marginal
from sidelight.synthesis.measuring.measurement import MOST_ROWS
from sidelight.synthesis.measuring.private_marginals import PrivateMarginals


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
