"""Private histogram priors: cost, floor, learning, theory's suggestions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sidelight.accounting import dearest_path
from sidelight.errors import RangeError
from sidelight.guarantees import ApproxDP, BoundedRange, Claims
from sidelight.noise import Source
from sidelight.predictions import Histogram, released
from sidelight.predictions.learning.histogram_learner import PrivateHistograms
from sidelight.predictions.learning.histogram_theory import suggested_bins, suggested_floor_weight
from sidelight.testing import SeededEntropy


def plan(**changed):
    given = {"lower": 0, "upper": 100, "bins": 8, "levels": ["0.25", "0.75"], "release_epsilons": "0.5", "steps": 60}
    return PrivateHistograms(**(given | {"rho": 1, "floor_weight": "0.2"} | changed))


def test_it_learns_where_the_quantiles_lie_and_keeps_the_floor():
    made = plan(steps=250, rho=10**6, step_size=0.02)
    run = made.start()
    assert np.allclose(run.masses, 1 / 8)
    generator = np.random.default_rng(1)
    with Source(SeededEntropy("histograms")) as source:
        for _ in range(250):
            run.learn(generator.normal(50, 10, 200), source=source)
            assert (run.masses >= 0.2 / 8 * (1 - 1e-9)).all()
    assert run.masses.argmax(axis=1).tolist() == [3, 4]  # 43.3 and 56.7
    assert run.masses.max(axis=1).min() > 0.5
    priors = run.priors(released(["entry-1"]))
    assert all(isinstance(prior, Histogram) and prior.origin.entries == ("entry-1",) for prior in priors)
    assert priors[0].cdf(50) > 0.7 > 0.4 > priors[1].cdf(50)


def test_claims_and_composition_with_the_release():
    """rho of the learner plus eps^2/8 for each level on a record's path; or (eps_release + eps', delta')."""
    made = plan(rho=None, epsilon="0.1", delta="1e-6", participations=2)
    assert made.claims.implies(ApproxDP("0.1", "1e-6"))
    path = [Claims.of(BoundedRange("0.5")), Claims.of(BoundedRange("0.5"))]
    total = dearest_path([[made.claims, *path]]).zcdp().rho
    wanted = made.claims.zcdp().rho + 2 * Fraction(1, 2) ** 2 / 8
    assert wanted <= total <= wanted * (1 + Fraction(1, 10**30))


def test_the_noise_is_smaller_than_for_clipped_gradients():
    """Control: twice the norm, as clipping alone would need, costs 5.7 times the noise at epsilon 0.5, one level."""
    made = plan(levels=["0.5"])
    assert made.learner.sums.row_deviation < 2 * made.learner.sums.quantiser.norm_bound
    ratio = 2 * float(made.learner.sums.quantiser.norm_bound) / float(made.sensitivity)
    assert ratio == pytest.approx(2 / (math.sqrt(2) * math.tanh(0.125)), rel=1e-6)


def test_small_epsilons_get_a_finer_grid():
    coarse, fine = plan(), plan(release_epsilons="1e-4")
    assert coarse.learner.sums.gradient_bits < fine.learner.sums.gradient_bits
    assert plan(release_epsilons="1e-9").learner.sums.gradient_bits == 29
    sums = fine.learner.sums
    assert sums.integer_sensitivity < Fraction(102, 100) * fine.sensitivity / sums.quantiser.quantum


def test_step_size_is_the_formula():
    made = plan()
    deviation = made.learner.sums.largest_deviation
    gamma, d, m, steps, beta = 0.2 * (1 - 1e-9), 8, 2, 60, 0.05
    noise = (math.sqrt(2 * math.log(2 * m * d)) + math.sqrt(2 * math.log(steps / beta))) * gamma / d * deviation
    wanted = gamma * m / d * math.sqrt(math.log(d) / (steps * (1 + noise)))
    assert made.learner.eta == pytest.approx(wanted, rel=1e-9)
    assert made.regret_bound()(60) > 0


def test_empty_data_sets_and_odd_values_are_learned_from_like_any_other():
    run = plan().start()
    with Source(SeededEntropy("odd")) as source:
        for records in ([], [np.nan], [np.inf, -np.inf], [50.0] * 5000, np.full(3, 1e300)):
            run.learn(records, source=source)
    assert run.step == 5
    assert np.isfinite(run.masses).all()
    assert np.allclose(run.masses.sum(axis=1), 1)
    assert "50" not in repr(run).split("of")[0]


def test_the_end_of_the_plan():
    run = plan(steps=1).start()
    with Source(SeededEntropy("end")) as source:
        run.learn([1.0], source=source)
        with pytest.raises(RangeError, match="1 steps"):
            run.learn([1.0], source=source)


def test_suggestions_of_theory():
    gamma = suggested_floor_weight(levels=9, bins=16, steps=10**8, release_epsilon=0.1, epsilon=0.5)
    assert gamma == pytest.approx(12 * (1.4 / 10**8) ** 0.25)
    assert suggested_floor_weight(levels=9, bins=16, steps=10, release_epsilon=1, epsilon=1) == 1
    bins = suggested_bins(
        levels=1, steps=10**4, width=1.0, lipschitz=2.0, loss_floor=0.5, release_epsilon=1.0, epsilon=1.0
    )
    assert bins == math.ceil(math.sqrt(4 * math.sqrt(2 * 10**4)))
    with pytest.raises(RangeError):
        suggested_floor_weight(levels=0, bins=2, steps=3, release_epsilon=1, epsilon=1)


@pytest.mark.parametrize(
    "changed",
    [
        {"levels": []},
        {"levels": ["1"]},
        {"release_epsilons": ["1"]},
        {"release_epsilons": "0"},
        {"bins": 1},
        {"upper": 0},
        {"upper": math.inf},
        {"floor_weight": 0},
        {"floor_weight": "1.5"},
        {"score": "half"},
        {"rho": None},
        {"steps": 0},
    ],
)
def test_refusals(changed):
    with pytest.raises(RangeError):
        plan(**changed)
