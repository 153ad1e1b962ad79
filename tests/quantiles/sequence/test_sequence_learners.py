"""The learners: what they predict, what they learn from, and that they never see a record."""

from __future__ import annotations

import inspect
import json
from typing import Any

import numpy as np
import pytest
from benchmarks.baselines.nonprivate_online import nonprivate_online

from sidelight.errors import RangeError
from sidelight.predictions import guess
from sidelight.published.released_learners import CocobMap, first_guess
from sidelight.quantiles import PubPrev, PubProx
from sidelight.quantiles.sequence.recursive_regression import RecursiveRegression

NONE = np.empty(0)
LEARNERS = [
    PubPrev(10, 2),
    PubProx(10, 2, features=2, plausible=(0, 100)),
    PubProx(10, 2, features=2, plausible=(0, 100), method="cocob"),
]
IDS = ["previous", "regression", "cocob"]


def test_previous_predicts_the_last_release() -> None:
    learned = PubPrev((5, 10), 2).begin(2, granularity=0.1)
    assert [part.tolist() for part in learned.predict(NONE)] == [[5, 10], [2, 2]]
    learned = learned.learn(NONE, np.array([7.0, 12.5]))
    assert [part.tolist() for part in learned.predict(NONE)] == [[7, 12.5], [2, 2]]


@pytest.mark.parametrize("method", ["regression", "cocob"])
def test_features_are_learned(method: Any) -> None:
    """A feature that adds 6 to every quantile is found from noisy releases, and its absence too."""
    rng = np.random.default_rng(1)
    learned = PubProx(10, 2, features=1, plausible=(0, 100), method=method).begin(3, granularity=0.1)
    for t in range(600):
        feature = np.array([float(t % 3 == 0)])
        learned = learned.learn(feature, np.array([8.0, 12, 20]) + 6 * feature + rng.laplace(0, 1, 3))
    plain, _ = learned.predict(np.array([0.0]))
    moved, scale = learned.predict(np.array([1.0]))
    assert plain == pytest.approx([8, 12, 20], abs=1.5)
    assert moved - plain == pytest.approx([6, 6, 6], abs=2.5)
    assert np.all((scale >= 0.5) & (scale < 4))


def test_the_loss_of_the_paper_is_what_cocob_follows() -> None:
    """One step by hand: theta = bias = 5, phi = 1/2, release 12, granularity 0.1, one level."""
    learned = PubProx(10, 2, features=1, plausible=(0, 100), method="cocob").begin(1, granularity=0.1)
    after = learned.learn(np.array([2.0]), np.array([12.0]))
    assert isinstance(after, CocobMap)
    # the gradient by theta is -1 (location to the left of the proxy); the first step of COCOB is 1/100
    assert after.bias.position[0] == pytest.approx(5.01)
    assert after.slopes.position[0, 0] == pytest.approx(0.01)
    assert after.slopes.largest[0, 0] == 2


@pytest.mark.parametrize("method", ["regression", "cocob"])
def test_one_far_release_is_clipped(method: Any) -> None:
    learner = PubProx(10, 2, features=0, plausible=(0, 40), method=method)

    def after(first: float) -> float:
        learned = learner.begin(1, granularity=0.1).learn(NONE, np.array([first]))
        for _ in range(100):
            learned = learned.learn(NONE, np.array([12.0]))
        return float(learned.predict(NONE)[0][0])

    assert after(1e12) == after(40.0)
    assert abs(after(1e12) - 12) < 3


@pytest.mark.parametrize("method", ["regression", "cocob"])
def test_predictions_stay_in_reason(method: Any) -> None:
    learned = PubProx(10, 2, features=1, plausible=(0, 100), largest_scale=5, method=method).begin(1, granularity=0.1)
    rng = np.random.default_rng(2)
    for _ in range(200):
        learned = learned.learn(rng.normal(size=1) * 100, rng.uniform(-1e6, 1e6, 1))
        location, scale = learned.predict(np.array([1e4]))
        assert 0 <= location[0] <= 100
        assert 0.05 <= scale[0] <= 5


