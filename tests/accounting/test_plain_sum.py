"""A default (epsilon, delta) budget grants what the sum of the declared prices grants, and what T10 and T12 add."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.budget_histories import refused_though_the_sum_fits

from sidelight.accounting import Charge, Rule, Totals, amount_of, find_remaining, find_shortfall, find_spent
from sidelight.guarantees import GDP, ZCDP, ApproxDP, BoundedRange, Claims, PureDP
from sidelight.guarantees.conversions import gdp_within

F = Fraction
BUDGET = ApproxDP(3, "1e-6")


def gaussian(epsilon: str, delta: str) -> Claims:
    return Claims.of(GDP(gdp_within(F(epsilon), F(delta))))


def asked(rule: Rule, totals: Totals, claims: Claims, *, delta: object = None) -> Totals | None:
    charge = rule.charge(claims, totals=totals, delta=delta)  # type: ignore[arg-type]
    if not rule.grants(totals, charge):
        return None
    assert Charge.from_json(charge.to_json()) == charge
    after = totals.plus(charge)
    assert Totals.from_json(after.to_json()) == after
    return after


def test_one_gaussian_release_does_not_close_the_sum() -> None:
    """Quantiles at 1, a covariance at (0.5, 1e-7), quantiles at 1: 2.5 of 3."""
    rule, totals = Rule.for_budget(BUDGET), Totals.zero()
    for claims, delta in (
        (Claims.of(PureDP(1)), None),
        (gaussian("0.5", "1e-7"), "1e-7"),
        (Claims.of(PureDP(1)), None),
    ):
        after = asked(rule, totals, claims, delta=delta)
        assert after is not None
        totals = after
    assert "declared sums are at most ε = 0.5, with δ up to 9e-7" in str(find_remaining(rule, totals))
    assert find_spent(rule, totals).basic is not None


@pytest.mark.parametrize(
    ("claims", "delta"),
    [(gaussian("0.5", "1e-7"), "1e-7"), (Claims.of(GDP("0.3")), None), (Claims.of(ApproxDP(1, "1e-7")), None)],
)
def test_what_is_booked_can_be_verified_from_the_claims_alone(claims: Claims, delta: str | None) -> None:
    rule = Rule.for_budget(BUDGET)
    for charge in rule.charges(claims, delta=delta):
        assert rule.proves(charge, claims)
        if charge.epsilon:
            assert not rule.proves(dataclasses.replace(charge, epsilon=charge.epsilon * 9 // 10), claims)


def test_no_random_history_is_refused_though_its_sum_fits() -> None:
    assert refused_though_the_sum_fits(21, histories=40) == 0


def test_routes_side_by_side_do_refuse_some() -> None:
    """The control: with routes named, a part of delta is set aside and the same histories are refused."""
    rule = Rule.for_budget(BUDGET, routes=["basic", "gdp", "zcdp"])
    assert asked(rule, Totals.zero(), Claims.of(ApproxDP(1, "1e-6"))) is None


def test_what_is_not_declared_composes_the_rest() -> None:
    """The mixed example: an exponential mechanism of 0.2, then Gaussians by mu; the sum is fixed from there on."""
    rule = Rule.for_budget(BUDGET)
    totals: Totals | None = Totals.zero()
    for claim in (BoundedRange(0.2), GDP.from_squares(0.1), GDP.from_squares(0.2)):
        assert totals is not None
        totals = asked(rule, totals, Claims.of(claim))
    assert totals is not None
    assert totals.composed is not None
    assert amount_of(totals.epsilon) == F("0.2")
    rest = rule.rest(totals)
    assert rest is not None
    assert (rest.budget.epsilon, rest.budget.delta) == (F("2.8"), F("1e-6"))  # type: ignore[union-attr]
    plain = rule.charges(Claims.of(PureDP("0.1")))[0]
    assert not plain.composed
    assert not rule.grants(totals, plain)
    assert rule.rest(dataclasses.replace(Totals.zero(), epsilon=3 * 10**30)) is None  # nothing is left to compose


def test_routes_begin_beside_the_sum_with_the_first_gaussian_and_never_with_an_item() -> None:
    rule = Rule.for_budget(BUDGET)
    after = asked(rule, Totals.zero(), gaussian("1", "1e-6"), delta="1e-6")
    assert after is not None
    assert after.beside is not None
    assert F("1e-8") < amount_of(after.beside.delta) <= F("1e-6") / 2 / (1 + F(math.exp(2)))
    more = 1
    while (next_one := asked(rule, after, gaussian("1", "1e-6"), delta="1e-6")) is not None:
        after, more = next_one, more + 1
    assert more >= 4  # the sum alone grants one
    item = asked(rule, Totals.zero(), Claims.of(ApproxDP(1, "1e-7")))
    assert item is not None
    assert item.beside is None
    forged = dataclasses.replace(rule.charges(Claims.of(ApproxDP(1, "1e-7")))[0], beside=10**20)
    assert not rule.proves(forged, Claims.of(ApproxDP(1, "1e-7")))


@pytest.mark.parametrize(("mu", "d", "spent"), [("1e-6", "3.9e-7", None), ("1e-7", "5e-7", "3")])
def test_the_event_that_begins_is_counted_by_its_own_law(mu: str, d: str, spent: str | None) -> None:
    """An event with epsilon below mu, not bounded by the rho of its randomised response."""
    rule, claims = Rule.for_budget(BUDGET), Claims.of(GDP(mu))
    totals = Totals.zero() if spent is None else asked(rule, Totals.zero(), Claims.of(PureDP(spent)))
    assert totals is not None
    charge = rule.charge(claims, totals=totals, delta=d)
    assert charge.beside
    assert amount_of(charge.rho or 0) == F(mu) ** 2 / 2
    assert amount_of(charge.mu_squared or 0) == F(mu) ** 2
    assert rule.proves(charge, claims)
    for name in ("rho", "mu_squared"):
        forged = dataclasses.replace(charge, **{name: getattr(charge, name) * 9 // 10})
        assert not rule.proves(forged, claims)
    assert not Rule.for_budget(BUDGET, routes=["basic", "gdp", "zcdp"]).proves(charge, claims)
    after = totals.plus(charge)  # once the sum is exhausted, the parallel routes continue
    assert asked(rule, after, Claims.of(GDP("1e-9"))) is not None


def test_more_delta_beside_the_sum_than_an_event_leaves_is_refused() -> None:
    rule = Rule.for_budget(BUDGET)
    charge = rule.charge(gaussian("1", "1e-6"), totals=Totals.zero(), delta="1e-6")
    assert charge.beside
    assert rule.grants(Totals.zero(), charge)
    assert not rule.grants(Totals.zero(), dataclasses.replace(charge, beside=2 * charge.beside))


def test_a_rule_cannot_keep_the_sum_and_go_beyond_it_after_pure_events() -> None:
    """T11 in numbers: thirty randomised responses of 0.1, and one more if all were truthful."""
    p = (math.exp(0.1) / (1 + math.exp(0.1))) ** 30
    assert (1 - p) * 1e-6 + p * math.tanh(0.05) > 1e-6 * 1.0002
    rule, totals = Rule.for_budget(BUDGET), Totals.zero()
    for _ in range(30):
        totals = asked(rule, totals, Claims.of(PureDP("0.1"))) or totals
    assert amount_of(totals.epsilon) == 3
    assert asked(rule, totals, Claims.of(PureDP("0.1"))) is None


# --- an adversary that chooses after the first Gaussian between the sum and the parallel routes ---


def _gaussian_delta(mu: float, x: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr

    return np.asarray(ndtr(mu / 2 - x / mu) - np.exp(x) * ndtr(-mu / 2 - x / mu))


def _response(r: float, x: np.ndarray) -> np.ndarray:
    """The profile of randomised response at x."""
    inside = (math.exp(r) - np.exp(x)) / (1 + math.exp(r))
    return np.where(x > r, 0.0, np.where(x < -r, -np.expm1(x), inside))


def _reached(rule: Rule, after: Totals, epsilon: float, delta: float, first: float, paid: float, spent: float) -> float:
    """The largest H_E: after the first loss take, at every point, the better of a reveal with RR and of a Gaussian."""
    found = rule.beside(after)
    assert found is not None
    beside, seen = found
    lines = dict(beside.capacities)
    left = max(float(amount_of(lines["gdp"] - seen.mu_squared)), 2 * float(amount_of(lines["zcdp"] - seen.rho)))
    loss = np.linspace(first**2 / 2 - 9 * first, first**2 / 2 + 9 * first, 20001)
    weight = np.exp(-((loss - first**2 / 2) ** 2) / (2 * first**2)) / (first * math.sqrt(2 * math.pi))
    reveal = delta - paid
    by_sum = reveal + (1 - reveal) * _response(epsilon - spent, epsilon - loss)
    best = np.maximum(by_sum, _gaussian_delta(math.sqrt(max(left, 1e-12)), epsilon - loss))
    return float(np.trapezoid(weight * best, loss))


@pytest.mark.parametrize(("e", "d"), [("0.5", "1e-6"), ("1", "5e-7"), ("0.5", "1e-7")])
def test_the_adversary_stays_within_the_budget(e: str, d: str) -> None:
    """Integrals for E = 3, d = 1e-6; an unsplit delta for all routes fails."""
    rule = Rule.for_budget(BUDGET)
    mu = gdp_within(F(e), F(d))
    after = Totals.zero().plus(rule.charge(Claims.of(GDP(mu)), totals=Totals.zero(), delta=d))
    assert after.beside is not None
    reached = _reached(rule, after, 3.0, 1e-6, float(mu), float(F(d)), float(F(e)))
    wide = dataclasses.replace(after, beside=dataclasses.replace(after.beside, delta=10**24))
    assert 0.5e-6 < reached <= 1e-6
    assert _reached(rule, wide, 3.0, 1e-6, float(mu), float(F(d)), float(F(e))) > 1.05e-6


def test_shortfalls_speak_of_the_sum() -> None:
    rule = Rule.for_budget(BUDGET)
    totals = asked(rule, Totals.zero(), Claims.of(PureDP("2.5")))
    assert totals is not None
    short = find_shortfall(rule, totals, rule.charge(Claims.of(PureDP(1)), totals=totals))
    assert short.requested.startswith("ε 1")
    assert short.remaining.startswith("ε 0.5")
    assert find_remaining(rule, totals).epsilon == F("0.5")
    assert asked(rule, totals, Claims.of(ZCDP("0.001"))) is not None
