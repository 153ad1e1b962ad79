"""Reports, synthetic rows and privacy pages from stored JSON. No other data is read."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from sidelight.cli.answers import STANDARD_OUTPUT, note
from sidelight.cli.terminal import tell, today
from sidelight.errors import RangeError, SchemaError, SidelightError, SourceError, nearest
from sidelight.group_table import HIERARCHY, GroupTable
from sidelight.guarantees.claims import SEEDED
from sidelight.privacy_page import read_report
from sidelight.privacy_page.page import privacy_page
from sidelight.readable import shown_text
from sidelight.registry import import_with_extras
from sidelight.release import Outcome, Release, read_outcomes, stored_text
from sidelight.report import Report, check_writable, report_from_json, whole_file, write_report, write_text
from sidelight.report.words import counted
from sidelight.summaries.tree_areas import areas as sums_of_areas
from sidelight.synthesis import Synthetic
from sidelight.synthesis.axes import Within
from sidelight.synthesis.released import stored_table


def read_stored(path: Path, *, title: str = "Private releases") -> Report:
    """Read stored releases; `title` is for files that have none."""
    text = stored_text(path)
    try:
        return report_from_json(text, title=title, day=today())
    except RecursionError:
        raise SourceError(f"{str(path)!r} is nested too deeply for releases; name a JSON file of releases") from None


def write_stored(releases: Path, *, output: Path, title: str, areas: Path | None) -> None:
    """Read stored releases and write their report."""
    check_writable(output, inputs=[releases, areas])
    report = read_stored(releases, title=title)
    if areas is not None:
        column, leaves = read_areas(areas)
        items = [replace(each, areas=_areas_of(each.outcome, column, leaves)) for each in report.items]
        if all(each.areas is None for each in items):
            raise RangeError(f"{str(releases)!r} holds no table of a hierarchy with the leaves {column!r}")
        report = replace(report, items=tuple(items))
    try:
        write_report(report, output)
    except SidelightError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # what no release says
        raise RangeError(f"{str(releases)!r} was changed, and no report can be made of it; name the original") from None
    tell(f"{counted(len(report.items), 'release')}. Report: {output}")
    note(releases=len(report.items), output=str(output))


# `sidelight privacy-page`: the page that shows persons what a release revealed about them.


def write_privacy_page(report: Path, *, output: Path) -> None:
    """Read a published privacy report, strictly, and write its page."""
    check_writable(output, inputs=[report])
    try:
        text = report.read_bytes()
    except OSError as error:
        raise SourceError(
            f"{str(report)!r} cannot be read: {error.strerror}; name a published privacy report, a JSON file"
        ) from None
    try:
        known = read_report(text)
        page = privacy_page(known)
    except SchemaError as error:
        raise SchemaError(f"{str(report)!r} is not a valid privacy report: {error}") from None
    except RecursionError:
        raise SchemaError(f"{str(report)!r} is nested too deeply for a privacy report") from None
    write_text(output, page)
    if known.entropy is not None:
        tell("NOT PRIVATE: the model was made with seeded noise, for tests only; the page says so")
    note(output=str(output))
    tell(f"Privacy page: {output} ({len(page.encode()) / 1000:.0f} kB; it needs no network and sends nothing)")


def read_areas(file: Path) -> tuple[str, dict[str, list[str]]]:
    """Read a CSV file with the columns `area` and one of leaves; return that column's name and the leaves by area."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            head, *rows = csv.reader(lines, strict=True)
    except (OSError, UnicodeDecodeError, csv.Error, ValueError):
        raise SourceError(f"{str(file)!r} cannot be read as a CSV file with a head, in UTF-8") from None
    if len(head) != 2 or head[0] != "area" or any(len(row) not in (0, 2) for row in rows):
        raise RangeError(f"{str(file)!r} needs two columns: 'area', and that of the leaves under its own name")
    found: dict[str, list[str]] = {}
    for area, leaf in filter(None, rows):
        found.setdefault(area, []).append(leaf)
    return head[1], found


def _areas_of(outcome: Outcome, column: str, leaves: dict[str, list[str]]) -> GroupTable | None:
    """Return the sums of areas of an additive table of a hierarchy with these leaves; otherwise None."""
    value = outcome.value if isinstance(outcome, Release) else None
    if not isinstance(value, GroupTable) or "unbiased" not in value.columns:
        return None
    tree = value.notes.get(HIERARCHY)
    return sums_of_areas(value, leaves) if isinstance(tree, Mapping) and tree["column"] == column else None


# `sidelight table`: synthetic rows of a stored release, or its table by group, as CSV or Parquet.

