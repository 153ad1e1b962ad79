"""`PubTrack`: count a day's rows in cells that earlier releases predict, and read its quantiles off the counts.

A tree of selections divides the budget among its depths. Where earlier days say about where the quantiles lie, the rows
can be counted in cells between those places instead: a row is in one cell, so that every count has the whole budget.
The counts have noise of known size, and are weighed against what was expected of the day: post-processing.
"""

from __future__ import annotations

import datetime
import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError
from sidelight.grid import Outcomes, exact_position
from sidelight.guarantees import Claims, Neighbours, Row, Unit
from sidelight.guarantees.amounts import whole
from sidelight.guarantees.claim_sets import for_unit
from sidelight.guarantees.units import rows_of_unit
from sidelight.mechanisms.additive import Noise, in_int64
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.predictions import Laplace, Origin, Prior, hedge, own_prior
from sidelight.predictions.compiled import finite
from sidelight.predictions.mixture import text_of, texts_of
from sidelight.quantiles.forms.cell_selection import cells_between, counts_of, index_at_or_below
from sidelight.quantiles.outcomes import default_prior
from sidelight.quantiles.sequence.curve import CountedCells, CurveState, knots_of
from sidelight.quantiles.sequence.recursive_regression import Floats
from sidelight.records import Number
from sidelight.release import TailBound
from sidelight.session.query import Answer

#: Places of the curve are kept apart by this share of a step of the grid, and of their size where there are no steps.
_APART_STEP, _APART_SIZE = 1 / 64, 2.0**-40
#: Smaller noise, of a budget without privacy, is taken to be this large.
_LEAST_VARIANCE: Final = 1e-6
#: From this many rows times epsilon on, selections inside the cells beat interpolation between their counts.
_MOST_SIGNAL: Final = 600.0
#: And from this many of them beyond the outermost level on, the fewer the levels: a single one is selected without
#: dividing the budget (chosen on generated days of one, three and five levels, `benchmarks/daily_few_levels.py`).
_MOST_BEYOND, _BEYOND_A_DEPTH = 60.0, 7.5
#: A prior's scale stays a float that can be doubled.
_WIDEST_SCALE: Final = sys.float_info.max / 4


def check_features_and_memory(learner: Any) -> None:
    """Check how many features a frozen learner takes and over how many days it forgets, which becomes a float."""
    memory = finite(learner.memory, name="memory")
    features = whole(learner.features, name="features", least=0, advice="it is how many come with a day")
    object.__setattr__(learner, "features", features)
    if memory <= 1:
        raise RangeError(f"memory must be more than one day, got {memory}; 60 forgets over two months")
    object.__setattr__(learner, "memory", memory)


