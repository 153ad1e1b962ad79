"""Exact totals: nothing is lost, nothing drifts, equality grants."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import reduce
from itertools import repeat
from operator import add

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.accounting import Rule, Totals, amount_of, capacity_quanta, charge_quanta
from sidelight.accounting.charges import quanta_from_text
from sidelight.errors import RangeError
from sidelight.guarantees import Claims, PureDP

F = Fraction


@given(st.fractions(min_value=0, max_value=10**6))
def test_directed_rounding(x: Fraction) -> None:
    assert amount_of(charge_quanta(x)) >= x > amount_of(charge_quanta(x)) - amount_of(1) or x == 0
    assert amount_of(capacity_quanta(x)) <= x < amount_of(capacity_quanta(x)) + amount_of(1)


def test_a_tiny_charge_is_never_lost() -> None:
    assert charge_quanta(F(1, 10**40)) == 1
    assert capacity_quanta(F(1, 10**40)) == 0
    assert charge_quanta(F(0)) == 0


def test_a_million_charges_are_exactly_one() -> None:
    rule = Rule.for_budget(PureDP(1))
    charge = rule.charge(Claims.of(PureDP("1e-6")))
    assert charge.epsilon is not None
    assert charge.epsilon * 10**6 == rule.capacity("basic")
    assert reduce(add, repeat(1e-6, 10**6)) != 1.0  # what adding floats one by one does


def test_ten_tenths_fit_and_nothing_more() -> None:
    rule, totals = Rule.for_budget(PureDP(1)), Totals.zero()
    charge = rule.charge(Claims.of(PureDP(0.1)))
    for _ in range(10):
        assert rule.grants(totals, charge)
        totals = totals.plus(charge)
    assert not rule.grants(totals, rule.charge(Claims.of(PureDP("1e-17"))))
    assert not rule.grants(totals, rule.charge(Claims.of(PureDP("1e-40"))))
    assert 1 + 1e-17 == 1  # a float total would grant them for ever


def test_a_tenth_and_two_tenths_are_three_tenths() -> None:
    rule = Rule.for_budget(PureDP(0.3))
    totals = Totals.zero().plus(rule.charge(Claims.of(PureDP(0.1)))).plus(rule.charge(Claims.of(PureDP(0.2))))
    assert rule.holds(totals)
    assert not 0.1 + 0.2 <= 0.3


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32))
def test_any_order_gives_the_same_total(seed: int) -> None:
    generator = random.Random(seed)
    rule = Rule.for_budget(PureDP(10))
    amounts = [F(generator.randint(1, 10**12), 10 ** generator.randint(12, 40)) for _ in range(10)] * 1000
    charges = {a: rule.charge(Claims.of(PureDP(a))) for a in set(amounts)}
    seen = set()
    for _ in range(2):
        generator.shuffle(amounts)
        totals = Totals.zero()
        for a in amounts:
            totals = totals.plus(charges[a])
        seen.add(totals)
    assert len(seen) == 1


def test_text_of_quanta() -> None:
    assert quanta_from_text("100") == 100
    for bad in ("", "-1", "1.0", "1e3", "١"):
        with pytest.raises(RangeError):
            quanta_from_text(bad)
    with pytest.raises(RangeError):
        charge_quanta(F(-1))
