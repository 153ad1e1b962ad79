"""Counts in two looks: rough ones of all leaves or parts, and better ones of those that nothing speaks against.

For a pure budget the second look takes noise away (`mechanisms.refinable_counts`); an independent second measurement
would cost its own epsilon on top of the first. In rho it costs no more: precisions of Gaussian noise add up as rho
does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.refinable_counts import RefinableCounts
from sidelight.noise import REFINEMENT_RATIO, Source
from sidelight.quantiles.descend import Cell
from sidelight.quantiles.forms.cell_selection import cells_within, counts_of, spans_of
from sidelight.quantiles.forms.least_squares import UNCOUNTED, Round, agreed_counts, ranks_of


def fine_counts(
    ranks: Ranks, cells: Sequence[Cell], *, budget: Budget, source: Source
) -> PureCounts | ConcentratedCounts:
    """Release the rough counts of disjoint cells.

    Guarantee: a record of a cell pays a third of the budget, and all of it where its cell is refined. Which cells are
    must follow from released numbers.
    """
    if budget.kind == "epsilon":
        return PureCounts(ranks, cells, budget.amount, source)
    return ConcentratedCounts(ranks, cells, budget, source)


class PureCounts:
    """Rough counts with Laplace noise, of which the second look takes some away."""

    def __init__(self, ranks: Ranks, cells: Sequence[Cell], epsilon: Fraction, source: Source) -> None:
        self._counts = RefinableCounts(
            counts_of(ranks, cells), epsilon=epsilon, source=source, places=ranks, spans=spans_of(cells)
        )
        self.noisy = self._counts.rough
        self._variances = (2 / float(self._counts.rough_epsilon) ** 2, 2 / float(epsilon) ** 2)

    def rough(self, parents: Sequence[int]) -> Round:
        """Return the rough counts as a round."""
        return Round.of(self.noisy, self._variances[0], parents)

    def refined(self, flags: NDArray[np.bool_], parents: Sequence[int], source: Source) -> Round:
        """Return the counts of leaves without a flag with less noise, those with one as they are."""
        return Round.of(self._counts.refined(~flags), np.where(flags, *self._variances), parents)


class ConcentratedCounts:
    """Rough counts with Gaussian noise, which a second measurement makes more precise."""

    def __init__(self, ranks: Ranks, cells: Sequence[Cell], budget: Budget, source: Source) -> None:
        counts, self._ranks, self._spans = counts_of(ranks, cells), ranks, spans_of(cells)
        self._counts: NDArray[Any] = np.asarray(counts.value)
        self._like = counts
        rough = Fraction(1, REFINEMENT_RATIO)
        self._left: Budget | None = budget.part(1 - rough)
        noise = budget.part(rough).on(counts)
        with source.over(places=ranks, spans=self._spans):
            self.noisy = np.asarray(noise.release(source))
        self._variance = noise.deviation**2

    def rough(self, parents: Sequence[int]) -> Round:
        """Return the rough counts as a round."""
        return Round.of(self.noisy, self._variance, parents)

    def refined(self, flags: NDArray[np.bool_], parents: Sequence[int], source: Source) -> Round:
        """Return the counts of leaves without a flag with less noise, those with one as they are."""
        if self._left is None:
            raise RangeError("these counts were refined already; a second choice could pay for one record twice")
        left, self._left = self._left, None
        # Only the leaves without a flag are measured again: the records of the others keep what is left.
        counts = Bounded(
            self._counts[~flags], self._like.sensitivity, self._like.norm, self._like.neighbours, self._like.unit
        )
        noise = left.on(counts)
        first, second = self._variance, noise.deviation**2
        both = np.asarray(self.noisy, np.float64).copy()
        variances = np.full(both.shape, first)
        held = [span for span, flag in zip(self._spans, flags, strict=True) if not flag]
        with source.over(places=self._ranks, spans=held):
            again = np.asarray(noise.release(source), np.float64)
        both[~flags] = (both[~flags] * second + again * first) / (first + second)
        variances[~flags] = first * second / (first + second)
        return Round.of(both, variances, parents)


Floats = NDArray[np.float64]

#: A part is looked into again from this many deviations of the counts on that it would then have.
_WORTH = 8.0
#: And if it holds more than this many times what it was to, or its records would fill less than so much of it, were
#: they as dense as the neighbouring ones.
_FULL = 2.0
_FILLED = 0.5
#: Where it is cut, from its denser side on: in ways that hold its records if they are as dense as the neighbouring
#: ones.
_CUTS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.5)
#: Of the part, the last place where it is cut.
_LAST_CUT = 0.95
#: How many of a crowded part's records each of the first cells in it is to hold.
_QUARTER = 0.25


@dataclass(frozen=True, eq=False)
class Parts:
    """What was released on the way in a cell that was finished by points and counts."""

    points: tuple[int, ...]  # distinct fine indices, increasing: selected ones, and cuts of crowded parts
    rounds: tuple[Round, ...]  # counts of the parts between selected points and, if some were crowded, of all parts
    places: Floats  # the ends of parts, in the coordinates of interpolation: two more than points
    planned: Floats  # for each part about how many records it was to have, at most

    @property
    def widths(self) -> Floats:
        """How wide each part is."""
        return np.diff(self.places)

    @cached_property
    def counts(self) -> Floats:
        """The counts of the parts that the points cut the cell into, one more than points, by least squares."""
        return agreed_counts(self.rounds)[-1]

    @cached_property
    def deviations(self) -> Floats:
        """The deviation of the noise of each part's own count."""
        last = self.rounds[-1].variances
        if len(self.rounds) == 1:
            return np.sqrt(last)
        return np.sqrt(np.where(last < UNCOUNTED, last, self.rounds[0].variances[self.rounds[-1].parents]))


