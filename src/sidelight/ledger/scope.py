"""The object by which a ledger is spent from: a scope, one data set's account.

Nothing here decides; `decide` does, inside one transaction of `store`. A granted request gets a `Reservation`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict, Unpack

from sidelight.accounting import Charge, Remaining, Rule, Spent, Totals, find_spent
from sidelight.errors import LedgerError
from sidelight.guarantees import Amount, Claims, Numerics
from sidelight.ledger.balances import Balances, read_balances, read_below, remaining_along, shares_fit
from sidelight.ledger.chain import checked_time
from sidelight.ledger.decide import Stored
from sidelight.ledger.definition import ScopeDefinition, Share
from sidelight.ledger.entries import (
    LedgerEntry,
    charged_claims,
    charged_numerics,
    count_failures,
    find_entry,
    find_entry_by_id,
    list_page,
)
from sidelight.ledger.reservation import Reservation, Unique

if TYPE_CHECKING:
    from sidelight.ledger.place import Place
    from sidelight.ledger.store import Store


class KeyOptions(TypedDict, total=False):
    """How an attempt is remembered; `Scope.reserve` explains each."""

    key: str | None
    at_utc: str | None
    resume: bool
    once: bool


class ChargeOptions(KeyOptions, total=False):
    """Optional parameters of a charge."""

    delta: Amount | None


class ReserveOptions(ChargeOptions, total=False):
    """What a charge to a scope may say, which recognises a request by the text that was sent, too."""

    sent: str | None


class KeepsScopes(Protocol):
    """The operations of a ledger that scopes use."""

    store: Store
    place: Place
    testing: bool

    def reserve(
        self,
        claims: Mapping[str, Claims],
        *,
        scope_id: str | None = None,
        request: Mapping[str, object],
        **options: Unpack[ReserveOptions],
    ) -> Reservation | Stored:
        """Charge one request to several scopes at once."""

    def shares_of(self, claims: Mapping[str, Claims], *, delta: Amount | None = None) -> tuple[Share, ...]:
        """Return what every scope touched would be charged."""

    def record_external(self, claims: Mapping[str, Claims], *, note: str) -> str:
        """Book what another tool spent."""

    def reap(
        self,
        *,
        scope_id: str | Collection[str] | None = None,
        key: str | None = None,
        before: str | None = None,
        reason: Literal["reaped", "failed"] = "reaped",
    ) -> list[str]:
        """Mark unfinished attempts as abandoned."""

    def close_scope(self, scope_id: str) -> str:
        """Close a scope permanently."""

    def entries(self, *, scope_id: str | None = None) -> list[LedgerEntry]:
        """Return entries in order."""

    def finished(self, *, scope_id: str | None = None, after: str | None = None) -> list[LedgerEntry]:
        """Return entries with an outcome, in the order of their outcomes."""

    def ancestry(self, scope_id: str) -> list[ScopeDefinition]:
        """Return the definitions of a scope and its ancestors."""

    @property
    def open_scope(self) -> Callable[..., Scope]:
        """What returns the scope with a name, making it if there is none."""


class Scope(Unique):
    """Charges requests against one budget. Made by `Ledger.open_scope`."""

    def __init__(self, ledger: KeepsScopes, definition: ScopeDefinition) -> None:
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
        beside: Mapping[str, Claims] | None = None,
        **options: Unpack[ReserveOptions],
    ) -> Reservation | Stored:
        """Charge before any data is opened, or raise and change nothing.

        `beside` has the claims for other scopes that are charged in the same transaction, all or none.

        With a `key` the answer is remembered: the same key with the same request returns it as `Stored` for nothing.
        `at_utc` is the time of the plan's first reservation, if there is a plan. `delta` is the one that the price was
        declared at, where the claims are a mu: so the sum of what was declared is counted.

        An attempt that failed or was abandoned bought nothing, and the same key may be asked again: **the new attempt
        pays again**, because it is a second draw. `resume=True` marks an unfinished attempt with this key as abandoned
        first. `once=True` limits a key to one attempt: a failed or abandoned one is
        returned as `Stored`, too, and nothing is ever charged twice under the key. The request is then recognised by
        itself, whatever other scopes are charged with it, or by the digest of the text that was `sent` for it.

        Guarantee: everything ever released under the scope satisfies its budget (accounting proof page, T5-T12).

        Raises:
            BudgetError: it does not fit; has `requested`, `remaining`, `difference`.
            InProgressError: the same key is reserved and has no outcome yet.
        """
        if beside and self.scope_id in beside:
            raise LedgerError(f"beside names {self.scope_id!r} itself, which the claims are for; leave it out there")
        shares = {self.scope_id: claims, **(beside or {})}
        return self.ledger.reserve(shares, scope_id=self.scope_id, request=request, **options)

    def price(self, claims: Claims, *, delta: Amount | None = None) -> Charge:
        """Return what this scope would be charged for a request, whether it fits or not; nothing is charged.

        Raises:
            ClaimError: its budget cannot count the claims, or in a shared tree not alike everywhere.
        """
        shares = self.ledger.shares_of({self.scope_id: claims}, delta=delta)
        return next(share.charge for share in shares if share.scope_id == self.scope_id)

    def record_external(self, claims: Claims, *, note: str) -> str:
        """Book what another tool spent on the same data; return the new head. It must fit, as everything else."""
        return self.ledger.record_external({self.scope_id: claims}, note=note)

    def reap(
        self, *, key: str | None = None, before: str | None = None, reason: Literal["reaped", "failed"] = "reaped"
    ) -> list[str]:
        """Mark unfinished attempts of this scope as abandoned; return their entry ids. See `Ledger.reap`.

        Their charges stay. If such a process is still alive, its late outcome is discarded.
        """
        return self.ledger.reap(scope_id=self.scope_id, key=key, before=before, reason=reason)

    def close(self) -> str:
        """Close the scope permanently and return the new head."""
        return self.ledger.close_scope(self.scope_id)

    def balances(self) -> Balances:
        """Return the running totals, by part if the scope is partitioned."""
        with self.ledger.store.read() as transaction:
            return read_balances(transaction, self.scope_id)

    def totals(self) -> Totals:
        """Return the totals that the rule judges."""
        return self.balances().totals()

    def remaining(self, *, delta: Amount | None = None) -> Remaining:
        """Return the largest request of each kind that would be granted now, by this scope and all its ancestors."""
        chain = self.ledger.ancestry(self.scope_id)
        with self.ledger.store.read() as transaction:
            balances = [read_balances(transaction, definition.scope_id) for definition in chain]
        return remaining_along(list(zip(chain, balances, strict=True)), delta=delta)

    def keeps_shares(self) -> bool:
        """Return whether the shares that are reserved below this scope are still there.

        What is charged to this scope directly takes from them: it breaks no promise to the people in the data, but the
        scopes below may be refused what they would grant.
        """
        with self.ledger.store.read() as transaction:
            own = self.definition, read_balances(transaction, self.scope_id)
            return shares_fit(own, read_below(transaction, self.scope_id))

    def spent(self) -> Spent:
        """Return what has been charged, per route: bookkeeping, not a guarantee."""
        return find_spent(self.rule, self.totals(), numerics=self.numerics())

    def statement(self) -> str:
        """Return the sentence that may be published about everything released under this scope so far."""
        return self.rule.statement(numerics=self.numerics(), seeded=self.ledger.testing)

    def numerics(self, *, part: str | None = None) -> Numerics:
        """Return "idealized" if any charge so far was, of the scope or of one of its parts; otherwise "exact"."""
        with self.ledger.store.read() as transaction:
            return charged_numerics(transaction, self.scope_id, part=part)

    def charged(self) -> list[Claims]:
        """Return the claims of everything that was ever charged to this scope, in order."""
        with self.ledger.store.read() as transaction:
            return charged_claims(transaction, self.scope_id)

    def entries(self) -> list[LedgerEntry]:
        """Return every entry that charged this scope, in order."""
        return self.ledger.entries(scope_id=self.scope_id)

    def entry_of(self, key: str) -> LedgerEntry | None:
        """Return the entry that this scope remembers under a key, its newest attempt; None if there is none."""
        with self.ledger.store.read() as transaction:
            return find_entry(transaction, self.scope_id, key)

    def entry(self, entry_id: str) -> LedgerEntry | None:
        """Return an entry whose key this scope remembers, by its `entry_id`; None if there is none."""
        with self.ledger.store.read() as transaction:
            return find_entry_by_id(transaction, self.scope_id, entry_id)

    def failures(self, *, since: str) -> int:
        """Return how many entries failed, not abandoned, that were reserved at or after a time, as entries have it."""
        with self.ledger.store.read() as transaction:
            return count_failures(transaction, self.scope_id, since=checked_time(since))

    def below(self) -> list[tuple[ScopeDefinition, Balances]]:
        """Return the definitions and running totals of the scopes directly below this one."""
        with self.ledger.store.read() as transaction:
            return read_below(transaction, self.scope_id)

    def page(self, *, limit: int = 100, after: str | None = None) -> list[LedgerEntry]:
        """Return some of the entries whose keys this scope remembers, oldest first; the others are not read.

        Args:
            limit: The most that are returned.
            after: The `entry_id` of the last entry of the page before.
        """
        with self.ledger.store.read() as transaction:
            return list_page(transaction, self.scope_id, limit=limit, after=after)

    def opened_after_charges(self, *, since: int) -> bool:
        """Return whether anything was charged, to whatever scope, after event `since` and before this scope existed."""
        with self.ledger.store.read() as transaction:
            found = transaction.row(
                "SELECT seq FROM event WHERE kind IN ('reserve', 'import') AND seq > :since AND seq <"
                " (SELECT MIN(seq) FROM event WHERE kind = 'scope' AND scope_id = :scope_id) LIMIT 1",
                since=since,
                scope_id=self.scope_id,
            )
        return found is not None

    def __repr__(self) -> str:
        return f"Scope({self.scope_id!r}, budget={self.definition.budget}, ledger={self.ledger.place.shown!r})"
