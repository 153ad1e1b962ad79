"""The adaptive rule: reference numbers, routes and shares, what may be said, and adversaries that must not win."""

from __future__ import annotations

import dataclasses
import math
import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.accounting import Charge, Rule, Totals, amount_of, find_remaining, find_shortfall, find_spent
from sidelight.accounting.prices import left_beside
from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Claim,
    Claims,
    Event,
    Neighbours,
    PureDP,
)
from sidelight.guarantees import conversions as convert

F = Fraction
BUDGET = ApproxDP(3, 1e-6)


SIDE_BY_SIDE: Any = ["basic", "gdp", "zcdp"]


def spend(rule: Rule, totals: Totals, *claims: Claim) -> Totals:
    charge = rule.charge(Claims.of(*claims), totals=totals)
    assert rule.grants(totals, charge)
    return totals.plus(charge)


def design_example(rule: Rule) -> Totals:
    totals = spend(rule, Totals.zero(), BoundedRange(0.2))
    totals = spend(rule, totals, GDP.from_squares(0.1))
    return spend(rule, totals, GDP.from_squares(0.2))


#: The split of the reference numbers; the default keeps more for items, because models need it.
TENTH: dict[Any, Any] = {"items": "0.1", "gdp": "0.45", "zcdp": "0.45"}


def test_capacities_after_the_split() -> None:
    rule = Rule.for_budget(BUDGET, shares=TENTH)
    assert abs(float(amount_of(rule.capacity("gdp"))) / 2 - 0.196720799) < 1e-9
    assert abs(float(amount_of(rule.capacity("zcdp"))) - 0.174412281) < 1e-9
    assert amount_of(rule.capacity("basic")) == 3
    assert amount_of(rule.pool) == F("1e-7")
    usual = Rule.for_budget(BUDGET)
    assert amount_of(usual.pool) == F("4e-7")
    assert abs(float(amount_of(usual.capacity("gdp"))) / 2 - 0.190668092) < 1e-9  # 3 % less than with a tenth
    assert abs(float(amount_of(usual.capacity("zcdp"))) - 0.169443557) < 1e-9
    alone = Rule.for_budget(BUDGET, routes=["gdp"])
    assert abs(float(amount_of(alone.capacity("gdp"))) / 2 - 0.209774829) < 1e-9
    alone = Rule.for_budget(BUDGET, routes=["zcdp"])
    assert abs(float(amount_of(alone.capacity("zcdp"))) - 0.185069841) < 1e-9


def test_what_the_split_buys() -> None:
    """Three pure queries of epsilon 1 fit a budget of 3; zCDP alone would refuse the first."""
    rule, totals = Rule.for_budget(BUDGET), Totals.zero()
    for _ in range(3):
        totals = spend(rule, totals, PureDP(1))
    assert not rule.grants(totals, rule.charge(Claims.of(PureDP("1e-30"))))
    zcdp = Rule.for_budget(BUDGET, routes=["zcdp"])
    assert not zcdp.grants(Totals.zero(), zcdp.charge(Claims.of(PureDP(1))))


def test_the_mixed_example() -> None:
    rule = Rule.for_budget(BUDGET, routes=SIDE_BY_SIDE)
    totals = design_example(rule)
    assert abs(float(amount_of(totals.rho)) - 0.155) < 1e-12
    assert abs(float(amount_of(totals.mu_squared)) / 2 - 0.157851) < 1e-6
    assert totals.closed == {"basic"}


