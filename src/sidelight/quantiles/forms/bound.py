"""How far off the levels of a release can be, from what it released: error bounds of the forms select, cells and codes.

The gap of a level is the noise of its rank, a known sum (`count_noise`); what the records between the two released ends
of its cell do, for which there is an assumption; and, where it was selected, what the selection was off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from sidelight.mechanisms.budget import Budget
from sidelight.quantiles.descend import Cell
from sidelight.quantiles.forms.cell_tree import cell_tree
from sidelight.quantiles.forms.cells import CellsRelease
from sidelight.quantiles.forms.codes import CodesPlan, CountedRounds
from sidelight.quantiles.forms.count_noise import Terms, below_proxy, linear_bound, noise_coefficients
from sidelight.quantiles.forms.finish import side_of
from sidelight.quantiles.forms.flags import leaves_of
from sidelight.quantiles.forms.least_squares import UNCOUNTED, Round
from sidelight.quantiles.forms.local import LocalTask, rate_of, spread_levels
from sidelight.quantiles.forms.select import SelectedCells, SelectPlan
from sidelight.quantiles.tree import QuantileTree
from sidelight.release import TailBound

Floats = NDArray[np.float64]
Inside = Literal["as interpolated", "anywhere"]

#: Where a value is selected, records and prior may differ in shape by this factor within a cell.
_UNEVEN = 4.0
#: Where the curve bends sharply, records may lie this share of their cell away from it.
_BENT = 0.3
#: The same where the curve was continued beyond the skeleton, whatever it looks like.
_BENT_OUTSIDE = 0.5
#: In a tail there are points at small steps all the way out.
_BENT_TAIL = 0.05
#: What is the outer part of a tail.
_OUTER = 0.2
#: Ranks from the outer end, times the epsilon of a tail, that a selection there cannot tell from none.
_AT_RISK = 30.0
#: The failure probability for which shares are chosen; they hold for every other one.
_DESIGNED = 0.05
#: What a released value's own step, and a rank's fraction, may add.
_STEP = 1.0


@dataclass(frozen=True, eq=False)
class _Targets:
    """For each level: the cell that holds it, its place in there from 0 to 1, and how many records that has."""

    cell: NDArray[np.intp]
    share: Floats
    size: Floats

    @classmethod
    def of(cls, targets: Floats, ends: Floats) -> _Targets:
        """Place targets between ranks from 0 to N."""
        cell = np.clip(np.searchsorted(ends, targets, "right") - 1, 0, ends.size - 2)
        size = ends[cell + 1] - ends[cell]
        share = np.clip((targets - ends[cell]) / np.maximum(size, 1.0), 0.0, 1.0)
        return cls(cell, share, size)

    def weights(self, levels: Floats, cells: int) -> Floats:
        """Return the sums of counts that are each level's rank minus its share of all records."""
        before = (np.arange(cells) < self.cell[:, None]).astype(np.float64)
        before[np.arange(levels.size), self.cell] = self.share
        return before - levels[:, None]


@dataclass(eq=False)
class _Selections:
    """What selections were off by: for each level a sum over the picks of its tree, each near a Laplace variable."""

    columns: list[Floats]
    uneven: Floats

    @classmethod
    def none(cls, levels: int) -> _Selections:
        """Return that nothing was selected."""
        return cls([], np.zeros(levels))

    def add(self, mine: NDArray[np.intp], tree: QuantileTree) -> None:
        """Add a tree that selected some of the levels: a pick inherits its neighbours' errors in proportion."""
        inherited = np.zeros((len(mine), len(mine)))
        for node in tree.nodes():  # parents first
            for pick in node.picks:
                share = float(pick.relative_level)
                row = inherited[pick.position]
                if node.lower is not None:
                    row += (1 - share) * inherited[node.lower]
                if node.upper is not None:
                    row += share * inherited[node.upper]
                row[pick.position] = 1.0
                self.uneven[mine[pick.position]] = math.log(_UNEVEN)
        scales = np.array([float(2 * pick.sensitivity() / pick.epsilon) for pick in tree.picks])
        columns = np.zeros((self.uneven.size, len(mine)))
        columns[mine] = inherited * scales * math.sqrt(2)
        self.columns.append(columns)

    @property
    def matrix(self) -> Floats:
        """All columns."""
        return np.hstack([np.zeros((self.uneven.size, 0)), *self.columns])


