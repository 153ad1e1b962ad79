"""`PubProx`: learn from past releases how public features (weekday, weather, season) move the quantiles.

Only released values and public features enter, so learning costs no privacy: it is post-processing. A release stands in
for the quantile that it estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from sidelight.errors import RangeError, nearest
from sidelight.predictions import Prior
from sidelight.predictions.learning.cocob import Cocob
from sidelight.predictions.learning.recursive_regression import RecursiveRegression
from sidelight.predictions.parameters import finite
from sidelight.quantiles.sequence.linear_map import CocobMap, Limits, RegressionMap
from sidelight.quantiles.sequence.start import Start, spread_over, started

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
