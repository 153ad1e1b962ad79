"""Adaptive spending: the rule by which a scope grants or refuses, fixed when the scope is created.

The owner sees answers and then chooses the next query and its cost. Only totals that are valid for such choices are
kept: the sum of epsilons (basic), of rhos (zcdp) and of mu squared (gdp), side by side. A request is granted while at
least one of them is within its capacity, and each may use only its own share of delta: taking the best of several
filters without splitting delta is not covered (accounting proof page, Theorems T5 to T8).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from sidelight.accounting.charges import (
    DECIMALS,
    NAMES,
    Charge,
    Route,
    Totals,
    amount_of,
    capacity_quanta,
    charge_quanta,
    chosen_item,
    quanta_from_text,
)
from sidelight.errors import ClaimError, RangeError, SidelightWarning, nearest
from sidelight.guarantees import (
    GDP,
    ZCDP,
    Amount,
    ApproxDP,
    Claim,
    Claims,
    Neighbours,
    PureDP,
    Row,
    claim_from_json,
    claim_to_json,
    claims_to_replace,
    decimal_text,
    decimals_of,
    exact,
)
from sidelight.guarantees import conversions as convert

Budget: TypeAlias = PureDP | ZCDP | GDP | ApproxDP
Share: TypeAlias = Literal["items", "gdp", "zcdp"]
ROUTES: tuple[Route, ...] = ("basic", "gdp", "zcdp")
_DEFAULT_POOL = Fraction(2, 5)


@dataclass(frozen=True)
class Rule:
    """What a scope may spend: a budget, the routes that count towards it, and how delta is split between them.

    Guarantee: everything ever released under the rule, however the queries and their costs are chosen after seeing
    earlier answers, satisfies the budget (accounting proof page, Theorem T7; items by T8).

    >>> rule = Rule.for_budget(PureDP(1))
    >>> tenth = rule.charge(Claims.of(PureDP(0.1)))
    >>> totals = Totals.zero()
    >>> for _ in range(10):
    ...     assert rule.grants(totals, tenth)
    ...     totals = totals.plus(tenth)
    >>> rule.grants(totals, rule.charge(Claims.of(PureDP("1e-40"))))
    False
    """

    budget: Budget
    routes: tuple[Route, ...]
    shares: tuple[tuple[Share, Fraction], ...]
    capacities: tuple[tuple[Route, int], ...]
    pool: int

    @classmethod
    def for_budget(
        cls,
        budget: Claim,
        *,
        routes: Sequence[Route] | None = None,
        shares: Mapping[Share, Amount] | None = None,
    ) -> Rule:
        """Fix the rule of a budget; `shares` are fractions of delta for items, gdp and zcdp, at most 1 in all."""
        _check_budget(budget)
        assert isinstance(budget, PureDP | ZCDP | GDP | ApproxDP)
        used = _routes(budget, routes)
        split = _shares(budget, used, shares)
        if not isinstance(budget, ApproxDP):
            amount = budget.mu**2 if isinstance(budget, GDP) else getattr(budget, NAMES[used[0]])
            return cls(budget, used, (), ((used[0], capacity_quanta(amount)),), 0)
        capacities: list[tuple[Route, int]] = []
        for route in used:
            if route == "basic":
                capacities.append((route, capacity_quanta(budget.epsilon)))
                continue
            delta = dict(split).get(route, Fraction(0)) * budget.delta
            if delta > 0:
                amount = (
                    convert.gdp_within(budget.epsilon, delta) ** 2
                    if route == "gdp"
                    else convert.zcdp_within(budget.epsilon, delta)
                )
                capacities.append((route, capacity_quanta(amount)))
            else:
                raise RangeError(f"the route {route} needs a share of delta above 0")
        pool = capacity_quanta(dict(split).get("items", Fraction(0)) * budget.delta)
        return cls(budget, used, split, tuple(capacities), pool)

    # --- the decision -------------------------------------------------------------------------------------------------

    def charge(self, claims: Claims) -> Charge:
        """Price one event for every route of the rule: a pure function of public parameters, in whole quanta.

        An (epsilon, delta) is used where its epsilon is below the pure one: by the basic route, and as randomised
        response by the others where that is less than their own claim; its delta enters the pool once. It is the
        declared one, or one at a smaller delta that a profile or a Renyi curve proves, so that models do not use up the
        pool before anything else (`chosen_item`).

        Raises:
            ClaimError: other neighbours, unit or audience, or no route of the rule can count the event.
        """
        claims = self._fitting(claims)
        pure, rho, mu = self._own(claims)
        item = chosen_item(
            claims,
            below=pure,
            pool=amount_of(self.pool),
            epsilon=getattr(self.budget, "epsilon", Fraction(0)),
            served=self._served(rho, mu),
        )
        charge = self._price(claims, item)
        if all(charge.of(route) is None for route in self.routes):
            raise ClaimError(
                f"a budget of {self.budget} cannot count {claims}: it needs a claim for {' or '.join(self.routes)}; "
                "a budget of ApproxDP(epsilon, delta) counts every kind of release"
            )
        return charge

    def proves(self, charge: Charge, claims: Claims) -> bool:
        """Return whether a stored price is enough: this version's, or that of any other (epsilon, delta) that holds.

        Versions choose differently among the pairs that an event proves, and each of them may be charged (Theorem T8);
        a history that was valid when it was written stays valid.
        """
        if charge.covers(self.charge(claims)):
            return True
        claims = self._fitting(claims)
        item = claims.approx_at(amount_of(charge.delta_items)) if charge.delta_items else None
        return charge.covers(self._price(claims, item))

    def holds(self, totals: Totals) -> bool:
        """Return whether totals are within the rule: the pool, and at least one open route."""
        if totals.delta_items > self.pool:
            return False
        return any(route not in totals.closed and totals.of(route) <= cap for route, cap in self.capacities)

    def grants(self, totals: Totals, charge: Charge) -> bool:
        """Decide a request: granted iff the totals with it are within the rule; equality grants."""
        return self.holds(totals.plus(charge))

    def capacity(self, route: Route) -> int:
        """Return the capacity of a route in quanta."""
        return dict(self.capacities)[route]

    # --- what may be said ---------------------------------------------------------------------------------------------

    def statement(self) -> str:
        """Return what holds for everything ever released under the rule: its budget, nothing about what was spent.

        >>> Rule.for_budget(PureDP(1)).statement()
        'Everything ever released under this budget is together PureDP(ε = 1): add or remove one row.'
        """
        relation = f"{self.budget.neighbours} {self.budget.unit}"
        plain = self.budget.under(neighbours=Neighbours.ADD_REMOVE, unit=Row(), numerics="exact")
        return f"Everything ever released under this budget is together {plain}: {relation}."

    def to_json(self) -> dict[str, Any]:
        """Write the rule with strings only; the capacities are stored, so that they never change under a scope."""
        return {
            "budget": claim_to_json(self.budget),
            "routes": list(self.routes),
            "shares": {name: decimal_text(share) for name, share in self.shares},
            "capacities": {route: str(cap) for route, cap in self.capacities},
            "pool": str(self.pool),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rule:
        """Read a rule back, and check that its capacities are those that its budget allows."""
        budget = claim_from_json(data["budget"])
        _check_budget(budget)
        assert isinstance(budget, PureDP | ZCDP | GDP | ApproxDP)
        routes = _routes(budget, data["routes"])
        shares = _shares(budget, routes, data["shares"] or None)
        capacities = tuple((route, quanta_from_text(data["capacities"][route])) for route in routes)
        rule = cls(budget, routes, shares, capacities, quanta_from_text(data["pool"]))
        if rule.to_json() != dict(data) or not rule._follows():
            raise ClaimError(f"the stored rule does not follow from its budget {budget}; it was edited")
        return rule

    def _follows(self) -> bool:
        """Prove the capacities from the budget: one evaluation each; where that is too close, the search."""
        if isinstance(self.budget, ApproxDP):
            share = dict(self.shares)
            if self.pool > capacity_quanta(share.get("items", Fraction(0)) * self.budget.delta):
                return False
            if all(_proved(self.budget, route, cap, share) for route, cap in self.capacities):
                return True
        fresh = Rule.for_budget(self.budget, routes=self.routes, shares=dict(self.shares) or None)
        return self.pool <= fresh.pool and all(cap <= fresh.capacity(route) for route, cap in self.capacities)

    # --- details ------------------------------------------------------------------------------------------------------

    def _fitting(self, claims: Claims) -> Claims:
        if claims.audience != "everyone":
            raise ClaimError("a claim for observers only says nothing about everyone else; it cannot be charged")
        if claims.unit != self.budget.unit:
            raise ClaimError(
                f"the budget protects a {self.budget.unit}, the claims a {claims.unit}; convert them first"
            )
        if claims.neighbours is self.budget.neighbours:
            return claims
        if (claims.neighbours, self.budget.neighbours) == (Neighbours.ADD_REMOVE, Neighbours.REPLACE):
            return claims_to_replace(claims)
        raise ClaimError(
            f"claims about '{claims.neighbours}' cannot be charged to a budget about '{self.budget.neighbours}'; "
            "only add-or-remove claims convert into a replace budget"
        )

    def _own(self, claims: Claims) -> tuple[Fraction | None, Fraction | None, Fraction | None]:
        """Return the epsilon, rho and mu that the claims prove without any delta, for the routes that there are."""
        pure = claims.pure()
        rho = claims.zcdp() if "zcdp" in self.routes else None
        mu = claims.gdp() if "gdp" in self.routes else None
        return None if pure is None else pure.epsilon, None if rho is None else rho.rho, None if mu is None else mu.mu

    def _price(self, claims: Claims, item: ApproxDP | None) -> Charge:
        """Price claims that fit the budget, with the (epsilon, delta) that was chosen, if any."""
        epsilon, rho, mu = self._own(claims)
        if item is not None:
            epsilon = item.epsilon  # randomised response; with epsilon 0 it says nothing and costs only its delta
            if "zcdp" in self.routes:
                response = convert.zcdp_from_pure(epsilon) if epsilon else Fraction(0)
                rho = response if rho is None else min(rho, response)
            if "gdp" in self.routes:
                response = convert.gdp_from_pure(epsilon) if epsilon else Fraction(0)
                mu = response if mu is None else min(mu, response)
        return Charge(
            epsilon=None if epsilon is None or "basic" not in self.routes else charge_quanta(epsilon),
            delta_items=0 if item is None else charge_quanta(item.delta),
            rho=None if rho is None else charge_quanta(rho),
            mu_squared=None if mu is None else charge_quanta(mu * mu),
        )

    def _served(self, rho: Fraction | None, mu: Fraction | None) -> Fraction | None:
        """Return the smallest share of a route's capacity that the event takes by a claim of its own."""
        amounts: dict[Route, Fraction | None] = {"zcdp": rho, "gdp": None if mu is None else mu * mu}
        capacities = dict(self.capacities)
        shares = [amount / amount_of(capacities[r]) for r, amount in amounts.items() if amount and capacities.get(r)]
        return min(shares, default=None)


