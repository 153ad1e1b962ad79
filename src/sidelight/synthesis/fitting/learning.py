"""Learning the prediction and the number of rounds along a sequence of tables, by private online learning.

Theorem 6.4 of Khodak et al. (2023) with its privacy error corrected: replacing one record moves n·KL(x/n ‖ w) by up to
log(d/γ) + 1 + log n, not 2 log(d/γ), because the entropy of x moves, too (synthesis proof page, Theorem 7). Useful for
small domains and long sequences; otherwise start from `EarlierReleases`, which is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, log, log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.counts import SQRT2
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Claims, Neighbours, Person, Row, Unit, positive
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.mechanisms.budget import together
from sidelight.mechanisms.prefix_sums import PrefixSums
from sidelight.noise import Categorical, Source
from sidelight.predictions.learning.entropic import Entropic
from sidelight.predictions.learning.ftrl import DPFTRL
from sidelight.synthesis.cells.spaces import Floats

#: The learner keeps one number for each cell.
MOST_CELLS = 1 << 16
_SAMPLING_BITS = 40


def divergence_jump(*, cells: int, floor_weight: Amount, rows: int) -> Fraction:
    """Return B = log(d/γ) + 1 + log n, rounded up: how far replacing one record moves n·KL(x/n ‖ w), w ≥ γ/d.

    >>> round(float(divergence_jump(cells=2, floor_weight=1, rows=1000)), 6)
    8.600902
    """
    gamma = positive(floor_weight, name="floor_weight")
    return 1 + round_up(Interval.of(Fraction(cells) / gamma).log().upper) + round_up(Interval.of(rows).log().upper)


def scaled_divergence(counts: NDArray[Any], weights: Floats) -> float:
    """Return n·KL(x/n ‖ w) = Σ x log(x/(n w)).

    >>> scaled_divergence(np.array([2, 2]), np.array([0.5, 0.5]))
    0.0
    """
    x = np.asarray(counts, np.float64)
    inside, total = x > 0, float(x.sum())
    return float((x[inside] * np.log(x[inside] / (total * weights[inside]))).sum())


@dataclass(frozen=True, kw_only=True)
class PrivateStart:
    """Learn the start (w, m) of `engine="mwem"`: play it for table t, then learn from table t.

    Guarantee: `claims` for everything the learner ever shows, for replacing one record of one table, or, with a person
    as `unit`, all records of a person: at most `max_rows` in all tables together. It adds to the cost of the releases.
    Half of rho is for w, half for m. Of the loss of m only n·KL depends on records, one number a
    table, so one number is blurred instead of a vector over m: less noise than published at every m.

    Accuracy: the noise on w grows like cells/floor_weight.

    Args:
        cells: d, at least 2.
        steps: How many tables are learned from, at most.
        rows: The largest public number of rows of a table.
        queries: |Q|.
        release_epsilon: What each release spends.
        rho: The cost of the learner, for the whole sequence.
        floor_weight: γ; every cell keeps at least γ/d.
        failure_probability: β of the utility bound that m is learned for.
        unit: A record, or a person; whoever counts the tables keeps at most `max_rows` records of each person in all.
    """

    cells: int
    steps: int
    rows: int
    queries: int
    release_epsilon: float
    rho: Amount
    floor_weight: Amount = Fraction(1, 10)
    failure_probability: float = 0.05
    unit: Unit = Row()  # noqa: RUF009  # frozen, without fields

    def __post_init__(self) -> None:
        for name in ("cells", "steps", "rows", "queries"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < (2 if name == "cells" else 1):
                raise RangeError(
                    f"{name} must be a whole number of at least {2 if name == 'cells' else 1}, got {value}"
                )
        if self.cells > MOST_CELLS:
            raise RangeError(
                f"the private learner takes at most {MOST_CELLS} cells, got {self.cells}; "
                "learn from earlier releases instead, which is free"
            )
        gamma = positive(self.floor_weight, name="floor_weight")
        if gamma > 1 or not self.release_epsilon > 0 or not 0 < self.failure_probability < 1:
            raise RangeError("floor_weight lies in (0, 1], release_epsilon is positive, failure_probability in (0, 1)")
        object.__setattr__(self, "floor_weight", gamma)
        _ = self.claims

    @property
    def _records(self) -> int:
        """How many records a unit has in all tables together."""
        return self.unit.max_rows if isinstance(self.unit, Person) else 1

    @property
    def _gamma(self) -> Fraction:
        return positive(self.floor_weight, name="floor_weight")

    @cached_property
    def most_rounds(self) -> int:
        """M: the largest number of rounds that is considered."""
        if self.queries < 2:
            return 1
        divergence = log(self.cells / float(self._gamma))
        best = (self.release_epsilon**2 * self.rows**2 * divergence / (32 * log(self.queries) ** 2)) ** (1 / 3)
        return int(min(max(1, ceil(best)), self.queries))

    @cached_property
    def weight_learner(self) -> DPFTRL:
        """The learner of w: the gradient of n·KL(x/n ‖ w) is -x/w, moved by at most √2·d/γ by one record."""
        largest = Fraction(self.cells) / self._gamma
        norm, sensitivity = self.rows * largest, SQRT2 * largest
        fine = ceil(log2(100 * sqrt(self.cells) / float(sensitivity / norm)))
        sums = PrefixSums(
            steps=self.steps,
            size=self.cells,
            norm_bound=norm,
            rho=positive(self.rho, name="rho") / 2,
            sensitivity=sensitivity,
            participations=self._records,
            gradient_bits=min(max(fine, 20), 29),
            neighbours=Neighbours.REPLACE,
            unit=self.unit,
        )
        floor = float(self._gamma) / self.cells
        return DPFTRL(regulariser=Entropic(rows=1, bins=self.cells, floor=floor), sums=sums, lipschitz=float(norm))

    @cached_property
    def divergence_sums(self) -> PrefixSums:
        """The private running sum of n_t·KL_t."""
        return PrefixSums(
            steps=self.steps,
            size=1,
            norm_bound=self.rows * round_up(Interval.of(Fraction(self.cells) / self._gamma).log().upper),
            rho=positive(self.rho, name="rho") / 2,
            sensitivity=divergence_jump(cells=self.cells, floor_weight=self._gamma, rows=self.rows),
            participations=self._records,
            gradient_bits=29,
            neighbours=Neighbours.REPLACE,
            unit=self.unit,
        )

    @cached_property
    def claims(self) -> Claims:
        """What the whole sequence costs."""
        return together([(1, self.weight_learner.claims), (1, self.divergence_sums.claims)])

    def round_losses(self, divergences: float, tables: int) -> Floats:
        """Return the bound's loss of each m = 1..M, added up: 8·ΣnKL/m + Σ(32m²/(ε²n))(2 log|Q| + 3 log(2m/β))²."""
        m = np.arange(1, self.most_rounds + 1)
        tail = (2 * log(max(self.queries, 2)) + 3 * np.log(2 * m / self.failure_probability)) ** 2
        return np.asarray(8 * divergences / m + tables * 32 * m**2 / (self.release_epsilon**2 * self.rows) * tail)

    @cached_property
    def round_step(self) -> float:
        """η for m: √(log M / T) over the largest loss with its noise."""
        noise = 2 * self.divergence_sums.largest_deviation
        largest = float(self.round_losses(float(self.divergence_sums.quantiser.norm_bound) + noise, 1).max())
        return sqrt(log(max(self.most_rounds, 2)) / self.steps) / largest

    def start(self) -> PrivateStartRun:
        """Begin one sequence: uniform weights."""
        return PrivateStartRun(self)