@dataclass(frozen=True, kw_only=True)
class PubTrack:
    """Count a day's rows in cells that the days before predict, and read its quantiles off the counts.

    The first day is selected, as any other query is; where few levels are asked for, it asks for more of the curve
    besides them, and is less accurate. From then on the rows of a day are counted in the cells between the quantiles
    that are expected of it, and the counts, whose noise is known, are drawn towards the expectation as far as the days
    before allow. A day that jumps out of its cells is less accurate, and so may be a few days after it.

    Guarantee: that of the query, day by day; a row is in one cell, so that counts with the whole budget cost just it.
    Learning is a function of released numbers, public features and public parameters, and costs nothing. Under a
    budget with delta, rho or mu give the query a price in rho: a day of counts priced in epsilon costs epsilon²/2
    there, and one of selections an eighth of epsilon² or less.

    Args:
        features: How many numbers come with every day, besides the weekday; best of the order of 1.
        weekdays: Whether the weekday is a feature; the day of a sequence is a date.
        memory: Over how many days the effects of features are forgotten.
        prediction: What is known before the first day: a prior, or one for each level; nothing if left out.
        hedge_weight: The share of that prior on days that are selected and not counted.

    >>> PubTrack(features=2).memory
    60.0
    """

    features: int = 0
    weekdays: bool = True
    memory: float = 60.0
    prediction: Prior | tuple[Prior, ...] | None = None
    hedge_weight: float = 0.1

    def __post_init__(self) -> None:
        check_features_and_memory(self)
        if not isinstance(self.weekdays, bool):
            raise RangeError(f"weekdays must be True or False, got {self.weekdays!r}")
        if isinstance(self.prediction, (list, tuple)):
            if not self.prediction:
                raise RangeError("prediction must be a prior such as sl.priors.Cauchy(10, 2), or one for each level")
            object.__setattr__(self, "prediction", tuple(own_prior(prior) for prior in self.prediction))
        elif self.prediction is not None:
            object.__setattr__(self, "prediction", own_prior(self.prediction))
        if isinstance(self.hedge_weight, str) or not 0 < self.hedge_weight < 1:
            raise RangeError(
                f"hedge_weight must lie in (0, 1), got {self.hedge_weight}; it is the robust prior's share"
            )

    def numbers_of(self, given: Floats, day: datetime.date) -> Floats:
        """Return the public features of a day: its weekday, one of seven, and those that were given.

        Args:
            given: The features that came with it.
            day: The day.
        """
        if not self.weekdays:
            return given
        return np.concatenate([[float(day.weekday() == each) for each in range(7)], given])

    @property
    def width(self) -> int:
        """How many features a day has in all."""
        return self.features + 7 * self.weekdays

    def to_json(self) -> dict[str, Any]:
        """Return the description that the digest of a plan covers."""
        several = self.prediction if isinstance(self.prediction, tuple) else (self.prediction,)
        return {
            "learner": "tracked",
            "features": str(self.features),
            "weekdays": str(self.weekdays),
            "memory": repr(self.memory),
            "prediction": [prior.to_json() for prior in several if prior is not None],
            "hedge_weight": repr(self.hedge_weight),
        }


