"""How far off the levels of `cells` can be, from what it released.

A released value lies between two released points: the ends of its cell or, where that was finished by points and
counts, of its part. It is off by what the ranks of these two ends are, or by something between them. That much holds
for every data set (but for the noise, which has known laws). Where between them it is, is an assumption.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.mechanisms.budget import Budget
from sidelight.quantiles.descend import Cell
from sidelight.quantiles.forms.cell_selection import cell_tree
from sidelight.quantiles.forms.cells import POINTS_BEYOND, CellsRelease, first_beyond
from sidelight.quantiles.forms.cells_plan import CellsPlan
from sidelight.quantiles.forms.count_noise import (
    CALIBRATED,
    DESIGNED,
    STEP,
    NoiseTerms,
    PlacedLevels,
    Selections,
    below_proxy,
    equal_shares,
    linear_bound,
    noise_of,
)
from sidelight.quantiles.forms.finish import LocalTask, side_of
from sidelight.quantiles.forms.least_squares import agreed_counts, leaves_of, ranks_of
from sidelight.quantiles.forms.refined_counts import Parts
from sidelight.release import NO_ASSUMPTION, TailBound

Floats = NDArray[np.float64]
Inside = Literal["as interpolated", "anywhere"]

#: Where the curve turns sharply, records may lie this share of their cell away from it; the same in a flagged leaf.
_OFF_CURVE = 0.3
#: The same where the curve was continued beyond the first breakpoints, whatever it looks like.
_OFF_CURVE_OUTSIDE = 0.5
#: In a tail there are points at small steps all the way out.
_OFF_CURVE_TAIL = 0.05
#: A part that holds more than this many times what it was to hold was cut by points that lie elsewhere: its records may
#: lie anywhere in it.
_MISSED = 2.0
#: So does a cell beyond the first breakpoints with more than this share of all records there, and than planned.
_CROWD = 0.5
#: What the density of neighbouring parts of smooth data differs by at most.
_SMOOTH = 3.0
#: From one half of the largest unevenness on, records of a part may lie anywhere in it.
_SURELY = 2.0
#: Counts that contradict the curve at this share of the levels show clusters.
_CLUSTERED = 0.9
#: At other levels that they contradict, the likely error is this many times that of the curve.
_CONTRADICTED = 3.0
#: Ranks from the outer end, times the epsilon of a tail, that a selection there cannot tell from none.
_AT_RISK = 30.0


@dataclass(eq=False)
class _Ends:
    """For each level the two released points that its value lies between: their ranks, minus the level's."""

    cell: NDArray[np.intp]  # the cell that holds the value
    share: Floats  # where in that cell the level is, from 0 to 1
    low: Floats  # the released rank of the lower point, less the level's share of all records; made to rise
    high: Floats  # that of the upper point
    raw: tuple[Floats, Floats]  # the same of both as they were counted, and as their noise belongs to
    records: Floats  # how many records lie between them, as released, and two deviations more
    off_curve: Floats  # which share of these may lie elsewhere than the curve says
    everywhere: NDArray[np.bool_]  # whether they may wherever between the two the level is, not only far from both
    unknown: NDArray[np.bool_]  # whether they may lie anywhere between the two
    part: NDArray[np.intp]  # in a cell that was finished by points and counts, the part of the value; else -1
    contradicted: NDArray[np.bool_]  # whether released counts say that records lie elsewhere than the curve does

    @classmethod
    def of(cls, release: CellsRelease, levels: Floats) -> _Ends:
        """Find them, from released numbers alone."""
        ranks, summed = release.ranks, np.concatenate([[0.0], np.cumsum(agreed_counts(release.rounds)[-1])])
        cell = np.array([bisect_right(release.points, index) for index in release.indices], np.intp)
        targets = levels * release.total
        size = ranks[cell + 1] - ranks[cell]
        share = np.clip((targets - ranks[cell]) / np.maximum(size, 1.0), 0.0, 1.0)
        low, high = ranks[cell] - targets, ranks[cell + 1] - targets
        rest = levels * summed[-1]
        raw = (summed[cell] - rest, summed[cell + 1] - rest)
        leaves = np.where(release.sides == 0, np.sqrt(release.rounds[-1].variances), 0.0)
        found = cls(
            cell,
            share,
            low,
            high,
            raw,
            size + 2 * leaves[cell],
            np.where(release.outside[cell], _OFF_CURVE_OUTSIDE, _OFF_CURVE * release.unevenness[cell]),
            release.outside[cell],
            _crowded(release, 2 * leaves)[cell],
            np.full(levels.size, -1),
            ~release.outside[cell] & (release.unevenness[cell] > 0),
        )
        for place in release.parts:
            found._part(release, place)
        return found

    def _part(self, release: CellsRelease, place: int) -> None:
        """Put the parts of a cell in its place."""
        own, mine = release.parts[place], np.flatnonzero(self.cell == place)
        part = np.array([bisect_right(own.points, release.indices[each]) for each in mine], np.intp)
        share, ranks, summed = self.share[mine], ranks_of(own.counts), np.concatenate([[0.0], np.cumsum(own.counts)])
        between = (1 - share) * self.low[mine] + share * self.high[mine]
        counted = (1 - share) * self.raw[0][mine] + share * self.raw[1][mine]
        self.part[mine] = part
        self.low[mine], self.high[mine] = (between + ranks[part + side] - share * ranks[-1] for side in (0, 1))
        for side in (0, 1):
            self.raw[side][mine] = counted + summed[part + side] - share * summed[-1]
        outermost = {0: 0, release.ranks.size - 2: -1}.get(place)
        uneven, least = _unevenness(own, outermost), _OFF_CURVE if release.sides[place] == 0 else _OFF_CURVE_TAIL
        crowding = _crowding(own, outermost)
        inner = {1: 0, -1: -1}.get(int(release.sides[place]))
        if inner is not None and outermost is None:
            beside = _beside_denser(own, inner, float(release.unevenness[place]))
            uneven[inner] = max(uneven[inner], 1 - _SMOOTH * beside)
            crowding[inner] = max(crowding[inner], _SMOOTH / beside)
        self.records[mine] = np.diff(ranks)[part] + 2 * own.deviations[part]
        within = np.clip(-self.low[mine] / np.maximum(self.high[mine] - self.low[mine], 1e-9), 0.0, 1.0)
        off = [np.minimum(crowding[part] * each, 1.0) - each for each in (within, 1 - within)]
        further = np.minimum(_SURELY * uneven[part], 1.0) * np.maximum(*off)
        self.off_curve[mine] = np.maximum(least, further)
        self.everywhere[mine] = self.contradicted[mine] = uneven[part] > 0
        self.unknown[mine] = (np.diff(ranks) - 2 * own.deviations > _MISSED * own.planned)[part]

    def noise(self, release: CellsRelease, levels: Floats, inside: Floats, rows: NDArray[np.intp]) -> list[Floats]:
        """Return for levels, a row each, the noise of the rank of a place `inside` of the way to the upper point."""
        whole = self.part[rows] < 0
        placed = PlacedLevels(self.cell[rows], np.where(whole, inside, self.share[rows]), np.zeros(rows.size))
        rounded = release.plan.currency == "rho"
        found = noise_of(release.rounds, placed.weights(levels[rows], release.ranks.size - 1), rounded=rounded)
        for place, own in release.parts.items():
            mine = np.flatnonzero((self.cell[rows] == place) & (self.part[rows] >= 0))
            part, share = self.part[rows][mine], self.share[rows][mine]
            local = np.zeros((rows.size, own.counts.size))
            local[mine] = np.arange(own.counts.size) < part[:, None]
            local[mine, part] = inside[mine]
            local[mine] -= share[:, None]
            found += noise_of(own.rounds, local, rounded=rounded)
        return found


