"""What is printed of a guarantee holds: promises are rounded up, the rarity of a failure down."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.guarantees import GDP, ZCDP, ApproxDP, Claims, PureDP
from sidelight.guarantees.amounts import bound_text
from sidelight.report.words import promise

AMOUNTS = st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(10**6))
BILLIONTH = Fraction(1, 10**9)


@given(AMOUNTS)
def test_a_printed_amount_is_at_least_the_promised_one(amount: Fraction) -> None:
    printed = Fraction(bound_text(amount))
    assert amount <= printed * (1 + BILLIONTH)
    assert printed <= amount * (1 + Fraction(2, 10**5))
    assert bound_text(printed) == bound_text(Fraction(bound_text(printed)))


def test_claims_are_printed_so() -> None:
    third = Fraction(1, 3)
    assert [str(claim) for claim in (PureDP(third), ZCDP(third), GDP(third), ApproxDP(third, third / 10**7))] == [
        "PureDP(ε = 0.333334)",
        "ZCDP(ρ = 0.333334)",
        "GDP(μ = 0.333334)",
        "ApproxDP(ε = 0.333334, δ = 3.33334e-8)",
    ]
    assert str(PureDP("0.1")) == "PureDP(ε = 0.1)"
    assert str(GDP(2 + Fraction(1, 10**12))) == "GDP(μ = 2)"
    assert bound_text(Fraction(1, 3 * 10**400)).startswith("1/3")


@pytest.mark.parametrize("epsilon", ["1e-9", "0.001", "0.004", "0.03", "0.25", "0.7", "1", "2.3", "5", "9.99"])
def test_factors_and_beliefs_in_words_are_not_below_what_is_proved(epsilon: str) -> None:
    told = promise(Claims.of(PureDP(epsilon)))
    found = re.search(r"more than ([\d,.]+) times", told.plain)
    assert found is not None
    factor = math.exp(float(epsilon))
    said = float(found[1].replace(",", ""))
    assert factor <= said * (1 + 1e-9)
    assert said <= factor * 1.011
    for belief in told.beliefs:
        after = belief.before * factor / (belief.before * factor + 1 - belief.before)
        assert after <= float(f"{100 * belief.after:.1f}") / 100 * (1 + 1e-9)


@pytest.mark.parametrize("delta", ["1e-6", "1.4e-6", "3e-6", "0.0013987", "1/299999999"])
def test_a_failure_is_not_called_rarer_than_it_is(delta: str) -> None:
    told = promise(Claims.of(ApproxDP(1, delta))).caveat
    found = re.search(r"at most ([\d.e-]+), one in ([\d,]+)", told)
    assert found is not None
    exact = Fraction(delta)
    assert Fraction(found[1]) * (1 + BILLIONTH) >= exact
    assert Fraction(1, int(found[2].replace(",", ""))) >= exact
