"""What one event costs and what a scope has spent, per route, in whole quanta."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sidelight.accounting.quanta import quanta_from_text
from sidelight.errors import LedgerError

Route: TypeAlias = Literal["basic", "gdp", "zcdp"]
#: The total that each route compares with its capacity.
NAMES: dict[Route, Literal["epsilon", "mu_squared", "rho"]] = {"basic": "epsilon", "gdp": "mu_squared", "zcdp": "rho"}


@dataclass(frozen=True, kw_only=True)
class Charge:
    """The price of one event for every route; None where the event has no claim for it, which closes that route."""

    epsilon: int | None
    delta_items: int
    rho: int | None
    mu_squared: int | None

    def of(self, route: Route) -> int | None:
        """Return the price for one route."""
        return {"basic": self.epsilon, "gdp": self.mu_squared, "zcdp": self.rho}[route]

    def to_json(self) -> dict[str, str]:
        """Write the price in quanta, with strings only; what is not charged is left out."""
        amounts = {"epsilon": self.epsilon, "rho": self.rho, "mu_squared": self.mu_squared}
        shown = {name: str(value) for name, value in amounts.items() if value is not None}
        return shown | ({"delta_items": str(self.delta_items)} if self.delta_items else {})

    @classmethod
    def from_json(cls, data: Mapping[str, str]) -> Charge:
        """Read a price back."""
        _only(data, {"epsilon", "rho", "mu_squared", "delta_items"}, "charge")

        def read(name: str) -> int | None:
            return quanta_from_text(data[name]) if name in data else None

        return cls(
            epsilon=read("epsilon"),
            delta_items=read("delta_items") or 0,
            rho=read("rho"),
            mu_squared=read("mu_squared"),
        )

    def covers(self, other: Charge) -> bool:
        """Return whether this price is at least the other by every route: as a stored charge is to a recomputed."""
        pairs = ((self.of(route), other.of(route)) for route in NAMES)
        return self.delta_items >= other.delta_items and all(
            mine is None or (theirs is not None and mine >= theirs) for mine, theirs in pairs
        )


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What was spent. Totals never decrease, and a route that was closed stays closed."""

    epsilon: int = 0
    delta_items: int = 0
    rho: int = 0
    mu_squared: int = 0
    closed: frozenset[Route] = frozenset()

    @classmethod
    def zero(cls) -> Totals:
        """Nothing spent yet."""
        return cls()

    def of(self, route: Route) -> int:
        """Return the total of one route."""
        return {"basic": self.epsilon, "gdp": self.mu_squared, "zcdp": self.rho}[route]

    def plus(self, charge: Charge) -> Totals:
        """Add one event; routes for which it has no claim close for good."""
        missing: set[Route] = {route for route in NAMES if charge.of(route) is None}
        return Totals(
            epsilon=self.epsilon + (charge.epsilon or 0),
            delta_items=self.delta_items + charge.delta_items,
            rho=self.rho + (charge.rho or 0),
            mu_squared=self.mu_squared + (charge.mu_squared or 0),
            closed=self.closed | missing,
        )

    def plus_totals(self, other: Totals) -> Totals:
        """Add what another scope spent on the same records."""
        return Totals(
            epsilon=self.epsilon + other.epsilon,
            delta_items=self.delta_items + other.delta_items,
            rho=self.rho + other.rho,
            mu_squared=self.mu_squared + other.mu_squared,
            closed=self.closed | other.closed,
        )

    @classmethod
    def largest(cls, parts: Iterable[Totals]) -> Totals:
        """Return, for each total by itself, the largest over disjoint parts (parallel composition, add or remove)."""
        found = list(parts)
        return cls(
            epsilon=max((t.epsilon for t in found), default=0),
            delta_items=max((t.delta_items for t in found), default=0),
            rho=max((t.rho for t in found), default=0),
            mu_squared=max((t.mu_squared for t in found), default=0),
            closed=frozenset[Route]().union(*(t.closed for t in found)),
        )

    def to_json(self) -> dict[str, Any]:
        """Write the totals in quanta, with strings only."""
        return {
            "epsilon": str(self.epsilon),
            "delta_items": str(self.delta_items),
            "rho": str(self.rho),
            "mu_squared": str(self.mu_squared),
            "closed": sorted(self.closed),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Totals:
        """Read totals back."""
        _only(data, {"epsilon", "delta_items", "rho", "mu_squared", "closed"}, "totals")
        closed = set(data["closed"])
        if not closed <= set(NAMES):
            raise LedgerError(f"totals name routes that do not exist: {', '.join(sorted(map(str, closed)))}")
        return cls(
            epsilon=quanta_from_text(data["epsilon"]),
            delta_items=quanta_from_text(data["delta_items"]),
            rho=quanta_from_text(data["rho"]),
            mu_squared=quanta_from_text(data["mu_squared"]),
            closed=frozenset(closed),
        )


def _only(data: Mapping[str, Any], known: set[str], what: str) -> None:
    if not set(data) <= known:
        raise LedgerError(f"{what} holds fields that are not known: {', '.join(sorted(set(data) - known))}")
