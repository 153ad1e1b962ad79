"""Making and recognising a ledger, and bringing an older one to this version's schema.

A migration is one transaction, verified before it counts. A step adds columns, tables or indexes and never touches an
event; the migration itself is an event of the chain. While it runs the triggers are away, so nothing is committed
unless the whole ledger verifies afterwards. Of a SQLite file the state before is kept beside it, read-only: whoever
spends from that copy spends the budget a second time.
"""

from __future__ import annotations

import hmac
import os
import sqlite3
import uuid
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sidelight.errors import LedgerError, SidelightWarning
from sidelight.ledger.chain import NO_HASH, Event, Identity, canonical, chained, event_hash, identity_of, now_utc
from sidelight.ledger.connections import copy_file
from sidelight.ledger.journal import SignedScopes, append, digest_of, event_at, insert_event, newest_hash
from sidelight.ledger.place import Place
from sidelight.ledger.schema import SCHEMA_VERSION, TABLES, Dialect, create_statements, trigger_statements
from sidelight.ledger.verify import problems_in

if TYPE_CHECKING:
    from sidelight.ledger.schema import Transaction
    from sidelight.ledger.store import Store

_CREATION_LOCK: Final = 0x51DE119477  # PostgreSQL: two sessions that both find no tables take turns
_CURRENT: Final = int(SCHEMA_VERSION)


def open_or_create(store: Store, *, testing: bool, create: bool, key: bytes | None) -> Identity:
    """Return the identity of the ledger in the store, making an empty ledger if there is none."""
    with store.read() as transaction:
        _check_only_one(transaction)
        there = set(TABLES) & transaction.tables()
    if not there:
        if not create:
            raise LedgerError(f"there is no ledger in {store.place.shown}; check the address")
        store.decide(lambda transaction: _create(transaction, testing=testing, key=key))
    elif there != set(TABLES):
        raise LedgerError(
            f"{store.place.shown} has a table {min(there)!r} but is not a ledger; use a file or database of its own"
        )
    with store.read() as transaction:
        version = stored_version(transaction, store.place.shown)
        identity = _identify(transaction, store.place.shown, key=key, schema=version)
    if identity.testing != testing:
        raise LedgerError(
            f"{store.place.shown} is a ledger for tests, whose releases protect nobody; production refuses it"
            if identity.testing
            else f"{store.place.shown} is a real ledger, and a test session refuses it; use another file for tests"
        )
    if version < int(SCHEMA_VERSION):
        if store.read_only:
            raise LedgerError(
                f"{store.place.shown} has schema {version}, older than this version's ({SCHEMA_VERSION}), and a reader "
                "does not change it; its owner brings it up to date with the next run, or with `sidelight ledger reap`"
            )
        migrate(store, key=key)
    return identity


def check_key(genesis: Event, *, key: bytes | None, shown: str) -> None:
    """Refuse a missing, superfluous or wrong key."""
    keyed = identity_of(genesis).keyed
    if keyed and key is None:
        raise LedgerError(f"{shown} was made with a secret key; pass key=...")
    if not keyed and key is not None:
        raise LedgerError(f"{shown} was made without a key (or written anew without it); it cannot be checked with one")
    if key is not None and not hmac.compare_digest(genesis.hash, event_hash(genesis, key=key)):
        raise LedgerError(f"the key does not belong to {shown}, or its first event was changed")


def _check_only_one(transaction: Transaction) -> None:
    """Refuse a database with a ledger in another schema than this user's first: each would grant the whole budget."""
    if transaction.dialect != "postgresql":
        return
    rows = transaction.rows(
        "SELECT n.nspname, n.nspname = current_schema() FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind IN ('r', 'p') AND c.relname IN ('scope', 'entry', 'event', 'meta')"
        " GROUP BY n.nspname HAVING COUNT(*) = 4 ORDER BY n.nspname"
    )
    if any(not here for _, here in rows):
        names = ", ".join(repr(str(name)) for name, _ in rows)
        raise LedgerError(
            f"the database holds a ledger in another schema than this user works in (there is one in {names}), and "
            "each would grant the whole budget; let all users work in one schema (search_path), or give the ledger a "
            "database of its own"
        )


def _identify(transaction: Transaction, shown: str, *, key: bytes | None, schema: int) -> Identity:
    genesis = event_at(transaction, 0, schema=schema)
    check_key(genesis, key=key, shown=shown)
    return identity_of(genesis)


def _create(transaction: Transaction, *, testing: bool, key: bytes | None) -> None:
    if transaction.dialect == "postgresql":
        transaction.rows("SELECT pg_advisory_xact_lock(:lock)", lock=_CREATION_LOCK)
    _check_only_one(transaction)
    if set(TABLES) & transaction.tables():
        return  # somebody else was faster
    for statement in create_statements(transaction.dialect):
        transaction.define(statement)
    ledger_id = str(uuid.uuid4())
    body = {"ledger_id": ledger_id, "schema": SCHEMA_VERSION}
    if testing:
        body["testing"] = "1"
    if key is not None:
        body["mac"] = "hmac-sha256"
    genesis = chained(seq=0, at_utc=now_utc(), kind="open", body=body, prev_hash=NO_HASH, books=digest_of({}), key=key)
    insert_event(transaction, genesis)
    identity = {"schema": SCHEMA_VERSION, "ledger_id": ledger_id, "head": canonical({"hash": genesis.hash, "seq": "0"})}
    for name, value in identity.items():
        transaction.run("INSERT INTO meta (key, value) VALUES (:name, :value)", name=name, value=value)


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
    head = newest_hash(transaction)[:12] or "empty"
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
