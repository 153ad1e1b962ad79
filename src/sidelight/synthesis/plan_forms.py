"""`[[query]]` with `kind = "synthetic_table"`: the workload is four keys, and a prediction is rows or releases."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from sidelight.errors import PlanError, RangeError
from sidelight.plans.forms import AMOUNTS, TEXTS, WHOLE, either, file_of, list_of, map_of
from sidelight.plans.predictions import PUBLIC_FILE
from sidelight.plans.section import Section
from sidelight.plans.tables import OneOfForm, PlanKey, TableForm, table_of
from sidelight.predictions import PublicData
from sidelight.synthesis.query import SyntheticTable
from sidelight.synthesis.released import Synthetic, stored_table
from sidelight.synthesis.workload import Marginals, OrderedQueries, Workload, marginals, prefixes, ranges

_SETS = list_of(TEXTS, shape='lists of column names, such as [["sex", "age"], ["age", "job"]]')
_WORKLOAD = {
    "ways": PlanKey("ways", WHOLE, None, "All marginals of this many columns."),
    "sets": PlanKey("sets", _SETS, None, "Marginals of exactly these columns."),
    "prefixes": PlanKey("prefixes", TEXTS, (), 'Columns of which "at most v" should come out well.'),
    "ranges": PlanKey("ranges", TEXTS, (), 'Columns of which "from u to v" should come out well.'),
}


def _workload(
    ways: int | None = None,
    sets: Sequence[Sequence[str]] | None = None,
    prefixes_of: Sequence[str] = (),
    ranges_of: Sequence[str] = (),
) -> Workload:
    """Add up what is asked; all pairs of columns if nothing is."""
    parts = [marginals(ways)] if ways is not None else []
    parts += [marginals(sets=sets)] if sets is not None else []
    parts += [prefixes(name) for name in prefixes_of] + [ranges(name) for name in ranges_of]
    return reduce(add, parts) if parts else marginals()


def _make(**given: Any) -> SyntheticTable:
    asked = [given.pop(key, usual) for key, usual in (("ways", None), ("sets", None), ("prefixes", ()), ("ranges", ()))]
    return SyntheticTable(_workload(*asked), **given)


def _parts(query: SyntheticTable) -> dict[str, Any]:
    found: dict[str, Any] = {"prefixes": [], "ranges": []}
    for part in query.workload.parts:
        if isinstance(part, Marginals):
            found["ways" if part.sets is None else "sets"] = part.ways if part.sets is None else part.sets
        elif isinstance(part, OrderedQueries):
            found["ranges" if part.ranges else "prefixes"].append(part.column)
    if _workload(found.get("ways"), found.get("sets"), found["prefixes"], found["ranges"]) != query.workload:
        raise PlanError("a plan writes workloads of ways, sets, prefixes and ranges, each once and in this order")
    return {**vars(query), **found, "prefixes": tuple(found["prefixes"]), "ranges": tuple(found["ranges"])}


def _earlier(file: Path, title: str | None) -> Synthetic:
    made = stored_table(file, title=title)
    if not made.release.private:
        raise RangeError(
            f"the release in {file.name!r} was made with seeded noise, not private; predicting with it would "
            "void the guarantee"
        )
    return made


def _some(releases: list[Synthetic]) -> list[Synthetic]:
    if not releases:
        raise RangeError("releases is empty; name at least one JSON file, or leave the prediction out")
    return releases


_FILE = TableForm(
    make=lambda file: file,
    python=(object,),
    keys={"file": PlanKey("file", file_of(_earlier, titled=True))},
    parts=lambda made: {"file": made},
)
_RELEASE = either(_FILE, file_of(_earlier), words='a JSON file in quotes, or {file = "earlier.json", title = "..."}')
_PREDICTION = OneOfForm(
    '{public = "rows.csv", origin = "where they are published"} or {releases = ["earlier.json"]}',
    tables={
        "public": PUBLIC_FILE,
        "releases": TableForm(
            make=lambda releases: _some(releases),
            keys={"releases": PlanKey("releases", list_of(_RELEASE))},
            parts=lambda releases: {"releases": releases},
        ),
    },
    which=lambda prediction: "public" if isinstance(prediction, PublicData) else "releases",
)


def _check(section: Section) -> None:
    if "rows" in section.values:
        section.refuse(
            "a public number of rows protects against replacing a row, and the budget of a plan counts adding and "
            "removing one; leave rows out (a noisy number is released), or release without a ledger: "
            "sl.SyntheticTable(rows=...).release(table)",
            key="rows",
        )
    if "trust" in section.values and "prediction" not in section.values:
        section.refuse("trust is the weight of a prediction, and there is none", key="trust")


def synthetic_table(query: type[SyntheticTable]) -> TableForm:
    """Return the table of the kind."""
    forms = {"bins": map_of(either(WHOLE, AMOUNTS)), "prediction": _PREDICTION}
    own = table_of(query, without=("workload",), forms=forms)
    return TableForm(make=_make, keys={**_WORKLOAD, **own.keys}, check=_check, parts=_parts)
