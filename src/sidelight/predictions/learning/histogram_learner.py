"""Histogram priors learned privately along a sequence of data sets: entropic follow-the-leader on the histogram loss.

The gradient's sensitivity to one record is far below its norm, so the noise is three to five times smaller than the
published one (learning proof page, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Claims, Row, Unit, exact, positive
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.mechanisms.prefix_sums import NoiseLaw, PrefixSums
from sidelight.noise import Source
from sidelight.predictions.histogram import Histogram
from sidelight.predictions.learning.entropic import Entropic
from sidelight.predictions.learning.ftrl import DPFTRL
from sidelight.predictions.learning.histogram_loss import bin_weights, histogram_loss
from sidelight.predictions.origin import Origin

# How far one record can move the gradient of the histogram loss: proved, and exact up to rounding for one level.

#: Projections in floats may miss the floor by rounding: bounds use a floor that much smaller.
FLOOR_SLACK = Fraction(1, 10**9)


def gradient_bound(*, bins: int, floor_weight: Fraction) -> Fraction:
    """Return d/gamma, which bounds the l1 norm of every gradient, hence all its norms."""
    if not 0 < floor_weight <= 1:
        raise RangeError(f"floor_weight must lie in (0, 1], got {float(floor_weight):g}; 0.1 is a good choice")
    return bins / (floor_weight * (1 - FLOOR_SLACK))


def gradient_sensitivity(*, bins: int, floor_weight: Fraction, epsilons: Sequence[Fraction]) -> Fraction:
    """Return the l2 sensitivity for adding or removing one record, rounded up (learning proof page, Theorem 4).

    (d/gamma) sqrt(2) tanh(eps/4) for one level, attained; (d/gamma) sqrt(2) min(1, 2 tanh(max eps / 4)) for several.

    >>> one = gradient_sensitivity(bins=1, floor_weight=Fraction(1), epsilons=[Fraction(1)])
    >>> round(float(one), 8)
    0.34636729
    """
    if not epsilons or min(epsilons) <= 0:
        raise RangeError("every level needs a positive epsilon: what its release will spend")
    total_variation = Interval.of(max(epsilons) / 4).tanh()
    if len(epsilons) > 1:
        total_variation = (total_variation + total_variation).lowest(Interval.of(1))
    largest = round_up((Interval.of(2).sqrt() * total_variation).upper)
    return gradient_bound(bins=bins, floor_weight=floor_weight) * largest


Floats = NDArray[np.float64]

#: The error analysis of the gradient holds for at most this many bins and rows of them.
_MOST_BINS = 2**16


@dataclass(frozen=True, kw_only=True)
class PrivateHistograms:
    """Learn one histogram prior for each level; play it for the release of x_t, then learn from x_t.

    Guarantee: GDP or zCDP of everything the learner ever shows, for adding or removing one record of one x_t (or
    `participations` records in all). It adds to the cost of the releases of the same x_t.

    Accuracy: `regret_bound()`. The floor makes every row 1 - floor_weight learned and floor_weight uniform, so the
    priors need no hedge inside [lower, upper]. Useful for few bins and many steps: gradients grow like
    bins / floor_weight.

    Args:
        lower, upper: Public bounds of the bins.
        bins: How many, of equal width.
        levels: The quantiles that are released.
        release_epsilons: What the release spends on each level (its epsilon in the tree); one number serves all.
        steps: How many data sets are learned from, at most.
        rho, mu, epsilon and delta: The cost of the learner, in exactly one way.
        floor_weight: gamma; every bin keeps at least gamma/bins.
        score: That of the release.
        participations: How many records one unit has, over all data sets.
        encoder, noise: As in `PrefixSums`.
        step_size: Another eta; never tuned on the private sequence.
        failure_probability: Of the regret bound.

    >>> plan = PrivateHistograms(lower=0, upper=100, bins=10, levels=[0.5], release_epsilons=1, steps=100, rho="0.1")
    >>> plan.claims.zcdp().rho <= Fraction(1, 10), plan.start().masses.shape
    (True, (1, 10))
    """

    lower: float
    upper: float
    bins: int
    levels: Iterable[Amount]
    release_epsilons: Amount | Iterable[Amount]
    steps: int
    rho: Amount | None = None
    mu: Amount | None = None
    epsilon: Amount | None = None
    delta: Amount | None = None
    floor_weight: Amount = "0.1"
    score: Literal["exact", "floor"] = "exact"
    participations: int = 1
    encoder: Literal["square_root", "tree"] = "square_root"
    noise: NoiseLaw = "rounded_gaussian"
    step_size: float | None = None
    failure_probability: float = 0.05
    unit: Unit = Row()  # noqa: RUF009  # frozen, without fields

    def __post_init__(self) -> None:
        levels = tuple(exact(level, name="level") for level in self.levels)
        if not levels or not all(0 < level < 1 for level in levels):
            raise RangeError("levels must name at least one quantile strictly between 0 and 1")
        given = self.release_epsilons
        several = [given] * len(levels) if isinstance(given, Amount) else list(given)
        if len(several) != len(levels):
            raise RangeError(f"one release epsilon is needed for each of {len(levels)} levels, got {len(several)}")
        if not 2 <= self.bins <= _MOST_BINS or self.bins * len(levels) > 2**20:
            raise RangeError(f"bins must lie in 2..{_MOST_BINS}, levels * bins below 2**20, got {self.bins} bins")
        if self.score not in ("exact", "floor"):
            raise RangeError(f"score must be 'exact' or 'floor', got {self.score!r}")
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "release_epsilons", tuple(positive(e, name="release_epsilon") for e in several))
        if not np.isfinite([float(self.lower), float(self.upper)]).all() or not (np.diff(self.edges) > 0).all():
            raise RangeError(
                f"lower and upper must be finite and {self.bins} bins apart, got {self.lower}..{self.upper}"
            )
        _ = self.claims

    @cached_property
    def edges(self) -> Floats:
        """The public edges of the bins."""
        return np.linspace(float(self.lower), float(self.upper), self.bins + 1)

    @property
    def _levels(self) -> tuple[Fraction, ...]:
        return tuple(self.levels)  # type: ignore[arg-type]

    @property
    def _epsilons(self) -> tuple[Fraction, ...]:
        return tuple(self.release_epsilons)  # type: ignore[arg-type]

    @cached_property
    def _gamma(self) -> Fraction:
        return positive(self.floor_weight, name="floor_weight")

    @cached_property
    def sensitivity(self) -> Fraction:
        """How far one record moves the gradient, in the Euclidean norm."""
        return gradient_sensitivity(bins=self.bins, floor_weight=self._gamma, epsilons=self._epsilons)

    @cached_property
    def learner(self) -> DPFTRL:
        """The learner with its private sums."""
        norm = gradient_bound(bins=self.bins, floor_weight=self._gamma)
        size = self.bins * len(self._levels)
        # fine enough that rounding costs 1 % of the sensitivity, where the slack for floats allows it
        fine = math.ceil(math.log2(100 * math.sqrt(size) / float(self.sensitivity / norm)))
        sums = PrefixSums(
            steps=self.steps,
            size=size,
            norm_bound=norm,
            rho=self.rho,
            mu=self.mu,
            epsilon=self.epsilon,
            delta=self.delta,
            sensitivity=self.sensitivity,
            participations=self.participations,
            encoder=self.encoder,
            noise=self.noise,
            gradient_bits=min(max(fine, 20), 29),
            unit=self.unit,
        )
        return DPFTRL(
            regulariser=Entropic(rows=len(self._levels), bins=self.bins, floor=float(self._gamma) / self.bins),
            sums=sums,
            lipschitz=float(norm),
            step_size=self.step_size,
            failure_probability=self.failure_probability,
        )

    @property
    def claims(self) -> Claims:
        """What the learner costs, once, for all steps."""
        return self.learner.claims

    def regret_bound(self) -> Callable[[int], float]:
        """Return the regret bound as a function of the number of steps."""
        return self.learner.regret_bound()

    def start(self) -> PrivateHistogramsRun:
        """Begin one sequence, with uniform priors."""
        return PrivateHistogramsRun(self)


class PrivateHistogramsRun:
    """One sequence of data sets."""

    __slots__ = ("_run", "plan")

    def __init__(self, plan: PrivateHistograms) -> None:
        self.plan = plan
        self._run = plan.learner.start()

    @property
    def step(self) -> int:
        """How many data sets were learned from."""
        return self._run.step

    @property
    def masses(self) -> Floats:
        """The rows of the priors, each entry at least floor_weight / bins; private by the plan's claims."""
        return self._run.parameters

    def priors(self, origin: Origin) -> list[Histogram]:
        """Return the prior of each level. The origin names the ledger entries that paid for the learner."""
        edges = self.plan.edges.tolist()
        return [Histogram(edges, row.tolist(), origin=origin) for row in self.masses]

    def learn(self, records: ArrayLike, *, source: Source) -> None:
        """Learn from one data set. Records beyond the bounds count with their rank; NaN is left out."""
        plan = self.plan
        weights = bin_weights(records, edges=plan.edges, levels=plan._levels, epsilons=plan._epsilons, score=plan.score)
        _, gradient = histogram_loss(weights, self._run.parameters)
        self._run.learn(gradient, source=source)

    def __repr__(self) -> str:
        return f"PrivateHistogramsRun(step {self.step} of {self.plan.steps}, {self.plan.claims})"
