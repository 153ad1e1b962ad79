"""Costs: calibration, claims from the integers that run, sensitivities by search, planted bugs."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm
from streams import exact_rows

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, ZCDP, ApproxDP, Neighbours, Person
from sidelight.guarantees.conversions import zcdp_delta, zcdp_within
from sidelight.mechanisms.prefix_sums import PrefixSums, rho_for, square_root_norms


def plan(**changed):
    return PrefixSums(**({"steps": 12, "size": 3, "norm_bound": 1, "rho": "0.5"} | changed))


@pytest.mark.parametrize(
    ("epsilon", "delta", "gaussian", "rho", "concentrated"),
    [
        (".1", "1e-6", 36.3046904262, 3.2104769e-4, 39.4639204681),
        ("1", "1e-6", 4.2246788893, 2.435597036e-2, 4.5308771170),
        ("1", "1e-5", 3.7306316348, 3.0556595198e-2, 4.0451303583),
        ("2", "1e-6", 2.2304762712, 8.815268838e-2, 2.3815912248),
    ],
)
def test_calibration_to_epsilon_and_delta(epsilon, delta, gaussian, rho, concentrated):
    exact = rho_for(epsilon=epsilon, delta=delta)
    assert 1 / math.sqrt(2 * exact) == pytest.approx(gaussian, rel=1e-10)
    weaker = rho_for(epsilon=epsilon, delta=delta, noise="discrete_gaussian")
    assert float(weaker) == pytest.approx(rho, rel=1e-7)
    assert 1 / math.sqrt(2 * weaker) == pytest.approx(concentrated, rel=1e-9)


@pytest.mark.parametrize(
    ("rho", "epsilon", "delta"), [(".01", 1, 1.664114e-13), (".1", 2, 4.325211e-6), (".5", 4, 1.957954e-4)]
)
def test_deltas_of_zero_concentrated_dp(rho, epsilon, delta):
    assert float(zcdp_delta(Fraction(rho), Fraction(epsilon))) == pytest.approx(delta, rel=1e-6)


def test_the_noise_of_a_long_stream():
    """T = 2500, sensitivity 2, (0.1, 1e-6). The radius of the integers adds 1e-6 to the sensitivity."""
    common = {"steps": 2500, "size": 1, "norm_bound": 1, "epsilon": "0.1", "delta": "1e-6"}
    discrete = PrefixSums(**common, noise="discrete_gaussian")
    assert discrete.row_deviation == pytest.approx(148.85203, rel=2e-6)
    tree = PrefixSums(**common, noise="discrete_gaussian", encoder="tree")
    assert tree.row_deviation == pytest.approx(273.41406, rel=2e-6)
    rounded = PrefixSums(**common)
    assert rounded.row_deviation == pytest.approx(2 * 36.3046904262 * math.sqrt(3.556715218759), rel=2e-6)
    one = PrefixSums(
        steps=1000, size=1, norm_bound="0.5", epsilon=1, delta="1e-6", noise="discrete_gaussian", encoder="tree"
    )
    assert one.row_deviation == pytest.approx(14.327891, rel=2e-6)


def test_the_published_formula_is_not_used_because_it_breaks():
    """sqrt(2 log(1/delta))/eps at eps = 2 log(1/delta): the true delta is 2.7e-3, not 1e-6; it over-noises at 1."""
    delta = 1e-6

    def true_delta(epsilon):
        r = math.sqrt(2 * math.log(1 / delta)) / epsilon
        return norm.cdf(1 / (2 * r) - epsilon * r) - math.exp(epsilon) * norm.cdf(-1 / (2 * r) - epsilon * r)

    assert true_delta(2 * math.log(1 / delta)) == pytest.approx(2.7e-3, rel=0.02)
    assert true_delta(8.3) < delta < true_delta(8.4)
    assert math.sqrt(2 * math.log(1 / delta)) > 1.15 / math.sqrt(2 * rho_for(epsilon=1, delta="1e-6"))


@pytest.mark.parametrize("encoder", ["square_root", "tree"])
@pytest.mark.parametrize("noise", ["rounded_gaussian", "discrete_gaussian"])
@pytest.mark.parametrize("cost", [{"rho": "0.02"}, {"mu": "1/3"}, {"epsilon": 1, "delta": "1e-6"}])
def test_claims_keep_what_was_asked_and_equal_the_formula(encoder, noise, cost):
    made = PrefixSums(steps=50, size=7, norm_bound="2.5", encoder=encoder, noise=noise, **cost)
    squares = sum(c * c for c in made.factorisation.coefficients.tolist()) if encoder == "square_root" else 6
    radius = 2**20 + 2  # sqrt(7)/2 rounded up
    rho = Fraction((2 * radius) ** 2 * squares) / (2 * made.noise_variance)
    claimed = made.claims.zcdp().rho
    assert rho <= claimed <= rho * (1 + Fraction(1, 10**30))
    assert claimed <= made.total_rho
    assert claimed > made.total_rho * (1 - Fraction(1, 10**12))
    if "mu" in cost and noise == "rounded_gaussian":
        assert made.claims.gdp().mu <= Fraction(1, 3)
    if "epsilon" in cost:
        assert made.claims.implies(ApproxDP(1, "1e-6"))
    assert isinstance(next(iter(made.claims)), GDP if noise == "rounded_gaussian" else ZCDP)


def test_discrete_noise_does_not_claim_gaussian_dp_by_itself():
    assert not any(isinstance(claim, GDP) for claim in plan(noise="discrete_gaussian").claims)


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


@pytest.mark.parametrize("encoder", ["square_root", "tree"])
def test_no_neighbour_moves_the_rows_further_than_claimed(encoder):
    """Brute force on the integers: the distance of the exact rows, squared, against the claim's own numbers."""
    for seed in range(150):
        made = plan(steps=9, size=4, encoder=encoder)
        first, second = streams(seed, 9, 4)
        moved = exact_rows(made, first) - exact_rows(made, second)
        assert sum(int(x) ** 2 for x in moved) <= made.integer_sensitivity**2 * made.factorisation.largest_squared_norm


