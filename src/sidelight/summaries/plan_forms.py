"""Forms of the keys `by`, `prediction`, `bins` and `person_total` of statistics by group."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from sidelight.errors import RangeError, SidelightError, SourceError
from sidelight.group_table import GroupTable
from sidelight.plans.forms import (
    AMOUNT,
    AMOUNTS,
    COLUMN,
    CONDITION,
    FLAG,
    REAL,
    TEXT,
    TEXTS,
    WHOLE,
    choice,
    either,
    file_of,
    list_of,
    map_of,
)
from sidelight.plans.predictions import PRIOR
from sidelight.plans.tables import OneOfForm, table_of
from sidelight.records.hierarchy import Hierarchy
from sidelight.records.invariants import Invariant
from sidelight.registry import import_with_extras
from sidelight.release import Release, read_outcomes
from sidelight.summaries.predicted import Predicted

BINS = either(choice("private"), WHOLE, AMOUNTS)


def _public_table(file: Path, _: str | None) -> dict[str, list[Any]]:
    """Read a CSV or Parquet file with a row for each group: its key columns, and a column with the predicted number."""
    if file.suffix == ".parquet":
        return _parquet(file)
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            head, *rows = csv.reader(lines, strict=True)
    except (OSError, UnicodeDecodeError, csv.Error, ValueError):
        raise RangeError(f"{file.name!r} is no CSV file with a head and a line for each group, in UTF-8") from None
    if len(set(head)) != len(head) or any(len(row) not in (0, len(head)) for row in rows):
        raise RangeError(f"{file.name!r} must have a different name for each column, and all lines as many cells")
    filled = [row for row in rows if row]
    return {name: [row[place] or None for row in filled] for place, name in enumerate(head)}


def _public_totals(file: Path, _: str | None) -> dict[str, list[Any]]:
    """Read a CSV or Parquet file with the columns level, id and value."""
    found = _public_table(file, None)
    try:
        return {**found, "value": [_whole_or_float(each) for each in found["value"]]}
    except (KeyError, TypeError, ValueError):
        raise RangeError(f"{file.name!r} needs a column 'value' of numbers, with 'level' and 'id'") from None


def _whole_or_float(value: Any) -> int | float:
    number = float(value)
    return int(value) if number.is_integer() and "." not in str(value) and abs(number) < 2**53 else number


def _parquet(file: Path) -> dict[str, list[Any]]:
    import narwhals.stable.v2 as nw

    import_with_extras("pyarrow", what=f"the file {file.name!r}")
    try:
        frame = nw.read_parquet(str(file), backend="pyarrow")
    except Exception:  # whatever its reader says of a public file that is broken
        raise RangeError(f"{file.name!r} is no Parquet file with a row for each group") from None
    return {name: frame[name].to_list() for name in frame.columns}


def _release(file: Path, title: str | None) -> Release:
    """Read the release of a table by group from what `sidelight run --json` or `release.to_json()` wrote."""
    try:
        found = read_outcomes(file)
    except SourceError:
        raise
    except SidelightError as error:
        raise RangeError(f"{file.name!r} holds no releases: {error}") from None
    tables = [(name, each) for name, each in found if isinstance(each, Release) and isinstance(each.value, GroupTable)]
    chosen = [each for name, each in tables if title in (None, name)]
    if len(chosen) != 1:
        known = ", ".join(repr(name) for name, _ in tables) or "none"
        raise RangeError(f"{file.name!r} must hold one table by group, or title say which; it holds: {known}")
    if not chosen[0].private:
        raise RangeError(
            f"the release in {file.name!r} was made with seeded noise, not private; predicting with it would "
            "void the guarantee"
        )
    return chosen[0]


def _which(prediction: Any) -> str:
    if not isinstance(prediction, Predicted):
        return "family"
    return "release" if isinstance(prediction.table, Release) or prediction.origin is None else "public"


_PREDICTED = OneOfForm(
    '{public = "table.csv", origin = "where it is published"}, {release = "earlier.json"} or {family = "cauchy", ...}',
    tables={
        "public": table_of(
            Predicted,
            names={"table": "public"},
            forms={"table": file_of(_public_table), "origin": TEXT},
            required=("origin",),
        ),
        "release": table_of(
            Predicted,
            names={"table": "release"},
            forms={"table": file_of(_release, titled=True)},
            without=("origin",),
        ),
        "family": PRIOR,
    },
    which=_which,
)
#: Tables by group with their origin, earlier releases, or a law of the values.
PREDICTION = either(_PREDICTED, list_of(_PREDICTED))

#: What a hierarchy says of its table; totals by level and id, or a file with the columns level, id and value.
_OF_TABLES = {
    "caps": map_of(REAL),
    "public_totals": either(map_of(map_of(either(WHOLE, REAL))), file_of(_public_totals)),
    "impossible": CONDITION,
    "invariants": list_of(table_of(Invariant, without=("of",))),
}
_HIERARCHY = OneOfForm(
    '{column = "tract", prefixes = {state = 2, county = 5}} or {column = "nace", file = "nace.csv", levels = [...]}',
    tables={
        "prefixes": table_of(
            Hierarchy,
            names={"ancestors": "prefixes"},
            forms={"ancestors": map_of(WHOLE), **_OF_TABLES},
            without=("levels", "fill"),
            required=("ancestors",),
        ),
        "file": table_of(
            Hierarchy,
            names={"ancestors": "file"},
            forms={"ancestors": file_of(_public_table), "levels": TEXTS, "fill": FLAG, **_OF_TABLES},
            required=("ancestors", "levels"),
        ),
    },
    which=lambda hierarchy: "prefixes" if hierarchy.levels is None else "file",
)
_AXIS = either(COLUMN, _HIERARCHY)
#: Columns, derived labels, and a hierarchy among them.
BY = either(COLUMN, _HIERARCHY, list_of(_AXIS))
#: Of all sums of a statement, or of each by its name.
PERSON_TOTAL = either(AMOUNT, map_of(AMOUNT))
