"""What every learner starts from: a guess of location and scale, and the robust prior that it is mixed with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.predictions import Cauchy, HalfCauchy, Laplace, Origin, Prior, hedge, own_prior
from sidelight.predictions.priors import finite, positive

Floats = NDArray[np.float64]
Guess = float | tuple[float, ...]


@dataclass(frozen=True)
class Start:
    """Guesses for the first day, one for all levels or one for each, and the hedge of every day."""

    location: Guess
    scale: Guess
    hedge_weight: float
    fallback: Prior | None

    def priors(self, location: Floats, scale: Floats, *, origin: Origin, nonnegative: bool) -> tuple[Prior, ...]:
        """Return one hedged Laplace prior a level."""
        learned = [Laplace(a, b, origin=origin) for a, b in zip(location.tolist(), scale.tolist(), strict=True)]
        if self.hedge_weight == 0:
            return tuple(learned)
        robust = self.robust(nonnegative=nonnegative)
        return tuple(hedge(prior, with_=robust, weight=self.hedge_weight) for prior in learned)

    def to_json(self) -> dict[str, Any]:
        """Return strings only."""
        return {
            "location": [repr(value) for value in _several(self.location)],
            "scale": [repr(value) for value in _several(self.scale)],
            "hedge_weight": repr(self.hedge_weight),
            "fallback": "default" if self.fallback is None else self.fallback.to_json(),
        }

    def robust(self, *, nonnegative: bool) -> Prior:
        """Return the prior that every prediction is mixed with."""
        if self.fallback is not None:
            return self.fallback
        middle = float(np.median(_several(self.location)))
        if nonnegative and middle > 0:
            return HalfCauchy(middle)  # the guess of the location is the half-Cauchy's scale: its median
        return Cauchy(middle, float(np.median(_several(self.scale))))


class Started(Protocol):
    """A learner's description."""

    @property
    def start(self) -> Start:
        """The guesses of the first day."""
        ...


def started(learner: Started) -> None:
    """Check the guesses and store them as floats (learners are frozen, so this is part of making one)."""
    start = learner.start
    for name in ("location", "scale"):
        if isinstance(getattr(type(learner), name, None), property):
            continue  # made from other numbers, which were checked
        read = positive if name == "scale" else finite
        given = getattr(start, name)
        one = isinstance(given, (int, float, str))
        values = tuple(read(value, name=name) for value in ([given] if one else given))
        object.__setattr__(learner, name, values[0] if one else values)
    if isinstance(start.hedge_weight, str) or not 0 <= start.hedge_weight < 1:
        raise RangeError(f"hedge_weight must lie in [0, 1), got {start.hedge_weight}; it is the robust prior's share")
    if start.fallback is not None:
        object.__setattr__(learner, "fallback", own_prior(start.fallback, what="fallback"))


def spread_over(start: Start, levels: int) -> tuple[Floats, Floats]:
    """Return the guesses, one for each level."""
    spread = []
    for name, guess in (("location", start.location), ("scale", start.scale)):
        values = _several(guess)
        if len(values) not in (1, levels):
            raise RangeError(f"{name} must be one number or one for each of the {levels} levels, got {len(values)}")
        spread.append(np.broadcast_to(np.array(values, dtype=np.float64), levels).copy())
    return spread[0], spread[1]


def _several(guess: Guess) -> tuple[float, ...]:
    return guess if isinstance(guess, tuple) else (guess,)