def cells_bound(release: CellsRelease, *, inside: Inside = "as interpolated") -> TailBound:
    """Bound the gaps of what `cells` released.

    Args:
        release: What was released.
        inside: What is assumed of the records inside a cell that was interpolated: that they lie as the curve says, up
            to chance; or nothing at all, and then a level may be off by as much as its cell holds.
    """
    levels = np.array([float(level) for level in release.levels])
    targets = levels * release.total
    placed = _Targets.of(targets, release.ranks)
    leaves = np.where(release.sides == 0, np.sqrt(release.rounds[-1].variances), 0.0)
    records = np.maximum(placed.size, 0.0) + 2 * leaves[placed.cell]
    chance = below_proxy(records, placed.share)
    bent = release.unevenness[placed.cell]
    nearer = np.minimum(placed.share, 1 - placed.share)  # at the ends of a leaf the curve is right
    # Beyond the skeleton the curve was continued, perhaps past an edge: records may lie at one end of their cell.
    bend = np.where(release.outside[placed.cell], _BENT_OUTSIDE, _BENT * bent)
    fixed = _STEP + bend * records * np.minimum(4 * nearer, 1.0)
    if inside == "anywhere":
        chance = np.zeros(levels.size)
        fixed = _STEP + np.maximum(placed.share, 1 - placed.share) * records
    selections, least = _Selections.none(levels.size), np.zeros(levels.size)
    for mine, task in _tasks(release, targets):
        chance[mine], fixed[mine] = 0.0, _STEP
        if task.by_selection:
            selections.add(mine, cell_tree(task.levels, task.budget))
        else:
            counts, largest = _local_cells(task)
            chance[mine] = counts + below_proxy(largest, np.full(len(mine), 0.5))
            fixed[mine] += (_BENT if task.place == "inside" else _BENT_TAIL) * largest
            least[mine] = _outer_ranks_at_risk(task)
    noise = _noise(release.rounds, placed.weights(levels, release.ranks.size - 1))
    words = "where they are selected they are at most 4 times as dense, within a cell, as the prior"
    if inside == "as interpolated":
        words = f"records inside a cell lie as interpolated, up to chance; {words}"
    in_rho = release.plan.currency == "rho"
    return _tail(noise, chance, selections, fixed, least=least, cells=placed.cell, gaussian=in_rho, assumption=words)


def select_bound(plan: SelectPlan, released: SelectedCells, levels: Sequence[Fraction]) -> TailBound:
    """Bound the gaps of what `select` released: no smoothness is assumed."""
    shares = np.array([float(level) for level in levels])
    placed = _Targets.of(shares * float(released.ranks[-1]), released.ranks)
    selections = _Selections.none(shares.size)
    owners = np.asarray(released.cells)
    for cell in np.unique(owners):
        mine = np.flatnonzero(owners == cell)
        selections.add(mine, cell_tree(placed.share[mine].tolist(), plan.targets))
    rounds = [Round.of(released.noisy, 2 / rate_of(plan.counts) ** 2)]
    noise = _noise(rounds, placed.weights(shares, released.ranks.size - 1))
    words = "records are at most 4 times as dense, within a cell, as the prior"
    chance, fixed = np.zeros(shares.size), np.full(shares.size, _STEP)
    return _tail(
        noise, chance, selections, fixed, cells=placed.cell, gaussian=not plan.counts.is_pure, assumption=words
    )