def cells_bound(release: CellsRelease) -> TailBound:
    """Bound the gaps of what `cells` released wherever records lie; and the likely error, as interpolated.

    Where released counts contradict the curve, as next to a spike, the likely error of a level is larger; where they do
    so at nearly all levels, as in clusters, there is none.
    """
    ends = _Ends.of(release, np.array([float(level) for level in release.levels]))
    stated, likely = _bound(release, "anywhere", ends), _bound(release, "as interpolated", ends)
    if np.mean(ends.off_curve > 0) >= _CLUSTERED:
        return stated
    factors = np.where(ends.contradicted & ~ends.unknown, _CONTRADICTED, CALIBRATED)
    fixed, per_log = (tuple((factors * each).tolist()) for each in (likely.fixed, likely.per_log))
    return stated.with_likely(likely.changed(lambda *_: (fixed, per_log)))


def _bound(release: CellsRelease, inside: Inside, ends: _Ends) -> TailBound:
    """Bound the gaps of what `cells` released.

    "as interpolated": records between two released points lie as the curve says, up to chance, unless released counts
    contradict it. "anywhere": a level may be off by as much as the further of the two points is.
    """
    levels = np.array([float(level) for level in release.levels])
    selections, least = Selections.none(levels.size), np.zeros(levels.size)
    selected = np.zeros(levels.size, np.bool_)
    for mine, task in _tasks(release, levels * release.total) if inside == "as interpolated" else ():
        if task.by_selection:
            selections.add(mine, cell_tree(task.levels, task.budget))
            selected[mine] = True
        else:
            least[mine] = _outer_ranks_at_risk(task)
    placed = PlacedLevels.of(levels * release.total, release.ranks)
    ends = replace(ends, cell=np.where(selected, placed.cell, ends.cell), part=np.where(selected, -1, ends.part))
    unknown = (ends.unknown | (inside == "anywhere")) & ~selected
    between = np.clip(-ends.low / np.maximum(ends.high - ends.low, 1e-9), 0.0, 1.0)
    nearer = np.minimum(between, 1 - between)  # at the two ends the curve is right
    beyond = np.maximum(np.maximum(ends.low, -ends.high), 0.0)  # the level lies outside them
    near = np.where(ends.everywhere, 1.0, np.minimum(4 * nearer, 1.0))
    off_curve = ends.off_curve * ends.records * near
    fixed = beyond + np.where(ends.part < 0, 0.0, off_curve)
    even = np.where(ends.part < 0, off_curve, 0.0)
    chance = below_proxy(ends.records, between)
    fixed[selected], chance[selected], even[selected] = 0.0, 0.0, 0.0
    fixed[unknown], chance[unknown], even[unknown] = -ends.raw[0][unknown], 0.0, 0.0
    at = np.where(selected, placed.share, np.where(unknown, 0.0, between))
    # Where records may lie anywhere between two points, a value is off by at most what either of these is, each to its
    # own side: a row for the lower one and another for the upper one. Both are linear in the level as long as the
    # points are the same, so that the outermost levels between them speak for all.
    kept = ~unknown | _outermost(ends.cell, ends.part, unknown)
    lower, upper = np.flatnonzero(kept), np.flatnonzero(kept & unknown)
    rows = np.concatenate([lower, upper])
    noise = ends.noise(release, levels, np.concatenate([at[lower], np.ones(upper.size)]), rows)
    in_rho = release.plan.currency == "rho"
    above = np.concatenate([fixed[lower], ends.raw[1][upper]])
    terms = NoiseTerms(
        laplace=() if in_rho else noise,
        gaussian=noise if in_rho else (),
        chance=np.concatenate([chance[lower], np.zeros(upper.size)]),
        selections=selections.matrix[rows],
        uneven=selections.uneven[rows],
        rows=equal_shares(selected[rows]),
        even=np.concatenate([even[lower], np.zeros(upper.size)]),
        apart=np.where(unknown[rows], np.inf, above),
        sharp=inside == "anywhere",  # then there is nothing but noise in the sums
    )
    found, per_log = linear_bound(terms, above=above)
    found += above + STEP
    total, slope = np.zeros(levels.size), np.zeros(levels.size)
    total[lower], slope[lower] = found[: lower.size], per_log[: lower.size]
    total[upper] = np.maximum(total[upper], found[lower.size :])
    slope[upper] = np.maximum(slope[upper], per_log[lower.size :])
    total, slope = (np.interp(levels, levels[kept], each[kept]) for each in (total, slope))
    total = np.maximum(total, least + slope * math.log(DESIGNED))
    return TailBound(
        unit="ranks", assumption=_ASSUMED[inside], fixed=tuple(total.tolist()), per_log=tuple(slope.tolist())
    )


