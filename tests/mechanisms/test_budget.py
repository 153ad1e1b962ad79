"""One budget: how a price is read, divided, applied to statistics, and added up again."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidelight as sl
from sidelight.aggregates.bounded import Bounded
from sidelight.covariance import Choice
from sidelight.errors import RangeError
from sidelight.guarantees import GDP, ZCDP, BoundedRange, Claims, Neighbours, PureDP, Row
from sidelight.guarantees.implications import gdp_of
from sidelight.mechanisms.budget import Budget, share_of, together

SHARES = st.lists(st.integers(1, 30), min_size=2, max_size=6)
PRICES = [{"rho": "0.3"}, {"epsilon": "0.7"}, {"mu": "0.8"}, {"epsilon": 1, "delta": "1e-6"}]


def statistic(value: Any, norm: Any = "l1") -> Bounded:
    return Bounded(value, Fraction(3), norm, Neighbours.ADD_REMOVE, Row())


def test_a_price_has_one_kind() -> None:
    assert [Budget.of(**price).kind for price in PRICES] == ["rho", "epsilon", "mu", "mu"]
    assert Budget.of(mu="0.8").amount == Fraction("0.64")
    assert Budget.of(mu="0.8").rho == Fraction("0.32")
    assert Budget.of(rho="0.3").request == {"rho": "0.3"}
    assert Budget.of(epsilon="0.7").request == {"epsilon": "0.7"}


@pytest.mark.parametrize(
    "price",
    [{}, {"rho": 1, "epsilon": 1}, {"rho": 1, "mu": 1}, {"delta": "1e-6"}, {"rho": 1, "delta": "1e-6"}],
)
def test_every_other_price_is_refused_in_the_same_words(price: dict[str, Any]) -> None:
    with pytest.raises(RangeError, match="exactly one of rho") as caught:
        Budget.of(**price)
    assert all(f"{name}={amount}" in str(caught.value) for name, amount in price.items())


@pytest.mark.parametrize("price", [{"rho": 0}, {"epsilon": -1}, {"mu": "0"}, {"epsilon": 1, "delta": 0}])
def test_amounts_are_positive(price: dict[str, Any]) -> None:
    with pytest.raises(RangeError, match=r"positive|negative"):
        Budget.of(**price)


@given(SHARES, st.sampled_from(PRICES))
def test_parts_cost_the_whole_together_and_no_more(parts: list[int], price: dict[str, Any]) -> None:
    whole = Budget.of(**price)
    divided = [whole.part(Fraction(part, sum(parts))) for part in parts]
    assert sum(part.amount for part in divided) == whole.amount
    claims = together([(1, part.on(statistic(5)).claims) for part in divided])
    slack = 1 + Fraction(1, 10**20)
    if whole.epsilon is not None:
        found = claims.pure()
        assert found is not None
        assert found.epsilon == whole.epsilon
    else:
        rho = claims.zcdp()
        assert rho is not None
        assert whole.rho is not None
        assert whole.rho * (1 - Fraction(1, 10**6)) < rho.rho <= whole.rho * slack


@pytest.mark.parametrize("price", PRICES)
def test_selections_and_measurements_stay_within_the_price(price: dict[str, Any]) -> None:
    """Ten rounds, each a selection of a tenth of its share."""
    whole = Budget.of(**price)
    select, measure = whole.part(Fraction(1, 100)), whole.part(Fraction(9, 100))
    claims = together([(10, select.selection_claims()), (10, measure.on(statistic(5)).claims)])
    if "delta" in price:
        found = claims.approx_at("1e-6")
        assert found is not None
        assert Fraction("0.9") < found.epsilon <= 1 + Fraction(1, 10**9)
    elif whole.kind == "mu":
        assert claims.gdp().mu <= Fraction("0.8") * (1 + Fraction(1, 10**20))  # type: ignore[union-attr]
    elif whole.kind == "rho":
        assert claims.zcdp().rho <= Fraction("0.3") * (1 + Fraction(1, 10**20))  # type: ignore[union-attr]
    else:
        assert claims.pure().epsilon == Fraction("0.7")  # type: ignore[union-attr]


def test_both_claims_stay_where_each_says_more() -> None:
    """Both claims of a selection in the sum: GDP proves 1.56 times its zCDP."""
    selection, gaussian = BoundedRange("0.5"), Budget.of(rho="0.1").on(statistic(5, "l2")).claims
    mu = gdp_of(selection)
    assert mu is not None
    claims = together([(1, Claims.of(selection, GDP(mu))), (1, gaussian)])
    rho, found = Fraction("0.5") ** 2 / 8 + Fraction("0.1"), claims.zcdp()
    assert found is not None
    assert found.rho == pytest.approx(rho)
    assert claims.gdp().mu ** 2 / 2 > 1.1 * rho  # type: ignore[union-attr]
    assert [type(claim) for claim in together([(2, gaussian)])] == [GDP]  # zCDP says the same


def test_a_noise_knows_its_law_before_any_value() -> None:
    square = np.eye(3, dtype=np.int64)
    found = {
        ("laplace", None): Budget.of(epsilon=1).on(statistic([1, 2])),
        ("gaussian", None): Budget.of(rho=1).on(statistic([1, 2], "l2")),
        ("goe", "goe"): Budget.of(mu=1).on(statistic(square, "l2"), "goe"),
        ("spherical", "spherical"): Budget.of(epsilon=1).on(statistic([1, 2], "l2"), "spherical"),
        ("wishart", "wishart"): Budget.of(epsilon=1).on(statistic(square, "trace"), "wishart"),
    }
    for (law, _), noise in found.items():
        assert noise.law == law
        assert noise.numerics == noise.claims.numerics == ("idealized" if law in ("spherical", "wishart") else "exact")
        assert noise.deviation > 0
    assert found["laplace", None].scale == 3
    assert found["wishart", "wishart"].deviation == pytest.approx(2 * 3)


@pytest.mark.parametrize(("price", "law"), [({"rho": 1}, "laplace"), ({"epsilon": 1}, "goe"), ({"mu": 1}, "wishart")])
def test_a_law_that_the_price_cannot_buy_is_refused(price: dict[str, Any], law: Any) -> None:
    with pytest.raises(RangeError, match="noise must be"):
        Budget.of(**price).on(statistic(1), law)


def test_together_keeps_what_all_parts_prove() -> None:
    mixed = together([(2, Claims.of(GDP("0.3"))), (1, Claims.of(BoundedRange("0.2", numerics="idealized")))])
    assert [type(claim) for claim in mixed] == [GDP, ZCDP]
    assert mixed.numerics == "idealized"
    assert mixed.zcdp().rho == Fraction("0.09") + Fraction("0.04") / 8  # type: ignore[union-attr]
    only = Claims.of(PureDP(1))
    assert together([(1, only)]) is only
    assert together([(3, only)]).pure().epsilon == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("share", [0, 1, "1.5"])
def test_shares_lie_strictly_between_0_and_1(share: Any) -> None:
    with pytest.raises(RangeError, match="mean_share must lie strictly"):
        share_of(share, name="mean_share")


def test_a_private_choice_keeps_an_epsilon_with_delta() -> None:
    """A selection inside zCDP would make an (epsilon, delta) cost more than was asked for."""
    query = sl.Covariance(
        ["a", "b"], radius=1, epsilon=1, delta="1e-6", method="separate", prediction=np.eye(2) / 2, choice=Choice()
    )
    found = query.prepare(sl.Schema([sl.Number("a"), sl.Number("b")])).claims.approx_at("1e-6")
    assert found is not None
    assert Fraction("0.9") < found.epsilon <= 1 + Fraction(1, 10**9)