@pytest.mark.parametrize("learner", LEARNERS, ids=IDS)
def test_states_come_back_bit_for_bit(learner: Any) -> None:
    rng = np.random.default_rng(3)
    wanted = getattr(learner, "features", 0)
    learned = learner.begin(4, granularity=0.1)
    for _ in range(30):
        learned = learned.learn(rng.normal(size=wanted), rng.normal(10, 3, 4))
    again = learner.read(json.loads(json.dumps(learned.to_json())), 4, granularity=0.1)
    for _ in range(10):
        given, released = rng.normal(size=wanted), rng.normal(10, 3, 4)
        learned, again = learned.learn(given, released), again.learn(given, released)
        for one, other in zip(learned.predict(given), again.predict(given), strict=True):
            assert one.tobytes() == other.tobytes()
    with pytest.raises((RangeError, KeyError)):
        learner.read(learned.to_json(), 5, granularity=0.1)
    with pytest.raises((RangeError, KeyError, TypeError)):
        learner.read({}, 4, granularity=0.1)


@pytest.mark.parametrize("learner", LEARNERS, ids=IDS)
def test_nothing_but_features_and_releases_can_enter(learner: Any) -> None:
    learned = learner.begin(3, granularity=0.1)
    assert list(inspect.signature(learned.learn).parameters) == ["features", "released"]
    assert list(inspect.signature(learned.predict).parameters) == ["features"]


def test_a_narrow_prior_does_not_confirm_itself() -> None:
    """Releases that are drawn from the prior itself carry nothing; the scale must not shrink to nothing on them."""
    rng = np.random.default_rng(4)
    learned = PubProx(10, 2, plausible=(0, 100)).begin(1, granularity=0.1)
    for _ in range(300):
        location, scale = learned.predict(NONE)
        learned = learned.learn(NONE, rng.laplace(location, 0.5 * scale))
    assert learned.predict(NONE)[1][0] >= 2


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"scale": 0}, "scale"),
        ({"location": float("nan")}, "location"),
        ({"features": -1}, "features"),
        ({"features": 1.5}, "features"),
        ({"plausible": (5, 5)}, "plausible"),
        ({"hedge_weight": 1}, "hedge_weight"),
        ({"fallback": "cauchy"}, "fallback"),
        ({"largest_scale": 0.1}, "largest_scale"),
        ({"memory": 1}, "memory"),
        ({"method": "newton"}, "method"),
    ],
    ids=lambda value: str(value),
)
def test_wrong_parameters_are_named(wrong: dict[str, Any], match: str) -> None:
    arguments = {"location": 10, "scale": 2, "plausible": (0, 100), **wrong}
    with pytest.raises(RangeError, match=match):
        PubProx(**arguments)


def test_guesses_must_fit_the_levels() -> None:
    with pytest.raises(RangeError, match="3 levels, got 2"):
        PubPrev((1.0, 2.0), 1).begin(3, granularity=0.1)


@pytest.mark.parametrize(("lower", "family"), [(0, "HalfCauchy"), (None, "Cauchy")])
def test_the_hedge_by_default(lower: float | None, family: str) -> None:
    start = first_guess(PubPrev(40, 5))
    (prior,) = start.priors(np.array([41.0]), np.array([5.0]), origin=guess(), nonnegative=lower == 0)
    assert prior.weights == (0.9, 0.1)  # type: ignore[attr-defined]
    robust = prior.priors[1]  # type: ignore[attr-defined]
    assert type(robust).__name__ == family
    assert robust.scale == (40 if family == "HalfCauchy" else 5)


def test_the_yardstick_learns_from_the_records_and_says_so() -> None:
    rng = np.random.default_rng(5)
    days = [(rng.normal(20, 1, 400), [float(t % 2)]) for t in range(200)]
    days = [(values + 5 * features[0], features) for values, features in days]
    learner = PubProx(10, 2, features=1, plausible=(0, 100))
    location, scale = nonprivate_online(days, [0.25, 0.5], learner, granularity=1e-6)
    assert location.shape == scale.shape == (200, 2)
    assert location[0].tolist() == [10, 10]
    assert location[-1, 1] == pytest.approx(25, abs=0.5)
    assert location[-2, 1] == pytest.approx(20, abs=0.5)
    assert "not private" in (nonprivate_online.__doc__ or "").lower()


def test_regression_forgets() -> None:
    fit = RecursiveRegression.begin(np.array([0.0]), np.array([1.0]), features=0, memory=20)
    for value in [10.0] * 100 + [20.0] * 100:
        fit = fit.learn(NONE, np.array([value]))
    assert fit.predict(NONE)[0] == pytest.approx(20, abs=0.5)
