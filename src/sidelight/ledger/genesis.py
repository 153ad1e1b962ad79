"""Making and recognising a ledger: its first event, its identity, its schema, and the refusals at the door."""

from __future__ import annotations

import hmac
import uuid
from typing import TYPE_CHECKING, Final

from sidelight.errors import LedgerError
from sidelight.ledger.canonical import canonical
from sidelight.ledger.chain import NO_HASH, Event, Identity, chained, event_hash, identity_of, now_utc
from sidelight.ledger.journal import event_at, insert_event
from sidelight.ledger.migrations import migrate, stored_version
from sidelight.ledger.schema import SCHEMA_VERSION, TABLES, create_statements
from sidelight.ledger.signed import digest_of

if TYPE_CHECKING:
    from sidelight.ledger.store import Store
    from sidelight.ledger.transaction import Transaction

_CREATION_LOCK: Final = 0x51DE119477  # PostgreSQL: two sessions that both find no tables take turns


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


def check_key(genesis: Event, *, key: bytes | None, shown: str) -> None:
    """Refuse a missing, superfluous or wrong key."""
    keyed = identity_of(genesis).keyed
    if keyed and key is None:
        raise LedgerError(f"{shown} was made with a secret key; pass key=...")
    if not keyed and key is not None:
        raise LedgerError(f"{shown} was made without a key (or written anew without it); it cannot be checked with one")
    if key is not None and not hmac.compare_digest(genesis.hash, event_hash(genesis, key=key)):
        raise LedgerError(f"the key does not belong to {shown}, or its first event was changed")


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
