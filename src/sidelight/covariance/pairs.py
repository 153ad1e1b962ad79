"""Differences of randomly paired rows: a covariance that needs no centre, from half as many vectors.

Pairing rows by their place in the table would be private under replacement only: one row that is added in front pairs
all later rows anew. Along a fresh uniformly random order, two neighbours' pairings can be coupled such that they differ
in one pair for each changed row, so the constants for replacing one vector hold under adding and removing too
(covariance proof page, Theorem 9).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.coding import CodeArrays
from sidelight.aggregates.collect import coded_rows
from sidelight.aggregates.moments import ClippedMoments, Moments
from sidelight.guarantees.claims import Neighbours, Unit
from sidelight.noise import Source, random_order
from sidelight.records import Table


@dataclass(frozen=True, kw_only=True)
class PairedDifferences(ClippedVector):
    """The coding of a difference x - x' of two coded rows: clipped to √2 times their radius."""

    @classmethod
    def of(cls, coding: ClippedVector) -> PairedDifferences:
        """Return the coding of differences, in the steps of the rows."""
        levels = isqrt(2 * coding.levels**2)
        return cls(
            columns=coding.columns,
            radius=coding.radius * Fraction(levels, coding.levels),
            levels=levels,
            centres=coding.centres,
        )


def pair_statistics(coding: ClippedVector, *, rows_per_unit: int, unit: Unit) -> ClippedMoments:
    """Return the aggregate of pair differences, with the constants for replacing vectors."""
    return ClippedMoments(
        coding=PairedDifferences.of(coding), rows_per_unit=rows_per_unit, unit=unit, neighbours=Neighbours.REPLACE
    )


def pair_moments(
    table: Table, coding: ClippedVector, statistics: ClippedMoments, source: Source
) -> tuple[Moments, int]:
    """Pair the rows along a random order; return the moments of their differences, and the private number of rows."""
    parts = [np.stack(codes) for codes in coded_rows(table, coding)]
    rows = np.concatenate([np.zeros((len(coding.columns), 0), np.int64), *parts], axis=1)
    count = rows.shape[1]
    with source.free("which rows are paired"):
        order = random_order(count, source)
    half = count // 2
    differences = rows[:, order[:half]] - rows[:, order[half : 2 * half]]
    state = statistics.fold(statistics.empty(), clipped_integers(differences, levels=statistics.coding.levels))
    return statistics.finish(state), count


def clipped_integers(vectors: NDArray[np.int64], *, levels: int) -> CodeArrays:
    """Shorten integer vectors (in columns) to a length of at most `levels`, each by itself."""
    squares = np.zeros(vectors.shape[1], np.int64)
    for entry in vectors:
        squares += entry * entry
    # at most 2**30 (levels of 2**14), so the root is good to a relative 2**-52, and truncation makes up for it
    factor = np.minimum(1.0, levels / np.sqrt(np.maximum(squares, 1).astype(np.float64)))
    shortened = np.trunc(vectors * factor).astype(np.int64)
    over = np.zeros(vectors.shape[1], np.int64)
    for entry in shortened:
        over += entry * entry
    shortened[:, over > levels**2] = 0  # cannot happen; if it did, the bound would hold still
    return tuple(shortened)