ENDINGS = (".csv", ".parquet")


def write_table(
    release: Path,
    *,
    output: Path,
    rows: int | None,
    seed: int,
    within: str,
    title: str | None,
    areas: Path | None,
    overwrite: bool,
) -> None:
    """Draw synthetic rows of a stored release and write them; an older file is replaced at the end."""
    if output.suffix.lower() not in ENDINGS:
        raise RangeError(f"the table is written as .csv or .parquet, by its ending; got {output.name!r}")
    if within not in get_args(Within):
        raise RangeError(f"--within is {within!r}, which is not a choice; {nearest(within, get_args(Within))}")
    check_writable(output, inputs=[release, areas])
    if output.exists() and not overwrite:
        raise SourceError(f"{str(output)!r} exists already; choose another name, or replace it with --overwrite")
    grouped = _group_table(release, title)
    if grouped is None or output.suffix.lower() == ".parquet":
        import_with_extras("pyarrow", what="a file of synthetic rows" if grouped is None else "a Parquet file")
    if grouped is not None:
        _write_groups(grouped, output, areas=areas)
        return
    if areas is not None:
        raise RangeError(f"--areas are sums of a table of a hierarchy, and {str(release)!r} holds none")
    made = stored_table(release, title=title)
    with whole_file(output) as place:
        # Arrow keeps integers where cells are missing, and writes enumerations
        made.write(place, rows, library="pyarrow", within=within, seed=seed)
    count = round(made.rows) if rows is None else rows
    note(rows=count, columns=list(made.domain.columns), private=made.release.private, output=str(output))
    tell(f"{count:,} synthetic rows of {shown_text(', '.join(made.domain.columns))}: {output}. Nothing was charged.")


def _group_table(file: Path, title: str | None) -> Release[GroupTable] | None:
    """Return the only table by group of a file without synthetic tables, or the one with a title; else None."""
    found: list[tuple[str, Release[Any]]] = []
    with suppress(SidelightError):  # `stored_table` says what is wrong with the file
        read = [(name, each) for name, each in read_outcomes(file) if title in (None, name)]
        found = [(name, each) for name, each in read if isinstance(each, Release)]
    tables = [(name, each) for name, each in found if isinstance(each.value, GroupTable)]
    if not tables or any(each.kind == "synthetic_table" for _, each in found):
        return None
    if len(tables) > 1:
        known = ", ".join(repr(name) for name, _ in tables)
        raise RangeError(f"{file.name!r} holds {len(tables)} tables; choose one by its title: {known}")
    return tables[0][1]


def _write_groups(release: Release[GroupTable], output: Path, *, areas: Path | None) -> None:
    table = release.value if areas is None else _areas_of(release, *read_areas(areas))
    if table is None:
        raise RangeError(f"{str(areas)!r} names leaves of another column than that of the table")
    if not release.private:
        tell("NOT PRIVATE: the release was made with seeded noise, for tests only; do not publish the table")
    with whole_file(output) as place:
        (table.to_parquet if output.suffix.lower() == ".parquet" else table.to_csv)(place)
    note(rows=table.rows, columns=list(table), private=release.private, output=str(output))
    tell(f"{counted(table.rows, 'row')} of {shown_text(', '.join(table))}: {output}. Nothing was charged.")


def summary_of(outcome: Release) -> str:
    """Return the release of a synthetic table in a few lines."""
    made = Synthetic(outcome)
    brand = [] if outcome.private else [SEEDED]
    lines = [*brand, f"{outcome.kind} · {', '.join(str(claim) for claim in outcome.guarantee)}"]
    answered = len(outcome.value["answered"])
    measured = f"{answered} queries answered" if answered else f"{len(made.measurements)} marginals measured"
    lines.append(f"  {round(made.rows):,} rows of {', '.join(made.domain.columns)}; {measured}")
    if outcome.prediction is not None:
        lines.append(f"  prediction: {outcome.prediction['description']}")
    return "\n".join(map(shown_text, lines))


def how_to_write(json_output: Path | None, *, stored: bool = True) -> str:
    """Return how to make synthetic rows from the release; `stored`: whether a ledger returns it again."""
    if json_output not in (None, STANDARD_OUTPUT):
        return f"Synthetic rows, at no cost: sidelight table {shlex.quote(str(json_output))} -o synthetic.csv"
    if not stored:
        return (
            "Synthetic rows, at no cost: keep the JSON as releases.json, and then sidelight table releases.json "
            "-o synthetic.csv"
        )
    return (
        "Synthetic rows, at no cost: run the plan again with --json releases.json (the stored release is returned), "
        "then sidelight table releases.json -o synthetic.csv"
    )
