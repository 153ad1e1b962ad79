"""What a scope has charged, as totals: its balances, and what it can still grant.

A partitioned scope keeps its own charges and those of each part in its own units. Its total is its own charges plus the
largest part, for each quantity by itself; a route that any part closed is closed (accounting proof page, section 5).

How the scopes below a scope share its budget: all in one currency, and with reserved shares no scope takes another's.

Every scope below one with `sharing` has a budget of the same kind on the same single route, and every request is
charged the same amount all the way up. Then the total of a scope is the sum of the totals below it and of what was
charged to it directly. With "reserved" the capacities directly below a scope, with those direct charges, are at most
its own, so, by induction, what a scope grants is never refused by one above it because of others. They are added in the
ledger's quanta: of epsilon and delta, of rho, of mu squared. Capacities are rounded down and charges up, alike for all
scopes, so rounding takes nothing away. With "first come" the sum may be larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from sidelight.accounting import Charge, Remaining, Route, Rule, Totals, find_remaining
from sidelight.errors import ClaimError, LedgerDamagedError, ScopeError
from sidelight.guarantees import Amount, ApproxDP, Claims, Neighbours
from sidelight.ledger.chain import read
from sidelight.ledger.definition import ScopeDefinition, Share, definition_from_row
from sidelight.ledger.journal import DEFINITION_COLUMNS

if TYPE_CHECKING:
    from sidelight.ledger.schema import Transaction


_NOTHING = Remaining(epsilon=None, exponential_epsilon=None, rho=None, mu=None)


@dataclass(frozen=True)
class Balances:
    """Totals that only grow. `shut` is set when the owner closes the scope permanently."""

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


Quanta: TypeAlias = tuple[int, int]  # of the one route, and of delta
Child: TypeAlias = tuple[ScopeDefinition, Balances]


def check_shares(parent: Child, children: Iterable[Child], new: ScopeDefinition) -> None:
    """Refuse a scope that would reserve more than its parent has left to reserve."""
    if parent[0].sharing == "reserved" and not shares_fit(parent, [*children, (new, Balances())]):
        raise ScopeError(
            f"scope {new.scope_id!r} under {parent[0].scope_id!r}: the shares that are reserved there, with what was "
            f"charged to it directly, would be more than its budget of {parent[0].budget}; give it less, or close "
            "scopes that are no longer used: they count with what they spent"
        )


def shares_fit(parent: Child, children: Iterable[Child]) -> bool:
    """Return whether the budgets directly below a scope, with what was charged to it directly, are at most its own.

    A scope that was closed counts with what it spent. Parts of a partition have no person in common: each must fit by
    itself.
    """
    definition, balances = parent
    below = list(children)
    capacity, spent = _capacity(definition.rule), _spent(definition.rule, balances.totals())
    claimed = [_spent(child.rule, own.totals()) if own.shut else _capacity(child.rule) for child, own in below]
    if definition.partitioned_by is not None:
        direct, needed = _spent(definition.rule, balances.own), _largest(claimed)
    else:
        direct, needed = _minus(spent, _sum(_spent(child.rule, own.totals()) for child, own in below)), _sum(claimed)
    return all(used + wanted <= whole for used, wanted, whole in zip(direct, needed, capacity, strict=True))


def declared_claims(claims: Claims, definition: ScopeDefinition, *, delta: Amount | None) -> Claims:
    """Return the one claim that every scope of a shared tree counts: the pure one, or the pair that was declared.

    On the route "basic" a scope chooses, among the pairs that a curve proves, by its own budget: table and analyst
    would be charged different amounts.
    """
    if definition.sharing is None or not isinstance(definition.budget, ApproxDP):
        return claims
    pure = claims.pure()
    pair = claims.items[0] if len(claims.items) == 1 else None if delta is None else claims.approx_at(delta)
    chosen = pair if pure is None else pure
    return claims if chosen is None else Claims.of(chosen)


def check_one_amount(shares: Iterable[Share], definitions: Iterable[ScopeDefinition]) -> None:
    """Refuse a request that scopes of a shared tree would be charged different amounts for."""
    shared = {definition.scope_id for definition in definitions if definition.sharing is not None}
    amounts = {share.charge for share in shares if share.scope_id in shared}
    if len(amounts) > 1:
        raise ClaimError(
            "below a scope that is shared a request is charged the same amount everywhere, and this one would not be; "
            "price it in the budget's currency, by epsilon, by epsilon and delta, by rho or by mu"
        )


def _capacity(rule: Rule) -> Quanta:
    return rule.capacities[0][1], rule.pool


def _spent(rule: Rule, totals: Totals) -> Quanta:
    return totals.of(rule.routes[0]), totals.delta_items


def _sum(amounts: Iterable[Quanta]) -> Quanta:
    found = list(amounts)
    return sum(each[0] for each in found), sum(each[1] for each in found)


def _largest(amounts: Iterable[Quanta]) -> Quanta:
    found = list(amounts)
    return max((each[0] for each in found), default=0), max((each[1] for each in found), default=0)


def _minus(whole: Quanta, part: Quanta) -> Quanta:
    return whole[0] - part[0], whole[1] - part[1]
