"""What a scope can still grant, what it has spent, and by how much a request missed: numbers for people.

Every number under `Remaining` was put to the deciding function itself before it is shown, so the next request cannot
contradict it. `Spent` is bookkeeping, not a guarantee: an adaptively chosen stopping point has no epsilon of its own
(accounting proof page, section 6), so there is no method that would compute one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

from sidelight.accounting.charges import Charge, Route, Totals, amount_of, capacity_quanta
from sidelight.accounting.filters import BESIDE, Rule
from sidelight.accounting.prices import ROUTES
from sidelight.errors import ClaimError, RangeError, SidelightWarning
from sidelight.guarantees import (
    GDP,
    ZCDP,
    Amount,
    ApproxDP,
    BoundedRange,
    Claim,
    Claims,
    Numerics,
    PureDP,
    exact,
    short_text,
    worst_numerics,
)
from sidelight.guarantees.amounts import grid_ceil, grid_floor, largest
from sidelight.readable import percent

_DIGITS = 6
_LOWEST, _HIGHEST = Fraction(1, 10**24), Fraction(10**6)
_SYMBOLS: dict[Route, str] = {"basic": "ε", "gdp": "μ²", "zcdp": "ρ"}


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """For each kind of query, the largest parameter that would be granted now; None where none would.

    Where `several` is true, queries of any number may share epsilon and the delta of `approx`: their sums are compared.
    """

    epsilon: Fraction | None
    exponential_epsilon: Fraction | None
    rho: Fraction | None
    mu: Fraction | None
    approx: ApproxDP | None = None
    several: bool = False

    def __str__(self) -> str:
        options = []
        if self.several and self.approx is not None and self.epsilon is not None:  # both sums in one breath
            both = f"ε = {short_text(self.epsilon)}, with δ up to {short_text(self.approx.delta)}"
            options.append(f"queries whose declared sums are at most {both}")
        elif self.epsilon is not None:
            options.append(f"one pure query up to ε = {short_text(self.epsilon)}")
        if self.exponential_epsilon is not None and self.exponential_epsilon != self.epsilon:
            options.append(f"one exponential mechanism up to ε = {short_text(self.exponential_epsilon)}")
        if self.mu is not None:
            options.append(f"one Gaussian up to μ = {short_text(self.mu)}")
        if self.rho is not None:
            options.append(f"one zCDP query up to ρ = {short_text(self.rho)}")
        if self.approx is not None and not self.several:
            at = f"δ = {short_text(self.approx.delta)}"
            options.append(f"one query of ε = {short_text(self.approx.epsilon)} at {at}")
        if not options:
            return "nothing is left"
        return "left: " + (", or ".join(options))


class RouteSpent(NamedTuple):
    """What one route has counted: its total, its capacity, the fraction, and whether it is still open."""

    total: Fraction
    capacity: Fraction
    fraction: float
    open: bool


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Totals per route in their own units. Bookkeeping, not a guarantee: the guarantee is the scope's budget.

    `surely` is the one statement about the past alone that holds at every moment: the sum of the pure epsilons while
    every event so far was pure.
    """

    basic: RouteSpent | None
    gdp: RouteSpent | None
    zcdp: RouteSpent | None
    pool: RouteSpent | None
    surely: PureDP | None

    def __str__(self) -> str:
        lines = []
        named = (("Σε", self.basic), ("Σμ²", self.gdp), ("Σρ", self.zcdp), ("Σδ of items", self.pool))
        for name, route in named:
            if route is None:
                continue
            state = "" if route.open else ", closed"
            share = f"{percent(route.fraction, decimals=1)}{state}"
            lines.append(f"{name} {short_text(route.total)} of {short_text(route.capacity)} ({share})")
        return "bookkeeping, not a guarantee: " + "; ".join(lines)


class RouteLine(NamedTuple):
    """What one route has counted, of how much, and whether it is open."""

    route: Route
    total: int
    capacity: int
    open: bool

    @property
    def left(self) -> int:
        """What the route can still count; nothing if it is closed."""
        return max(0, self.capacity - self.total) if self.open else 0


class Standing(NamedTuple):
    """Every route that counts now, and the pool of deltas with its size."""

    lines: tuple[RouteLine, ...]
    pooled: int
    pool: int


