"""`PrivateHistograms`: learn from the days' records where their quantiles lie, and pay for it every day.

Use `sl.PubTrack` instead: it learns from what is released anyway, for nothing, and is more accurate. Here a day's
release holds, besides the quantiles, one private gradient of how well the day's priors would have served its records.
The sum of the released gradients, turned into exponential weights, is tomorrow's prior. Everything that is kept between
days was released: nothing secret is stored, and nothing is resumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np

from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError
from sidelight.grid import Outcomes
from sidelight.guarantees import Amount, Claims, Unit, positive
from sidelight.guarantees.amounts import decimal_text, whole
from sidelight.mechanisms.prefix_sums import PrefixSumRun, PrefixSums
from sidelight.noise import Source
from sidelight.predictions import Histogram, Origin, Prior
from sidelight.predictions.compiled import finite
from sidelight.predictions.mixture import text_of, texts_of
from sidelight.published.histogram_loss import (
    bin_weights,
    exponential_weights,
    gradient_bound,
    gradient_sensitivity,
    histogram_loss,
)
from sidelight.published.released_learners import Floats, check_guesses, first_guess
from sidelight.quantiles.prepared import PreparedQuantiles
from sidelight.quantiles.tree import QuantileTree
from sidelight.records import Schema

#: Public points of a bin whose ranks are looked at.
POINTS: Final = 8
#: Beyond these, noise or gradients would leave the floats.
_AMOUNTS: Final = {
    "rho": (Fraction(1, 10**12), Fraction(10**12)),
    "floor_weight": (Fraction(1, 10**6), Fraction(1)),
}
#: The error analysis of the gradient holds for this many bins, and entries of a gradient.
_MOST_BINS, _MOST_ENTRIES = 2**12, 2**20


@dataclass(frozen=True)
class PrivateHistograms:
    """Learn one histogram prior for each level from the records themselves, by a private gradient every day.

    Guarantee: GDP with mu^2 = 2 rho of every day's gradient for someone in that day, which the day is charged besides
    its quantiles (learning proof page, Theorem 5). No pure budget can pay for it: it needs ApproxDP, ZCDP or GDP.

    Accuracy: it learns from records and not from its own releases, so a wrong prediction cannot confirm itself; but the
    gradients are noisy, and `PubProx`, which is free, is usually better (how-to page, with numbers). It takes no
    features and forgets nothing, so it is for what stays where it is.

    Args:
        lower: Where the first bin begins; public. Records beyond the bins count with their rank.
        upper: Where the last bin ends.
        rho: What learning adds to the price of a day.
        bins: How many bins of equal width; the noise of a gradient grows with them.
        floor_weight: The share of every prior that stays uniform over the bins; less of it means more noise.
        boldness: How fast the priors follow the gradients; at 1 noise alone moves a log-probability by about 1.
        run_days: How many days one process releases in a row, such as a backlog. Within a run the noise of the sum is
            far smaller than that of separate days, if `days_per_person` is declared and small; a run that ends early
            costs accuracy and never privacy.
        hedge_weight: The share of the robust prior, which also covers what lies beyond the bins.
        fallback: The robust prior; by default a Cauchy prior about as wide as the bins.

    >>> PrivateHistograms(0, 120, rho="0.01").bins
    24
    """

    lower: float
    upper: float
    rho: Amount = field(kw_only=True)
    bins: int = field(default=24, kw_only=True)
    floor_weight: Amount = field(default=Fraction(1, 2), kw_only=True)
    boldness: float = field(default=4.0, kw_only=True)
    run_days: int = field(default=1, kw_only=True)
    hedge_weight: float = field(default=0.1, kw_only=True)
    fallback: Prior | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        low, high = (finite(getattr(self, name), name=name) for name in ("lower", "upper"))
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)
        for name, least, most in (("bins", 2, _MOST_BINS), ("run_days", 1, 2**18)):
            object.__setattr__(self, name, whole(getattr(self, name), name=name, least=least, most=most))
        if not math.isfinite(high - low) or not (np.diff(self.edges) > 0).all():
            raise RangeError(f"lower and upper must lie {self.bins} bins apart, got {low}..{high}")
        for name, (smallest, largest) in _AMOUNTS.items():
            amount = positive(getattr(self, name), name=name)
            if not smallest <= amount <= largest:
                raise RangeError(f"{name} must lie between {float(smallest):g} and {float(largest):g}, got another")
            object.__setattr__(self, name, amount)
        if not finite(self.boldness, name="boldness") > 0:
            raise RangeError(f"boldness must be positive, got {self.boldness}")
        check_guesses(self)

    @property
    def location(self) -> float:
        """The middle of the bins: where the robust prior is centred."""
        return self.lower / 2 + self.upper / 2

    @property
    def scale(self) -> float:
        """A quarter of their width: the scale of the robust prior."""
        return (self.upper - self.lower) / 4

    @property
    def edges(self) -> Floats:
        """The public edges of the bins."""
        return np.linspace(self.lower, self.upper, self.bins + 1)

    @property
    def _floor_weight(self) -> Fraction:
        return positive(self.floor_weight, name="floor_weight")

    def begin(self, levels: int, *, granularity: float) -> LearnedHistograms:
        """Return the state before the first day: uniform priors."""
        del granularity
        return LearnedHistograms(sums=np.zeros((levels, self.bins)))

    def read(self, written: Mapping[str, Any], levels: int, *, granularity: float) -> LearnedHistograms:
        """Read a state that `to_json` wrote."""
        del granularity
        sums = np.array([float.fromhex(text) for text in texts_of(written, "sums")])
        variance, days = float.fromhex(text_of(written, "variance")), int(text_of(written, "days"))
        return LearnedHistograms(sums=sums.reshape(levels, self.bins), variance=variance, days=days)

    def masses(self, learned: LearnedHistograms) -> Floats:
        """Return the rows of the priors: a function of released gradients and public numbers."""
        spread = math.sqrt(learned.variance + self.bins**2 * max(learned.days, 1))
        return exponential_weights(
            learned.sums, step_size=self.boldness / spread, floor=float(self._floor_weight) / self.bins
        )

    def priors(
        self, learned: LearnedHistograms, features: Floats, *, origin: Origin, nonnegative: bool
    ) -> tuple[Prior, ...]:
        """Return one hedged histogram prior a level."""
        del features
        edges = self.edges.tolist()
        found = [Histogram(edges, row.tolist(), origin=origin) for row in self.masses(learned)]
        return first_guess(self).hedged(found, nonnegative=nonnegative)

    def gradient_plan(self, bare: PreparedQuantiles, schema: Schema, days_per_person: int | None) -> GradientPlan:
        """Return the private gradients of a sequence; its public work is done here."""
        plan = GradientPlan(
            learner=self,
            tree=bare.tree,
            grid=bare.grid,
            unit=schema.unit,
            rows_per_unit=schema.rows_per_unit,
            days_per_person=days_per_person,
        )
        _ = plan.sums, plan.points
        return plan

    def to_json(self) -> dict[str, Any]:
        """Return the description that the digest of a plan covers."""
        return {
            "learner": "private_histograms",
            **first_guess(self).to_json(),
            "lower": repr(self.lower),
            "upper": repr(self.upper),
            "rho": decimal_text(positive(self.rho, name="rho")),
            "bins": str(self.bins),
            "floor_weight": decimal_text(self._floor_weight),
            "boldness": repr(self.boldness),
            "run_days": str(self.run_days),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedHistograms:
    """The sum of the released gradients, and the variance of the noise in each entry of it."""

    sums: Floats
    variance: float = 0.0
    days: int = 0

    def learn(self, features: Floats, released: Mapping[str, Any]) -> LearnedHistograms:
        """Return the state after a release."""
        del features
        return LearnedHistograms(
            sums=self.sums + np.asarray(released["gradient"], dtype=np.float64),
            variance=self.variance + float(released["gradient_variance"]),
            days=self.days + 1,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the state in exact text."""
        return {
            "sums": [float(value).hex() for value in self.sums.ravel()],
            "variance": float(self.variance).hex(),
            "days": str(self.days),
        }