@dataclass(frozen=True, kw_only=True)
class Look:
    """What is public about a cell whose parts are counted."""

    cell: Cell
    points: Sequence[int]  # distinct fine indices of it, increasing
    levels: Sequence[float]  # the targets, relative to the cell's records
    planned: Callable[[Floats], Floats]  # from the ranks at the ends of parts to how many records each was to have
    forward: Callable[[Sequence[int]], Floats]  # the coordinates of fine indices in which places are interpolated
    back: Callable[[float], int]  # the fine index at such a coordinate


def count_parts(ranks: Ranks, look: Look, *, budget: Budget, source: Source) -> Parts:
    """Release the counts of the parts between points, and of those between further points where a part is crowded.

    Guarantee: `budget` for adding or removing one record of the cell. A record of a crowded part pays exactly a third
    of it for the rough count and the rest for a count inside the part; every other one is in a part that is refined.
    """
    cells = cells_within(look.cell, look.points)
    held = counts_of(ranks, cells)
    counts = fine_counts(ranks, cells, budget=budget, source=source)
    left = budget.part(1 - Fraction(1, REFINEMENT_RATIO))
    places = _places(look, look.points)
    cuts = _cuts(look, cells, places, np.asarray(counts.noisy, np.float64), left.on(held).deviation)
    crowded = np.array([bool(inside) for inside in cuts])
    first = counts.refined(crowded, (), source)
    planned = look.planned(ranks_of(first.counts))
    if not crowded.any():
        return Parts(tuple(look.points), (first,), places, planned)
    # From here on a record is in one part, and in one cell of it if that is crowded: the cells' ends are the part's.
    inner = [cells_within(cell, inside) for cell, inside in zip(cells, cuts, strict=True)]
    parents = np.repeat(np.arange(len(cells)), [len(each) for each in inner])
    within = [cell for each, some in zip(inner, crowded, strict=True) if some for cell in each]
    again = left.on(counts_of(ranks, within))
    with source.over(places=ranks, spans=spans_of(within)):
        second = Round.of(again.release(source), again.deviation**2).among(crowded[parents], parents)
    points = tuple(cell.first for each in inner for cell in each)[1:]
    to_hold = np.where(crowded, np.maximum(first.counts, 1.0) * _QUARTER, planned)
    return Parts(points, (first, second), _places(look, points), to_hold[parents])


def _places(look: Look, points: Sequence[int]) -> Floats:
    return look.forward((look.cell.first, *points, look.cell.last))


def _cuts(look: Look, cells: Sequence[Cell], places: Floats, rough: Floats, deviation: float) -> list[list[int]]:
    """Return for each part the points at which it is cut again: none if it is not crowded. Public post-processing."""
    ends = ranks_of(rough)
    wanted = np.clip(np.asarray(look.levels), 0.0, 1.0) * ends[-1]
    held = np.bincount(np.clip(np.searchsorted(ends, wanted, "right") - 1, 0, rough.size - 1), minlength=rough.size) > 0
    at = crowded_cuts(rough, places, look.planned(ends), held=held, deviation=deviation)
    found = []
    for cell, coordinates in zip(cells, at, strict=True):
        new = {look.back(each) for each in coordinates}
        found.append(sorted(index for index in new if cell.first < index < cell.last))
    return found


def crowded_cuts(
    counts: Floats, places: Floats, planned: Floats, *, held: NDArray[np.bool_], deviation: float
) -> list[list[float]]:
    """Return for each part where it is to be cut again: nowhere if its records may be taken to lie evenly in it.

    `planned` says how many records each part was to have, `held` whether it holds a target, `deviation` is that of the
    noise of a count inside it.

    >>> counts, places = np.array([0.0, 900.0, 800.0]), np.array([0.0, 50.0, 60.0, 68.0])
    >>> even = crowded_cuts(counts, places, np.full(3, 850.0), held=np.full(3, True), deviation=10.0)
    >>> edge = crowded_cuts(counts, places * [1, 0, 1, 1], np.full(3, 850.0), held=np.full(3, True), deviation=10.0)
    >>> even, edge[1]
    ([[], [], []], [57.75, 55.5, 53.25, 51.0, 46.5, 37.5])
    """
    found: list[list[float]] = []
    kept, widths = np.maximum(counts, 0.0), np.diff(places)
    for part, own in enumerate(kept.tolist()):
        width = float(widths[part])
        if not held[part] or own <= _WORTH * deviation or width <= 0:
            found.append([])
            continue
        below = _density(kept[:part][::-1], widths[:part][::-1], own)
        above = _density(kept[part + 1 :], widths[part + 1 :], own)
        densest = max(below, above)
        filled = own / densest if densest * width > own else width
        if own <= _FULL * planned[part] and filled >= _FILLED * width:
            found.append([])
            continue
        ways = [each * filled for each in _CUTS if each * filled <= _LAST_CUT * width]
        found.append([float(places[part + 1] - way if above >= below else places[part] + way) for way in ways])
    return found


def _density(counts: Floats, widths: Floats, enough: float) -> float:
    """Return the density of the parts on one side, the nearest first: of as many as hold half of what is enough."""
    if not counts.size:
        return 0.0
    sums = np.cumsum(counts)
    last = min(int(np.searchsorted(sums, enough / 2)), sums.size - 1)
    return float(sums[last]) / max(float(widths[: last + 1].sum()), 1e-300)