def _proved(budget: ApproxDP, route: Route, cap: int, share: Mapping[Share, Fraction]) -> bool:
    """Prove one stored capacity: the epsilon it allows, or the Gaussian profile at the budget's epsilon."""
    amount = amount_of(cap)
    if route == "basic":
        return amount <= budget.epsilon
    delta = share.get(route, Fraction(0)) * budget.delta
    if route == "zcdp":
        return delta > 0 and (amount == 0 or convert.zcdp_epsilon(amount, delta) <= budget.epsilon)
    mu = convert.root_of_sum_of_squares(amount)
    return delta > 0 and (amount == 0 or convert.gdp_delta(mu, budget.epsilon) <= delta)


def _check_budget(budget: Claim) -> None:
    if not isinstance(budget, PureDP | ZCDP | GDP | ApproxDP):
        raise ClaimError(f"a budget is PureDP, ApproxDP, ZCDP or GDP, got {type(budget).__name__}")
    if budget.audience != "everyone":
        raise ClaimError("a budget holds for everyone, not for observers only")
    for name in ("epsilon", "delta", "rho", "mu"):
        amount = getattr(budget, name, None)
        if amount is None:
            continue
        places = decimals_of(amount)
        if places is None or places > DECIMALS:
            raise RangeError(f"{name} of a budget has at most {DECIMALS} decimals, got {decimal_text(amount)}")
    epsilon, delta = getattr(budget, "epsilon", Fraction(0)), getattr(budget, "delta", Fraction(0))
    if epsilon > 10:
        warnings.warn(
            f"a budget of epsilon {float(epsilon):g} protects little; below 10 is usual", SidelightWarning, stacklevel=3
        )
    if delta >= Fraction(1, 1000):
        warnings.warn(
            f"delta {float(delta):g} lets whole records out; below 1e-3 is usual", SidelightWarning, stacklevel=3
        )


