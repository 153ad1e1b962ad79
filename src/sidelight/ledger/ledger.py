"""The open ledger: made or recognised, migrated to this version's schema, verified, exported and imported.

A migration is one transaction, verified before it is committed. A step adds columns, tables or indexes and never
touches an event; the migration itself is an event of the chain. The triggers are dropped while it runs, so nothing is
committed unless the whole ledger verifies afterwards. The state of a SQLite file before the migration is kept next to
it, read-only: spending from that copy would spend the budget a second time.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from sidelight.errors import LedgerError, SidelightWarning
from sidelight.ledger.chain import (
    NO_HASH,
    Identity,
    LedgerEvent,
    canonical,
    chained,
    check_key,
    identity_of,
    now_utc,
)
from sidelight.ledger.connections import copy_file
from sidelight.ledger.definition import definition_from_row
from sidelight.ledger.exchange import Imported, book_import, export_events, read_export, scope_map
from sidelight.ledger.journal import (
    DEFINITION_COLUMNS,
    Head,
    SignedScopes,
    append,
    check_contains,
    digest_of,
    each_event,
    event_at,
    insert_event,
    newest_event,
    see_head,
    seen_head,
)
from sidelight.ledger.place import Place, check_file, no_ledger_in, parse_place
from sidelight.ledger.schema import SCHEMA_VERSION, TABLES, Dialect, create_statements, trigger_statements
from sidelight.ledger.scope import Scope
from sidelight.ledger.scope_keeper import ScopeKeeper
from sidelight.ledger.verify import Rederive, Verification, problems_in, verify_ledger

if TYPE_CHECKING:
    from sidelight.ledger.schema import Transaction
    from sidelight.ledger.store import Store


def open_ledger(
    url: str | os.PathLike[str],
    *,
    testing: bool = False,
    create: bool = True,
    key: bytes | None = None,
    wait_seconds: float = 30.0,
    answer_seconds: float | None = None,
    read_only: bool = False,
    head_file: str | os.PathLike[str] | None = None,
) -> Ledger:
    """Open the ledger at an address, making an empty one if nothing is there.

    Args:
        url: "budget.db" or "sqlite:///budget.db" is a file, "postgresql://user@host/database" a server (extra
            `postgres`), "sqlite://" memory, for tests only.
        testing: Make or open a ledger for tests; production refuses it, and the other way round.
        create: False refuses to make one, so that a mistyped path is not a fresh budget.
        key: Secret bytes, 16 or more: the chain is an HMAC, which cannot be forged without the key.
        wait_seconds: The patience for locks.
        answer_seconds: The patience for each answer of PostgreSQL: statements end by it, and so does a connection to a
            server that says nothing. Left out, there is no limit; files need none.
        read_only: For auditors: needs no permission to write, leaves no trace, and refuses what would spend.
        head_file: Where the newest head is kept, on another disk: whatever would spend is refused where the ledger
            lacks it, as after a restored backup, and where the file is missing and the ledger is not new.

    Returns:
        The open ledger, a context manager that closes its connections.

    >>> with open_ledger("sqlite://", testing=True) as ledger:
    ...     ledger.verify().ok
    True
    """
    place = parse_place(url)
    create = create and not read_only
    if place.in_memory and not testing:
        raise LedgerError(
            "a ledger in memory forgets what was spent; use a file such as sqlite:///budget.db (testing=True allows it)"
        )
    if key is not None and (not isinstance(key, bytes) or len(key) < 16):
        raise LedgerError(
            "the key of a ledger is at least 16 secret bytes; make one with os.urandom(32) and keep it safe"
        )
    if place.path is not None:
        check_file(place.path, create=create, read_only=read_only)
    from sidelight.ledger.store import Store  # SQLAlchemy is imported when the first ledger is opened

    how: dict[str, Any] = {"wait_seconds": wait_seconds, "answer_seconds": answer_seconds, "read_only": read_only}
    if head_file is None:
        store = Store(place, **how)
    else:
        from sidelight.ledger.head_file import GuardedStore

        store = GuardedStore(place, head_file=Path(head_file), **how)
    try:
        identity = open_or_create(store, testing=testing, create=create, key=key)
    except BaseException:
        store.close()
        raise
    return Ledger(store, identity=identity, key=key)


class Ledger(ScopeKeeper):
    """A budget that outlives the process. Made by `open_ledger`; a context manager that closes its connections."""

    def scope(self, scope_id: str) -> Scope:
        """Return an existing scope."""
        return Scope(self, self._definition(scope_id))

    def scopes(self) -> list[Scope]:
        """Return all scopes, in the order of their names."""
        with self.store.read() as transaction:
            rows = transaction.rows(f"SELECT {DEFINITION_COLUMNS} FROM scope ORDER BY scope_id")
        definitions = sorted((definition_from_row(row) for row in rows), key=lambda found: found.scope_id)
        return [Scope(self, definition) for definition in definitions]

    def head(self) -> str:
        """Return the hash of the last event: what `verify(expect_head=...)` compares."""
        with self.store.read() as transaction:
            return newest_event(transaction)[1]

    def newest_head(self) -> Head:
        """Return number and hash of the last event; refuse a ledger without one that this process knows of."""
        seen = seen_head(self.ledger_id)  # before the view of the transaction is fixed
        with self.store.read() as transaction:
            if seen is not None:
                check_contains(transaction, seen)
            found = newest_event(transaction)
        see_head(self.ledger_id, found)
        return found

    def events(self) -> list[LedgerEvent]:
        """Return the whole history."""
        with self.store.read() as transaction:
            return list(each_event(transaction))

    def verify(self, *, expect_head: str | None = None, rederive: Rederive | None = None) -> Verification:
        """Recompute the chain, the states and the totals, and compare them with what is stored.

        `expect_head` is the `ledger_head` of any release: if the ledger does not contain it, this is an older copy.
        `rederive` maps a stored request to its claims, to check that they were not understated.
        """
        return verify_ledger(self.store, key=self._key, expect_head=expect_head, rederive=rederive)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write all events as JSON lines; return how many."""
        return export_events(self.store, Path(path))

    def import_events(
        self, path: str | os.PathLike[str], *, into: Mapping[str, str] | None = None, key: bytes | None = None
    ) -> Imported:
        """Book what another ledger's export spent; can only add. `into` maps its scopes to scopes here.

        Only what no earlier import booked is booked; of a copy of this ledger, what was spent since the copy was made.
        `key` is the other ledger's, if any.
        """
        history = read_export(Path(path), key=key)
        source = identity_of(history.genesis) if history.genesis else None
        if source is None or source.testing != self.testing:
            raise LedgerError(
                "a ledger for tests and a real one never exchange charges; import a ledger of the same kind"
            )
        definitions = {scope.scope_id: scope.definition for scope in self.scopes()}
        chosen = scope_map(history, definitions, into)
        return self.store.decide(
            lambda transaction: book_import(transaction, history, definitions, into=chosen, key=self._key)
        )

    def close(self) -> None:
        """Close the connections."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.place.shown!r}{', testing=True' if self.testing else ''})"


_CREATION_LOCK: Final = 0x51DE119477  # PostgreSQL: two sessions that both find no tables take turns
_CURRENT: Final = int(SCHEMA_VERSION)


def open_or_create(store: Store, *, testing: bool, create: bool, key: bytes | None) -> Identity:
    """Return the identity of the ledger in the store, making an empty ledger if there is none."""
    was_empty = store.place.is_empty
    with store.read() as transaction:
        _check_only_one(transaction)
        there = set(TABLES) & transaction.tables()
    if not there:
        # tables are made in one commit: a file with pages and without tables lost its log, and what was spent with it
        if not create or not (was_empty or store.place.is_empty):
            raise no_ledger_in(store.place)
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
            f"{store.place.shown} is a ledger for tests, whose releases give no privacy; production refuses it"
            if identity.testing
            else f"{store.place.shown} is a real ledger, and a test session refuses it; use another file for tests"
        )
    if version < int(SCHEMA_VERSION):
        if store.read_only:
            raise LedgerError(
                f"{store.place.shown} has schema {version}, older than this version's {SCHEMA_VERSION}: the next run "
                "or `sidelight ledger reap` changes it, or a copy where nobody may write it; never spend from the copy"
            )
        migrate(store, key=key)
    return identity


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
        return  # another process was faster
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
class MigrationStep:
    """What leads from one schema to the next: statements that add, in the words of each database."""

    before: int
    statements: Callable[[Dialect], Sequence[str]]


#: One for each schema that came before this one. Schema 1 had no digest of the scopes' rows in its events.
STEPS: tuple[MigrationStep, ...] = (
    MigrationStep(before=1, statements=lambda _dialect: ["ALTER TABLE event ADD COLUMN books TEXT"]),
)


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
    if transaction.dialect == "postgresql":
        # in the order that writers and openers lock, or they would wait for each other
        transaction.define("LOCK TABLE meta, event, scope, entry IN ACCESS EXCLUSIVE MODE")
    version = stored_version(transaction, place.shown)
    if version == _CURRENT:
        return None  # another process was faster
    copy = None if place.path is None else _keep(transaction, place.path, version)
    try:
        _drop_triggers(transaction)
        for step in _steps_from(version, place.shown):
            for statement in step.statements(transaction.dialect):
                transaction.define(statement)
        transaction.run("UPDATE meta SET value = :value WHERE key = 'schema'", value=SCHEMA_VERSION)
        for statement in trigger_statements(transaction.dialect).values():
            transaction.define(statement)
        transaction.scopes = SignedScopes(transaction)  # unchecked: the verification below checks them
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
    done = f"the ledger {place.shown} was brought from schema {version} to {SCHEMA_VERSION}"
    if copy is None:
        return done
    return f"{done}; {copy.name!r} next to it is what it was before: never spend from it, it forgets what comes now"


def _steps_from(version: int, shown: str) -> list[MigrationStep]:
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
    head = newest_event(transaction)[1][:12] or "empty"
    kept = path.with_name(f"{path.name}.schema-{version}.{head}.bak")
    draft = kept.with_name(kept.name + ".part")
    try:
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600, exist_ok=False)  # while it is written it is as private as the ledger
        copy_file(path, draft)
        draft.chmod(0o400)  # opening it as a ledger is refused: `check_file` wants to write
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(kept)
    except (OSError, sqlite3.Error) as error:
        draft.unlink(missing_ok=True)
        raise LedgerError(
            f"the ledger {str(path)!r} must be migrated from schema {version} to {SCHEMA_VERSION}, and a copy of it "
            f"cannot be written next to it ({type(error).__name__}); make room or give permission. Nothing was changed"
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
