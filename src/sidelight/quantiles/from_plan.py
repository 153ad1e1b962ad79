"""`[[query]]` with `kind = "quantiles"`."""

from __future__ import annotations

from typing import Any

from sidelight.plan_section import COMMON, Section
from sidelight.predictions.from_plan import read_prediction
from sidelight.quantiles.query import Quantiles


def quantiles(section: Section) -> Quantiles:
    """Read `kind = "quantiles"`."""
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
