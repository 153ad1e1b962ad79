"""`[[query]]` with `kind = "synthetic_table"`: the library's query in the plan's own words."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any, get_args

from sidelight.guarantees import exact
from sidelight.plan_section import COMMON, Section
from sidelight.predictions import PublicData
from sidelight.session import Query
from sidelight.synthesis import Synthetic, SyntheticTable, Workload, marginals, prefixes, ranges
from sidelight.synthesis.engine_choice import Engine
from sidelight.synthesis.released import stored_table

ENGINES: tuple[str, ...] = get_args(Engine)
_AMOUNTS = ("rho", "epsilon", "delta")
_WORKLOAD = ("ways", "sets", "prefixes", "ranges")
_TABLE = ("columns", "bins", "missing", "rows", "rounds", "engine", "prediction", "trust")


def synthetic_table(section: Section) -> Query:
    """Read `kind = "synthetic_table"`."""
    section.only(*COMMON, *_WORKLOAD, *_TABLE, *_AMOUNTS)
    if "rows" in section:
        section.refuse(
            "a public number of rows protects against replacing a row, and the budget of a plan counts adding and "
            "removing one; leave rows out (a noisy number is released), or release without a ledger: "
            "sl.SyntheticTable(rows=...).release(table)",
            key="rows",
        )
    given: dict[str, Any] = {key: section.amount(key) for key in _AMOUNTS if key in section}
    if "rounds" in section:
        given["rounds"] = section.integer("rounds")
    if "engine" in section:
        given["engine"] = section.choice("engine", ENGINES)
    if "bins" in section:
        given["bins"] = _bins(section.section("bins"))
    if "trust" in section:
        if "prediction" not in section:
            section.refuse("trust says how far a prediction is believed, and there is none", key="trust")
        given["trust"] = float(exact(section.amount("trust"), name="trust"))
    return SyntheticTable(
        _workload(section),
        columns=section.texts("columns", None),
        missing=section.texts("missing", ()),
        prediction=_prediction(section, "prediction"),
        **given,
    )


def _workload(section: Section) -> Workload:
    """Add up what is asked; all pairs of columns if the plan does not say."""
    parts: list[Workload] = []
    if "ways" in section:
        parts.append(marginals(section.integer("ways")))
    if "sets" in section:
        parts.append(marginals(sets=_sets(section)))
    for key, asked in (("prefixes", prefixes), ("ranges", ranges)):
        parts += [asked(name) for name in section.texts(key, ())]
    return reduce(add, parts) if parts else marginals()


def _bins(section: Section) -> dict[str, Any]:
    """Read edges, or a number of bins, for each column."""
    found: dict[str, Any] = {}
    for name, value in section.values.items():
        if isinstance(value, list):
            found[name] = section.amounts(name)
        else:
            found[name] = section.integer(name)
    return found


def _sets(section: Section) -> list[list[str]]:
    """Read lists of column names."""
    sets = section.entries("sets")
    if not all(isinstance(each, list) and each and all(isinstance(name, str) for name in each) for each in sets):
        section.refuse('sets must be lists of column names, such as [["sex", "age"], ["age", "job"]]', key="sets")
    return sets


def _prediction(section: Section, key: str) -> PublicData | list[Synthetic] | None:
    """Read public rows with their origin, or earlier releases, or nothing.

    Public rows are read by the query itself, when it is prepared; here it is only seen that the file is there. Earlier
    releases are read here: they must be synthetic tables that protected somebody.
    """
    if key not in section:
        return None
    given = section.section(key).only("public", "origin", "releases")
    if ("public" in given) == ("releases" in given):
        given.refuse(
            'a prediction is {public = "rows.csv", origin = "where they are published"} or '
            '{releases = ["earlier.json"]}: name one of the two'
        )
    if "public" in given:
        file = given.existing_file("public")
        return PublicData(str(file), given.text("origin"))
    if "origin" in given:
        given.refuse("origin belongs to public rows; a release says itself where it comes from", key="origin")
    return [_release(given, entry) for entry in given.entries("releases")] or given.refuse(
        "releases is empty; name at least one JSON file, or leave the prediction out", key="releases"
    )


def _release(section: Section, entry: Any) -> Synthetic:
    """Read "file.json", or {file = "file.json", title = "..."} where a file holds several synthetic tables."""
    title = None
    if isinstance(entry, dict):
        inside = Section(section.file, section.lines, (*section.path, "releases"), entry, section.folder)
        inside.only("file", "title")
        file, title = inside.existing_file("file"), inside.text("title", None)
    elif isinstance(entry, str) and entry:
        file = section.found("releases", entry)
    else:
        section.refuse(
            'each of releases must be a JSON file, or {file = "earlier.json", title = "..."}', key="releases"
        )
    with section.naming("releases"):
        made = stored_table(file, title=title)
    if not made.release.private:
        section.refuse(
            f"the release in {file.name!r} was made with seeded noise and protects nobody; predicting with it would "
            "void the guarantee",
            key="releases",
        )
    return made
