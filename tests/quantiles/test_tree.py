"""The public tree: its shape, relative levels, budgets (R6, R9) and what it promises."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.guarantees.claims import BoundedRange
from sidelight.guarantees.units import Person
from sidelight.quantiles.tree import balanced_branching, even_levels, quantile_tree, tree_depth

DECILES = even_levels(9)


def test_reference_binary_deciles():
    """R6, exactly: relative level and budget of each decile."""
    half, third, fifth2 = Fraction(1, 2), Fraction(1, 3), Fraction(2, 5)
    quarter = Fraction(1, 4)
    tree = quantile_tree(DECILES, epsilon=1)
    assert [(pick.relative_level, pick.epsilon) for pick in tree.picks] == [
        (half, half),
        (fifth2, quarter),
        (third, quarter),
        (half, quarter),
        (half, quarter),
        (half, half),
        (fifth2, quarter),
        (third, quarter),
        (half, quarter),
    ]


def test_reference_four_ary_deciles():
    """R6: K = 4, p = 1.5."""
    tree = quantile_tree(DECILES, epsilon=1, branching=4, budget_power="1.5")
    assert [pick.level for pick in tree.root.picks] == [Fraction(3, 10), Fraction(1, 2), Fraction(7, 10)]
    root, pair, single = 0.2462653750120862, 0.1306019374818707, 0.2612038749637414
    wanted = [pair, pair, root, single, root, single, root, pair, pair]
    assert [float(pick.epsilon) for pick in tree.picks] == pytest.approx(wanted, rel=1e-15)


@pytest.mark.parametrize(
    ("count", "branching", "depth"),
    [
        (1, 2, 1), (2, 3, 1), (3, 3, 2), (4, 3, 2), (5, 4, 2), (9, 4, 2), (15, 4, 2), (16, 5, 2), (29, 5, 3),
        (49, 6, 3), (99, 6, 3), (255, 8, 3), (511, 8, 3), (1000, 9, 4), (10**4, 13, 4), (10**6, 23, 5),
    ],
)  # fmt: skip
def test_reference_branching_and_depth(count, branching, depth):
    """R9."""
    assert balanced_branching(count) == branching
    assert tree_depth(count, branching=branching) == depth


def test_reference_binary_depth():
    """R9; ceil(log2 m) is wrong at every power of two (trap of section 12)."""
    assert [tree_depth(m, branching=2) for m in range(1, 10)] == [1, 2, 2, 3, 3, 3, 3, 4, 4]
    assert tree_depth(16, branching=2) == 5
    assert all(tree_depth(m, branching=2) == m.bit_length() for m in range(1, 3000))


levels_lists = st.lists(st.integers(1, 999), min_size=1, max_size=70, unique=True).map(
    lambda numbers: [Fraction(n, 1000) for n in sorted(numbers)]
)
powers = st.sampled_from([0, "0.5", 1, "1.5", "1/3", 2, "2.7", 8])


@given(
    levels=levels_lists,
    epsilon=st.fractions(Fraction(1, 1000), 20),
    branching=st.integers(2, 12),
    power=powers,
    rows=st.integers(1, 5),
)
def test_laws_of_every_tree(levels, epsilon, branching, power, rows):
    """Each level once; every path spends at most epsilon, exactly; relative levels stay inside (0, 1)."""
    unit = Person("id", max_rows=rows)
    tree = quantile_tree(levels, epsilon=epsilon, branching=branching, budget_power=power, unit=unit)
    assert [pick.level for pick in tree.picks] == levels
    assert [pick.position for pick in tree.picks] == list(range(len(levels)))
    assert tree.depth == max(len(path) for path in tree.paths())
    for path in tree.paths():
        spent = sum(node.epsilon for node in path)
        assert spent <= tree.row_epsilon == epsilon / rows
        assert spent == tree.row_epsilon or any(path[-1].children)
        assert [node.depth for node in path] == list(range(len(path)))
    assert max(sum(path) for path in tree.path_budgets) * rows <= epsilon
    for node in tree.nodes():
        assert 1 <= len(node.picks) < branching or len(node.picks) == branching - 1
        assert len(node.children) == len(node.picks) + 1
        below = 0 if node.lower is None else levels[node.lower]
        above = 1 if node.upper is None else levels[node.upper]
        for pick in node.picks:
            assert 0 < pick.relative_level < 1
            assert below + pick.relative_level * (above - below) == pick.level
            assert pick.epsilon > 0
            assert pick.sensitivity() == max(pick.relative_level, 1 - pick.relative_level)
            assert pick.sensitivity("floor") == 1


def test_children_know_their_ancestors():
    """The range of a child is given by the nearest released levels on both sides."""
    tree = quantile_tree(even_levels(40), epsilon=1, branching=4)
    for path in tree.paths():
        for depth, node in enumerate(path):
            released = [pick.position for ancestor in path[:depth] for pick in ancestor.picks]
            mine = node.picks[0].position
            assert node.lower == max((p for p in released if p < mine), default=None)
            assert node.upper == min((p for p in released if p > mine), default=None)


def test_budget_power_gives_more_to_the_root():
    flat, steep = (quantile_tree(even_levels(99), epsilon=1, budget_power=p) for p in (0, 1))
    assert steep.root.epsilon > flat.root.epsilon == Fraction(1, 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "epsilon must be positive"),
        ({"epsilon": 1, "branching": 1}, "branching must be at least 2"),
        ({"epsilon": 1, "budget_power": 9}, "budget_power must lie in 0..8"),
        ({"epsilon": Fraction(1, 2**60)}, "2\\*\\*-60"),
    ],
)
def test_what_is_wrong_is_said(arguments, message):
    with pytest.raises(RangeError, match=message):
        quantile_tree(DECILES, **arguments)


def test_claims_of_one_level_are_those_of_the_exponential_mechanism():
    claims = quantile_tree(0.3, epsilon="0.5").claims
    assert BoundedRange("0.5") in list(claims)
    assert claims.pure().epsilon == Fraction(1, 2)
    assert claims.zcdp().rho == Fraction(1, 32)


def test_claims_of_a_tree_are_its_dearest_path():
    """rho = max over paths of sum eps_i**2 / 8, which the shorter path (1/4, 1/4, 1/2) attains, not the longer one."""
    claims = quantile_tree(DECILES, epsilon=1).claims
    assert claims.pure().epsilon == 1
    assert claims.zcdp().rho == Fraction(6, 16) / 8
    assert not any(isinstance(claim, BoundedRange) for claim in claims)


def test_claims_of_a_balanced_tree():
    claims = quantile_tree(even_levels(7), epsilon=3).claims
    assert claims.pure().epsilon == 3
    assert claims.zcdp().rho == Fraction(3, 8)
    one = quantile_tree(0.5, epsilon=1).claims.gdp().mu
    assert float(claims.gdp().mu) == pytest.approx(3**0.5 * float(one), rel=1e-9)


def test_a_k_ary_node_pays_for_each_of_its_picks():
    """Trap of section 12: all K-1 mechanisms of a node look at the same records."""
    claims = quantile_tree(even_levels(2), epsilon=1, branching=3).claims
    assert claims.pure().epsilon == 1
    assert claims.zcdp().rho == Fraction(2, 4) / 8


def test_claims_for_a_person():
    """A person with at most k rows spends k times the row budget: rho grows with k**2, mu with k."""
    row = quantile_tree(DECILES, epsilon="1/4").claims
    person = quantile_tree(DECILES, epsilon=1, unit=Person("id", max_rows=4))
    assert person.row_epsilon == Fraction(1, 4)
    assert person.claims.pure().epsilon == 4 * row.pure().epsilon == 1
    assert person.claims.pure().unit == Person("id", max_rows=4)
    assert person.claims.zcdp().rho == 16 * row.zcdp().rho
    assert float(person.claims.gdp().mu) == pytest.approx(4 * float(row.gdp().mu), rel=1e-12)
    single = quantile_tree(0.5, epsilon=1, unit=Person("id", max_rows=4)).claims
    assert single.zcdp().rho == Fraction(1, 8)
