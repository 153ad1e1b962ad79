"""What a scope has charged, as totals: its balances, and what it can still grant.

A partitioned scope keeps its own charges and those of each part in its own units. Its total is its own charges plus the
largest part, for each quantity by itself; a route that any part closed is closed (accounting proof page, section 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sidelight.accounting import Charge, Remaining, Route, Rule, Totals, find_remaining
from sidelight.errors import LedgerDamagedError
from sidelight.guarantees import Amount, ApproxDP, Neighbours
from sidelight.ledger.chain import read
from sidelight.ledger.definition import ScopeDefinition, Share, definition_from_row
from sidelight.ledger.journal import DEFINITION_COLUMNS

if TYPE_CHECKING:
    from sidelight.ledger.schema import Transaction

_NOTHING = Remaining(epsilon=None, exponential_epsilon=None, rho=None, mu=None)


@dataclass(frozen=True)
class Balances:
    """Totals that only grow. `shut` is set when the owner closes the scope for good."""

    own: Totals = field(default_factory=Totals.zero)
    parts: Mapping[str, Totals] = field(default_factory=dict)
    shut: bool = False

    def plus(self, shares: Iterable[Share]) -> Balances:
        """Return the balances with these shares of one scope added."""
        own, parts = self.own, dict(self.parts)
        for share in shares:
            if share.part is None:
                own = own.plus(share.charge)
            else:
                parts[share.part] = parts.get(share.part, Totals.zero()).plus(share.charge)
        return replace(self, own=own, parts=parts)

    def totals(self) -> Totals:
        """Return what the rule judges: own charges plus the largest part."""
        return self.own.plus_totals(Totals.largest(self.parts.values()))

    def totals_for(self, part: str, rule: Rule) -> Totals:
        """Return the totals that limit one part: own charges plus that part's.

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
        """Return whether the rule still holds after these shares, one after the other where their order matters."""
        if self.shut:
            return False
        if not rule.sum_first:
            return rule.holds(self.plus(shares).totals())
        balances = self
        for share in shares:
            after = balances.plus([share])
            if not rule.allows(balances.totals(), after.totals()):
                return False
            balances = after
        return True

    def closed(self) -> Balances:
        """Return the balances of a scope that grants nothing more."""
        return replace(self, shut=True)

    def to_json(self) -> dict[str, Any]:
        """Return the totals as the table stores them."""
        result: dict[str, Any] = dict(self.own.to_json())
        if self.parts:
            result["parts"] = [{"scope_id": name, "totals": self.parts[name].to_json()} for name in sorted(self.parts)]
        if self.shut:
            result["shut"] = "1"
        return result


def balances_from_json(data: Any) -> Balances:
    """Read what `to_json` wrote."""
    try:
        rest = dict(data)
        parts = {entry["scope_id"]: Totals.from_json(entry["totals"]) for entry in rest.pop("parts", [])}
        shut = rest.pop("shut", None) == "1"
        return Balances(own=Totals.from_json(rest), parts=parts, shut=shut)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LedgerDamagedError(
            f"the totals of a scope cannot be read ({error}); run `sidelight ledger verify`"
        ) from error


def read_balances(transaction: Transaction, scope_id: str) -> Balances:
    """Return the totals that the table has for a scope."""
    row = transaction.row("SELECT totals FROM scope WHERE scope_id = :scope_id", scope_id=scope_id)
    if row is None:
        raise LedgerDamagedError(f"the scope {scope_id!r} is gone from its ledger; run `sidelight ledger verify`")
    return balances_from_json(read(str(row[0])))


def read_below(transaction: Transaction, scope_id: str) -> list[tuple[ScopeDefinition, Balances]]:
    """Return the definitions and totals of the scopes directly below one, in the order of their names."""
    rows = transaction.rows(
        f"SELECT {DEFINITION_COLUMNS}, totals FROM scope WHERE parent_id = :parent_id ORDER BY scope_id",
        parent_id=scope_id,
    )
    return [(definition_from_row(row[:-1]), balances_from_json(read(str(row[-1])))) for row in rows]


def by_scope(shares: Iterable[Share]) -> dict[str, list[Share]]:
    """Group shares by the scope that pays them, keeping their order."""
    grouped: dict[str, list[Share]] = {}
    for share in shares:
        grouped.setdefault(share.scope_id, []).append(share)
    return grouped


def chosen_shares(
    shares: Sequence[Share], balances: Mapping[str, Balances], definitions: Mapping[str, ScopeDefinition]
) -> tuple[Share, ...]:
    """Return the shares as each scope counts them after its present balances."""
    found = []
    running = dict(balances)
    for share in shares:
        rule = definitions[share.scope_id].rule_for([share])
        charge = rule.choose(running[share.scope_id].totals(), share.options) if rule.sum_first else share.charge
        found.append(replace(share, charge=charge, options=()))
        running[share.scope_id] = running[share.scope_id].plus([found[-1]])
    return tuple(found)


def remaining_along(chain: Sequence[tuple[ScopeDefinition, Balances]], *, delta: Amount | None) -> Remaining:
    """Return, for each kind of query, the largest parameter that the first scope and all its ancestors would grant.

    `chain` begins with the scope that is asked and goes up to the top.
    """
    if any(balances.shut for _, balances in chain):
        return _NOTHING
    asked = chain[0][0]
    result: Remaining | None = None
    for (definition, balances), below in zip(chain, [None, *(lower for lower, _ in chain)], strict=False):
        if below is not None and definition.partitioned_by is not None:
            totals = balances.totals_for(below.scope_id, definition.rule)
        else:
            totals = balances.totals()
        left = find_remaining(definition.rule if below is None else definition.rule.for_children(), totals, delta=delta)
        if asked.neighbours is Neighbours.ADD_REMOVE and definition.neighbours is Neighbours.REPLACE:
            left = _two_steps(left)
        result = left if result is None else _smaller(result, left)
    return result or _NOTHING


def _two_steps(left: Remaining) -> Remaining:
    """Turn amounts for a replace scope into the add/remove amounts that become them: 2ε, 4ρ, 2μ."""

    def part(amount: Fraction | None, share: int) -> Fraction | None:
        return None if amount is None else amount / share

    return Remaining(
        epsilon=part(left.epsilon, 2),
        exponential_epsilon=part(left.exponential_epsilon, 2),
        rho=part(left.rho, 4),
        mu=part(left.mu, 2),
        approx=None,  # its delta grows with epsilon; no number is better than a wrong one
    )


def _smaller(one: Remaining, other: Remaining) -> Remaining:
    def least(first: Fraction | None, second: Fraction | None) -> Fraction | None:
        return None if first is None or second is None else min(first, second)

    approx: ApproxDP | None = None
    if one.approx is not None and other.approx is not None:
        approx = min(one.approx, other.approx, key=lambda claim: claim.epsilon)
    return Remaining(
        epsilon=least(one.epsilon, other.epsilon),
        exponential_epsilon=least(one.exponential_epsilon, other.exponential_epsilon),
        rho=least(one.rho, other.rho),
        mu=least(one.mu, other.mu),
        approx=approx,
        several=one.several and other.several,
    )
