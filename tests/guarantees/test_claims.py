"""Claims as values: construction, text, JSON, sets, natives."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import (
    GDP,
    RDP,
    ZCDP,
    ApproxCurve,
    ApproxDP,
    BoundedRange,
    Claims,
    Event,
    HingedGaussianCurve,
    Neighbours,
    Person,
    Profile,
    PureDP,
    Row,
    claim_from_json,
    claim_to_json,
    native_claims,
    parse_claim,
    to_replace,
    unit_from_text,
    unit_to_text,
)

F = Fraction
ALL = [
    PureDP(0.5),
    BoundedRange("1/3"),
    ZCDP("0.05"),
    GDP("0.24"),
    ApproxDP(3, 1e-6),
    RDP({2: "0.1", 16: "0.9"}),
    Profile(HingedGaussianCurve(F(1, 4), F("0.05")), HingedGaussianCurve(F(1, 4))),
]


def test_text() -> None:
    assert str(PureDP(0.5)) == "PureDP(ε = 0.5)"
    assert str(ApproxDP(3, 1e-6)) == "ApproxDP(ε = 3, δ = 1e-6)"
    assert str(GDP(0.25, unit=Person("id", 3), neighbours=Neighbours.REPLACE, numerics="idealized")) == (
        "GDP(μ = 0.25; replace one, unit: person (id, at most 3 rows), idealized)"
    )
    assert repr(ZCDP("0.05")) == "ZCDP(rho=0.05)"


def test_zero_delta_becomes_pure() -> None:
    claim = ApproxDP(1, 0, neighbours=Neighbours.REPLACE)
    assert isinstance(claim, PureDP)
    assert claim == PureDP(1, neighbours=Neighbours.REPLACE)


@pytest.mark.parametrize("claim", ALL, ids=str)
def test_values_copy_hash_and_pickle(claim: object) -> None:
    assert copy.deepcopy(claim) == claim == pickle.loads(pickle.dumps(claim))
    assert hash(copy.copy(claim)) == hash(claim)


def test_equality_is_structural_and_there_is_no_less_than() -> None:
    assert PureDP(1) == PureDP("1.0") != PureDP(1, unit=Event())
    assert PureDP(1) != BoundedRange(1)
    with pytest.raises(TypeError):
        assert PureDP(1) < PureDP(2)  # type: ignore[operator]


def test_unknown_context_is_refused() -> None:
    with pytest.raises(TypeError, match="neighbors"):
        PureDP(1, neighbors=Neighbours.REPLACE)  # type: ignore[call-arg]
    with pytest.raises(ClaimError):
        PureDP(1, neighbours="replace")  # type: ignore[arg-type]


@pytest.mark.parametrize("claim", ALL, ids=str)
@pytest.mark.parametrize(
    "context",
    [{}, {"neighbours": Neighbours.LOCAL_MOVE, "unit": Event(), "numerics": "idealized"}, {"unit": Person("a:b", 7)}],
)
def test_json_goes_both_ways_with_strings_only(claim: PureDP, context: dict) -> None:
    written = claim.under(**context)
    data = claim_to_json(written)

    def leaves(x: object) -> list[object]:
        if isinstance(x, dict):
            return [*x, *(y for v in x.values() for y in leaves(v))]
        return [y for v in x for y in leaves(v)] if isinstance(x, list) else [x]

    assert all(isinstance(leaf, str) for leaf in leaves(data))
    assert claim_from_json(data) == written


def test_replace_profiles_survive_json() -> None:
    claim = to_replace(ALL[-1])
    assert claim is not None
    assert claim_from_json(claim_to_json(claim)) == claim


def test_json_of_the_chain_vector() -> None:
    assert claim_to_json(PureDP("0.1")) == {"type": "PureDP", "epsilon": "0.1"}


@pytest.mark.parametrize(
    "data",
    [{"type": "Pure"}, {"type": "PureDP"}, {"type": "PureDP", "epsilon": "1", "rho": "2"},
     {"type": "PureDP", "epsilon": "1", "neighbours": "both"}, {"type": "PureDP", "epsilon": "1", "unit": "person:x:y"},
     {"type": "PureDP", "epsilon": "1", "audience": "me"}],
)  # fmt: skip
def test_json_refuses(data: dict) -> None:
    with pytest.raises(ClaimError):
        claim_from_json(data)


def test_parse_claim() -> None:
    assert parse_claim({"epsilon": "3.0", "delta": "1e-6"}) == ApproxDP(3, "0.000001")
    assert parse_claim({"rho": 0.1}) == ZCDP("0.1")
    assert parse_claim("mu=0.5") == GDP("0.5")
    assert parse_claim("epsilon = 1") == PureDP(1)
    assert parse_claim({"epsilon": 1, "neighbours": "replace"}) == PureDP(1, neighbours=Neighbours.REPLACE)
    for bad in ({}, {"epsilon": 1, "rho": 1}, {"delta": 0.1}, "three"):
        with pytest.raises(ClaimError):
            parse_claim(bad)


@given(st.sampled_from([Row(), Event(), Person("id", 1), Person("a:b:c", 40)]))
def test_units_go_both_ways(unit: object) -> None:
    assert unit_from_text(unit_to_text(unit)) == unit  # type: ignore[arg-type]


def test_person_needs_a_cap() -> None:
    for bad in (0, -1, True, 1.5):
        with pytest.raises(RangeError):
            Person("id", bad)  # type: ignore[arg-type]


def test_a_set_derives_what_is_asked() -> None:
    both = Claims.of(BoundedRange(1), PureDP(2), ApproxDP("0.5", "0.1"))
    assert both.pure() == PureDP(1)
    assert both.zcdp() == ZCDP("0.125")
    assert abs(float(both.gdp().mu) - 0.6238925921) < 1e-9  # type: ignore[union-attr]
    assert both.approx_at("0.1").epsilon <= F(1, 2)  # type: ignore[union-attr]
    assert both.strongest == PureDP(1)
    assert Claims.from_json(both.to_json()) == both


def test_a_set_keeps_the_smaller_of_one_kind() -> None:
    assert Claims.of(PureDP(2), PureDP(1), PureDP(1)).claims == (PureDP(1),)
    assert len(Claims.of(ApproxDP(1, 0.1), ApproxDP(2, 0.01))) == 2


def test_a_set_gives_none_where_nothing_is_proved() -> None:
    only = Claims.of(ApproxDP(1, 1e-6))
    assert only.pure() is None
    assert only.zcdp() is None
    assert only.gdp() is None
    assert only.approx_at(1e-7) is None
    assert Claims.of(ZCDP(1)).gdp() is None
    assert Claims.of(RDP({2: 1})).zcdp() is None
    assert Claims.of(Profile(ApproxCurve(F(1), F("0.1")), ApproxCurve(F(1), F("0.1")))).gdp() is None


def test_a_set_is_of_one_context_and_not_empty() -> None:
    with pytest.raises(ClaimError):
        Claims.of(PureDP(1), ZCDP(1, neighbours=Neighbours.REPLACE))
    with pytest.raises(ClaimError):
        Claims.of()


def test_natives_are_a_closed_list() -> None:
    assert native_claims(GDP(1), mechanism="rounded_gaussian").gdp() == GDP(1)
    for claim, mechanism in ((GDP(1), "discrete_gaussian"), (BoundedRange(1), "permute_and_flip"),
                             (BoundedRange(1), "discrete_laplace"), (PureDP(1), "rounded_gaussian")):  # fmt: skip
        with pytest.raises(ClaimError, match=mechanism):
            native_claims(claim, mechanism=mechanism)
    with pytest.raises(ClaimError, match="did you mean"):
        native_claims(PureDP(1), mechanism="discrete_laplac")


def test_gdp_from_squares_rounds_up() -> None:
    claim = GDP.from_squares("0.1")
    assert 0 <= claim.mu**2 - F(1, 10) < F(1, 10**39)
    assert GDP.from_squares(4).mu - 2 < F(1, 10**38)
