"""`sidelight table`: synthetic rows of a stored release as CSV or Parquet. It reads the release and nothing else."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import get_args

from sidelight.cli.answers import STANDARD_OUTPUT, note
from sidelight.cli.terminal import tell
from sidelight.errors import RangeError, SourceError, nearest
from sidelight.release import Release
from sidelight.report import check_writable, whole_file
from sidelight.synthesis import Synthetic
from sidelight.synthesis.axes import Within
from sidelight.synthesis.released import stored_table

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
        return f"Synthetic rows, for nothing: sidelight table {shlex.quote(str(json_output))} synthetic.csv"
    return (
        "Synthetic rows, for nothing: run the plan again with --json releases.json (the stored release comes back), "
        "then sidelight table releases.json synthetic.csv"
    )
