"""Laplace priors with features, learned privately along a sequence of data sets. Learning from releases comes first.

Locations are linear in public features and scales are free: two blocks of parameters, two private sums, half of rho
each. Learning from past releases costs nothing and is the better default; this learner pays off only over very many
stationary steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, ZCDP, Amount, Claims, Neighbours, Row, Unit, exact, native_claims, positive
from sidelight.mechanisms.prefix_sums import NoiseLaw, PrefixSums, rho_for
from sidelight.noise import Source
from sidelight.predictions.laplace import Laplace
from sidelight.predictions.learning.euclidean import Box, Euclidean
from sidelight.predictions.learning.ftrl import DPFTRL
from sidelight.predictions.learning.intervals import optimal_intervals
from sidelight.predictions.learning.laplace_loss import lse_loss
from sidelight.predictions.origin import Origin

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PrivateLaplaces:
    """Learn Laplace(<v_i, f>/phi_i, 1/phi_i) for every level i from public features f of each data set.

    Guarantee: GDP or zCDP of everything the learner ever shows, for any change of one data set x_t, hence for adding,
    removing or replacing one of its records. Sensitivities are twice the gradients' norms, 2F and 2(B + largest_scale),
    enforced in integers: one record can turn a gradient around (learning proof page, section 5).

    Accuracy: see `DPFTRL`; needs very many steps.

    Args:
        levels: The quantiles.
        features: How many, a constant 1 among them.
        feature_norm: F, a public bound on the Euclidean norm of every feature vector.
        bound: B; records are clamped to [-B, B].
        smallest_scale, largest_scale: The range of the priors' scales.
        granularity: The step on which values lie; narrower intervals are widened to it.
        steps: How many data sets are learned from, at most.
        rho, mu, epsilon and delta: The cost of the learner, in exactly one way.
        slope_bound: Entries of v lie within this of 0; B / smallest_scale reaches every location.
        participations: How many data sets one unit can touch.
        encoder, noise: As in `PrefixSums`.
        step_sizes: Other etas, for v and phi; never tuned on the private sequence.
        failure_probability: Of the regret bound.
    """

    levels: Iterable[Amount]
    features: int
    feature_norm: Amount
    bound: Amount
    smallest_scale: Amount
    largest_scale: Amount
    granularity: Amount
    steps: int
    rho: Amount | None = None
    mu: Amount | None = None
    epsilon: Amount | None = None
    delta: Amount | None = None
    slope_bound: float | None = None
    participations: int = 1
    encoder: Literal["square_root", "tree"] = "square_root"
    noise: NoiseLaw = "rounded_gaussian"
    step_sizes: tuple[float, float] | None = None
    failure_probability: float = 0.05
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    unit: Unit = Row()  # noqa: RUF009  # frozen, without fields

    def __post_init__(self) -> None:
        levels = tuple(exact(level, name="level") for level in self.levels)
        if not levels or not all(0 < level < 1 for level in levels):
            raise RangeError("levels must name at least one quantile strictly between 0 and 1")
        object.__setattr__(self, "levels", levels)
        for name in ("feature_norm", "bound", "smallest_scale", "largest_scale", "granularity"):
            object.__setattr__(self, name, positive(getattr(self, name), name=name))
        if self.features < 1:
            raise RangeError(f"features must be at least 1 (the constant), got {self.features}")
        if not Fraction(self.smallest_scale) < Fraction(self.largest_scale):
            raise RangeError("smallest_scale must be below largest_scale")
        _ = self.claims

    @property
    def _levels(self) -> tuple[Fraction, ...]:
        return tuple(self.levels)  # type: ignore[arg-type]

    @cached_property
    def locations(self) -> DPFTRL:
        """The learner of v, one row for each level."""
        rows, half = len(self._levels), self.slope_bound
        half = float(Fraction(self.bound) / Fraction(self.smallest_scale)) if half is None else half
        regulariser = Euclidean(start=np.zeros((rows, self.features)), domain=Box(-half, half))
        return self._block(regulariser, Fraction(self.feature_norm), 0)

    @cached_property
    def inverse_scales(self) -> DPFTRL:
        """The learner of phi, from the middle of its range."""
        low, high = 1 / float(Fraction(self.largest_scale)), 1 / float(Fraction(self.smallest_scale))
        regulariser = Euclidean(start=np.full(len(self._levels), (low + high) / 2), domain=Box(low, high))
        return self._block(regulariser, Fraction(self.bound) + Fraction(self.largest_scale), 1)

    def _block(self, regulariser: Euclidean, norm: Fraction, which: int) -> DPFTRL:
        half = rho_for(rho=self.rho, mu=self.mu, epsilon=self.epsilon, delta=self.delta, noise=self.noise) / 2
        sums = PrefixSums(
            steps=self.steps,
            size=regulariser.size,
            norm_bound=norm,
            rho=half,
            participations=self.participations,
            encoder=self.encoder,
            noise=self.noise,
            neighbours=self.neighbours,
            unit=self.unit,
        )
        return DPFTRL(
            regulariser=regulariser,
            sums=sums,
            lipschitz=float(norm),
            step_size=None if self.step_sizes is None else self.step_sizes[which],
            failure_probability=self.failure_probability / 2,
        )

    @cached_property
    def claims(self) -> Claims:
        """What both blocks cost together: one Gaussian mechanism on both, so mu^2 (or rho) adds up."""
        both = [self.locations.claims, self.inverse_scales.claims]
        context = both[0].context
        if self.noise == "discrete_gaussian":
            rho = sum((claim.rho for claims in both for claim in claims if isinstance(claim, ZCDP)), Fraction(0))
            return native_claims(ZCDP(rho, **context), mechanism=self.noise)
        squares = sum((claim.mu**2 for claims in both for claim in claims if isinstance(claim, GDP)), Fraction(0))
        return native_claims(GDP.from_squares(squares, **context), mechanism=self.noise)

    def start(self) -> PrivateLaplacesRun:
        """Begin one sequence, with locations at 0."""
        return PrivateLaplacesRun(self)


class PrivateLaplacesRun:
    """One sequence of data sets with their public features."""

    __slots__ = ("_locations", "_scales", "plan")

    def __init__(self, plan: PrivateLaplaces) -> None:
        self.plan = plan
        self._locations = plan.locations.start()
        self._scales = plan.inverse_scales.start()

    @property
    def step(self) -> int:
        """How many data sets were learned from."""
        return self._scales.step

    @property
    def parameters(self) -> tuple[Floats, Floats]:
        """(v, phi) to play now; private by the plan's claims."""
        return self._locations.parameters, self._scales.parameters

    @property
    def average(self) -> tuple[Floats, Floats]:
        """The mean of (v, phi) played so far, for one prior after the sequence."""
        return self._locations.average, self._scales.average

    def priors(self, features: ArrayLike, origin: Origin) -> list[Laplace]:
        """Return the prior of each level for these public features, locations within the bound."""
        slopes, inverse = self.parameters
        bound = float(Fraction(self.plan.bound))
        places = np.clip(slopes @ self._public(features) / inverse, -bound, bound)
        return [Laplace(float(a), float(1 / b), origin=origin) for a, b in zip(places, inverse, strict=True)]

    def learn(self, features: ArrayLike, records: ArrayLike, *, source: Source) -> None:
        """Learn from one data set and its public features. No record at all is a zero gradient."""
        known = self._public(features)
        slopes, inverse = self.parameters
        d_theta, d_phi = self._gradients(records, slopes @ known, inverse)
        self._locations.learn(np.outer(d_theta, known), source=source)
        self._scales.learn(d_phi, source=source)

    def _gradients(self, records: ArrayLike, theta: Floats, phi: Floats) -> tuple[Floats, Floats]:
        plan, bound = self.plan, float(Fraction(self.plan.bound))
        values = np.asarray(records, dtype=np.float64).ravel()
        values = np.sort(np.clip(values[~np.isnan(values)], -bound, bound))
        if not len(values):
            return np.zeros_like(theta), np.zeros_like(phi)
        low, high = optimal_intervals(values, plan._levels, float(Fraction(plan.granularity)))
        _, _, d_theta, d_phi = lse_loss(low, high, theta, phi)
        return d_theta, d_phi

    def _public(self, features: ArrayLike) -> Floats:
        known = np.asarray(features, dtype=np.float64)
        if known.shape != (self.plan.features,):
            raise RangeError(f"{self.plan.features} features are needed, got shape {known.shape}")
        length, largest = math.sqrt(float(known @ known)), float(Fraction(self.plan.feature_norm))
        if not length <= largest * (1 + 1e-9):
            raise RangeError(
                f"the features have norm {length:.6g}, above feature_norm = {largest:g}; "
                "scale public features before, never by looking at records"
            )
        return known

    def __repr__(self) -> str:
        return f"PrivateLaplacesRun(step {self.step} of {self.plan.steps}, {self.plan.claims})"
