"""The curve through released points: where a rank lies between them.

A monotone cubic in logit(rank / N) against asinh((x - median) / half the quartile distance): straight for logistic
data, and for the tails of a power law. Points come as integers over one denominator and places go out as such, so that
no digits are lost far from zero. Post-processing of released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.grid import Outcomes
from sidelight.quantiles.forms.cell_selection import common_positions, index_at_or_below

Floats = NDArray[np.float64]


#: What the logarithms of the steepness of neighbouring cells of smooth data differ by at most.
_SMOOTH = np.log(3.0)
#: The largest such difference: cells of no records or of no width.
_MOST_STEP = 700.0
#: Powers of the rank with which places run towards an edge: from this one on it is taken for more than 1; the largest.
_LEAST_POWER, _MOST_POWER = 1.5, 4.0
#: Ratios of ranks beyond this, or below its reciprocal, are cut there: no power of them overflows.
_MOST_RATIO = 1e30


class Curve:
    """Ranks as an increasing function of place, through released points.

    Args:
        places: Numerators of the points' positions, increasing.
        ranks: The rank of each, not decreasing.
        total: N, the number of records as released; ranks are kept half a record from 0 and N.

    >>> curve = Curve([0, 100, 200, 300], [10, 40, 60, 90], 100)
    >>> curve.places_of([10, 50, 90, 99])
    [0, 150, 300, 300]
    """

    def __init__(self, places: Sequence[int], ranks: ArrayLike, total: float) -> None:
        kept = np.clip(np.asarray(ranks, np.float64), 0.5, max(total - 0.5, 0.5))
        self.places, self.ranks = _merged(places, kept)
        self.total = float(total)
        self._middle, self._scale = self._centre()
        self._cubic_points = self._fitted_cubic()

    @property
    def goes_on(self) -> bool:
        """Whether the curve can be continued beyond its outermost points."""
        return self._cubic_points is not None

    def places_of(self, ranks: ArrayLike, *, continued: bool = False) -> list[int]:
        """Return the place of each rank, rounded down; beyond the outermost points that point, or `continued`."""
        if not self.places:
            return [0] * np.size(ranks)
        if continued and self._cubic_points is not None:
            return self._continued(np.asarray(ranks, np.float64))
        asked = np.clip(np.asarray(ranks, np.float64), self.ranks[0], self.ranks[-1])
        if self._cubic_points is None:
            return [self._straight(rank) for rank in asked.tolist()]
        heights = _cubic(*self._cubic_points, _logit(asked, self.total))
        found = [self._middle + _product(self._scale, stretched) for stretched in np.sinh(heights).tolist()]
        cells = (np.searchsorted(self.ranks, asked, "right") - 1).tolist()
        return [
            self.places[cell]
            if rank == self.ranks[cell]  # a point is met exactly
            else min(max(place, self.places[cell]), self.places[cell + 1])
            for place, cell, rank in zip(found, cells, asked.tolist(), strict=True)
        ]

    def _continued(self, ranks: Floats) -> list[int]:
        assert self._cubic_points is not None
        x, y, _ = self._cubic_points
        at = _logit(np.clip(ranks, 0.5, max(self.total - 0.5, 0.5)), self.total)
        low = y[0] - (x[0] - at) * (y[1] - y[0]) / (x[1] - x[0])
        high = y[-1] + (at - x[-1]) * (y[-1] - y[-2]) / (x[-1] - x[-2])
        beyond = [self._middle + _product(self._scale, each) for each in np.sinh(np.clip([low, high], -690, 690)).flat]
        inside, several = self.places_of(ranks), len(ranks)
        return [
            beyond[i] if at[i] < x[0] else beyond[several + i] if at[i] > x[-1] else inside[i] for i in range(several)
        ]

    def unevenness(self, places: Sequence[int], ranks: ArrayLike) -> Floats:
        """Return for each cell between points how much its steepness differs from a neighbour's: 0 if smooth, up to 1.

        One minus three times the least ratio: at an edge or a gap of the data records lie anywhere in the cell.
        """
        found = self._steps(places, ranks)
        steps = np.full(max(np.size(ranks) - 2, 0), _MOST_STEP) if found is None else np.abs(found)
        beside = np.maximum(np.concatenate([[0.0], steps]), np.concatenate([steps, [0.0]]))[: np.size(ranks) - 1]
        return np.asarray(-np.expm1(-np.maximum(beside - _SMOOTH, 0.0)))

    def sparse(self, places: Sequence[int], ranks: ArrayLike) -> NDArray[np.int64]:
        """Return for each cell between points 1 if it is far less steep than the one below it, -1 above it, else 0.

        A gap begins in such a cell: it is the tail of what lies on that side of it. 0 for all where a point lies beyond
        the coordinates of the curve.
        """
        steps, count = self._steps(places, ranks), np.size(ranks) - 1
        if steps is None:
            return np.zeros(max(count, 0), np.int64)
        thins = np.concatenate([[0.0], -steps])[:count] > _SMOOTH
        thickens = np.concatenate([steps, [0.0]])[:count] > _SMOOTH
        return np.asarray(thins.astype(np.int64) - thickens)

    def _steps(self, places: Sequence[int], ranks: ArrayLike) -> Floats | None:
        """Return the growth of the log-steepness from cell to cell; None where a point lies beyond the coordinates."""
        kept = np.clip(np.asarray(ranks, np.float64), 0.5, max(self.total - 0.5, 0.5))
        if self._cubic_points is None or kept.size < 3:
            return np.zeros(max(kept.size - 2, 0))
        try:
            across = np.diff(self._heights(places))
        except OverflowError:  # points that share a rank were joined on the curve, and may lie further out alone
            return None
        along = np.diff(_logit(kept, self.total))
        with np.errstate(all="ignore"):  # cells of no records or of no width are infinitely uneven, or not at all
            apart = np.diff(np.log(along / across))
        return np.asarray(
            np.clip(np.nan_to_num(apart, nan=0.0, posinf=_MOST_STEP, neginf=-_MOST_STEP), -_MOST_STEP, _MOST_STEP)
        )

    def _centre(self) -> tuple[int, int]:
        if not self.places:
            return 0, 0
        low, middle, high = (self._straight(share * self.total) for share in (0.25, 0.5, 0.75))
        return middle, (high - low) // 2

    def _fitted_cubic(self) -> tuple[Floats, Floats, Floats] | None:
        """Return the cubic's points and slopes, or None where the curve is a chain of lines."""
        if len(self.places) < 2 or self._scale <= 0:
            return None
        try:
            ordinates = self._heights(self.places)
        except OverflowError:
            return None
        abscissas = _logit(self.ranks, self.total)
        if not (np.isfinite(ordinates).all() and np.isfinite(abscissas).all()):
            return None
        if not ((np.diff(abscissas) > 0).all() and (np.diff(ordinates) > 0).all() and abs(ordinates).max() < 700):
            return None
        return abscissas, ordinates, _slopes(abscissas, ordinates)

    def _heights(self, places: Sequence[int]) -> Floats:
        """Return asinh((x - middle) / scale) of places; the quotient of integers is correctly rounded, or overflows."""
        middle, scale = self._middle, self._scale
        return np.asarray(np.arcsinh([(place - middle) / scale for place in places]))

    def _straight(self, rank: float) -> int:
        """Return the place of a rank on the chain of lines."""
        if rank <= self.ranks[0]:
            return self.places[0]
        if rank >= self.ranks[-1]:
            return self.places[-1]
        cell = int(np.searchsorted(self.ranks, rank, "right")) - 1
        share = (rank - self.ranks[cell]) / (self.ranks[cell + 1] - self.ranks[cell])
        return self.places[cell] + _product(self.places[cell + 1] - self.places[cell], float(share))


