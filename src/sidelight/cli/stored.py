"""What is made of stored JSON: reports, synthetic rows, and privacy pages. Nothing else is read."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import get_args

from sidelight.cli.answers import STANDARD_OUTPUT, note
from sidelight.cli.terminal import tell, today
from sidelight.errors import RangeError, SchemaError, SourceError, nearest
from sidelight.privacy_page.page import privacy_page
from sidelight.release import Release, stored_text
from sidelight.report import Report, check_writable, report_from_json, whole_file, write_report, write_text
from sidelight.report.words import counted
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


def write_stored(releases: Path, *, output: Path, title: str) -> None:
    """Read stored releases and write their report."""
    check_writable(output, inputs=[releases])
    report = read_stored(releases, title=title)
    write_report(report, output)
    tell(f"{counted(len(report.items), 'release')}. Report: {output}")
    note(releases=len(report.items), output=str(output))


# `sidelight privacy-page`: the page on which a person reads what a release revealed about them.


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
        page = privacy_page(text)
    except SchemaError as error:
        raise SchemaError(f"{str(report)!r} is no privacy report that can be shown: {error}") from None
    except RecursionError:
        raise SchemaError(f"{str(report)!r} is nested too deeply for a privacy report") from None
    write_text(output, page)
    note(output=str(output))
    tell(f"Privacy page: {output} ({len(page.encode()) / 1000:.0f} kB; it needs no network and sends nothing)")


# `sidelight table`: synthetic rows of a stored release as CSV or Parquet.

ENDINGS = (".csv", ".parquet")


def write_table(
    release: Path, *, output: Path, rows: int | None, seed: int, within: str, title: str | None, overwrite: bool
) -> None:
    """Draw synthetic rows of a stored release and write them; an older file stays whole until the new one is."""
    if output.suffix.lower() not in ENDINGS:
        raise RangeError(f"the table is written as .csv or .parquet, by its ending; got {output.name!r}")
    if within not in get_args(Within):
        raise RangeError(f"--within is {within!r}, which is no choice; {nearest(within, get_args(Within))}")
    check_writable(output)
    if output.exists() and not overwrite:
        raise SourceError(f"{str(output)!r} is there already; choose another name, or say --overwrite to replace it")
    made = stored_table(release, title=title)
    if not made.release.private:
        tell("NOT PRIVATE: the release was made with seeded noise, for tests only; do not publish the table")
    with whole_file(output) as place:
        # Arrow comes with sidelight, pandas may not be there; and its whole numbers stay whole where cells are missing.
        made.write(place, rows, library="pyarrow", within=within, seed=seed)
    count = round(made.rows) if rows is None else rows
    note(rows=count, columns=list(made.domain.columns), private=made.release.private, output=str(output))
    tell(f"{count:,} synthetic rows of {', '.join(made.domain.columns)}: {output}. Nothing was charged.")


def summary_of(outcome: Release) -> str:
    """Return the release of a synthetic table in a few lines."""
    made = Synthetic(outcome)
    brand = [] if outcome.private else ["NOT PRIVATE: made with seeded noise, for tests only"]
    lines = [*brand, f"{outcome.kind} · {', '.join(str(claim) for claim in outcome.guarantee)}"]
    answered = len(outcome.value["answered"])
    measured = f"{answered} queries answered" if answered else f"{len(made.measurements)} marginals measured"
    lines.append(f"  {round(made.rows):,} rows of {', '.join(made.domain.columns)}; {measured}")
    if outcome.prediction is not None:
        lines.append(f"  prediction: {outcome.prediction['description']}")
    return "\n".join(lines)


def how_to_write(json_output: Path | None) -> str:
    """Return how synthetic rows are made of what was just released."""
    if json_output not in (None, STANDARD_OUTPUT):
        return f"Synthetic rows, for nothing: sidelight table {shlex.quote(str(json_output))} -o synthetic.csv"
    return (
        "Synthetic rows, for nothing: run the plan again with --json releases.json (the stored release comes back), "
        "then sidelight table releases.json -o synthetic.csv"
    )
