"""The objects by which a ledger is spent from: a scope (one data set's account), and all scopes of a ledger.

Nothing here decides; `decide` does, inside one transaction of `store`. A copied accountant is a second budget:
scikit-learn's `clone` deep-copies parameters, and a grid search over a copied accountant charges nothing. So these
objects refuse copies and pickles, and `clone` gets the identical object.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sidelight.accounting import Remaining, Rule, Spent, Totals, advice_on_routes, find_spent, granted_with_routes
from sidelight.errors import BudgetError, LedgerError
from sidelight.guarantees import Amount, Claim, Claims, Neighbours, Unit
from sidelight.ledger import decide
from sidelight.ledger.balances import (
    Balances,
    LedgerEntry,
    balances_from_json,
    by_scope,
    charged_claims,
    list_entries,
    list_finished,
    remaining_along,
)
from sidelight.ledger.chain import Identity, checked_time, now_utc, plain, read
from sidelight.ledger.decide import Reservation, Stored, Unique
from sidelight.ledger.definition import (
    BUDGETS_ADD_UP,
    ScopeDefinition,
    Share,
    checked_name,
    define_scope,
    definition_from_row,
    spread,
)
from sidelight.ledger.exchange import book_external
from sidelight.ledger.journal import DEFINITION_COLUMNS

if TYPE_CHECKING:
    from sidelight.ledger.schema import Transaction
    from sidelight.ledger.store import Store


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
        once: bool = False,
        delta: Amount | None = None,
    ) -> Reservation | Stored:
        """Charge before any data is opened, or raise and change nothing.

        With a `key` the answer is remembered: the same key with the same request returns it as `Stored` for nothing.
        `at_utc` is the time of the plan's first reservation, if there is a plan. `delta` is the one that the price was
        declared at, where the claims are a mu: so the sum of what was declared is counted.

        An attempt that failed or was abandoned bought nothing, and the same key may be asked again: **the new attempt
        pays again**, because it is a second draw. `resume=True` marks an unfinished attempt with this key as abandoned
        first. `once=True` gives a key one attempt for good: a failed or abandoned one is returned as `Stored`, too, and
        nothing is ever charged twice under the key.

        Guarantee: everything ever released under the scope satisfies its budget (accounting proof page, T5-T12).

        Raises:
            BudgetError: it does not fit; has `requested`, `remaining`, `difference`.
            InProgressError: the same key is reserved and has no outcome yet.
        """
        return self.ledger.reserve(
            {self.scope_id: claims},
            scope_id=self.scope_id,
            request=request,
            key=key,
            at_utc=at_utc,
            resume=resume,
            once=once,
            delta=delta,
        )

    def record_external(self, claims: Claims, *, note: str) -> str:
        """Book what another tool spent on the same data; return the new head. It must fit, as everything else."""
        return self.ledger.record_external({self.scope_id: claims}, note=note)

    def reap(self, *, key: str | None = None) -> list[str]:
        """Mark unfinished attempts as abandoned (one key's, or all of this scope); return their entry ids.

        Their charges stay. If such a process is still alive, its late outcome is discarded.
        """
        return self.ledger.reap(scope_id=self.scope_id, key=key)

    def close(self) -> str:
        """Close the scope for good: it grants nothing more. Return the new head."""
        return self.ledger.close_scope(self.scope_id)

    def balances(self) -> Balances:
        """Return the running totals, by part if the scope is partitioned."""
        with self.ledger.store.read() as transaction:
            return _read_balances(transaction, self.scope_id)

    def totals(self) -> Totals:
        """Return the totals that the rule judges."""
        return self.balances().totals()

    def remaining(self, *, delta: Amount | None = None) -> Remaining:
        """Return the largest request of each kind that would be granted now, by this scope and all its ancestors."""
        chain = self.ledger.ancestry(self.scope_id)
        with self.ledger.store.read() as transaction:
            balances = [_read_balances(transaction, definition.scope_id) for definition in chain]
        return remaining_along(list(zip(chain, balances, strict=True)), delta=delta)

    def spent(self) -> Spent:
        """Return what has been charged, per route: bookkeeping, not a guarantee."""
        return find_spent(self.rule, self.totals())

    def statement(self) -> str:
        """Return the sentence that may be published about everything released under this scope."""
        return self.rule.statement()

    def charged(self) -> list[Claims]:
        """Return the claims of everything that was ever charged to this scope, in order."""
        with self.ledger.store.read() as transaction:
            return charged_claims(transaction, self.scope_id)

    def entries(self) -> list[LedgerEntry]:
        """Return every entry that charged this scope, in order."""
        return self.ledger.entries(scope_id=self.scope_id)

    def __repr__(self) -> str:
        return f"Scope({self.scope_id!r}, budget={self.definition.budget}, ledger={self.ledger.place.shown!r})"


class ScopeKeeper(Unique):
    """The scopes of one ledger: opens them, charges them, and keeps what never changes of them, their definitions.

    `Ledger` is the one that users hold.
    """

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
        budget's. What is charged to a scope is charged to its parent too.

        A parent with an (epsilon, delta) budget that names no routes counts what its children spend by the plain sum of
        epsilons and deltas, so that no child's request changes what is left to another. Name `routes` when it is opened
        and everything is composed from the start, for all children alike.

        `partitioned_by` describes the public rule by which every protected unit belongs to exactly one child scope.
        Rows may come and go while every charge pays for one release with noise of its own, as all releases of this
        library do. A charge for several answers of a mechanism that keeps a secret between them (an interactive one, of
        another tool) composes in parallel only if the budget is pure, or if the parts are frozen before the first
        request: a unit that is added later, to a part chosen by earlier answers, would meet a secret that already shows
        (accounting proof page, section 5).
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
        found = self.store.decide(lambda transaction: decide.find_or_make_scope(transaction, wanted, key=self._key))
        usual = routes is None and shares is None and not found.differences(wanted.usual_before())
        different = [] if usual else found.differences(wanted)
        if different:
            raise LedgerError(
                f"scope {scope_id!r} exists with another {' and '.join(different)} (budget {found.budget}, one "
                f"{found.unit}, {found.neighbours}); a scope never changes, and {BUDGETS_ADD_UP}"
            )
        self._definitions[scope_id] = found
        return Scope(self, found)

    def reserve(
        self,
        claims: Mapping[str, Claims],
        *,
        scope_id: str | None = None,
        request: Mapping[str, object],
        key: str | None = None,
        at_utc: str | None = None,
        resume: bool = False,
        once: bool = False,
        delta: Amount | None = None,
    ) -> Reservation | Stored:
        """Charge one request to several scopes at once, all or none; `Scope.reserve` is the usual way to one.

        `claims` gives each data set's own claims; ancestors are charged too. If two of the scopes share an ancestor,
        state the claims for it as well. `scope_id` is the scope under which the key is remembered (the first, if left
        out).
        """
        primary = next(iter(claims), "") if scope_id is None else scope_id
        if primary not in claims:
            raise LedgerError(f"the scope {primary!r} that remembers the key must be one of those charged")
        if once and (resume or key is None):
            raise LedgerError("once=True gives a key one attempt: name a key, and leave resume out")
        entry_id = uuid.uuid4().hex
        asked = decide.Request(
            entry_id=entry_id,
            scope_id=primary,
            key=f"auto:{entry_id}" if key is None else checked_name(key, what="a key"),
            shares=spread(claims, self._definitions_of(claims), delta=delta),
            request=_checked_request(request),
            at_utc=now_utc() if at_utc is None else checked_time(at_utc),
            resume=resume,
            once=once,
        )
        try:
            stored = self.store.decide(
                lambda transaction: decide.reserve(transaction, asked, self._definitions, key=self._key)
            )
        except BudgetError as refusal:  # the transaction has ended: nobody waits for the advice
            if self._granted_with_routes(asked.shares):
                raise refusal.with_advice(advice_on_routes()) from None
            raise
        if stored is not None:
            return stored
        with self.store.read() as transaction:
            row = transaction.row("SELECT state FROM entry WHERE entry_id = :entry_id", entry_id=entry_id)
        if row != ("reserved",):
            raise LedgerError("the reservation could not be read back from the ledger; no data was opened")
        return Reservation(self.store, entry_id=entry_id, scope_id=primary, key=self._key)

    def _granted_with_routes(self, shares: Sequence[Share]) -> bool:
        """Return whether every scope that is charged would grant it, had its routes been named."""
        with self.store.read() as transaction:
            return all(
                granted_with_routes(self._definitions[name].rule, charged_claims(transaction, name), *asked)
                for name, asked in ((name, [s.claims for s in own]) for name, own in by_scope(shares).items())
            )

    def record_external(self, claims: Mapping[str, Claims], *, note: str) -> str:
        """Book what another tool spent; return the new head. Raises `BudgetError` if it does not fit."""
        checked_name(note, what="the note of an external charge")
        shares = spread(claims, self._definitions_of(claims))
        mark = uuid.uuid4().hex
        return self.store.decide(
            lambda transaction: book_external(
                transaction, shares, self._definitions, mark=mark, note=note, first=next(iter(claims)), key=self._key
            )
        )

    def reap(self, *, scope_id: str | None = None, key: str | None = None) -> list[str]:
        """Mark unfinished attempts as abandoned; return their entry ids. The charges stay."""
        with self.store.read() as transaction:
            rows = transaction.rows(
                "SELECT entry_id, scope_id, idem_key FROM entry WHERE state = 'reserved' ORDER BY reserve_seq"
            )
        chosen = [(row[0], row[1]) for row in rows if scope_id in (None, row[1]) and key in (None, row[2])]
        return [entry_id for entry_id, scope in chosen if self._mark_abandoned(entry_id, scope)]

    def _mark_abandoned(self, entry_id: str, scope_id: str) -> bool:
        return self.store.decide(
            lambda transaction: decide.mark_abandoned(transaction, entry_id, scope_id, key=self._key)
        )

    def close_scope(self, scope_id: str) -> str:
        """Close a scope for good: it grants nothing more. Return the new head."""
        self._definition(scope_id)
        return self.store.decide(lambda transaction: decide.close_scope(transaction, scope_id, key=self._key))

    def entries(self, *, scope_id: str | None = None) -> list[LedgerEntry]:
        """Return all entries in order, or those that charged one scope (with its share of the charge)."""
        with self.store.read() as transaction:
            return list_entries(transaction, scope_id=scope_id)

    def finished(self, *, scope_id: str | None = None, after: str | None = None) -> list[LedgerEntry]:
        """Return entries with an outcome, in the order of their outcomes; with `after`, only those since that head.

        A reader that keeps the head of what it has seen pays for what is new and nothing else.
        """
        with self.store.read() as transaction:
            return list_finished(transaction, scope_id=scope_id, after=after)

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


def _read_balances(transaction: Transaction, scope_id: str) -> Balances:
    row = transaction.row("SELECT totals FROM scope WHERE scope_id = :scope_id", scope_id=scope_id)
    if row is None:
        raise LedgerError(f"the scope {scope_id!r} is gone from its ledger; run `sidelight ledger verify`")
    return balances_from_json(read(str(row[0])))


def _checked_request(request: Mapping[str, object]) -> dict[str, Any]:
    value = plain(request, where="request")
    if not isinstance(value, dict) or not value:
        raise LedgerError("a request is a non-empty mapping that says what is asked; an empty request has no price")
    return value
