"""`[[query]]` of a plan: one table from a kind's name to the function that builds the query.

A problem package becomes available in plans by one entry in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, get_args

from sidelight.cli.plans import models
from sidelight.cli.plans.gaussians import gaussian, gaussian_mixture
from sidelight.cli.plans.predictions import read_prediction
from sidelight.cli.plans.section import Section
from sidelight.cli.plans.synthesis import synthetic_table
from sidelight.covariance import Covariance
from sidelight.covariance.plan import Method
from sidelight.mechanisms.noisy_moments import MatrixLaw
from sidelight.quantiles import Quantiles
from sidelight.session import Query
from sidelight.stability.median import StableMedian
from sidelight.stability.mode import StableMode

#: Keys that every query may have; the plan itself reads them.
COMMON = ("kind", "title")
METHODS: tuple[str, ...] = get_args(Method)
NOISES: tuple[str, ...] = get_args(MatrixLaw)


def build_query(section: Section) -> Query:
    """Build the query that a `[[query]]` table describes."""
    kind = section.choice("kind", list(KINDS))
    with section.naming():
        return KINDS[kind](section)


def _quantiles(section: Section) -> Query:
    section.only(
        *COMMON,
        "levels",
        "epsilon",
        "column",
        "prediction",
        "resolution",
        "adaptation",
        "branching",
        "budget_power",
        "score",
    )
    given: dict[str, Any] = {}
    if "prediction" in section:
        given["prediction"] = read_prediction(section, "prediction")
    if "adaptation" in section:
        given["adaptation"] = section.choice("adaptation", ["conditional", "edge"])
    if "branching" in section:
        wide = section.values["branching"] == "wide"
        given["branching"] = "wide" if wide else section.integer("branching")
    if "score" in section:
        given["score"] = section.choice("score", ["exact", "floor"])
    for key in ("budget_power", "resolution"):
        if key in section:
            given[key] = section.amount(key)
    return Quantiles(
        section.amounts("levels"), epsilon=section.amount("epsilon"), column=section.text("column", None), **given
    )


def _covariance(section: Section) -> Query:
    amounts = ("rho", "epsilon", "delta", "count_share", "mean_share", "value_share")
    section.only(
        *COMMON,
        "columns",
        "radius",
        *amounts,
        "prediction",
        "method",
        "noise",
        "center",
        "rows",
        "project",
        "limit_trace",
    )
    given: dict[str, Any] = {key: section.amount(key) for key in amounts if key in section}
    for key, options in (("method", METHODS), ("noise", NOISES)):
        if key in section:
            given[key] = section.choice(key, options)
    if "prediction" in section:
        given["prediction"] = [[float(entry) for entry in row] for row in _rows(section, "prediction")]
    if "center" in section:
        text = isinstance(section.values["center"], str)
        given["center"] = section.choice("center", ["mean", "pairs"]) if text else _numbers(section, "center")
    if "rows" in section:
        given["rows"] = section.integer("rows")
    return Covariance(
        section.texts("columns", None),
        radius=section.amount("radius"),
        project=section.flag("project", default=True),
        limit_trace=section.flag("limit_trace", default=section.flag("project", default=True)),
        **given,
    )


def _stable_median(section: Section) -> Query:
    amounts = ("epsilon", "delta", "spread", "test_share", "resolution")
    section.only(*COMMON, "column", *amounts)
    given: dict[str, Any] = {key: section.amount(key) for key in amounts[2:] if key in section}
    price = {key: section.amount(key) for key in amounts[:2]}
    return StableMedian(section.text("column", None), **price, **given)


def _stable_mode(section: Section) -> Query:
    section.only(*COMMON, "column", "epsilon", "delta")
    return StableMode(section.text("column", None), epsilon=section.amount("epsilon"), delta=section.amount("delta"))


def _numbers(section: Section, key: str) -> list[Decimal]:
    return [Decimal(entry) for entry in section.amounts(key)]


def _rows(section: Section, key: str) -> list[list[Decimal]]:
    """Read a matrix: a list of rows of numbers."""
    rows = section.entries(key)
    for row in rows:
        if not isinstance(row, list) or any(isinstance(e, bool) or not isinstance(e, int | Decimal) for e in row):
            section.refuse(f"{key} must be a list of rows of numbers, such as [[1.0, 0.2], [0.2, 0.5]]", key=key)
    return rows


KINDS: dict[str, Callable[[Section], Query]] = {
    "adassp": models.adassp,
    "covariance": _covariance,
    "gaussian": gaussian,
    "gaussian_mixture": gaussian_mixture,
    "linear_regression": models.linear_regression,
    "linear_svc": models.linear_svc,
    "logistic_regression": models.logistic_regression,
    "quantiles": _quantiles,
    "stable_median": _stable_median,
    "stable_mode": _stable_mode,
    "synthetic_table": synthetic_table,
}
