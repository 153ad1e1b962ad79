"""A scope: one data set's account in a ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sidelight.accounting import Remaining, Rule, Spent, Totals, find_spent
from sidelight.errors import LedgerError
from sidelight.guarantees import Amount, Claim, Claims, Neighbours, Unit
from sidelight.ledger.books import Books, books_from_json
from sidelight.ledger.canonical import read
from sidelight.ledger.definition import ScopeDefinition
from sidelight.ledger.entry import Entry, Stored
from sidelight.ledger.remaining import remaining_along
from sidelight.ledger.reservation import Reservation
from sidelight.ledger.unique import Unique

if TYPE_CHECKING:
    from sidelight.ledger.place import Place
    from sidelight.ledger.store import Store
    from sidelight.ledger.transaction import Transaction


class ScopeKeeper(Protocol):
    """What a scope asks of the ledger that it belongs to."""

    testing: bool

    @property
    def store(self) -> Store:
        """The database."""
        ...

    @property
    def place(self) -> Place:
        """Where it lives."""
        ...

    def reserve(
        self,
        claims: Mapping[str, Claims],
        *,
        scope_id: str,
        request: Mapping[str, object],
        key: str | None = None,
        at_utc: str | None = None,
        resume: bool = False,
    ) -> Reservation | Stored:
        """Charge before any data is opened."""
        ...

    def record_external(self, claims: Mapping[str, Claims], *, note: str) -> str:
        """Book what another tool spent."""
        ...

    def reap(self, *, scope_id: str | None = None, key: str | None = None) -> list[str]:
        """Declare unfinished attempts dead."""
        ...

    def close_scope(self, scope_id: str) -> str:
        """Close a scope for good."""
        ...

    def ancestry(self, scope_id: str) -> list[ScopeDefinition]:
        """Return a scope and all above it."""
        ...

    def entries(self, *, scope_id: str | None = None) -> list[Entry]:
        """Return the entries that charged a scope."""
        ...

    def finished(self, *, scope_id: str | None = None, after: str | None = None) -> list[Entry]:
        """Return the entries that have an outcome."""
        ...

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
        """Return another scope of the ledger, made if it is not there."""
        ...


class Scope(Unique):
    """Charges requests against one budget. Made by `Ledger.open_scope`."""

    def __init__(self, ledger: ScopeKeeper, definition: ScopeDefinition) -> None:
        self.ledger = ledger
        self.definition = definition

    @property
    def scope_id(self) -> str:
        """The scope's name."""
        return self.definition.scope_id

    @property
    def rule(self) -> Rule:
        """The rule that decides, fixed when the scope was created."""
        return self.definition.rule

    @property
    def testing(self) -> bool:
        """True in a ledger for tests, which alone may hold releases made with seeded noise."""
        return self.ledger.testing

    def reserve(
        self,
        claims: Claims,
        *,
        request: Mapping[str, object],
        key: str | None = None,
        at_utc: str | None = None,
        resume: bool = False,
    ) -> Reservation | Stored:
        """Charge before any data is opened, or raise and change nothing.

        With a `key` the answer is remembered: the same key with the same request returns it as `Stored` for nothing.
        `at_utc` is the time of the plan's first reservation, if there is a plan. `resume=True` declares an unfinished
        attempt with this key dead; the new attempt pays again, because a second draw is a second draw.

        Guarantee: everything ever released under the scope satisfies its budget (accounting proof page, T5-T8).

        Raises:
            BudgetError: it does not fit; has `requested`, `remaining`, `difference`.
            InProgressError: the same key is reserved and has no outcome yet.
        """
        return self.ledger.reserve(
            {self.scope_id: claims}, scope_id=self.scope_id, request=request, key=key, at_utc=at_utc, resume=resume
        )

    def record_external(self, claims: Claims, *, note: str) -> str:
        """Book what another tool spent on the same data; return the new head. It must fit, as everything else."""
        return self.ledger.record_external({self.scope_id: claims}, note=note)

    def reap(self, *, key: str | None = None) -> list[str]:
        """Declare unfinished attempts dead (one key's, or all of this scope); return their entry ids.

        Their charges stay. A process that was alive after all has its late outcome discarded.
        """
        return self.ledger.reap(scope_id=self.scope_id, key=key)

    def close(self) -> str:
        """Close the scope for good: it grants nothing more. Return the new head."""
        return self.ledger.close_scope(self.scope_id)

    def books(self) -> Books:
        """Return the running totals, by part if the scope is partitioned."""
        with self.ledger.store.read() as transaction:
            return _read_books(transaction, self.scope_id)

    def totals(self) -> Totals:
        """Return the totals that the rule judges."""
        return self.books().totals()

    def remaining(self, *, delta: Amount | None = None) -> Remaining:
        """Return the largest request of each kind that would be granted now, by this scope and all its ancestors."""
        chain = self.ledger.ancestry(self.scope_id)
        with self.ledger.store.read() as transaction:
            books = [_read_books(transaction, definition.scope_id) for definition in chain]
        return remaining_along(list(zip(chain, books, strict=True)), delta=delta)

    def spent(self) -> Spent:
        """Return what has been charged, per route: bookkeeping, not a guarantee."""
        return find_spent(self.rule, self.totals())

    def statement(self) -> str:
        """Return the sentence that may be published about everything released under this scope."""
        return self.rule.statement()

    def entries(self) -> list[Entry]:
        """Return every entry that charged this scope, in order."""
        return self.ledger.entries(scope_id=self.scope_id)

    def __repr__(self) -> str:
        return f"Scope({self.scope_id!r}, budget={self.definition.budget}, ledger={self.ledger.place.shown!r})"


def _read_books(transaction: Transaction, scope_id: str) -> Books:
    row = transaction.row("SELECT totals FROM scope WHERE scope_id = :scope_id", scope_id=scope_id)
    if row is None:
        raise LedgerError(f"the scope {scope_id!r} is gone from its ledger; run `sidelight ledger verify`")
    return books_from_json(read(str(row[0])))
