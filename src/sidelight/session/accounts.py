"""Accounts that pay for a release: of a process, of one release, and of a database in a ledger.

Without a ledger accounts live as long as the process. `InProcessAccount` holds a budget by the same rule as a ledger's
scope. `OneOffAccount` is the account of `query.release(data)`: one reservation, whose guarantee is that query's own
claims, so it has no filter and no shares.

`DatabaseAccount` refuses a path to the persons of a database that changed after something was released. The unit of a
database names no column, so every request on a view records, for every table, how its person is found, or that it is
public, and the window. Tables may be added; a table whose path changed (payees instead of payers) is refused: what was
released before promises nothing to the new people. So is another window, or one where there was none: rows that were
asked about would lie in a period with an empty account.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Lock, RLock
from typing import Any, Protocol, Self, Unpack

from sidelight.accounting import (
    Remaining,
    Rule,
    Spent,
    Totals,
    advice_on_routes,
    find_remaining,
    find_shortfall,
    find_spent,
    granted_with_routes,
    what_would_fit,
)
from sidelight.errors import BudgetError, LedgerError, RangeError, ScopeError
from sidelight.guarantees import Amount, Claim, Claims, Numerics, Unit, worst_numerics
from sidelight.ledger import Ledger, LedgerEntry, Reservation, Scope, Stored
from sidelight.ledger.scope import ChargeOptions
from sidelight.records.linked_tables import LinkedTables
from sidelight.release import Release
from sidelight.session.persons_and_periods import PeriodAccounts, PeriodCharge, recorded_window


def budget_for(budget: Claim, unit: Unit) -> Claim:
    """Return the budget for a unit: a budget is meant for whatever the schema protects."""
    if not isinstance(budget, Claim):
        raise RangeError(
            "budget must say what kind it is, such as sl.PureDP(1) or sl.ApproxDP(1, '1e-6'), got "
            f"{type(budget).__name__}"
        )
    return budget.under(unit=unit)


def check_real(ledger: Ledger) -> None:
    """Refuse a ledger for tests."""
    if ledger.testing:
        raise LedgerError("this ledger is for tests and holds seeded noise; open another for real data")


@dataclass(frozen=True)
class UnrecordedReservation:
    """A charge that only this process knows of: there is nothing to record."""

    entry_id: str | None = None

    def release(self, text: str) -> None:
        del text

    def refuse(self, text: str) -> None:
        del text

    def fail(self) -> None:
        """Do nothing: the charge stands."""


class ChargeAccount(Protocol):
    """Decides whether a request fits, and writes the charge before any data is opened."""

    def reserve(
        self, claims: Claims, *, request: Mapping[str, Any], **options: Unpack[ChargeOptions]
    ) -> Reservation | UnrecordedReservation | Stored:
        """Charge, or raise `BudgetError` and change nothing, or return what the same key bought before."""


class InProcessAccount:
    """A budget without a ledger: the same rule as a scope of a ledger, forgotten when the process ends."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._totals = Totals.zero()
        self._numerics: Numerics = "exact"
        self.seeded = False  # of a session for tests, whose noise is no secret
        self._lock = Lock()
        self.totals: Release | None = None  # what first published exact totals under this budget
        self.one_at_a_time = RLock()  # held while exact totals are computed and published
        self._process = os.getpid()

    def reserve(
        self, claims: Claims, *, key: str | None = None, delta: Amount | None = None, **_unused: object
    ) -> UnrecordedReservation:
        """Charge, or raise `BudgetError` and change nothing."""
        if key is not None:
            raise LedgerError("a key names an entry of a ledger, and this session has none; pass ledger=... to Session")
        if os.getpid() != self._process:
            raise LedgerError(
                "this budget belongs to the process that opened it: after a fork both would spend all of it; pass "
                "ledger=... to Session, which many processes can share"
            )
        options = self.rule.charges(claims, delta=delta)
        with self._lock:
            charge = self.rule.choose(self._totals, options)
            if not self.rule.grants(self._totals, charge):
                short = find_shortfall(self.rule, self._totals, charge)
                refusal = BudgetError(
                    f"the budget does not allow this: requested {short.requested}, remaining {short.remaining}, "
                    f"difference {short.difference}; nothing was spent. {what_would_fit(self.rule, self._totals)}",
                    requested=short.requested,
                    remaining=short.remaining,
                    difference=short.difference,
                )
                known = granted_with_routes(self.rule, self._totals, claims)
                raise refusal.with_advice(advice_on_routes()) if known else refusal
            self._totals = self._totals.plus(charge)
            self._numerics = worst_numerics(self._numerics, claims.numerics)
        return UnrecordedReservation()

    def remaining(self) -> Remaining:
        """Return the largest requests that would be granted now."""
        return find_remaining(self.rule, self._totals)

    def spent(self) -> Spent:
        """Return the totals per route: bookkeeping, not a guarantee."""
        return find_spent(self.rule, self._totals, numerics=self._numerics)

    def statement(self) -> str:
        """Return the sentence that may be published about everything released under this budget so far."""
        return self.rule.statement(numerics=self._numerics, seeded=self.seeded)

    def __reduce__(self) -> Any:
        raise TypeError("a budget cannot be copied or pickled: two copies would each spend it; pass the session itself")


