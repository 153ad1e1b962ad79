"""The open ledger, as users hold it: its scopes (by `ScopeKeeper`), its history, verification and exchange."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from sidelight.errors import LedgerError
from sidelight.ledger.chain import Event, identity_of
from sidelight.ledger.definition import definition_from_row
from sidelight.ledger.exchange import Imported, book_import, export_events, read_export, scope_map
from sidelight.ledger.journal import DEFINITION_COLUMNS, each_event, newest_hash
from sidelight.ledger.opening import open_or_create
from sidelight.ledger.place import check_file, parse_place
from sidelight.ledger.scope import Scope, ScopeKeeper
from sidelight.ledger.verify import Rederive, Verification, verify_ledger


def open_ledger(
    url: str | os.PathLike[str],
    *,
    testing: bool = False,
    create: bool = True,
    key: bytes | None = None,
    wait_seconds: float = 30.0,
    read_only: bool = False,
) -> Ledger:
    """Open the ledger at an address, making an empty one if nothing is there.

    Args:
        url: "budget.db" or "sqlite:///budget.db" is a file, "postgresql://user@host/database" a server (extra
            `postgres`), "sqlite://" memory, for tests only.
        testing: Make or open a ledger for tests; production refuses it, and the other way round.
        create: False refuses to make one, so that a mistyped path is not a fresh budget.
        key: Secret bytes, 16 or more: the chain is an HMAC, and without the key nobody can write it anew.
        wait_seconds: The patience for locks.
        read_only: For auditors: needs no permission to write, leaves no trace, and refuses what would spend.

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

    store = Store(place, wait_seconds=wait_seconds, read_only=read_only)
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
            return newest_hash(transaction)

    def events(self) -> list[Event]:
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

        Only what is new since the last import from the same ledger is booked. `key` is the other ledger's, if any.
        """
        history = read_export(Path(path), key=key)
        source = identity_of(history.genesis) if history.genesis else None
        if source is None or source.testing != self.testing:
            raise LedgerError(
                "a ledger for tests and a real one never exchange charges; import a ledger of the same kind"
            )
        if source.ledger_id == self.ledger_id:
            raise LedgerError("this is an export of the same ledger, whose charges are all booked here already")
        chosen = scope_map(history, [scope.scope_id for scope in self.scopes()], into)
        definitions = self._definitions_of(dict.fromkeys(chosen.values()))
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