def test_remaining_of_the_mixed_example() -> None:
    rule = Rule.for_budget(BUDGET, shares=TENTH)
    totals = design_example(rule)
    left = find_remaining(rule, totals, delta="1e-8")
    assert left.epsilon == F("0.222661")
    assert left.exponential_epsilon == F("0.445322")
    assert left.mu == F("0.278817")
    assert left.rho is not None
    assert left.approx is not None
    text = str(left)
    assert "0.222661" in text
    assert "0.445322" in text
    for claim, step in (
        (PureDP(left.epsilon), "1e-6"),
        (BoundedRange(left.exponential_epsilon), "1e-6"),
        (GDP(left.mu), "1e-6"),
        (ZCDP(left.rho), "1e-7"),
    ):
        assert rule.grants(totals, rule.charge(Claims.of(claim)))
        name = next(n for n in ("epsilon", "mu", "rho") if hasattr(claim, n))
        more = type(claim)(getattr(claim, name) + F(step))
        assert not rule.grants(totals, rule.charge(Claims.of(more)))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_remaining_never_contradicts_the_next_request(seed: int) -> None:
    generator = random.Random(seed)
    budget = generator.choice([PureDP(1), ZCDP("0.1"), GDP("0.5"), ApproxDP(1, "1e-5"), ApproxDP("0.25", "1e-9")])
    rule, totals = Rule.for_budget(budget), Totals.zero()
    for _ in range(6):
        charge = _random_charge(rule, generator, totals)
        if charge is not None and rule.grants(totals, charge):
            totals = totals.plus(charge)
        left = find_remaining(rule, totals)
        for amount, kind in (
            (left.epsilon, PureDP),
            (left.exponential_epsilon, BoundedRange),
            (left.mu, GDP),
            (left.rho, ZCDP),
        ):
            if amount is not None:
                assert rule.grants(totals, rule.charge(Claims.of(kind(amount)), totals=totals))
                with_more = Claims.of(kind(amount * F("1.00002")))
                assert not rule.grants(totals, rule.charge(with_more, totals=totals))


def _random_charge(rule: Rule, generator: random.Random, totals: Totals) -> Charge | None:
    size = F(generator.randint(1, 400), 1000)
    claims = generator.choice(
        [Claims.of(PureDP(size)), Claims.of(BoundedRange(size)), Claims.of(GDP(size)), Claims.of(ZCDP(size * size / 2)),
         Claims.of(ApproxDP(size, "1e-8")), Claims.of(GDP(size), ApproxDP(size, "1e-8"))]
    )  # fmt: skip
    try:
        return rule.charge(claims, totals=totals)
    except ClaimError:
        return None


def test_nothing_left_says_so() -> None:
    rule = Rule.for_budget(PureDP(1))
    totals = spend(rule, Totals.zero(), PureDP(1))
    left = find_remaining(rule, totals)
    assert (left.epsilon, left.exponential_epsilon, left.rho, left.mu) == (None, None, None, None)
    assert str(left) == "nothing is left"


@settings(max_examples=60, deadline=None)
@given(
    st.fractions(0, 1, max_denominator=20),
    st.fractions(0, 1, max_denominator=20),
    st.fractions(0, 1, max_denominator=20),
)
def test_shares_never_exceed_delta(items: Fraction, gdp: Fraction, zcdp: Fraction) -> None:
    """Trap: best of two filters without a split of delta."""
    shares = {"items": items, "gdp": gdp, "zcdp": zcdp}
    if items + gdp + zcdp > 1:
        with pytest.raises(RangeError, match="more than 1"):
            Rule.for_budget(ApproxDP(1, "1e-6"), shares=shares)  # type: ignore[arg-type]
    elif gdp == 0 or zcdp == 0:
        with pytest.raises(RangeError, match="share"):
            Rule.for_budget(ApproxDP(1, "1e-6"), shares=shares)  # type: ignore[arg-type]


def test_shares_are_what_the_capacities_use() -> None:
    for routes in (None, ["gdp"], ["zcdp"], ["basic"], ["basic", "gdp"], ["gdp", "zcdp"]):
        rule = Rule.for_budget(BUDGET, routes=routes)  # type: ignore[arg-type]
        split = dict(rule.shares)
        assert sum(split.values()) == 1
        total = amount_of(rule.pool)
        for route, cap in rule.capacities:
            if route == "gdp":
                mu = convert.root_of_sum_of_squares(amount_of(cap))
                total += convert.gdp_delta(mu, BUDGET.epsilon)
            if route == "zcdp":
                total += convert.zcdp_delta(amount_of(cap), BUDGET.epsilon)
        assert total <= BUDGET.delta * (1 + F("1e-20"))
        assert total >= BUDGET.delta * F("0.9999")


def test_routes_close_for_good() -> None:
    rule = Rule.for_budget(BUDGET, routes=SIDE_BY_SIDE)
    totals = spend(rule, Totals.zero(), ZCDP("0.01"))
    assert totals.closed == {"basic", "gdp"}
    totals = spend(rule, totals, PureDP("0.1"))
    assert totals.closed == {"basic", "gdp"}
    assert totals.epsilon > 0  # the totals of closed routes go on