def _outermost(cell: NDArray[np.intp], part: NDArray[np.intp], among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which levels are the first or the last of a run between the same two points, all of it `among` some."""
    changes = (np.diff(cell) != 0) | (np.diff(part) != 0) | (among[1:] != among[:-1])
    return np.asarray(np.concatenate([[True], changes]) | np.concatenate([changes, [True]]))


_ASSUMED: dict[Inside, str] = {
    "as interpolated": "records inside a cell lie as interpolated, up to chance, unless released counts contradict it; "
    "where they contradict it, records are as likely to lie at one place of what the counts allow as at another; "
    "where they are selected they are at most 4 times as dense, within a cell, as the prior",
    "anywhere": NO_ASSUMPTION,
}


def _crowded(release: CellsRelease, noise: Floats) -> NDArray[np.bool_]:
    """Return for each cell beyond the first breakpoints whether its records may lie anywhere in it.

    The curve was continued to cut what lies there. A cell with more than half of it, and than planned, says that the
    data did not go on so; and the outermost cells reach to the end of everything.
    """
    sizes, inner = np.diff(release.ranks), np.flatnonzero(~release.outside)
    whole = np.full(sizes.size, np.inf)
    if inner.size:
        below, above = float(sizes[: inner[0]].sum()), float(sizes[inner[-1] + 1 :].sum())
        first, last = float(release.levels[0]) * release.total, (1 - float(release.levels[-1])) * release.total
        whole[: inner[0]] = below * _most_planned(release.plan, below, first)
        whole[inner[-1] + 1 :] = above * _most_planned(release.plan, above, last)
    found = sizes - noise > whole
    found[[0, -1]] = True
    return np.asarray(found)


def _most_planned(plan: CellsPlan, outer: float, least: float) -> float:
    """Return the share of the records beyond the first breakpoints above which a cell there holds more than planned."""
    first = max(first_beyond(least, outer, plan.rate(plan.fine)) / max(outer, 1e-9), 0.0)
    return max(_CROWD, 1 - math.pow(first, 1 / POINTS_BEYOND))


def _unevenness(parts: Parts, outermost: int | None) -> Floats:
    """Return for each part how much denser or sparser than a neighbour it surely is: 0 if hardly, up to 1.

    As `Curve.unevenness`, with two deviations of noise given to the sparser of the two. The `outermost` part of
    everything has no width, and is as dense as planned as long as it holds what was planned.
    """
    most, fewest = (np.maximum(parts.counts + more * parts.deviations, 0.0) for more in (2.0, -2.0))
    widths = np.maximum(parts.widths, 1e-300)
    with np.errstate(all="ignore"):
        falls = (most[1:] / widths[1:]) / (fewest[:-1] / widths[:-1])
        rises = (most[:-1] / widths[:-1]) / (fewest[1:] / widths[1:])
    least = np.nan_to_num(np.minimum(falls, rises), nan=1.0, posinf=1.0)
    if outermost is not None:
        least[outermost] = min(most[outermost] / max(parts.planned[outermost], 1.0), 1.0)
    beside = np.minimum(np.concatenate([[1.0], least]), np.concatenate([least, [1.0]]))
    return np.asarray(np.maximum(1 - _SMOOTH * beside, 0.0))


def _crowding(parts: Parts, outermost: int | None) -> Floats:
    """Return for each part how many times its mean density is the largest that smooth data may have in it.

    Three times that of the part or of a neighbour, whichever is larger by what the noise allows.
    """
    spread, widths = parts.deviations, np.maximum(parts.widths, 1e-300)
    most, fewest = np.maximum(parts.counts, 0.0) + 2 * spread, np.maximum(parts.counts - 2 * spread, spread)
    with np.errstate(all="ignore"):
        dense, own = most / widths, fewest / widths
        if outermost is not None:  # it has no width of its own
            dense[outermost] = 0.0
        beside = np.maximum(np.append(0.0, dense[:-1]), np.append(dense[1:], 0.0))
        found = _SMOOTH * np.maximum(np.nan_to_num(beside / own, nan=np.inf), 1.0)
    if outermost is not None:
        found[outermost] = np.inf
    return np.asarray(np.minimum(found, 1e9))


def _beside_denser(parts: Parts, inner: int, unevenness: float) -> float:
    """Return the density of the inner part of a tail cell over that of the denser neighbouring cell."""
    if unevenness <= 0:
        return 1.0
    counts, widths = np.maximum(parts.counts, 0.0), np.maximum(parts.widths, 1e-300)
    most = float(counts[inner]) + 2 * float(parts.deviations[inner])
    within = (most / float(widths[inner])) / max(float(counts.sum()) / float(widths.sum()), 1e-300)
    return min(max((1 - unevenness) / _SMOOTH * min(within, 1e300), 1e-9), 1.0)  # parts of no width: no infinity


def _outer_ranks_at_risk(task: LocalTask) -> Floats:
    """Return for each target of a tail its rank from the outer end, as long as that is small.

    At a hard edge the points for such ranks are selected outside the data: then a value lies beyond all records, and is
    off by its rank.
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