@dataclass(frozen=True, kw_only=True)
class TrackPlan:
    """The counts of a sequence, for its levels, grid, unit and budget: their cost and where they lie, all public."""

    learner: PubTrack
    levels: tuple[Fraction, ...]
    grid: Outcomes
    budget: Budget
    unit: Unit
    number: Number

    def __post_init__(self) -> None:
        given = self.learner.prediction
        if isinstance(given, tuple) and len(given) != len(self.levels):
            raise RangeError(
                f"prediction has {len(given)} priors for {len(self.levels)} levels; give one for each, or one for all"
            )

    @cached_property
    def knots(self) -> tuple[Fraction, ...]:
        """The levels of the curve that is followed."""
        return knots_of(self.levels)

    @cached_property
    def asked(self) -> tuple[int, ...]:
        """Which of the knots are the levels, where all of those are knots."""
        return tuple(self.knots.index(level) for level in self.levels)

    @property
    def has_more_knots(self) -> bool:
        """Whether the curve has knots besides the levels: then a day without a curve asks for those, too."""
        return set(self.levels) < set(self.knots)

    @property
    def _row_budget(self) -> Budget:
        rows = rows_of_unit(self.unit)
        return self.budget.part(Fraction(1, rows if self.budget.is_pure else rows**2))

    def _noise(self, counts: Any) -> Noise:
        """Return the noise of counts of disjoint cells: one row moves one of them by one, in either norm."""
        bounded = Bounded(counts, Fraction(1), self._row_budget.norm, Neighbours.ADD_REMOVE, Row())
        return self._row_budget.on(bounded)

    @cached_property
    def claims(self) -> Claims:
        """What a day of counts costs someone in it."""
        row = self._noise(np.zeros(2, np.int64)).claims
        return for_unit(row, self.unit)

    @cached_property
    def variance(self) -> float:
        """The variance of the noise of a count."""
        return max(float(self._noise(np.zeros(2, np.int64)).deviation) ** 2, _LEAST_VARIANCE)

    def begin(self) -> CurveState:
        """Return the state before the first day."""
        return CurveState.begin(self.knots)

    def read(self, written: Mapping[str, Any]) -> CurveState:
        """Read a state that `to_json` wrote."""
        return self.begin().from_json(written, features=self.learner.width)

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """Where the grid ends."""
        low, high = (self._place(index) for index in (self.grid.fine_first, self.grid.fine_last))
        return low, high

    def _place(self, index: int) -> float:
        """Return where an index lies, to the nearest float: the last ones reach beyond them."""
        try:
            return float(exact_position(self.grid, index))
        except OverflowError:
            return math.copysign(sys.float_info.max, index)

    @property
    def _bounds(self) -> tuple[float, float]:
        """Where the column ends, where that is declared; else infinite."""
        low, high = self._ends
        return -math.inf if self.number.lower is None else low, math.inf if self.number.upper is None else high

    def curve(self, state: CurveState, features: Floats) -> Floats | None:
        """Return the curve that is expected of a day, its places apart from each other; None if there is none."""
        if state.lost or state.slow is None:
            return None
        low, high = self._ends
        with np.errstate(all="ignore"):
            curve = np.clip(state.expected(features), low, high)
        if not np.isfinite(curve).all():
            return None
        least = self._apart(float(np.abs(curve).max()))
        steps = least * np.arange(len(curve))
        curve = np.maximum.accumulate(curve - steps) + steps
        return np.asarray(np.minimum(curve, high - steps[::-1] - least))

    def _apart(self, size: float) -> float:
        """Return a distance that no values of interest have, near places of a size."""
        step = getattr(self.grid, "resolution", None)
        least = _APART_SIZE * size if step is None else _APART_STEP * float(step)
        return max(least, _APART_SIZE * size, np.finfo(float).tiny * 2.0**60)

    def _selects(self, rows: float) -> bool:
        """Return whether there are too many rows for counts: few levels are selected at little cost."""
        signal = rows * math.sqrt(2 / self.variance)
        outermost = float(min(min(level, 1 - level) for level in self.levels))
        depth = len(self.levels).bit_length()
        return signal > _MOST_SIGNAL or signal * outermost > min(_MOST_BEYOND, _BEYOND_A_DEPTH * depth**2)

    def points(self, state: CurveState, features: Floats) -> tuple[tuple[int, ...], int] | None:
        """Return the fine indices between which a day is counted, and how many lie below the curve; None if it is not.

        A function of released numbers: where there is no curve, or so many rows that selections are better, the day is
        released as its query says.
        """
        curve = self.curve(state, features)
        if curve is None or self._selects(state.rows):
            return None
        with np.errstate(over="ignore"):
            edges, below = state.edges(curve, self._bounds)
        edges = np.clip(edges, *self._ends)
        first, last = self.grid.fine_first, self.grid.fine_last
        indices = [index_at_or_below(self.grid, *float(edge).as_integer_ratio()) for edge in edges.tolist()]
        inside = [first < index < last for index in indices]
        on_curve = range(below, below + len(curve))
        if not all(inside[place] for place in on_curve):
            return None
        while below and not (inside[0] and indices[0] < indices[1]):
            indices, inside, below = indices[1:], inside[1:], below - 1
        while len(indices) > below + len(curve) and not (inside[-1] and indices[-2] < indices[-1]):
            indices, inside = indices[:-1], inside[:-1]
        if any(later <= earlier for earlier, later in itertools.pairwise(indices)):
            return None
        return tuple(indices), below

    def edges_of(self, points: Sequence[int]) -> Floats:
        """Return where the edges lie."""
        return np.array([self._place(index) for index in points])

    def count(self, ranks: Ranks, points: Sequence[int], source: Source) -> np.ndarray:
        """Release the counts of the cells between public points.

        Guarantee: `claims` for adding or removing one unit: the cells are disjoint and cover everything.
        """
        truth = counts_of(ranks, cells_between(self.grid, points)).value
        return in_int64(self._noise(truth).release(source))

    def answer(self, counts: np.ndarray, day: CountedDay) -> Answer:
        """Return a day's quantiles from its released counts: post-processing."""
        cells = self.cells_of(day.edges, day.below, counts)
        reading = day.state.read(day.features, cells, apart=self._apart(float(np.abs(day.edges).min())))
        levels = np.array([float(level) for level in self.levels])
        places = day.state.quantiles(reading, cells, levels)
        if not np.isfinite(places).all():  # a curve near the end of the floats: then what was expected
            knots = day.edges[day.below : day.below + len(self.knots)]
            places = np.interp(levels, [float(knot) for knot in self.knots], knots)
        found = (index_at_or_below(self.grid, *float(place).as_integer_ratio()) for place in places.tolist())
        indices = list(itertools.accumulate(found, max))
        return Answer(
            value=np.array([self.grid.value(index) for index in indices]),
            error=self._bound(np.searchsorted(day.points, indices, "right"), counts),
            details={
                "form": "counted",
                "edges": [float(edge).hex() for edge in day.edges],
                "edges_below": str(day.below),
                "counts": [str(count) for count in counts.tolist()],
                "count_deviation": f"{math.sqrt(self.variance):.6g}",
            },
        )

    def _bound(self, cells: NDArray[np.intp], counts: np.ndarray) -> TailBound:
        """Bound the gaps of values that lie in these cells."""
        from sidelight.quantiles.forms.count_noise import counted_bound  # days of trees do not load it

        return counted_bound(counts, self.variance, cells, self.levels, gaussian=not self.budget.is_pure)

    def cells_of(self, edges: Floats, below: int, counts: np.ndarray) -> CountedCells:
        """Return released counts with their edges."""
        return CountedCells(
            edges=edges, below=below, counts=np.asarray(counts, np.float64), variance=self.variance, ends=self._bounds
        )

    def learn(
        self, state: CurveState, features: Floats, value: Floats, details: Mapping[str, Any] | None
    ) -> CurveState:
        """Return the state after a released day: of its counts, or of its quantiles where it was not counted."""
        if details is not None and details.get("form") == "counted":
            edges = np.array([float.fromhex(text) for text in texts_of(details, "edges")])
            counts = np.array([float(text) for text in texts_of(details, "counts")])
            cells = self.cells_of(edges, int(text_of(details, "edges_below")), counts)
            return state.after_counts(features, cells, apart=self._apart(float(np.abs(edges).min())))
        levels, values = self.levels, np.asarray(value, np.float64)
        if details is not None and "curve" in details:
            levels = self.knots
            values = np.array([float.fromhex(text) for text in texts_of(details, "curve")])
        return state.after_values(
            features, np.array([float(level) for level in levels]), values, memory=self.learner.memory
        )

    def priors(self, state: CurveState, features: Floats, *, origin: Origin) -> tuple[Prior, ...] | None:
        """Return what is expected of a day, as priors of its levels; None if nothing but the guess is."""
        curve = self.curve(state, features)
        given = self.learner.prediction
        if curve is None:
            return None if given is None else given if isinstance(given, tuple) else (given,) * len(self.levels)
        levels, knots = ([float(level) for level in each] for each in (self.levels, self.knots))
        places, scales = (np.interp(levels, knots, each) for each in (curve, state.spread(curve)))
        resolution = float(getattr(self.grid, "resolution", 0) or np.spacing(np.abs(curve).max()))
        learned = [
            Laplace(place, min(max(scale, resolution), _WIDEST_SCALE), origin=origin)
            for place, scale in zip(places.tolist(), scales.tolist(), strict=True)
        ]
        robust = given if isinstance(given, tuple) else (given or default_prior(self.number),) * len(learned)
        return tuple(
            hedge(prior, with_=other, weight=self.learner.hedge_weight)
            for prior, other in zip(learned, robust, strict=True)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedDay:
    """One day that is counted: the state before it, its features, and where its cells lie. All public."""

    plan: TrackPlan
    state: CurveState
    features: Floats
    points: tuple[int, ...]
    below: int
    edges: Floats = field(repr=False)

    def take(self, ranks: Ranks, source: Source) -> Answer:
        """Count, and read the quantiles off the counts."""
        return self.plan.answer(self.plan.count(ranks, self.points, source), self)
