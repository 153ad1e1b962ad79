"""What `PubProx` has learned: a linear map from features to the location of each level, and its scale.

Two ways of learning it: robust recursive regression on the releases (the default: several times faster to learn), and
COCOB on the convex loss of the Laplace prior, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sidelight.predictions.learning.cocob import Cocob
from sidelight.predictions.learning.laplace_loss import lse_loss
from sidelight.predictions.learning.recursive_regression import RecursiveRegression
from sidelight.quantiles.sequence.start import Floats

_PARTS = ("slopes", "bias", "precision")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Public numbers that keep what is learned in reason."""

    plausible: tuple[float, float]
    largest_scale: float
    granularity: float

    def clip(self, values: ArrayLike) -> Floats:
        """Return released values within the plausible range."""
        return np.clip(np.asarray(values, dtype=np.float64), *self.plausible)


@dataclass(frozen=True, kw_only=True, eq=False)
class RegressionMap:
    """Location by regression, scale by the mean absolute residual (the maximum likelihood of a Laplace law).

    The scale never falls below the first guess: with a small budget a release is drawn mostly from its own prior, and
    one that is too narrow would go on confirming itself.
    """

    fit: RecursiveRegression
    first_scale: Floats
    limits: Limits

    @property
    def features(self) -> int:
        """How many features come with a day."""
        return self.fit.features

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Return locations and scales for a day with these features."""
        scale = np.clip(self.fit.residual, self.first_scale, self.limits.largest_scale)
        return self.limits.clip(self.fit.predict(features)), scale

    def learn(self, features: Floats, released: ArrayLike) -> RegressionMap:
        """Return the state after a release."""
        return replace(self, fit=self.fit.learn(features, self.limits.clip(released)))

    def learn_interval(self, features: Floats, low: Floats, high: Floats) -> RegressionMap:
        """Return the state after seeing the interval of each level. From true intervals this is not private."""
        ends = np.clip([low, high], *self.limits.plausible)
        return self.learn(features, ends.mean(axis=0))

    def to_json(self) -> dict[str, Any]:
        """Return the state in exact text."""
        return self.fit.to_json()


@dataclass(frozen=True, kw_only=True, eq=False)
class CocobMap:
    """theta = <v, f> + bias and phi for each level, three COCOB learners; location theta/phi, scale 1/phi."""

    slopes: Cocob
    bias: Cocob
    precision: Cocob
    limits: Limits

    @classmethod
    def begin(cls, location: Floats, scale: Floats, *, features: int, limits: Limits) -> CocobMap:
        """Return the map that has seen nothing."""
        return cls(
            slopes=Cocob.at(np.zeros((len(location), features))),
            bias=Cocob.at(location / scale),
            precision=Cocob.at(1 / scale),
            limits=limits,
        )

    @property
    def features(self) -> int:
        """How many features come with a day."""
        return int(self.slopes.position.shape[1])

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Return locations and scales for a day with these features."""
        theta, phi = self._parameters(features)
        return self.limits.clip(theta / phi), 1 / phi

    def learn(self, features: Floats, released: ArrayLike) -> CocobMap:
        """Return the state after a release, which stands in for the interval that it estimates."""
        proxy = self.limits.clip(released)
        half = np.maximum(self.limits.granularity / 2, np.spacing(np.abs(proxy)))
        return self.learn_interval(features, proxy - half, proxy + half)

    def learn_interval(self, features: Floats, low: Floats, high: Floats) -> CocobMap:
        """Return the state after seeing the interval of each level. From true intervals this is not private."""
        theta, phi = self._parameters(features)
        _, _, d_theta, d_phi = lse_loss(low, high, theta, phi)
        return replace(
            self,
            slopes=self.slopes.step(d_theta[:, None] * features),
            bias=self.bias.step(d_theta),
            precision=self.precision.step(d_phi),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the state in exact text."""
        return {name: getattr(self, name).to_json() for name in _PARTS}

    def _parameters(self, features: Floats) -> tuple[Floats, Floats]:
        theta = (self.slopes.position * features).sum(axis=1) + self.bias.position
        # The learners are unconstrained: clamp on use.
        least, most = 1 / self.limits.largest_scale, 2 / self.limits.granularity
        return theta, np.clip(self.precision.position, least, max(least, most))
