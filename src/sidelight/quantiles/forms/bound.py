"""How far off the levels of a release can be, from what it released: error bounds of the forms select and codes.

The gap of a level is the noise of its rank, a known sum (`count_noise`); what the records between the two released ends
of its cell do, for which there is an assumption; and, where it was selected, what the selection was off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sidelight.quantiles.forms.cell_tree import cell_tree
from sidelight.quantiles.forms.codes import CodesPlan, CountedRounds
from sidelight.quantiles.forms.count_noise import Terms, linear_bound, noise_coefficients
from sidelight.quantiles.forms.counted_bound import ROUNDING, counted_bound
from sidelight.quantiles.forms.least_squares import UNCOUNTED, Round, agreed_counts
from sidelight.quantiles.forms.local import rate_of
from sidelight.quantiles.forms.select import SelectedCells, SelectPlan
from sidelight.quantiles.tree import QuantileTree
from sidelight.release import NO_ASSUMPTION, TailBound

Floats = NDArray[np.float64]

#: Where a value is selected, records and prior may differ in shape by this factor within a cell.
_UNEVEN = 4.0
#: The failure probability for which shares are chosen; they hold for every other one.
DESIGNED = 0.05
#: What a released value's own step, and a rank's fraction, may add.
STEP = 1.0


@dataclass(frozen=True, eq=False)
class Targets:
    """For each level: the cell that holds it, its place in there from 0 to 1, and how many records that has."""

    cell: NDArray[np.intp]
    share: Floats
    size: Floats

    @classmethod
    def of(cls, targets: Floats, ends: Floats) -> Targets:
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
class Selections:
    """What selections were off by: for each level a sum over the picks of its tree, each near a Laplace variable."""

    columns: list[Floats]
    uneven: Floats

    @classmethod
    def none(cls, levels: int) -> Selections:
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


def select_bound(plan: SelectPlan, released: SelectedCells, levels: Sequence[Fraction]) -> TailBound:
    """Bound the gaps of what `select` released wherever records lie; and the likely error, without smoothness."""
    shares = np.array([float(level) for level in levels])
    placed = Targets.of(shares * float(released.ranks[-1]), released.ranks)
    selections = Selections.none(shares.size)
    owners = np.asarray(released.cells)
    for cell in np.unique(owners):
        mine = np.flatnonzero(owners == cell)
        selections.add(mine, cell_tree(placed.share[mine].tolist(), plan.targets))
    variance = 2 / rate_of(plan.counts) ** 2
    rounds = [Round.of(released.noisy, variance)]
    noise = noise_of(rounds, placed.weights(shares, released.ranks.size - 1))
    words = "records are at most 4 times as dense, within a cell, as the prior"
    chance, fixed = np.zeros(shares.size), np.full(shares.size, STEP)
    gaussian = not plan.counts.is_pure
    anywhere = counted_bound(released.noisy, variance, owners, levels, gaussian=gaussian)
    stated = anywhere.changed(lambda found, per_log: (tuple(each + STEP for each in found), per_log))
    return stated.with_likely(tail_bound(noise, chance, selections, fixed, gaussian=gaussian, assumption=words))


def codes_bound(
    plan: CodesPlan, released: CountedRounds, levels: Sequence[Fraction | float], *, both_sides: bool = False
) -> TailBound:
    """Bound the gaps of what `codes` released: nothing is assumed about the data.

    The released code of a level is off by as much as the noise of the rank at one of its ends exceeds the released
    distance of that rank from the level's. A level that lies far inside its code can hardly be off: the failure
    probability is shared out by how near the levels lie to the ends (three quarters of it), and evenly (the rest).

    Args:
        plan: The plan.
        released: What was counted.
        levels: In increasing order.
        both_sides: Whether ranks at ends of codes must be near in both directions, as in a band around them. The code
            of a level is off only where its lower end lies too high, or its upper end too low: one side each.
    """
    shares = np.array([float(level) for level in levels])
    ends = released.ranks
    cell = np.clip(np.searchsorted(ends[:-1], shares * float(ends[-1]), "right") - 1, 0, ends.size - 2)
    # Distance and noise are linear in the level as long as the code is the same: its outermost levels speak for all.
    outermost = np.flatnonzero(np.diff(cell, prepend=-1).astype(bool) | np.diff(cell, append=-1).astype(bool))
    asked, code = shares[outermost], cell[outermost]
    # the ranks below the code, and up to its end
    cuts, both_asked = np.concatenate([code, code + 1]), np.concatenate([asked, asked])
    noise, times = _noise_of_codes(plan, released, cuts, both_asked)
    margin = np.abs(ends[cuts] - both_asked * float(ends[-1]))
    none = Selections.none(margin.size)
    terms = Terms(
        laplace=noise if plan.budget.is_pure else (),
        gaussian=() if plan.budget.is_pure else noise,
        times=times,
        chance=np.zeros(margin.size),
        selections=none.matrix,
        uneven=none.uneven,
        rows=np.full(margin.size, float(margin.size)),
        apart=0.0 if both_sides else np.inf,
        sharp=True,
    )
    found, per_log = linear_bound(terms, above=-margin)
    fixed, slope = ((found - margin).reshape(2, -1).max(axis=0), per_log.reshape(2, -1).max(axis=0))
    return TailBound(
        unit="ranks",
        assumption=NO_ASSUMPTION,
        fixed=tuple(np.interp(shares, asked, fixed).tolist()),
        per_log=tuple(np.interp(shares, asked, slope).tolist()),
    )


def _noise_of_codes(
    plan: CodesPlan, released: CountedRounds, cuts: NDArray[np.intp], levels: Floats
) -> tuple[list[Floats], list[Floats]]:
    """Return what `noise_of` does for the sums of codes below `cuts` minus a share of all: each different entry once.

    Codes have one variance, and so have groups: a row of the whole matrix holds at most seven different numbers, which
    depend on whether a code, and its group, lies below the cut. There may be 2**16 codes.

    Returns:
        The numbers, a matrix a round, and how often each of them occurs.
    """
    codes, width = plan.codes, plan.width
    more = 0.0 if plan.budget.is_pure else ROUNDING
    deviations = [math.sqrt(each + more) for each in released.variances]
    inside, outside = 1 - levels, -levels  # the weights of a code below the cut, and of one above
    if not width:
        return [np.stack([inside, outside], axis=1) * deviations[0]], [np.stack([cuts, codes - cuts], axis=1) * 1.0]
    groups = -(-codes // width)
    last = codes - (groups - 1) * width  # the width of the last group
    full, rest = np.divmod(cuts, width)  # groups below the cut, and codes below it of the group that it parts
    parted = np.where(full < groups - 1, width, last) * (full < groups)
    after = np.maximum(groups - 2 - full, 0)  # whole groups above the cut, but for the last one
    final = (full < groups - 1) * 1.0
    mean = np.where(parted > 0, rest / np.maximum(parted, 1), 0.0) - levels

    def share(size: NDArray[np.integer] | int) -> Floats:  # of a group's own count in its estimate
        own = np.asarray(size, np.float64) * released.variances[1]
        return np.asarray(own / (own + released.variances[0]))

    usual, smaller, own = share(width), share(last), share(np.maximum(parted, 1))
    of_groups = np.stack([usual * inside, own * mean, usual * outside, smaller * outside], axis=1)
    of_codes = np.stack(
        [
            (1 - usual) * inside,
            inside - own * mean,
            outside - own * mean,
            (1 - usual) * outside,
            (1 - smaller) * outside,
        ],
        axis=1,
    )
    times = [
        np.stack([full, parted > 0, after, final], axis=1) * 1.0,
        np.stack([full * width, rest, parted - rest, after * width, final * last], axis=1) * 1.0,
    ]
    return [of_groups * deviations[0], of_codes * deviations[1]], times


def rounds_of(released: CountedRounds) -> list[Round]:
    """Return what was counted as rounds."""
    rounds = [Round.of(released.noisy[0], released.variances[0])]
    if len(released.noisy) == 2:
        rounds.append(Round.of(released.noisy[1], released.variances[1], released.parents))
    return rounds


def least_total(rounds: Sequence[Round], total: float) -> float:
    """Return how many records there are at least: what was released less two deviations of its noise, at least 1."""
    noise = noise_of(rounds, np.ones((1, rounds[-1].counts.size)))
    return max(total - 2 * math.sqrt(sum(float((each**2).sum()) for each in noise)), 1.0)


def moved_ranks(released: CountedRounds) -> Floats:
    """Return by how much the rank after each code was moved when ranks were made to rise: their noise is without it."""
    summed = np.cumsum(agreed_counts(rounds_of(released))[-1])
    return np.asarray(np.abs(summed - released.ranks[1:]))


def noise_of(rounds: Sequence[Round], weights: Floats, *, rounded: bool = False) -> list[Floats]:
    """Return the noise of ranks, one row a level: coefficients times deviations, a matrix a round.

    Args:
        rounds: What was counted, with the variances of the noise.
        weights: One row a level.
        rounded: Whether that noise was rounded afterwards, as Gaussian noise is; Laplace noise is drawn in integers.
    """
    matrices = noise_coefficients(rounds, weights)
    more = ROUNDING if rounded else 0.0
    deviations = [np.sqrt(np.where(each.variances < UNCOUNTED, each.variances + more, 0.0)) for each in rounds]
    return [matrix * each for matrix, each in zip(matrices, deviations, strict=True)]


def tail_bound(
    noise: Sequence[Floats], chance: Floats, selections: Selections, fixed: Floats, *, gaussian: bool, assumption: str
) -> TailBound:
    """Bound every level at once: noise, chance and selections, above what is fixed."""
    terms = Terms(
        laplace=() if gaussian else noise,
        gaussian=noise if gaussian else (),
        chance=chance,
        selections=selections.matrix,
        uneven=selections.uneven,
        rows=equal_shares(selections.uneven > 0),
    )
    found, per_log = linear_bound(terms, above=fixed)
    return TailBound(
        unit="ranks",
        assumption=assumption,
        fixed=tuple((fixed + found).tolist()),
        per_log=tuple(per_log.tolist()),
    )


def equal_shares(selected: NDArray[np.bool_]) -> Floats:
    """Return among how many rows each shares the failure probability: selected levels have half of it, if both occur.

    Every row has a share: between two levels of a cell the noise is linear, but the chance inside it is not.
    """
    rows = np.where(selected, selected.sum(), (~selected).sum()).astype(np.float64)
    return np.asarray(rows * (2.0 if selected.any() and not selected.all() else 1.0))
