"""One record and the histogram gradient: the proved bound, by search. Records themselves: test_private_gradient."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.published.histogram_loss import (
    FLOOR_SLACK,
    BinWeights,
    gradient_bound,
    gradient_sensitivity,
    histogram_loss,
)


def unit_sensitivity(epsilon, levels):
    """Delta_2 gamma / d."""
    found = gradient_sensitivity(bins=1, floor_weight=Fraction(1), epsilons=[Fraction(epsilon)] * levels)
    return float(found * (1 - FLOOR_SLACK))


@pytest.mark.parametrize(
    ("epsilon", "one", "several"),
    [
        (".1", 0.0353479752, 0.0706959504),
        (".5", 0.1758617016, 0.3517234033),
        ("1", 0.3463672940, 0.6927345881),
        ("2", 0.6535323512, 1.3070647024),
    ],
)
def test_reference(epsilon, one, several):
    assert unit_sensitivity(epsilon, 1) == pytest.approx(one, abs=1e-10)
    assert unit_sensitivity(epsilon, 4) == pytest.approx(several, abs=1e-10)


def test_the_published_bound_is_looser():
    """2.8 times for small epsilon, 5 times at epsilon = 1, one level."""
    assert (math.exp(0.001) - 1) / unit_sensitivity("0.001", 1) == pytest.approx(2.83, abs=0.01)
    assert (math.exp(1) - 1) / unit_sensitivity("1", 1) == pytest.approx(4.96, abs=0.01)
    assert unit_sensitivity("50", 3) == pytest.approx(math.sqrt(2))


def moved(s, tilt, masses):
    """The distance of the gradients of s and of s e^tilt."""
    powers = np.zeros(len(s), np.int64)
    first = histogram_loss(BinWeights(s, powers), masses)[1]
    return float(np.linalg.norm(first - histogram_loss(BinWeights(s * np.exp(tilt), powers), masses)[1]))


def masses_with_floor(generator, rows, bins, gamma):
    """Rows with many entries on the floor."""
    extra = generator.dirichlet(np.full(bins, 0.1), size=rows)
    return gamma / bins + (1 - gamma) * extra


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_search_does_not_exceed_the_bound(rows):
    generator = np.random.default_rng(rows)
    bins, gamma, largest = 4, 0.2, 0.0
    for _ in range(3000):
        epsilons = generator.choice([0.1, 1.0, 3.0]) * generator.uniform(0.2, 1, rows)
        s = np.exp(generator.normal(scale=generator.choice([0.5, 3, 10]), size=(rows, bins)))
        tilt = generator.choice([-0.5, 0.5], size=(rows, bins)) * epsilons[:, None]
        bound = unit_sensitivity(str(epsilons.max()), rows) * bins / gamma
        ratio = moved(s, tilt, masses_with_floor(generator, rows, bins, gamma)) / bound
        largest = max(largest, ratio)
    assert largest <= 1 + 1e-12
    assert largest > (0.5 if rows == 1 else 0.25)


def test_the_gradient_is_bounded_in_every_norm():
    generator = np.random.default_rng(5)
    for _ in range(300):
        masses = masses_with_floor(generator, 2, 5, 0.2)
        s = np.exp(generator.normal(scale=8, size=(2, 5)))
        gradient = histogram_loss(BinWeights(s, np.zeros(2, np.int64)), masses)[1]
        assert np.abs(gradient).sum() <= gradient_bound(bins=5, floor_weight=Fraction(1, 5)) * (1 + 1e-12)


def test_refusals():
    with pytest.raises(RangeError):
        gradient_bound(bins=3, floor_weight=Fraction(0))
    with pytest.raises(RangeError):
        gradient_sensitivity(bins=3, floor_weight=Fraction(1, 2), epsilons=[])
