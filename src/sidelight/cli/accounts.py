"""The state of a budget in words that may be said: the promise, the bookkeeping, and what may still be asked."""

from __future__ import annotations

from sidelight.accounting import Remaining, Spent
from sidelight.accounting.remaining import RouteSpent
from sidelight.guarantees import short_text
from sidelight.report import Account, Use


def account_of(
    *, statement: str, spent: Spent, remaining: Remaining, place: str | None, scope: str, head: str | None
) -> Account:
    """Put statement, totals and what is left together for a report."""
    uses = [
        Use(
            route=name if route.open else f"{name}, closed",
            fraction=min(route.fraction, 1.0),
            text=f"{short_text(route.total)} of {short_text(route.capacity)} ({100 * route.fraction:.1f} %)",
        )
        for name, route in routes_of(spent)
    ]
    return Account(
        statement=statement,
        uses=tuple(uses),
        remaining=str(remaining).removeprefix("left: "),
        surely=None if spent.surely is None else str(spent.surely),
        place=place,
        scope=scope if place else None,
        head=head,
    )


def routes_of(spent: Spent) -> list[tuple[str, RouteSpent]]:
    """Name the ways of adding up that this budget has."""
    named = (
        ("Sum of ε", spent.basic),
        ("Sum of μ² (Gaussian)", spent.gdp),
        ("Sum of ρ (zCDP)", spent.zcdp),
        ("Pool of δ", spent.pool),
    )
    return [(name, route) for name, route in named if route is not None]
