"""What one event is charged: its claims read as amounts of every route, and the (epsilon, delta) that is counted.

Prices are functions of public numbers, the claims and the terms of a rule. What a rule grants is in `filters`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, Literal, Protocol, TypeAlias

from sidelight.accounting.charges import (
    DECIMALS,
    Charge,
    Route,
    Totals,
    amount_of,
    capacity_quanta,
    charge_quanta,
    chosen_item,
)
from sidelight.errors import ClaimError, RangeError, SidelightWarning, level_of_caller, nearest
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
    claims_like,
    decimal_text,
    decimals_of,
    exact,
    positive,
)
from sidelight.guarantees import conversions as convert
from sidelight.guarantees.amounts import grid_ceil, grid_floor, smallest
from sidelight.guarantees.intervals import Interval, round_down

_LEAST_DELTA: Final = Fraction(1, 10**24)


def proved(budget: ApproxDP, route: Route, cap: int, share: Mapping[Share, Fraction]) -> bool:
    """Prove one stored capacity: the epsilon it allows, or the Gaussian profile at the budget's epsilon."""
    amount = amount_of(cap)
    if route == "basic":
        return amount <= budget.epsilon
    delta = share.get(route, Fraction(0)) * budget.delta
    if route == "zcdp":
        return delta > 0 and (amount == 0 or convert.zcdp_epsilon(amount, delta) <= budget.epsilon)
    mu = convert.root_of_sum_of_squares(amount)
    return delta > 0 and (amount == 0 or convert.gdp_delta(mu, budget.epsilon) <= delta)


def left_beside(budget: ApproxDP, before: Totals, after: Totals) -> int:
    """Return the delta that one event leaves to other routes, in quanta; 0 where it leaves none (Theorem T12).

    Of what the event pays, (e, d), the sum of epsilons uses only q·d + (1 - q)·tail, where q = 1 / (1 + exp(-r)), r
    is what the sum has left after it, and tail is the event's own delta at twice what was left before, less e. It
    is enough to know the tail to be at most half of d.
    """
    paid = amount_of(after.delta_items - before.delta_items)
    epsilon, square = amount_of(after.epsilon - before.epsilon), amount_of(after.mu_squared - before.mu_squared)
    left = budget.epsilon - amount_of(before.epsilon)
    if paid <= 0 or square <= 0 or epsilon > left or after.closed:
        return 0
    if convert.gdp_delta(convert.root_of_sum_of_squares(square), 2 * left - epsilon) > paid / 2:
        return 0
    unused = Interval.of(1) / (Interval.of(1) + Interval.of(left - epsilon).exp())
    least = round_down(unused.lower)
    found = capacity_quanta(grid_floor(least * paid / 2, digits=3)) if least > 0 else 0
    return found if amount_of(found) > _LEAST_DELTA else 0


Budget: TypeAlias = PureDP | ZCDP | GDP | ApproxDP
Share: TypeAlias = Literal["items", "gdp", "zcdp"]
ROUTES: tuple[Route, ...] = ("basic", "gdp", "zcdp")
_DEFAULT_POOL = Fraction(2, 5)


def check_budget(budget: Claim) -> None:
    """Refuse what is no budget."""
    if not isinstance(budget, PureDP | ZCDP | GDP | ApproxDP):
        raise ClaimError(f"a budget is PureDP, ApproxDP, ZCDP or GDP, got {type(budget).__name__}")
    if budget.audience != "everyone":
        raise ClaimError("a budget holds for everyone, not for observers only")
    if budget.neighbours is Neighbours.KEPT and (not budget.kept or budget.unit != Row()):
        raise ClaimError(
            "a budget given totals that were published exactly names them, and protects a row; open it by "
            "sl.Session(table, budget=..., invariants=sl.Invariant('state', reason='...', of=places))"
        )
    for name in ("epsilon", "delta", "rho", "mu"):
        amount = getattr(budget, name, None)
        if amount is None:
            continue
        places = decimals_of(amount)
        if places is None or places > DECIMALS:
            raise RangeError(f"{name} of a budget has at most {DECIMALS} decimals, got {decimal_text(amount)}")


def warn_of_size(budget: Claim) -> None:
    """Warn whoever declares a budget that protects little; whoever reads it later is not warned again."""
    epsilon, delta = getattr(budget, "epsilon", Fraction(0)), getattr(budget, "delta", Fraction(0))
    if epsilon > 10:
        text = f"a budget of epsilon {float(epsilon):g} protects little; below 10 is usual"
        warnings.warn(text, SidelightWarning, stacklevel=level_of_caller())
    if delta >= Fraction(1, 1000):
        text = f"delta {float(delta):g} lets whole records out; below 1e-3 is usual"
        warnings.warn(text, SidelightWarning, stacklevel=level_of_caller())


