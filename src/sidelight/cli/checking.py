"""`sidelight check`: how the declarations of a plan fit the file, for its owner alone; and the note that it was done.

The note next to the plan holds the digest of the declarations, which are public, and none of the counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sidelight.cli.answers import note
from sidelight.cli.terminal import console, plain, table, tell
from sidelight.plans import read_plan
from sidelight.plans.toml_text import toml_lines
from sidelight.records import Schema
from sidelight.report import check_writable

if TYPE_CHECKING:
    from sidelight.records.nonprivate_check import NonPrivateCheck
    from sidelight.records.reading_proposals import ReadingProposal

_TITLE = "NOT PRIVATE, for the owner of the data only: exact counts of private rows, not to be published"


def check_plan(path: Path) -> None:
    """Count what the declarations of a plan do to its rows, print it, and note that it was done."""
    from sidelight.records.nonprivate_check import nonprivate_check  # the engines that it reads by

    plan = read_plan(path)
    found = nonprivate_check(plan.open_table())
    tell(_TITLE, style="bold")
    _show(found)
    note(
        private=False,
        rows=found.rows,
        persons=found.persons,
        beyond_cap=found.beyond_cap,
        broken_lines=found.broken_lines,
        rows_by_pandas=found.rows_by_pandas,
        columns=[{name: getattr(column, name) for name in _NOTED} for column in found.columns],
        problems=list(found.problems),
        proposals=[
            {"column": each.column, "reads": each.reads, "declare": _declared(each)} for each in found.proposals
        ],
    )
    kept = _note(path)
    check_writable(kept, inputs=[path, str(plan.source)])
    kept.write_text(plan.schema.digest() + "\n", encoding="utf-8")


def remind(path: Path, schema: Schema) -> None:
    """Tell before a first run that a check is there, unless it was made of these declarations."""
    try:
        checked = _note(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        checked = ""
    if checked != schema.digest():
        tell(
            f"not checked yet: `sidelight check {path}` counts, for you alone, cells that are missing, unreadable, "
            "clamped or of an unknown label; a release cannot tell you"
        )


def _note(path: Path) -> Path:
    return path.with_name(f".{path.name}.checked")


def _show(found: NonPrivateCheck) -> None:
    made = table("column", "kind", "missing", "unreadable", "clamped", "unknown label", numbers=_COUNTED)
    for column in found.columns:
        counts = (column.missing, column.unreadable, column.clamped, column.unknown)
        made.add_row(plain(column.name), plain(column.kind), *(plain(count or "") for count in counts))
    console().print(made)
    persons = "" if found.persons is None else f" of {found.persons} people"
    pandas = "" if found.rows_by_pandas is None else f"; pandas reads {found.rows_by_pandas}"
    tell(f"{found.rows} rows{persons}{pandas}")
    for problem in found.problems:
        tell(f"- {problem}")
    for proposal in found.proposals:
        ways = " or ".join(_declared(proposal))
        which = " (nothing in the cells says which: ask who wrote the file)" if len(proposal.choices) > 1 else ""
        tell(f"- {proposal.column}: if the program that wrote the file writes so, declare {ways}{which}")
    if not found.problems:
        tell("every cell is read as declared")
    else:
        tell(
            "Mend the file, or a declaration for a public reason: one that is changed to fit these rows is read off "
            "them, and no guarantee covers that."
        )


def _declared(proposal: ReadingProposal) -> list[str]:
    """Return each choice as the lines of a [[column]] table."""
    return [", ".join(toml_lines(choice)) for choice in proposal.choices]


_NOTED = ("name", "kind", "missing", "unreadable", "clamped", "unknown")
_COUNTED = ("missing", "unreadable", "clamped", "unknown label")
