"""The open ledger: scopes, reservations, history.

Nothing here decides; `decide` does, inside one transaction of `store`. The handle keeps only what never changes: the
ledger's identity and the definitions of its scopes.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sidelight.errors import LedgerError
from sidelight.guarantees import Claim, Claims, Neighbours, Unit
from sidelight.ledger import decide
from sidelight.ledger.books import Books
from sidelight.ledger.canonical import canonical, plain
from sidelight.ledger.chain import Event, Identity, checked_time, identity_of, now_utc
from sidelight.ledger.definition import BUDGETS_ADD_UP, ScopeDefinition, define_scope, definition_from_row
from sidelight.ledger.entry import Entry, Stored, checked_name
from sidelight.ledger.genesis import open_or_create
from sidelight.ledger.history import list_entries, list_finished
from sidelight.ledger.journal import append, each_event, lock_head
from sidelight.ledger.place import check_file, parse_place
from sidelight.ledger.reservation import Reservation
from sidelight.ledger.scope import Scope
from sidelight.ledger.shares import spread
from sidelight.ledger.signed import DEFINITION_COLUMNS, signed_scopes
from sidelight.ledger.unique import Unique

if TYPE_CHECKING:
    from sidelight.ledger.exchange import Imported
    from sidelight.ledger.store import Store
    from sidelight.ledger.transaction import Transaction
    from sidelight.ledger.verify import Rederive, Verification


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


class Ledger(Unique):
    """A budget that outlives the process. Made by `open_ledger`; a context manager that closes its connections."""

    def __init__(self, store: Store, *, identity: Identity, key: bytes | None) -> None:
        self.store = store
        self.store.ledger_id = identity.ledger_id
        self.place = store.place
        self.ledger_id = identity.ledger_id
        self.testing = identity.testing
        self._key = key
        self._definitions: dict[str, ScopeDefinition] = {}

    def open_scope(
        self,
        scope_id: str,
        *,
        budget: Claim,
        unit: Unit | None = None,
        neighbours: Neighbours | None = None,
        routes: Sequence[str] | None = None,
        shares: Any = None,
        parent: str | None = None,
        partitioned_by: str | None = None,
    ) -> Scope:
        """Return the scope with this name, making it if there is none; if there is one it must be the same.

        Budget, unit, neighbours, rule, parent and partition are fixed for good. Unit and neighbours default to the
        budget's. What is charged to a scope is charged to its parent too. `partitioned_by` describes the public rule by
        which every protected unit belongs to exactly one child scope.
        """
        above = None if parent is None else self._definition(parent)
        wanted = define_scope(
            scope_id,
            budget=budget,
            unit=unit,
            neighbours=neighbours,
            routes=routes,
            shares=shares,
            parent=above,
            partitioned_by=partitioned_by,
        )
        found = self.store.decide(lambda transaction: _find_or_make(transaction, wanted, key=self._key))
        different = found.differences(wanted)
        if different:
            raise LedgerError(
                f"scope {scope_id!r} exists with another {' and '.join(different)} (budget {found.budget}, one "
                f"{found.unit}, {found.neighbours}); a scope never changes, and {BUDGETS_ADD_UP}"
            )
        self._definitions[scope_id] = found
        return Scope(self, found)

    def scope(self, scope_id: str) -> Scope:
        """Return an existing scope."""
        return Scope(self, self._definition(scope_id))

    def scopes(self) -> list[Scope]:
        """Return all scopes, in the order of their names."""
        with self.store.read() as transaction:
            rows = transaction.rows(f"SELECT {DEFINITION_COLUMNS} FROM scope ORDER BY scope_id")
        definitions = sorted((definition_from_row(row) for row in rows), key=lambda found: found.scope_id)
        return [Scope(self, definition) for definition in definitions]

    def reserve(
        self,
        claims: Mapping[str, Claims],
        *,
        scope_id: str | None = None,
        request: Mapping[str, object],
        key: str | None = None,
        at_utc: str | None = None,
        resume: bool = False,
    ) -> Reservation | Stored:
        """Charge one request to several scopes at once, all or none; `Scope.reserve` is the usual way to one.

        `claims` gives each data set's own claims; ancestors are charged too. If two of the scopes share an ancestor,
        state the claims for it as well. `scope_id` is the scope under which the key is remembered (the first, if left
        out).
        """
        primary = next(iter(claims), "") if scope_id is None else scope_id
        if primary not in claims:
            raise LedgerError(f"the scope {primary!r} that remembers the key must be one of those charged")
        entry_id = uuid.uuid4().hex
        asked = decide.Request(
            entry_id=entry_id,
            scope_id=primary,
            key=f"auto:{entry_id}" if key is None else checked_name(key, what="a key"),
            shares=spread(claims, self._definitions_of(claims)),
            request=_checked_request(request),
            at_utc=now_utc() if at_utc is None else checked_time(at_utc),
            resume=resume,
        )
        stored = self.store.decide(
            lambda transaction: decide.reserve(transaction, asked, self._definitions, key=self._key)
        )
        if stored is not None:
            return stored
        with self.store.read() as transaction:
            row = transaction.row("SELECT state FROM entry WHERE entry_id = :entry_id", entry_id=entry_id)
        if row != ("reserved",):
            raise LedgerError("the reservation could not be read back from the ledger; no data was opened")
        return Reservation(self.store, entry_id=entry_id, scope_id=primary, key=self._key)

    def record_external(self, claims: Mapping[str, Claims], *, note: str) -> str:
        """Book what another tool spent; return the new head. Raises `BudgetError` if it does not fit."""
        from sidelight.ledger.exchange import book_external

        checked_name(note, what="the note of an external charge")
        shares = spread(claims, self._definitions_of(claims))
        mark = uuid.uuid4().hex
        return self.store.decide(
            lambda transaction: book_external(
                transaction, shares, self._definitions, mark=mark, note=note, first=next(iter(claims)), key=self._key
            )
        )

    def reap(self, *, scope_id: str | None = None, key: str | None = None) -> list[str]:
        """Declare unfinished attempts dead; return their entry ids. The charges stay."""
        with self.store.read() as transaction:
            rows = transaction.rows(
                "SELECT entry_id, scope_id, idem_key FROM entry WHERE state = 'reserved' ORDER BY reserve_seq"
            )
        chosen = [(row[0], row[1]) for row in rows if scope_id in (None, row[1]) and key in (None, row[2])]
        return [entry_id for entry_id, scope in chosen if self._reap(entry_id, scope)]

    def close_scope(self, scope_id: str) -> str:
        """Close a scope for good: it grants nothing more. Return the new head."""
        self._definition(scope_id)
        return self.store.decide(lambda transaction: _close_scope(transaction, scope_id, key=self._key))

    def head(self) -> str:
        """Return the hash of the last event: what `verify(expect_head=...)` compares."""
        with self.store.read() as transaction:
            row = transaction.row("SELECT hash FROM event ORDER BY seq DESC LIMIT 1")
        return str(row[0] if row else "")

    def events(self) -> list[Event]:
        """Return the whole history."""
        with self.store.read() as transaction:
            return list(each_event(transaction))

    def entries(self, *, scope_id: str | None = None) -> list[Entry]:
        """Return all entries in order, or those that charged one scope (with its share of the charge)."""
        with self.store.read() as transaction:
            return list_entries(transaction, scope_id=scope_id)

    def finished(self, *, scope_id: str | None = None, after: str | None = None) -> list[Entry]:
        """Return entries with an outcome, in the order of their outcomes; with `after`, only those since that head.

        A reader that keeps the head of what it has seen pays for what is new and nothing else.
        """
        with self.store.read() as transaction:
            return list_finished(transaction, scope_id=scope_id, after=after)

    def verify(self, *, expect_head: str | None = None, rederive: Rederive | None = None) -> Verification:
        """Recompute the chain, the states and the totals, and compare them with what is stored.

        `expect_head` is the `ledger_head` of any release: if the ledger does not contain it, this is an older copy.
        `rederive` maps a stored request to its claims, to check that they were not understated.
        """
        from sidelight.ledger.verify import verify_ledger

        return verify_ledger(self.store, key=self._key, expect_head=expect_head, rederive=rederive)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write all events as JSON lines; return how many."""
        from sidelight.ledger.exchange import export_events

        return export_events(self.store, Path(path))

    def import_events(
        self, path: str | os.PathLike[str], *, into: Mapping[str, str] | None = None, key: bytes | None = None
    ) -> Imported:
        """Book what another ledger's export spent; can only add. `into` maps its scopes to scopes here.

        Only what is new since the last import from the same ledger is booked. `key` is the other ledger's, if any.
        """
        from sidelight.ledger.exchange import book_import, read_export, scope_map

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

    def _reap(self, entry_id: str, scope_id: str) -> bool:
        return self.store.decide(lambda transaction: _reap(transaction, entry_id, scope_id, key=self._key))

    def ancestry(self, scope_id: str) -> list[ScopeDefinition]:
        """Return the definitions of a scope and its ancestors, from the scope to the top."""
        chain = [self._definition(scope_id)]
        while chain[-1].parent_id is not None:
            chain.append(self._definition(chain[-1].parent_id))
        return chain

    def _definition(self, scope_id: str) -> ScopeDefinition:
        if scope_id not in self._definitions:
            with self.store.read() as transaction:
                row = transaction.row(
                    f"SELECT {DEFINITION_COLUMNS} FROM scope WHERE scope_id = :scope_id", scope_id=scope_id
                )
            if row is None:
                raise LedgerError(
                    f"there is no scope {scope_id!r} in {self.place.shown}; `sidelight ledger show` lists those there "
                    "are, open_scope makes one"
                )
            self._definitions[scope_id] = definition_from_row(row)
        return self._definitions[scope_id]

    def _definitions_of(self, scope_ids: Mapping[str, object]) -> Mapping[str, ScopeDefinition]:
        """Load the definitions of these scopes and of all their ancestors."""
        for name in scope_ids:
            self.ancestry(name)
        return self._definitions