def routes_of_budget(budget: Budget, routes: Sequence[Route] | None) -> tuple[Route, ...]:
    """Return the routes of a budget: those named, or all that it has."""
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


def shares_of_delta(
    budget: Budget, routes: tuple[Route, ...], shares: Mapping[Share, Amount] | None
) -> tuple[tuple[Share, Fraction], ...]:
    """Return the share of delta of the items and of each route that needs one."""
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


class RuleTerms(Protocol):
    """What a price depends on besides the claims: the terms of a rule."""

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


#: What to do with claims that a budget cannot count.
_WAY_OUT = {
    Neighbours.KEPT: "exact totals tell whether a row was counted: open a session with the same invariants, "
    "sl.Session(..., invariants=...), or release the query by itself, query.release(table)"
}


def related(claims: Claims | Claim) -> str:
    """Return the neighbours of claims in words, with the totals that they keep."""
    kept = claims.context["kept"]
    return f"{claims.neighbours} ({kept})" if kept else str(claims.neighbours)


def fitting(terms: RuleTerms, claims: Claims) -> Claims:
    """Return the claims for the budget's neighbours; refuse those for another unit, audience or relation."""
    budget = terms.budget
    if claims.audience != "everyone":
        raise ClaimError("a claim for observers only says nothing about everyone else; it cannot be charged")
    if claims.unit != budget.unit:
        raise ClaimError(f"the budget protects a {budget.unit}, the claims a {claims.unit}; convert them first")
    found = claims_like(claims, budget)
    if found is not None:
        return found
    raise ClaimError(
        f"claims about '{related(claims)}' cannot be charged to a budget about '{related(budget)}'; "
        f"{_WAY_OUT.get(claims.neighbours, 'only add-or-remove claims convert into a replace budget')}"
    )


def with_declared(terms: RuleTerms, claims: Claims, delta: Amount | None) -> Claims:
    """Add the pair that was declared, as far as the claims prove it, to claims that say none themselves."""
    if delta is None or not terms.sum_first or claims.pure() is not None or claims.items:
        return claims
    declared = claims.approx_at(delta)
    return claims if declared is None else Claims.of(*claims, declared)


def plain_prices(terms: RuleTerms, claims: Claims) -> list[Charge]:
    """Price claims that fit the budget for the plain sum: each declared pair with a smaller epsilon, then the pure.

    The totals of the other routes are kept as well. An event with a mu of its own may be the one from which on they
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


def side_by_side_price(terms: RuleTerms, claims: Claims) -> Charge:
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


def own_amounts(terms: RuleTerms, claims: Claims) -> tuple[Fraction | None, Fraction | None, Fraction | None]:
    """Return the epsilon, rho and mu that the claims prove without any delta, for the routes that there are."""
    pure = claims.pure()
    rho = claims.zcdp() if "zcdp" in terms.routes else None
    mu = claims.gdp() if "gdp" in terms.routes else None
    return None if pure is None else pure.epsilon, None if rho is None else rho.rho, None if mu is None else mu.mu


def price(terms: RuleTerms, claims: Claims, item: ApproxDP | None) -> Charge:
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


def _served(terms: RuleTerms, rho: Fraction | None, mu: Fraction | None) -> Fraction | None:
    """Return the smallest share of a route's capacity that the event takes by a claim of its own."""
    amounts: dict[Route, Fraction | None] = {"zcdp": rho, "gdp": None if mu is None else mu * mu}
    capacities = dict(terms.capacities)
    shares = [amount / amount_of(capacities[r]) for r, amount in amounts.items() if amount and capacities.get(r)]
    return min(shares, default=None)


def gaussian_noise_scale(epsilon: Amount, delta: Amount, *, sensitivity: Amount = 1) -> Fraction:
    """Return the smallest sigma of 12 digits whose Gaussian noise is (epsilon, delta), proved.

    >>> float(gaussian_noise_scale(1, "1e-6"))
    4.22467888933
    """
    target = ApproxDP(epsilon, positive(delta, name="delta"))
    size = positive(sensitivity, name="sensitivity")
    mu = convert.gdp_within(target.epsilon, target.delta)
    return smallest(
        lambda sigma: convert.gdp_delta(size / sigma, target.epsilon) <= target.delta,
        start=grid_ceil(size / mu),
        lower=size / 10**9,
        upper=size * 10**12,
        name="noise scale",
    )
