"""Bringing an older ledger to this version's schema: in one transaction, verified before it counts.

A step adds columns, tables or indexes and never touches an event; the migration itself is an event of the chain. While
it runs the triggers are away, so nothing is committed unless the whole ledger verifies afterwards. Of a SQLite file the
state before is kept beside it, read-only: whoever spends from that copy spends the budget a second time.
"""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sidelight.errors import LedgerError, SidelightWarning
from sidelight.ledger.chain import now_utc
from sidelight.ledger.connections import copy_file
from sidelight.ledger.journal import append
from sidelight.ledger.place import Place
from sidelight.ledger.schema import SCHEMA_VERSION, Dialect, trigger_statements
from sidelight.ledger.signed import SignedScopes

if TYPE_CHECKING:
    from sidelight.ledger.store import Store
    from sidelight.ledger.transaction import Transaction

_CURRENT: Final = int(SCHEMA_VERSION)


@dataclass(frozen=True, kw_only=True)
class Step:
    """What leads from one schema to the next: statements that add, in the words of each database."""

    before: int
    statements: Callable[[Dialect], Sequence[str]]


#: One for each schema that came before this one. Schema 1 had no digest of the scopes' rows in its events.
STEPS: tuple[Step, ...] = (Step(before=1, statements=lambda _dialect: ["ALTER TABLE event ADD COLUMN books TEXT"]),)


def stored_version(transaction: Transaction, shown: str) -> int:
    """Read the schema of a ledger; refuse one from the future, one from which no step leads here, and anything else."""
    row = transaction.row("SELECT value FROM meta WHERE key = 'schema'")
    text = "none" if row is None else str(row[0])
    if not (text.isascii() and text.isdecimal()):
        raise LedgerError(f"{shown} has schema {text!r}, wanted {SCHEMA_VERSION!r}; it is not a ledger or is damaged")
    version = int(text)
    if version > _CURRENT:
        raise LedgerError(
            f"{shown} has schema {version}, newer than this version reads ({SCHEMA_VERSION}); upgrade sidelight"
        )
    _steps_from(version, shown)
    return version


def migrate(store: Store, *, key: bytes | None) -> None:
    """Bring a ledger to this version's schema and say so in a warning; does nothing if it is there already."""
    done = store.decide(lambda transaction: _migrate(transaction, store.place, key=key))
    if done is not None:
        warnings.warn(done, SidelightWarning, stacklevel=4)  # of open_ledger's caller


def _migrate(transaction: Transaction, place: Place, *, key: bytes | None) -> str | None:
    from sidelight.ledger.verify import problems_in

    if transaction.dialect == "postgresql":  # writers take these in the same order, so nobody is in the middle of one
        transaction.define("LOCK TABLE scope, entry, event, meta IN ACCESS EXCLUSIVE MODE")
    version = stored_version(transaction, place.shown)
    if version == _CURRENT:
        return None  # somebody else was faster
    copy = None if place.path is None else _keep(transaction, place.path, version)
    try:
        _drop_triggers(transaction)
        for step in _steps_from(version, place.shown):
            for statement in step.statements(transaction.dialect):
                transaction.define(statement)
        transaction.run("UPDATE meta SET value = :value WHERE key = 'schema'", value=SCHEMA_VERSION)
        for statement in trigger_statements(transaction.dialect).values():
            transaction.define(statement)
        transaction.scopes = SignedScopes(transaction)  # as they stand; the verification below is what believes them
        body = {"from": str(version), "to": SCHEMA_VERSION}
        append(transaction, kind="migrate", at_utc=now_utc(), body=body, key=key)
        problems = problems_in(transaction, key=key)
        if problems:
            raise LedgerError(
                f"{place.shown} was not migrated, and nothing was changed: brought from schema {version} to "
                f"{SCHEMA_VERSION} it would not be intact: {problems[0]}"
            )
    except BaseException:
        if copy is not None:
            copy.unlink(missing_ok=True)
        raise
    told = f"the ledger {place.shown} was brought from schema {version} to {SCHEMA_VERSION}"
    if copy is None:
        return told
    return f"{told}; {copy.name!r} beside it is what it was before: never spend from it, it forgets what comes now"


def _steps_from(version: int, shown: str) -> list[Step]:
    """Return the steps from a schema to this version's, in order."""
    known = {step.before: step for step in STEPS}
    wanted = range(version, _CURRENT)
    if any(each not in known for each in wanted):
        raise LedgerError(
            f"{shown} has schema {version}, older than this version reads ({SCHEMA_VERSION}), and no step leads from "
            "it; it is damaged, or was made by a version that was never published"
        )
    return [known[each] for each in wanted]


def _keep(transaction: Transaction, path: Path, version: int) -> Path:
    """Copy the file as it is. The transaction holds the write lock: no commit comes between copy and migration."""
    row = transaction.row("SELECT hash FROM event ORDER BY seq DESC LIMIT 1")
    head = str(row[0])[:12] if row else "empty"
    kept = path.with_name(f"{path.name}.schema-{version}.{head}.bak")
    draft = kept.with_name(kept.name + ".part")
    try:
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600, exist_ok=False)  # while it is written, too, nobody reads it who may not read the ledger
        copy_file(path, draft)
        draft.chmod(0o400)  # opening it as a ledger is refused: `check_file` wants to write
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(kept)
    except (OSError, sqlite3.Error) as error:
        draft.unlink(missing_ok=True)
        raise LedgerError(
            f"the ledger {str(path)!r} wants to be brought from schema {version} to {SCHEMA_VERSION}, and a copy of it "
            f"cannot be written beside it ({type(error).__name__}); make room or give permission. Nothing was changed"
        ) from error
    return kept


def _drop_triggers(transaction: Transaction) -> None:
    """Take away the triggers of the older schema, whatever they are; verification finds them all again afterwards."""
    if transaction.dialect == "sqlite":
        for (name,) in transaction.rows("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            transaction.define(f'DROP TRIGGER "{name}"')
        return
    found = transaction.rows(
        "SELECT proname FROM pg_proc WHERE starts_with(proname, 'sidelight_') AND pronamespace = "
        "(SELECT relnamespace FROM pg_class WHERE oid = to_regclass('event'))"
    )
    for (name,) in found:
        transaction.define(f'DROP FUNCTION "{name}"() CASCADE')  # with the triggers that call it
