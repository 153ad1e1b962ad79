"""`PubProx`: learn from past releases how public features (weekday, weather, season) move the quantiles.

Only released values and public features enter, so learning costs no privacy: it is post-processing. The release stands
in for the optimal interval that it estimates: (o - g/2, o + g/2] with g the public granularity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sidelight.errors import RangeError
from sidelight.predictions import Prior
from sidelight.predictions.learning.cocob import Cocob
from sidelight.predictions.learning.laplace_loss import lse_loss
from sidelight.predictions.parameters import finite
from sidelight.quantiles.sequence.start import Floats, Start, spread_over, started


@dataclass(frozen=True)
class PubProx:
    """Learn a linear map from features to the location of each level, and its scale, from past releases.

    Guarantee: costs nothing; a function of released values, public features and public parameters.

    Arguments: `location` and `scale` are guesses for the first day, as in `PubPrev`. `features` is how many numbers
    come with every day (none: location and scale alone are learned). `plausible` is a public range to which releases
    are clipped before they are learned from: one far draw would never be forgotten. `largest_scale` bounds the scale.

    >>> PubProx(location=10, scale=1, features=8, plausible=(0, 120))
    PubProx(location=10.0, scale=1.0, features=8, plausible=(0.0, 120.0), largest_scale=100.0, ...)
    """

    location: float | tuple[float, ...]
    scale: float | tuple[float, ...]
    features: int = field(default=0, kw_only=True)
    plausible: tuple[float, float] = field(kw_only=True)
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
        scales = self.scale if isinstance(self.scale, tuple) else (self.scale,)
        widest = 100.0 * max(scales) if self.largest_scale is None else finite(self.largest_scale, name="largest_scale")
        if widest < max(scales):
            raise RangeError(f"largest_scale must not be below the first scale {max(scales)}, got {widest}")
        object.__setattr__(self, "largest_scale", widest)

    @property
    def start(self) -> Start:
        """The guesses of the first day."""
        return Start(self.location, self.scale, self.hedge_weight, self.fallback)

    def begin(self, levels: int, *, granularity: float) -> LinearMap:
        """Return the state before the first day."""
        location, scale = spread_over(self.start, levels)
        assert self.largest_scale is not None
        return LinearMap(
            slopes=Cocob.at(np.zeros((levels, self.features))),
            bias=Cocob.at(location / scale),
            precision=Cocob.at(1 / scale),
            least_precision=1 / self.largest_scale,
            granularity=granularity,
            plausible=self.plausible,
        )

    def read(self, written: Mapping[str, Any], levels: int, *, granularity: float) -> LinearMap:
        """Read a state that `to_json` wrote."""
        first = self.begin(levels, granularity=granularity)

        def stored(name: str) -> Cocob:
            part = Cocob.from_json(written[name])
            if part.position.shape != getattr(first, name).position.shape:
                raise RangeError(f"the stored {name} have shape {part.position.shape}, the plan wants another")
            return part

        return replace(first, slopes=stored("slopes"), bias=stored("bias"), precision=stored("precision"))

    def to_json(self) -> dict[str, Any]:
        """Return the description that the digest of a plan covers."""
        return {
            "learner": "proximate",
            **self.start.to_json(),
            "features": str(self.features),
            "plausible": [repr(end) for end in self.plausible],
            "largest_scale": repr(self.largest_scale),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearMap:
    """theta = <v, f> + bias and phi for each level, three COCOB learners; location theta/phi, scale 1/phi."""

    slopes: Cocob
    bias: Cocob
    precision: Cocob
    least_precision: float
    granularity: float
    plausible: tuple[float, float]

    @property
    def features(self) -> int:
        """How many features come with a day."""
        return int(self.slopes.position.shape[1])

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Return locations and scales for a day with these features."""
        theta, phi = self._parameters(features)
        return np.clip(theta / phi, *self.plausible), 1 / phi

    def learn(self, features: Floats, released: ArrayLike) -> LinearMap:
        """Return the state after a release, which stands in for the interval it estimates."""
        proxy = np.clip(np.asarray(released, dtype=np.float64), *self.plausible)
        half = np.maximum(self.granularity / 2, np.spacing(np.abs(proxy)))
        return self.learn_interval(features, proxy - half, proxy + half)

    def learn_interval(self, features: Floats, low: Floats, high: Floats) -> LinearMap:
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
        return {name: getattr(self, name).to_json() for name in ("slopes", "bias", "precision")}

    def _parameters(self, features: Floats) -> tuple[Floats, Floats]:
        theta = (self.slopes.position * features).sum(axis=1) + self.bias.position
        # The learners are unconstrained: clamp on use. A prior narrower than half a step says nothing more.
        return theta, np.clip(
            self.precision.position, self.least_precision, max(2 / self.granularity, self.least_precision)
        )