def find_standing(rule: Rule, totals: Totals) -> Standing:
    """Return what each route has counted, of how much, and whether it is open: what the rule compares now."""
    if not rule.sum_first:
        lines = [RouteLine(r, totals.of(r), cap, r not in totals.closed) for r, cap in rule.capacities]
        return Standing(tuple(lines), totals.delta_items, rule.pool)
    assert isinstance(rule.budget, ApproxDP)
    epsilon, delta = capacity_quanta(rule.budget.epsilon), capacity_quanta(rule.budget.delta)
    if totals.composed is not None:
        rest, later = rule.rest(totals), totals.composed
        caps = {} if rest is None else dict(rest.capacities)
        counted = later.epsilon + totals.epsilon
        lines = [RouteLine("basic", counted, epsilon, "basic" not in later.closed)]
        lines += [RouteLine(r, later.of(r), caps.get(r, 0), r not in later.closed) for r in BESIDE]
        pool = 0 if rest is None else rest.pool
        return Standing(tuple(lines), totals.delta_items + later.delta_items, totals.delta_items + pool)
    lines = [RouteLine("basic", totals.epsilon, epsilon, "basic" not in totals.closed)]
    found = rule.beside(totals)
    if found is not None:
        other, seen = found
        lines += [RouteLine(r, seen.of(r), cap, r not in seen.closed) for r, cap in other.capacities]
    return Standing(tuple(lines), totals.delta_items, delta)


class Shortfall(NamedTuple):
    """By how much a request missed, as text for a `BudgetError`."""

    requested: str
    remaining: str
    difference: str


def find_remaining(rule: Rule, totals: Totals, *, delta: Amount | None = None) -> Remaining:
    """Return, for each kind of query, the largest parameter of six digits that the rule grants now."""
    at = None if delta is None else exact(delta, name="delta")
    context = rule.budget.context
    standing = find_standing(rule, totals)
    if at is None and rule.sum_first and totals.composed is None:
        left = amount_of(standing.pool - standing.pooled)
        at = grid_floor(left, digits=_DIGITS) if left > 0 else None
    rest = {line.route: float(amount_of(line.left)) for line in standing.lines}
    later = rule.rest(totals) if rule.sum_first and totals.composed is None and totals.beside is None else None
    if later is not None:  # what does not declare a pair would be composed
        rest = {route: float(amount_of(cap)) for route, cap in later.capacities} | rest
    from_mu = math.sqrt(rest.get("gdp", 0.0))

    def most(make: Callable[[Fraction], Claim], guess: float) -> Fraction | None:
        def granted(amount: Fraction) -> bool:
            return rule.grants(totals, rule.charge(Claims.of(make(amount)), totals=totals))

        start = Fraction(min(max(guess, 0.0), 1e6)) if guess > 1e-24 else _LOWEST
        try:
            return largest(granted, start=start, lower=_LOWEST, upper=_HIGHEST, name="amount", digits=_DIGITS)
        except (RangeError, ClaimError):
            return None

    pure = max(rest.get("basic", 0.0), _pure_from_rho(rest.get("zcdp", 0.0)), _pure_from_mu(from_mu))
    selection = max(rest.get("basic", 0.0), _range_from_rho(rest.get("zcdp", 0.0)), 2 * _pure_from_mu(from_mu))
    approx = None
    if at is not None:
        best = most(lambda v: ApproxDP(v, at, **context), pure)
        approx = None if best is None else ApproxDP(best, at, **context)
    epsilon = most(lambda v: PureDP(v, **context), pure)
    sums = {line.route: amount_of(line.left) for line in standing.lines}.get("basic", Fraction(0))
    counted = rule.sum_first and totals.composed is None and epsilon is not None and approx is not None
    return Remaining(
        epsilon=epsilon,
        exponential_epsilon=most(lambda v: BoundedRange(v, **context), selection),
        rho=most(lambda v: ZCDP(v, **context), rest.get("zcdp", 0.0)),
        mu=most(lambda v: GDP(v, **context), max(from_mu, math.sqrt(2 * rest.get("zcdp", 0.0)))),
        approx=approx,
        several=bool(counted and approx and epsilon == approx.epsilon and epsilon <= sums),
    )


def find_spent(rule: Rule, totals: Totals, *, numerics: Numerics = "exact") -> Spent:
    """Return the totals and their capacities: bookkeeping, not a guarantee.

    `numerics` is "idealized" if any charge was.
    """
    standing = find_standing(rule, totals)
    routes = {line.route: _compared(line.total, line.capacity, is_open=line.open) for line in standing.lines}
    sure = None
    if "basic" in routes and routes["basic"].open and standing.pooled == 0 and totals.composed is None:
        total = routes["basic"].total
        sure = PureDP(total, **rule.budget.context) if 0 < total <= 10**6 else None
        sure = sure and sure.under(numerics=worst_numerics(numerics, sure.numerics))
    pool = _compared(standing.pooled, standing.pool, is_open=True) if standing.pool else None
    return Spent(basic=routes.get("basic"), gdp=routes.get("gdp"), zcdp=routes.get("zcdp"), pool=pool, surely=sure)


