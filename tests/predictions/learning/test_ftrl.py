"""The private learner: the leader exactly without noise, inside its regret bound, at the cost of its sums."""

import math

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.mechanisms.prefix_sums import PrefixSums
from sidelight.mechanisms.prefix_sums import plan as run_module
from sidelight.noise import Source
from sidelight.predictions.learning.entropic import Entropic
from sidelight.predictions.learning.euclidean import Ball, Box, Euclidean
from sidelight.predictions.learning.ftrl import (
    DPFTRL,
    Average,
    best_step_size,
    excess_risk_bound,
    noise_norm,
    regret_bound,
)
from sidelight.predictions.learning.schatten import Schatten
from sidelight.testing import SeededEntropy


def learner(regulariser, *, norm, lipschitz, steps=60, **cost):
    sums = PrefixSums(steps=steps, size=regulariser.size, norm_bound=norm, **(cost or {"rho": 10}))
    return DPFTRL(regulariser=regulariser, sums=sums, lipschitz=lipschitz)


def test_without_noise_it_is_the_leader(monkeypatch):
    monkeypatch.setattr(run_module, "_noise", lambda plan, source: np.zeros(plan.size, np.int64))
    plan = learner(Euclidean(start=[0.0, 0.0], domain=Box(-1, 1)), norm=1, lipschitz=1.0)
    run = plan.start()
    total = np.zeros(2)
    generator = np.random.default_rng(2)
    with Source(SeededEntropy(1)) as source:
        for _ in range(60):
            gradient = generator.normal(size=2) / 4
            total += plan.sums.quantiser.codes(gradient) * 2.0**-20
            assert np.allclose(run.learn(gradient, source=source), np.clip(-plan.eta * total, -1, 1), atol=1e-12)
    assert run.step == 60


@pytest.mark.parametrize("name", ["euclidean", "entropic", "schatten"])
def test_regret_stays_below_the_bound(name):
    """Linear losses, fixed in advance; the comparator is the best point of the domain in hindsight."""
    generator = np.random.default_rng(4)
    steps = 200
    regulariser, norm, lipschitz = {
        "euclidean": (Euclidean(start=np.zeros(3), domain=Ball(0.0, 1.0)), 1, 1.0),
        "entropic": (Entropic(rows=2, bins=4, floor=0.0), 3, 1.0),
        "schatten": (Schatten(rows=4), 2, 1.0),
    }[name]
    plan = learner(regulariser, norm=norm, lipschitz=lipschitz, steps=steps, rho=5)
    run, losses, total = plan.start(), 0.0, np.zeros(regulariser.shape)
    with Source(SeededEntropy("regret", path=[name])) as source:
        for _ in range(steps):
            gradient = generator.normal(size=regulariser.shape) + 0.5
            gradient = gradient + gradient.T if name == "schatten" else gradient
            dual = {
                "euclidean": np.linalg.norm(gradient),
                "entropic": np.abs(gradient).max(),
                "schatten": np.linalg.norm(gradient, 2),
            }[name]
            gradient /= dual
            losses += float((gradient * run.parameters).sum())
            total += gradient
            run.learn(gradient, source=source)
    best = {
        "euclidean": -np.linalg.norm(total),
        "entropic": total.min(axis=-1).sum(),
        "schatten": -np.linalg.norm(total, 2),
    }[name]
    assert losses - best <= plan.regret_bound()(steps)
    assert losses - best > -1e-6 or name != "euclidean"


