"""What `PubTrack` knows of the days: the curve of their quantiles, how it moves, and how to read a day's noisy counts.

Everything here is a function of released numbers, public features and public parameters. The noise of released counts
is known, so that what a day says is weighed against what was expected of it: slow waves of the deviation (a shift, a
spread) by how far they have moved on earlier days, fast ones mostly dropped as noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np

from sidelight.errors import RangeError
from sidelight.predictions.mixture import text_of, texts_of
from sidelight.quantiles.sequence.recursive_regression import Floats, RecursiveRegression

#: Between levels that lie further apart, the curve gets points of its own; with more levels than this, fewer.
_WIDEST: Final = Fraction(3, 10)
_MOST_KNOTS: Final = 19
#: Cells beyond the curve end so far out, in its widths: a day that jumps is found again.
_OUTER: Final = np.array([0.6, 2.0, 6.0])
#: Over how many days the second expectation forgets, which knows no features.
_SHORT_MEMORY: Final = 4.0
#: Waves of the deviation that are estimated; those by which expectations are compared.
_WAVES: Final = 9
_COMPARED: Final = 3
#: The first guess of how far days move, as a share of the rows, for this many days; over how many it is learned.
_MOVES, _MOVES_DAYS, _MOVES_MEMORY = 0.1, 3.0, 40.0
_LEAST_MOVES: Final = 0.003
#: A deviation this many times its expected square is kept instead of shrunk.
_SURPRISE: Final = 6.0
#: What counts in a day of an expectation's mistake, and over how many days it is remembered.
_WORST_MISTAKE, _MISTAKES_MEMORY, _FORGOTTEN = 9.0, 60.0, -12.0
#: On days that are selected rows are not counted: after some of them, a day is counted again to see.
_ROWS_FADE: Final = 0.9
#: How far the number of rows moves from day to day, of itself; and a number below which that is not asked.
_ROWS_MOVE, _FEW_CELLS_OF_NOISE = 0.3, 20.0
#: Counts beyond the curve that are this many deviations off are used; over how many days their mean is taken.
_OUTER_DEVIATIONS, _OUTER_MEMORY = 4.0, 60.0
#: If this share of the rows lies beyond the last edge, the curve is lost.
_LOST_SHARE: Final = 0.25
#: If a day is this many times wider than expected, or narrower, the curve begins anew.
_NEW_SCALE: Final = 4.0
#: Counts this many deviations off what was expected, all together, are no noise.
_SURE_DEVIATIONS: Final = 6.0
#: From so much surprise on, what was expected is moved to what was measured.
_JUMP: Final = 30.0
#: If this share of the rows lies in one cell, the curve is looked for inside it, at places of every scale.
_HEAVY_SHARE: Final = 0.7
#: Beyond this many typical distances of its knots from its middle, a curve is interpolated by factors.
_LINEAR_REACH: Final = 4.0


def knots_of(levels: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the levels at which a curve is followed: those asked for, more in wide gaps, a choice of very many.

    >>> [str(level) for level in knots_of([Fraction(1, 2)])]
    ['1/4', '1/2', '3/4']
    """
    chosen = list(levels)
    if len(chosen) > _MOST_KNOTS:
        places = np.linspace(0, len(chosen) - 1, _MOST_KNOTS).round().astype(int).tolist()
        chosen = [chosen[place] for place in places]
    waiting = [Fraction(0), *chosen, Fraction(1)]
    found = [waiting.pop(0)]
    while waiting:
        if waiting[0] - found[-1] > _WIDEST:
            waiting.insert(0, (found[-1] + waiting[0]) / 2)
        else:
            found.append(waiting.pop(0))
    return tuple(found[1:-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedCells:
    """A day's cells and their noisy counts, as released: edges below the curve, on it, and above it."""

    edges: Floats
    below: int  # so many edges lie below the curve
    counts: Floats  # one more than edges
    variance: float  # of the noise of each
    ends: tuple[float, float]  # of the column, where they are declared; else infinite


@dataclass(frozen=True, kw_only=True, eq=False)
class DayReading:
    """What a day's counts say, together with what was expected."""

    shares: Floats  # of the rows below each edge, drawn towards the expectation
    measured: Floats  # the curve as the counts alone have it
    surprise: float  # the sum of the first waves' squares, each of which is 1 on an expected day
    surely_off: bool  # whether no noise is so large
    mistakes: Floats  # of each expectation, per wave, in deviations squared
    moves: Floats
    rows: float
    outer: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class CurveState:
    """The curve: two expectations of it (by features and slowly; by the last days), and how far it moves."""

    levels: Floats  # the knots
    slow: RecursiveRegression | None = None  # None before the first curve
    fast: RecursiveRegression | None = None
    mistakes: Floats  # of each expectation: what its weight comes from
    moves: Floats  # the variance of each wave, in shares of the rows
    moves_days: float = _MOVES_DAYS
    rows: float = 0.0  # 0 before the first count
    outer: Floats  # the share of the rows in each outer cell, from the curve outwards: below, above
    outer_days: float = 0.0
    lost: bool = True

    @classmethod
    def begin(cls, levels: Sequence[Fraction]) -> CurveState:
        """Return the state that has seen nothing."""
        waves = np.arange(1, min(len(levels), _WAVES) + 1)
        return cls(
            levels=np.array([float(level) for level in levels]),
            mistakes=np.zeros(2),
            moves=_MOVES**2 / waves**2,
            outer=np.zeros((2, len(_OUTER))),
        )

    # --- what is expected ---------------------------------------------------------------------------------------------

    def expected(self, features: Floats) -> Floats:
        """Return the curve that is expected of a day: increasing, not yet apart."""
        return np.maximum.accumulate(self._weights @ self._expectations(features))

    def spread(self, curve: Floats) -> Floats:
        """Return how far a day is typically off, on the scale of the values."""
        waves = self._waves
        return np.asarray(np.sqrt((waves**2 * self.moves).sum(axis=1)) * self._slopes(curve))

    def edges(self, curve: Floats, ends: tuple[float, float]) -> tuple[Floats, int]:
        """Return the edges of a day's cells around a curve and within ends, and how many lie below the curve."""
        width = curve[-1] - curve[0]
        halves = 1 - 0.5 ** np.arange(1, len(_OUTER) + 1)  # near an end of the column half of the way, and again
        below = np.minimum(width * _OUTER, (curve[0] - ends[0]) * halves)
        above = np.minimum(width * _OUTER, (ends[1] - curve[-1]) * halves)
        return np.concatenate([curve[0] - below[::-1], curve, curve[-1] + above]), len(_OUTER)

    def _expectations(self, features: Floats) -> Floats:
        assert self.slow is not None
        assert self.fast is not None
        return np.array([self.slow.predict(features), self.fast.predict(features[:0])])

    @property
    def _weights(self) -> Floats:
        weights = np.exp(self.mistakes - self.mistakes.max())
        return np.asarray(weights / weights.sum())

    @cached_property
    def _waves(self) -> Floats:
        """Sine waves over the levels: those in which chance, Laplace noise and movements are nearly uncorrelated."""
        return np.sin(np.pi * np.outer(self.levels, np.arange(1, len(self.moves) + 1)))

    @cached_property
    def _analysis(self) -> Floats:
        """The matrix that reads the waves off a deviation."""
        ends = np.concatenate([[0.0], self.levels, [1.0]])
        return np.asarray((ends[2:] - ends[:-2])[:, None] * self._waves).T

    def _slopes(self, curve: Floats) -> Floats:
        if len(curve) == 1:  # knots are at least two: gaps of at most 0.3
            return np.ones(1)
        return np.asarray(np.maximum(np.gradient(curve, self.levels), np.finfo(float).tiny))

    # --- what a day says ----------------------------------------------------------------------------------------------

    @np.errstate(all="ignore")
    def read(self, features: Floats, cells: CountedCells, *, apart: float) -> DayReading:
        """Weigh a day's counts against what was expected of it."""
        knots, low = len(self.levels), cells.below
        rows = self._rows(cells)
        counts, variances, outer = self._with_outer(cells, rows)
        inside = np.arange(len(counts)) <= (low + np.arange(knots))[:, None]
        contrasts = inside - self.levels[:, None]  # of the rows below a knot: how many are too many
        off = contrasts @ counts / rows
        noise = (contrasts * variances) @ contrasts.T / rows**2
        chance = (np.minimum.outer(self.levels, self.levels) - np.outer(self.levels, self.levels)) / rows
        waves = self._analysis @ off
        of_noise = np.diag(self._analysis @ noise @ self._analysis.T)
        of_chance = np.diag(self._analysis @ chance @ self._analysis.T)
        moves = np.maximum(self.moves, waves**2 / _SURPRISE - of_noise)
        moved = (self._waves * moves) @ self._waves.T + chance
        drawn = moved @ np.linalg.solve(moved + noise, off)
        days = min(self.moves_days + 1, _MOVES_MEMORY)
        seen = np.minimum(waves**2, 9 * (self.moves + of_noise)) - of_noise - of_chance
        least = (_LEAST_MOVES / np.arange(1, len(self.moves) + 1)) ** 2
        curve = cells.edges[low : low + knots]
        measured = _inverted(self._shares(cells, counts, off, rows), cells, self.levels, curve=curve)
        sure = float(off @ np.linalg.solve(noise + chance, off))
        mistaken = (measured - self._expectations(features)) / self._slopes(curve)
        usual = (self.moves + of_noise)[:_COMPARED]
        squares = (mistaken @ self._analysis.T)[:, :_COMPARED] ** 2 / usual
        return DayReading(
            shares=self._shares(cells, counts, drawn, rows),
            measured=self._inside_heavy(cells, rows, measured, apart=apart),
            surprise=float((waves[:_COMPARED] ** 2 / usual).sum()),
            surely_off=bool(sure > knots + _SURE_DEVIATIONS * np.sqrt(2 * knots)),
            mistakes=-0.5 * np.minimum(squares, _WORST_MISTAKE).sum(axis=1),
            moves=np.maximum(self.moves + (seen - self.moves) / days, least),
            rows=rows,
            outer=outer,
        )

    def quantiles(self, reading: DayReading, cells: CountedCells, levels: Floats) -> Floats:
        """Return the quantiles of the day at some levels, within the ends of the column."""
        curve = cells.edges[cells.below : cells.below + len(self.levels)]
        return _inverted(reading.shares, cells, levels, curve=curve)

    def _inside_heavy(self, cells: CountedCells, rows: float, measured: Floats, *, apart: float) -> Floats:
        """Return the measured curve; where one wide cell has nearly all rows, places of every scale inside it."""
        place = int(np.argmax(cells.counts))
        low, high = (np.concatenate([[cells.ends[0]], cells.edges, [cells.ends[1]]])[place + i] for i in (0, 1))
        surely = (cells.counts[place] - 3 * np.sqrt(cells.variance)) / rows
        if surely < _HEAVY_SHARE or not 1024 * apart <= high - low < np.inf:
            return measured
        ends = np.arcsinh(np.clip(np.array([low, high]) / apart, -1e300, 1e300))
        return np.asarray(np.clip(np.sinh(ends[0] + (ends[1] - ends[0]) * self.levels) * apart, low, high))

    def _rows(self, cells: CountedCells) -> float:
        """Return the number of rows of a day: its total, drawn towards that of the day before."""
        total, noise = float(cells.counts.sum()), len(cells.counts) * cells.variance
        least = _FEW_CELLS_OF_NOISE * math.sqrt(cells.variance / 2)
        if self.rows == 0:
            return max(total, least)
        moved = (_ROWS_MOVE * max(self.rows, least)) ** 2
        return max(self.rows + moved / (moved + noise) * (total - self.rows), least / 10)

    def _with_outer(self, cells: CountedCells, rows: float) -> tuple[Floats, Floats, Floats]:
        """Return counts and variances, outer counts replaced by their means unless they are far off; the new means."""
        counts, variances = cells.counts.astype(np.float64), np.full(len(cells.counts), cells.variance)
        above = len(cells.edges) - cells.below - len(self.levels)
        outer, days = self.outer.copy(), min(self.outer_days + 1, _OUTER_MEMORY)
        sides = (
            (0, [cells.below - 1 - i for i in range(cells.below)]),
            (1, [len(counts) - above + i for i in range(above)]),
        )
        for side, places in sides:
            for i, place in enumerate(places):
                usual, seen = self.outer[side, i] * rows, counts[place]
                if abs(seen - usual) <= _OUTER_DEVIATIONS * np.sqrt(cells.variance):
                    counts[place], variances[place] = usual, cells.variance / (1 + self.outer_days)
                outer[side, i] = min(max(outer[side, i] + (seen / rows - outer[side, i]) / (days + 2), 0.0), 1.0)
        return counts, variances, outer

    def _shares(self, cells: CountedCells, counts: Floats, off: Floats, rows: float) -> Floats:
        """Return the share of the rows below each edge, when those of the knots are so far off: it never falls."""
        low, knots = cells.below, len(self.levels)
        under = np.cumsum(counts[:low]) / rows
        over = 1 - np.cumsum(counts[low + knots + 1 :][::-1])[::-1] / rows
        return np.clip(np.maximum.accumulate(np.concatenate([under, self.levels + off, over])), 0, 1)

    # --- learning -----------------------------------------------------------------------------------------------------

    @np.errstate(all="ignore")
    def after_counts(self, features: Floats, cells: CountedCells, *, apart: float) -> CurveState:
        """Return the state after a day of counts; `apart` is a distance that no values of interest have."""
        assert self.slow is not None
        assert self.fast is not None
        found = self.read(features, cells, apart=apart)
        beyond = (found.shares[0], 1 - found.shares[-1])
        if max([share for share, end in zip(beyond, cells.ends, strict=True) if np.isinf(end)] or [0]) > _LOST_SHARE:
            return replace(self, rows=found.rows, lost=True)
        slow, fast = self.slow, self.fast
        curve = cells.edges[cells.below : cells.below + len(self.levels)]
        widths = float(curve[-1] - curve[0]), float(found.measured[-1] - found.measured[0])
        if found.surely_off and max(widths) > _NEW_SCALE * min(
            widths
        ):  # nothing that was learned on the old scale is of use on the new one
            return self._begun(features, found.measured, memory=slow.memory, rows=found.rows)
        if found.surprise > _JUMP:  # a jump: the effects of features stay, and everything is moved
            slow = replace(slow, start=slow.start + found.measured - slow.predict(features))
            fast = replace(fast, start=fast.start + found.measured - fast.predict(features[:0]))
        mistakes = (1 - 1 / _MISTAKES_MEMORY) * self.mistakes + found.mistakes
        moved = replace(
            self,
            slow=slow.learn(features, found.measured),
            fast=fast.learn(features[:0], found.measured),
            mistakes=np.maximum(mistakes - mistakes.max(), _FORGOTTEN),
            moves=found.moves,
            moves_days=min(self.moves_days + 1, _MOVES_MEMORY),
            rows=found.rows,
            outer=found.outer,
            outer_days=min(self.outer_days + 1, _OUTER_MEMORY),
        )
        return moved if moved._is_finite else replace(self, lost=True)

    @np.errstate(all="ignore")
    def after_values(self, features: Floats, levels: Floats, values: Floats, *, memory: float) -> CurveState:
        """Return the state after a day whose quantiles were released without counts."""
        if self.slow is None or self.fast is None or self.lost:
            curve = np.maximum.accumulate(np.interp(self.levels, levels, values))
            return self._begun(features, curve, memory=memory, rows=self.rows)
        curve = self.expected(features)
        off = values - np.interp(levels, self.levels, curve)
        found = curve + np.interp(self.levels, levels, off)
        slow, fast = self.slow.learn(features, found), self.fast.learn(features[:0], found)
        moved = replace(self, slow=slow, fast=fast, rows=_ROWS_FADE * self.rows)
        return moved if moved._is_finite else replace(self, lost=True)

    def _begun(self, features: Floats, curve: Floats, *, memory: float, rows: float) -> CurveState:
        """Return the state that begins with a curve."""
        scale = np.full(len(curve), max(float(curve[-1] - curve[0]) / 4, np.finfo(float).tiny))
        begun = replace(
            CurveState.begin(self.levels.tolist()),
            slow=RecursiveRegression.begin(curve, scale, features=len(features), memory=memory),
            fast=RecursiveRegression.begin(curve, scale, features=0, memory=_SHORT_MEMORY),
            rows=rows,
            lost=False,
        )
        return begun if begun._is_finite else replace(self, lost=True)

    @property
    def _is_finite(self) -> bool:
        """Whether nothing has left the floats: a curve near their end is lost, and found again or not."""
        fits = [fit for fit in (self.slow, self.fast) if fit is not None]
        arrays = [
            self.moves,
            self.mistakes,
            self.outer,
            *(part for fit in fits for part in (fit.start, fit.coefficients)),
        ]
        return all(bool(np.isfinite(each).all()) for each in arrays)

    # --- the file next to the ledger ----------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the state in exact text."""
        numbers = {"moves_days": self.moves_days, "rows": self.rows, "outer_days": self.outer_days}
        arrays = {"mistakes": self.mistakes, "moves": self.moves, "outer": self.outer.ravel()}
        return {
            **{name: float(value).hex() for name, value in numbers.items()},
            **{name: [float(value).hex() for value in array] for name, array in arrays.items()},
            "lost": str(self.lost),
            "slow": None if self.slow is None else self.slow.to_json(),
            "fast": None if self.fast is None else self.fast.to_json(),
        }

    def from_json(self, written: Mapping[str, Any], *, features: int) -> CurveState:
        """Read what `to_json` wrote of a state with these levels."""

        def array(name: str, shape: tuple[int, ...]) -> Floats:
            found = np.array([float.fromhex(text) for text in texts_of(written, name)])
            if found.size != int(np.prod(shape)):
                raise RangeError(f"the stored {name} have {found.size} numbers, the plan wants {int(np.prod(shape))}")
            return found.reshape(shape)

        def fit(name: str, width: int) -> RecursiveRegression | None:
            stored = written[name]
            if stored is None:
                return None
            return RecursiveRegression.from_json(stored, outputs=len(self.levels), features=width)

        numbers = {name: float.fromhex(text_of(written, name)) for name in ("moves_days", "rows", "outer_days")}
        return replace(
            self,
            mistakes=array("mistakes", (2,)),
            moves=array("moves", self.moves.shape),
            outer=array("outer", self.outer.shape),
            lost=text_of(written, "lost") == "True",
            slow=fit("slow", features),
            fast=fit("fast", 0),
            **numbers,  # type: ignore[arg-type]
        )


def _inverted(shares: Floats, cells: CountedCells, levels: Floats, *, curve: Floats) -> Floats:
    """Return where levels lie between edges: evenly inside a cell, and by factors in one that is very wide."""
    edges, (low, high) = cells.edges, cells.ends
    if np.isfinite(low) and low < edges[0]:
        shares, edges = np.append(0.0, shares), np.append(low, edges)
    if np.isfinite(high) and high > edges[-1]:
        shares, edges = np.append(shares, 1.0), np.append(edges, high)
    rising = shares + 1e-9 * np.arange(len(shares))  # equal shares: any place between is right, take the first
    with np.errstate(all="ignore"):  # curves near the end of the floats
        middle = float(np.median(curve))
        reach = _LINEAR_REACH * max(float(np.median(np.diff(curve))), np.finfo(float).tiny)
        places = np.arcsinh(np.clip((edges - middle) / reach, -1e300, 1e300))
        found = middle + reach * np.sinh(np.interp(levels, rising, places))
    return np.asarray(np.clip(found, edges[0], edges[-1]))
