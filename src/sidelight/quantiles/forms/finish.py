"""Finish the targets of one cell with what its records have not spent: by selection, or by a few points and counts.

The cell is a tail, which is not counted any further, or a leaf that turned out not to be smooth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.ranks import Ranks
from sidelight.grid import Outcomes, exact_position
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.predictions.compiled import CompiledPrior
from sidelight.quantiles.descend import Cell
from sidelight.quantiles.forms.cell_selection import (
    LevelPriors,
    Spot,
    as_float,
    index_at_or_below,
    select_in_cell,
    spot,
)
from sidelight.quantiles.forms.cells_plan import rate_of
from sidelight.quantiles.forms.interpolation import Breakpoints, monotone_cubic
from sidelight.quantiles.forms.least_squares import leaves_of, ranks_of
from sidelight.quantiles.forms.refined_counts import Look, Parts, count_parts

Place = Literal["below", "inside", "above"]
Floats = NDArray[np.float64]
#: The priors for levels relative to a cell.
LocalPriors: TypeAlias = Callable[[Sequence[float]], Sequence[CompiledPrior]]

#: Of the budget, what the points cost that cells are counted between; the counts have the rest.
_POINTS_SHARE = Fraction(1, 3)
#: This many targets are always selected one by one; at least this many points are selected where there are more.
_FEW = 5
LOCAL_POINTS = 7
#: In a tail each further point has at most about this many times the outer rank of the last, with no more than this
#: many.
_STEP_OF_RANKS = 1.4
_MOST_POINTS = 15
#: Inside a leaf there are this many, if as many targets; in a tail of many records this many even steps.
_LEAST_INSIDE, _LEAST_EVEN, _MOST_EVEN = 15, 8, 31
#: The innermost of them, as a share of the tail's records.
_INNERMOST = 0.85
#: A rank, times epsilon, is no mere noise from this on, nor is one of this many deviations of the counts that it adds
#: up.
_FIRST_RANK = 8.0
_NOISE_OF_RANK = 2 * math.sqrt(2)
#: Ranks that are nearer to each other than this share of them have the same logarithm.
_SAME_RANK = 1e-12
#: Records of a tail, times its epsilon, from which on it is long enough to show more than that it thins out.
_LONG = 100.0
#: The largest power of the rank with which a long tail goes on.
_MOST_POWER = 1.5
#: Places are divided by this where nothing else makes them small, so that the distance of any two is finite.
_ROOM = 4


@dataclass(frozen=True, kw_only=True)
class LocalTask:
    """What is public about one cell that is finished by itself."""

    cell: Cell
    place: Place  # a tail below or above everything else, or a leaf
    levels: tuple[float, ...]  # relative to the cell's estimated records; in order, anything finite
    size: float  # how many records it is estimated to have
    budget: Budget  # what its records have left

    @property
    def rate(self) -> float:
        """The epsilon that the budget stands for in thresholds: 2√ρ for one in rho."""
        return rate_of(self.budget)

    @property
    def precise_points(self) -> float:
        """The number of evenly spaced points at which the noise of counts and the chance between them are balanced."""
        return self.rate * math.sqrt(max(self.size, 0.0) / 3)

    @property
    def by_selection(self) -> bool:
        """Whether every target is selected: they are few, or the records are too few or more than enough to do so."""
        depth, cells = len(self.levels).bit_length(), max(_MOST_POINTS, min(self.precise_points, _MOST_EVEN)) + 1
        return len(self.levels) <= _FEW or self.rate * self.size < 40 or self.size / cells > 25 * depth / self.rate

    @property
    def is_long(self) -> bool:
        """Whether a tail holds far more records than one whose first breakpoint was found: at a hard edge."""
        return self.rate * self.size >= _LONG


def finish_cell(
    ranks: Ranks,
    task: LocalTask,
    *,
    grid: Outcomes,
    priors: LocalPriors,
    asinh: AsinhScale,
    source: Source,
) -> tuple[list[int], Parts | None]:
    """Release a fine index of the cell for every target, and the parts that they were read from, if there are any.

    Guarantee: `task.budget` for adding or removing one record of the cell, nothing for others: a tree, or a tree with
    a third and then counts of the parts between its outputs with the other two thirds (`count_parts`).
    """
    if task.by_selection:
        near = priors(task.levels)
        found = select_in_cell(ranks, task.cell, task.levels, budget=task.budget, priors=near, source=source)
        return list(found), None
    chosen = spread_levels(task)
    selecting, counting = task.budget.part(_POINTS_SHARE), task.budget.part(1 - _POINTS_SHARE)
    found = select_in_cell(ranks, task.cell, chosen, budget=selecting, priors=priors(chosen), source=source)

    def index_of(scaled: float) -> int:
        place = asinh.back(scaled)
        index = index_at_or_below(grid, place.numerator, place.denominator)
        return min(max(index, task.cell.first), task.cell.last)

    look = Look(
        cell=task.cell,
        points=sorted(set(found)),
        levels=task.levels,
        planned=lambda ends: _planned(task, chosen, ends),
        forward=lambda indices: asinh.forward([exact_position(grid, index) for index in indices]),
        back=index_of,
    )
    parts = count_parts(ranks, look, budget=counting, source=source)
    ends, places = ranks_of(parts.counts), parts.places  # from 0 to the cell's own total
    wanted = np.clip(np.asarray(task.levels), 0.0, 1.0) * ends[-1]
    if task.place == "inside":
        scaled = np.interp(wanted, ends, places)
    else:
        scaled = _outwards(task, wanted, ends, places, deviations=parts.deviations)
    return [index_of(each) for each in np.clip(scaled, places[0], places[-1]).tolist()], parts


def spread_levels(task: LocalTask) -> list[float]:
    """Return the relative levels at which points are selected: some targets, or geometric ranks from the outer end."""
    if task.place == "inside":
        count = points_inside(task)
        return [task.levels[place] for place in np.linspace(0, len(task.levels) - 1, count).round().astype(int)]
    ranks = outer_ranks(task)
    return list(ranks if task.place == "below" else (1 - ranks)[::-1])


def _planned(task: LocalTask, chosen: Sequence[float], ends: Floats) -> Floats:
    """Return for each part between released ends the most records that a part was to have where it lies by rank."""
    cuts = np.concatenate([[0.0], np.clip(chosen, 0.0, 1.0), [1.0]])
    first = np.clip(np.searchsorted(cuts, ends[:-1] / ends[-1], "right") - 2, 0, cuts.size - 2)
    last = np.clip(np.searchsorted(cuts, ends[1:] / ends[-1], "left") + 1, 1, cuts.size - 1)
    sizes = np.diff(cuts)
    most = [float(sizes[low:high].max(initial=0.0)) for low, high in zip(first, last, strict=True)]
    return np.array(most) * max(task.size, 0.0)


def points_inside(task: LocalTask) -> int:
    """Return how many points are selected in a leaf: more where counts are precise for its sampling error."""
    return min(len(task.levels), round(min(max(task.precise_points, _LEAST_INSIDE), _MOST_EVEN)))


def outer_ranks(task: LocalTask) -> Floats:
    """Return the relative ranks, from the outer end, at which the points of a tail are selected: geometric.

    A tail is long where the outermost breakpoint lay outside the data and was dropped: at a hard edge. There ranks are
    no power of the distance, and the steps between points must be small.
    """
    outer = task.levels[0] if task.place == "below" else 1 - task.levels[-1]
    start = min(max(outer, 10 / (task.rate * task.size)), _INNERMOST / 2)
    steps = math.ceil(math.log(_INNERMOST / start) / math.log(_STEP_OF_RANKS))
    found = np.geomspace(start, _INNERMOST, min(max(LOCAL_POINTS, steps + 1), _MOST_POINTS))
    if not task.is_long:
        return found
    # Geometric steps become as long as the rest: from there on even ones, as many as counts are precise enough for.
    even = round(min(max(task.precise_points, _LEAST_EVEN), _MOST_EVEN))
    return np.unique(np.concatenate([found[found < 1 / even], np.arange(1, even) / even]))


def _outwards(task: LocalTask, wanted: Floats, ends: Floats, places: Floats, *, deviations: Floats) -> Floats:
    """Interpolate in the logarithm of the rank from the outer end, and go on outwards as the last points do.

    At a hard edge points are selected outside the data: a point counts only if its rank exceeds the noise of the
        counts.
    """
    if task.place == "above":  # seen in a mirror
        wanted, ends, places, deviations = ends[-1] - wanted, (ends[-1] - ends)[::-1], places[::-1], deviations[::-1]
    noise = _NOISE_OF_RANK * np.sqrt(np.cumsum(deviations**2)) if task.is_long else np.zeros(deviations.size)
    ranks, scaled = [float(ends[-1])], [float(places[-1])]
    for counts in range(ends.size - 2, 0, -1):
        least = max(_FIRST_RANK / task.rate, float(noise[counts - 1]))
        if least <= ends[counts] < ranks[-1] * (1 - _SAME_RANK):
            ranks.append(float(ends[counts]))
            scaled.append(float(places[counts]))
    logs, at = np.log(ranks[::-1]), np.log(np.maximum(wanted, 0.5))
    heights = np.array(scaled[::-1])
    if len(ranks) == 1:
        return np.full(len(wanted), heights[0])
    beyond = _continued(logs, heights, at, most_power=_MOST_POWER if task.is_long else 0.0)
    return np.asarray(np.where(at < logs[0], beyond, monotone_cubic(logs, heights, at)))


def _continued(logs: Floats, heights: Floats, at: Floats, *, most_power: float) -> Floats:
    """Go on beyond the first point: the slope in the logarithm of the rank goes on as a power of the rank.

    Power 0 is a straight line, as for tails that thin out; towards a hard edge places are linear in the rank, power 1.
    """
    middle, last = logs.size // 2, logs.size - 1
    with np.errstate(all="ignore"):  # infinite is beyond the cell, and cut at its end
        slope, power = (heights[1] - heights[0]) / (logs[1] - logs[0]), 0.0
        if last >= 2:  # over as long a way as there is: ranks are noisy
            slopes = [(heights[b] - heights[a]) / (logs[b] - logs[a]) for a, b in ((0, middle), (middle, last))]
            ratio = slopes[1] / slopes[0]
            if most_power > 0 and 1 < ratio < math.inf:
                power = min(2 * math.log(ratio) / float(logs[last] - logs[0]), most_power)
                slope = slopes[0] * math.exp(-power * float(logs[middle] - logs[0]) / 2)
        out = logs[0] - np.minimum(at, logs[0])
        return np.asarray(heights[0] - slope * (out if power < 1e-6 else -np.expm1(-power * out) / power))


class AsinhScale:
    """The coordinate asinh((x - centre) / spread), in which tails are nearly straight; x itself for spread 0."""

    __slots__ = ("centre", "spread")

    def __init__(self, centre: Fraction, spread: Fraction) -> None:
        self.centre = centre
        self.spread = spread if as_float(spread) > 0 else Fraction(0)

    @classmethod
    def of(cls, breakpoints: Breakpoints) -> AsinhScale:
        """Take centre and spread from points and their ranks: the median, and half the distance of the quartiles."""
        total = float(breakpoints.ranks[-1])
        low, middle, high = (_straight(breakpoints, share * total) for share in (0.25, 0.5, 0.75))
        return cls(middle, (high - low) / 2)

    def forward(self, places: Sequence[Fraction]) -> Floats:
        """Return the scaled coordinates of exact positions."""
        if self.spread == 0:
            return np.array([as_float(place) / _ROOM for place in places])
        limit = Fraction(10**300)
        scaled = [(place - self.centre) / self.spread for place in places]
        return np.arcsinh([float(min(max(each, -limit), limit)) for each in scaled])

    def back(self, scaled: float) -> Fraction:
        """Return the position of a scaled coordinate."""
        if self.spread == 0:
            return _ROOM * Fraction(float(scaled))
        return self.centre + self.spread * Fraction(math.sinh(min(max(float(scaled), -691.0), 691.0)))


def _straight(breakpoints: Breakpoints, rank: float) -> Fraction:
    """Return the place of a rank on the chain of lines through points."""
    ranks, last = breakpoints.ranks, len(breakpoints.points) - 1
    cell = int(np.searchsorted(ranks, rank, "right")) - 1
    if not 0 <= cell < last:
        return exact_position(breakpoints.grid, breakpoints.points[min(max(cell, 0), last)])
    low, high = (exact_position(breakpoints.grid, breakpoints.points[place]) for place in (cell, cell + 1))
    return low + Fraction(float((rank - ranks[cell]) / (ranks[cell + 1] - ranks[cell]))) * (high - low)


Finished = Literal["curve", "tail", "leaf"]


def side_of(side: int) -> Place:
    """Return what a cell of the partition is: a tail below or above something, or a leaf that was counted."""
    found: dict[int, Place] = {-1: "below", 0: "inside", 1: "above"}
    return found[side]


@dataclass(frozen=True, kw_only=True, eq=False)
class Finish:
    """Find every target: on the curve through all points, or in its tail or flagged leaf with what is left there."""

    breakpoints: Breakpoints
    cells: Sequence[Cell]  # the one partition between the breakpoints's points: a tail, the leaves, a tail
    flags: NDArray[np.bool_]
    sides: NDArray[np.int64]
    whole_budget: Budget
    left_budget: Budget
    priors: LevelPriors
    focus: Spot | None
    tails: tuple[Spot | None, Spot | None]

    def release(
        self, ranks: Ranks, levels: Floats, source: Source
    ) -> tuple[tuple[int, ...], tuple[Finished, ...], dict[int, Parts]]:
        """Release an index for each level, how each was found, and the parts of cells finished by points and counts."""
        targets, inner, grid = levels * self.breakpoints.total, self.breakpoints.ranks, self.breakpoints.grid
        indices = [
            self.breakpoints.index_of(place) for place in self.breakpoints.curve.places_of(targets, continued=True)
        ]
        finished: list[Finished] = ["curve"] * len(indices)
        parts: dict[int, Parts] = {}
        asinh = AsinhScale.of(self.breakpoints)
        owners = leaves_of(targets, inner) + 1
        for place in np.unique(owners).tolist():
            mine = np.flatnonzero(owners == place).tolist()
            task = self._task(place, targets[mine].tolist())
            if task is None:
                continue
            near = self._priors(place, task)
            found, own = finish_cell(ranks, task, grid=grid, priors=near, asinh=asinh, source=source)
            if own is not None:
                parts[place] = own
            for i, index in zip(mine, found, strict=True):
                indices[i], finished[i] = index, "leaf" if task.place == "inside" else "tail"
        return tuple(accumulate(indices, max)), tuple(finished), parts

    def _task(self, place: int, targets: Sequence[float]) -> LocalTask | None:
        """Return what is to be finished in a cell; None for a leaf that was refined and has nothing left."""
        side = side_of(int(self.sides[place]))
        if side == "inside" and not self.flags[place]:
            return None
        low, high = float(self.breakpoints.ends[place]), float(self.breakpoints.ends[place + 1])
        return LocalTask(
            cell=self.cells[place],
            place=side,
            levels=tuple((target - low) / max(high - low, 1.0) for target in targets),
            size=high - low,
            budget=self.left_budget if side == "inside" else self.whole_budget,
        )

    def _spot(self, place: int, beside: int) -> Spot | None:
        """Return the Cauchy of a tail, from its inner end on: that of the whole, or by the neighbouring leaf."""
        if place in (0, len(self.cells) - 1):
            return self.tails[0] if place == 0 else self.tails[1]
        own, other = self.cells[place], self.cells[place + beside]
        counts = np.diff(self.breakpoints.ends)[[place, place + beside]]
        width = abs(
            exact_position(self.breakpoints.grid, other.last) - exact_position(self.breakpoints.grid, other.first)
        )
        ratio = Fraction(max(float(counts[0]), 1.0)) / Fraction(max(float(counts[1]), 1.0))
        return spot(exact_position(self.breakpoints.grid, own.last if beside > 0 else own.first), width * ratio)

    def _priors(self, place: int, task: LocalTask) -> LocalPriors:
        beside = {"below": 1, "above": -1}.get(task.place)
        spot_of_tail = None if beside is None else self._spot(place, beside)
        low, size, total = float(self.breakpoints.ends[place]), task.size, self.breakpoints.total

        def near(relative: Sequence[float]) -> Sequence[CompiledPrior]:
            return self.priors.each([(low + each * size) / total for each in relative], spot_of_tail, self.focus)

        return near
