"""`model.privacy_report()` of an additive model: its released tables and path, for the bound of one person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np

from sidelight.errors import RangeError
from sidelight.privacy_page.published import Guarantee, RowEncoding
from sidelight.privacy_page.stepwise_reports import AdditiveReport, ColumnPath, build_additive_report
from sidelight.records import Category, Number
from sidelight.records.numbers import exact_number
from sidelight.regression.additive.fine_codes import FINE_CELLS, fine_size
from sidelight.regression.additive.fit import MOST_REPORTED_COLUMNS
from sidelight.regression.additive.plan import additive_shares
from sidelight.regression.additive.steps import gram_radius
from sidelight.regression.descent.integer_rows import Z_BITS
from sidelight.regression.descent.rules import SecondLook, shares
from sidelight.regression.estimators.additive_query import split_by
from sidelight.regression.estimators.privacy_report import (
    branded,
    choice_epsilon,
    cost_of,
    declared_features,
    descent_loss,
    label_encoding,
    path_report,
)
from sidelight.release import Release


def additive_report_of(
    release: Release, columns: Sequence[Number | Category], *, classes: Sequence[Any] | None, rho: float
) -> AdditiveReport:
    """Write the report of a released additive model."""
    request, value = release.query, release.value
    if "points" not in value:
        raise RangeError(
            f"an additive model stores its path for reports up to {MOST_REPORTED_COLUMNS} columns and 32768 numbers; "
            "this one is larger, and has no report"
        )
    mu = exact_number(request["mu"], name="mu")
    lines = request["lines"] != "none"
    parts = additive_shares(
        lines=lines, candidates=request["predictions"] != "0", rows_declared=request["rows"] != "none"
    )
    guarantee = Guarantee(epsilon=float(request["epsilon"]), delta=float(request["delta"]))
    encoding = RowEncoding(
        features=declared_features(columns),
        row_policy="clip",
        data_norm=1.0,
        intercept_value=None,
        label=label_encoding(request, classes),
    )
    loss = descent_loss(request)
    points = np.asarray(value["points"], np.float64)
    offset_constant = np.atleast_1d(value.get("offset_constant", 0.0))
    radius, tables = _columns(columns, value, points)
    first = None
    if lines:
        look = get_args(SecondLook)[int(value.get("line_second_look", 0))]
        path = {name.removeprefix("line_"): each for name, each in value.items() if name.startswith("line_")}
        of_lines = shares(
            request["loss"], "private", candidates=False, rows_declared=request["rows"] != "none", intercept=True
        ).with_look(look)
        first = path_report(
            path,
            loss=loss,
            encoding=encoding,
            shares=of_lines,
            mu=mu / 2,
            intercept=True,
            bits=26,
            guarantee=guarantee,
            rho=rho,
        )
    report = build_additive_report(
        rho=rho,
        guarantee=guarantee,
        loss=loss,
        encoding=encoding,
        lines=first,
        columns=tables,
        constants=[(np.atleast_1d(point[0]) + offset_constant).tolist() for point in points],
        clips=np.asarray(value["clips"], np.float64).tolist(),
        radius=radius * 2.0**-Z_BITS,
        mu_step=cost_of(mu, parts.steps / len(points)),
        mu_gram=cost_of(mu, parts.gram) if radius else 0.0,
        mu_count=cost_of(mu, parts.count + parts.counts),
        beforehand=choice_epsilon(mu, parts.choice),
    )
    return branded(report, release)


def _columns(
    columns: Sequence[Number | Category], value: Mapping[str, Any], points: Any
) -> tuple[int, list[ColumnPath]]:
    """Return the length to which rows of the matrix are shortened, and the tables of each column."""
    sizes = [fine_size(column) for column in columns]
    cells, widths = np.asarray(value["cells"], int), np.asarray(value["widths"], int)
    places = split_by(value["cell_of"], sizes)
    z = split_by(value["z"], cells * widths)
    weights = split_by(value["weights"], widths)
    offset = np.asarray(value["offset"]) if "offset" in value else np.zeros((sum(sizes), *points.shape[2:]))
    began, most = split_by(offset, sizes), int(value["leading"])
    parts = np.split(points[:, 1:], np.cumsum(widths)[:-1], axis=1)
    found = []
    for at, column in enumerate(columns):
        own = z[at].reshape(cells[at], widths[at])
        whole = np.rint(own * 2.0**Z_BITS) * 2.0**-Z_BITS
        # the integers of the matrix are at most half a unit and a rounding away
        leading = np.abs(own / np.sqrt(weights[at]))[:, :most] + 2.0 ** (-Z_BITS - 1) * (1 + 1e-6)
        codes = FINE_CELLS if isinstance(column, Number) else sizes[at]
        steps = np.einsum("cm,tm...->tc...", whole, parts[at])
        found.append(
            ColumnPath(
                cell=places[at][:codes].astype(int).tolist(),
                offset=began[at][:codes].reshape(codes, -1).tolist(),
                steps=steps.reshape(len(points), cells[at], -1).tolist(),
                square=(whole**2).sum(axis=1).tolist(),
                leading=(leading**2).sum(axis=1).tolist(),
            )
        )
    components = int(np.minimum(widths, most).sum())
    return gram_radius(components) if components else 0, found
