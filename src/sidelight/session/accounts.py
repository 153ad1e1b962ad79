"""Where a charge is written when there is no ledger: accounts that live as long as the process.

`InProcessAccount` holds a budget by the same rule as a ledger's scope. `OneOffAccount` is the account of
`query.release(data)`: one reservation, whose guarantee is that query's own claims, so it has no filter and no shares.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock, RLock
from typing import Any, Protocol, Unpack

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
from sidelight.errors import BudgetError, LedgerError
from sidelight.guarantees import Amount, Claims
from sidelight.ledger import Reservation, Stored
from sidelight.ledger.reservation import ChargeOptions
from sidelight.release import Release


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
        return UnrecordedReservation()

    def remaining(self) -> Remaining:
        """Return the largest requests that would be granted now."""
        return find_remaining(self.rule, self._totals)

    def spent(self) -> Spent:
        """Return the totals per route: bookkeeping, not a guarantee."""
        return find_spent(self.rule, self._totals)

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