def test_the_bound_needs_the_noise_term():
    """Control: with heavy noise the regret exceeds the bound that forgets the noise, at the same step size."""
    steps = 200
    plan = learner(Euclidean(start=[0.0], domain=Box(-1, 1)), norm=1, lipschitz=1.0, steps=steps, rho="1e-5")
    too_small = best_step_size(radius_squared=0.5, lipschitz=1.0, noise=0.0, steps=steps)
    careless = DPFTRL(regulariser=plan.regulariser, sums=plan.sums, lipschitz=1.0, step_size=too_small)
    worst = 0.0
    for seed in range(6):
        run, losses = careless.start(), 0.0
        with Source(SeededEntropy("noise term", path=[str(seed)])) as source:
            for _ in range(steps):
                losses += float(run.parameters[0])
                run.learn([1.0], source=source)
        worst = max(worst, losses + steps)
    assert worst > regret_bound(radius_squared=0.5, lipschitz=1.0, noise=0.0, step_size=too_small)(steps)
    assert worst <= careless.regret_bound()(steps)


def test_the_default_step_balances_the_bound():
    eta = best_step_size(radius_squared=3.0, lipschitz=2.0, noise=5.0, steps=100)
    bound = {
        step: regret_bound(radius_squared=3.0, lipschitz=2.0, noise=5.0, step_size=step)(100)
        for step in (eta / 1.1, eta, eta * 1.1)
    }
    assert min(bound, key=bound.get) == eta
    assert bound[eta] == pytest.approx(2 * math.sqrt(3.0 * 2.0 * 7.0 * 100))


def test_the_noise_norm_holds_for_all_steps_at_once():
    regulariser = Entropic(rows=2, bins=8, floor=0.0)
    sums = PrefixSums(steps=50, size=16, norm_bound=1, rho=1)
    limit = noise_norm(regulariser, deviation=sums.largest_deviation, steps=50, failure_probability=0.05)
    exceeded = 0
    for seed in range(40):
        run = sums.start()
        with Source(SeededEntropy("noise norm", path=[str(seed)])) as source:
            largest = max(float(np.abs(run.add(np.zeros(16), source=source)).max()) for _ in range(50))
        exceeded += largest > limit
    assert exceeded <= 8
    with pytest.raises(RangeError):
        noise_norm(regulariser, deviation=1.0, steps=5, failure_probability=0.0)


def test_claims_are_those_of_the_sums_and_steps_end():
    plan = learner(Euclidean(start=[0.0], domain=Box(-1, 1)), norm=1, lipschitz=1.0, steps=2, mu=1)
    assert plan.claims == plan.sums.claims
    run = plan.start()
    with Source(SeededEntropy(5)) as source:
        run.learn([0.5], source=source)
        run.learn([0.5], source=source)
        with pytest.raises(RangeError, match="2 steps"):
            run.learn([0.5], source=source)


def test_the_average_is_that_of_what_was_played():
    plan = learner(Euclidean(start=[0.0], domain=Box(-1, 1)), norm=1, lipschitz=1.0, steps=5, mu=1)
    run, played = plan.start(), []
    with pytest.raises(RangeError, match="average"):
        _ = run.average
    with Source(SeededEntropy(6)) as source:
        for _ in range(5):
            played.append(run.parameters)
            run.learn([0.5], source=source)
    assert np.allclose(run.average, np.mean(played, axis=0))
    bound = excess_risk_bound(regret=plan.regret_bound()(5), steps=5, largest_loss=1.0, failure_probability=0.05)
    assert bound > plan.regret_bound()(5) / 5
    with pytest.raises(RangeError):
        excess_risk_bound(regret=1.0, steps=0, largest_loss=1.0, failure_probability=0.05)
    with pytest.raises(RangeError):
        _ = Average((2,)).value


def test_shapes_are_checked():
    with pytest.raises(RangeError, match="coordinates"):
        DPFTRL(
            regulariser=Entropic(rows=1, bins=3, floor=0.0),
            sums=PrefixSums(steps=2, size=4, norm_bound=1, rho=1),
            lipschitz=1.0,
        )
    run = learner(Entropic(rows=1, bins=3, floor=0.0), norm=1, lipschitz=1.0).start()
    with Source(SeededEntropy(7)) as source, pytest.raises(RangeError, match="shape"):
        run.learn([1.0, 2.0, 3.0], source=source)
    assert run.step == 0
