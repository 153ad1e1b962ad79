"""Costs: calibration, claims from the integers that run, sensitivities by search, planted bugs."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm
from streams import exact_rows

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, ApproxDP, Neighbours, Person
from sidelight.guarantees.conversions import gdp_within
from sidelight.mechanisms.prefix_sums import PrefixSums
from sidelight.mechanisms.square_root_factors import square_root_norms


def plan(**changed):
    return PrefixSums(**({"steps": 12, "size": 3, "norm_bound": 1, "rho": "0.5"} | changed))


def test_the_noise_of_a_long_stream():
    """T = 2500, sensitivity 2, (0.1, 1e-6). The radius of the integers adds 1e-6 to the sensitivity."""
    mu = gdp_within(Fraction(1, 10), Fraction("1e-6"))
    rounded = PrefixSums(steps=2500, size=1, norm_bound=1, rho=mu**2 / 2)
    assert rounded.row_deviation == pytest.approx(2 * 36.3046904262 * math.sqrt(3.556715218759), rel=2e-6)
    assert rounded.claims.implies(ApproxDP("0.1", "1e-6"))


def test_the_published_formula_is_not_used_because_it_breaks():
    """sqrt(2 log(1/delta))/eps at eps = 2 log(1/delta): the true delta is 2.7e-3, not 1e-6; it over-noises at 1."""
    delta = 1e-6

    def true_delta(epsilon):
        r = math.sqrt(2 * math.log(1 / delta)) / epsilon
        return norm.cdf(1 / (2 * r) - epsilon * r) - math.exp(epsilon) * norm.cdf(-1 / (2 * r) - epsilon * r)

    assert true_delta(2 * math.log(1 / delta)) == pytest.approx(2.7e-3, rel=0.02)
    assert true_delta(8.3) < delta < true_delta(8.4)
    assert math.sqrt(2 * math.log(1 / delta)) > 1.15 / gdp_within(Fraction(1), Fraction("1e-6"))


@pytest.mark.parametrize("rho", ["0.02", "1/18", 3])
def test_claims_keep_what_was_asked_and_equal_the_formula(rho):
    made = PrefixSums(steps=50, size=7, norm_bound="2.5", rho=rho)
    squares = sum(c * c for c in made.factorisation.coefficients.tolist())
    radius = 2**20 + 2  # sqrt(7)/2 rounded up
    wanted = Fraction((2 * radius) ** 2 * squares) / (2 * made.noise_scale**2)
    claimed = made.claims.zcdp().rho
    assert wanted <= claimed <= wanted * (1 + Fraction(1, 10**30))
    assert Fraction(rho) * (1 - Fraction(1, 10**12)) < claimed <= Fraction(rho)
    assert isinstance(next(iter(made.claims)), GDP)


def test_what_steps_cost_adds_up_to_what_the_stream_costs():
    """A step costs mu^2 / p: p steps together are the stream; someone in fewer pays less, and k^2/p^2 at least."""
    made = plan(participations=3)
    step, whole = made.step_claims.gdp().mu, made.claims.gdp().mu
    assert float(3 * step**2) == pytest.approx(float(whole**2), rel=1e-12)
    for days in (1, 2, 3):  # what k turned-around vectors really move, against what k steps were charged
        first, second = np.ones((12, 3)), np.ones((12, 3))
        second[:days] = -1
        moved = exact_rows(made, first) - exact_rows(made, second)
        reached = sum(int(x) ** 2 for x in moved) / made.noise_scale**2
        assert reached <= days * step**2
    assert plan().step_claims == plan().claims


def test_the_sensitivity_is_twice_the_norm():
    assert plan().integer_sensitivity == 2 * (2**20 + 1)
    assert plan(participations=3).integer_sensitivity == 6 * (2**20 + 1)
    assert plan(participations=3).noise_scale > 2.99 * plan().noise_scale


def test_a_refined_sensitivity_pays_for_rounding_and_floats():
    refined = plan(size=16, norm_bound=100, sensitivity="0.5")
    wanted = (Fraction(1, 2) + Fraction(100, 10**9)) * 2**20 / 100 + 4
    assert wanted <= refined.integer_sensitivity <= wanted * (1 + Fraction(1, 10**30))
    assert refined.quantiser.shape == "box"


def streams(seed, steps, size):
    """Nasty pairs: one vector replaced, long and short ones, opposite ones."""
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(steps, size)) * generator.choice([1e-9, 0.3, 1, 50], size=(steps, 1))
    changed = vectors.copy()
    at = generator.integers(steps)
    changed[at] = generator.choice([-1, 1, 0, -1e6, np.nan]) * vectors[at]
    return vectors, changed


def test_no_neighbour_moves_the_rows_further_than_claimed():
    """Brute force on the integers: the distance of the exact rows, squared, against the claim's own numbers."""
    for seed in range(150):
        made = plan(steps=9, size=4)
        first, second = streams(seed, 9, 4)
        moved = exact_rows(made, first) - exact_rows(made, second)
        assert sum(int(x) ** 2 for x in moved) <= made.integer_sensitivity**2 * made.factorisation.largest_squared_norm


@pytest.mark.planted("a norm taken for the sensitivity of a gradient", of=("PrivateHistograms",))
def test_the_bound_is_attained_so_the_norm_alone_is_a_bug():
    """Control: with the gradient's norm as its sensitivity, a turned-around first gradient exceeds the bound twice."""
    made = plan(steps=9, size=4)
    first = np.full((9, 4), 0.5)
    second = first.copy()
    second[0] *= -1
    moved = exact_rows(made, first) - exact_rows(made, second)
    reached = sum(int(x) ** 2 for x in moved) / made.factorisation.largest_squared_norm
    assert reached > 0.9999 * made.integer_sensitivity**2
    planted = made.integer_sensitivity / 2
    assert reached > 3.9 * planted**2


def test_participations_are_covered_and_fewer_are_a_bug():
    made = plan(steps=9, size=1, participations=3)
    first, second = np.ones((9, 1)), np.ones((9, 1))
    second[:3] = -1
    moved = exact_rows(made, first) - exact_rows(made, second)
    reached = sum(int(x) ** 2 for x in moved)
    assert reached <= made.integer_sensitivity**2 * made.factorisation.largest_squared_norm
    assert reached > 4 * plan(size=1).integer_sensitivity ** 2 * made.factorisation.largest_squared_norm


def test_context_travels_with_the_claims():
    made = plan(neighbours=Neighbours.REPLACE, unit=Person("id", 2), participations=2)
    assert made.claims.neighbours is Neighbours.REPLACE
    assert made.claims.unit == Person("id", 2)


def test_deviations_are_in_the_units_of_the_vectors():
    made = plan(norm_bound=10, rho=1)
    assert made.row_deviation == pytest.approx(20 * math.sqrt(square_root_norms(12)[-1] / 2), rel=2e-6)
    assert made.deviations()[0] == pytest.approx(made.row_deviation)


@pytest.mark.parametrize(
    "changed",
    [
        {"rho": 0},
        {"steps": 0},
        {"steps": True},
        {"steps": 2.5},
        {"size": 0},
        {"participations": 13},
        {"norm_bound": 0},
        {"sensitivity": 0},
        {"gradient_bits": 31},
        {"encoder_bits": 4},
    ],
)
def test_what_makes_no_sense_is_refused_before_any_data(changed):
    with pytest.raises(RangeError):
        plan(**changed)
