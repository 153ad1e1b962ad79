"""Parallel composition: the worst-case branch per kind of sum, and brute force on two levels."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from sidelight.accounting import worst_case_branch
from sidelight.errors import ClaimError
from sidelight.guarantees import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Claims,
    Neighbours,
    PureDP,
    claims_to_replace,
)

F = Fraction


def test_each_sum_takes_its_own_worst_case_branch() -> None:
    long = [Claims.of(BoundedRange("0.3"))] * 3
    short = [Claims.of(BoundedRange("0.8"))]
    total = worst_case_branch([long, short])
    assert total.pure() == PureDP("0.9")
    assert total.zcdp() == ZCDP(F("0.64") / 8)
    assert not any(isinstance(c, BoundedRange) for c in total)


def test_one_node_each_keeps_its_range() -> None:
    node = Claims.of(BoundedRange("0.5"))
    assert worst_case_branch([[node]]) == node
    total = worst_case_branch([[node], [Claims.of(BoundedRange("0.7"))]])
    assert BoundedRange("0.7") in total.claims


def test_gaussian_paths() -> None:
    total = worst_case_branch([[Claims.of(GDP(3)), Claims.of(GDP(4))], [Claims.of(GDP("4.9"))]])
    assert total.pure() is None
    assert total.gdp() is not None
    assert 0 <= total.gdp().mu - 5 < F("1e-30")  # type: ignore[union-attr]
    assert total.zcdp() == ZCDP(F("12.5"))


def test_items_and_curves() -> None:
    total = worst_case_branch(
        [[Claims.of(ApproxDP(1, "1e-6")), Claims.of(PureDP(1))], [Claims.of(ApproxDP("0.5", "1e-5"))]]
    )
    assert total.items == (ApproxDP(2, "1e-5"),)
    curves = worst_case_branch([[Claims.of(RDP({2: "0.1", 4: "0.3"}))] * 2, [Claims.of(RDP({2: "0.3"}))]])
    assert next(iter(curves)) == RDP({2: "0.3"})


def test_missing_claims_drop_out() -> None:
    total = worst_case_branch([[Claims.of(ZCDP(1))], [Claims.of(PureDP(1))]])
    assert total.pure() is None
    assert total.zcdp() == ZCDP(1)
    with pytest.raises(ClaimError):
        worst_case_branch([[Claims.of(ZCDP(1))], [Claims.of(ApproxDP(1, "1e-6"))]])


def test_replace_is_twice_the_dearest_not_the_sum_of_two() -> None:
    """Parts at epsilon 3 and 1 cost 6 under replace, not 4: old and new record may take the same path."""
    total = worst_case_branch([[Claims.of(PureDP(3))], [Claims.of(PureDP(1))]])
    assert claims_to_replace(total).pure() == PureDP(6, neighbours=Neighbours.REPLACE)
    with pytest.raises(ClaimError, match="replace"):
        worst_case_branch([[Claims.of(PureDP(1, neighbours=Neighbours.REPLACE))]])


def test_empty_is_refused() -> None:
    for bad in ([], [[]], [[Claims.of(PureDP(1))], []]):
        with pytest.raises(ClaimError):
            worst_case_branch(bad)


def test_brute_force_tree_of_randomised_responses() -> None:
    """A root bit routes the record left or right (depending on the answer); only the part with the record differs."""
    root, left, right = 0.4, 0.5, 0.9

    def law(e: float, held: bool) -> dict[int, float]:
        p = math.exp(e) / (1 + math.exp(e)) if held else 1 / (1 + math.exp(e))
        return {1: p, 0: 1 - p}

    worst = 0.0
    for with_record in (True, False):
        for a, pa in law(root, with_record).items():
            held_left, held_right = (with_record, False) if a else (False, with_record)
            for b, pb in law(left, held_left).items():
                for c, pc in law(right, held_right).items():
                    base = law(root, not with_record)[a]
                    other_left = (not with_record) if a else False
                    other_right = False if a else (not with_record)
                    q = base * law(left, other_left)[b] * law(right, other_right)[c]
                    worst = max(worst, abs(math.log(pa * pb * pc / q)))
    price = worst_case_branch(
        [[Claims.of(PureDP(root)), Claims.of(PureDP(left))], [Claims.of(PureDP(root)), Claims.of(PureDP(right))]]
    ).pure()
    assert price is not None
    assert worst <= float(price.epsilon) + 1e-12
    assert worst > float(price.epsilon) - 1e-9  # and it is attained


def test_an_item_that_was_asked_for_counts_where_it_is_below_the_pure_claim() -> None:
    both = Claims.of(PureDP("1.2"), ApproxDP("0.9", "1e-6"))
    noise = Claims.of(PureDP("0.1"))
    total = worst_case_branch([[both, noise]])
    assert (total.pure(), total.items) == (PureDP("1.3"), (ApproxDP(1, "1e-6"),))
    needless = Claims.of(PureDP("0.9"), ApproxDP("0.9", "1e-6"))
    assert not worst_case_branch([[needless, noise]]).items
