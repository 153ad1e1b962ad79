"""`prediction = {family = "cauchy", ...}` of a plan: side information as a prior, with its origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sidelight.plan_section import Section
from sidelight.predictions import (
    Cauchy,
    Gaussian,
    HalfCauchy,
    Histogram,
    Laplace,
    Mixture,
    Prior,
    ScaleFree,
    Uniform,
    hedge,
)
from sidelight.predictions.origin import Origin, guess, public, released


def read_prediction(section: Section, key: str) -> Prior | list[Prior] | None:
    """Read one prior, a list with one prior a level, or nothing."""
    if key not in section:
        return None
    if isinstance(section.values[key], list):
        return [_prior(each) for each in section.sections(key)]
    return _prior(section.section(key))


def _prior(section: Section) -> Prior:
    family = section.choice("family", list(FAMILIES))
    with section.naming():
        return FAMILIES[family](section)


def _uniform(section: Section) -> Prior:
    section.only("family", "lower", "upper", "origin")
    return Uniform(section.amount("lower"), section.amount("upper"), origin=_origin(section))


def _located(make: Callable[..., Prior]) -> Callable[[Section], Prior]:
    def build(section: Section) -> Prior:
        section.only("family", "location", "scale", "origin")
        return make(section.amount("location"), section.amount("scale"), origin=_origin(section))

    return build


def _half_cauchy(section: Section) -> Prior:
    section.only("family", "scale", "location", "origin")
    location: dict[str, Any] = {"location": section.amount("location")} if "location" in section else {}
    return HalfCauchy(section.amount("scale"), **location, origin=_origin(section))


def _histogram(section: Section) -> Prior:
    section.only("family", "edges", "masses", "origin")
    return Histogram(section.amounts("edges"), section.amounts("masses"), origin=_origin(section))


def _scale_free(section: Section) -> Prior:
    section.only("family", "resolution", "signs")
    return ScaleFree(section.amount("resolution"), section.choice("signs", ["both", "positive"], "both"))


def _mixture(section: Section) -> Prior:
    section.only("family", "weights", "priors", "conditioned")
    priors = [_prior(each) for each in section.sections("priors")]
    conditioned = section.choice("conditioned", ["sum", "parts"], "sum")
    return Mixture(section.amounts("weights"), priors, conditioned=conditioned)


def _hedge(section: Section) -> Prior:
    section.only("family", "prediction", "with", "weight")
    weight: dict[str, Any] = {"weight": section.amount("weight")} if "weight" in section else {}
    return hedge(_prior(section.section("prediction")), with_=_prior(section.section("with")), **weight)


def _origin(section: Section) -> Origin:
    """Read `origin = "guess"`, `{public = "census of 2021"}` or `{released = ["entry id"]}`; left out, a guess."""
    if section.values.get("origin", "guess") == "guess":
        return guess()
    if not isinstance(section.values["origin"], dict):
        section.refuse(
            'origin must be "guess", {public = "where it is published"} or {released = ["entry id", ...]}', key="origin"
        )
    origin = section.section("origin").only("public", "released")
    if len(origin.values) != 1:
        origin.refuse("an origin is one of public or released")
    if "public" in origin:
        return public(origin.text("public"))
    return released(*origin.texts("released"))


FAMILIES: dict[str, Callable[[Section], Prior]] = {
    "uniform": _uniform,
    "cauchy": _located(Cauchy),
    "half_cauchy": _half_cauchy,
    "laplace": _located(Laplace),
    "gaussian": _located(Gaussian),
    "histogram": _histogram,
    "scale_free": _scale_free,
    "mixture": _mixture,
    "hedge": _hedge,
}