def test_items_pay_from_one_pool() -> None:
    rule = Rule.for_budget(BUDGET, shares=TENTH)
    charge = rule.charge(Claims.of(ApproxDP("0.5", "4e-8")))
    assert charge.rho == rule.charge(Claims.of(PureDP("0.5"))).rho
    assert charge.mu_squared == rule.charge(Claims.of(PureDP("0.5"))).mu_squared
    totals = Totals.zero().plus(charge).plus(charge)
    assert rule.holds(totals)
    assert not rule.grants(totals, charge)  # 1.2e-7 of 1e-7
    short = find_shortfall(rule, totals, charge)
    assert "δ" in short.difference
    assert "keeps 1e-7 of its δ" in short.remaining
    assert "routes=['basic']" in short.remaining
    both = rule.charge(Claims.of(GDP("0.5"), ApproxDP("0.5", "4e-8")))
    assert both.mu_squared == rule.charge(Claims.of(GDP("0.5"))).mu_squared
    assert both.epsilon == charge.epsilon
    assert both.delta_items == charge.delta_items  # once


def test_an_item_that_can_never_fit_is_left_aside() -> None:
    rule = Rule.for_budget(BUDGET)
    pure = rule.charge(Claims.of(PureDP(2), ApproxDP("0.5", "1e-3")))
    assert pure.delta_items == 0
    assert pure.epsilon == 2 * 10**30
    deliberate = rule.charge(Claims.of(PureDP(2), ApproxDP("0.5", "1e-8")))
    assert (deliberate.epsilon, deliberate.delta_items) == (5 * 10**29, 10**22)


def test_one_route_budgets() -> None:
    pure = Rule.for_budget(PureDP(1))
    with pytest.raises(ClaimError):
        pure.charge(Claims.of(GDP(1)))
    with pytest.raises(ClaimError):
        pure.charge(Claims.of(ApproxDP(1, 1e-9)))
    zcdp = Rule.for_budget(ZCDP("0.125"))
    assert zcdp.grants(Totals.zero(), zcdp.charge(Claims.of(BoundedRange(1))))
    assert not zcdp.grants(Totals.zero(), zcdp.charge(Claims.of(PureDP(1))))
    with pytest.raises(ClaimError):
        zcdp.charge(Claims.of(ApproxDP(1, 1e-9)))
    gdp = Rule.for_budget(GDP(1))
    totals = spend(gdp, Totals.zero(), GDP("0.6"))
    totals = spend(gdp, totals, GDP("0.8"))
    assert not gdp.grants(totals, gdp.charge(Claims.of(GDP("1e-12"))))
    with pytest.raises(ClaimError):
        gdp.charge(Claims.of(ZCDP(1)))


def test_neighbours_unit_and_audience() -> None:
    """Traps: a replace claim booked in an add/remove scope, an amplified curve charged."""
    rule = Rule.for_budget(PureDP(1))
    with pytest.raises(ClaimError, match="replace"):
        rule.charge(Claims.of(PureDP("0.1", neighbours=Neighbours.REPLACE)))
    with pytest.raises(ClaimError, match="event"):
        rule.charge(Claims.of(PureDP("0.1", unit=Event())))
    with pytest.raises(ClaimError, match="observers"):
        rule.charge(Claims.of(PureDP("0.1", audience="observers_only")))
    with pytest.raises(ClaimError):
        Rule.for_budget(PureDP(1, audience="observers_only"))
    swap = Rule.for_budget(PureDP(1, neighbours=Neighbours.REPLACE))
    assert swap.charge(Claims.of(PureDP("0.1"))).epsilon == 2 * 10**29
    assert swap.charge(Claims.of(PureDP("0.1", neighbours=Neighbours.REPLACE))).epsilon == 10**29


@pytest.mark.parametrize(
    ("budget", "error"),
    [
        (BoundedRange(1), ClaimError),
        (RDP({2: 1}), ClaimError),
        (PureDP(F(1, 3)), RangeError),
        (PureDP("1e-31"), RangeError),
    ],
)
def test_budgets_that_are_refused(budget: Claim, error: type[Exception]) -> None:
    with pytest.raises(error):
        Rule.for_budget(budget)


