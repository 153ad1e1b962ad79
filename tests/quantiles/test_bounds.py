"""Error bounds: the reference numbers R7 and R8, and that simulated errors respect them."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.quantiles import bounds
from sidelight.quantiles.tree import even_levels, quantile_tree

DECILES = even_levels(9)


def coefficients(tree, **how):
    """Return how far the bounds grow where L does by 1: the part that is proportional to it."""
    small, large = (bounds.gap_bounds_tree(tree, beta=beta, psi=0.5, **how) for beta in (0.5, 0.5 / math.e))
    return [after - before for before, after in zip(small, large, strict=True)]


@pytest.mark.parametrize(
    ("branching", "power", "adaptation", "score", "wanted"),
    [
        (2, 0, "conditional", "exact", [5.2, 6.4, 10.933333, 11.466667, 4, 7.6, 7.2, 10.133333, 9.066667]),
        (2, 0, "conditional", "floor", [9.6, 11.2, 18.133333, 21.066667, 8, 14.4, 12.8, 16.533333, 16.266667]),
        (2, 0, "edge", "exact", [10, 8, 18.666667, 26.666667, 4, 15.6, 9.6, 18.133333, 22.133333]),
        (
            4, "1.5", "edge", "exact",
            [17.789038, 17.789038, 5.684924, 15.198276, 5.684924, 15.198276, 5.684924, 17.789038, 17.789038],
        ),
    ],
)  # fmt: skip
def test_reference_tree_coefficients(branching, power, adaptation, score, wanted):
    """R7."""
    tree = quantile_tree(DECILES, epsilon=1, branching=branching, budget_power=power)
    found = coefficients(tree, adaptation=adaptation, score=score)
    assert found == pytest.approx(wanted, abs=6e-7)


def test_reference_single_bounds():
    """R8."""
    uniform = 1 / 110  # of a width of 1 in 10..120; of a Cauchy prior for these bounds, 55 and 500 from its centre
    near, far = (220 / (math.pi * (110**2 + 4 * radius**2)) for radius in (55, 500))
    floor = {"epsilon": 1, "beta": 0.05, "score": "floor"}
    assert bounds.gap_bound_single(psi=uniform, **floor) == pytest.approx(15.392425278692816, rel=1e-14)
    assert bounds.gap_bound_single(psi=uniform, epsilon=1, beta=0.05) == pytest.approx(7.696212639346408, rel=1e-14)
    assert bounds.gap_bound_single(psi=near, **floor) == pytest.approx(17.681885050391614, rel=1e-14)
    assert bounds.gap_bound_single(psi=far, **floor) == pytest.approx(25.148745102456044, rel=1e-14)


def test_tree_of_one_level_is_the_single_bound():
    tree = quantile_tree(0.3, epsilon="0.7")
    single = bounds.gap_bound_single(epsilon="0.7", beta=0.01, psi=0.02, level=0.3)
    assert bounds.gap_bounds_tree(tree, beta=0.01, psi=0.02) == pytest.approx((single + 0.5,))


def test_tree_bound_is_coefficient_times_logarithm_plus_rounding():
    tree = quantile_tree(DECILES, epsilon=1)
    psi = [0.001 * (i + 1) for i in range(9)]
    stretch = math.log(sum(1 / p for p in psi)) + math.log(1 / 0.05)
    found = bounds.gap_bounds_tree(tree, beta=0.05, psi=psi)
    for bound, coefficient in zip(found, coefficients(tree), strict=True):
        assert bound >= coefficient * stretch + 0.5
        assert bound <= coefficient * stretch + 0.5 * tree.depth + 1e-9


@pytest.mark.parametrize(("adaptation", "best"), [("conditional", 2), ("edge", 4)])
def test_floors_lose_more_at_every_node(adaptation, best):
    """Section 11.7: Lemma A.3 with floors is off by up to 2 at each use."""
    tree = quantile_tree(0.5, epsilon=1)
    found = bounds.gap_bounds_tree(tree, beta=0.5, psi=1.0, adaptation=adaptation, score="floor")
    assert found == pytest.approx((2 * math.log(2) + best,))


@given(
    n=st.integers(0, 40),
    below=st.integers(0, 40),
    between=st.integers(0, 40),
    inside=st.integers(0, 40),
    cuts=st.lists(st.integers(1, 29), min_size=3, max_size=3, unique=True),
)
def test_the_exact_gap_telescopes(n, below, between, inside, cuts):
    """Section 6.2: the identity under every tree bound, with no rounding terms (11.7: floors break it)."""
    low, mid, high = (Fraction(c, 30) for c in sorted(cuts))
    relative = (mid - low) / (high - low)
    rank, size = min(inside, between), between
    local = rank - relative * size
    whole = (below + rank) - mid * n
    ends = (1 - relative) * (low * n - below) + relative * (high * n - (below + between))
    assert local - whole == ends


def test_floors_do_not_telescope():
    """Section 11.7: n = 8, levels .1 .25 .6, ranks 0 and 3 at the ends: the floored lemma is off by 1.7."""
    n, low, mid, high = 8, Fraction(1, 10), Fraction(1, 4), Fraction(3, 5)
    relative = (mid - low) / (high - low)
    ends = (1 - relative) * abs(0 - math.floor(low * n)) + relative * abs(3 - math.floor(high * n))
    excess = max(abs(abs(r - math.floor(relative * 3)) - abs(r - math.floor(mid * n))) - ends for r in range(4))
    assert excess > 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.gap_bound_single(epsilon=1, beta=0, psi=0.1), "beta"),
        (lambda: bounds.gap_bound_single(epsilon=1, beta=0.1, psi=0), "psi"),
        (lambda: bounds.gap_bound_single(epsilon=0, beta=0.1, psi=0.1), "epsilon"),
        (lambda: bounds.gap_bounds_tree(quantile_tree(DECILES, epsilon=1), beta=0.1, psi=[0.1]), "9 levels"),
    ],
)
def test_what_is_wrong_is_said(call, message):
    with pytest.raises(RangeError, match=message):
        call()
