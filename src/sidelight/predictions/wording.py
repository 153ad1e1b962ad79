"""A prior in words, for terminals and reports."""

from __future__ import annotations

from sidelight.predictions.mixture import Mixture
from sidelight.predictions.priors import Prior
from sidelight.predictions.scale_free import ScaleFree


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
