"""`[[query]]` with `kind = "synthetic_table"`: the library's query in the plan's own words."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, get_args

from sidelight.cli.plans.section import Section
from sidelight.session import Query
from sidelight.synthesis import SyntheticTable, marginals
from sidelight.synthesis.engine_choice import Engine

ENGINES: tuple[str, ...] = get_args(Engine)


def synthetic_table(section: Section) -> Query:
    """Read `kind = "synthetic_table"`."""
    amounts = ("rho", "epsilon", "delta")
    section.only("kind", "title", "ways", "sets", "columns", "bins", "missing", *amounts, "rows", "rounds", "engine")
    given: dict[str, Any] = {key: section.amount(key) for key in amounts if key in section}
    for key in ("rows", "rounds"):
        if key in section:
            given[key] = section.integer(key)
    if "engine" in section:
        given["engine"] = section.choice("engine", ENGINES)
    if "bins" in section:
        given["bins"] = _bins(section.section("bins"))
    workload = marginals(sets=_sets(section)) if "sets" in section else marginals(section.integer("ways", 2))
    return SyntheticTable(
        workload, columns=section.texts("columns", None), missing=section.texts("missing", ()), **given
    )


def _bins(section: Section) -> dict[str, Any]:
    """Read edges, or a number of bins, for each column."""
    found: dict[str, Any] = {}
    for name, value in section.values.items():
        if isinstance(value, list):
            found[name] = [Decimal(edge) for edge in section.amounts(name)]
        else:
            found[name] = section.integer(name)
    return found


def _sets(section: Section) -> list[list[str]]:
    """Read lists of column names."""
    sets = section.entries("sets")
    if not all(isinstance(each, list) and each and all(isinstance(name, str) for name in each) for each in sets):
        section.refuse('sets must be lists of column names, such as [["sex", "age"], ["age", "job"]]', key="sets")
    return sets
