"""Who pays for the days.

Without an assumption about people every day charges one scope in full: a person may be in every day. If it is declared
that nobody has data in more than k days, the scope is partitioned by day: each day is a part of its own, charged k
times its price, and the dearest part counts (sequences proof page, Theorem 2). Nobody can check the declaration
from here.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sidelight.accounting import ROUTES, Route, Rule, Totals, dearest_path, find_shortfall
from sidelight.errors import BudgetError
from sidelight.guarantees import Amount, ApproxDP, Claim, Claims, Neighbours, Unit
from sidelight.ledger import Ledger, Reservation, Scope, Stored


@dataclass(frozen=True)
class DayAccount:
    """The account of one day: charges its scope with the price of `times` such days."""

    scope: Scope
    times: int

    def reserve(
        self,
        claims: Claims,
        *,
        request: Mapping[str, Any],
        key: str | None = None,
        resume: bool = False,
        once: bool = False,
        at_utc: str | None = None,
        delta: Amount | None = None,
    ) -> Reservation | Stored:
        """Charge, or raise `BudgetError` and change nothing, or give back what the same key bought before."""
        price = for_days(claims, self.times)
        return self.scope.reserve(price, request=request, key=key, resume=resume, once=once, at_utc=at_utc, delta=delta)


def for_days(claims: Claims, times: int) -> Claims:
    """Return the claims of a person who meets the same mechanism on so many days: composition.

    >>> from sidelight.guarantees import PureDP
    >>> print(for_days(Claims.of(PureDP("0.1")), 3).pure())
    PureDP(ε = 0.3)
    """
    return claims if times == 1 else dearest_path([[claims] * times])


def routes_of_days(budget: Claim, routes: Sequence[Route] | None) -> tuple[Route, ...] | None:
    """Return the routes of a sequence: many small prices are its very purpose, so all stand side by side at once.

    >>> from sidelight.guarantees import ApproxDP, PureDP
    >>> routes_of_days(ApproxDP(3, "1e-6"), None), routes_of_days(PureDP(1), None)
    (('basic', 'gdp', 'zcdp'), None)
    """
    if routes is None:
        return ROUTES if isinstance(budget, ApproxDP) else None
    return tuple(routes)


def check_price(price: Claims, *, budget: Claim, routes: Sequence[Route] | None) -> None:
    """Refuse a sequence whose single day does not fit its budget, before anything is written."""
    rule = Rule.for_budget(budget, routes=routes)
    charge = rule.charge(price)
    if not rule.grants(Totals.zero(), charge):
        requested, remaining, difference = find_shortfall(rule, Totals.zero(), charge)
        raise BudgetError(
            f"not even one day fits the budget: a day is charged {requested}, the budget allows {remaining}, "
            f"difference {difference}; lower epsilon or raise the budget. Nothing was written",
            requested=requested,
            remaining=remaining,
            difference=difference,
        )


def open_accounts(
    ledger: Ledger,
    scope: str,
    *,
    budget: Claim,
    unit: Unit,
    days_per_person: int | None,
    routes: Sequence[Route] | None,
) -> Scope:
    """Open the scope of the whole sequence."""
    rule = None if days_per_person is None else _partition(days_per_person, unit)
    return ledger.open_scope(
        scope, budget=budget, unit=unit, neighbours=Neighbours.ADD_REMOVE, routes=routes, partitioned_by=rule
    )


def account_of_day(
    whole: Scope, day: datetime.date, *, days_per_person: int | None, routes: Sequence[Route] | None
) -> DayAccount:
    """Return the account that a day charges, making its part of a partitioned scope."""
    if days_per_person is None:
        return DayAccount(whole, 1)
    part = whole.ledger.open_scope(
        f"{whole.scope_id}/{day.isoformat()}",
        budget=whole.definition.budget,
        unit=whole.definition.unit,
        neighbours=Neighbours.ADD_REMOVE,
        routes=routes,
        parent=whole.scope_id,
    )
    return DayAccount(part, days_per_person)


def _partition(days: int, unit: Unit) -> str:
    once = "one day" if days == 1 else f"{days} days"
    return f"day; declared: one {unit} has data in at most {once}; each day is charged {days} times its price"
