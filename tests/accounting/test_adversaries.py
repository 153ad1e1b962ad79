"""The best adaptive policy against every rule, found exactly; and against rules with a planted mistake, which it beats.

Budgets have a large delta, so that every policy has a probability that a float can tell from nothing.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from fractions import Fraction

import pytest
from adversary import Law, gaussian, greedy, item, largest_delta, response, responses

from sidelight.accounting import Charge, Rule, Totals, amount_of
from sidelight.accounting.charges import capacity_quanta
from sidelight.accounting.filters import _rule_of
from sidelight.errors import SidelightWarning
from sidelight.guarantees import ApproxDP, Claims
from sidelight.guarantees.conversions import gdp_within, zcdp_within

F = Fraction
E, D = F(2), F("0.01")
SIDE_BY_SIDE = ("basic", "gdp", "zcdp")


@pytest.fixture(autouse=True)
def _large_deltas_are_meant() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SidelightWarning)
        yield


def laws(epsilon: Fraction, delta: Fraction) -> tuple[Law, ...]:
    """Gaussian releases that declare a pair, a sum of responses with its exact pair, and a response."""
    pairs = ((F("0.1"), delta), (F("0.2"), delta / 2), (F("0.5"), delta), (F("0.9"), delta))
    declared = [gaussian(gdp_within(part * epsilon, paid), paid) for part, paid in pairs]
    return (response(epsilon / 2), responses(4, epsilon / 5, epsilon / 2), *declared)


def reached(rule: Rule, *, steps: int = 2, swapped: bool = False) -> float:
    """The largest delta, in parts of the budget's."""
    budget = rule.budget
    assert isinstance(budget, ApproxDP)
    menu = greedy(*laws(budget.epsilon, budget.delta))
    return largest_delta(rule, menu, steps=steps, swapped=swapped) / float(budget.delta)


@pytest.mark.parametrize("swapped", [False, True], ids=["P", "Q"])
@pytest.mark.parametrize(("epsilon", "delta"), [("2", "0.01"), ("1", "0.05"), ("0.5", "0.1")])
def test_no_policy_exceeds_the_budget(epsilon: str, delta: str, swapped: bool) -> None:
    rule = Rule.for_budget(ApproxDP(epsilon, delta))
    assert 0.999 < reached(rule, swapped=swapped) <= 1 + 1e-9


@pytest.mark.parametrize("swapped", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["P", "Q"])
def test_no_policy_of_three_steps_exceeds_it(swapped: bool) -> None:
    assert 0.999 < reached(Rule.for_budget(ApproxDP(E, D)), steps=3, swapped=swapped) <= 1 + 1e-9


@pytest.mark.parametrize("swapped", [False, True], ids=["P", "Q"])
def test_no_policy_exceeds_routes_side_by_side(swapped: bool) -> None:
    rule = Rule.for_budget(ApproxDP(E, D), routes=SIDE_BY_SIDE)
    assert 0.3 < reached(rule, swapped=swapped) <= 1 + 1e-9


# --- planted mistakes, one or more a theorem ---


class Unsplit(Rule):
    """T7: each route and the items have all of delta."""

    @classmethod
    def made(cls) -> Rule:
        capacities = (
            ("basic", capacity_quanta(E)),
            ("gdp", capacity_quanta(gdp_within(E, D) ** 2)),
            ("zcdp", capacity_quanta(zcdp_within(E, D))),
        )
        split = cls.for_budget(ApproxDP(E, D), routes=SIDE_BY_SIDE)
        return replace(split, capacities=capacities, pool=capacity_quanta(D))


class Forgetful(Rule):
    """T8: deltas of items are not added up."""

    @classmethod
    def made(cls) -> Rule:
        return cls.for_budget(ApproxDP(E, D), routes=["basic"])

    def grants(self, totals: Totals, charge: Charge) -> bool:
        return super().grants(replace(totals, delta_items=0), charge)


class WholeRest(Rule):
    """T10: what was added up is not taken off epsilon."""

    def rest(self, totals: Totals) -> Rule | None:
        del totals
        assert isinstance(self.budget, ApproxDP)
        return _rule_of(self.budget, self.routes, self.shares)


class WholeDelta(Rule):
    """T10: what was added up is not taken off delta."""

    def rest(self, totals: Totals) -> Rule | None:
        assert isinstance(self.budget, ApproxDP)
        left = self.budget.epsilon - amount_of(totals.epsilon)
        return _rule_of(ApproxDP(left, self.budget.delta), self.routes, self.shares) if left > 0 else None


class Both(Rule):
    """T11: all plain sums, with the zCDP and GDP routes in parallel from the start."""

    def holds(self, totals: Totals) -> bool:
        return totals.composed is None and (self._sum_holds(totals) or self._within(totals))

    def charge(self, claims: Claims, *, totals: Totals | None = None, delta: object = None) -> Charge:
        before = totals or Totals.zero()
        plain = [charge for charge in self.charges(claims, delta=delta) if not charge.composed]  # type: ignore[arg-type]
        return next((charge for charge in plain if self.grants(before, charge)), plain[0])


class AllOfIt(Rule):
    """T12: parallel routes that get all of the delta that the event paid."""

    def _left(self, before: Totals, after: Totals) -> int:
        return after.delta_items - before.delta_items if super()._left(before, after) else 0


class NotCounted(AllOfIt):
    """T12: and do not count the event itself."""

    def beside(self, totals: Totals) -> tuple[Rule, Totals] | None:
        found = super().beside(totals)
        return None if found is None else (found[0], replace(found[1], rho=0, mu_squared=0))


@pytest.mark.planted("a rule of the ledger that adds up too little")
@pytest.mark.parametrize("swapped", [False, True], ids=["P", "Q"])
@pytest.mark.parametrize(
    ("wrong", "least"),
    [(Unsplit, 1.02), (Forgetful, 1.5), (WholeRest, 10), (WholeDelta, 1.1), (AllOfIt, 1.05), (NotCounted, 1.05)],
)
def test_a_planted_mistake_is_found(wrong: type[Rule], least: float, swapped: bool) -> None:
    made = getattr(wrong, "made", lambda: wrong.for_budget(ApproxDP(E, D)))()
    assert reached(made, swapped=swapped) > least


def test_a_rule_that_keeps_the_sum_and_goes_beyond_it_is_found() -> None:
    """T11: small responses that use up the sum, then more of them or a reveal."""
    epsilon, delta, number = F("0.5"), F("0.005"), 8

    def menu(rule: Rule, totals: Totals) -> list[Law]:
        del rule
        reveal = delta - amount_of(totals.delta_items)
        left = epsilon - amount_of(totals.epsilon)
        return [response(epsilon / number), *([item(left, reveal)] if reveal > 0 and left >= 0 else [])]

    budget = ApproxDP(epsilon, delta)
    found = [largest_delta(kind.for_budget(budget), menu, steps=number + 4) / float(delta) for kind in (Rule, Both)]
    assert 0.999 < found[0] <= 1 + 1e-9
    assert found[1] > 1.005
