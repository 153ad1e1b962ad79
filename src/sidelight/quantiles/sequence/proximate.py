"""`PubProx`: learn from past releases how public features (weekday, weather, season) move the quantiles.

Only released values and public features enter, so learning costs no privacy: it is post-processing. A release stands in
for the quantile that it estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from sidelight.errors import RangeError, nearest
from sidelight.predictions import Prior
from sidelight.predictions.learning.cocob import Cocob
from sidelight.predictions.learning.laplace_fit import lse_loss
from sidelight.predictions.learning.recursive_regression import RecursiveRegression
from sidelight.predictions.priors import finite
from sidelight.quantiles.sequence.start import Floats, Start, spread_over, started

# What `PubProx` has learned: a linear map from features to the location of each level, and its scale.
#
# Two ways of learning it: robust recursive regression on the releases (the default: several times faster to learn),
# and COCOB on the convex loss of the Laplace prior, as in the paper.

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


Method = Literal["regression", "cocob"]
_METHODS: Final = ("regression", "cocob")


@dataclass(frozen=True)
class PubProx:
    """Predict each quantile by a linear map of public features, which is learned from past releases with its scale.

    Guarantee: costs nothing; a function of released values, public features and public parameters.

    Args:
        location, scale: Guesses for the first day, as in `PubPrev`; for "regression" `scale` is the smallest one.
        features: How many numbers come with every day, best of the order of 1; with none, location and scale are
            learned.
        plausible: A public range to which releases are clipped before they are learned from: one far draw must not
            count for many near ones.
        method: "regression" (robust, recursive), or "cocob", the paper's, which learns more slowly.
        memory: Over how many days "regression" forgets.
        largest_scale: The bound of the scale of the priors; 100 times the first one if left out.
        hedge_weight, fallback: As in `PubPrev`.

    >>> PubProx(10, 1, features=8, plausible=(0, 120)).plausible
    (0.0, 120.0)
    """

    location: float | tuple[float, ...]
    scale: float | tuple[float, ...]
    features: int = field(default=0, kw_only=True)
    plausible: tuple[float, float] = field(kw_only=True)
    method: Method = field(default="regression", kw_only=True)
    memory: float = field(default=60.0, kw_only=True)
    largest_scale: float | None = field(default=None, kw_only=True)
    hedge_weight: float = field(default=0.1, kw_only=True)
    fallback: Prior | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        started(self)
        if isinstance(self.features, bool) or not isinstance(self.features, int) or self.features < 0:
            raise RangeError(f"features must be a whole number, how many come with a day, got {self.features!r}")
        low, high = (finite(end, name="plausible") for end in self.plausible)
        if not low < high:
            raise RangeError(f"plausible must be a public range (lower, upper), got ({low}, {high})")
        object.__setattr__(self, "plausible", (low, high))
        if self.method not in _METHODS:
            raise RangeError(f"no method is called {self.method!r}; {nearest(str(self.method), _METHODS)}")
        memory = finite(self.memory, name="memory")
        if memory <= 1:
            raise RangeError(f"memory must be more than one day, got {memory}; 60 forgets over two months")
        object.__setattr__(self, "memory", memory)
        scales = self.scale if isinstance(self.scale, tuple) else (self.scale,)
        widest = 100.0 * max(scales) if self.largest_scale is None else finite(self.largest_scale, name="largest_scale")
        if widest < max(scales):
            raise RangeError(f"largest_scale must not be below the first scale {max(scales)}, got {widest}")
        object.__setattr__(self, "largest_scale", widest)

    @property
    def start(self) -> Start:
        """The guesses of the first day."""
        return Start(self.location, self.scale, self.hedge_weight, self.fallback)

    def begin(self, levels: int, *, granularity: float) -> RegressionMap | CocobMap:
        """Return the state before the first day."""
        location, scale = spread_over(self.start, levels)
        limits = self._limits(granularity)
        if self.method == "cocob":
            return CocobMap.begin(location, scale, features=self.features, limits=limits)
        fit = RecursiveRegression.begin(location, scale, features=self.features, memory=self.memory)
        return RegressionMap(fit=fit, first_scale=scale, limits=limits)

    def read(self, written: Mapping[str, Any], levels: int, *, granularity: float) -> RegressionMap | CocobMap:
        """Read a state that `to_json` wrote."""
        first = self.begin(levels, granularity=granularity)
        if isinstance(first, RegressionMap):
            stored = RecursiveRegression.from_json(written, outputs=levels, features=self.features)
            return replace(first, fit=stored)

        def part(name: str) -> Cocob:
            found = Cocob.from_json(written[name])
            if found.position.shape != getattr(first, name).position.shape:
                raise RangeError(f"the stored {name} have shape {found.position.shape}, the plan wants another")
            return found

        return replace(first, slopes=part("slopes"), bias=part("bias"), precision=part("precision"))

    def to_json(self) -> dict[str, Any]:
        """Return the description that the digest of a plan covers."""
        return {
            "learner": "proximate",
            **self.start.to_json(),
            "features": str(self.features),
            "plausible": [repr(end) for end in self.plausible],
            "method": self.method,
            "memory": repr(self.memory),
            "largest_scale": repr(self.largest_scale),
        }

    def _limits(self, granularity: float) -> Limits:
        assert self.largest_scale is not None  # set when it was made
        return Limits(plausible=self.plausible, largest_scale=self.largest_scale, granularity=granularity)
