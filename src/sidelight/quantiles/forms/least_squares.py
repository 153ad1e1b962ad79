"""Counts of nested cells brought into agreement: the best linear estimate, by one pass up and one down.

Post-processing of released integers in floats, summed in a fixed order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.quantiles.forms.cells_plan import CellsPlan

Floats = NDArray[np.float64]
#: The variance of a cell that was not counted: its count says nothing, and it takes what its parent has left.
UNCOUNTED = 1e60


@dataclass(frozen=True, eq=False)
class Round:
    """Noisy counts of one round: each cell lies in one cell of the round before, its parent."""

    counts: Floats
    variances: Floats  # of the noise of each
    parents: NDArray[np.intp]  # for each cell its place in the round before; cells of the first round have none

    @classmethod
    def of(cls, counts: ArrayLike, variances: ArrayLike, parents: ArrayLike = ()) -> Round:
        """Make a round of anything that NumPy reads; one variance may stand for all."""
        values = np.asarray(counts, np.float64)
        return cls(
            values, np.broadcast_to(np.asarray(variances, np.float64), values.shape), np.asarray(parents, np.intp)
        )

    def among(self, counted: NDArray[np.bool_], parents: ArrayLike) -> Round:
        """Return the round with cells between its own that were not counted, all in the order of place.

        >>> Round.of([5, 7], 1.0, [0, 0]).among(np.array([True, False, True]), [0, 1, 2]).counts.tolist()
        [5.0, 0.0, 7.0]
        """
        counts, variances = np.zeros(counted.size), np.full(counted.size, UNCOUNTED)
        counts[counted], variances[counted] = self.counts, self.variances
        return Round.of(counts, variances, parents)


def agreed_counts(rounds: Sequence[Round]) -> list[Floats]:
    """Return the counts of each round as the least squares of all of them: children then add up to their parent.

    A cell without children (a tail) has no more than its own count and what its parents say.

    >>> rounds = [Round.of([10, 20], 1.0), Round.of([4, 4, 20], 1.0, [0, 0, 1])]
    >>> [estimates.round(2).tolist() for estimates in agreed_counts(rounds)]
    [[9.33, 20.0], [4.67, 4.67, 20.0]]
    """
    own = [(each.counts, each.variances) for each in rounds]
    sums: list[tuple[Floats, Floats]] = []
    for above, each in reversed(list(zip(range(len(rounds) - 1), rounds[1:], strict=True))):
        counts, variances = own[above + 1]
        cells = rounds[above].counts.size
        total = np.asarray(np.bincount(each.parents, weights=counts, minlength=cells), np.float64)
        spread = np.asarray(np.bincount(each.parents, weights=variances, minlength=cells), np.float64)
        sums.insert(0, (total, spread))
        measured, noise = own[above]
        parted = spread > 0
        weight = np.where(parted, spread / (spread + noise), 1.0)  # of the cell's own count
        own[above] = (np.where(parted, weight * measured + (1 - weight) * total, measured), weight * noise)
    estimates = [own[0][0]]
    for above, each in enumerate(rounds[1:]):
        counts, variances = own[above + 1]
        total, spread = sums[above]
        rest = np.divide(estimates[above] - total, spread, out=np.zeros(total.size), where=spread > 0)
        estimates.append(counts + variances * rest[each.parents])
    return estimates


def ranks_of(counts: ArrayLike) -> Floats:
    """Return the ranks at the ends of consecutive cells, from 0 to N: cumulative counts that never fall.

    N is the sum, at least 1; between, the mean of the running maximum and the running minimum from the right, within
    0..N.

    >>> ranks_of([3.0, -1.0, 8.0]).tolist()
    [0.0, 2.5, 2.5, 10.0]
    """
    sums = np.add.accumulate(np.asarray(counts, np.float64))
    total = max(float(sums[-1]), 1.0)
    rising = np.maximum.accumulate(sums)
    falling = np.minimum.accumulate(sums[::-1])[::-1]
    middle = np.clip((rising + falling) / 2, 0.0, total)
    return np.concatenate([[0.0], middle[:-1], [total]])


#: How many leaves' worth of evidence about the fit all other parents together are, compared with a parent's own leaves.
_SHARED_EVIDENCE = 6.0
#: What a cut counts there at most: one parent that does not fit says little of the others.
_MOST_SHARED = 8.0
#: What it counts at most in its own parent.
_MOST_MISFIT = 1e12


def smoothed_counts(rounds: Sequence[Round], expected: Floats, rough: NDArray[np.bool_]) -> Floats:
    """Return the agreed counts of the last round's cells, those of smooth data drawn towards `expected` ones.

    Accuracy: for data that the curve fits, the noise of a rank inside a parent falls by chance / (chance + noise); the
    sums of parents stay what least squares made them. Cells with a `rough` count contradict the curve and keep it.

    >>> rounds = [Round.of([400, 40], 1.0), Round.of([190, 210, 40], 100.0, [0, 0, 1])]
    >>> smoothed_counts(rounds, np.array([200.0, 200.0, 40.0]), np.zeros(3, bool)).round().tolist()
    [193.0, 207.0, 40.0]
    """
    last, found = rounds[-1], agreed_counts(rounds)[-1]
    own = _Parents(last.parents)
    has_count = (last.variances < UNCOUNTED) & np.isfinite(expected)
    shape = np.where(has_count, np.maximum(expected, 0.0), 0.0)
    smooth = (own.sum(has_count) == own.sum(np.ones(has_count.size))) & (own.sum(shape) > 0) & (own.sum(found) > 0)
    noise = np.where(smooth, last.variances, 1.0)
    # What is expected adds up to the parent's agreed count; around it counts vary by about as much, if the curve fits.
    mean = np.where(smooth, shape * own.sum(found) / np.where(smooth, own.sum(shape), 1.0), 0.0)
    chance = np.maximum(mean, 1.0)
    apart = last.counts - mean
    # The rank at each cut between leaves minus what is expected there: noise and chance are those of a bridge.
    beside = own.running(apart - noise * own.sum(apart) / own.sum(noise))
    cuts = smooth & ~own.ends
    with np.errstate(all="ignore"):  # counts of no size that data has
        misfit = (beside**2 - own.bridge(noise)) / own.bridge(chance)
    misfit = np.where(cuts, np.clip(np.nan_to_num(misfit), -_MOST_MISFIT, _MOST_MISFIT), 0.0)
    shared = float(np.minimum(misfit, _MOST_SHARED).sum()) / max(int(cuts.sum()), 1)
    fit = (own.sum(misfit) + _SHARED_EVIDENCE * shared) / (own.sum(cuts) + _SHARED_EVIDENCE)
    # The minimum of (count - counted)² / noise + (count - expected)² / chance over counts that add up.
    chance = np.maximum(fit, 1.0) * chance
    weight = np.where(rough, 1.0, chance / (chance + noise))
    drawn, spread = weight * apart, weight * noise
    return np.where(smooth, mean + drawn - spread * own.sum(drawn) / own.sum(spread), found)


class _Parents:
    """The leaves of each parent, in the order of place: sums over all of them, and up to each."""

    def __init__(self, parents: NDArray[np.intp]) -> None:
        _, self._starts, self._own = np.unique(parents, return_index=True, return_inverse=True)
        self.ends = np.append(np.diff(self._own) > 0, True)  # the last leaf of each

    def sum(self, values: NDArray[np.float64] | NDArray[np.bool_]) -> Floats:
        """Return for each leaf the sum over its parent's."""
        return np.asarray(np.add.reduceat(values.astype(np.float64), self._starts)[self._own])

    def running(self, values: Floats) -> Floats:
        """Return for each leaf the sum up to it, of its parent's."""
        sums = np.cumsum(values)
        return np.asarray(sums - (sums[self._starts] - values[self._starts])[self._own])

    def bridge(self, variances: Floats) -> Floats:
        """Return the variances of sums up to each leaf of terms that add up to what is known."""
        running = self.running(variances)
        return running * (1 - running / self.sum(variances))


