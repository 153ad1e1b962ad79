"""`[[query]]` with `kind = "covariance"`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, get_args

from sidelight.covariance.plan import Method
from sidelight.covariance.query import Covariance
from sidelight.mechanisms.noisy_moments import MatrixLaw
from sidelight.plan_section import COMMON, Section


def covariance(section: Section) -> Covariance:
    """Read `kind = "covariance"`."""
    amounts = ("rho", "epsilon", "delta", "count_share", "mean_share", "value_share")
    section.only(
        *COMMON,
        "columns",
        "radius",
        *amounts,
        "prediction",
        "method",
        "noise",
        "centre",
        "rows",
        "project",
        "limit_trace",
    )
    given: dict[str, Any] = {key: section.amount(key) for key in amounts if key in section}
    for key, options in (("method", get_args(Method)), ("noise", get_args(MatrixLaw))):
        if key in section:
            given[key] = section.choice(key, options)
    if "prediction" in section:
        given["prediction"] = [[float(entry) for entry in row] for row in _rows(section, "prediction")]
    if "centre" in section:
        text = isinstance(section.values["centre"], str)
        given["centre"] = section.choice("centre", ["mean", "pairs"]) if text else _numbers(section, "centre")
    if "rows" in section:
        given["rows"] = section.integer("rows")
    return Covariance(
        section.texts("columns", None),
        radius=section.amount("radius"),
        project=section.flag("project", default=True),
        limit_trace=section.flag("limit_trace", default=section.flag("project", default=True)),
        **given,
    )


def _numbers(section: Section, key: str) -> list[Decimal]:
    return [Decimal(entry) for entry in section.amounts(key)]


def _rows(section: Section, key: str) -> list[list[Decimal]]:
    """Read a matrix: a list of rows of numbers."""
    rows = section.entries(key)
    for row in rows:
        if not isinstance(row, list) or any(isinstance(e, bool) or not isinstance(e, int | Decimal) for e in row):
            section.refuse(f"{key} must be a list of rows of numbers, such as [[1.0, 0.2], [0.2, 0.5]]", key=key)
    return rows
