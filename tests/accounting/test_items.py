"""Which (epsilon, delta) a budget counts: what users expect of a session, and that only what holds is charged."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from sidelight.accounting import Rule, Totals, amount_of, find_shortfall
from sidelight.errors import ClaimError
from sidelight.guarantees import GDP, RDP, ZCDP, ApproxDP, Claims, implies
from sidelight.guarantees.conversions import gdp_within
from sidelight.mechanisms.objective_calibration import calibrate_objective
from sidelight.mechanisms.objective_perturbation import LossShape

F = Fraction
SIDE_BY_SIDE: Any = ["basic", "gdp", "zcdp"]
LOGISTIC = LossShape(gradient=F(1), curvature=F(1, 4), envelope="logistic", sign_definite=True)
HUBER = LossShape(gradient=F(1), curvature=F(1))


def fits_within(rule: Rule, claims: Claims) -> int:
    totals, count = Totals.zero(), 0
    while count < 500:
        charge = rule.charge(claims, totals=totals)
        if not rule.grants(totals, charge):
            break
        totals, count = totals.plus(charge), count + 1
    return count


def model(shape: LossShape, epsilon: str, delta: str) -> Claims:
    return calibrate_objective(shape, epsilon=epsilon, delta=delta).claims(epsilon=epsilon, delta=delta)


@pytest.mark.parametrize(
    ("epsilon", "delta", "least"),
    [("1", "1e-7", 3), ("1", "1e-6", 3), ("0.5", "1e-7", 10), ("0.1", "1e-7", 250), ("3", "4e-7", 1)],
)
def test_models_fit_a_budget(epsilon: str, delta: str, least: int) -> None:
    """A budget of 3 for three models of epsilon 1, or for many small ones."""
    rule = Rule.for_budget(ApproxDP(3, "1e-6"), routes=SIDE_BY_SIDE)
    assert fits_within(rule, model(LOGISTIC, epsilon, delta)) >= least


@pytest.mark.parametrize(
    ("epsilon", "delta", "least"), [("1", "1e-6", 2), ("0.5", "1e-7", 8), ("0.1", "1e-7", 150), ("3", "1e-6", 1)]
)
def test_models_fit_a_default_budget_beyond_their_sum(epsilon: str, delta: str, least: int) -> None:
    rule = Rule.for_budget(ApproxDP(3, "1e-6"))
    assert fits_within(rule, model(LOGISTIC, epsilon, delta)) >= least


def test_a_model_is_charged_as_declared_where_that_fits() -> None:
    rule = Rule.for_budget(ApproxDP(3, "1e-6"), routes=SIDE_BY_SIDE)
    charge = rule.charge(model(HUBER, "1", "1e-7"))
    assert charge.epsilon == 10**30
    assert charge.delta_items == 10**23
    basic = Rule.for_budget(ApproxDP(3, "1e-6"), routes=["basic"])
    assert fits_within(basic, model(LOGISTIC, "1", "3e-7")) == 3  # all of delta


@pytest.mark.parametrize(("epsilon", "delta"), [("0.05", "1e-9"), ("0.3", "1e-6"), ("2", "1e-5")])
def test_only_what_the_profile_proves_is_charged(epsilon: str, delta: str) -> None:
    claims = model(LOGISTIC, epsilon, delta)
    charge = Rule.for_budget(ApproxDP(3, "1e-6"), routes=SIDE_BY_SIDE).charge(claims)
    profile = next(c for c in claims if hasattr(c, "remove"))
    assert charge.epsilon is not None
    assert charge.delta_items > 0
    assert profile.delta(amount_of(charge.epsilon)) <= amount_of(charge.delta_items)


def test_the_pool_never_ends_what_another_route_allows() -> None:
    rule = Rule.for_budget(ApproxDP(3, "1e-6"), routes=SIDE_BY_SIDE)
    for epsilon, delta in (("0.1", "1e-7"), ("0.2", "1e-6"), ("1", "1e-5")):
        charge = rule.charge(model(LOGISTIC, epsilon, delta))
        assert charge.rho is not None
        assert F(charge.delta_items, rule.pool) <= F(charge.rho, rule.capacity("zcdp"))


def test_a_gaussian_keeps_the_sum_of_epsilons_open_only_if_it_declares_an_item() -> None:
    rule = Rule.for_budget(ApproxDP(3, "1e-6"), routes=SIDE_BY_SIDE)
    assert rule.charge(Claims.of(GDP("0.1"))).epsilon is None
    both = rule.charge(Claims.of(GDP("0.1"), ApproxDP("0.5", "1e-3")))
    assert both.epsilon is not None
    assert implies(GDP("0.1"), ApproxDP(amount_of(both.epsilon), amount_of(both.delta_items)))


def test_finite_renyi_orders_are_charged_at_a_delta() -> None:
    rule = Rule.for_budget(ApproxDP(3, "1e-6"), routes=SIDE_BY_SIDE)
    orders = Claims.of(RDP({2: "0.02", 8: "0.08", 32: "0.32"}))
    charge = rule.charge(orders)
    assert charge.epsilon is not None
    found = orders.approx_at(amount_of(charge.delta_items))
    assert found is not None
    assert 0 <= amount_of(charge.epsilon) - found.epsilon <= F(1, 10**30)
    assert rule.grants(Totals.zero(), charge)


def test_what_cannot_be_counted_says_what_would() -> None:
    with pytest.raises(ClaimError, match="ApproxDP\\(epsilon, delta\\) counts every kind"):
        Rule.for_budget(ZCDP("0.1")).charge(Claims.of(ApproxDP(1, "1e-7")))
    rule = Rule.for_budget(ApproxDP(1, "1e-6"), routes=SIDE_BY_SIDE)
    short = find_shortfall(rule, Totals.zero(), rule.charge(model(LOGISTIC, "1", "1e-6")))
    assert "at δ 4e-7" in short.requested
    assert "routes=['basic']" in short.remaining
    alone = Rule.for_budget(ApproxDP(1, "1e-6"), routes=["basic"])
    assert fits_within(alone, model(LOGISTIC, "1", "1e-6")) == 1


@pytest.mark.parametrize(
    ("epsilon", "delta", "budget", "count"),
    [
        ("1", "1e-6", ("1", "1e-6"), 1),
        ("1.25", "1e-6", ("7.5", "6e-6"), 6),
        ("1", "1e-6", ("10", "1e-5"), 10),
        ("0.5", "1e-7", ("5", "1e-6"), 10),
        ("1", "2.5e-6", ("3", "7.5e-6"), 3),
    ],
)
def test_gaussian_queries_fit_as_their_prices_add_up(
    epsilon: str, delta: str, budget: tuple[str, str], count: int
) -> None:
    """With the basic route alone n queries of (e, d) fit a budget of (n e, n d), though the claim is a mu."""
    claims = Claims.of(GDP(gdp_within(F(epsilon), F(delta))))
    rule = Rule.for_budget(ApproxDP(*budget), routes=["basic"])
    assert fits_within(rule, claims) >= count
    charge = rule.charge(claims)
    assert charge.epsilon is not None
    # privacy: what is charged holds
    proved = claims.approx_at(amount_of(charge.delta_items))
    assert proved is not None
    assert proved.epsilon <= amount_of(charge.epsilon)


def test_a_gaussian_query_is_read_where_it_takes_least_of_the_scarcer_budget() -> None:
    """A wide pool of delta buys epsilon: six queries of (1.25, 1e-6) charge less than 7.5, and more delta than 6e-6."""
    claims = Claims.of(GDP(gdp_within(F("1.25"), F("1e-6"))))
    rule = Rule.for_budget(ApproxDP(10, "1e-4"), routes=["basic"])
    charge = rule.charge(claims)
    assert charge.epsilon is not None
    share = max(amount_of(charge.epsilon) / 10, amount_of(charge.delta_items) / F("1e-4"))
    assert amount_of(charge.epsilon) < F("1.25")
    assert amount_of(charge.delta_items) > F("1e-6")
    for delta in ("1e-6", "2e-6", "6e-6", "2e-5", "1e-4"):
        point = claims.approx_at(F(delta))
        assert point is not None
        assert share <= max(point.epsilon / 10, F(delta) / F("1e-4"))
