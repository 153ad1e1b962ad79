"""`PubPrev` and `PubProx`, of the paper on learning-augmented quantiles: predict a day from the releases before it.

Only released values and public features enter, so learning costs no privacy: it is post-processing. Use `sl.PubTrack`
instead: it follows the whole curve of quantiles, needs no guesses, and is more accurate (how-to on daily releases).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError, nearest
from sidelight.predictions import Cauchy, HalfCauchy, Laplace, Origin, Prior, hedge, own_prior
from sidelight.predictions.compiled import finite, positive
from sidelight.predictions.mixture import texts_of
from sidelight.published.cocob import Cocob
from sidelight.quantiles.laplace_fit import lse_loss
from sidelight.quantiles.sequence.recursive_regression import RecursiveRegression
from sidelight.quantiles.sequence.tracked import check_features_and_memory

Floats = NDArray[np.float64]
Guess = float | tuple[float, ...]
Method = Literal["regression", "cocob"]
_METHODS: Final = ("regression", "cocob")


@dataclass(frozen=True)
class FirstGuess:
    """Guesses for the first day, one for all levels or one for each, and the robust prior of every day."""

    location: Guess
    scale: Guess
    hedge_weight: float
    fallback: Prior | None

    def priors(self, location: Floats, scale: Floats, *, origin: Origin, nonnegative: bool) -> tuple[Prior, ...]:
        """Return one hedged Laplace prior a level."""
        learned = [Laplace(a, b, origin=origin) for a, b in zip(location.tolist(), scale.tolist(), strict=True)]
        return self.hedged(learned, nonnegative=nonnegative)

    def hedged(self, priors: list[Any], *, nonnegative: bool) -> tuple[Prior, ...]:
        """Return priors mixed with the robust one: the fallback, or a Cauchy as wide as the guesses."""
        if self.hedge_weight == 0:
            return tuple(priors)
        robust, middle = self.fallback, float(np.median(_several(self.location)))
        if robust is None and nonnegative and middle > 0:
            robust = HalfCauchy(middle)  # the guess of the location is the half-Cauchy's scale: its median
        elif robust is None:
            robust = Cauchy(middle, float(np.median(_several(self.scale))))
        return tuple(hedge(prior, with_=robust, weight=self.hedge_weight) for prior in priors)

    def of_levels(self, levels: int) -> tuple[Floats, Floats]:
        """Return the guesses, one for each level."""
        found = []
        for name in ("location", "scale"):
            values = _several(getattr(self, name))
            if len(values) not in (1, levels):
                raise RangeError(f"{name} must be one number or one for each of the {levels} levels, got {len(values)}")
            found.append(np.broadcast_to(np.array(values, dtype=np.float64), levels).copy())
        return found[0], found[1]

    def to_json(self) -> dict[str, Any]:
        """Return strings only."""
        return {
            "location": [repr(value) for value in _several(self.location)],
            "scale": [repr(value) for value in _several(self.scale)],
            "hedge_weight": repr(self.hedge_weight),
            "fallback": "default" if self.fallback is None else self.fallback.to_json(),
        }


def _several(guess: Guess) -> tuple[float, ...]:
    return guess if isinstance(guess, tuple) else (guess,)


def first_guess(learner: Any) -> FirstGuess:
    """Return the guesses of the first day of a learner, and its robust prior."""
    return FirstGuess(learner.location, learner.scale, learner.hedge_weight, learner.fallback)


def check_guesses(learner: Any) -> None:
    """Check the guesses of a frozen learner that is being made, and store them as floats."""
    for name, read in (("location", finite), ("scale", positive)):
        if isinstance(getattr(type(learner), name, None), property):
            continue  # made from other numbers, which were checked
        given = getattr(learner, name)
        one = isinstance(given, (int, float, str))
        values = tuple(read(value, name=name) for value in ([given] if one else given))
        object.__setattr__(learner, name, values[0] if one else values)
    if isinstance(learner.hedge_weight, str) or not 0 <= learner.hedge_weight < 1:
        raise RangeError(f"hedge_weight must lie in [0, 1), got {learner.hedge_weight}; it is the robust prior's share")
    if learner.fallback is not None:
        object.__setattr__(learner, "fallback", own_prior(learner.fallback, what="fallback"))


@dataclass(frozen=True)
class PubPrev:
    """Predict each quantile around its last release, with a fixed scale; `sl.PubTrack` is better and needs no guesses.

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
        check_guesses(self)

    def begin(self, levels: int, *, granularity: float) -> LastRelease:
        """Return the state before the first day."""
        del granularity
        return LastRelease(*first_guess(self).of_levels(levels))

    def read(self, written: Mapping[str, Any], levels: int, *, granularity: float) -> LastRelease:
        """Read a state that `to_json` wrote."""
        first = self.begin(levels, granularity=granularity)
        values = np.array([float.fromhex(text) for text in texts_of(written, "location")])
        if values.shape != first.location.shape:
            raise RangeError(f"the stored state is of {len(values)} levels, the plan has {levels}")
        return LastRelease(values, first.scale)

    def priors(self, learned: LastRelease, features: Floats, *, origin: Origin, nonnegative: bool) -> tuple[Prior, ...]:
        """Return the prediction for a day."""
        return first_guess(self).priors(*learned.predict(features), origin=origin, nonnegative=nonnegative)

    def to_json(self) -> dict[str, Any]:
        """Return the description that the digest of a plan covers."""
        return {"learner": "previous", **first_guess(self).to_json()}


