"""The form `select`, for about ten levels: points between the levels, counts between the points, then each level.

Levels lie in the middle of their cells, where one record moves a score by half only. No smoothness is used, and the
error does not depend on the number of records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from sidelight.aggregates.ranks import Ranks
from sidelight.guarantees.amounts import decimal_text
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.quantiles.descend import descend
from sidelight.quantiles.forms.cell_selection import (
    LevelPriors,
    cell_tree,
    cells_between,
    counts_of,
    middle_spot,
    select_in_cell,
    spans_of,
    tail_spots,
    whole_cell,
)
from sidelight.quantiles.forms.cells_plan import QUARTILES, SHARE_STEP, rate_of
from sidelight.quantiles.forms.count_noise import (
    CALIBRATED,
    STEP,
    NoiseTerms,
    PlacedLevels,
    Selections,
    counted_bound,
    equal_shares,
    linear_bound,
    noise_of,
)
from sidelight.quantiles.forms.least_squares import Round, ranks_of, texts
from sidelight.quantiles.tree import QuantileTree
from sidelight.release import TailBound


@dataclass(frozen=True, kw_only=True)
class SelectPlan:
    """How the budget of one record is divided: points, counts, and the levels themselves.

    Guarantee: the three add up to the budget exactly.
    """

    budget: Budget
    points: Budget
    counts: Budget
    targets: Budget
    size: int

    @classmethod
    def of(cls, budget: Budget, *, size: int) -> SelectPlan:
        """Divide a budget for about this many records, a public number."""
        strength = max(min(float(budget.amount), 1e15) * min(max(size, 1), 10**15), 1e-9)
        first = min(max(0.1 * (1e4 / strength) ** 0.4, 0.06), 0.25)
        points = Fraction(round(first * SHARE_STEP), SHARE_STEP)
        targets = Fraction(round(0.35 * (1 - first) / 0.9 * SHARE_STEP), SHARE_STEP)
        return cls(
            budget=budget,
            points=budget.part(points),
            counts=budget.part(1 - points - targets),
            targets=budget.part(targets),
            size=size,
        )

    def to_json(self) -> dict[str, str]:
        """Return everything that was chosen, in strings."""
        amounts = {"points": self.points, "counts": self.counts, "targets": self.targets}
        return {"size": str(self.size), **{name: decimal_text(each.amount) for name, each in amounts.items()}}


@dataclass(frozen=True, eq=False)
class SelectedCells:
    """What was released on the way, all of it public."""

    points: tuple[int, ...]
    noisy: np.ndarray
    ranks: np.ndarray  # at the ends of the cells, from 0 to N
    cells: tuple[int, ...]  # of each level
    trees: tuple[tuple[list[int], QuantileTree], ...]  # what selected which levels

    def details(self, plan: SelectPlan) -> dict[str, Any]:
        """Return what was released on the way, in strings."""
        return {"plan": plan.to_json(), "points": texts(self.points), "counts": [texts(self.noisy.tolist())]}


def between_levels(levels: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the levels half-way between neighbours, 0 and 1 among them.

    >>> [str(level) for level in between_levels([Fraction(1, 4), Fraction(1, 2)])]
    ['1/8', '3/8', '3/4']
    """
    return tuple((low + high) / 2 for low, high in pairwise((Fraction(0), *levels, Fraction(1))))


def _nearest(levels: Sequence[Fraction], wanted: Fraction) -> int:
    """Return the place of the nearest of increasing levels, of two the lower one."""
    above = bisect_left(levels, wanted)
    if above in (0, len(levels)):
        return min(above, len(levels) - 1)
    return above - (wanted - levels[above - 1] <= levels[above] - wanted)


def release_selected(
    ranks: Ranks, levels: Sequence[Fraction], *, plan: SelectPlan, priors: LevelPriors, source: Source
) -> tuple[tuple[int, ...], SelectedCells]:
    """Release a fine index for each level, in increasing order.

    Guarantee: `plan.budget` for adding or removing one record: a tree on everything, counts of the cells between its
    outputs, and trees inside these cells, of which a record is in one (quantiles proof page, Theorem 8).
    """
    grid = priors.grid
    middles = between_levels(levels)
    found = select_in_cell(
        ranks, whole_cell(grid), middles, budget=plan.points, priors=priors.each(middles), source=source
    )
    points = sorted(set(found))
    cells = cells_between(grid, points)
    with source.over(places=ranks, spans=spans_of(cells)):
        noisy = np.asarray(plan.counts.on(counts_of(ranks, cells)).release(source))
    ends = ranks_of(noisy)
    quartiles = [found[_nearest(middles, each)] for each in QUARTILES]
    focus = middle_spot(grid, *quartiles)
    below, above = tail_spots(grid, points, noisy.tolist())
    outer = {0: below, len(cells) - 1: above}
    targets = np.array([float(level) for level in levels]) * ends[-1]
    owners = np.clip(np.searchsorted(ends, targets, "right") - 1, 0, len(cells) - 1).tolist()
    outputs: list[int] = []
    trees: list[tuple[list[int], QuantileTree]] = []
    for place, cell in enumerate(cells):
        mine = [i for i, owner in enumerate(owners) if owner == place]
        if not mine:
            continue
        low, high = float(ends[place]), float(ends[place + 1])
        relative = [(float(targets[i]) - low) / max(high - low, 1.0) for i in mine]
        wanted = priors.each([levels[i] for i in mine], outer.get(place), focus)
        tree = cell_tree(relative, plan.targets)
        outputs += descend(tree, ranks, priors=wanted, source=source, cell=cell)
        trees.append((mine, tree))
    return tuple(outputs), SelectedCells(tuple(points), noisy, ends, tuple(owners), tuple(trees))


def select_bound(plan: SelectPlan, released: SelectedCells, levels: Sequence[Fraction]) -> TailBound:
    """Bound the gaps of what `select` released wherever records lie; and the likely error, without smoothness."""
    shares = np.array([float(level) for level in levels])
    placed = PlacedLevels.of(shares * float(released.ranks[-1]), released.ranks)
    selections = Selections.none(shares.size)
    for mine, tree in released.trees:
        selections.add(np.array(mine), tree)
    variance = 2 / rate_of(plan.counts) ** 2
    rounds = [Round.of(released.noisy, variance)]
    noise = noise_of(rounds, placed.weights(shares, released.ranks.size - 1))
    terms = NoiseTerms(
        laplace=noise,  # a pure price: `FormRule` takes no other for this form
        gaussian=(),
        chance=np.zeros(shares.size),
        selections=selections.matrix,
        uneven=selections.uneven,
        rows=equal_shares(selections.uneven > 0),
    )
    off, per_log = linear_bound(terms, above=np.full(shares.size, STEP))
    likely = TailBound(
        unit="ranks",
        assumption="records are at most 4 times as dense, within a cell, as the prior",
        fixed=tuple((off + STEP).tolist()),
        per_log=tuple(per_log.tolist()),
    )
    anywhere = counted_bound(released.noisy, variance, np.asarray(released.cells), levels, gaussian=False)
    stated = anywhere.changed(lambda found, per_log: (tuple(each + STEP for each in found), per_log))
    return stated.with_likely(likely, calibrated=CALIBRATED)