@dataclass(frozen=True, kw_only=True)
class GradientPlan:
    """The private gradients of a sequence, for its tree, grid and unit: their cost and their points, all public."""

    learner: PrivateHistograms
    tree: QuantileTree
    grid: Outcomes
    unit: Unit
    rows_per_unit: int
    days_per_person: int | None

    @cached_property
    def sums(self) -> PrefixSums:
        """The private running sum of one run."""
        learner, levels = self.learner, len(self.tree.levels)
        size = levels * learner.bins
        if size > _MOST_ENTRIES:
            raise RangeError(f"levels times bins must not exceed 2**20, got {size}")
        floor = positive(learner.floor_weight, name="floor_weight")
        norm = gradient_bound(bins=learner.bins, floor_weight=floor)
        one = gradient_sensitivity(bins=learner.bins, floor_weight=floor, epsilons=self._epsilons)
        sensitivity = self.rows_per_unit * one
        # fine enough that rounding costs 1 % of the sensitivity, where the slack for floats allows it
        fine = math.ceil(math.log2(100 * math.sqrt(size) / float(sensitivity / norm)))
        days = min(learner.run_days, self.days_per_person or learner.run_days)
        return PrefixSums(
            steps=learner.run_days,
            size=size,
            norm_bound=norm,
            rho=days * positive(learner.rho, name="rho"),
            sensitivity=sensitivity,
            participations=days,
            gradient_bits=min(max(fine, 20), 29),
            unit=self.unit,
        )

    @property
    def claims(self) -> Claims:
        """What a day's gradient costs someone in that day."""
        return self.sums.step_claims

    @property
    def _epsilons(self) -> tuple[Fraction, ...]:
        return tuple(pick.epsilon for pick in self.tree.picks)

    @cached_property
    def points(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the grid in the middle of the parts of each bin."""
        edges = self.learner.edges
        shares = (np.arange(POINTS) + 0.5) / POINTS
        places = edges[:-1, None] + np.diff(edges)[:, None] * shares
        return tuple(tuple(self.grid.index_of(place) for place in row) for row in places.tolist())

    def gradient(self, ranks: Ranks, masses: Floats) -> Floats:
        """Return the exact gradient at these masses. Private: it comes from records."""
        below = np.array([[ranks.below(index) for index in row] for row in self.points], dtype=np.int64)
        weights = bin_weights(below, size=ranks.size, levels=self.tree.levels, epsilons=self._epsilons)
        return histogram_loss(weights, masses)[1]

    def step(self, learned: LearnedHistograms, run: PrefixSumRun | None) -> DayStep:
        """Return a day's gradient in a run that goes on, or in a new one."""
        if run is None or not run.goes_on:
            run = self.sums.start()
        return DayStep(plan=self, masses=self.learner.masses(learned), run=run)


@dataclass(frozen=True, kw_only=True, eq=False)
class DayStep:
    """One day's gradient in one run."""

    plan: GradientPlan
    masses: Floats
    run: PrefixSumRun

    def take(self, ranks: Ranks, source: Source) -> dict[str, Any]:
        """Return the day's private gradient: what it adds to the running sum of its run, and the noise in that."""
        gradient = self.plan.gradient(ranks, self.masses)
        before, step = self.run.estimate, self.run.step
        after = self.run.add(gradient.ravel(), source=source)
        variances = np.concatenate([np.zeros(1), self.plan.sums.deviations() ** 2])
        return {
            "gradient": (after - before).reshape(gradient.shape),
            "gradient_variance": float(variances[step + 1] - variances[step]),
        }