def test_refused_options() -> None:
    for options in ({"routes": ["pld"]}, {"routes": []}, {"routes": ["gdp", "gdp"]}, {"shares": {"basic": 1}}):
        with pytest.raises((ClaimError, RangeError)):
            Rule.for_budget(BUDGET, **options)  # type: ignore[arg-type]
    with pytest.raises(ClaimError):
        Rule.for_budget(PureDP(1), shares={"items": 1})
    with pytest.raises(ClaimError):
        Rule.for_budget(PureDP(1), routes=["gdp"])


def test_large_budgets_warn() -> None:
    with pytest.warns(UserWarning, match="epsilon"):
        Rule.for_budget(PureDP(11))
    with pytest.warns(UserWarning, match="delta"):
        Rule.for_budget(ApproxDP(1, "0.001"), routes=["basic"])


def test_what_may_be_said() -> None:
    """Trap: an odometer shown as a guarantee."""
    rule = Rule.for_budget(BUDGET, routes=SIDE_BY_SIDE)
    totals = spend(rule, Totals.zero(), PureDP("0.5"))
    spent = find_spent(rule, totals)
    assert not hasattr(spent, "epsilon")
    assert spent.surely == PureDP("0.5")
    assert "not a guarantee" in str(spent)
    assert rule.statement() == (
        "Everything ever released under this budget is together ApproxDP(ε = 3, δ = 1e-6): add or remove one row."
    )
    after = find_spent(rule, spend(rule, totals, GDP("0.1")))
    assert after.surely is None
    assert after.basic is not None
    assert not after.basic.open
    with_item = find_spent(rule, spend(rule, totals, ApproxDP("0.1", "1e-9")))
    assert with_item.surely is None


