"""The form `cells`, for many levels and the whole distribution: counts on cells whose ends are interpolated quantiles.

Four steps, each on cells that the released numbers of the steps before it fix (quantiles proof page, Theorem 8):
a skeleton of selected points, coarse counts between them, fine counts between interpolated points, and selections in
the two tails and in the leaves that turned out not to be smooth. From the fine counts on there is ONE partition and ONE
dither: tails, leaves, rough counts, refined counts and selections share their cuts and their record map, or a record
could pay twice.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.ranks import Ranks
from sidelight.mechanisms.budget import Budget, Kind
from sidelight.noise import Source
from sidelight.quantiles.descend import Cell
from sidelight.quantiles.forms.cells_of_points import cells_between, counts_of, spans_of
from sidelight.quantiles.forms.cells_plan import QUARTILES, CellsPlan, fine_levels
from sidelight.quantiles.forms.fine_counts import fine_counts
from sidelight.quantiles.forms.finish import Finish, Finished
from sidelight.quantiles.forms.flags import Structure, flagged_leaves, leaves_of
from sidelight.quantiles.forms.focus import LevelPriors, tail_spots
from sidelight.quantiles.forms.interpolation import edge_power
from sidelight.quantiles.forms.least_squares import Round, agreed_counts, ranks_of
from sidelight.quantiles.forms.outline import Outline
from sidelight.quantiles.forms.parts import Parts
from sidelight.quantiles.forms.skeleton import Skeleton, release_skeleton
from sidelight.quantiles.forms.smoothed_counts import smoothed_counts

Floats = NDArray[np.float64]
#: A tail that holds less than this share of the records that its point was selected for is taken to be empty.
_EMPTY_SHARE = 0.25
#: Records of a tail, times its epsilon, below which selecting among them tells little; points of the curve there, and
#: the first rank from the outer end, times epsilon, at which one is put.
_WEAK_TAIL = 100.0
POINTS_BEYOND = 3
_EVEN_BEYOND = (0.1, 0.3, 0.6, 0.9)
_FIRST_RANK = 4.0
#: Powers of ranks beside an edge grow by a factor whose logarithm lies between these two: none is 1, none overflows.
_LEAST_LOG, _MOST_LOG = 1e-9, 600.0
#: So many points there must be, or none is dropped.
_FEWEST_POINTS = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class CellsRelease:
    """What `cells` released, all of it public: points, counts, which leaves were flagged, and an index for each level.

    Args:
        plan: The plan.
        levels: What was asked for.
        indices: The answer: a fine index for each level, not decreasing.
        finished: How each level was found: on the "curve", in a "tail", or in a flagged "leaf".
        parts: By their cell, the points and noisy counts of cells that were finished by those.
        skeleton: The points that were selected, increasing.
        points: The ends of all leaves, the skeleton among them; the tails lie outside them.
        rounds: Noisy counts with their variances and parents: coarse with its two tails, perhaps middle, and fine.
        ranks: At the grid's beginning, at every point, and at the grid's end: from 0 to N.
        flags: Of each cell, tails included: whether it has a rough count and was finished by selection.
        sides: Of each cell 0, or, if it has no fine count and was finished as a tail is, 1 or -1: a tail of what lies
            below or above it. The two outermost cells may be such, and leaves in which a gap begins.
        unevenness: Of each cell, how far the curve bends in it (`Curve.unevenness`).
        outside: Of each cell, whether it lies beyond the skeleton, where the curve was continued.
    """

    plan: CellsPlan
    levels: tuple[Fraction, ...]
    indices: tuple[int, ...]
    finished: tuple[Finished, ...]
    parts: Mapping[int, Parts]
    skeleton: tuple[int, ...]
    points: tuple[int, ...]
    rounds: tuple[Round, ...]
    ranks: Floats
    flags: NDArray[np.bool_]
    sides: NDArray[np.int64]
    unevenness: Floats
    outside: NDArray[np.bool_]

    @property
    def total(self) -> float:
        """The number of records, as released: N."""
        return float(self.ranks[-1])


def release_cells(
    ranks: Ranks,
    levels: Sequence[Fraction],
    *,
    plan: CellsPlan,
    kind: Kind,
    priors: LevelPriors,
    source: Source,
    skeleton: Skeleton | None = None,
) -> CellsRelease:
    """Release a fine index for each level, in increasing order, and all that it was read from.

    Guarantee: `plan.budget` for adding or removing one record; with a public skeleton that much without
    `plan.skeleton`.

    Args:
        ranks: Of all records. Private; one object for the whole release, so that a record keeps its dither.
        levels: In increasing order.
        plan: From public numbers (`cells_plan`).
        kind: What the plan's budgets are amounts of: "epsilon" or "rho".
        priors: On the grid of `ranks`.
        source: The release's source.
        skeleton: Cut points that somebody predicted, instead of selected ones.
    """
    grid = priors.grid
    if skeleton is None:
        budget = Budget(kind, plan.skeleton)
        skeleton = release_skeleton(ranks, plan.skeleton_levels, budget=budget, priors=priors, source=source)
    coarse = coarse_counts(ranks, cells_between(grid, skeleton.points), Budget(kind, plan.coarse), (), source)
    bones, coarse = _without_empty_tails(skeleton.points, coarse, plan)
    rounds, points = [coarse], bones
    if plan.three_rounds:
        points = tuple(_cut(Outline(grid, bones, _ranks(rounds)), levels, plan.middle_count))
        middle, parents = cells_between(grid, points), _parents(points, bones)
        inside = np.array([0 < place < len(points) for place in range(len(middle))])
        found = coarse_counts(ranks, middle[1:-1], Budget(kind, plan.middle), parents[inside], source)
        rounds.append(found.among(inside, parents))
    wanted, outline = np.array([float(level) for level in levels]), Outline(grid, points, _ranks(rounds))
    sparse = _sparse(outline, wanted)
    curved = _cut(outline, levels, plan.fine_count, whole=sparse)
    # From here on `cells` is the one partition: a record is in one leaf, or in one of the two tails.
    leaves = tuple(sorted({*curved, *_beyond(outline, wanted, plan)}))
    cells, parents = cells_between(grid, leaves), _parents(leaves, points)
    # What has no count keeps all of the fine budget for its finish: tails with targets, and leaves where a gap begins.
    sides = _sides(cells, sparse[parents], outline, wanted)
    counted = sides == 0
    chosen = [cell for cell, kept in zip(cells, counted, strict=True) if kept]
    fine = fine_counts(ranks, chosen, budget=Budget(kind, plan.fine), source=source)
    rough = fine.rough(parents[counted]).among(counted, parents)
    ends = _ranks([*rounds, rough])
    structure = Structure(
        coarse_cells=len(bones) + 1,
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
    outline = Outline(grid, leaves, ranks_of(smoothed_counts(rounds, expected, flags)))
    finish = Finish(
        outline=outline,
        cells=cells,
        flags=flags,
        sides=sides,
        whole_budget=Budget(kind, plan.fine),
        left_budget=Budget(kind, plan.left),
        priors=priors,
        focus=skeleton.focus,
        tails=tail_spots(grid, bones, coarse.counts.tolist()),
    )
    indices, finished, parts = finish.release(ranks, wanted, source)
    return CellsRelease(
        plan=plan,
        levels=tuple(levels),
        indices=indices,
        finished=finished,
        parts=parts,
        skeleton=bones,
        points=leaves,
        rounds=tuple(rounds),
        ranks=outline.ends,
        flags=flags,
        sides=sides,
        unevenness=np.pad(outline.curve.unevenness(outline.places, outline.ranks), 1),
        outside=np.array([cell.last <= bones[0] or cell.first >= bones[-1] for cell in cells]),
    )


def coarse_counts(ranks: Ranks, cells: Sequence[Cell], budget: Budget, parents: Sequence[int], source: Source) -> Round:
    """Release one count for each of disjoint cells."""
    noise = budget.on(counts_of(ranks, cells))
    with source.over(places=ranks, spans=spans_of(cells)):
        return Round.of(noise.release(source), noise.deviation**2, parents)


def _without_empty_tails(points: tuple[int, ...], coarse: Round, plan: CellsPlan) -> tuple[tuple[int, ...], Round]:
    """Drop an outermost point that lies beside the data: far fewer records are beyond it than it was selected for.

    At a hard edge a selection lands in the empty space beyond it, and the curve would spread the next cell over that
    space. The two cells become one tail. A function of released numbers.
    """
    wanted = [float(level) for level in (*QUARTILES, *plan.skeleton_levels)]
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


def _sparse(outline: Outline, levels: Floats) -> NDArray[np.int64]:
    """Return which cells between points hold a level and are far sparser than a neighbour, and on which side that is.

    A curve cannot tell where in such a cell its records lie. Public post-processing.
    """
    held = np.bincount(leaves_of(levels * outline.total, outline.ranks) + 1, minlength=len(outline.points) + 1)
    return np.pad(outline.curve.sparse(outline.places, outline.ranks), 1) * (held > 0)


def _cut(
    outline: Outline, levels: Sequence[Fraction], count: int, *, whole: NDArray[np.int64] | None = None
) -> dict[int, float]:
    """Return the points with more between them, in order, each with its rank on the curve through the points.

    The others lie where that curve puts levels; none in cells kept whole. Public post-processing.
    """
    points, ends, total = outline.points, outline.ends, outline.total
    placed = fine_levels(levels, low=float(ends[1]) / total, high=float(ends[-2]) / total, count=count)
    ranks = np.array(placed) * total
    new = [outline.index_of(place) for place in outline.curve.places_of(ranks)]
    inside = {index: rank for index, rank in zip(new, ranks.tolist(), strict=True) if points[0] < index < points[-1]}
    if whole is not None:
        inside = {index: rank for index, rank in inside.items() if whole[bisect_right(points, index)] == 0}
    return dict(sorted({**inside, **dict(zip(points, outline.ranks.tolist(), strict=True))}.items()))


def _beyond(outline: Outline, levels: Floats, plan: CellsPlan) -> list[int]:
    """Return where the curve, continued beyond the outermost points, puts some of the levels out there.

    Only on a side with so few records that selecting among them would tell hardly more than the curve does: there they
    are counted as all others are. Public post-processing.
    """
    points, ends, places = outline.points, outline.ends, outline.places
    total, rate, grid = outline.total, plan.rate(plan.fine), outline.grid
    found: list[int] = []
    for above in (False, True):
        outer = total - float(ends[-2]) if above else float(ends[1])
        asked = ((1 - levels) if above else levels) * total  # ranks from the outer end
        inside = asked[asked < outer]
        if not inside.size or rate * outer >= _WEAK_TAIL or not outline.curve.goes_on:
            continue
        chosen = np.geomspace(first_beyond(float(inside.min()), outer, rate), outer, POINTS_BEYOND + 1)[:-1]
        placed = outline.curve.places_of(total - chosen if above else chosen, continued=True)
        # At a hard edge records go on as densely as before, or more and more densely, and end: cuts for that, too.
        end, beside = (places[-1], places[-2]) if above else (places[0], places[1])
        nearest = places[::-1] if above else places
        ranks = (total - ends[-2:0:-1] if above else ends[1:-1])[:3]
        placed += [end + (end - beside) * top // bottom for top, bottom in _ratios(nearest, ranks)]
        new = [outline.index_of(place) for place in placed]
        found += [index for index in new if (points[-1] < index < grid.fine_last if above else index < points[0])]
    return [index for index in found if index > grid.fine_first]


def first_beyond(asked: float, outer: float, rate: float) -> float:
    """Return the first rank from the outer end at which a point is put, with so many ranks to cut: geometric ones."""
    return min(max(asked, _FIRST_RANK / rate), outer / 2)


def _ratios(places: Sequence[int], ranks: Floats) -> list[tuple[int, int]]:
    """Return where to cut beyond an outermost point, as multiples of the nearest cell: exact, for places are whole.

    Args:
        places: From the outermost point inwards.
        ranks: Of the first ones, from the outer end.
    """
    power = edge_power([abs(place - places[0]) for place in places[:3]], ranks)
    outer, inner = max(float(ranks[0]), 1.0), max(float(ranks[1]), float(ranks[0]) + 1.0)
    growth = min(max(power * math.log(inner / outer), _LEAST_LOG), _MOST_LOG)
    whole = 1 / math.expm1(growth)  # the way to the edge
    return [(whole * -math.expm1(power * math.log1p(-share))).as_integer_ratio() for share in _EVEN_BEYOND]


def _sides(cells: Sequence[Cell], sparse: NDArray[np.int64], outline: Outline, levels: Floats) -> NDArray[np.int64]:
    """Return for each cell of the partition whether it is left uncounted, as a tail of what lies below (1) or above it.

    Where the outermost points are still those of the round before, a tail that holds a level is.
    """
    sides, targets = sparse.copy(), levels * outline.total
    points, ends = outline.points, outline.ends
    if cells[0].last == points[0] and targets[0] < ends[1]:
        sides[0] = -1
    if cells[-1].first == points[-1] and targets[-1] >= ends[-2]:
        sides[-1] = 1
    return sides


def _parents(points: Sequence[int], above: Sequence[int]) -> NDArray[np.intp]:
    """Return for each of the cells that points cut everything into the one that holds it between fewer points."""
    return np.array([0, *(bisect_right(above, start) for start in points)], np.intp)
