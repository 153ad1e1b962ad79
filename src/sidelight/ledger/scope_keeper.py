"""All scopes of a ledger: opened, charged together and read, each by what was fixed when it was made."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sidelight.accounting import advice_on_routes, granted_with_routes, what_would_fit
from sidelight.errors import BudgetError, ClaimError, LedgerError, LedgerUnavailableError, ScopeError
from sidelight.guarantees import Amount, Claim, Claims, Neighbours, Unit
from sidelight.ledger import decide
from sidelight.ledger.balances import by_scope, check_one_amount, declared_claims, read_balances
from sidelight.ledger.chain import Identity, checked_request, checked_time, now_utc
from sidelight.ledger.decide import Stored
from sidelight.ledger.definition import (
    BUDGETS_ADD_UP,
    ScopeDefinition,
    Share,
    Sharing,
    define_scope,
    definition_from_row,
    spread,
)
from sidelight.ledger.entries import LedgerEntry, list_entries, list_finished, list_unfinished
from sidelight.ledger.exchange import book_external
from sidelight.ledger.journal import DEFINITION_COLUMNS
from sidelight.ledger.names import UNNAMED, checked_key, checked_name
from sidelight.ledger.reservation import Reservation, Unique
from sidelight.ledger.scope import Scope

if TYPE_CHECKING:
    from sidelight.ledger.schema import Transaction
    from sidelight.ledger.store import Store

Result = TypeVar("Result")


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
        sharing: Sharing | None = None,
    ) -> Scope:
        """Return the scope with this name, making it if there is none; if there is one it must be the same.

        Budget, unit, neighbours, rule, parent and partition are fixed for good. Unit and neighbours default to the
        budget's. What is charged to a scope is charged to its parent too.

        A parent with an (epsilon, delta) budget that names no routes counts what its children spend by the plain sum of
        epsilons and deltas, so that no child's request changes what is left to another. Name `routes` when it is opened
        and everything is composed from the start, for all children alike.

        `sharing` is for a scope whose budget several analysts share. All below it then have budgets of the same kind on
        one route, and a request is charged the same amount everywhere. With "reserved" the budgets directly below a
        scope are at most its own, so that what a scope grants is never refused because of others; with "first come"
        their sum may be larger. Scopes below inherit it.

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
            sharing=sharing,
        )
        found = self._decide(lambda transaction: decide.find_or_make_scope(transaction, wanted, key=self._key))
        usual = routes is None and shares is None and not found.differences(wanted.usual_before())
        different = [] if usual else found.differences(wanted)
        if different:
            raise ScopeError(
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
        sent: str | None = None,
        delta: Amount | None = None,
        confirm: Callable[[], object] = lambda: None,
    ) -> Reservation | Stored:
        """Charge one request to several scopes at once, all or none; `Scope.reserve` is the usual way to one.

        `claims` gives each data set's own claims; ancestors are charged too. If two of the scopes share an ancestor,
        state the claims for it as well. `scope_id` is the scope under which the key is remembered (the first, if left
        out). `confirm` is called when the charge is granted and no other can be, before it is written; what it
        raises takes the charge back. It may be called again if the transaction is repeated.
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
            key=f"{UNNAMED}{entry_id}" if key is None else checked_key(key),
            shares=self.shares_of(claims, delta=delta),
            request=checked_request(request),
            at_utc=now_utc() if at_utc is None else checked_time(at_utc),
            resume=resume,
            once=once,
            sent=None if sent is None else checked_name(sent, what="the digest of a query as it was sent"),
        )

        def granted(transaction: Transaction) -> Stored | None:
            found = decide.reserve(transaction, asked, self._definitions, key=self._key)
            if found is None:
                confirm()
            return found

        stored = self._decide(granted, shares=asked.shares)
        if stored is not None:
            return stored
        reservation = Reservation(self.store, entry_id=entry_id, scope_id=primary, key=self._key)
        if reservation.look(lambda: self._state_of(entry_id)) != "reserved":
            raise LedgerUnavailableError("the reservation could not be read back from the ledger; no data was opened")
        return reservation

    def _state_of(self, entry_id: str) -> str | None:
        with self.store.read() as transaction:
            row = transaction.row("SELECT state FROM entry WHERE entry_id = :entry_id", entry_id=entry_id)
        return None if row is None else str(row[0])

    def _decide(self, work: Callable[[Transaction], Result], *, shares: Sequence[Share] = ()) -> Result:
        """Run a deciding transaction. What would fit is searched for after it has ended, without locks."""
        try:
            return self.store.decide(work)
        except BudgetError as refused:
            refusal = refused
        name = str(refusal.scope_id)
        own = [share for share in shares if share.scope_id == name]
        rule = self._definition(name).rule_for(own)
        with self.store.read() as transaction:
            balances = read_balances(transaction, name)
        parts = {share.part for share in own}
        part = parts.pop() if len(parts) == 1 else None
        totals = balances.totals() if part is None else balances.totals_for(part, rule)
        refusal = refusal.with_advice(f"{what_would_fit(rule, totals)}; {BUDGETS_ADD_UP}")
        if shares and self._granted_with_routes(shares):
            refusal = refusal.with_advice(advice_on_routes())
        raise refusal

    def shares_of(self, claims: Mapping[str, Claims], *, delta: Amount | None = None) -> tuple[Share, ...]:
        """Return the share of every scope touched, before any lock; in a shared tree all are the same amount."""
        for own in claims.values():
            if not isinstance(own, Claims):
                raise ClaimError(f"a charge is made of Claims, got {type(own).__name__}; write Claims.of(PureDP(1))")
        definitions = self._definitions_of(claims)
        stated = {name: declared_claims(own, definitions[name], delta=delta) for name, own in claims.items()}
        shares = spread(stated, definitions, delta=delta)
        check_one_amount(shares, (definitions[share.scope_id] for share in shares))
        return shares

    def _granted_with_routes(self, shares: Sequence[Share]) -> bool:
        """Return whether every scope that is charged would grant it, had its routes been named."""
        grouped = by_scope(shares)
        if not all(self._definitions[name].rule.sum_first for name in grouped):
            return False
        with self.store.read() as transaction:
            totals = {name: read_balances(transaction, name).totals() for name in grouped}
        return all(
            granted_with_routes(self._definitions[name].rule, totals[name], *(share.claims for share in own))
            for name, own in grouped.items()
        )

    def record_external(self, claims: Mapping[str, Claims], *, note: str) -> str:
        """Book what another tool spent; return the new head. Raises `BudgetError` if it does not fit."""
        checked_name(note, what="the note of an external charge")
        shares = self.shares_of(claims, delta=None)
        mark = uuid.uuid4().hex
        return self.store.decide(
            lambda transaction: book_external(
                transaction, shares, self._definitions, mark=mark, note=note, first=next(iter(claims)), key=self._key
            )
        )

    def reap(
        self,
        *,
        scope_id: str | Collection[str] | None = None,
        key: str | None = None,
        before: str | None = None,
        reason: Literal["reaped", "failed"] = "reaped",
    ) -> list[str]:
        """Mark unfinished attempts as abandoned; return their entry ids. The charges stay.

        Args:
            scope_id: Those that are remembered in one scope, or in several; all if left out.
            key: Those of one key.
            before: Those reserved before this time, written as entries have it.
            reason: The recorded reason: "failed" does not show whether the run ended or was abandoned.
        """
        with self.store.read() as transaction:
            rows = transaction.rows(
                "SELECT entry.entry_id, entry.scope_id, entry.idem_key, event.at_utc FROM entry"
                " JOIN event ON event.seq = entry.reserve_seq WHERE entry.state = 'reserved' ORDER BY entry.reserve_seq"
            )
        limit = None if before is None else checked_time(before)
        scopes = [scope_id] if isinstance(scope_id, str) else scope_id
        chosen = [
            (entry_id, scope)
            for entry_id, scope, name, at_utc in rows
            if (scopes is None or scope in scopes) and key in (None, name) and (limit is None or at_utc < limit)
        ]
        return [entry_id for entry_id, scope in chosen if self._mark_abandoned(entry_id, scope, reason)]

    def _mark_abandoned(self, entry_id: str, scope_id: str, reason: str) -> bool:
        return self.store.decide(
            lambda transaction: decide.mark_abandoned(transaction, entry_id, scope_id, reason=reason, key=self._key)
        )

    def close_scope(self, scope_id: str) -> str:
        """Close a scope permanently and return the new head."""
        self._definition(scope_id)
        return self.store.decide(lambda transaction: decide.close_scope(transaction, scope_id, key=self._key))

    def entries(self, *, scope_id: str | None = None) -> list[LedgerEntry]:
        """Return all entries in order, or those that charged one scope (with its share of the charge)."""
        with self.store.read() as transaction:
            return list_entries(transaction, scope_id=scope_id)

    def unfinished(self) -> list[LedgerEntry]:
        """Return the entries without an outcome, by index, in order."""
        with self.store.read() as transaction:
            return list_unfinished(transaction)

    def states(self) -> dict[str, dict[str, int]]:
        """Return how many entries each scope remembers, by their state; no event is read."""
        found: dict[str, dict[str, int]] = {}
        with self.store.read() as transaction:
            rows = transaction.rows("SELECT scope_id, state, COUNT(*) FROM entry GROUP BY scope_id, state")
        for scope_id, state, number in sorted(rows):
            found.setdefault(scope_id, {})[state] = int(number)
        return found

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
                raise ScopeError(
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
