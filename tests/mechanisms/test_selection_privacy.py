"""Privacy of the integer mechanism on the machine, by brute force over all small data sets, with planted bugs."""

import math
from fractions import Fraction
from itertools import combinations_with_replacement

import pytest
from grid_law import ListMasses, ListRanks, exponential_law, largest_loss, machine_law, outcome_masses, rings_of

from sidelight.mechanisms import Conditional, Edge
from sidelight.mechanisms.rings import DECAY, Gap, Rings, decay, gap_score

HALF = Fraction(1, 2)
FLAT = ListMasses([1] * 6)
ROUGH = ListMasses([1, 2**40, 3, 1, 2**20, 7])
#: Room for the floats of the test itself; the sampler's margin is epsilon * 2**-64.
ROUNDING = 1e-11


def loss(masses, level, epsilon, *, table=DECAY, score="exact", most=4, make=rings_of):
    """Return the largest loss of the law that the rings stand for."""
    each = outcome_masses(masses)
    return largest_loss(
        lambda codes: machine_law(make(codes, masses, level, epsilon, score=score, decay=table), each, table),
        range(masses.first, masses.last + 1),
        most,
    )


@pytest.mark.parametrize(("level", "expected"), [(HALF, 0.955712194347), (Fraction(3, 10), 0.856278928284)])
def test_reference_losses(level, expected):
    each = outcome_masses(FLAT)
    textbook = largest_loss(lambda codes: exponential_law(each, codes, level, 1), range(6), 4)
    assert textbook == pytest.approx(expected, abs=1e-11)
    assert loss(FLAT, level, Fraction(1)) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("levels", [1, 2, 3, 128])
@pytest.mark.parametrize("level", [HALF, Fraction(3, 10), Fraction(2, 3), Fraction(1, 7)])
@pytest.mark.parametrize("score", ["exact", "floor"])
@pytest.mark.parametrize("masses", [FLAT, ROUGH, Edge(ROUGH, 1, 4), Conditional(ROUGH, 1, 4)])
def test_no_loss_exceeds_epsilon(levels, level, score, masses):
    """Also with a floor right above the minimum, where the data-dependent minimum matters most."""
    assert loss(masses, level, Fraction(1), table=decay(levels), score=score) <= 1 + ROUNDING


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(4), Fraction(20)])
def test_no_loss_exceeds_other_epsilons(epsilon):
    for levels in (1, 2, 128):
        assert loss(ROUGH, HALF, epsilon, table=decay(levels)) <= float(epsilon) * (1 + 1e-9) + ROUNDING


def test_a_low_floor_comes_close_to_epsilon():
    """The bound is nearly attained, so the tests above would see a small excess."""
    assert loss(ROUGH, HALF, Fraction(1), table=decay(2), most=5) > 0.99


# --- planted bugs: each must be caught by the very same measure ---


def halved_sensitivity(codes, masses, level, epsilon, *, score, decay):
    gap = gap_score(len(codes), level, epsilon, score)
    num, den = gap.slope
    return Rings(ListRanks(codes), masses, Gap(step=gap.step, target=gap.target, slope=(num, 2 * den)), decay=decay)