#: Depths that count as deep: in noise of the selection that would follow, and in errors of the coarse ranks.
_SELECTION_NOISE = 20.0
_PLACEMENT_ERRORS = 2.5
#: Where levels are many, cells lie between chosen levels: deep is then a share of a usual cell, in a cell that is full.
_DEEP_SHARE = 0.8
_FULL_CELL = 1.7


@dataclass(frozen=True, kw_only=True)
class Structure:
    """The public shape of what was counted: how many cells each round had."""

    coarse_cells: int  # the tails included
    middle_cells: int  # 0 with two rounds
    leaves: int


def leaves_of(targets: ArrayLike, ranks: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return for each target the leaf that holds it, by the ranks at the ends of all leaves; -1 and beyond: the tails.

    >>> leaves_of([1, 5, 12, 99], np.array([5.0, 10.0, 20.0])).tolist()
    [-1, 0, 1, 2]
    """
    return np.searchsorted(ranks, np.asarray(targets, np.float64), "right") - 1


def flagged_leaves(
    targets: ArrayLike,
    ranks: NDArray[np.float64],
    rough: ArrayLike,
    *,
    plan: CellsPlan,
    structure: Structure,
    total: float,
) -> NDArray[np.bool_]:
    """Return for each leaf whether it is to be finished by selection: a target lies deep inside it.

    `ranks` are those at the ends of all leaves, from least squares with the rough counts: one more than leaves.
    """
    asked = np.asarray(targets, np.float64)
    count = ranks.size - 1
    flags = np.zeros(count, np.bool_)
    if count < 1:
        return flags
    leaf = leaves_of(asked, ranks)
    inside = (leaf >= 0) & (leaf < count)
    leaf, asked, many = leaf[inside], asked[inside], asked.size > plan.fine_count
    depth = np.minimum(asked - ranks[leaf], ranks[leaf + 1] - asked)
    noise = _SELECTION_NOISE / plan.rate(plan.left)
    if many:
        usual = float(ranks[-1] - ranks[0]) / count
        full = np.asarray(rough, np.float64)[leaf] > _FULL_CELL * usual + 2 / plan.rate(plan.rough)
        deep = (depth > max(noise, _DEEP_SHARE * usual)) & full
    else:
        deep = depth > max(noise, _PLACEMENT_ERRORS * placement_error(plan, structure, total))
    flags[leaf[deep]] = True
    return flags


def placement_error(plan: CellsPlan, structure: Structure, total: float) -> float:
    """Return how many ranks the ends of leaves are off, by the counts from which they were interpolated.

    Half way between the ends of a chain of k cells the sum of their noise has a quarter of the variance of all; the
    records of a cell of c records lie off a straight line by about sqrt(c / 6).
    """
    cells = structure.coarse_cells
    variance = plan.variance(plan.coarse)
    inner = 0.0
    if structure.middle_cells:
        several = structure.middle_cells / cells
        finer = plan.variance(plan.middle)
        variance = 1 / (1 / variance + 1 / (several * finer))
        inner = several * finer / 4
    records = total / (6 * max(cells, structure.middle_cells))
    return math.sqrt(cells * variance / 4 + inner + records)


def texts(numbers: Iterable[float]) -> list[str]:
    """Return released numbers as strings: whole ones without a point."""
    return [str(int(each)) if each == int(each) else repr(each) for each in numbers]