def edge_power(distances: Sequence[int], ranks: ArrayLike) -> float:
    """Return the power of the rank from an edge with which places run towards it, by three points; 1 if that is less.

    Places are a + b · rank^power: at a hard edge with a density of any height the power is 1, where records grow denser
    towards it, as shares near 0 do, it is larger. `distances` are from the outermost point, `ranks` from the outer end.

    >>> edge_power([0, 3, 8], [1.0, 2.0, 3.0]), edge_power([0, 2, 3], [1.0, 2.0, 3.0])
    (2.0, 1.0)
    """
    found = np.asarray(ranks, np.float64).tolist()
    if len(found) < 3 or not 0 < found[0] < found[1] < found[2] or not 0 < distances[1] < distances[2]:
        return 1.0
    if distances[2] - distances[1] > distances[1] << 64:  # whole numbers of any size: their quotient may overflow
        return _MOST_POWER
    wanted = (distances[2] - distances[1]) / distances[1]
    near = math.log(max(found[0] / found[1], 1 / _MOST_RATIO))
    far = math.log(min(found[2] / found[1], _MOST_RATIO))
    low, high = 1.0, _MOST_POWER
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if math.expm1(middle * far) / -math.expm1(middle * near) < wanted else (low, middle)
    return round(high, 6) if high >= _LEAST_POWER else 1.0


