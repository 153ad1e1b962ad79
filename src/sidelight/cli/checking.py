"""`sidelight check`: how the declarations of a plan fit the file, for its owner alone; and the note that it was done.

The note next to the plan holds the digest of the declarations, which are public, and none of the counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidelight.cli.answers import note
from sidelight.cli.terminal import console, plain, table, tell
from sidelight.plans import Plan, read_plan
from sidelight.plans.toml_text import toml_lines
from sidelight.records import Database
from sidelight.report import check_writable

if TYPE_CHECKING:
    from sidelight.records.nonprivate_check import NonPrivateCheck
    from sidelight.records.reading_proposals import ReadingProposal

_TITLE = "NOT PRIVATE, for the owner of the data only: exact counts of private rows, not to be published"


def check_plan(path: Path) -> None:
    """Count what the declarations of a plan do to its rows, print it, and note that it was done."""
    from sidelight.records.nonprivate_check import nonprivate_check  # the engines that it reads by

    plan = read_plan(path)
    data = plan.data.open()
    tell(_TITLE, style="bold")
    if isinstance(data, Database):
        _check_database(data)
    else:
        found = nonprivate_check(data)
        _show(found)
        note(private=False, **_noted(found))
    kept = _note(path)
    check_writable(kept, inputs=[path, *map(str, plan.files)])
    kept.write_text(plan.data.digest() + "\n", encoding="utf-8")


def _check_database(data: Database) -> None:
    """Count the cells of each private table, and whose its rows are."""
    from sidelight.aggregates.nonprivate_ties import nonprivate_ties
    from sidelight.records.nonprivate_check import nonprivate_check

    tables = []
    for ties in nonprivate_ties(data):
        tell(f"\n{ties.table}", style="bold")
        found = replace(nonprivate_check(data[ties.table]), persons=ties.persons, beyond_cap=0)
        _show(found, more=ties.problems)
        if ties.elsewhere:
            tell(f"{ties.elsewhere} people have rows in other tables and none here")
        counts = {name: getattr(ties, name) for name in _TIED}
        references = [asdict(each) for each in ties.references]
        noted = _noted(found) | {"problems": [*found.problems, *ties.problems], "beyond_cap": ties.beyond_cap}
        tables.append(noted | {"table": ties.table, **counts, "references": references})
    note(private=False, tables=tables)


def _noted(found: NonPrivateCheck) -> dict[str, Any]:
    """Return the counts of a table as JSON values."""
    return {
        "rows": found.rows,
        "persons": found.persons,
        "beyond_cap": found.beyond_cap,
        "broken_lines": found.broken_lines,
        "rows_by_pandas": found.rows_by_pandas,
        "columns": [{name: getattr(column, name) for name in _NOTED} for column in found.columns],
        "problems": list(found.problems),
        "proposals": [
            {"column": each.column, "reads": each.reads, "declare": _declared(each)} for each in found.proposals
        ],
    }


def remind(path: Path, plan: Plan) -> None:
    """Tell before a first run that a check is there, unless it was made of these declarations."""
    try:
        checked = _note(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        checked = ""
    if checked != plan.data.digest():
        tell(
            f"not checked yet: `sidelight check {path}` counts, for you alone, cells that are missing, unreadable, "
            "clamped or of an unknown label; a release cannot tell you"
        )


def _note(path: Path) -> Path:
    return path.with_name(f".{path.name}.checked")


def _show(found: NonPrivateCheck, *, more: Sequence[str] = ()) -> None:
    made = table("column", "kind", "missing", "unreadable", "clamped", "unknown label", numbers=_COUNTED)
    for column in found.columns:
        counts = (column.missing, column.unreadable, column.clamped, column.unknown)
        made.add_row(plain(column.name), plain(column.kind), *(plain(count or "") for count in counts))
    if found.columns:
        console().print(made)
    persons = "" if found.persons is None else f" of {found.persons} people"
    pandas = "" if found.rows_by_pandas is None else f"; pandas reads {found.rows_by_pandas}"
    tell(f"{found.rows} rows{persons}{pandas}")
    for problem in (*found.problems, *more):
        tell(f"- {problem}")
    for proposal in found.proposals:
        ways = " or ".join(_declared(proposal))
        which = " (nothing in the cells says which: ask who wrote the file)" if len(proposal.choices) > 1 else ""
        tell(f"- {proposal.column}: if the program that wrote the file writes so, declare {ways}{which}")
    if not found.problems and not more:
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
_TIED = ("contested", "dangling", "repeated_keys", "elsewhere")
_COUNTED = ("missing", "unreadable", "clamped", "unknown label")