def find_shortfall(rule: Rule, totals: Totals, charge: Charge) -> Shortfall:
    """Return for every open route what was asked, what is left and what is missing; or for the pool if it refuses."""
    requested, remaining, difference = [], [], []

    def compare(symbol: str, asked: int, left: int) -> None:
        requested.append(f"{symbol} {_up(asked)}")
        remaining.append(f"{symbol} {_down(left)}")
        difference.append(f"{symbol} {_up(max(0, asked - left))}")

    standing = find_standing(rule, totals)
    if standing.pooled + charge.delta_items > standing.pool:
        compare("δ of items", charge.delta_items, max(0, standing.pool - standing.pooled))
        remaining[-1] += _about_pool(rule)
    else:
        for line in standing.lines:
            asked = charge.of(line.route)
            if line.open and asked is not None:
                compare(_SYMBOLS[line.route], asked, line.left)
                if line.route == "basic" and charge.delta_items:
                    requested[-1] += f" at δ {_up(charge.delta_items)}"
                    remaining[-1] += _about_pool(rule)
    if not requested:
        return Shortfall("a route that is closed", "no open route", "all of it")
    return Shortfall(" or ".join(requested), " or ".join(remaining), " or ".join(difference))


def what_would_fit(rule: Rule, totals: Totals) -> str:
    """Return which prices would be granted now, and how a next budget would grant more: the end of a refusal."""
    left = str(find_remaining(rule, totals))
    if left == "nothing is left":
        return "Nothing is left of this budget"
    return f"Ask for less: what would fit is {left.removeprefix('left: ')}"


def _about_pool(rule: Rule) -> str:
    """Return where the pool of deltas comes from, and what would enlarge it."""
    if len(rule.routes) == 1 or rule.sum_first:
        return ""
    kept = f"{_down(rule.pool)} of its δ" if rule.pool else "none of its δ"
    return f" (this budget keeps {kept} for (ε, δ) releases; routes=['basic'], set when it is opened, gives them all)"


def _compared(total: int, capacity: int, *, is_open: bool) -> RouteSpent:
    fraction = total / capacity if capacity else math.inf
    return RouteSpent(amount_of(total), amount_of(capacity), fraction, is_open)


def _up(quanta: int) -> str:
    return short_text(grid_ceil(amount_of(quanta), digits=_DIGITS)) if quanta else "0"


def _down(quanta: int) -> str:
    return short_text(grid_floor(amount_of(quanta), digits=_DIGITS)) if quanta else "0"


# Floats for starting points only: `largest` decides.


def _pure_from_rho(rho: float) -> float:
    low, high = 0.0, 2 * rho + 2 * math.sqrt(rho)
    for _ in range(60):
        e = (low + high) / 2
        low, high = (e, high) if e * math.tanh(e / 2) <= rho else (low, e)
    return low


def _range_from_rho(rho: float) -> float:
    return max(math.sqrt(8 * rho), _pure_from_rho(rho))


def _pure_from_mu(mu: float) -> float:
    half = mu / 2
    if half < 1e-8:
        return 0.797884560 * mu
    if half > 8:
        return half * half / 2
    normal = NormalDist()
    return math.log(normal.cdf(half) / normal.cdf(-half))


def granted_with_routes(rule: Rule, totals: Totals, *asked: Claims) -> bool:
    """Return whether the same budget with all routes named from the start would surely grant a request, too.

    It is judged by the totals, so no history is read: routes that stand side by side would have counted no more rho, mu
    squared and delta for what was granted than these totals say. Where a pair would have been read at a smaller delta
    they would have counted less, and this says no although a replay of the history might say yes.

    Args:
        rule: The rule that refused. Where it names routes itself, the answer is no: there is nothing else to write.
        totals: What was counted so far.
        asked: What was refused.
    """
    if not rule.sum_first:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SidelightWarning)  # the warning about its size came when it was opened
        other = Rule.again_for(rule.budget, routes=ROUTES)
    counted = replace(totals, beside=None, composed=None).plus_totals(totals.composed or Totals.zero())
    try:
        for claims in asked:
            counted = counted.plus(other.charge(claims))
    except ClaimError:
        return False
    return other.holds(counted)


def advice_on_routes() -> str:
    """Return the words to write when the next budget is opened, in Python and in a plan file."""
    python = ", ".join(f"'{route}'" for route in ROUTES)
    plan = ", ".join(f'"{route}"' for route in ROUTES)
    return (
        "A budget of this size that named its routes when it was opened would have granted it after the same history: "
        f"write routes=[{python}] next to budget=, in a plan routes = [{plan}] under [budget]. The rule of this one is "
        "fixed for good; it is for the next data set"
    )