def codes_bound(plan: CodesPlan, released: CountedRounds, levels: Sequence[Fraction | float]) -> TailBound:
    """Bound the gaps of what `codes` released: nothing is assumed about the data.

    The released code of a level is off by as much as the noise of the rank at one of its ends exceeds the released
    distance of that rank from the level's. A level that lies far inside its code can hardly be off: the failure
    probability is shared out by how near the levels lie to the ends (one half of it), and evenly (the other half).
    """
    shares = np.array([float(level) for level in levels])
    ends = released.ranks
    cell = np.clip(np.searchsorted(ends[:-1], shares * float(ends[-1]), "right") - 1, 0, ends.size - 2)
    # Distance and noise are linear in the level as long as the code is the same: its outermost levels speak for all.
    outermost = np.flatnonzero(np.diff(cell, prepend=-1).astype(bool) | np.diff(cell, append=-1).astype(bool))
    asked, code = shares[outermost], cell[outermost]
    rounds = [Round.of(released.noisy[0], released.variances[0])]
    if len(released.noisy) == 2:
        rounds.append(Round.of(released.noisy[1], released.variances[1], released.parents))
    noise, margins = [], []
    for side in (0, 1):  # the ranks below the code and up to its end
        placed = _Targets(code, np.full(asked.size, float(side)), np.zeros(asked.size))
        noise.append(_noise(rounds, placed.weights(asked, ends.size - 1)))
        margins.append(np.abs(ends[code + side] - asked * float(ends[-1])))
    both = [np.concatenate(pair) for pair in zip(*noise, strict=True)]
    margin = np.concatenate(margins)
    deviation = np.sqrt(sum((each**2).sum(axis=1) for each in both))
    none = _Selections.none(margin.size)
    terms = Terms(
        laplace=both if plan.budget.is_pure else (),
        gaussian=() if plan.budget.is_pure else both,
        chance=np.zeros(margin.size),
        selections=none.matrix,
        uneven=none.uneven,
        rows=1 / _shares_by_margin(margin, deviation),
    )
    found, per_log = linear_bound(terms)
    fixed, slope = ((found - margin).reshape(2, -1).max(axis=0), per_log.reshape(2, -1).max(axis=0))
    return TailBound(
        unit="ranks",
        assumption="the noise is what it is: nothing is assumed about the data",
        fixed=tuple(np.interp(shares, asked, fixed).tolist()),
        per_log=tuple(np.interp(shares, asked, slope).tolist()),
    )


def _shares_by_margin(margins: Floats, deviations: Floats) -> Floats:
    """Return shares of the failure probability that add up to one: half by how likely each is to fail, half evenly.

    Likely at a bound that the most likely ones together exceed once in twenty times; normal tails decide the shares
    alone, and no bound.
    """
    deviations = np.maximum(deviations, 1e-9)  # the rank of everything has no noise beside that of its share
    low, high = -float(margins.min()), 8.0 * float(deviations.max())
    for _ in range(50):
        middle = (low + high) / 2
        tails = erfc((margins + middle) / (np.sqrt(2) * deviations)) / 2
        low, high = (middle, high) if tails.sum() > _DESIGNED else (low, middle)
    tails = erfc((margins + high) / (np.sqrt(2) * deviations)) / 2
    total = float(tails.sum())
    return np.asarray((tails / total if total > 0 else 1 / margins.size) / 2 + 0.5 / margins.size)


def _local_cells(task: LocalTask) -> tuple[Floats, Floats]:
    """Return for each target of a cell that is finished by points and counts their noise, and what its part holds.

    A rank at the share s of the cell's own total, with j of its p parts below it, has (1-s)² j + s² (p-j) times the
    variance of a count; in the outer fifth of a tail, whose points may be noise and left out, p/2 are taken, and p/4 at
    least everywhere. Points are selected, and may be off: a part is taken to be as large as the largest beside it.
    """
    shares, cuts = np.clip(np.asarray(task.levels), 0.0, 1.0), np.clip(spread_levels(task), 0.0, 1.0)
    sizes = np.diff(np.concatenate([[0.0], cuts, [1.0]]))
    below = np.searchsorted(cuts, shares)
    noise = ((1 - shares) ** 2 * (below + 1) + shares**2 * (sizes.size - below)) * 2 / task.counts_rate**2
    if task.place != "inside":
        outer = shares < _OUTER if task.place == "below" else shares > 1 - _OUTER
        noise = np.maximum(noise, np.where(outer, 0.5, 0.25) * sizes.size * 2 / task.counts_rate**2)
    around = np.pad(sizes, 1)
    largest = np.maximum(np.maximum(around[below], around[below + 1]), around[below + 2])
    return noise, largest * max(task.size, 0.0)