def _merged(places: Sequence[int], ranks: Floats) -> tuple[list[int], Floats]:
    """Join points of one rank to their mean place, and points of one place to their mean rank.

    Points of the least or the largest rank lie beyond all records: the innermost of them says where these end.
    """
    if (np.diff(ranks) > 0).all() and all(low < high for low, high in pairwise(places)):
        return list(places), ranks
    by_rank = groupby(zip(places, ranks.tolist(), strict=True), key=lambda point: point[1])
    groups = [([place for place, _ in points], rank) for rank, points in by_rank]
    joined = [(sum(here) // len(here), rank) for here, rank in groups]
    if len(groups) > 1:
        joined[0], joined[-1] = (groups[0][0][-1], groups[0][1]), (groups[-1][0][0], groups[-1][1])
    out = []
    for place, points in groupby(joined, key=lambda point: point[0]):
        of_place = [rank for _, rank in points]
        out.append((place, sum(of_place) / len(of_place)))
    return [place for place, _ in out], np.array([rank for _, rank in out])


def monotone_cubic(x: Floats, y: Floats, at: Floats) -> Floats:
    """Return the monotone cubic through points of strictly increasing x; beyond them the outermost y."""
    if x.size < 2:
        return np.full(at.shape, y[0])
    largest = max(float(np.abs(y).max()), 1e-300)
    scaled = y / largest
    return np.clip(_cubic(x, scaled, _slopes(x, scaled), np.clip(at, x[0], x[-1])), -1.0, 1.0) * largest


def _slopes(x: Floats, y: Floats) -> Floats:
    """Return slopes with which the cubic between points never falls (Fritsch and Carlson, with harmonic means)."""
    width, rise = np.diff(x), np.diff(y)
    secants = rise / width
    if secants.size == 1:
        return np.repeat(secants, 2)
    left, right = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
    flat = secants[:-1] * secants[1:] <= 0
    with np.errstate(divide="ignore", over="ignore"):  # a slope of nearly nothing is none
        inner = np.where(flat, 0.0, (left + right) / (left / secants[:-1] + right / secants[1:]))
    first = _end_slope(width[0], width[1], secants[0], secants[1])
    last = _end_slope(width[-1], width[-2], secants[-1], secants[-2])
    return np.concatenate([[first], inner, [last]])


def _end_slope(near: float, far: float, secant: float, next_secant: float) -> float:
    slope = ((2 * near + far) * secant - near * next_secant) / (near + far)
    if slope * secant <= 0:
        return 0.0
    return float(min(slope / secant, 3.0) * secant)


def _cubic(x: Floats, y: Floats, slopes: Floats, at: Floats) -> Floats:
    """Return the Hermite cubic through points with slopes."""
    cell = np.clip(np.searchsorted(x, at, "right") - 1, 0, x.size - 2)
    width = x[cell + 1] - x[cell]
    t = np.clip((at - x[cell]) / width, 0.0, 1.0)
    u = 1 - t
    lower = y[cell] * (1 + 2 * t) + slopes[cell] * width * t
    upper = y[cell + 1] * (1 + 2 * u) - slopes[cell + 1] * width * u
    return np.asarray(u * u * lower + t * t * upper)


def _logit(ranks: Floats, total: float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(ranks / (total - ranks)))


def _product(whole: int, factor: float) -> int:
    """Return the floor of a product, exactly."""
    numerator, denominator = factor.as_integer_ratio()
    return whole * numerator // denominator


@dataclass(frozen=True, eq=False)
class Breakpoints:
    """Public points on a grid, and how many records lie below each of them.

    >>> from fractions import Fraction
    >>> from sidelight.grid import Grid
    >>> grid = Grid(resolution=Fraction(1), first=0, last=9)
    >>> breakpoints = Breakpoints(grid, (2, 6), np.array([0.0, 10.0, 30.0, 40.0]))
    >>> breakpoints.total, breakpoints.index_of(breakpoints.curve.places_of([20.0])[0])
    (40.0, 4)
    """

    grid: Outcomes
    points: tuple[int, ...]  # fine indices, distinct and increasing
    ends: Floats  # ranks at the grid's beginning, at every point, and at the grid's end: from 0 to N, not decreasing

    @property
    def total(self) -> float:
        """The number of records: N."""
        return float(self.ends[-1])

    @property
    def ranks(self) -> Floats:
        """The ranks at the points."""
        return self.ends[1:-1]

    @property
    def places(self) -> list[int]:
        """The points' positions, as integers over one denominator."""
        return self._common[0]

    @cached_property
    def curve(self) -> Curve:
        """The curve through the points, in these integers."""
        return Curve(self.places, self.ranks, self.total)

    def index_of(self, place: int) -> int:
        """Return the largest index of the grid that lies at a place or below it."""
        return index_at_or_below(self.grid, place, self._common[1])

    @cached_property
    def _common(self) -> tuple[list[int], int]:
        return common_positions(self.grid, self.points)
