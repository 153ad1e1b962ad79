"""The exact law of `select_rank` on every small data set against every neighbour: no sampling, no tolerance.

The laws are those of the code with its table of weights, its rings and its coins (see `whole_law`).
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product

import pytest
from planted import halve_the_sensitivity
from whole_law import datasets, prior_of, ranks_of, selection_law, with_one_more

from scripted_source import SCRIPTED
from sidelight.audit import exact_epsilon, exact_hockey_stick, exact_mu, exact_rho
from sidelight.guarantees.conversions import bounded_range_delta, gdp_from_bounded_range, zcdp_from_bounded_range
from sidelight.mechanisms import rings
from sidelight.mechanisms.rank_selection import select_rank

HALF, THIRD, TENTH, THREE_TENTHS = Fraction(1, 2), Fraction(1, 3), Fraction(1, 10), Fraction(3, 10)
FLAT = (1, 1, 1, 1, 1, 1)
STEEP = (1, 10**9, 1, 10**30, 7, 1)  # nearly all mass on one side of a record: the normaliser moves as far as it can
ENDS = (10**12, 1, 1, 1, 1, 10**6)


def law(codes, masses, level, epsilon, score="exact"):
    prior, ranks = prior_of(masses), ranks_of(codes, len(masses))
    return selection_law(lambda: select_rank(ranks, level, epsilon, prior, 0, len(masses) - 1, SCRIPTED, score=score))


def worst_loss(masses, level, epsilon, *, most, score="exact"):
    laws = {codes: law(codes, masses, level, epsilon, score) for codes in datasets(len(masses), most + 1)}
    return max(
        exact_epsilon(laws[codes], laws[larger])
        for codes in datasets(len(masses), most)
        for larger in with_one_more(codes, len(masses))
    )


def test_the_law_of_the_code_is_the_published_one():
    # Reference values of the quantiles proof page for indices 0..7.
    assert [float(law((2, 2, 5), (1,) * 8, HALF, Fraction(1))[j]) for j in range(8)] == pytest.approx(
        [0.0760176165589779] * 3 + [0.206637305735037] * 3 + [0.0760176165589779] * 2, rel=1e-12
    )
    found = law((2, 2, 5), (1, 2, 3, 4, 4, 3, 2, 1), THREE_TENTHS, Fraction(2))
    assert [float(found[j]) for j in range(8)] == pytest.approx(
        [
            0.0675377817617585,
            0.135075563523517,
            0.202613345285275,
            0.203012437674543,
            0.203012437674543,
            0.152259328255907,
            0.0243260705496378,
            0.0121630352748189,
        ],
        rel=1e-12,
    )


@pytest.mark.parametrize(("level", "expected"), [(HALF, 0.955712194347), (THREE_TENTHS, 0.856278928284)])
def test_the_worst_loss_of_a_flat_prior_is_the_published_one(level, expected):
    assert float(worst_loss(FLAT, level, Fraction(1), most=4)) == pytest.approx(expected, abs=5e-13)


@pytest.mark.parametrize("score", ["exact", "floor"])
@pytest.mark.parametrize("masses", [FLAT, STEEP, ENDS], ids=["flat", "steep", "ends"])
@pytest.mark.parametrize(
    ("level", "epsilon"),
    [(HALF, Fraction(1)), (TENTH, Fraction(1, 1000)), (THIRD, Fraction(40)), (HALF, Fraction(600))],
)
def test_no_neighbour_reaches_more_than_epsilon(level, epsilon, masses, score):
    # At epsilon 600 one record's gap alone is beyond the floor of the weights.
    assert worst_loss(masses, level, epsilon, most=2, score=score) <= Decimal(epsilon.numerator) / epsilon.denominator


def test_the_bound_is_attained_up_to_the_sliver_that_pays_for_rounding():
    steep = (1, 10**40, 1, 10**20, 1, 1)
    worst = worst_loss(steep, HALF, Fraction(2), most=3)
    assert 2 - Decimal(10) ** -15 < worst <= 2


def test_the_loss_has_the_range_that_bounded_range_claims():
    # BoundedRange(epsilon): over all outcomes the log ratio stays within an interval of length epsilon.
    for masses in (FLAT, STEEP, ENDS):
        laws = {codes: law(codes, masses, THREE_TENTHS, Fraction(3)) for codes in datasets(6, 3)}
        for codes in datasets(6, 2):
            for larger in with_one_more(codes, 6):
                ratios = [laws[codes][j] / laws[larger][j] for j in range(6)]
                assert max(ratios) / min(ratios) <= Fraction(math.exp(3)) * (1 + Fraction(1, 10**15))


def test_a_dithered_quantile_has_its_range_given_the_dither_only():
    # A median over codes 0..2 with one bit of dither: fine indices 0..5, each record in either half of its code.
    # BoundedRange is about each dither; the released law is their mixture, and keeps all that follows from the range.
    masses = (22 * 10**7, 10**13, 10**4, 626 * 10**9, 10**5, 1)
    codes, added = (0, 1, 1, 1, 2, 2), 2
    epsilon, shares = Fraction(3), Fraction(1, 2 ** (len(codes) + 1))
    known, smaller, larger = {}, {}, {}
    for places in product((0, 1), repeat=len(codes) + 1):
        fine = [2 * code + place for code, place in zip((*codes, added), places, strict=True)]
        given = []
        for records, mixed in ((fine[:-1], smaller), (fine, larger)):
            key = tuple(sorted(records))
            if key not in known:
                known[key] = law(key, masses, HALF, epsilon)
            given.append(known[key])
            for j, mass in known[key].items():
                mixed[j // 2] = mixed.get(j // 2, 0) + shares * mass
        assert log_range(*given) <= 3
    assert sum(smaller.values()) == sum(larger.values()) == 1
    assert log_range(smaller, larger) == pytest.approx(3.0587957671803947)
    assert exact_epsilon(smaller, larger) == pytest.approx(Decimal("2.92109712572525773"))
    for one, other in ((smaller, larger), (larger, smaller)):
        for order in (2, 3, 5, 20):  # epsilon²/8-zCDP
            moment = sum(one[j] ** order / other[j] ** (order - 1) for j in one)
            assert moment <= Fraction(math.exp(order * (order - 1) * 9 / 8))
    assert exact_rho(smaller, larger) <= float(zcdp_from_bounded_range(epsilon))
    assert exact_mu(smaller, larger) <= float(gdp_from_bounded_range(epsilon))
    for x in (Fraction(i, 4) for i in range(-13, 14)):
        delta = exact_hockey_stick(smaller, larger, factor=Fraction(math.exp(x)))
        assert delta <= bounded_range_delta(epsilon, x) + Fraction(1, 10**12)


def log_range(one, other):
    ratios = [one[j] / other[j] for j in one]
    return math.log(max(ratios) / min(ratios))


def test_a_halved_sensitivity_is_refuted(monkeypatch):
    halve_the_sensitivity(monkeypatch)
    assert worst_loss(FLAT, HALF, Fraction(1), most=3) > Decimal("1.5")


def test_a_minimum_rounded_to_a_multiple_is_refuted(monkeypatch):
    # The floor of the weights then hangs on a multiple of ten, and jumps by ten where the minimum moves by one.
    real = rings.Rings._smallest_gap

    def rounded(self, best, size):
        return real(self, best, size) // 10 * 10

    monkeypatch.setattr(rings.Rings, "_smallest_gap", rounded)
    assert _worst_over_ties() > 40


def test_ties_far_from_every_outcome_are_safe_with_the_exact_minimum():
    assert _worst_over_ties() <= 10


def _worst_over_ties() -> Decimal:
    """Two heavy ties around the median: of the ranks 0, 20 and n all but one lie beyond the floor of the weights."""
    laws = [law((2,) * 20 + (4,) * n, FLAT, HALF, Fraction(10)) for n in range(20, 34)]
    return max(exact_epsilon(one, other) for one, other in pairwise(laws))
