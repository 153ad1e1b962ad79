"""Adaptive spending: the rule by which a scope grants or refuses, fixed when the scope is created.

The owner sees answers and then chooses the next query and its cost. Only totals that are valid for such choices are
kept: the sum of epsilons (basic), of rhos (zcdp) and of mu squared (gdp), side by side. A request is granted while at
least one of them is within its capacity, and each may use only its own share of delta: taking the best of several
filters without splitting delta is not covered (accounting proof page, Theorems T5 to T8).

The rule of an (epsilon, delta) budget that names no routes never refuses what the plain sum of the declared epsilons
and deltas grants: all of delta is there for that sum. What else is granted is what that promise leaves (Theorem T11):

* From the first event on that declares an (epsilon, delta) and has a mu of its own, gdp and zcdp count in parallel with
  the sum, with the part of that event's delta that the sum cannot use (Theorem T12).
* Without such an event, a request that the sum cannot count or grant is composed: what is left of the budget goes, for
  good, to routes that stand side by side (Theorem T10). Naming routes when the budget is opened does that at once.

Neither is open to charges that come from scopes below (`Rule.for_children`): they are counted by the sum alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal

from sidelight.accounting.charges import (
    NAMES,
    Charge,
    Route,
    Totals,
    amount_of,
    capacity_quanta,
    charge_quanta,
    quanta_from_text,
)
from sidelight.accounting.prices import (
    Budget,
    Share,
    check_budget,
    fitting,
    left_beside,
    own_amounts,
    plain_prices,
    price,
    proved,
    routes_of_budget,
    shares_of_delta,
    side_by_side_price,
    warn_of_size,
    with_declared,
)
from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import (
    GDP,
    ZCDP,
    Amount,
    ApproxDP,
    Claim,
    Claims,
    Neighbours,
    Numerics,
    PureDP,
    Row,
    claim_from_json,
    claim_to_json,
    decimal_text,
    worst_numerics,
)
from sidelight.guarantees import conversions as convert
from sidelight.guarantees.claims import IDEALIZED, NOT_PROTECTED, SEEDED

#: The routes that may count in parallel with the sum of epsilons.
BESIDE: Final[tuple[Literal["gdp"], Literal["zcdp"]]] = ("gdp", "zcdp")


@dataclass(frozen=True)
class Rule:
    """What a scope may spend: a budget, the routes that count towards it, and how delta is split between them.

    Guarantee: everything ever released under the rule, however the queries and their costs are chosen after seeing
    earlier answers, satisfies the budget (accounting proof page, Theorems T7, T8, T10 and T12).

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
    sum_first: bool = False
    sum_alone: bool = False  # never stored: how charges from scopes below are judged

    @classmethod
    def for_budget(
        cls,
        budget: Claim,
        *,
        routes: Sequence[Route] | None = None,
        shares: Mapping[Share, Amount] | None = None,
    ) -> Rule:
        """Fix the rule of a budget; `shares` are fractions of delta for items, gdp and zcdp, at most 1 in all.

        An (epsilon, delta) budget without routes and shares adds up what is declared before it composes.
        """
        rule = cls.again_for(budget, routes=routes, shares=shares)
        warn_of_size(budget)
        return rule

    @classmethod
    def again_for(
        cls,
        budget: Claim,
        *,
        routes: Sequence[Route] | None = None,
        shares: Mapping[Share, Amount] | None = None,
    ) -> Rule:
        """Return the rule of `for_budget` for a budget that was declared before: without a warning of its size."""
        check_budget(budget)
        assert isinstance(budget, PureDP | ZCDP | GDP | ApproxDP)
        used = routes_of_budget(budget, routes)
        split = shares_of_delta(budget, used, shares)
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
        return cls(budget, used, split, tuple(capacities), pool, sum_first=routes is None and shares is None)

    # --- the decision -------------------------------------------------------------------------------------------------

    def charge(self, claims: Claims, *, totals: Totals | None = None, delta: Amount | None = None) -> Charge:
        """Price one event as the rule would count it after some totals: the first of `charges` that is granted.

        Where none is, the price that a refusal shows.
        """
        before = Totals.zero() if totals is None else totals
        if self.sum_first and before.composed is None:  # the usual case, without pricing what will not be asked
            for charge in plain_prices(self, with_declared(self, fitting(self, claims), delta)):
                if self._sum_holds(before.plus(charge)):
                    return self._beginning(before, charge)
        return self.choose(before, self.charges(claims, delta=delta))

    def charges(self, claims: Claims, *, delta: Amount | None = None) -> tuple[Charge, ...]:
        """Price one event in every way that the rule could count it: functions of public parameters, in whole quanta.

        An (epsilon, delta) is used where its epsilon is below the pure one: by the sum of epsilons, and as randomised
        response by the other routes where that is less than their own claim; its delta enters the pool once. Where
        routes stand side by side it is the declared one, or one at a smaller delta that a profile or a Renyi curve
        proves, so that models do not use up the pool before anything else (`chosen_item`).

        Args:
            claims: What the event proves.
            delta: The delta that its price was declared at, where the claims do not say it: a Gaussian release that was
                asked for as (epsilon, delta) proves a mu.

        Raises:
            ClaimError: other neighbours, unit or audience, or no route of the rule can count the event.
        """
        claims = with_declared(self, fitting(self, claims), delta)
        side_by_side = side_by_side_price(self, claims)
        if not self.sum_first:
            return (side_by_side,)
        own = replace(price(self, claims, None), epsilon=None)
        without = [own] if own.rho is not None or own.mu_squared is not None else []
        composed = replace(side_by_side, composed=True)
        plain = plain_prices(self, claims)
        return (*plain, composed, *without) if plain else (composed, side_by_side, *without)

    def choose(self, totals: Totals, charges: Sequence[Charge]) -> Charge:
        """Return the first price that is granted: by the sum or composed, then by the routes in parallel with the sum.

        Where none is granted, the first price of the stage that the totals are in.
        """
        if self.sum_first:
            for charge in charges:
                if charge.composed and self.grants(totals, charge):
                    return charge
                if not charge.composed and totals.composed is None and self._sum_holds(totals.plus(charge)):
                    return self._beginning(totals, charge)
            charges = sorted(charges, key=lambda charge: (charge.composed, charge.epsilon is not None))
        granted = next((charge for charge in charges if self.grants(totals, charge)), None)
        shown = sorted(charges, key=lambda charge: charge.epsilon is None)
        return granted or next((c for c in shown if c.composed == (totals.composed is not None)), shown[0])

    def proves(self, charge: Charge, claims: Claims) -> bool:
        """Return whether a stored price is enough: this version's, or that of any other (epsilon, delta) that holds.

        Versions choose differently among the pairs that an event proves, and each of them may be charged (Theorem T8);
        a history that was valid when it was written stays valid.
        """
        if (charge.composed or charge.beside) and not self.sum_first:
            return False
        claims = fitting(self, claims)
        if charge.beside:  # T12 speaks of the event's own law, not of the randomised response of its pair
            _, rho, mu = own_amounts(self, claims)
            least = ((charge.rho, rho), (charge.mu_squared, None if mu is None else mu * mu))
            if any(paid is None or own is None or paid < charge_quanta(own) for paid, own in least):
                return False
        if any(charge.covers(each) for each in self.charges(claims)):
            return True
        item = claims.approx_at(amount_of(charge.delta_items)) if charge.delta_items else None
        return charge.covers(replace(price(self, claims, item), composed=charge.composed))

    def holds(self, totals: Totals) -> bool:
        """Return whether totals are within the rule: the pool, and at least one open route of their stage."""
        if not self.sum_first:
            return totals.composed is None and totals.beside is None and self._within(totals)
        if totals.composed is None:
            return self._sum_holds(totals) or self._beside_holds(totals)
        rest = self.rest(totals)
        return rest is not None and self._sum_holds(totals) and rest._within(totals.composed)

    def allows(self, before: Totals, after: Totals) -> bool:
        """Decide a step by one event: granted iff the totals after it are within the rule; equality grants.

        Once a rule composes, its sum is fixed; and where routes begin to count in parallel with the sum, they get no
        more delta than the event leaves them.
        """
        if before.composed is not None and (before.epsilon, before.delta_items) != (after.epsilon, after.delta_items):
            return False
        if before.composed is None and after.composed is not None and before.beside is not None:
            return False
        counts_alone = self.sum_alone and before.composed is None and self._sum_holds(before)
        if counts_alone and (after.composed is not None or not self._sum_holds(after)):
            return False
        if before.beside is None and after.beside is not None and after.beside.delta > self._left(before, after):
            return False
        return self.holds(after)

    def grants(self, totals: Totals, charge: Charge) -> bool:
        """Decide a request: granted iff the totals with it are within the rule; equality grants."""
        if totals.composed is not None and not charge.composed:
            return False
        return self.allows(totals, totals.plus(charge))

    def for_children(self) -> Rule:
        """Return the rule for what is charged by scopes below: the plain sum alone, as long as it holds.

        Whatever leaves the plain sum changes, for good, what it has left for everybody else. A scope may do that with
        its own requests; one child must not do it to the others. It grants no more than this rule does.
        """
        return replace(self, sum_alone=self.sum_first)

    def rest(self, totals: Totals) -> Rule | None:
        """Return the rule of the second stage: this one's routes and shares, for what the sum has left of the budget.

        None where nothing is left that could be composed.
        """
        assert isinstance(self.budget, ApproxDP)
        if not (totals.epsilon or totals.delta_items):
            return replace(self, sum_first=False)
        epsilon = self.budget.epsilon - amount_of(totals.epsilon)
        delta = self.budget.delta - amount_of(totals.delta_items)
        if epsilon <= 0 or delta <= 0:
            return None
        return _rule_of(ApproxDP(epsilon, delta, **self.budget.context), self.routes, self.shares)

    def beside(self, totals: Totals) -> tuple[Rule, Totals] | None:
        """Return the rule of the routes in parallel with the sum and what they counted, None before they began."""
        began = totals.beside
        if began is None:
            return None
        assert isinstance(self.budget, ApproxDP)
        left = ApproxDP(self.budget.epsilon - amount_of(began.epsilon), amount_of(began.delta), **self.budget.context)
        shares = tuple((name, Fraction(1, 2)) for name in BESIDE)
        counted = Totals(
            rho=totals.rho - began.rho, mu_squared=totals.mu_squared - began.mu_squared, closed=totals.closed
        )
        return _rule_of(left, BESIDE, shares), counted

    def capacity(self, route: Route) -> int:
        """Return the capacity of a route in quanta."""
        return dict(self.capacities)[route]

    # --- what may be said ---------------------------------------------------------------------------------------------

    def statement(self, *, numerics: Numerics = "exact", seeded: bool = False) -> str:
        """Return what holds for everything ever released under the rule: its budget, nothing about what was spent.

        One release with `numerics` "idealized" makes the whole so; under a `seeded` account it is not private.

        >>> Rule.for_budget(PureDP(1)).statement()
        'Everything ever released under this budget is together PureDP(ε = 1): add or remove one row.'
        """
        kept = self.budget.kept
        relation = f"{self.budget.neighbours} {self.budget.unit}"
        if kept:
            relation = f"replace one {self.budget.unit} by another with the same published totals. Exact: {kept}"
        numerics = worst_numerics(numerics, self.budget.numerics)
        plain = self.budget.under(neighbours=Neighbours.ADD_REMOVE, kept="", unit=Row(), numerics=numerics)
        said = [f"Everything ever released under this budget is together {plain}: {relation}."]
        said += [IDEALIZED] if numerics == "idealized" else []
        return " ".join([*([f"{SEEDED}."] if seeded else []), *said, *([NOT_PROTECTED] if kept else [])])

    def to_json(self) -> dict[str, Any]:
        """Write the rule with strings only; the capacities are stored, so that they never change under a scope."""
        written: dict[str, Any] = {
            "budget": claim_to_json(self.budget),
            "routes": list(self.routes),
            "shares": {name: decimal_text(share) for name, share in self.shares},
            "capacities": {route: str(cap) for route, cap in self.capacities},
            "pool": str(self.pool),
        }
        return written | ({"first": "sum"} if self.sum_first else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rule:
        """Read a rule back, and check that its capacities are those that its budget allows."""
        budget = claim_from_json(data["budget"])
        check_budget(budget)
        assert isinstance(budget, PureDP | ZCDP | GDP | ApproxDP)
        routes = routes_of_budget(budget, data["routes"])
        shares = shares_of_delta(budget, routes, data["shares"] or None)
        capacities = tuple((route, quanta_from_text(data["capacities"][route])) for route in routes)
        sum_first = isinstance(budget, ApproxDP) and data.get("first") == "sum"
        rule = cls(budget, routes, shares, capacities, quanta_from_text(data["pool"]), sum_first=sum_first)
        if rule.to_json() != dict(data) or not rule._follows():
            raise ClaimError(f"the stored rule does not follow from its budget {budget}; it was edited")
        return rule

    def _follows(self) -> bool:
        """Prove the capacities from the budget: one evaluation each; where that is too close, the search."""
        if isinstance(self.budget, ApproxDP):
            share = dict(self.shares)
            if self.pool > capacity_quanta(share.get("items", Fraction(0)) * self.budget.delta):
                return False
            if all(proved(self.budget, route, cap, share) for route, cap in self.capacities):
                return True
        fresh = Rule.again_for(self.budget, routes=self.routes, shares=dict(self.shares) or None)
        return self.pool <= fresh.pool and all(cap <= fresh.capacity(route) for route, cap in self.capacities)

    # --- details ------------------------------------------------------------------------------------------------------

    def _sum_holds(self, totals: Totals) -> bool:
        """Return whether everything so far is within the plain sum of epsilons and deltas."""
        assert isinstance(self.budget, ApproxDP)
        within = totals.epsilon <= capacity_quanta(self.budget.epsilon) and "basic" not in totals.closed
        return within and totals.delta_items <= capacity_quanta(self.budget.delta)

    def _beside_holds(self, totals: Totals) -> bool:
        """Return whether the routes in parallel with the sum hold; the whole delta pays for items (T12)."""
        assert isinstance(self.budget, ApproxDP)
        found = self.beside(totals)
        if found is None or totals.delta_items > capacity_quanta(self.budget.delta):
            return False
        rule, counted = found
        return rule._within(counted)

    def _left(self, before: Totals, after: Totals) -> int:
        return left_beside(self.budget, before, after) if isinstance(self.budget, ApproxDP) else 0

    def _beginning(self, totals: Totals, charge: Charge) -> Charge:
        """Return the charge with the delta that other routes get from this event on, where they have not begun yet."""
        if totals.beside is not None or not charge.may_begin:
            return charge
        left = self._left(totals, totals.plus(charge))
        return replace(charge, beside=left) if left else charge

    def _within(self, totals: Totals) -> bool:
        """Return whether totals are within routes that stand side by side."""
        if totals.delta_items > self.pool:
            return False
        return any(route not in totals.closed and totals.of(route) <= cap for route, cap in self.capacities)


@lru_cache(maxsize=256)
def _rule_of(budget: ApproxDP, routes: tuple[Route, ...], shares: tuple[tuple[Share, Fraction], ...]) -> Rule:
    """Return the rule for what is left of a budget."""
    return Rule.again_for(budget, routes=routes, shares=dict(shares))
