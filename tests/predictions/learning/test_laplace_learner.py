"""Private Laplace priors with features: sensitivity twice the norm, rho in halves, learning, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.guarantees import ApproxDP, Neighbours
from sidelight.noise import Source
from sidelight.predictions import Laplace, released
from sidelight.predictions.learning.laplace_learner import PrivateLaplaces
from sidelight.testing import SeededEntropy


def plan(**changed):
    given = {
        "levels": ["0.5"],
        "features": 1,
        "feature_norm": 1,
        "bound": 10,
        "smallest_scale": "0.5",
        "largest_scale": 5,
        "granularity": "0.01",
        "steps": 50,
        "rho": 1,
    }
    return PrivateLaplaces(**(given | changed))


def gradients(made, records, location, phi):
    run = made.start()
    rows = len(made.levels)
    return run._gradients(records, np.full(rows, location * phi), np.full(rows, phi))


def test_one_added_record_turns_the_gradient_around():
    """The location sits on the record that both optimal intervals share: from -1 to +1, twice the norm."""
    made = plan()
    records = [-3.0, -1.0, 2.0, 4.0]  # n = 4, k = 2: (-1, 2]
    added = [-9.0, *records]  # n = 5, k = 2: (-3, -1]
    assert gradients(made, records, -1.0, 1.0)[0][0] == -1
    assert gradients(made, added, -1.0, 1.0)[0][0] == 1


def test_the_norm_as_sensitivity_is_a_bug_and_twice_the_norm_is_not():
    """The published sensitivity F (zero-out neighbours) is exceeded by one record; 2F and 2(B + s) never are."""
    made = plan(levels=["0.25", "0.5", "0.75"])
    generator = np.random.default_rng(3)
    largest_theta, largest_phi = 0.0, 0.0
    for trial in range(3000):
        records = np.round(generator.normal(scale=generator.choice([0.1, 3, 20]), size=generator.integers(1, 9)), 1)
        added = np.append(records, generator.choice([-10.0, 10.0, *records]))
        location = float(generator.choice(records)) if trial % 2 else float(generator.uniform(-10, 10))
        phi = float(generator.choice([0.2, 1.0, 2.0]))
        first, second = gradients(made, records, location, phi), gradients(made, added, location, phi)
        largest_theta = max(largest_theta, float(np.linalg.norm(first[0] - second[0])))
        largest_phi = max(largest_phi, float(np.linalg.norm(first[1] - second[1])))
    assert 1.2 < largest_theta <= 2
    assert 15.5 < largest_phi <= 2 * 15


def test_gradients_are_within_their_norms():
    made = plan(levels=["0.1", "0.5", "0.9"], features=2, feature_norm=2)
    generator = np.random.default_rng(4)
    for _ in range(500):
        records = generator.normal(scale=20, size=generator.integers(0, 9))
        d_theta, d_phi = gradients(made, records, float(generator.uniform(-10, 10)), float(generator.uniform(0.2, 2)))
        assert np.linalg.norm(d_theta) <= 1 + 1e-12
        assert np.linalg.norm(d_phi) <= 15 + 0.005 + 1e-9


def test_sums_use_twice_the_norms_and_half_of_rho_each():
    made = plan(feature_norm=3, rho="0.4")
    for block, norm in ((made.locations, 3), (made.inverse_scales, 15)):
        assert block.sums.quantiser.norm_bound == norm
        assert block.sums.integer_sensitivity == 2 * block.sums.quantiser.radius
        rho = block.sums.claims.zcdp().rho
        assert Fraction("0.2") * (1 - Fraction(1, 10**12)) < rho <= Fraction("0.2")
    total = made.claims.zcdp().rho
    assert Fraction("0.4") * (1 - Fraction(1, 10**12)) < total <= Fraction("0.4")


@pytest.mark.parametrize("noise", ["rounded_gaussian", "discrete_gaussian"])
def test_epsilon_and_delta_are_kept_by_both_blocks_together(noise):
    """Control: each block alone would keep a smaller epsilon, and two blocks at the full one would not."""
    made = plan(rho=None, epsilon=1, delta="1e-6", noise=noise)
    assert made.claims.implies(ApproxDP(1, "1e-6"))
    assert not made.claims.implies(ApproxDP("0.99", "1e-6"))
    assert made.locations.claims.implies(ApproxDP("0.75", "1e-6"))


def test_it_follows_features():
    """The median is 4 f - 1 for a public feature f: learned with little noise."""
    made = plan(
        features=2,
        feature_norm=2,
        bound=8,
        smallest_scale="0.25",
        largest_scale=4,
        steps=600,
        rho=10**7,
        step_sizes=(0.15, 0.01),
    )
    run = made.start()
    generator = np.random.default_rng(9)
    with Source(SeededEntropy("laplaces")) as source:
        for _ in range(600):
            f = float(generator.uniform(-1, 1))
            run.learn([f, 1.0], generator.normal(4 * f - 1, 0.3, 40), source=source)
    origin = released(["entry-7"])
    for f in (-0.8, 0.0, 0.8):
        (prior,) = run.priors([f, 1.0], origin)
        assert isinstance(prior, Laplace)
        assert prior.location == pytest.approx(4 * f - 1, abs=0.6)
        assert prior.origin == origin
    slopes, inverse = run.average
    assert slopes.shape == (1, 2)
    assert inverse.shape == (1,)


def test_locations_stay_within_the_bound_and_scales_in_their_range():
    run = plan(rho="1e-4").start()
    with Source(SeededEntropy("noisy")) as source:
        for _ in range(50):
            run.learn([1.0], [3.0], source=source)
            (prior,) = run.priors([1.0], released(["e"]))
            assert abs(prior.location) <= 10
            assert 0.5 - 1e-9 <= prior.scale <= 5 + 1e-9


def test_empty_and_odd_records():
    run = plan().start()
    with Source(SeededEntropy("odd records")) as source:
        for records in ([], [np.nan], [np.inf, -np.inf, 2.0], [1.0] * 100):
            run.learn([1.0], records, source=source)
    assert run.step == 4
    d_theta, d_phi = run._gradients([], np.zeros(1), np.ones(1))
    assert (d_theta, d_phi) == (0, 0)


def test_features_are_public_and_bounded():
    run = plan().start()
    with Source(SeededEntropy("features")) as source:
        with pytest.raises(RangeError, match="norm 2"):
            run.learn([2.0], [1.0], source=source)
        with pytest.raises(RangeError, match="1 features"):
            run.learn([1.0, 0.0], [1.0], source=source)
        with pytest.raises(RangeError, match="norm nan"):
            run.learn([math.nan], [1.0], source=source)
    assert run.step == 0


def test_default_steps_are_the_formula():
    made = plan(levels=["0.3", "0.6"], features=3)
    block = made.locations
    beta = 0.025
    noise = (math.sqrt(6) + math.sqrt(2 * math.log(50 / beta))) * block.sums.largest_deviation
    radius = 6 * 20.0**2 / 2
    assert block.eta == pytest.approx(math.sqrt(radius / (1 * (1 + noise) * 50)))
    assert made.inverse_scales.regulariser.radius_squared == pytest.approx(2 * (2 - 0.2) ** 2 / 8)


def test_context_and_refusals():
    assert plan(neighbours=Neighbours.REPLACE).claims.neighbours is Neighbours.REPLACE
    for changed in (
        {"levels": []},
        {"levels": [0]},
        {"features": 0},
        {"bound": 0},
        {"smallest_scale": 5},
        {"rho": None},
        {"granularity": 0},
    ):
        with pytest.raises(RangeError):
            plan(**changed)
