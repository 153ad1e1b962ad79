"""The law of the noise, through the run itself; a law 30 % off fails. Audits: honest stands, halved noise falls."""

import math
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.baselines.prefix_noise import simulate_prefix_noise
from scipy.stats import chi2, kstest
from streams import blurred_rows

from sidelight.audit import audit
from sidelight.mechanisms import prefix_sums as run_module
from sidelight.mechanisms.prefix_sums import PrefixSums
from sidelight.noise import Source, rounded_gaussian
from sidelight.testing import SeededEntropy


def run_of_zeros(plan, seed):
    run = plan.start()
    with Source(SeededEntropy("prefix noise", path=[seed])) as source:
        return np.array([run.add(np.zeros(plan.size), source=source) for _ in range(plan.steps)])


@pytest.mark.parametrize("steps", [1, 8])
def test_the_first_estimate_has_the_planned_law_and_no_other(steps):
    plan = PrefixSums(steps=steps, size=4000, norm_bound=1, rho="0.1")
    first = run_of_zeros(plan, f"first of {steps}")[0] / plan.row_deviation
    assert kstest(first, "norm").pvalue > 1e-8
    assert kstest(first * 1.3, "norm").pvalue < 1e-8
    assert kstest(first / 1.3, "norm").pvalue < 1e-8


def test_the_variance_of_every_estimate_is_the_planned_one():
    plan = PrefixSums(steps=23, size=4000, norm_bound=1, rho="0.1")
    estimates = run_of_zeros(plan, "variances")
    for t, deviation in enumerate(plan.deviations()):
        square = float((estimates[t] ** 2).sum())
        assert 1e-9 < chi2.cdf(square / deviation**2, 4000) < 1 - 1e-9
        assert not 1e-9 < chi2.cdf(square / (1.3 * deviation) ** 2, 4000) < 1 - 1e-9


def test_rows_get_fresh_noise_each():
    """Decoded rows of the square root, encoded again, are independent: no correlation between steps."""
    plan = PrefixSums(steps=6, size=20_000, norm_bound=1, rho="0.1")
    estimates = run_of_zeros(plan, "fresh")
    steps = np.diff(estimates, axis=0, prepend=0)
    coefficients = plan.factorisation.coefficients / 2**20
    rows = np.array([sum(coefficients[k] * steps[t - k] for k in range(t + 1)) for t in range(6)])
    correlations = np.corrcoef(rows) - np.eye(6)
    assert np.abs(correlations).max() < 6 / math.sqrt(20_000)
    assert np.abs(np.corrcoef(estimates) - np.eye(6)).max() > 0.4  # the control: estimates share noise


def test_the_simulated_noise_has_the_same_deviations():
    normals = np.random.default_rng(5).standard_normal((40, 3000))
    plan = PrefixSums(steps=40, size=3000, norm_bound=1, rho="0.1")
    assert np.allclose(simulate_prefix_noise(plan, normals).std(axis=1), plan.deviations(), rtol=0.08)
    coefficients = np.zeros(40)
    coefficients[:] = plan.factorisation.coefficients / 2**20
    by_hand = plan.row_deviation * sum(coefficients[k] * normals[30 - k] for k in range(31))
    assert np.allclose(simulate_prefix_noise(plan, normals)[30], by_hand, rtol=1e-4, atol=1e-4 * plan.row_deviation)


DRAWS = 120_000


def attacked(plan, factor):
    """The best attack: project all rows on how they differ, for a first gradient that is turned around."""
    ones, turned = [1.0, 1.0, 1.0], [-1.0, 1.0, 1.0]
    scale = plan.noise_scale * factor
    difference = blurred_rows(plan, turned, 1, "direction", scale=scale / 10**12)
    difference -= blurred_rows(plan, ones, 1, "direction", scale=scale / 10**12)
    direction = (difference / np.linalg.norm(difference))[:, 0]
    seeds = iter(range(1000))

    def sampler(stream, name):
        return lambda count: (
            direction @ blurred_rows(plan, stream, count, f"{name} {next(seeds)} {factor}", scale=scale)
        )

    return audit(sampler(ones, "first"), sampler(turned, "second"), draws=DRAWS)


def test_an_attack_reaches_the_claim_and_refutes_half_the_noise():
    plan = PrefixSums(steps=3, size=1, norm_bound=1, rho="0.5")
    honest = attacked(plan, 1)
    assert not honest.refutes(plan.claims)
    assert honest.mu().value > 0.85
    assert attacked(plan, Fraction(1, 2)).refutes(plan.claims)
    assert attacked(plan, Fraction(10, 13)).refutes(plan.claims)  # 30 % off is found as well


def adaptive_statistics(plan, first, count, seed, scale):
    """Gradients 2 and 3 follow the estimates; an attacker who sees the outputs knows them and subtracts them."""
    encoding = plan.factorisation.start(count, largest_code=plan.quantiser.radius)
    size = int(plan.quantiser.codes(np.array([1.0]))[0])
    c = plan.factorisation.coefficients.astype(float)
    codes, rows = np.full(count, int(first * size)), []
    known = np.zeros((3, count))
    with Source(SeededEntropy("adaptive", path=[seed])) as source:

        def blur(exact):
            rows.append(exact + rounded_gaussian(count, scale, source))
            return rows[-1]

        for t in range(3):
            estimate = encoding.add(codes, blur)
            codes = np.where(estimate > 0, -size, size)  # what a learner would do next
            for later in range(t + 1, 3):
                known[later] += c[later - t - 1] * codes
    return c[:3] @ (np.array(rows, dtype=float) - known)


def test_adaptive_gradients_give_nothing_more_away():
    plan = PrefixSums(steps=3, size=1, norm_bound=1, rho="0.5")
    seeds = iter(range(1000))

    def attack(scale):
        return audit(
            lambda n: adaptive_statistics(plan, 1, n, f"a {next(seeds)}", scale),
            lambda n: adaptive_statistics(plan, -1, n, f"b {next(seeds)}", scale),
            draws=DRAWS,
        )

    honest = attack(plan.noise_scale)
    assert not honest.refutes(plan.claims)
    assert honest.mu().value > 0.85
    assert attack(plan.noise_scale / 2).refutes(plan.claims)


def through_the_run(plan, first, seed):
    """Whole runs through the public door: one vector, one estimate."""
    source = Source(SeededEntropy("whole runs", path=[seed]))
    return lambda count: [float(plan.start().add([first], source=source)[0]) for _ in range(count)]


def test_whole_runs_stand_the_attack_and_halved_noise_does_not(monkeypatch):
    plan = PrefixSums(steps=1, size=1, norm_bound=1, rho="0.5")

    def attack(name):
        first, second = (through_the_run(plan, first, f"{name} {first}") for first in (1.0, -1.0))
        return audit(first, second, draws=4000)

    honest = attack("honest")
    assert not honest.refutes(plan.claims)
    assert honest.mu().value > 0.6
    monkeypatch.setattr(
        run_module, "_noise", lambda made, source: rounded_gaussian(made.size, made.noise_scale / 2, source)
    )
    assert attack("halved").refutes(plan.claims)