def _find_or_make(transaction: Transaction, wanted: ScopeDefinition, *, key: bytes | None) -> ScopeDefinition:
    scopes = signed_scopes(transaction, key=key)  # holds the head to the end: nobody makes the same scope meanwhile
    columns = scopes.columns(wanted.scope_id)
    if columns is not None:
        return definition_from_row(list(columns.values()))
    scopes.insert(wanted, totals=canonical(Books().to_json()), seq=decide.next_seq(transaction))
    append(transaction, kind="scope", at_utc=now_utc(), scope_id=wanted.scope_id, body=wanted.to_body(), key=key)
    return wanted


def _reap(transaction: Transaction, entry_id: str, scope_id: str, *, key: bytes | None) -> bool:
    """Declare one entry dead, unless it has finished in the meantime, which is better."""
    decide.lock(transaction, [scope_id], key=key)
    row = transaction.row("SELECT state FROM entry WHERE entry_id = :entry_id", entry_id=entry_id)
    if row != ("reserved",):
        return False
    decide.settle(transaction, entry_id=entry_id, kind="fail", body={"reason": "reaped"}, key=key)
    return True


def _close_scope(transaction: Transaction, scope_id: str, *, key: bytes | None) -> str:
    books = decide.lock(transaction, [scope_id], key=key)[scope_id]
    if books.shut:
        return lock_head(transaction)[1]
    totals = canonical(books.closed().to_json())
    signed_scopes(transaction, key=key).update(scope_id, seq=decide.next_seq(transaction), totals=totals)
    return append(transaction, kind="close", at_utc=now_utc(), scope_id=scope_id, body={}, key=key).hash


def _checked_request(request: Mapping[str, object]) -> dict[str, Any]:
    value = plain(request, where="request")
    if not isinstance(value, dict) or not value:
        raise LedgerError("a request is a non-empty mapping that says what is asked; an empty request has no price")
    return value
