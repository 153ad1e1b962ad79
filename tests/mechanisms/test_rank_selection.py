"""The rank selection: reference laws, exact unit counts, edge cases, and the distribution of the draws."""

import math
from bisect import bisect_right
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from grid_law import (
    ListMasses,
    ListRanks,
    exponential_law,
    machine_law,
    outcome_masses,
    rings_of,
    units_by_ring,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from sidelight.errors import RangeError
from sidelight.mechanisms import Conditional, Edge, RanksWithin, select_rank, selection_claims
from sidelight.mechanisms.rank_selection import draw
from sidelight.mechanisms.rings import decay
from sidelight.noise import Source
from sidelight.testing import SeededEntropy

HALF = Fraction(1, 2)
HILL = [1, 2, 3, 4, 4, 3, 2, 1]
EXACT_RATIO = 1e-12


# --- reference numbers (R3) ---

R3 = [
    (
        ListMasses([1] * 8), [2, 2, 5], HALF, 1,
        [0.0760176165589779] * 3 + [0.206637305735037] * 3 + [0.0760176165589779] * 2,
    ),
    (
        ListMasses(HILL), [2, 2, 5], Fraction(3, 10), 2,
        [.0675377817617585, .135075563523517, .202613345285275, .203012437674543, .203012437674543, .152259328255907,
         .0243260705496378, .0121630352748189],
    ),
    (
        Edge(ListMasses(HILL), 1, 5), [2, 3, 4], Fraction(1, 3), 1,
        [.140830528626479, .140830528626479, .397517641922436, .187774038168638, .133047262655969],
    ),
    (
        Conditional(ListMasses(HILL), 1, 5), [2, 3, 4], Fraction(1, 3), 1,
        [.105903597500571, .158855396250857, .448395835336103, .211807195001143, .0750379759113253],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("masses", "codes", "level", "epsilon", "expected"), R3)
def test_reference_laws_on_a_grid(masses, codes, level, epsilon, expected):
    textbook = exponential_law(outcome_masses(masses), codes, level, epsilon)
    assert textbook == pytest.approx(expected, rel=EXACT_RATIO)
    rings = rings_of(codes, masses, level, Fraction(epsilon))
    assert machine_law(rings, outcome_masses(masses)) == pytest.approx(expected, rel=EXACT_RATIO)


def test_a_wrong_score_does_not_reproduce_the_reference():
    """The negative control of the line above: the paper's floor score is another law."""
    masses, codes, level, epsilon, expected = R3[1]
    floor = machine_law(rings_of(codes, masses, level, Fraction(epsilon), score="floor"), outcome_masses(masses))
    assert floor == pytest.approx(
        exponential_law(outcome_masses(masses), codes, level, epsilon, "floor"), rel=EXACT_RATIO
    )
    assert floor != pytest.approx(expected, rel=0.01)


# --- exactness: every unit of every ring is where it belongs ---

EPSILONS = [Fraction(1), Fraction(1, 10**6), Fraction(1000), Fraction(3, 7), Fraction(25)]


@st.composite
def instances(draws):
    size = draws(st.integers(2, 9))
    first = draws(st.integers(-5, 5))
    masses = ListMasses(draws(st.lists(st.integers(1, 9), min_size=size, max_size=size)), first)
    low = draws(st.integers(first, first + size - 1))
    high = draws(st.integers(low, first + size - 1))
    view = draws(st.sampled_from([Conditional, Edge]))(masses, low, high)
    # Few distinct codes: heavy ties; codes beyond the range are allowed and count at its ends.
    codes = draws(st.lists(st.integers(low - draws(st.integers(0, 1)), high + draws(st.integers(0, 1))), max_size=14))
    b = draws(st.integers(2, 12))
    level = Fraction(draws(st.integers(1, b - 1)), b)
    return view, codes, level, draws(st.sampled_from(EPSILONS)), draws(st.sampled_from(["exact", "floor"]))


@settings(max_examples=250, deadline=None)
@given(instances(), st.sampled_from([{}, {"most_rings": 1}, {"slack_bits": 15}, {"slack_bits": 200}]))
def test_units_equal_masses_in_the_right_ring(instance, options):
    masses, codes, level, epsilon, score = instance
    rings = rings_of(codes, masses, level, epsilon, score=score, **options)
    expected: dict[int, Counter[int]] = {ring: Counter() for ring in range(rings.cut + 1)}
    for j, mass in outcome_masses(masses).items():
        whole, _, _ = rings.excess(j)
        expected[bisect_right(rings.depths, whole) - 1][j] = mass
    assert units_by_ring(rings) == expected


@settings(max_examples=250, deadline=None)
@given(instances())
def test_the_smallest_gap_is_the_brute_force_minimum(instance):
    masses, codes, level, epsilon, score = instance
    clamped = [min(max(code, masses.first), masses.last) for code in codes]
    n, a, b = len(codes), level.numerator, level.denominator
    target, step = (a * n, b) if score == "exact" else (a * n // b, 1)
    ranks = [sum(code < j for code in clamped) for j in range(masses.first, masses.last + 1)]
    assert rings_of(codes, masses, level, epsilon, score=score).smallest == min(abs(step * r - target) for r in ranks)


@settings(max_examples=150, deadline=None)
@given(instances())
def test_the_machine_follows_the_textbook_law_wherever_that_is_above_the_floor(instance):
    masses, codes, level, epsilon, score = instance
    clamped = [min(max(code, masses.first), masses.last) for code in codes]
    rings = rings_of(codes, masses, level, epsilon, score=score)
    textbook = exponential_law(outcome_masses(masses), clamped, level, float(epsilon), score)
    law = machine_law(rings, outcome_masses(masses))
    for machine, book in zip(law, textbook, strict=True):
        assert machine == pytest.approx(book, rel=1e-9, abs=1e-40)


@settings(max_examples=100, deadline=None)
@given(instances())
def test_proposals_cover_the_weights_and_acceptance_never_exceeds_one(instance):
    masses, codes, level, epsilon, score = instance
    table = decay(3)
    rings = rings_of(codes, masses, level, epsilon, score=score, decay=table)
    assert len(rings.depths) == rings.cut + 1
    assert rings.total == sum(rings.ring_mass(i) * table.steps[depth] for i, depth in enumerate(rings.depths))
    assert [rings.ring_of_unit(rings.start(i)) for i in range(rings.cut + 1) if rings.ring_mass(i)] == [
        i for i in range(rings.cut + 1) if rings.ring_mass(i)
    ]
    for j in outcome_masses(masses):
        whole, remainder, divisor = rings.excess(j)
        assert whole >= 0
        assert 0 <= remainder < divisor


# --- draws ---


def p_value(drawn, masses, law):
    counts = Counter(drawn)
    observed = np.array([counts[j] for j in range(masses.first, masses.last + 1)])
    return chisquare(observed, np.array(law) * observed.sum()).pvalue


@pytest.mark.parametrize("case", range(len(R3)))
def test_draws_follow_the_law_and_a_budget_30_percent_off_is_seen(case):
    masses, codes, level, epsilon, expected = R3[case]
    with Source(SeededEntropy(7, [f"case {case}"])) as source:
        drawn = [
            select_rank(ListRanks(codes), level, Fraction(epsilon), masses, masses.first, masses.last, source)
            for _ in range(12_000)
        ]
    assert p_value(drawn, masses, expected) > 1e-8
    for wrong in (0.7, 1.3):
        law = exponential_law(outcome_masses(masses), codes, level, epsilon * wrong)
        assert p_value(drawn, masses, law) < 1e-8


@pytest.mark.parametrize("options", [{"most_rings": 1}, {"slack_bits": 15}, {"slack_bits": 0}])
def test_the_law_does_not_depend_on_how_many_rings_are_opened(options):
    masses, codes, level, epsilon = ListMasses(HILL), [2, 2, 5, 5, 5, 6], Fraction(3, 10), Fraction(2)
    rings = rings_of(codes, masses, level, epsilon, **options)
    law = exponential_law(outcome_masses(masses), codes, level, 2)
    with Source(SeededEntropy(8, [str(options)])) as source:
        drawn = [draw(rings, source) for _ in range(12_000)]
    assert p_value(drawn, masses, law) > 1e-8
    assert p_value(drawn, masses, exponential_law(outcome_masses(masses), codes, level, 2.6)) < 1e-8


@pytest.mark.parametrize("options", [{}, {"most_rings": 1}, {"slack_bits": 200}])
def test_a_low_floor_is_drawn_exactly_too(options):
    """With two levels most outcomes sit at the floor weight: the branch that a table of 128 levels never shows."""
    table = decay(2)
    masses, codes, epsilon = ListMasses([5, 1, 1, 1, 1, 5]), [2, 2, 2, 3, 3, 3, 3, 3], Fraction(2)
    rings = rings_of(codes, masses, HALF, epsilon, decay=table, **options)
    law = machine_law(rings, outcome_masses(masses), table)
    with Source(SeededEntropy(9, [str(options)])) as source:
        drawn = [draw(rings, source, decay=table) for _ in range(12_000)]
    assert p_value(drawn, masses, law) > 1e-8
    assert p_value(drawn, masses, exponential_law(outcome_masses(masses), codes, HALF, 2)) < 1e-8  # no floor


def test_no_records_gives_a_draw_of_the_prior():
    masses = ListMasses(HILL)
    with Source(SeededEntropy(10)) as source:
        drawn = [select_rank(ListRanks([]), HALF, Fraction(5), masses, 0, 7, source) for _ in range(4_000)]
    assert p_value(drawn, masses, [m / 20 for m in HILL]) > 1e-8
    assert p_value(drawn, masses, [1 / 8] * 8) < 1e-8


def test_a_single_outcome_needs_neither_data_nor_noise():
    class Untouchable:
        @property
        def size(self):
            raise AssertionError

    assert select_rank(Untouchable(), HALF, Fraction(1), ListMasses([3], 4), 4, 4, None) == 4


@pytest.mark.parametrize("value", [0, 3, 7])
@pytest.mark.parametrize("score", ["exact", "floor"])
def test_all_records_equal(value, score):
    masses, codes = ListMasses([1] * 8), [value] * 200
    rings = rings_of(codes, masses, HALF, Fraction(1), score=score)
    law = machine_law(rings, outcome_masses(masses))
    # Every outcome is half the data away from the target on one side; none may be preferred for lying above a floor.
    assert law == pytest.approx(exponential_law(outcome_masses(masses), codes, HALF, 1, score), rel=1e-9)
    assert min(law) > 0.12


@pytest.mark.parametrize(("epsilon", "spread"), [(Fraction(1, 10**6), True), (Fraction(1000), False)])
def test_extreme_budgets(epsilon, spread):
    masses, codes = ListMasses([1] * 50), list(range(50))
    with Source(SeededEntropy(11)) as source:
        drawn = {select_rank(ListRanks(codes), HALF, epsilon, masses, 0, 49, source) for _ in range(300)}
    assert drawn == {25} if not spread else len(drawn) > 40


def test_records_outside_the_range_count_at_its_ends():
    masses = ListMasses(HILL)
    outside, clamped = [-50, -1, 3, 9, 100], [0, 0, 3, 7, 7]
    for score in ("exact", "floor"):
        laws = [
            machine_law(rings_of(codes, masses, Fraction(2, 5), Fraction(1), score=score), outcome_masses(masses))
            for codes in (outside, clamped)
        ]
        assert laws[0] == laws[1]


def test_ranks_within_a_half_open_range():
    ranks = ListRanks([0, 2, 2, 3, 5, 5, 7])
    part = RanksWithin(ranks, 2, 5)
    assert part.size == 3
    assert [part.order(k) for k in (1, 2, 3)] == [2, 2, 3]
    assert [part.below(j) for j in (0, 2, 3, 4, 8)] == [0, 0, 2, 3, 3]
    assert RanksWithin(ranks, 5, 5).size == 0
    assert RanksWithin(ranks, 0, 8).size == 7
    assert "5" not in repr(part)
    assert "3" not in repr(part)


def test_left_and_right_of_a_released_value_hold_every_record_once():
    ranks = ListRanks([0, 2, 2, 3, 5, 5, 7])
    for released in range(9):
        assert RanksWithin(ranks, 0, released).size + RanksWithin(ranks, released, 8).size == 7


# --- what is refused, and what is claimed ---


@pytest.mark.parametrize(
    "change",
    [
        {"target": Fraction(0)},
        {"target": Fraction(1)},
        {"target": 0.5},
        {"epsilon": Fraction(0)},
        {"epsilon": Fraction(1, 2**61)},
        {"epsilon": 1.0},
        {"first": 1},
        {"last": 9},
        {"score": "rounded"},
    ],
)
def test_public_parameters_outside_the_proof_are_refused(change):
    fine = {"target": HALF, "epsilon": Fraction(1), "first": 0, "last": 7, "score": "exact"} | change
    with pytest.raises(RangeError):
        select_rank(
            ListRanks([1]), fine["target"], fine["epsilon"], ListMasses(HILL), fine["first"], fine["last"], None,
            score=fine["score"],
        )  # fmt: skip


def test_a_selection_claims_bounded_range():
    claims = selection_claims(Fraction(1))
    assert claims.pure().epsilon == 1
    assert claims.zcdp().rho == Fraction(1, 8)
    assert float(claims.gdp().mu) == pytest.approx(0.6238925921, rel=1e-9)


def test_the_law_is_close_to_the_real_valued_mechanism():
    """The sliver of epsilon and the table move no probability by more than one part in 2^50."""
    masses, codes = ListMasses(HILL), [2, 2, 5]
    rings = rings_of(codes, masses, Fraction(3, 10), Fraction(2))
    for j in outcome_masses(masses):
        whole, remainder, divisor = rings.excess(j)
        gap = abs(sum(c < j for c in codes) - Fraction(9, 10)) - min(abs(r - Fraction(9, 10)) for r in (0, 2, 3))
        exact = 2 * gap / (2 * Fraction(7, 10))
        assert abs(whole + Fraction(remainder, divisor) - exact) <= exact * Fraction(1, 2**60)
        assert math.isclose(whole + remainder / divisor, float(exact), rel_tol=1e-15)
