"""Top-k by peeling: prices, the law of the draws in order, and all tiny neighbours."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import BoundedRange, Neighbours, Person, Row
from sidelight.mechanisms.exponential import Peeling, peeling, popularity
from sidelight.noise import Source
from sidelight.testing import SeededEntropy


def counts_of(values, *, sensitivity=1, norm="linf", neighbours=Neighbours.ADD_REMOVE):
    return Bounded(np.array(values), Fraction(sensitivity), norm, neighbours, Row())


def law(scores, epsilon, draws, weights=None):
    """The textbook law of an ordered draw without replacement."""
    weights = [1] * len(scores) if weights is None else weights
    mass = [w * math.exp(epsilon * s) for w, s in zip(weights, scores, strict=True)]
    out = {}
    for order in itertools.permutations(range(len(scores)), draws):
        p, left = 1.0, sum(mass)
        for i in order:
            p *= mass[i] / left
            left -= mass[i]
        out[order] = p
    return out


def test_prices():
    assert peeling(5, epsilon=1).step_epsilon == Fraction(1, 5)
    step = peeling(5, rho="0.1").step_epsilon
    assert step**2 / 8 * 5 <= Fraction("0.1")
    assert float(step) == pytest.approx(math.sqrt(0.16))
    by_mu = peeling(4, mu="0.5")
    assert by_mu.claims().gdp().mu <= Fraction(1, 2)
    assert float(by_mu.claims().gdp().mu) == pytest.approx(0.5, rel=1e-9)


def test_claims_add_up():
    claims = peeling(5, epsilon=1).claims(unit=Person("id", 3))
    assert claims.pure().epsilon == 1
    assert claims.zcdp().rho == Fraction(5, 25 * 8)
    assert claims.unit == Person("id", 3)
    assert not any(isinstance(claim, BoundedRange) for claim in claims)
    single = peeling(1, epsilon=1).claims()
    assert any(isinstance(claim, BoundedRange) for claim in single)


def test_all_tiny_neighbours_stay_within_epsilon():
    """A unit may add to every label at once: the loss stays at most k ε', and it is attained."""
    step, draws = 0.7, 2
    worst = 0.0
    for scores in itertools.product(range(3), repeat=3):
        for added in itertools.product((0, 1), repeat=3):
            one = law(scores, step, draws, [1, 5, 2])
            other = law([s + a for s, a in zip(scores, added, strict=True)], step, draws, [1, 5, 2])
            worst = max(worst, max(abs(math.log(one[o] / other[o])) for o in one))
    assert worst <= draws * step + 1e-12
    assert worst > step


def test_scores_that_move_both_ways_would_cost_twice_as_much():
    """The negative control: the whole epsilon as slope needs counts that only grow."""
    one, other = law((50, 0), 1.0, 1, [1, 10**9]), law((49, 1), 1.0, 1, [1, 10**9])
    assert max(abs(math.log(one[o] / other[o])) for o in one) > 1.5


def draws_of(step, weights, runs):
    with Source(SeededEntropy("peeling")) as source:
        return Counter(
            tuple(
                Peeling(draws=2, step_epsilon=Fraction(step))
                .release(counts_of([3, 1, 2, 0]), source=source, weights=weights)
                .tolist()
            )
            for _ in range(runs)
        )


@pytest.mark.parametrize("weights", [None, [1, 4, 2, 9]])
def test_draws_have_the_law_and_not_one_with_another_slope(weights):
    runs = 5000
    found = draws_of("0.5", weights, runs)
    book = law((3, 1, 2, 0), 0.5, 2, weights)
    observed = [found[order] for order in book]
    assert chisquare(observed, runs * np.array(list(book.values()))).pvalue > 1e-7
    for wrong in (0.35, 0.65):
        other = np.array(list(law((3, 1, 2, 0), wrong, 2, weights).values()))
        assert chisquare(observed, runs * other).pvalue < 1e-6


def test_a_larger_sensitivity_lowers_the_slope():
    with Source(SeededEntropy("rows")) as source:
        first = Counter(
            int(Peeling(draws=1, step_epsilon=Fraction(2)).release(counts_of([0, 4], sensitivity=4), source=source)[0])
            for _ in range(3000)
        )
    assert first[1] / 3000 == pytest.approx(1 / (1 + math.exp(-2)), abs=0.04)


def test_no_more_labels_than_there_are():
    with Source(SeededEntropy("few")) as source:
        assert sorted(peeling(9, epsilon=1).release(counts_of([1, 2]), source=source).tolist()) == [0, 1]


@pytest.mark.parametrize(
    "scores",
    [counts_of([1, 2], norm="l1"), counts_of([1, 2], neighbours=Neighbours.REPLACE), counts_of([[1, 2]]),
     counts_of([1], sensitivity=0)],
)  # fmt: skip
def test_other_statistics_are_refused(scores):
    with Source(SeededEntropy("refused")) as source, pytest.raises(RangeError):
        peeling(1, epsilon=1).release(scores, source=source)


@pytest.mark.parametrize("price", [{}, {"epsilon": 1, "rho": 1}, {"epsilon": 0}, {"mu": -1}])
def test_bad_prices_are_refused(price):
    with pytest.raises(RangeError):
        peeling(3, **price)


@pytest.mark.parametrize("draws", [0, -1, 1.5, True])
def test_bad_numbers_of_labels_are_refused(draws):
    with pytest.raises(RangeError):
        peeling(draws, epsilon=1)


def test_popularity_keeps_every_label_possible():
    weights = popularity([1e6, 0, 0, 1])
    assert weights.min() >= 2**40 * 0.1 / 4
    assert weights[0] > weights[3] > weights[1]
    assert popularity([0, 0]).tolist() == [2**39 + 1] * 2
    for bad in ([], [-1.0], [math.nan], [[1.0]]):
        with pytest.raises(RangeError):
            popularity(bad)
    with pytest.raises(RangeError):
        popularity([1.0], doubt=0)
