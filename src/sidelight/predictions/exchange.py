"""Priors as JSON and back, in strings so that no number changes on the way, and in words for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from sidelight.errors import RangeError, nearest
from sidelight.predictions.cauchy import Cauchy, HalfCauchy
from sidelight.predictions.gaussian import Gaussian
from sidelight.predictions.histogram import Histogram
from sidelight.predictions.laplace import Laplace
from sidelight.predictions.mixture import Mixture
from sidelight.predictions.origin import Origin, origin_from_json
from sidelight.predictions.priors import Prior, finite, text_of, texts_of
from sidelight.predictions.scale_free import ScaleFree
from sidelight.predictions.uniform import Uniform

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
    return f"{type(prior).__name__}({', '.join(f'{key}={_short(value)}' for key, value in fields.items())})"


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{len(value)} numbers" if isinstance(value, tuple) else str(value)


Written = Mapping[str, object]


def prior_from_json(written: Written) -> Prior:
    """Read what a prior's `to_json` wrote.

    >>> prior_from_json(Cauchy(0.1, 3).to_json()) == Cauchy(0.1, 3)
    True
    """
    family = text_of(written, "family")
    if family not in _READERS:
        raise RangeError(f"no prior family is called {family!r}; {nearest(family, _READERS)}")
    origin = written.get("origin")
    if not isinstance(origin, Mapping):
        raise RangeError("a stored prior needs its origin")
    return _READERS[family](written, origin_from_json(origin))


def _number(written: Written, key: str) -> float:
    return finite(text_of(written, key), name=key)


def _numbers(written: Written, key: str) -> list[float]:
    return [finite(text, name=key) for text in texts_of(written, key)]


def _mixture(written: Written, origin: Origin) -> Prior:
    parts = written.get("priors")
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
        raise RangeError("a stored mixture needs the list of its priors")
    conditioned = written.get("conditioned", "sum")
    if conditioned not in ("sum", "parts"):
        raise RangeError(f"conditioned must be 'sum' or 'parts', got {conditioned!r}")
    priors = [prior_from_json(part) for part in parts]
    as_parts: Literal["sum", "parts"] = "parts" if conditioned == "parts" else "sum"
    return Mixture(_numbers(written, "weights"), priors, origin=origin, conditioned=as_parts)


def _scale_free(written: Written, origin: Origin) -> Prior:
    signs = text_of(written, "signs")
    if signs not in ("both", "positive"):
        raise RangeError(f"signs must be 'both' or 'positive', got {signs!r}")
    resolution = text_of(written, "resolution")
    exact = None if resolution == "grid" else resolution
    return ScaleFree(exact, "both" if signs == "both" else "positive", origin=origin)


_READERS: dict[str, Callable[[Written, Origin], Prior]] = {
    "uniform": lambda w, o: Uniform(_number(w, "lower"), _number(w, "upper"), origin=o),
    "cauchy": lambda w, o: Cauchy(_number(w, "location"), _number(w, "scale"), origin=o),
    "half_cauchy": lambda w, o: HalfCauchy(_number(w, "scale"), _number(w, "location"), origin=o),
    "laplace": lambda w, o: Laplace(_number(w, "location"), _number(w, "scale"), origin=o),
    "gaussian": lambda w, o: Gaussian(_number(w, "location"), _number(w, "scale"), origin=o),
    "histogram": lambda w, o: Histogram(_numbers(w, "edges"), _numbers(w, "masses"), origin=o),
    "mixture": _mixture,
    "scale_free": _scale_free,
}
