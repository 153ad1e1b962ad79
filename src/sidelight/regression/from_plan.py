"""`[[query]]` kinds that fit models: logistic and linear regression, support vectors, and ridge regression in one pass.

Each becomes a query of the library with the plan's own words; what the library refuses is told with the place in the
plan. scikit-learn is loaded by the plans that ask for an estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sidelight.plan_section import COMMON, Section
from sidelight.session import Query

#: Keys of every estimator: what it learns from what, its price, and how it is fitted.
_SHARED = (
    "target",
    "features",
    "epsilon",
    "delta",
    "regularisation",
    "theta_norm",
    "intercept",
    "rows_at_most",
    "bound",
)
_BOUNDS = ["tight", "generic", "thesis"]


def logistic_regression(section: Section) -> Query:
    """Read `kind = "logistic_regression"`."""
    section.only(*COMMON, *_SHARED, "classes", "class_weight", "multi_class")
    from sidelight.regression.estimators import LogisticRegression

    given = _classes(section)
    if "class_weight" in section:
        weights = section.section("class_weight")
        given["class_weight"] = {_label(key): weights.amount(key) for key in weights.values}
        given["class_weight"] = {key: _number(value) for key, value in given["class_weight"].items()}
    if "multi_class" in section:
        given["multi_class"] = section.choice("multi_class", ["softmax", "one_vs_rest"])
    return _model(section, LogisticRegression, given)


def linear_regression(section: Section) -> Query:
    """Read `kind = "linear_regression"`."""
    section.only(*COMMON, *_SHARED, "loss", "scale")
    from sidelight.regression.estimators import LinearRegression

    given: dict[str, Any] = {}
    if "loss" in section:
        given["loss"] = section.choice("loss", ["log_cosh", "huber", "squared_clipped"])
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


def adassp(section: Section) -> Query:
    """Read `kind = "adassp"`."""
    amounts = ("mu", "rho", "epsilon", "delta", "feature_norm", "intercept", "penalty", "gram_share")
    section.only(*COMMON, "target", "features", "shrinkage", *amounts)
    from sidelight.regression.adassp import AdaSSP

    given = {key: section.amount(key) for key in amounts if key in section}
    if "shrinkage" in section:
        given["shrinkage"] = section.choice("shrinkage", ["directions", "uniform"])
    return AdaSSP(features=section.texts("features"), target=section.text("target"), **given)


def _model(section: Section, estimator: Callable[..., Any], given: dict[str, Any]) -> Query:
    from sidelight.regression.model_query import ModelQuery

    for key in ("regularisation", "theta_norm"):
        if key in section:
            given[key] = section.amount(key)
    if "rows_at_most" in section:
        given["rows_at_most"] = section.integer("rows_at_most")
    if "bound" in section:
        given["bound"] = section.choice("bound", _BOUNDS)
    if section.values.get("intercept") is False:
        given["fit_intercept"] = False
    elif "intercept" in section:
        given["intercept_value"] = section.amount("intercept")
    model = estimator(epsilon=section.amount("epsilon"), delta=section.amount("delta"), **given)
    return ModelQuery(model=model, target=section.text("target"), features=section.texts("features", None))


def _classes(section: Section) -> dict[str, Any]:
    return {"classes": section.labels("classes")} if "classes" in section else {}


def _label(key: str) -> str | int:
    """Read a key of class_weight: TOML keys are texts, labels may be whole numbers."""
    return int(key) if key.removeprefix("-").isdigit() else key


def _number(amount: Any) -> Any:
    from fractions import Fraction

    return Fraction(amount)
