"""The form `cells`, for many levels and the whole distribution: counts on cells whose ends are interpolated quantiles.

Four steps, each on cells that the released numbers of the steps before it fix (quantiles proof page, Theorem 8): a few
breakpoints by selection, which find the scale; coarse counts between them; fine counts between interpolated points; and
selections in the two tails and in the leaves that turned out not to be smooth. From the fine counts on there is ONE
partition and ONE dither: tails, leaves, rough counts, refined counts and selections share their cuts and their record
map, or a record could pay twice.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.ranks import Ranks
from sidelight.mechanisms.budget import Budget, Kind
from sidelight.noise import Source
from sidelight.predictions import Mixture, Prior
from sidelight.quantiles.descend import Cell
from sidelight.quantiles.forms.cell_selection import (
    LevelPriors,
    Spot,
    cells_between,
    counts_of,
    middle_spot,
    select_in_cell,
    spans_of,
    tail_spots,
    whole_cell,
)
from sidelight.quantiles.forms.cells_plan import QUARTILES, CellsPlan, fine_levels
from sidelight.quantiles.forms.finish import Finish, Finished
from sidelight.quantiles.forms.interpolation import Breakpoints, edge_power
from sidelight.quantiles.forms.least_squares import (
    UNCOUNTED,
    Round,
    Structure,
    agreed_counts,
    flagged_leaves,
    leaves_of,
    ranks_of,
    smoothed_counts,
    texts,
)
from sidelight.quantiles.forms.refined_counts import Parts, fine_counts

_HALF = Fraction(1, 2)


class FirstBreakpoints(NamedTuple):
    """Released points, distinct and increasing, and the Cauchy that the three quartiles make."""

    points: tuple[int, ...]
    focus: Spot | None


def release_first_breakpoints(
    ranks: Ranks, levels: Sequence[Fraction], *, budget: Budget, priors: LevelPriors, source: Source
) -> FirstBreakpoints:
    """Release the quartiles with half the budget, then the other levels inside the four cells with the other half.

    Guarantee: `budget` for adding or removing one record: two trees follow one another, and the four of the second step
    see disjoint records (quantiles proof page, Theorem 8).
    """
    grid = priors.grid
    half = budget.part(_HALF)
    quartiles = select_in_cell(
        ranks, whole_cell(grid), QUARTILES, budget=half, priors=priors.each(QUARTILES), source=source
    )
    focus = middle_spot(grid, *quartiles)
    points = set(quartiles)
    edges = (Fraction(0), *QUARTILES, Fraction(1))
    # Two quartiles may be equal: the cell between them is empty, is drawn in all the same, and yields that point.
    for cell, (low, high) in zip(cells_between(grid, quartiles), pairwise(edges), strict=True):
        inside = [level for level in levels if low < level < high]
        relative = [(level - low) / (high - low) for level in inside]
        points.update(
            select_in_cell(ranks, cell, relative, budget=half, priors=priors.each(inside, focus), source=source)
        )
    return FirstBreakpoints(tuple(sorted(points)), focus)


def predicted_breakpoints(levels: Sequence[Fraction], *, priors: LevelPriors) -> FirstBreakpoints:
    """Return where a prediction puts the quartiles and the other levels: public, and free.

    One prediction for all levels is read at each level; of one for each, the middle of the nearest.
    """
    grid = priors.grid

    def place(level: Fraction) -> int:
        masses = _without_hedge(priors.nearest(level)).compile(grid)
        return masses.inverse(int((level if priors.single else _HALF) * masses.total))

    quartiles = tuple(sorted(place(level) for level in QUARTILES))
    points = {*quartiles, *(place(level) for level in levels)}
    return FirstBreakpoints(tuple(sorted(points)), middle_spot(grid, *quartiles))


def _without_hedge(prior: Prior) -> Prior:
    """Return the prediction inside a hedge: the part with the most weight, whose tails are its own."""
    while isinstance(prior, Mixture):
        weights = list(prior.weights)
        prior = prior.priors[weights.index(max(weights))]
    return prior


Floats = NDArray[np.float64]
#: A tail that holds less than this share of the records that its point was selected for is taken to be empty.
_EMPTY_SHARE = 0.25
#: Records of a tail, times its epsilon, below which selecting among them tells little; points of the curve there, and
#: the first rank from the outer end, times epsilon, at which one is put.
_WEAK_TAIL = 100.0
POINTS_BEYOND = 3
_EVEN_BEYOND = (0.1, 0.3, 0.6, 0.9)
_FIRST_RANK = 4.0
#: Powers of ranks near an edge grow by a factor whose logarithm lies between these two: none is 1, none overflows.
_LEAST_LOG, _MOST_LOG = 1e-9, 600.0
#: This many points there must be, or none is dropped.
_FEWEST_POINTS = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class CellsRelease:
    """What `cells` released, all of it public."""

    plan: CellsPlan
    levels: tuple[Fraction, ...]
    indices: tuple[int, ...]  # the answer: a fine index for each level, not decreasing
    finished: tuple[Finished, ...]  # how each level was found: on the "curve", in a "tail", or in a flagged "leaf"
    parts: Mapping[int, Parts]  # by their cell, the points and noisy counts of cells that were finished by those
    first_points: tuple[int, ...]  # the breakpoints that were selected, increasing
    points: tuple[int, ...]  # the ends of all leaves; the tails lie outside them
    rounds: tuple[Round, ...]  # noisy counts: coarse with its two tails, perhaps middle, and fine
    ranks: Floats  # at the grid's beginning, at every point, and at the grid's end: from 0 to N
    flags: NDArray[np.bool_]  # of each cell: whether it has a rough count and was finished by selection
    sides: NDArray[np.int64]  # of each cell: 1 or -1 for an uncounted tail of what lies below or above it, else 0
    unevenness: Floats  # of each cell (`Curve.unevenness`)
    outside: NDArray[np.bool_]  # of each cell: whether it lies beyond the first points

    @property
    def total(self) -> float:
        """The number of records, as released: N."""
        return float(self.ranks[-1])

    @property
    def details(self) -> dict[str, Any]:
        """What was released on the way, in strings: points, noisy counts, and which leaves lack them."""
        return {
            "plan": self.plan.to_json(),
            "skeleton": texts(self.first_points),
            "points": texts(self.points),
            "counts": [texts(each.counts[each.variances < UNCOUNTED].tolist()) for each in self.rounds],
            "flagged": texts(np.flatnonzero(self.flags).tolist()),
            "uncounted": texts(np.flatnonzero(self.sides).tolist()),
        }


def release_cells(
    ranks: Ranks,
    levels: Sequence[Fraction],
    *,
    plan: CellsPlan,
    kind: Kind,
    priors: LevelPriors,
    source: Source,
    first: FirstBreakpoints | None = None,
) -> CellsRelease:
    """Release a fine index for each increasing level, and all that it was read from.

    Guarantee: `plan.budget` for adding or removing one record; with public `first` breakpoints that much without
    `plan.breakpoints`. `ranks` is one object for the whole release, so that a record keeps its dither.
    """
    grid = priors.grid
    if first is None:
        budget = Budget(kind, plan.breakpoints)
        first = release_first_breakpoints(ranks, plan.breakpoint_levels, budget=budget, priors=priors, source=source)
    coarse = coarse_counts(ranks, cells_between(grid, first.points), Budget(kind, plan.coarse), (), source)
    kept, coarse = _without_empty_tails(first.points, coarse, plan)
    rounds, points = [coarse], kept
    if plan.three_rounds:
        points = tuple(_cut(Breakpoints(grid, kept, _ranks(rounds)), levels, plan.middle_count))
        middle, parents = cells_between(grid, points), _parents(points, kept)
        inside = np.array([0 < place < len(points) for place in range(len(middle))])
        found = coarse_counts(ranks, middle[1:-1], Budget(kind, plan.middle), parents[inside], source)
        rounds.append(found.among(inside, parents))
    wanted, breakpoints = np.array([float(level) for level in levels]), Breakpoints(grid, points, _ranks(rounds))
    sparse = _sparse(breakpoints, wanted)
    curved = _cut(breakpoints, levels, plan.fine_count, whole=sparse)
    # From here on `cells` is the one partition: a record is in one leaf, or in one of the two tails.
    leaves = tuple(sorted({*curved, *_beyond(breakpoints, wanted, plan)}))
    cells, parents = cells_between(grid, leaves), _parents(leaves, points)
    # What has no count keeps all of the fine budget for its finish: tails with targets, and leaves where a gap begins.
    sides = _sides(cells, sparse[parents], breakpoints, wanted)
    counted = sides == 0
    chosen = [cell for cell, kept in zip(cells, counted, strict=True) if kept]
    fine = fine_counts(ranks, chosen, budget=Budget(kind, plan.fine), source=source)
    rough = fine.rough(parents[counted]).among(counted, parents)
    ends = _ranks([*rounds, rough])
    structure = Structure(
        coarse_cells=len(kept) + 1,
        middle_cells=len(points) - 1 if plan.three_rounds else 0,
        leaves=len(leaves) - 1,
    )
    flags = np.zeros(len(cells), np.bool_)
    flags[1:-1] = flagged_leaves(
        wanted * ends[-1], ends[1:-1], rough.counts[1:-1], plan=plan, structure=structure, total=float(ends[-1])
    )
    flags &= counted
    rounds.append(fine.refined(flags[counted], parents[counted], source).among(counted, parents))
    expected = np.pad(np.diff([curved.get(leaf, np.nan) for leaf in leaves]), 1, constant_values=np.nan)
    breakpoints = Breakpoints(grid, leaves, ranks_of(smoothed_counts(rounds, expected, flags)))
    finish = Finish(
        breakpoints=breakpoints,
        cells=cells,
        flags=flags,
        sides=sides,
        whole_budget=Budget(kind, plan.fine),
        left_budget=Budget(kind, plan.left),
        priors=priors,
        focus=first.focus,
        tails=tail_spots(grid, kept, coarse.counts.tolist()),
    )
    indices, finished, parts = finish.release(ranks, wanted, source)
    return CellsRelease(
        plan=plan,
        levels=tuple(levels),
        indices=indices,
        finished=finished,
        parts=parts,
        first_points=kept,
        points=leaves,
        rounds=tuple(rounds),
        ranks=breakpoints.ends,
        flags=flags,
        sides=sides,
        unevenness=np.pad(breakpoints.curve.unevenness(breakpoints.places, breakpoints.ranks), 1),
        outside=np.array([cell.last <= kept[0] or cell.first >= kept[-1] for cell in cells]),
    )


def coarse_counts(ranks: Ranks, cells: Sequence[Cell], budget: Budget, parents: Sequence[int], source: Source) -> Round:
    """Release one count for each of disjoint cells."""
    noise = budget.on(counts_of(ranks, cells))
    with source.over(places=ranks, spans=spans_of(cells)):
        return Round.of(noise.release(source), noise.deviation**2, parents)


def _without_empty_tails(points: tuple[int, ...], coarse: Round, plan: CellsPlan) -> tuple[tuple[int, ...], Round]:
    """Drop an outermost point that lies outside the data: far fewer records are beyond it than it was selected for.

    At a hard edge a selection lands in the empty space beyond it, and the curve would spread the next cell over that
    space. The two cells become one tail.
    """
    wanted = [float(level) for level in (*QUARTILES, *plan.breakpoint_levels)]
    cells = list(zip(coarse.counts.tolist(), coarse.variances.tolist(), strict=True))
    total = max(float(coarse.counts.sum()), 1.0)
    for share in (min(wanted), 1 - max(wanted)):  # the tail below, then, everything turned around, the one above
        if len(points) >= _FEWEST_POINTS and cells[0][0] < _EMPTY_SHARE * share * total:
            points = points[1:]
            cells = [(cells[0][0] + cells[1][0], cells[0][1] + cells[1][1]), *cells[2:]]
        points, cells = points[::-1], cells[::-1]
    return points, Round.of([count for count, _ in cells], [variance for _, variance in cells])


def _ranks(rounds: Sequence[Round]) -> Floats:
    """Return the ranks at the grid's beginning, at the points of the last round, and at the grid's end."""
    return ranks_of(agreed_counts(rounds)[-1])


def _sparse(breakpoints: Breakpoints, levels: Floats) -> NDArray[np.int64]:
    """Return -1, 0 or 1 for cells that hold a level and are far sparser than the neighbour above or below."""
    held = np.bincount(
        leaves_of(levels * breakpoints.total, breakpoints.ranks) + 1, minlength=len(breakpoints.points) + 1
    )
    return np.pad(breakpoints.curve.sparse(breakpoints.places, breakpoints.ranks), 1) * (held > 0)


def _cut(
    breakpoints: Breakpoints, levels: Sequence[Fraction], count: int, *, whole: NDArray[np.int64] | None = None
) -> dict[int, float]:
    """Return the points with more between them in order, each with its rank on the curve; none in cells kept whole."""
    points, ends, total = breakpoints.points, breakpoints.ends, breakpoints.total
    placed = fine_levels(levels, low=float(ends[1]) / total, high=float(ends[-2]) / total, count=count)
    ranks = np.array(placed) * total
    new = [breakpoints.index_of(place) for place in breakpoints.curve.places_of(ranks)]
    inside = {index: rank for index, rank in zip(new, ranks.tolist(), strict=True) if points[0] < index < points[-1]}
    if whole is not None:
        inside = {index: rank for index, rank in inside.items() if whole[bisect_right(points, index)] == 0}
    return dict(sorted({**inside, **dict(zip(points, breakpoints.ranks.tolist(), strict=True))}.items()))


def _beyond(breakpoints: Breakpoints, levels: Floats, plan: CellsPlan) -> list[int]:
    """Return where the curve, continued beyond the outermost points, puts some of the levels out there.

    Only on a side with so few records that selecting among them would tell hardly more than the curve does.
    """
    points, ends, places = breakpoints.points, breakpoints.ends, breakpoints.places
    total, rate, grid = breakpoints.total, plan.rate(plan.fine), breakpoints.grid
    found: list[int] = []
    for above in (False, True):
        outer = total - float(ends[-2]) if above else float(ends[1])
        asked = ((1 - levels) if above else levels) * total  # ranks from the outer end
        inside = asked[asked < outer]
        if not inside.size or rate * outer >= _WEAK_TAIL or not breakpoints.curve.goes_on:
            continue
        chosen = np.geomspace(first_beyond(float(inside.min()), outer, rate), outer, POINTS_BEYOND + 1)[:-1]
        placed = breakpoints.curve.places_of(total - chosen if above else chosen, continued=True)
        # At a hard edge records go on as densely as before, or more and more densely, and end: cuts for that, too.
        end, beside = (places[-1], places[-2]) if above else (places[0], places[1])
        nearest = places[::-1] if above else places
        ranks = (total - ends[-2:0:-1] if above else ends[1:-1])[:3]
        placed += [end + (end - beside) * top // bottom for top, bottom in _ratios(nearest, ranks)]
        new = [breakpoints.index_of(place) for place in placed]
        found += [index for index in new if (points[-1] < index < grid.fine_last if above else index < points[0])]
    return [index for index in found if index > grid.fine_first]


def first_beyond(asked: float, outer: float, rate: float) -> float:
    """Return the first rank from the outer end at which a point is put, for a number of geometric ranks."""
    return min(max(asked, _FIRST_RANK / rate), outer / 2)


def _ratios(places: Sequence[int], ranks: Floats) -> list[tuple[int, int]]:
    """Return where to cut beyond an outermost point, as exact multiples of the nearest cell.

    `places` run from the outermost point inwards; `ranks` are those of the first ones, from the outer end.
    """
    power = edge_power([abs(place - places[0]) for place in places[:3]], ranks)
    outer, inner = max(float(ranks[0]), 1.0), max(float(ranks[1]), float(ranks[0]) + 1.0)
    growth = min(max(power * math.log(inner / outer), _LEAST_LOG), _MOST_LOG)
    whole = 1 / math.expm1(growth)  # the way to the edge
    return [(whole * -math.expm1(power * math.log1p(-share))).as_integer_ratio() for share in _EVEN_BEYOND]


def _sides(
    cells: Sequence[Cell], sparse: NDArray[np.int64], breakpoints: Breakpoints, levels: Floats
) -> NDArray[np.int64]:
    """Return for each cell whether it stays uncounted, as a tail of what lies below (1) or above it (-1).

    A tail that holds a level does, where the outermost points are still those of the round before.
    """
    sides, targets = sparse.copy(), levels * breakpoints.total
    points, ends = breakpoints.points, breakpoints.ends
    if cells[0].last == points[0] and targets[0] < ends[1]:
        sides[0] = -1
    if cells[-1].first == points[-1] and targets[-1] >= ends[-2]:
        sides[-1] = 1
    return sides


def _parents(points: Sequence[int], above: Sequence[int]) -> NDArray[np.intp]:
    """Return for each of the cells that points cut everything into the one that holds it between fewer points."""
    return np.array([0, *(bisect_right(above, start) for start in points)], np.intp)