class OneOffAccount:
    """The account of `query.release(data)`: grants once, whatever the price, and never again."""

    def __init__(self) -> None:
        self._used = False

    def reserve(self, claims: Claims, **_unused: object) -> UnrecordedReservation:
        """Grant the first request."""
        del claims
        if self._used:
            raise LedgerError("a one-off account grants a single release; open a Session for more")
        self._used = True
        return UnrecordedReservation()


#: How many entries of a ledger are read at once.
PAGE = 100


class DatabaseAccount:
    """The scope of a database, which grants nothing while a path differs from that of an earlier request.

    Another session may release between two requests of this one, so the entries that are new are looked at before each
    charge, and once more after it, up to its own entry: of two requests at the same time the second is refused before
    a row is read, and its charge stands.

    Raises:
        ScopeError: a path changed.
    """

    def __init__(self, scope: Scope, tables: LinkedTables) -> None:
        self._scope, self._paths, self._window = scope, tables.paths(), tables.window_text()
        self._periods: PeriodAccounts | None = None
        self._seen: str | None = None
        self._check_window()
        for entry in scope.entries():
            self._check(entry)

    def beside(self, periods: PeriodAccounts | None) -> Self:
        """Charge the accounts of periods, too."""
        self._periods = periods
        return self

    def reserve(self, claims: Claims, *, request: Mapping[str, Any], **how: Any) -> Reservation | Stored:
        """Charge as the scope does, if all paths are as before."""
        return self.reserve_with(None, claims, request=request, **how)

    def reserve_with(
        self, period: PeriodCharge | None, claims: Claims, *, request: Mapping[str, Any], **how: Any
    ) -> Reservation | Stored:
        """Charge the whole life and the periods in one transaction, all or none, if all paths are as before."""
        if period is not None and self._periods is None:
            raise LedgerError("a release is charged to periods, and this account has none. Nothing was charged")
        beside = {} if period is None or self._periods is None else self._periods.charges(period)
        self._check_new()
        reservation = self._scope.reserve(claims, beside=beside, request=request, **how)
        if isinstance(reservation, Reservation):
            try:
                reservation.look(partial(self._check_new, before=reservation.entry_id))
            except ScopeError:
                reservation.fail()
                raise
        return reservation

    def _check_window(self) -> None:
        """Refuse to release without a window where the periods of one have accounts, which would not be charged."""
        found = recorded_window(self._scope) if self._window is None else None
        if found is not None:
            raise ScopeError(
                f"scope {self._scope.scope_id!r} was opened with the window {found!r}, and now there is none: what is "
                "promised of a period would be broken. A window never changes; declare it as before"
            )

    def _check_new(self, *, before: str | None = None) -> None:
        self._check_window()
        while page := self._scope.page(limit=PAGE, after=self._seen):
            for entry in page:
                if entry.entry_id == before:
                    return
                self._check(entry)
                self._seen = entry.entry_id

    def _check(self, entry: LedgerEntry) -> None:
        for view in _recorded(entry.request):
            earlier = view["paths"]
            if view.get("window") != self._window:
                raise ScopeError(
                    f"something was released under scope {self._scope.scope_id!r} with the window "
                    f"{view.get('window')!r}, and now it is {self._window!r}: rows that were asked about would lie in "
                    "a period with an empty account. A window never changes; declare it as before"
                )
            for name, path in self._paths.items():
                if name in earlier and earlier[name] != path:
                    raise ScopeError(
                        f"the person of table {name!r} was found by {earlier[name]!r} when something was released "
                        f"under scope {self._scope.scope_id!r}, and now by {path!r}: what was promised then says "
                        "nothing about these people; declare the table as before, or open a scope for other people"
                    )


def _recorded(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    view = request.get("view")
    if isinstance(view, Mapping) and isinstance(view.get("paths"), Mapping):
        yield view
    for each in request.get("queries", ()):
        if isinstance(each, Mapping):
            yield from _recorded(each)
