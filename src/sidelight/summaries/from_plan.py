"""`[[query]]` kinds of statistics by group: counts, sums, means, spreads, histograms, top-k, and SQL."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from sidelight.errors import RangeError, SidelightError, SourceError
from sidelight.group_table import GroupTable
from sidelight.guarantees import exact
from sidelight.plan_section import COMMON, Section
from sidelight.predictions.from_plan import read_prediction
from sidelight.quantiles.from_plan import read_groups
from sidelight.records.expression_text import parse_expression
from sidelight.registry import load_query
from sidelight.release import Release, read_outcomes
from sidelight.session import Query
from sidelight.summaries.predicted import Predicted

_PRICE = ("epsilon", "delta", "rho", "mu")
_GROUPED = ("by", "where", *_PRICE, "max_groups", "max_rows_per_group", "noise", "confidence", "prediction")
_OF_NUMBER = ("clip", "centre", "expected_rows", "location_share")
#: Keys by how they are read.
_INTEGERS = ("max_groups", "max_rows_per_group", "k", "bins", "ddof")
_FLOATS = ("confidence", "per_cell_cap", "expected_rows", "leaf_weight")
_FLAGS = ("rollup", "pull", "population", "persons")
_NOISE = ("auto", "laplace", "gaussian")


def count(section: Section) -> Query:
    """Read `kind = "count"`."""
    return _read(section, "of", "rollup", "leaf_weight", "population", "per_cell_cap", "known", "prefer")


def histogram(section: Section) -> Query:
    """Read `kind = "histogram"`: counts of a number in public bins."""
    return _read(section, "column", "bins", "outside", "of", "population", "per_cell_cap")


def count_distinct(section: Section) -> Query:
    """Read `kind = "count_distinct"`: how many labels, or persons, there are."""
    return _read(section, "column", "persons", "per_cell_cap")


def top_k(section: Section) -> Query:
    """Read `kind = "top_k"`: the labels with the most rows."""
    return _read(section, "column", "k", "route", "of", "known", "per_cell_cap")


def total(section: Section) -> Query:
    """Read `kind = "sum"`."""
    return _read(section, "column", "per", "step", "known", *_OF_NUMBER)


def mean(section: Section) -> Query:
    """Read `kind = "mean"`."""
    return _read(section, "column", "pull", "population", "per_cell_cap", "known", *_OF_NUMBER)


def proportion(section: Section) -> Query:
    """Read `kind = "proportion"`: the share of rows that a condition is true of."""
    if "column" in section:
        section.refuse("a proportion is of a condition; write condition = 'smoker == \"yes\"'", key="column")
    return _read(section, "condition", "pull", "population", "per_cell_cap", "known")


def variance(section: Section) -> Query:
    """Read `kind = "variance"`."""
    return _read(section, "column", "ddof", "known", *_OF_NUMBER)


def standard_deviation(section: Section) -> Query:
    """Read `kind = "standard_deviation"`."""
    return _read(section, "column", "ddof", "known", *_OF_NUMBER)


def summary(section: Section) -> Query:
    """Read `kind = "summary"`: count, mean, spread and quartiles of a number."""
    return _read(section, "column", "known", *_OF_NUMBER)


def sql(section: Section) -> Query:
    """Read `kind = "sql"`: a SELECT."""
    section.only(*COMMON, "select", *_PRICE, "max_groups", "max_rows_per_group", "noise", "confidence")
    given = {key: _value(section, key) for key in section.values if key not in (*COMMON, "select")}
    query: Query = load_query("sql")(section.text("select"), **given)
    return query


def _read(section: Section, *own: str) -> Query:
    """Read a query by its keys: those that all have, and its own."""
    section.only(*COMMON, *_GROUPED, *own)
    given = {key: _value(section, key) for key in section.values if key not in COMMON}
    subject = [given.pop(key) for key in ("column", "condition") if key in given]
    for key in ("column", "condition", "k", "bins"):
        if key in own and key not in section and not (key == "column" and "persons" in own):
            section.refuse(f"{key!r} is missing")
    query: Query = load_query(section.text("kind"))(*subject, **given)
    return query


def _value(section: Section, key: str) -> Any:
    """Read the value of one key."""
    if key in (*_PRICE, "location_share", "step"):
        return section.amount(key)
    if key == "by":
        return read_groups(section)
    if key == "column" and isinstance(section.values[key], list):
        return section.texts(key)
    if key in ("where", "condition"):
        with section.naming(key):
            return parse_expression(section.text(key))
    if key == "prediction":
        return _prediction(section)
    if key == "noise":
        return section.choice(key, _NOISE)
    if key == "outside":
        return section.choice(key, ["keep", "drop"])
    if key == "prefer":
        return section.choice(key, ["labels", "count"])
    if key == "route":
        return section.choice(key, ["auto", "histogram", "peeling"])
    if key == "known":
        return section.texts(key)
    if key == "clip" and isinstance(section.values[key], list):
        return tuple(section.amounts(key))
    if key == "clip":
        return section.choice(key, ["auto", "private", "by_group", "declared"])
    if key == "bins" and isinstance(section.values[key], str):
        return section.choice(key, ["private"])
    if key == "bins" and isinstance(section.values[key], list):
        return section.amounts(key)
    if key in _INTEGERS:
        return section.integer(key)
    if key in _FLOATS:
        return float(exact(section.amount(key), name=key))
    if key in _FLAGS:
        return section.flag(key, default=False)
    return section.text(key)


def _prediction(section: Section) -> Any:
    """Read what is known beforehand: a table by group with its origin, an earlier release, or a law of the values."""
    if isinstance(section.values["prediction"], dict) and "family" in section.values["prediction"]:
        return read_prediction(section, "prediction")
    if isinstance(section.values["prediction"], list):
        return [_told(each) for each in section.sections("prediction")]
    return _told(section.section("prediction"))


def _told(section: Section) -> Predicted:
    """Read one predicted table: public, or an earlier release."""
    given = section.only("release", "title", "public", "origin", "doubt", "sd", "shares")
    if ("public" in given) == ("release" in given):
        given.refuse(
            'a prediction is {public = "table.csv", origin = "where it is published"}, {release = "earlier.json"} or '
            '{family = "cauchy", ...}: name one of them'
        )
    doubt: dict[str, Any] = {key: float(exact(given.amount(key), name=key)) for key in ("doubt", "sd") if key in given}
    if "shares" in given:
        doubt["shares"] = given.flag("shares", default=False)
    if "public" in given:
        if "title" in given:
            given.refuse("title chooses a release of a file; leave it out", key="title")
        table = _public_table(given)
        with given.naming():
            return Predicted(table, origin=given.text("origin"), **doubt)
    if "origin" in given:
        given.refuse("origin belongs to a public table; a release says itself where it comes from", key="origin")
    with given.naming("release"):
        release = _release(given.existing_file("release"), title=given.text("title", None))
        return Predicted(release, **doubt)


def _public_table(section: Section) -> Any:
    """Read a CSV or Parquet file with a row a group: its key columns, and a column with the predicted number."""
    file = section.existing_file("public")
    if file.suffix == ".parquet":
        return _parquet(section, file)
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            head, *rows = csv.reader(lines, strict=True)
    except (OSError, UnicodeDecodeError, csv.Error, ValueError):
        section.refuse(f"{file.name!r} is no CSV file with a head and a line for each group, in UTF-8", key="public")
    if len(set(head)) != len(head) or any(len(row) not in (0, len(head)) for row in rows):
        section.refuse(
            f"{file.name!r} must have a different name for each column, and all lines as many cells", key="public"
        )
    filled = [row for row in rows if row]
    return {name: [row[place] or None for row in filled] for place, name in enumerate(head)}


def _parquet(section: Section, file: Path) -> dict[str, list[Any]]:
    import narwhals.stable.v2 as nw

    try:
        frame = nw.read_parquet(str(file), backend="pyarrow")
    except ImportError:
        raise
    except Exception:  # whatever its reader says of a public file that is broken
        section.refuse(f"{file.name!r} is no Parquet file with a row for each group", key="public")
    return {name: frame[name].to_list() for name in frame.columns}


def _release(path: Path, *, title: str | None) -> Release:
    """Read the release of a table by group from what `sidelight run --json` or `release.to_json()` wrote."""
    try:
        found = read_outcomes(path)
    except SourceError:
        raise
    except SidelightError as error:
        raise RangeError(f"{path.name!r} holds no releases: {error}") from None
    tables = [(name, each) for name, each in found if isinstance(each, Release) and isinstance(each.value, GroupTable)]
    chosen = [each for name, each in tables if title in (None, name)]
    if len(chosen) != 1:
        known = ", ".join(repr(name) for name, _ in tables) or "none"
        raise RangeError(f"{path.name!r} must hold one table by group, or title say which; it holds: {known}")
    if not chosen[0].private:
        raise RangeError(
            f"the release in {path.name!r} was made with seeded noise and protects nobody; predicting with it would "
            "void the guarantee"
        )
    return chosen[0]
