"""What one event is charged: its claims read as amounts of every route, and the (epsilon, delta) that is counted.

Prices are functions of public numbers, the claims and the terms of a rule. What a rule grants is in `filters`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Protocol

from sidelight.accounting.charges import Charge, Route, amount_of, charge_quanta, chosen_item
from sidelight.accounting.opening import Budget
from sidelight.errors import ClaimError
from sidelight.guarantees import Amount, ApproxDP, Claims, Neighbours, claims_to_replace
from sidelight.guarantees import conversions as convert


class Terms(Protocol):
    """What a price depends on beside the claims: the terms of a rule."""

    @property
    def budget(self) -> Budget:
        """What may be spent."""

    @property
    def routes(self) -> tuple[Route, ...]:
        """The sums that count."""

    @property
    def capacities(self) -> tuple[tuple[Route, int], ...]:
        """The size of each, in quanta."""

    @property
    def pool(self) -> int:
        """What of delta is kept for items, in quanta."""

    @property
    def sum_first(self) -> bool:
        """Whether what is declared is added up before anything is composed."""


def fitting(terms: Terms, claims: Claims) -> Claims:
    """Return the claims for the budget's neighbours; refuse those for another unit, audience or relation."""
    budget = terms.budget
    if claims.audience != "everyone":
        raise ClaimError("a claim for observers only says nothing about everyone else; it cannot be charged")
    if claims.unit != budget.unit:
        raise ClaimError(f"the budget protects a {budget.unit}, the claims a {claims.unit}; convert them first")
    if claims.neighbours is budget.neighbours:
        return claims
    if (claims.neighbours, budget.neighbours) == (Neighbours.ADD_REMOVE, Neighbours.REPLACE):
        return claims_to_replace(claims)
    raise ClaimError(
        f"claims about '{claims.neighbours}' cannot be charged to a budget about '{budget.neighbours}'; "
        "only add-or-remove claims convert into a replace budget"
    )


def with_declared(terms: Terms, claims: Claims, delta: Amount | None) -> Claims:
    """Add the pair that was declared, as far as the claims prove it, to claims that say none themselves."""
    if delta is None or not terms.sum_first or claims.pure() is not None or claims.items:
        return claims
    declared = claims.approx_at(delta)
    return claims if declared is None else Claims.of(*claims, declared)


def plain_prices(terms: Terms, claims: Claims) -> list[Charge]:
    """Price claims that fit the budget for the plain sum: each declared pair with a smaller epsilon, then the pure.

    The totals of the other routes go on beside it. An event with a mu of its own may be the one from which on they
    decide, too (Theorem T12). They count it by its own mu and rho: those of the randomised response of its pair hold
    only without a reveal, and all of its delta is already spent on the sum and on the delta of those routes.
    """
    pure = claims.pure()
    _, rho, mu = own_amounts(terms, claims)
    items = [i for i in claims.items if pure is None or i.epsilon < pure.epsilon]
    priced = [price(terms, claims, item) for item in sorted(items, key=lambda i: (i.epsilon, i.delta))]
    if mu is not None and rho is not None:
        own_rho, own_square = charge_quanta(rho), charge_quanta(mu * mu)
        priced = [replace(each, rho=own_rho, mu_squared=own_square, may_begin=True) for each in priced]
    return priced if pure is None else [*priced, price(terms, claims, None)]


def side_by_side_price(terms: Terms, claims: Claims) -> Charge:
    """Price claims that fit the budget for routes that stand side by side."""
    pure, rho, mu = own_amounts(terms, claims)
    item = chosen_item(
        claims,
        below=pure,
        pool=amount_of(terms.pool),
        epsilon=getattr(terms.budget, "epsilon", Fraction(0)),
        served=_served(terms, rho, mu),
        keep_open=terms.sum_first,
    )
    charge = price(terms, claims, item)
    if all(charge.of(route) is None for route in terms.routes):
        raise ClaimError(
            f"a budget of {terms.budget} cannot count {claims}: it needs a claim for {' or '.join(terms.routes)}; "
            "a budget of ApproxDP(epsilon, delta) counts every kind of release"
        )
    return charge


def own_amounts(terms: Terms, claims: Claims) -> tuple[Fraction | None, Fraction | None, Fraction | None]:
    """Return the epsilon, rho and mu that the claims prove without any delta, for the routes that there are."""
    pure = claims.pure()
    rho = claims.zcdp() if "zcdp" in terms.routes else None
    mu = claims.gdp() if "gdp" in terms.routes else None
    return None if pure is None else pure.epsilon, None if rho is None else rho.rho, None if mu is None else mu.mu


def price(terms: Terms, claims: Claims, item: ApproxDP | None) -> Charge:
    """Price claims that fit the budget, with the (epsilon, delta) that was chosen, if any."""
    epsilon, rho, mu = own_amounts(terms, claims)
    if item is not None:
        epsilon = item.epsilon  # randomised response; with epsilon 0 it says nothing and costs only its delta
        if "zcdp" in terms.routes:
            response = convert.zcdp_from_pure(epsilon) if epsilon else Fraction(0)
            rho = response if rho is None else min(rho, response)
        if "gdp" in terms.routes:
            response = convert.gdp_from_pure(epsilon) if epsilon else Fraction(0)
            mu = response if mu is None else min(mu, response)
    return Charge(
        epsilon=None if epsilon is None or "basic" not in terms.routes else charge_quanta(epsilon),
        delta_items=0 if item is None else charge_quanta(item.delta),
        rho=None if rho is None else charge_quanta(rho),
        mu_squared=None if mu is None else charge_quanta(mu * mu),
    )


def _served(terms: Terms, rho: Fraction | None, mu: Fraction | None) -> Fraction | None:
    """Return the smallest share of a route's capacity that the event takes by a claim of its own."""
    amounts: dict[Route, Fraction | None] = {"zcdp": rho, "gdp": None if mu is None else mu * mu}
    capacities = dict(terms.capacities)
    shares = [amount / amount_of(capacities[r]) for r, amount in amounts.items() if amount and capacities.get(r)]
    return min(shares, default=None)
