"""How much a route may count: stored capacities proved again, and the delta that an event leaves to other routes."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from sidelight.accounting.charges import Route, Totals, amount_of, capacity_quanta
from sidelight.accounting.opening import Share
from sidelight.guarantees import ApproxDP
from sidelight.guarantees import conversions as convert
from sidelight.guarantees.amounts import grid_floor
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
    found = capacity_quanta(grid_floor(round_down(unused.lower) * paid / 2, digits=3))
    return found if amount_of(found) > _LEAST_DELTA else 0
