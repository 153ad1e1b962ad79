"""`sidelight dummy`: generated rows for a plan, and a copy of the plan for them with its own ledger."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sidelight.accuracy.dummy import MARK, NAME, dummy_csv
from sidelight.cli.answers import note
from sidelight.cli.running import inputs_of
from sidelight.cli.terminal import tell
from sidelight.errors import RangeError, SourceError
from sidelight.plans.plan import folder_of, read_file, read_head
from sidelight.plans.toml_text import toml_lines
from sidelight.report import check_writable, write_text


def write_dummy(
    path: Path, *, rows: int, missing: float, hostile: bool, plan: Path | None, output: Path, overwrite: bool
) -> None:
    """Write rows of the declared shape; the source of the plan is not opened."""
    whole = read_file(path)
    _, head = read_head(whole)
    schema = head["data"].schema
    if output.suffix.lower() != ".csv":
        raise RangeError(f"dummy data is written as CSV; name a file that ends in .csv, got {output.name!r}")
    for place in (output, *(() if plan is None else (plan,))):
        check_writable(place, inputs=inputs_of(path, head["data"].files, head["ledger"]))
        if place.exists() and not overwrite:
            raise SourceError(f"{str(place)!r} exists already; choose another name, or replace it with --overwrite")
    if plan is not None and plan.absolute().parent != folder_of(whole):
        raise RangeError(f"--plan must be a file next to {path.name}, whose paths it keeps, got {str(plan)!r}")
    text = dummy_csv(schema, rows, missing=missing, hostile=hostile)
    write_text(output, text)
    note(rows=rows, columns=list(schema.names), generated=True, output=str(output))
    tell(f"{rows:,} GENERATED rows, no real person: {output}")
    if plan is None:
        return
    write_text(plan, trial_plan(whole.values, title=head["title"], source=output.absolute(), ledger=f"{plan.stem}.db"))
    tell(f"A copy of the plan that reads them, with its own ledger: sidelight run {shlex.quote(str(plan))}")


def trial_plan(values: Mapping[str, Any], *, title: str, source: Path, ledger: str) -> str:
    """Return the TOML of a plan with another source and ledger; its columns, budget and queries are the same."""
    changed = {
        **values,
        "title": f"{title} ({NAME})",
        "source": {"path": str(source), "name": NAME},
        "ledger": {"url": ledger},
    }
    lines = [f"# Made by `sidelight dummy`: the rows are {MARK}, not real.", ""]
    lines += toml_lines({key: value for key, value in changed.items() if not _is_table(value)})
    for key, value in changed.items():
        if _is_table(value):
            for each in value if isinstance(value, list) else [value]:
                lines += ["", f"[[{key}]]" if isinstance(value, list) else f"[{key}]", *toml_lines(each)]
    return "\n".join([*lines, ""])


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and all(isinstance(each, Mapping) for each in value))
