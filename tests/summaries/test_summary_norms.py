"""Norms of a unit's contribution: references, and brute force over all tables that a unit can make."""

import itertools
from fractions import Fraction

import pytest

from sidelight.aggregates.bounded import ContributionBounds, persons_in
from sidelight.guarantees import Neighbours


@pytest.mark.parametrize(
    ("k", "g", "m", "squares"), [(10, 3, 4, 36), (10, 10, 1, 10), (10, 10, 10, 100), (7, 3, 3, 19)]
)
def test_references(k, g, m, squares):
    """R1 of the specification."""
    norms = ContributionBounds(rows=k, groups=g, per_group=m)
    assert norms.l2_squared == squares
    assert norms.l1 == min(k, g * m)
    assert norms.l0 == min(g, k)
    assert norms.linf == min(m, k)


def tables(k, g, m, cells):
    """Every count vector that one unit can have."""
    for table in itertools.product(range(m + 1), repeat=cells):
        if sum(table) <= k and sum(count > 0 for count in table) <= g:
            yield table


@pytest.mark.parametrize(("k", "g", "m"), list(itertools.product(range(1, 5), repeat=3)))
def test_brute_force(k, g, m):
    norms = ContributionBounds(rows=k, groups=g, per_group=m)
    found = list(tables(k, g, m, cells=min(g, 4)))
    assert max(sum(t) for t in found) == norms.l1
    assert max(sum(x * x for x in t) for t in found) == norms.l2_squared
    assert max(max(t) for t in found) == norms.linf
    assert max(sum(x > 0 for x in t) for t in found) == norms.l0


@pytest.mark.parametrize(("k", "g", "m"), [(3, 2, 2), (4, 2, 3), (2, 2, 1), (3, 3, 1)])
def test_brute_force_of_a_replacement(k, g, m):
    norms = ContributionBounds(rows=k, groups=g, per_group=m, neighbours=Neighbours.REPLACE)
    found = list(tables(k, g, m, cells=4))
    differences = [[a - b for a, b in zip(one, other, strict=True)] for one in found for other in found]
    assert max(sum(abs(x) for x in d) for d in differences) <= norms.l1
    assert max(sum(x * x for x in d) for d in differences) <= norms.l2_squared
    assert max(max(map(abs, d)) for d in differences) == norms.linf
    assert max(sum(x != 0 for x in d) for d in differences) <= norms.l0


def test_signed_vectors_move_twice_as_far_when_replaced():
    replaced = ContributionBounds(rows=1, groups=1, per_group=1, neighbours=Neighbours.REPLACE)
    assert replaced.sensitivity("l2", signed=True) == 2  # +1 becomes -1
    assert replaced.l2_squared == 2
    assert persons_in(1).sensitivity("l2", signed=True) == 1


@pytest.mark.parametrize(("k", "g", "m"), list(itertools.product(range(1, 4), repeat=3)))
def test_margins_by_brute_force(k, g, m):
    """A 3×3 table: rows of a person fall together in the margin and in the total."""
    fine = ContributionBounds(rows=k, groups=g, per_group=m)
    margin, total = fine.margin(cells=3, cells_apart=3), fine.margin(cells=1, cells_apart=9)
    cells = list(itertools.product(range(3), repeat=2))
    worst_margin = worst_total = 0
    for chosen in itertools.combinations(cells, min(g, k, 3)):
        for counts in itertools.product(range(m + 1), repeat=len(chosen)):
            if sum(counts) <= k:
                sums = [0, 0, 0]
                for (i, _), count in zip(chosen, counts, strict=True):
                    sums[i] += count
                worst_margin = max(worst_margin, sum(x * x for x in sums))
                worst_total = max(worst_total, sum(counts) ** 2)
    assert worst_margin == margin.l2_squared
    assert worst_total == total.l2_squared == fine.total**2


def test_persons_in_groups():
    assert persons_in(7).l2_squared == 7
    assert persons_in(1).l1 == 1


def test_the_root_is_exact_where_it_can_be():
    assert persons_in(4).l2 == 2
    assert 3 < persons_in(3).l2 ** 2 < 3 * (1 + Fraction(1, 2**39))