@dataclass(frozen=True, eq=False)
class LastRelease:
    """The last released quantiles, or the guess before there were any."""

    location: Floats
    scale: Floats

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Return locations and scales for the next day."""
        del features
        return self.location, self.scale

    def learn(self, features: Floats, released: Floats) -> LastRelease:
        """Return the state after a release."""
        del features
        return LastRelease(np.array(released, dtype=np.float64), self.scale)

    def to_json(self) -> dict[str, Any]:
        """Return the state in exact text."""
        return {"location": [float(value).hex() for value in self.location]}


@dataclass(frozen=True)
class PubProx:
    """Predict each quantile by a linear map of public features, which is learned from past releases with its scale.

    `sl.PubTrack(features=...)` is better and needs no guesses.

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
        check_guesses(self)
        check_features_and_memory(self)
        low, high = (finite(end, name="plausible") for end in self.plausible)
        if not low < high:
            raise RangeError(f"plausible must be a public range (lower, upper), got ({low}, {high})")
        object.__setattr__(self, "plausible", (low, high))
        if self.method not in _METHODS:
            raise RangeError(f"no method is called {self.method!r}; {nearest(str(self.method), _METHODS)}")
        first = max(_several(self.scale))
        widest = 100.0 * first if self.largest_scale is None else finite(self.largest_scale, name="largest_scale")
        if widest < first:
            raise RangeError(f"largest_scale must not be below the first scale {first}, got {widest}")
        object.__setattr__(self, "largest_scale", widest)

    def begin(self, levels: int, *, granularity: float) -> RegressionMap | CocobMap:
        """Return the state before the first day."""
        assert self.largest_scale is not None  # set when it was made
        location, scale = first_guess(self).of_levels(levels)
        limits = PlausibleLimits(self.plausible, self.largest_scale, granularity)
        if self.method == "cocob":
            slopes = Cocob.at(np.zeros((len(location), self.features)))
            return CocobMap(slopes, Cocob.at(location / scale), Cocob.at(1 / scale), limits)
        fit = RecursiveRegression.begin(location, scale, features=self.features, memory=self.memory)
        return RegressionMap(fit, scale, limits)

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

    def priors(
        self, learned: RegressionMap | CocobMap, features: Floats, *, origin: Origin, nonnegative: bool
    ) -> tuple[Prior, ...]:
        """Return the prediction for a day."""
        return first_guess(self).priors(*learned.predict(features), origin=origin, nonnegative=nonnegative)

    def to_json(self) -> dict[str, Any]:
        """Return the description that the digest of a plan covers."""
        return {
            "learner": "proximate",
            **first_guess(self).to_json(),
            "features": str(self.features),
            "plausible": [repr(end) for end in self.plausible],
            "method": self.method,
            "memory": repr(self.memory),
            "largest_scale": repr(self.largest_scale),
        }


@dataclass(frozen=True)
class PlausibleLimits:
    """Public numbers that keep what is learned in reason."""

    plausible: tuple[float, float]
    largest_scale: float
    granularity: float

    def clip(self, values: ArrayLike) -> Floats:
        """Return released values within the plausible range."""
        return np.clip(np.asarray(values, dtype=np.float64), *self.plausible)


@dataclass(frozen=True, eq=False)
class RegressionMap:
    """Location by regression, scale by the mean absolute residual (the maximum likelihood of a Laplace law).

    The scale never falls below the first guess: with a small budget a release is drawn mostly from its own prior, and
    one that is too narrow would go on confirming itself.
    """

    fit: RecursiveRegression
    first_scale: Floats
    limits: PlausibleLimits

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


@dataclass(frozen=True, eq=False)
class CocobMap:
    """theta = <v, f> + bias and phi for each level, three COCOB learners; location theta/phi, scale 1/phi."""

    slopes: Cocob
    bias: Cocob
    precision: Cocob
    limits: PlausibleLimits

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
        return {name: getattr(self, name).to_json() for name in ("slopes", "bias", "precision")}

    def _parameters(self, features: Floats) -> tuple[Floats, Floats]:
        theta = (self.slopes.position * features).sum(axis=1) + self.bias.position
        # The learners are unconstrained: clamp on use.
        least, most = 1 / self.limits.largest_scale, 2 / self.limits.granularity
        return theta, np.clip(self.precision.position, least, max(least, most))