class RoundedMinimum(Rings):
    """Measures the excess from the minimum rounded down to a ring boundary."""

    def _smallest_gap(self, best, size):
        num, den = self._gap.slope
        smallest = super()._smallest_gap(best, size)
        return math.ceil(Fraction(smallest * den // num * num, den))


class FloorAboveZero(Rings):
    """Hangs the floor above gap 0 instead of above the smallest gap that an outcome has."""

    def _smallest_gap(self, best, size):
        return 0


def made_by(kind):
    def make(codes, masses, level, epsilon, *, score, decay):
        return kind(ListRanks(codes), masses, gap_score(len(codes), level, epsilon, score), decay=decay)

    return make


@pytest.mark.planted("half the sensitivity of a selection")
def test_halving_the_sensitivity_is_caught():
    assert loss(FLAT, HALF, Fraction(1), make=halved_sensitivity) > 1.5


def loss_with_two_atoms(kind, *, epsilon=HALF, levels=1, most=14):
    """Return the largest loss for two heavy ties, with a minimum far from zero."""
    masses, table = ListMasses([1] * 4), decay(levels)
    each = outcome_masses(masses)

    def law(ones, twos):
        return machine_law(
            made_by(kind)([1] * ones + [2] * twos, masses, HALF, epsilon, score="exact", decay=table), each, table
        )

    laws = {(k, m): law(k, m) for k in range(most) for m in range(most)}
    return max(
        abs(math.log(p / q))
        for (k, m), here in laws.items()
        for more in ((k + 1, m), (k, m + 1))
        if more in laws
        for p, q in zip(here, laws[more], strict=True)
    )


@pytest.mark.planted("a floor of weights from a rounded minimum")
@pytest.mark.parametrize("levels", [1, 2])
def test_rounding_the_minimum_to_a_ring_boundary_is_caught(levels):
    assert loss_with_two_atoms(Rings, levels=levels) <= 0.5 + ROUNDING
    assert loss_with_two_atoms(RoundedMinimum, levels=levels) > 0.55


def test_the_score_of_the_whole_range_of_levels_needs_its_own_sensitivity():
    """Delta = max(q, 1-q), not q: with the smaller of the two the loss at q = 3/10 is too large."""

    def smaller(codes, masses, level, epsilon, *, score, decay):
        a, b = level.numerator, level.denominator
        gap = gap_score(len(codes), level, epsilon, score)
        num, den = gap.slope
        wrong = Gap(step=gap.step, target=gap.target, slope=(num * min(a, b - a), den * max(a, b - a)))
        return Rings(ListRanks(codes), masses, wrong, decay=decay)

    assert loss(FLAT, Fraction(3, 10), Fraction(1), make=smaller) > 1.2


def test_a_floor_that_ignores_ties_would_forget_the_data():
    """Why the minimum over outcomes is needed: with ties every outcome could sit on the floor.

    A hundred equal records are far from every outcome (gap 50): measured from zero all weights are the floor's, and the
    prior alone decides. Private still, and useless.
    """
    masses = ListMasses([1] * 8)
    codes = [3] * 60 + [5] * 40
    each, table = outcome_masses(masses), decay(10)
    right = machine_law(rings_of(codes, masses, HALF, Fraction(2), decay=table), each, table)
    forgot = machine_law(
        made_by(FloorAboveZero)(codes, masses, HALF, Fraction(2), score="exact", decay=table), each, table
    )
    assert right[4] + right[5] > 0.99
    assert max(forgot) < 0.2


def test_the_range_of_the_loss_is_at_most_epsilon():
    """Bounded range, which gives epsilon^2/8 zCDP: stronger than the two-sided bound."""
    each = outcome_masses(ROUGH)
    for levels in (1, 2, 128):
        table = decay(levels)
        for level in (HALF, Fraction(3, 10)):
            widest = 0.0
            laws = {}
            for n in range(5):
                for codes in combinations_with_replacement(range(6), n):
                    laws[codes] = machine_law(rings_of(codes, ROUGH, level, Fraction(1), decay=table), each, table)
            for codes, law in laws.items():
                for added in range(6):
                    more = laws.get(tuple(sorted((*codes, added))))
                    if more:
                        losses = [math.log(p / q) for p, q in zip(law, more, strict=True)]
                        widest = max(widest, max(losses) - min(losses))
            assert 0.8 < widest <= 1 + ROUNDING


@pytest.mark.slow
def test_opendp_noisy_max_agrees():
    """OpenDP's noisy max under zCDP samples the exponential mechanism: an independent oracle (uniform prior)."""
    dp = pytest.importorskip("opendp.prelude")
    from scipy.stats import chisquare

    dp.enable_features("contrib")
    codes, level = [2, 2, 5], HALF
    scores = [abs(2 * sum(c < j for c in codes) - 3) for j in range(8)]
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    noisy_max = space >> dp.m.then_noisy_max(dp.zero_concentrated_divergence(), 2.0, negate=True)
    draws = 8_000
    counts = [0] * 8
    for _ in range(draws):
        counts[noisy_max(scores)] += 1
    law = exponential_law(outcome_masses(ListMasses([1] * 8)), codes, level, 1)
    assert chisquare(counts, [p * draws for p in law]).pvalue > 1e-8
