"""How the scopes below a scope share its budget: all in one currency, and with reserved shares nobody takes another's.

Every scope below one with `sharing` has a budget of the same kind on the same single route, and every request is
charged the same amount all the way up. Then the total of a scope is the sum of the totals below it and of what was
charged to it directly. With "reserved" the capacities directly below a scope, with those direct charges, are at most
its own, so, by induction, what a scope grants is never refused by one above it because of others. They are added in the
ledger's quanta: of epsilon and delta, of rho, of mu squared. Capacities are rounded down and charges up, alike for all
scopes, so rounding takes nothing away. With "first come" the sum may be larger.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from sidelight.accounting import Rule, Totals
from sidelight.errors import ClaimError, ScopeError
from sidelight.guarantees import Amount, ApproxDP, Claims
from sidelight.ledger.balances import Balances
from sidelight.ledger.definition import ScopeDefinition, Share

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

    A scope that was closed counts with what it spent. Parts of a partition share nobody: each must fit by itself.
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
