"""`sidelight ledger show|verify|export|reap`: inspect a ledger; none of them creates one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sidelight.accounting import find_remaining
from sidelight.cli.answers import note
from sidelight.cli.terminal import console, plain, table, tell
from sidelight.errors import FailedError, LedgerError, nearest
from sidelight.ledger import Ledger, LedgerEntry, Scope, open_ledger
from sidelight.ledger.place import read_key
from sidelight.report import check_writable
from sidelight.report.words import counted


def show(place: str, *, scope: str | None, key_file: Path | None) -> None:
    """Print scopes with spent and remaining budget, then every entry."""
    with _existing(place, key_file) as ledger:
        known = {each.scope_id: each for each in ledger.scopes()}
        whole = [each for each in known.values() if not _is_part(each, known)]
        if scope is not None and scope not in known:
            hint = nearest(scope, [each.scope_id for each in whole])
            raise LedgerError(f"there is no scope {scope!r} in {ledger.place.shown}; {hint}")
        chosen = whole if scope is None else [known[scope]]
        for each in chosen:
            parts = [other.scope_id for other in known.values() if other.definition.parent_id == each.scope_id]
            _show_scope(each, parts=parts)
        if not chosen:
            tell("No data set has a budget here yet.")
        head = ledger.head()
        tell(f"head {head}")
        note(scopes=[_scope_json(each) for each in chosen], head=head)


def verify(place: str, *, expect_head: str | None, key_file: Path | None) -> None:
    """Check the whole ledger; a failed check is an error with status 1."""
    with _existing(place, key_file) as ledger:
        found = ledger.verify(expect_head=expect_head)
    note(intact=found.ok, **asdict(found) | {"problems": [str(problem) for problem in found.problems]})
    if not found.ok:
        problems = "; ".join(str(problem) for problem in found.problems)
        raise FailedError(
            f"the ledger {ledger.place.shown} is NOT intact: {problems}. "
            "Spend nothing from it; restore a copy whose head matches your newest report"
        )
    tell(f"{ledger.place.shown}: {found}")
    if expect_head is None:
        tell("An older copy is intact too: use --expect-head with the head of a report to detect one.")
    tell(f"head {found.head}")


def export(place: str, *, output: Path, key_file: Path | None) -> None:
    """Write all events as JSON lines."""
    check_writable(output, inputs=[] if key_file is None else [key_file])
    with _existing(place, key_file) as ledger:
        count = ledger.export(output)
    note(events=count, output=str(output))
    tell(f"{counted(count, 'event')} written to {output}")


def reap(place: str, *, scope: str | None, key_file: Path | None) -> None:
    """Mark unfinished entries as abandoned and print them."""
    with _existing(place, key_file, read_only=False) as ledger:
        if scope is not None:
            ledger.scope(scope)  # a mistyped name must not look like "nothing to do"
        reaped = ledger.reap(scope_id=scope)
    note(given_up=list(reaped))
    for entry_id in reaped:
        tell(f"abandoned: {entry_id} (its charge stays)")
    were = "was" if len(reaped) == 1 else "were"
    tell(f"{counted(len(reaped), 'unfinished entry', 'unfinished entries')} {were} marked as abandoned.")


def _existing(place: str, key_file: Path | None, *, read_only: bool = True) -> Ledger:
    key = None if key_file is None else read_key(key_file)
    return open_ledger(place, create=False, read_only=read_only, key=key)


def _is_part(scope: Scope, known: Mapping[str, Scope]) -> bool:
    parent = scope.definition.parent_id
    return parent is not None and known[parent].definition.partitioned_by is not None


def _show_scope(scope: Scope, *, parts: Sequence[str]) -> None:
    tell(f"Scope {scope.scope_id}", style="bold")
    tell(scope.statement())
    rule = scope.definition.partitioned_by
    if rule is not None:
        tell(f"In parts, by {rule}. This is not checked.")
    tell(scope.spent())
    if rule is None:
        tell(scope.remaining())
    else:
        tell(f"left for a new part: {_left(scope)}")
        if parts:
            tell(f"parts: {len(parts)}, of which --scope {parts[-1]} shows the last; their entries are among these:")
    entries = scope.entries()
    if entries:
        made = table("when", "what", "guarantee", "state", "entry")
        for entry in entries:
            made.add_row(*(plain(cell) for cell in _row(entry)))
        console().print(made)
    tell("")


def _scope_json(scope: Scope) -> dict[str, Any]:
    """Return a scope as JSON."""
    heads = ("at", "what", "guarantee", "state", "entry")
    rows = [dict(zip(heads, _row(entry), strict=True)) for entry in scope.entries()]
    return {
        "scope": scope.scope_id,
        "statement": str(scope.statement()),
        "spent": str(scope.spent()),
        "left": _left(scope),
        "entries": rows,
    }


def _left(scope: Scope) -> str:
    if scope.definition.partitioned_by is None:
        return str(scope.remaining()).removeprefix("left: ")
    # parts do not limit one another
    return str(find_remaining(scope.rule, scope.balances().own)).removeprefix("left: ")


def _row(entry: LedgerEntry) -> tuple[str, ...]:
    what = entry.request.get("kind", "?")
    column = entry.request.get("column")
    attempt = f" (attempt {entry.attempt})" if entry.attempt > 1 else ""
    return (
        entry.at_utc[:16].replace("T", " "),
        f"{what} of {column}" if column else str(what),
        str(entry.claims.strongest),
        entry.state + attempt,
        entry.entry_id[:12],
    )
