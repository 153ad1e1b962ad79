"""The partial order: it never claims more than a conversion proves, and it is one."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.guarantees import (
    GDP,
    RDP,
    ZCDP,
    ApproxCurve,
    ApproxDP,
    BoundedRange,
    BoundedRangeCurve,
    Claim,
    Event,
    HingedGaussianCurve,
    Neighbours,
    Person,
    Profile,
    PureDP,
    ZCDPCurve,
    implies,
)

F = Fraction
amounts = st.fractions(min_value=F(1, 100), max_value=4, max_denominator=100)
simple = st.one_of(
    st.builds(PureDP, amounts),
    st.builds(BoundedRange, amounts),
    st.builds(ZCDP, amounts),
    st.builds(GDP, amounts),
    st.builds(ApproxDP, amounts, st.fractions(min_value=F(1, 1000), max_value=F(1, 2), max_denominator=1000)),
)


@pytest.mark.parametrize(
    ("a", "b", "holds"),
    [
        (PureDP(1), PureDP(1), True),
        (PureDP(1), PureDP("0.99"), False),
        (BoundedRange(1), PureDP(1), True),
        (PureDP(1), BoundedRange(1), False),
        (PureDP(1), BoundedRange(2), True),
        (GDP(1), ZCDP("0.5"), True),
        (ZCDP("0.5"), GDP(1), False),
        (ZCDP("0.5"), GDP(100), False),
        (PureDP(1), ZCDP("0.46211716"), True),
        (PureDP(1), ZCDP("0.46211715"), False),
        (BoundedRange(1), ZCDP("0.125"), True),
        (BoundedRange(1), GDP("0.6238925922"), True),
        (BoundedRange(1), GDP("0.6238925920"), False),
        (GDP(1), ApproxDP("4.37717809569", "1e-5"), True),
        (GDP(1), ApproxDP("4.37717809567", "1e-5"), False),
        (PureDP(1), ApproxDP("0.5", "0.28764914"), True),
        (PureDP(1), ApproxDP("0.5", "0.28764913"), False),
        (ApproxDP(1, "1e-7"), ApproxDP("0.5", "0.28764921"), True),
        (ApproxDP(1, "1e-7"), PureDP(5), False),
        (ApproxDP(1, "1e-7"), GDP(5), False),
        (GDP(1), PureDP(1000), False),
        (PureDP(1), RDP({2: "0.8", 8: "0.99"}), True),
        (PureDP(1), RDP({2: "0.1"}), False),
        (ZCDP("0.1"), RDP({2: "0.2", 3: "0.3"}), True),
        (RDP({2: "0.2", 3: "0.3"}), ZCDP("0.2"), False),
        (RDP({2: "0.2", 3: "0.3"}), RDP({2: "0.2"}), True),
        (RDP({3: "0.3"}), RDP({2: "0.3"}), True),
        (RDP({2: "0.3"}), RDP({3: "9"}), False),
        (RDP({8: "0.4"}), ApproxDP(3, "1e-6"), True),
        (BoundedRange(1), Profile(ApproxCurve(F(1)), ApproxCurve(F(1))), True),
        (GDP(1), Profile(HingedGaussianCurve(F(2)), HingedGaussianCurve(F(1))), True),
        (GDP(1), Profile(HingedGaussianCurve(F(2)), HingedGaussianCurve(F(1, 2))), False),
        (GDP(1), Profile(ZCDPCurve(F(1, 2)), ZCDPCurve(F(1, 2))), True),
        (ApproxDP(1, "0.01"), Profile(ApproxCurve(F(2), F("0.01")), ApproxCurve(F(2), F("0.01"))), True),
        (RDP({2: 1}), Profile(BoundedRangeCurve(F(9)), BoundedRangeCurve(F(9))), False),
        (Profile(HingedGaussianCurve(F(1, 4)), HingedGaussianCurve(F(1, 4))), ApproxDP(1, "0.01"), True),
    ],
    ids=str,
)  # fmt: skip
def test_pairs(a: Claim, b: Claim, holds: bool) -> None:
    assert implies(a, b) is holds


@given(simple)
def test_reflexive(a: Claim) -> None:
    assert implies(a, a)


@settings(max_examples=300, deadline=None)
@given(simple, simple, simple)
def test_transitive(a: Claim, b: Claim, c: Claim) -> None:
    if implies(a, b) and implies(b, c):
        assert implies(a, c)


@settings(max_examples=200, deadline=None)
@given(simple, simple)
def test_a_stronger_claim_gives_a_smaller_delta(a: Claim, b: Claim) -> None:
    from sidelight.guarantees.implications import delta_of

    if implies(a, b):
        for x in (F(0), F(1, 2), F(2)):
            mine, theirs = delta_of(a, x), delta_of(b, x)
            assert mine is not None
            assert theirs is not None
            assert mine <= theirs + F("1e-9")


def test_context_must_match() -> None:
    assert not implies(PureDP(1, unit=Event()), PureDP(2))
    assert not implies(PureDP(1, unit=Person("id", 2)), PureDP(2))
    assert not implies(PureDP(1, audience="observers_only"), PureDP(2))
    assert not implies(PureDP(1, numerics="idealized"), PureDP(2))
    assert implies(PureDP(1), PureDP(2, numerics="idealized"))
    assert not implies(PureDP(1, neighbours=Neighbours.LOCAL), PureDP(2))


def test_replace_follows_from_add_remove_and_not_back() -> None:
    swap = {"neighbours": Neighbours.REPLACE}
    assert implies(PureDP(1), PureDP(2, **swap))
    assert not implies(PureDP(1), PureDP("1.9", **swap))
    assert implies(ZCDP("0.1"), ZCDP("0.4", **swap))
    assert implies(GDP("0.1"), GDP("0.2", **swap))
    assert implies(ApproxDP(1, "1e-6"), ApproxDP(2, "3.718281829e-6", **swap))
    assert not implies(PureDP("0.001", **swap), PureDP(100))
