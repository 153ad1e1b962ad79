"""`[[query]]` kinds of Gaussians: mean and covariance with a few public rows, and mixtures of separated groups.

Public rows stand in the plan or in a file beside it, always with their origin. That a file is not the plan's own source
is seen where all plans are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, get_args

from sidelight.gaussians import GaussianFit
from sidelight.gaussians.mixture.prepared import Method, OnFailure, PreparedMixture
from sidelight.gaussians.mixture.query import SeparatedMixture
from sidelight.gaussians.step_arithmetic import Version
from sidelight.plan_section import COMMON, Section
from sidelight.predictions import PublicData
from sidelight.records import Schema
from sidelight.session import Query
from sidelight.session.query import PublicSource, prepare_query

_PRICE = ("rho", "epsilon", "delta")


def gaussian(section: Section) -> Query:
    """Read `kind = "gaussian"`."""
    amounts = (*_PRICE, "condition", "scale", "gap", "mean_bound", "variance_bound")
    section.only(*COMMON, "columns", "prediction", *amounts, "steps", "rows", "noise", "constants")
    given: dict[str, Any] = {key: section.amount(key) for key in amounts if key in section}
    for key in ("steps", "rows"):
        if key in section:
            given[key] = section.integer(key)
    if "noise" in section:
        given["noise"] = section.choice("noise", ["laplace"])
    if "constants" in section:
        given["constants"] = section.choice("constants", get_args(Version))
    if "prediction" in section:
        given["prediction"] = _public_rows(section)
    elif not {"mean_bound", "variance_bound"} <= section.values.keys():
        section.refuse(
            'a Gaussian wants prediction = {public = "rows.csv", origin = "..."}, two public rows or more, or the '
            "ranges mean_bound and variance_bound"
        )
    return GaussianFit(section.texts("columns", None), **given)


def gaussian_mixture(section: Section) -> Query:
    """Read `kind = "gaussian_mixture"`."""
    amounts = (*_PRICE, "least_weight", "condition")
    section.only(*COMMON, "columns", "components", "prediction", *amounts, "method", "on_failure")
    given: dict[str, Any] = {key: section.amount(key) for key in amounts if key in section}
    for key, options in (("method", get_args(Method)), ("on_failure", get_args(OnFailure))):
        if key in section:
            given[key] = section.choice(key, options)
    query = SeparatedMixture(
        section.texts("columns", None),
        components=section.integer("components", None),
        prediction=_public_rows(section),
        **given,
    )
    return _MixtureOfAFile(query)


@dataclass(frozen=True)
class _MixtureOfAFile:
    """A mixture of a plan's source, which is a file: what cannot be read from one is refused with the plan."""

    query: SeparatedMixture

    def prepare(self, schema: Schema) -> PreparedMixture:
        prepared = prepare_query(self.query, schema)
        prepared.check_source(PublicSource(schema=schema, engine="file", in_memory=False))
        return prepared


def _public_rows(section: Section) -> PublicData:
    """Read `prediction = {public = "rows.csv", origin = "..."}`, or `{rows = [[1.5, 2], [3, 4]], origin = "..."}`."""
    given = section.section("prediction").only("public", "rows", "origin")
    if ("public" in given) == ("rows" in given):
        given.refuse(
            'public rows are {public = "rows.csv", origin = "where they are published"} or {rows = [[1.5, 2], [3, 4]], '
            "origin = ...}: name one of the two"
        )
    columns = section.texts("columns", None)
    if "rows" in given:
        rows = _rows_in_plan(given)
        with given.naming():
            return PublicData(rows, given.text("origin"))
    file = given.existing_file("public")
    if columns is None:
        given.refuse("public rows of a file are found by name; write columns = [...] in the query", key="public")
    with given.naming():
        found = PublicData(str(file), given.text("origin"))
    with given.naming("public"):
        return found.read(columns)


def _rows_in_plan(given: Section) -> list[list[float]]:
    rows = given.entries("rows")
    fit = all(
        isinstance(row, list) and all(isinstance(each, int | Decimal) and not isinstance(each, bool) for each in row)
        for row in rows
    )
    if not fit or not rows or len({len(row) for row in rows}) != 1 or not rows[0]:
        given.refuse("rows must be rows of numbers, all of one length, such as [[1.5, 2], [3, 4]]", key="rows")
    return [[float(each) for each in row] for row in rows]
