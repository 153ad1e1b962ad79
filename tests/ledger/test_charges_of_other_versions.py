"""A version may choose another (epsilon, delta) of an event than the one before: what was written stays valid."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from sidelight.accounting import Charge, Rule, prices
from sidelight.guarantees import GDP, RDP, ZCDP, ApproxDP, Claims, PureDP
from sidelight.ledger import open_ledger

EVENTS = (
    Claims.of(GDP("0.02")),
    Claims.of(ZCDP("0.0002")),
    Claims.of(RDP({2: "0.002", 8: "0.008", 32: "0.032", 128: "0.128"})),
)
RULES = (
    Rule.for_budget(ApproxDP(1, "1e-6"), routes=["basic"]),
    Rule.for_budget(ApproxDP(1, "1e-6"), routes=["basic", "zcdp"]),
    Rule.for_budget(ApproxDP(1, "1e-6")),
)


def priced_at(rule: Rule, claims: Claims, delta: str) -> Charge:
    """Return what another version would have charged that reads the claims at this delta."""
    item = claims.approx_at(delta)
    assert item is not None
    return rule.charge(Claims.of(*claims, item) if rule.routes != ("basic",) else Claims.of(item))


@pytest.mark.parametrize("claims", EVENTS, ids=["gdp", "zcdp", "renyi"])
@pytest.mark.parametrize("rule", RULES, ids=["basic", "basic and zcdp", "all"])
@pytest.mark.parametrize("delta", ["1e-7", "1.25e-7", "3.9e-9"])
def test_every_pair_that_holds_may_have_been_charged(rule: Rule, claims: Claims, delta: str) -> None:
    charge = priced_at(rule, claims, delta)
    assert rule.proves(charge, claims)


@pytest.mark.parametrize("claims", EVENTS, ids=["gdp", "zcdp", "renyi"])
@pytest.mark.parametrize("delta", ["1e-7", "1.25e-7", "3.9e-9"])
def test_a_quantum_less_was_never_a_price(claims: Claims, delta: str) -> None:
    rule = RULES[0]
    charge = priced_at(rule, claims, delta)
    assert charge.epsilon is not None
    assert not rule.proves(replace(charge, epsilon=charge.epsilon - 1), claims)
    assert not rule.proves(replace(charge, delta_items=charge.delta_items // 2), claims)
    assert not rule.proves(replace(charge, delta_items=0), claims)


def test_a_delta_buys_nothing_below_what_the_claims_prove() -> None:
    rule, claims = RULES[2], Claims.of(PureDP("0.1"))
    charge = rule.charge(claims)
    assert charge.epsilon is not None
    assert charge.rho is not None
    bought = replace(charge, delta_items=10**23)
    assert rule.proves(bought, claims)  # more delta than it costs
    assert not rule.proves(replace(bought, epsilon=charge.epsilon // 2), claims)
    assert not rule.proves(replace(bought, rho=charge.rho // 2), claims)


def test_a_ledger_of_an_earlier_choice_verifies_and_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = EVENTS[0]

    def halves(claims: Claims, *, pool: Fraction, **_: object) -> ApproxDP | None:
        return claims.approx_at(pool / 8)

    with open_ledger(tmp_path / "old.db") as old:
        scope = old.open_scope("a", budget=ApproxDP(1, "1e-6"), routes=["basic"])
        with monkeypatch.context() as earlier:
            earlier.setattr(prices, "chosen_item", halves)
            scope.reserve(claims, request={"kind": "test"}, key="first").release("{}")
        before = scope.totals()
        assert before.delta_items != scope.rule.charge(claims).delta_items, "the control: both versions choose alike"
        assert old.verify().ok, str(old.verify())
        assert old.verify(rederive=lambda _: claims).ok
        assert not old.verify(rederive=lambda _: Claims.of(GDP("0.03"))).ok
        old.export(tmp_path / "old.jsonl")
    with open_ledger(tmp_path / "new.db") as new:
        target = new.open_scope("a", budget=ApproxDP(1, "1e-6"), routes=["basic"])
        assert new.import_events(tmp_path / "old.jsonl").booked == 1
        charge = target.rule.charge(claims)
        assert (target.totals().epsilon, target.totals().delta_items) == (charge.epsilon, charge.delta_items)


def test_a_budget_of_delta_alone_prices_a_gaussian() -> None:
    rule = Rule.for_budget(ApproxDP(0, "1e-6"), routes=["basic"])
    charge = rule.charge(EVENTS[0])
    assert charge.epsilon is not None
    assert charge.epsilon > 0
    assert charge.delta_items == rule.pool