def _routes(budget: Budget, routes: Sequence[Route] | None) -> tuple[Route, ...]:
    only: dict[type, Route] = {PureDP: "basic", ZCDP: "zcdp", GDP: "gdp"}
    if type(budget) in only:
        route = only[type(budget)]
        if routes is not None and tuple(routes) != (route,):
            raise ClaimError(f"a budget of {budget} has the one route {route!r}, got {', '.join(routes)}")
        return (route,)
    if routes is None:
        return ROUTES
    for route in routes:
        if route not in ROUTES:
            raise ClaimError(f"unknown route {route!r}; {nearest(route, ROUTES)}")
    if not routes or len(set(routes)) != len(routes):
        raise ClaimError("routes must be named once each, at least one")
    return tuple(r for r in ROUTES if r in routes)


def _shares(
    budget: Budget, routes: tuple[Route, ...], shares: Mapping[Share, Amount] | None
) -> tuple[tuple[Share, Fraction], ...]:
    if not isinstance(budget, ApproxDP):
        if shares:
            raise ClaimError(f"a budget of {budget} has no delta to share")
        return ()
    paying: list[Share] = [r for r in ("gdp", "zcdp") if r in routes]
    if shares is None:
        if not paying:
            return (("items", Fraction(1)),)
        if len(routes) == 1:
            return ((paying[0], Fraction(1)),)
        rest = (1 - _DEFAULT_POOL) / len(paying)
        return (("items", _DEFAULT_POOL), *((name, rest) for name in paying))
    known: tuple[Share, ...] = ("items", "gdp", "zcdp")
    for name in shares:
        if name not in known or (name != "items" and name not in paying):
            raise ClaimError(f"a share of delta for {name!r}, which is not a route here; {nearest(name, known)}")
    split = tuple((name, exact(shares[name], name=f"share of {name}")) for name in known if name in shares)
    if sum(share for _, share in split) > 1:
        raise RangeError("the shares of delta add up to more than 1: the best of two filters costs both shares")
    return split
