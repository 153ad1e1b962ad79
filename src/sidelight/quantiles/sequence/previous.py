"""`PubPrev`: predict that tomorrow's quantiles are today's released ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.predictions import Prior
from sidelight.predictions.priors import texts_of
from sidelight.quantiles.sequence.start import Floats, Start, spread_over, started


@dataclass(frozen=True)
class PubPrev:
    """Predict each quantile around its last release, with a fixed scale: for what moves slowly and has no known causes.

    Args:
        location: A guess for the first day, one for all levels or one for each.
        scale: How far a quantile typically moves from one day to the next, one for all levels or one for each.
        hedge_weight: The share of the fallback.
        fallback: A robust prior; HalfCauchy(location) for columns that are never negative, else Cauchy(location,
            scale).

    >>> PubPrev(40, 2).hedge_weight
    0.1
    """

    location: float | tuple[float, ...]
    scale: float | tuple[float, ...]
    hedge_weight: float = field(default=0.1, kw_only=True)
    fallback: Prior | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        started(self)

    @property
    def start(self) -> Start:
        """The guesses of the first day."""
        return Start(self.location, self.scale, self.hedge_weight, self.fallback)

    def begin(self, levels: int, *, granularity: float) -> LastRelease:
        """Return the state before the first day."""
        del granularity
        location, scale = spread_over(self.start, levels)
        return LastRelease(location=location, scale=scale)

    def read(self, written: Mapping[str, Any], levels: int, *, granularity: float) -> LastRelease:
        """Read a state that `to_json` wrote."""
        first = self.begin(levels, granularity=granularity)
        values = np.array([float.fromhex(text) for text in texts_of(written, "location")])
        if values.shape != first.location.shape:
            raise RangeError(f"the stored state is of {len(values)} levels, the plan has {levels}")
        return LastRelease(location=values, scale=first.scale)

    def to_json(self) -> dict[str, Any]:
        """Return the description that the digest of a plan covers."""
        return {"learner": "previous", **self.start.to_json()}


@dataclass(frozen=True, eq=False)
class LastRelease:
    """The last released quantiles, or the guess before there were any."""

    location: Floats
    scale: Floats
    features: int = 0

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Return locations and scales for the next day."""
        del features
        return self.location, self.scale

    def learn(self, features: Floats, released: Floats) -> LastRelease:
        """Return the state after a release."""
        del features
        return LastRelease(location=np.array(released, dtype=np.float64), scale=self.scale)

    def to_json(self) -> dict[str, Any]:
        """Return the state in exact text."""
        return {"location": [float(value).hex() for value in self.location]}