def test_json_goes_both_ways_and_edits_are_found() -> None:
    for budget in (BUDGET, PureDP(1), ZCDP("0.1"), GDP("0.5"), ApproxDP(1, "1e-6", neighbours=Neighbours.REPLACE)):
        rule = Rule.for_budget(budget)
        assert Rule.from_json(rule.to_json()) == rule
        edited = rule.to_json()
        route = rule.routes[-1]
        edited["capacities"] = edited["capacities"] | {route: str(rule.capacity(route) * 10001 // 10000)}
        with pytest.raises(ClaimError, match="edited"):
            Rule.from_json(edited)
        edited = rule.to_json() | {"pool": str(rule.pool + 1)}
        with pytest.raises(ClaimError, match="edited"):
            Rule.from_json(edited)
    rule = Rule.for_budget(BUDGET, routes=["basic", "gdp"], shares={"items": "0.25", "gdp": "0.75"})
    assert Rule.from_json(rule.to_json()) == rule
    totals = design_example(Rule.for_budget(BUDGET))
    assert Totals.from_json(totals.to_json()) == totals
    charge = rule.charge(Claims.of(GDP("0.1")))
    assert Charge.from_json(charge.to_json()) == charge
    assert charge.covers(charge)
    assert not rule.charge(Claims.of(GDP("0.09"))).covers(charge)


def test_totals_of_disjoint_parts() -> None:
    a = Totals(epsilon=3, rho=1, closed=frozenset({"gdp"}))
    b = Totals(epsilon=1, rho=2, delta_items=5)
    assert Totals.largest([a, b]) == Totals(epsilon=3, rho=2, delta_items=5, closed=frozenset({"gdp"}))
    assert Totals.largest([]) == Totals.zero()
    assert a.plus_totals(b) == Totals(epsilon=4, rho=3, delta_items=5, closed=frozenset({"gdp"}))


def test_shortfall_reads_well() -> None:
    rule = Rule.for_budget(PureDP(1))
    totals = spend(rule, Totals.zero(), PureDP("0.9"))
    missed = find_shortfall(rule, totals, rule.charge(Claims.of(PureDP("0.3"))))
    assert missed == ("ε 0.3", "ε 0.1", "ε 0.2")


# --- adversaries ------------------------------------------------------------------------------------------------------


def _gaussian_delta(mu: float, x: float) -> float:
    if mu <= 0:
        return max(0.0, -math.expm1(x))
    cdf = lambda z: math.erfc(-z / math.sqrt(2)) / 2  # noqa: E731
    return cdf(mu / 2 - x / mu) - math.exp(x) * cdf(-mu / 2 - x / mu)


def test_a_numerical_total_is_not_a_filter() -> None:
    """The counterexample: both fixed sequences have delta(1) = 0.1458956279, the adaptive one 0.1612210582."""
    p = math.exp(0.5) / (1 + math.exp(0.5))

    def randomised(e: float, x: float) -> float:
        if abs(x) > e:
            return max(0.0, -math.expm1(x))
        return (math.exp(e) - math.exp(x)) / (1 + math.exp(e))

    mu = 0.9281028632
    plus_rr, minus_rr = randomised(0.9, 0.5), randomised(0.9, 1.5)
    plus_g, minus_g = _gaussian_delta(mu, 0.5), _gaussian_delta(mu, 1.5)
    fixed_rr = p * plus_rr + (1 - p) * minus_rr
    fixed_g = p * plus_g + (1 - p) * minus_g
    assert abs(fixed_rr - 0.1458956279) < 1e-9
    assert abs(fixed_g - 0.1458956279) < 1e-9
    adaptive = max(p * plus_rr + (1 - p) * minus_g, p * plus_g + (1 - p) * minus_rr)
    assert abs(adaptive - 0.1612210582) < 1e-9
    # the rule with the budget that both fixed sequences meet refuses the second step on both branches
    with pytest.warns(UserWarning, match="delta"):
        rule = Rule.for_budget(ApproxDP(1, "0.1458956280"), routes=SIDE_BY_SIDE)
    first = spend(rule, Totals.zero(), PureDP("0.5"))
    assert not rule.grants(first, rule.charge(Claims.of(PureDP("0.9"))))
    assert not rule.grants(first, rule.charge(Claims.of(GDP("0.9281028632"))))


def _adversary(rule: Rule, *, depth: int) -> float:
    """Reach for a large delta(1): randomised responses chosen after each answer, then the largest Gaussian granted."""
    sizes = [F("0.1"), F("0.25"), F("0.5")]
    charges = [(float(s), rule.charge(Claims.of(PureDP(s)))) for s in sizes]
    pool = rule.charge(Claims.of(ApproxDP(0, amount_of(rule.pool))))

    def largest_gaussian(totals: Totals) -> float:
        rests = [(rule.capacity("gdp") - totals.mu_squared, 1), (rule.capacity("zcdp") - totals.rho, 2)]
        return math.sqrt(max(0.0, *(float(amount_of(rest)) * k for rest, k in rests)))

    def best(totals: Totals, x: float, left: int) -> float:
        value = _gaussian_delta(largest_gaussian(totals), x)
        for size, charge in charges if left else ():
            if rule.grants(totals, charge):
                p = math.exp(size) / (1 + math.exp(size))
                after = totals.plus(charge)
                value = max(value, p * best(after, x - size, left - 1) + (1 - p) * best(after, x + size, left - 1))
        return value

    assert rule.grants(Totals.zero(), pool)  # one item reveals with all of the pool, the rest goes on as before
    d = float(amount_of(rule.pool))
    return d + (1 - d) * best(Totals.zero().plus(pool), 1.0, depth)


def test_the_adversary_stays_within_the_rule() -> None:
    """Brute force over adaptive histories, E = 1, d = 0.02: delta(1) <= d, and not by being idle."""
    with pytest.warns(UserWarning, match="delta"):
        rule = Rule.for_budget(ApproxDP(1, "0.02"), routes=SIDE_BY_SIDE)
    reached = _adversary(rule, depth=4)
    assert 0.0109 < reached <= 0.02
    loose = dataclasses.replace(rule, capacities=tuple((route, cap * 17 // 10) for route, cap in rule.capacities))
    assert _adversary(loose, depth=4) > 0.02  # capacities 30 % too high in mu are refuted


def test_an_event_leaves_nothing_where_the_sum_has_far_more_left() -> None:
    """The delta that it leaves to other routes is then smaller than any number that is written."""
    quantum = Totals.zero().plus(Charge(epsilon=10**31, rho=None, mu_squared=10**28, delta_items=10**23))
    for epsilon in (1_000, 10_000, 1_000_000):
        assert (
            left_beside(ApproxDP(epsilon, "1e-6"), Totals.zero(), dataclasses.replace(quantum, closed=frozenset())) == 0
        )
