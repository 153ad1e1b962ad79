"""Mixtures of priors, the hedge made of one, and the closed list of all laws: checked, described and read from JSON."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Final, Literal, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import HedgeWarning, RangeError, nearest
from sidelight.grid import Outcomes
from sidelight.predictions.compiled import (
    UNIT,
    CompiledPrior,
    ConditionedPart,
    Prior,
    PriorLaw,
    as_decimal,
    finite,
)
from sidelight.predictions.histogram import HistogramPrior, ScaleFree, Uniform
from sidelight.predictions.location_scale import Cauchy, Gaussian, HalfCauchy, Laplace
from sidelight.predictions.origin import Origin, guess, joint_origin, origin_from_json
from sidelight.predictions.pieces import PiecewiseCDF
from sidelight.readable import as_read

# The robustness knob: mix a prediction with something that holds when the prediction is wrong.


def hedge(prediction: Prior, *, with_: Prior, weight: float = 0.1) -> Mixture:
    """Return (1 - weight) * prediction + weight * `with_`: being wrong then costs little.

    Accuracy: at most (2Δ/ε) log(1/weight) ranks worse than `with_` alone however wrong the prediction is, and at most
    (2Δ/ε) log(1/(1 - weight)) ranks worse than the prediction alone where it is right.

    Args:
        prediction: The prior that may be wrong.
        with_: The robust prior.
        weight: The WEIGHT OF THE ROBUST PRIOR `with_`, between 0 and 1.

    Returns:
        A `Mixture` with the prediction's origin.

    >>> from sidelight.predictions import Cauchy, Laplace
    >>> hedge(Laplace(40, 5), with_=Cauchy(40, 20)).weights
    (0.9, 0.1)
    """
    share = finite(weight, name="weight")
    if not 0 < share < 1:
        raise RangeError(f"weight must lie between 0 and 1, got {share}; 0.1 costs little either way")
    # The fallback is no claim about the data, unless releases were paid to find it: these entries must stay named.
    traced = with_.origin.kind == "released"
    origin = joint_origin([prediction.origin, with_.origin]) if traced else prediction.origin
    return Mixture([1 - share, share], [prediction, with_], origin=origin)


def warn_if_unhedged(prior: Prior) -> None:
    """Warn, once a release is about to use it, about a prediction that nothing backs up."""
    if prior.needs_hedge:
        warnings.warn(
            f"a {type(prior).__name__} prediction that is wrong by R scales costs in the order of R ranks or more; "
            "use hedge(prediction, with_=Cauchy(...)) or ScaleFree, which costs little where it is right",
            HedgeWarning,
            stacklevel=5,  # who released
        )


#: Stands for "derive it from the parts"; compared by identity.
_OF_THE_PARTS = guess("of the parts")

#: Each level is a call inside a call when the law is compiled and written down.
_DEEPEST = 20


def _depth(priors: Sequence[Prior]) -> int:
    """Return how many mixtures are nested; parts were checked when they were made, so this does not go deep."""
    return 1 + max((_depth(prior.priors) for prior in priors if isinstance(prior, Mixture)), default=0)


@dataclass(frozen=True)
class Mixture(PriorLaw):
    """Mix priors: the law is the sum of weights[i] * priors[i].

    Accuracy: at most (2Δ/ε) log(1/weights[i]) ranks worse than priors[i] alone, for every i.

    Args:
        weights: Positive, with sum 1.
        priors: The parts.
        origin: Where the prediction came from; that of the parts if left out.
        conditioned: What becomes of it inside a range, such as a node of a tree of quantiles or declared bounds. "sum"
            conditions the law as a whole, so that a part with little mass there loses its weight; "parts" conditions
            every part on its own, and the weights are the same in every range.

    >>> from sidelight.predictions import Cauchy, Laplace
    >>> float(Mixture([0.9, 0.1], [Laplace(5, 2), Cauchy(5, 3)]).cdf(5))
    0.5
    """

    weights: Sequence[float]
    priors: Sequence[Prior]
    origin: Origin = field(default=_OF_THE_PARTS, kw_only=True, repr=False)
    conditioned: Literal["sum", "parts"] = field(default="sum", kw_only=True, repr=False)

    family = "mixture"

    def __post_init__(self) -> None:
        weights = tuple(finite(weight, name="weights") for weight in self.weights)
        priors = tuple(self.priors)
        if not priors or len(weights) != len(priors):
            raise RangeError(
                f"a mixture needs one weight for each prior and at least one of both, got {len(weights)} weights and "
                f"{len(priors)} priors"
            )
        if min(weights) <= 0 or abs(sum(weights) - 1.0) > 1e-9:
            raise RangeError(
                f"the weights of a mixture must be positive and sum to 1, got {list(weights)} with sum {sum(weights)}; "
                "leave out parts of weight 0"
            )
        if _depth(priors) > _DEEPEST:
            raise RangeError(f"mixtures are nested at most {_DEEPEST} deep; multiply the weights out")
        priors = tuple(own_prior(prior, what="each part of a mixture") for prior in priors)
        if self.conditioned not in ("sum", "parts"):
            raise RangeError(f'conditioned must be "sum" or "parts", got {self.conditioned!r}')
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "priors", priors)
        if self.origin is _OF_THE_PARTS:
            object.__setattr__(self, "origin", joint_origin(prior.origin for prior in priors))

    @property
    def needs_hedge(self) -> bool:
        """Return whether no part is robust."""
        return all(prior.needs_hedge for prior in self.priors)

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> NDArray[np.float64]:
        """Return log mu((lower, upper])."""
        return np.asarray(np.logaddexp.reduce(self._log_masses(lower, upper), axis=0))

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> NDArray[np.float64]:
        """Map uniform v to a draw from mu on (lower, upper]: v picks the part, and what is left of it the place.

        The law of the draw is that of the mixture; the map is not monotone in v.
        """
        low, high, share = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (lower, upper, v)))
        logs = self._log_masses(low, high)
        top = logs.max(axis=0)
        shares = np.exp(logs - np.where(np.isneginf(top), 0.0, top))
        shares = np.where(np.isneginf(top), 1.0, shares)  # no part reaches the interval: take any
        ends = np.cumsum(shares, axis=0) / shares.sum(axis=0)
        starts = ends - shares / shares.sum(axis=0)
        chosen = np.minimum((share >= ends).sum(axis=0), len(self.priors) - 1)
        drawn = np.empty(share.shape)
        for i, prior in enumerate(self.priors):
            here = chosen == i
            if here.any():
                part = (share[here] - starts[i][here]) / (ends[i][here] - starts[i][here])
                drawn[here] = prior.inverse_in(low[here], high[here], np.clip(part, 0.0, 1.0))
        return drawn

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((-inf, x])."""
        return np.asarray(sum(w * prior.cdf(x) for w, prior in zip(self.weights, self.priors, strict=True)))

    def sf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((x, inf))."""
        return np.asarray(sum(w * prior.sf(x) for w, prior in zip(self.weights, self.priors, strict=True)))

    def piecewise_cdfs(self, grid: Outcomes, weight: int) -> tuple[PiecewiseCDF, ...]:
        """Return the parts, each with its own knots and its share of the weight, rounded down."""
        return tuple(
            part
            for share, prior in zip(self._shares(weight), self.priors, strict=True)
            for part in prior.piecewise_cdfs(grid, share)
        )

    def compile(self, grid: Outcomes) -> CompiledPrior:
        """Return the exact integer masses that a release on this grid uses."""
        if self.conditioned == "sum":
            return super().compile(grid)
        each = [prior.piecewise_cdfs(grid, UNIT) for prior in self.priors]
        parts = [ConditionedPart(len(own), share) for own, share in zip(each, self._shares(UNIT), strict=True)]
        components = [component for own in each for component in own]
        return CompiledPrior(grid.fine_first, grid.fine_last, components, parts=parts).rehearsed()

    def to_json(self) -> dict[str, object]:
        """Return strings only."""
        return {
            "family": self.family,
            "weights": [repr(weight) for weight in self.weights],
            "priors": [prior.to_json() for prior in self.priors],
            "origin": self.origin.to_json(),
            **({} if self.conditioned == "sum" else {"conditioned": self.conditioned}),
        }

    def _shares(self, weight: int) -> list[int]:
        shares = [as_decimal(w) for w in self.weights]
        whole = sum(shares, Fraction(0))
        return [int(weight * share / whole) for share in shares]

    def _log_masses(self, lower: ArrayLike, upper: ArrayLike) -> NDArray[np.float64]:
        logs = [np.log(w) + prior.log_mass(lower, upper) for w, prior in zip(self.weights, self.priors, strict=True)]
        return np.stack(logs)


# Priors are data, and no code of a user ever meets a record. The rank selection asks a prior for its mass below exact
# order statistics: so a prior is an instance of one of the classes here, never of a subclass, and a query keeps a copy
# that was built and checked anew before any data is opened. Any other law is a knot table: `Histogram(edges, masses)`.

#: Every class that a prior may be an instance of.
LAWS: Final = (Cauchy, Gaussian, HalfCauchy, HistogramPrior, Laplace, Mixture, ScaleFree, Uniform)
_METHODS: Final = ("compile", "inverse_in", "log_mass", "piecewise_cdfs")


def is_prior(given: object) -> TypeGuard[Prior]:
    """Return whether something is one of the laws here; refuse what only looks like one.

    Raises:
        RangeError: a subclass of a law, or an object with a prior's methods.
    """
    if type(given) in LAWS:
        return True
    if isinstance(given, LAWS) or any(hasattr(type(given), name) for name in _METHODS):
        raise RangeError(
            f"a {type(given).__name__} has a prior's methods and is none of sl.priors (a subclass is none either): its "
            "code would see records. Write its law as a table, sl.priors.Histogram(edges, masses), or as a Mixture"
        )
    return False


def own_prior(given: Any, *, what: str = "prediction") -> Prior:
    """Return a prior built anew from the numbers of the given one, all of them checked again.

    Args:
        given: One of `LAWS`, by exact type; so are the parts of a mixture and all origins.
        what: The parameter, for the message.

    >>> own_prior(Cauchy(40, 20)) == Cauchy(40, 20)
    True
    """
    if not is_prior(given):
        raise RangeError(
            f"{what} must be a prior such as sl.priors.Cauchy(location, scale), got {type(given).__name__}"
        )
    numbers = {each.name: getattr(given, each.name) for each in fields(given)}  # type: ignore[arg-type]
    origin = numbers["origin"]
    if type(origin) is not Origin:
        raise RangeError(
            f"the origin of a prior is public(...), released(...) or guess(...), got {type(origin).__name__}"
        )
    numbers["origin"] = Origin(**{each.name: getattr(origin, each.name) for each in fields(origin)})
    built: Prior = type(given)(**numbers)  # a mixture does this with its parts
    return built


# A prior in words, for terminals and reports.


def describe(prior: Prior) -> str:
    """Return a short description with the parameters and where the prior came from.

    >>> from sidelight.predictions import Cauchy, public
    >>> describe(Cauchy(40, 10, origin=public("census 2020")))
    'Cauchy(location=40, scale=10), public: census 2020'
    """
    return f"{_law(prior)}, {prior.origin}"


def _law(prior: Prior) -> str:
    if isinstance(prior, Mixture):
        parts = " + ".join(f"{w:.3g} {_law(part)}" for w, part in zip(prior.weights, prior.priors, strict=True))
        return f"mixture of {parts}"
    if isinstance(prior, ScaleFree):
        start = "the grid's step" if prior.resolution is None else f"{float(prior.resolution):.3g}"
        return f"every scale alike from {start} up ({prior.signs} signs)"
    fields = {key: value for key, value in vars(prior).items() if key != "origin"}
    name = type(prior).__name__.removesuffix("Prior")
    return f"{name}({', '.join(f'{key}={_short(value)}' for key, value in fields.items())})"


def _short(value: object) -> str:
    if isinstance(value, float):
        return as_read(value, digits=6, separated=math.inf)
    return f"{len(value)} numbers" if isinstance(value, tuple) else str(value)


Written = Mapping[str, object]


def prior_from_json(written: Written) -> Prior:
    """Read what a prior's `to_json` wrote.

    >>> prior_from_json(Cauchy(0.1, 3).to_json()) == Cauchy(0.1, 3)
    True
    """
    family = text_of(written, "family")
    laws = {law.family: law for law in LAWS}
    if family not in laws:
        raise RangeError(f"no prior family is called {family!r}; {nearest(family, laws)}")
    stored = written.get("origin")
    if not isinstance(stored, Mapping):
        raise RangeError("a stored prior needs its origin")
    law, origin = laws[family], origin_from_json(stored)
    if law is Mixture:
        return _mixture(written, origin)
    if law is ScaleFree:
        return _scale_free(written, origin)
    read: Callable[[Written, str], Any] = _numbers if law is HistogramPrior else _number
    numbers = {each.name: read(written, each.name) for each in fields(law) if each.name != "origin"}
    return law(**numbers, origin=origin)


def _number(written: Written, key: str) -> float:
    return finite(text_of(written, key), name=key)


def _numbers(written: Written, key: str) -> list[float]:
    return [finite(text, name=key) for text in texts_of(written, key)]


def _mixture(written: Written, origin: Origin) -> Prior:
    parts = written.get("priors")
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
        raise RangeError("a stored mixture needs the list of its priors")
    conditioned: Any = written.get("conditioned", "sum")
    priors = [prior_from_json(part) for part in parts]
    return Mixture(_numbers(written, "weights"), priors, origin=origin, conditioned=conditioned)


def _scale_free(written: Written, origin: Origin) -> Prior:
    signs: Any = text_of(written, "signs")
    resolution = text_of(written, "resolution")
    return ScaleFree(None if resolution == "grid" else resolution, signs, origin=origin)


def text_of(written: Mapping[str, object], key: str) -> str:
    """Return a field that must be there as text."""
    value = written.get(key)
    if not isinstance(value, str):
        raise RangeError(f"a stored prior needs the field {key!r} as text, got {value!r}")
    return value


def texts_of(written: Mapping[str, object], key: str) -> list[str]:
    """Return a field that must be there as a list of texts."""
    value = written.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise RangeError(f"a stored prior needs the field {key!r} as a list of texts, got {value!r}")
    return value
