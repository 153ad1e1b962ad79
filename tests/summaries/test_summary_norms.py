"""Norms of a unit's contribution: references, and brute force over all tables that a unit can make."""

import itertools
from fractions import Fraction

import pytest

from sidelight.errors import RangeError
from sidelight.guarantees import Neighbours
from sidelight.summaries.norms import Contribution, per_person


@pytest.mark.parametrize(
    ("k", "g", "m", "squares"), [(10, 3, 4, 36), (10, 10, 1, 10), (10, 10, 10, 100), (7, 3, 3, 19)]
)
def test_references(k, g, m, squares):
    """R1 of the specification."""
    norms = Contribution(rows=k, groups=g, rows_per_group=m).counts()
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
    norms = Contribution(rows=k, groups=g, rows_per_group=m).counts()
    found = list(tables(k, g, m, cells=min(g, 4)))
    assert max(sum(t) for t in found) == norms.l1
    assert max(sum(x * x for x in t) for t in found) == norms.l2_squared
    assert max(max(t) for t in found) == norms.linf
    assert max(sum(x > 0 for x in t) for t in found) == norms.l0


@pytest.mark.parametrize(("k", "g", "m"), [(3, 2, 2), (4, 2, 3), (2, 2, 1), (3, 3, 1)])
def test_brute_force_of_a_replacement(k, g, m):
    norms = Contribution(rows=k, groups=g, rows_per_group=m).counts(Neighbours.REPLACE)
    found = list(tables(k, g, m, cells=4))
    differences = [[a - b for a, b in zip(one, other, strict=True)] for one in found for other in found]
    assert max(sum(abs(x) for x in d) for d in differences) <= norms.l1
    assert max(sum(x * x for x in d) for d in differences) <= norms.l2_squared
    assert max(max(map(abs, d)) for d in differences) == norms.linf
    assert max(sum(x != 0 for x in d) for d in differences) <= norms.l0


def test_signed_vectors_move_twice_as_far_when_replaced():
    one = Contribution().vectors(1, 1, signed=True, neighbours=Neighbours.REPLACE)
    assert one.l2_squared == 4  # +1 becomes -1
    assert Contribution().vectors(1, 1, neighbours=Neighbours.REPLACE).l2_squared == 2
    assert Contribution().vectors(1, 1, signed=True).l2_squared == 1


def test_pairs_scale_with_their_levels():
    norms = Contribution(rows=3, groups=2, rows_per_group=2).vectors(2**30, 2**60, entries=2)
    assert norms.l1 == 3 * 2**30
    assert norms.l2_squared == 5 * 2**60
    assert norms.l0 == 4


@pytest.mark.parametrize(("k", "g", "m"), list(itertools.product(range(1, 4), repeat=3)))
def test_margins_by_brute_force(k, g, m):
    """A 3×3 table: rows of a person fall together in the margin and in the total."""
    fine = Contribution(rows=k, groups=g, rows_per_group=m)
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
    assert worst_margin == margin.counts().l2_squared
    assert worst_total == total.counts().l2_squared == fine.most_rows**2


def test_without_a_bound_of_one_kind():
    assert Contribution(rows=5, groups=None, rows_per_group=None).counts().l2_squared == 25
    assert Contribution(rows=5, groups=None, rows_per_group=1).counts().l2_squared == 5
    assert Contribution(rows=None, groups=3, rows_per_group=2).counts().l1 == 6
    assert per_person(7).counts().l2_squared == 7
    assert per_person().counts().l1 == 1


def test_the_root_is_exact_where_it_can_be():
    assert Contribution(rows=4, groups=4, rows_per_group=1).counts().l2 == 2
    root = Contribution(rows=3, groups=3, rows_per_group=1).counts().l2
    assert 3 < root**2 < 3 * (1 + Fraction(1, 2**100))


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"groups": -1}, {"rows_per_group": 1.5}, {"rows": True},
                                   {"rows": None, "groups": None}])  # fmt: skip
def test_bad_bounds_are_refused(wrong):
    with pytest.raises(RangeError):
        Contribution(**wrong)


def test_other_neighbours_are_refused():
    with pytest.raises(RangeError):
        Contribution().counts(Neighbours.LOCAL)
