"""`[[query]]` of a plan: one table from a kind's name to the function that builds the query.

A problem package becomes available in plans by one entry in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sidelight.cli.plans import models
from sidelight.cli.plans.predictions import read_prediction
from sidelight.cli.plans.section import Section
from sidelight.quantiles import Quantiles
from sidelight.session import Query

#: Keys that every query may have; the plan itself reads them.
COMMON = ("kind", "title")


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


KINDS: dict[str, Callable[[Section], Query]] = {
    "adassp": models.adassp,
    "linear_regression": models.linear_regression,
    "linear_svc": models.linear_svc,
    "logistic_regression": models.logistic_regression,
    "quantiles": _quantiles,
}
