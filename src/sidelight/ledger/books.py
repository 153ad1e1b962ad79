"""The running totals of one scope: its own charges and, if it is partitioned, those of each part in its own units.

The total of a partitioned scope is its own charges plus the dearest part, for each quantity by itself; a route that any
part closed is closed (accounting proof page, section 2.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sidelight.accounting import Charge, Route, Rule, Totals
from sidelight.errors import LedgerError
from sidelight.ledger.shares import Share


@dataclass(frozen=True)
class Books:
    """Totals that only grow. `shut` is set when the owner closes the scope for good."""

    own: Totals = field(default_factory=Totals.zero)
    parts: Mapping[str, Totals] = field(default_factory=dict)
    shut: bool = False

    def plus(self, shares: Iterable[Share]) -> Books:
        """Return the books with these shares of one scope added."""
        own, parts = self.own, dict(self.parts)
        for share in shares:
            if share.part is None:
                own = own.plus(share.charge)
            else:
                parts[share.part] = parts.get(share.part, Totals.zero()).plus(share.charge)
        return replace(self, own=own, parts=parts)

    def totals(self) -> Totals:
        """Return what the rule judges: own charges plus the dearest part."""
        return self.own.plus_totals(Totals.largest(self.parts.values()))

    def totals_for(self, part: str, rule: Rule) -> Totals:
        """Return the totals that stand in the way of one part: own charges plus that part's.

        A route that the other parts have exhausted is closed to this one: it may not use it to be granted.
        """
        others = Totals.largest(totals for name, totals in self.parts.items() if name != part)
        beside = self.own.plus_totals(others)
        mine = self.own.plus_totals(self.parts.get(part, Totals.zero()))
        exhausted = {route for route, capacity in rule.capacities if beside.of(route) > capacity}
        return replace(mine, closed=mine.closed | beside.closed | exhausted)

    def increase(self, shares: Iterable[Share]) -> Charge:
        """Return by how much these shares raise the totals: the price that a refusal shows."""
        before, after = self.totals(), self.plus(shares).totals()

        def rise(route: Route) -> int | None:
            return None if route in after.closed else after.of(route) - before.of(route)

        return Charge(
            epsilon=rise("basic"),
            rho=rise("zcdp"),
            mu_squared=rise("gdp"),
            delta_items=after.delta_items - before.delta_items,
        )

    def fits(self, rule: Rule, shares: Iterable[Share]) -> bool:
        """Return whether the rule still holds after these shares."""
        return not self.shut and rule.holds(self.plus(shares).totals())

    def closed(self) -> Books:
        """Return the books of a scope that grants nothing more."""
        return replace(self, shut=True)

    def to_json(self) -> dict[str, Any]:
        """Return the totals as the table stores them."""
        result: dict[str, Any] = dict(self.own.to_json())
        if self.parts:
            result["parts"] = [{"scope_id": name, "totals": self.parts[name].to_json()} for name in sorted(self.parts)]
        if self.shut:
            result["shut"] = "1"
        return result


def books_from_json(data: Any) -> Books:
    """Read what `to_json` wrote."""
    try:
        rest = dict(data)
        parts = {entry["scope_id"]: Totals.from_json(entry["totals"]) for entry in rest.pop("parts", [])}
        shut = rest.pop("shut", None) == "1"
        return Books(own=Totals.from_json(rest), parts=parts, shut=shut)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LedgerError(f"the totals of a scope cannot be read ({error}); run `sidelight ledger verify`") from error


def by_scope(shares: Iterable[Share]) -> dict[str, list[Share]]:
    """Group shares by the scope that pays them, keeping their order."""
    grouped: dict[str, list[Share]] = {}
    for share in shares:
        grouped.setdefault(share.scope_id, []).append(share)
    return grouped