def _outer_ranks_at_risk(task: LocalTask) -> Floats:
    """Return for each target of a tail its rank from the outer end, as long as that is small.

    At a hard edge the points for such ranks are selected beside the data, and what goes on from the others may miss the
    edge: then a value lies beyond all records, and is off by its rank.
    """
    if task.place == "inside":
        return np.zeros(len(task.levels))
    inwards = np.asarray(task.levels) if task.place == "below" else 1 - np.asarray(task.levels)
    ranks = np.maximum(inwards, 0.0) * task.size
    return np.where(ranks <= _AT_RISK / task.rate, ranks, 0.0)


def _tasks(release: CellsRelease, targets: Floats) -> list[tuple[NDArray[np.intp], LocalTask]]:
    """Return the cells that were finished by themselves, each with its targets: from public numbers, as they were."""
    plan, kind = release.plan, release.plan.currency
    owners = leaves_of(targets, release.ranks[1:-1]) + 1
    found = []
    for place in np.unique(owners).tolist():
        side = side_of(int(release.sides[place]))
        if side == "inside" and not release.flags[place]:
            continue
        mine = np.flatnonzero(owners == place)
        low, high = float(release.ranks[place]), float(release.ranks[place + 1])
        relative = tuple(((targets[mine] - low) / max(high - low, 1.0)).tolist())
        budget = Budget(kind, plan.left if side == "inside" else plan.fine)
        task = LocalTask(cell=Cell(0, 0, 0), place=side, levels=relative, size=high - low, budget=budget)
        found.append((mine, task))
    return found


def _noise(rounds: Sequence[Round], weights: Floats) -> list[Floats]:
    """Return the noise of ranks, one row a level: coefficients times deviations, a matrix a round."""
    matrices = noise_coefficients(rounds, weights)
    deviations = [np.sqrt(np.where(each.variances < UNCOUNTED, each.variances, 0.0)) for each in rounds]
    return [matrix * each for matrix, each in zip(matrices, deviations, strict=True)]


def _tail(
    noise: Sequence[Floats],
    chance: Floats,
    selections: _Selections,
    fixed: Floats,
    *,
    cells: NDArray[np.intp],
    gaussian: bool,
    assumption: str,
    least: Floats | float = 0.0,
) -> TailBound:
    terms = Terms(
        laplace=() if gaussian else noise,
        gaussian=noise if gaussian else (),
        chance=chance,
        selections=selections.matrix,
        uneven=selections.uneven,
        rows=_shares(cells, selections.uneven > 0),
    )
    found, per_log = linear_bound(terms)
    total = np.maximum(fixed + found, least + per_log * math.log(_DESIGNED))
    return TailBound(unit="ranks", assumption=assumption, fixed=tuple(total.tolist()), per_log=tuple(per_log.tolist()))


def _shares(cells: NDArray[np.intp], selected: NDArray[np.bool_]) -> Floats:
    """Return among how many rows each shares the failure probability: selected levels have half of it, if both occur.

    The noise of the levels of one cell is linear in the level, so that the two outermost speak for all of them.
    """
    rows = np.zeros(cells.size)
    for kind in (selected, ~selected):
        if kind.any():
            _, counts = np.unique(cells[kind], return_counts=True)
            rows[kind] = np.minimum(counts, 2).sum() if kind is not selected else kind.sum()
    return rows * (2.0 if selected.any() and not selected.all() else 1.0)
