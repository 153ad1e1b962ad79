"""`[[query]]` kinds that fit models: logistic and linear regression, and support vectors.

Each becomes a query of the library with the plan's own words; what the library refuses is told with the place in the
plan. scikit-learn is loaded by the plans that ask for an estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from sidelight.plan_section import COMMON, Section
from sidelight.records.numbers import exact_number
from sidelight.session import Query

#: Keys of every estimator: what it learns from what, its price, and how it is fitted.
_SHARED = (
    "target",
    "features",
    "epsilon",
    "delta",
    "prediction",
    "rows",
    "odds",
    "regularisation",
    "theta_norm",
    "intercept",
    "rows_at_most",
    "bound",
)
#: Keys of the estimators that have both solvers.
_SOLVERS = ("solver", "geometry", "shrinkage", "passes")
_CHOICES = {
    "bound": ["tight", "generic", "thesis"],
    "solver": ["descent", "objective"],
    "geometry": ["auto", "public", "private", "none"],
    "shrinkage": ["evidence", "stein", "none"],
}


def logistic_regression(section: Section) -> Query:
    """Read `kind = "logistic_regression"`."""
    section.only(*COMMON, *_SHARED, *_SOLVERS, "classes", "class_weight", "multi_class")
    from sidelight.regression.estimators import LogisticRegression

    given = _classes(section)
    if "class_weight" in section:
        weights = section.section("class_weight")
        given["class_weight"] = {_label(key): weights.amount(key) for key in weights.values}
        given["class_weight"] = {
            key: exact_number(value, name=f"class_weight of {key}") for key, value in given["class_weight"].items()
        }
    if "multi_class" in section:
        given["multi_class"] = section.choice("multi_class", ["softmax", "one_vs_rest"])
    return _model(section, LogisticRegression, given)


def linear_regression(section: Section) -> Query:
    """Read `kind = "linear_regression"`."""
    section.only(*COMMON, *_SHARED, *_SOLVERS, "loss", "scale")
    from sidelight.regression.estimators import LinearRegression

    given: dict[str, Any] = {}
    if "loss" in section:
        given["loss"] = section.choice("loss", ["squared", "log_cosh", "huber", "squared_clipped"])
    if "scale" in section:
        given["scale"] = section.amount("scale")
    return _model(section, LinearRegression, given)


def linear_svc(section: Section) -> Query:
    """Read `kind = "linear_svc"`."""
    section.only(*COMMON, *_SHARED, "classes", "width")
    from sidelight.regression.estimators import LinearSVC

    given = _classes(section)
    if "width" in section:
        given["width"] = section.amount("width")
    return _model(section, LinearSVC, given)


def _model(section: Section, estimator: Callable[..., Any], given: dict[str, Any]) -> Query:
    from sidelight.regression.model_query import ModelQuery

    for key in ("regularisation", "theta_norm", "odds"):
        if key in section:
            given[key] = section.amount(key)
    for key in ("rows_at_most", "rows", "passes"):
        if key in section:
            given[key] = section.integer(key)
    for key, options in _CHOICES.items():
        if key in section:
            given[key] = section.choice(key, options)
    if "prediction" in section:
        several = isinstance(section.values["prediction"], list)
        parts = section.sections("prediction") if several else [section.section("prediction")]
        given["prediction"] = [_prediction(part) for part in parts]
    if section.values.get("intercept") is False:
        given["fit_intercept"] = False
    elif "intercept" in section:
        given["intercept_value"] = section.amount("intercept")
    model = estimator(epsilon=section.amount("epsilon"), delta=section.amount("delta"), **given)
    return ModelQuery(model=model, target=section.text("target"), features=section.texts("features", None))


def _prediction(given: Section) -> Any:
    """Read one prediction: public rows, an earlier release, or stated coefficients.

    `{public = "rows.csv", origin = "..."}`, `{release = "model.json"}`, or `{coefficients = {age = 0.02}, intercept =
    1, scale = 0.1, origin = "..."}`.
    """
    given.only("public", "release", "coefficients", "intercept", "scale", "origin")
    kinds = [key for key in ("public", "release", "coefficients") if key in given]
    if len(kinds) != 1:
        given.refuse(
            'a prediction of a model is {public = "rows.csv", origin = "..."}, {release = "model.json"}, or '
            "{coefficients = {age = 0.02}, intercept = 1, origin = ...}: name one of the three"
        )
    if kinds == ["public"]:
        given.only("public", "origin")
        file = str(given.existing_file("public"))
        with given.naming("public"):
            from sidelight.predictions import PublicData

            return PublicData(file, given.text("origin"))
    if kinds == ["release"]:
        given.only("release")
        with given.naming("release"):
            from sidelight.release import Release

            return Release.from_json(given.existing_file("release").read_text(encoding="utf-8"))
    from sidelight.regression.coefficient_prediction import CoefficientPrediction

    more = {key: _plain(given.values[key]) for key in ("intercept", "scale") if key in given}
    with given.naming("coefficients"):
        origin = given.text("origin", None)
        return CoefficientPrediction(_plain(given.values["coefficients"]), **more, origin=origin)


def _plain(value: Any) -> Any:
    """Return the decimals of a plan as floats: a prediction needs no digit more."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, Decimal) else value


def _classes(section: Section) -> dict[str, Any]:
    return {"classes": section.labels("classes")} if "classes" in section else {}


def _label(key: str) -> str | int:
    """Read a key of class_weight: TOML keys are texts, labels may be whole numbers."""
    return int(key) if key.removeprefix("-").isdigit() else key
