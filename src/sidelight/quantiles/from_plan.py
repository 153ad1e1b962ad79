"""`[[query]]` with `kind = "quantiles"` or `kind = "distribution"`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sidelight.plan_section import COMMON, Section
from sidelight.predictions.from_plan import read_prediction
from sidelight.quantiles.forms.rule import FORMS
from sidelight.quantiles.query import Quantiles
from sidelight.records.expression_text import parse_expression
from sidelight.records.expressions import Expression

if TYPE_CHECKING:
    from sidelight.quantiles.distribution import Distribution


def quantiles(section: Section) -> Quantiles:
    """Read `kind = "quantiles"`."""
    section.only(
        *COMMON,
        "levels",
        *("epsilon", "delta", "rho", "form", "size", "cells"),
        "column",
        "prediction",
        "resolution",
        "adaptation",
        "branching",
        "budget_power",
        "score",
        *("by", "where", "max_groups", "max_rows_per_group", "borrow"),
    )
    given: dict[str, Any] = {}
    if "prediction" in section:
        given["prediction"] = read_prediction(section, "prediction")
    if "by" in section:
        given["by"] = read_groups(section)
    if "where" in section:
        with section.naming("where"):
            given["where"] = parse_expression(section.text("where"))
    for key in ("max_groups", "max_rows_per_group", "size", "branching"):
        if key in section:
            given[key] = section.integer(key)
    if "borrow" in section:
        given["borrow"] = section.choice("borrow", ["total"])
    if "adaptation" in section:
        given["adaptation"] = section.choice("adaptation", ["conditional", "edge"])
    if "cells" in section:
        given["cells"] = section.choice("cells", ["selected", "predicted"])
    if "form" in section:
        given["form"] = section.choice("form", list(FORMS))
    if "score" in section:
        given["score"] = section.choice("score", ["exact", "floor"])
    for key in ("epsilon", "delta", "rho", "budget_power", "resolution"):
        if key in section or (key == "epsilon" and "rho" not in section):
            given[key] = section.amount(key)
    return Quantiles(section.amounts("levels"), column=section.text("column", None), **given)


def distribution(section: Section) -> Distribution:
    """Read `kind = "distribution"`."""
    from sidelight.quantiles.distribution import Distribution  # a plan of a few quantiles does without it

    section.only(*COMMON, "column", "epsilon", "rho", "prediction", "resolution", "size")
    given: dict[str, Any] = {}
    if "prediction" in section:
        given["prediction"] = read_prediction(section, "prediction")
    if "size" in section:
        given["size"] = section.integer("size")
    for key in ("epsilon", "rho", "resolution"):
        if key in section:
            given[key] = section.amount(key)
    return Distribution(section.text("column"), **given)


def read_groups(section: Section) -> list[str | Expression]:
    """Read `by`: one column, or a list; each is the name of a column, or a text such as "cut(age, [18, 65])"."""
    given = [section.text("by")] if isinstance(section.values["by"], str) else section.texts("by")
    with section.naming("by"):
        return [parse_expression(each) if each.startswith(("cut(", "lookup(", "col(")) else each for each in given]