class PrivateStartRun:
    """One sequence: take `weights` and `draw_rounds` for the next release, then `learn` its table."""

    __slots__ = ("_divergences", "_weights", "plan")

    def __init__(self, plan: PrivateStart) -> None:
        self.plan = plan
        self._weights = plan.weight_learner.start()
        self._divergences = plan.divergence_sums.start()

    @property
    def step(self) -> int:
        """How many tables were learned from."""
        return self._weights.step

    @property
    def weights(self) -> Floats:
        """The distribution to start from, each cell at least γ/d; private by the plan's claims."""
        return np.asarray(self._weights.parameters[0])

    @property
    def round_masses(self) -> Floats:
        """θ: the probability of each m = 1..M; private by the plan's claims."""
        losses = self.plan.round_losses(max(float(self._divergences.estimate[0]), 0.0), self.step)
        masses = np.exp(-self.plan.round_step * (losses - losses.min()))
        return np.asarray(masses / masses.sum())

    def draw_rounds(self, *, source: Source) -> int:
        """Draw m from θ."""
        weights = np.rint(self.round_masses * (1 << _SAMPLING_BITS)).astype(np.int64) + 1
        return 1 + Categorical(np.zeros(len(weights), np.int64), Fraction(1), weights).draw(source)

    def learn(self, counts: NDArray[np.integer], *, source: Source) -> None:
        """Learn from the exact counts of all cells of one table.

        The number of rows is public where a record is replaced, so a table with more than the plan's is refused.
        """
        x = np.asarray(counts, np.float64).reshape(-1)
        if len(x) != self.plan.cells:
            raise RangeError(f"this learner takes counts of {self.plan.cells} cells, got {len(x)}")
        if float(x.sum()) > self.plan.rows:
            raise RangeError(f"the table has more than the {self.plan.rows} rows that the sensitivity was computed for")
        weights = self.weights
        self._divergences.add([scaled_divergence(x, weights)], source=source)
        self._weights.learn(-(x / weights)[None, :], source=source)
