"""The form `codes`: a grid with few codes is counted code by code, and quantiles are read off the counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.ranks import Ranks
from sidelight.grid import Outcomes
from sidelight.guarantees.claims import Neighbours, Row
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.quantiles.forms.least_squares import Round, agreed_counts, ranks_of

#: The share of the groups of codes, where there are groups.
_GROUP_SHARE = Fraction(35, 100)
#: Up to so many codes are counted alone.
_UNGROUPED = 100


@dataclass(frozen=True, kw_only=True)
class CodesPlan:
    """How the budget of one record is divided between groups of consecutive codes and the codes themselves.

    Guarantee: a record has one code and is in one group, so that the two rounds cost what their shares add up to: all.
    """

    codes: int
    budget: Budget

    @property
    def width(self) -> int:
        """How many codes a group has; 0 if there are no groups."""
        return math.isqrt(self.codes - 1) + 1 if self.codes > _UNGROUPED else 0

    @property
    def rounds(self) -> tuple[Budget, ...]:
        """What the rounds of counts cost one record: groups and codes, or codes alone."""
        if not self.width:
            return (self.budget,)
        return self.budget.part(_GROUP_SHARE), self.budget.part(1 - _GROUP_SHARE)


@dataclass(frozen=True, eq=False)
class CountedRounds:
    """What was counted, as released, and the ranks that it makes together."""

    noisy: tuple[NDArray[np.int64], ...]
    variances: tuple[float, ...]
    parents: NDArray[np.intp]
    ranks: NDArray[np.float64]  # below each code, and at last N


def release_codes(
    ranks: Ranks, levels: Sequence[Fraction], *, grid: Outcomes, plan: CodesPlan, source: Source
) -> tuple[tuple[int, ...], CountedRounds]:
    """Release for each level the largest code with at most that share of the records below it.

    Guarantee: `plan.budget` for adding or removing one record; exact on the machine. Needs no dither.

    Accuracy: `forms.bound`.
    """
    cuts = [code << grid.dither_bits for code in range(grid.first, grid.last + 1)]
    below = np.array([*(ranks.below(cut) for cut in cuts), ranks.size], np.int64)
    counts = np.diff(below)
    width = plan.width
    parents = np.arange(counts.size) // width if width else np.zeros(0, np.intp)
    truths = [np.add.reduceat(counts, np.arange(0, counts.size, width)), counts] if width else [counts]
    noisy, variances = [], []
    for truth, budget in zip(truths, plan.rounds, strict=True):
        noise = budget.on(Bounded(truth, Fraction(1), "l1", Neighbours.ADD_REMOVE, Row()))
        noisy.append(np.asarray(noise.release(source)))
        variances.append(noise.deviation**2)
    found = CountedRounds(tuple(noisy), tuple(variances), parents, _agreed(noisy, variances, parents))
    total = float(found.ranks[-1])
    places = np.searchsorted(found.ranks[:-1], [float(level) * total for level in levels], "right") - 1
    return tuple(cuts[max(int(place), 0)] for place in places), found


def _agreed(
    noisy: Sequence[NDArray[np.int64]], variances: Sequence[float], parents: NDArray[np.intp]
) -> NDArray[np.float64]:
    rounds = [Round.of(noisy[0], variances[0])]
    if len(noisy) > 1:
        rounds.append(Round.of(noisy[1], variances[1], parents))
    return ranks_of(agreed_counts(rounds)[-1])