@pytest.mark.parametrize("encoder", ["square_root", "tree"])
def test_the_bound_is_attained_so_the_norm_alone_is_a_bug(encoder):
    """Control: with the gradient's norm as its sensitivity, a turned-around first gradient exceeds the bound twice."""
    made = plan(steps=9, size=4, encoder=encoder)
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


def test_one_level_too_few_is_a_bug():
    """ceil(log2 T) levels, as printed: none at all for T = 1, one too few at powers of two."""
    for steps in (1, 2, 4, 8):
        made = plan(steps=steps, size=1, encoder="tree")
        turned = np.ones((steps, 1))
        turned[0] = -1
        moved = exact_rows(made, np.ones((steps, 1))) - exact_rows(made, turned)
        levels = sum(int(x) ** 2 for x in moved) / (2 * 2**20) ** 2
        assert round(levels) == steps.bit_length() == math.ceil(math.log2(steps)) + 1


def test_context_travels_with_the_claims():
    made = plan(neighbours=Neighbours.REPLACE, unit=Person("id", 2), participations=2)
    assert made.claims.neighbours is Neighbours.REPLACE
    assert made.claims.unit == Person("id", 2)


def test_deviations_are_in_the_units_of_the_vectors():
    made = plan(norm_bound=10, rho=1)
    assert made.row_deviation == pytest.approx(20 * math.sqrt(square_root_norms(12)[-1] / 2), rel=2e-6)
    assert made.deviations()[-1] == pytest.approx(made.largest_deviation)
    assert made.deviations()[0] == pytest.approx(made.row_deviation)


@pytest.mark.parametrize(
    "changed",
    [
        {"rho": None},
        {"mu": 1},
        {"rho": None, "epsilon": 1},
        {"delta": "1e-6"},
        {"rho": 0},
        {"steps": 0},
        {"steps": True},
        {"steps": 2.5},
        {"size": 0},
        {"participations": 13},
        {"norm_bound": 0},
        {"sensitivity": 0},
        {"encoder": "banded"},
        {"noise": "laplace"},
        {"gradient_bits": 31},
        {"encoder_bits": 4},
    ],
)
def test_what_makes_no_sense_is_refused_before_any_data(changed):
    with pytest.raises(RangeError):
        plan(**changed)


def test_calibration_is_never_below_the_certified_rho():
    assert rho_for(epsilon=1, delta="1e-6", noise="discrete_gaussian") == zcdp_within(Fraction(1), Fraction("1e-6"))
