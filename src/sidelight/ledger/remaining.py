"""What a scope can still grant when its ancestors have a say as well."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sidelight.accounting import Remaining, find_remaining
from sidelight.guarantees import Amount, ApproxDP, Neighbours
from sidelight.ledger.books import Books
from sidelight.ledger.definition import ScopeDefinition

_NOTHING = Remaining(epsilon=None, exponential_epsilon=None, rho=None, mu=None)


def remaining_along(chain: Sequence[tuple[ScopeDefinition, Books]], *, delta: Amount | None) -> Remaining:
    """Return, for each kind of query, the largest parameter that the first scope and all its ancestors would grant.

    `chain` begins with the scope that is asked and goes up to the top.
    """
    if any(books.shut for _, books in chain):
        return _NOTHING
    asked = chain[0][0]
    result: Remaining | None = None
    for (definition, books), below in zip(chain, [None, *(lower for lower, _ in chain)], strict=False):
        if below is not None and definition.partitioned_by is not None:
            totals = books.totals_for(below.scope_id, definition.rule)
        else:
            totals = books.totals()
        left = find_remaining(definition.rule, totals, delta=delta)
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
    )
