"""Laplace or Gaussian: exact variances, the table of crossovers, centred counts."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from sidelight.aggregates.bounded import persons_in
from sidelight.errors import RangeError
from sidelight.guarantees.conversions import zcdp_from_pure
from sidelight.summaries.count_centred import centred_counts
from sidelight.summaries.noise_choice import choose_noise, gaussian_variance, laplace_variance
from sidelight.summaries.top_k import top_by_histogram

CROSSOVERS = {
    "0.1": (5, 7, 13),
    "0.5": (7, 9, 15),
    "1": (7, 9, 16),
    "2": (9, 10, 17),
    "3": (9, 11, 18),
    "5": (11, 13, 19),
}


@pytest.mark.parametrize("epsilon", CROSSOVERS)
def test_crossovers(epsilon):
    """R9 of the specification: the first g for which Gaussian noise is smaller."""
    for delta, first in zip(("1e-5", "1e-6", "1e-9"), CROSSOVERS[epsilon], strict=True):
        kinds = [choose_noise(persons_in(g), epsilon=epsilon, delta=delta).kind for g in range(1, 25)]
        assert kinds.index("gaussian") + 1 == first
        assert set(kinds[first - 1 :]) == {"gaussian"}


def test_exact_variances():
    for scale in (0.2, 0.7, 1.0, 1.9, 2.0, 2.1, 9.0):
        k = np.arange(-200, 201)
        rounded = norm.cdf((k + 0.5) / scale) - norm.cdf((k - 0.5) / scale)
        assert gaussian_variance(scale) == pytest.approx((k * k * rounded).sum(), rel=1e-9)
        a = math.exp(-1 / scale)
        laplace = (1 - a) / (1 + a) * a ** np.abs(k)
        assert laplace_variance(scale) == pytest.approx((k * k * laplace).sum(), rel=1e-7)
    assert laplace_variance(Fraction(1, 10**6)) == 0


def test_concentrated_prices():
    """Laplace noise is smaller only for one number at a large ρ: .362 against .409 at 1.523 (ε = 2)."""
    single = persons_in(1)
    chosen = choose_noise(single, rho="1.523188")
    assert chosen.kind == "laplace"
    assert chosen.variance == pytest.approx(0.362, abs=5e-4)
    assert zcdp_from_pure(chosen.epsilon) <= Fraction("1.523188")
    assert choose_noise(single, "gaussian", rho="1.523188").variance == pytest.approx(0.409, abs=5e-4)
    assert choose_noise(single, rho="1.2").kind == "gaussian"
    assert choose_noise(single, rho="0.05").kind == "gaussian"
    assert choose_noise(persons_in(2), rho="1.523188").kind == "gaussian"


def test_a_price_sets_the_scale_exactly():
    norms = persons_in(4)
    assert choose_noise(norms, epsilon="0.5").scale == 8
    gaussian = choose_noise(norms, mu="0.5")
    assert (gaussian.kind, gaussian.scale, gaussian.mu) == ("gaussian", 4, Fraction(1, 2))
    assert choose_noise(norms, rho="0.125").scale >= 4
    assert choose_noise(norms, "gaussian", epsilon=1, delta="1e-6").kind == "gaussian"
    assert choose_noise(persons_in(40), "laplace", epsilon=1, delta="1e-6").kind == "laplace"


@pytest.mark.parametrize(
    "price",
    [{}, {"epsilon": 1, "rho": 1}, {"rho": 1, "delta": "1e-6"}, {"epsilon": 0}, {"epsilon": 1, "delta": 1}],
)
def test_bad_prices_are_refused(price):
    with pytest.raises(RangeError):
        choose_noise(persons_in(1), **price)


def test_routes_of_the_top_labels():
    """Section 8: equal scales are level in recall; under ρ the limit is 0.641·√k."""
    for labels, draws, by_histogram in ((1, 1, True), (10, 10, True), (11, 10, False), (1, 10, True)):
        assert top_by_histogram(persons_in(labels), draws, epsilon="0.3") is by_histogram
    assert not top_by_histogram(None, 5, epsilon=1)
    for draws in (10, 100):
        limit = 0.641**2 * draws
        assert top_by_histogram(persons_in(math.floor(limit)), draws, rho="0.05")
        assert not top_by_histogram(persons_in(math.ceil(limit) + 1), draws, rho="0.05")
    assert top_by_histogram(persons_in(5), 10, mu="0.2")
    assert not top_by_histogram(persons_in(8), 10, mu="0.2")
    assert top_by_histogram(persons_in(20), 30, epsilon=1, delta="1e-6")
    assert not top_by_histogram(persons_in(20), 10, epsilon=1, delta="1e-6")


def test_centred_counts_references():
    assert math.sqrt(centred_counts(cells=100, groups=50, mu=1).variance) == pytest.approx(5.475, abs=0.02)
    everything = centred_counts(cells=64, groups=64, mu="0.1")
    assert math.sqrt(everything.variance) == pytest.approx((math.sqrt(64) + 1) / 0.2, rel=0.01)
    few = centred_counts(cells=10_000, groups=3, mu=1)
    assert math.sqrt(few.variance) == pytest.approx(math.sqrt(3), rel=0.02)


@pytest.mark.parametrize(("cells", "groups"), [(6, 6), (7, 4), (9, 8), (5, 1)])
def test_centred_counts_keep_their_mu_for_every_unit(cells, groups):
    plan = centred_counts(cells=cells, groups=groups, mu="0.7")
    worst = Fraction(0)
    for yes in range(groups + 1):
        moved = yes * (64 - plan.steps) ** 2 + (cells - yes) * plan.steps**2
        spent = moved / plan.cell_scale**2
        if plan.count_scale:
            spent += 1 / plan.count_scale**2
        worst = max(worst, spent)
    assert worst <= Fraction("0.7") ** 2
    if plan.steps:
        assert worst > Fraction("0.7") ** 2 * Fraction(99, 100)


def test_more_groups_than_cells_are_refused():
    with pytest.raises(RangeError):
        centred_counts(cells=3, groups=4, mu=1)
