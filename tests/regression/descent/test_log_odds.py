"""Shrinkage of two-class log odds for clipping and noise: the formula against simulated rows.

Also whole fits with and without shrinkage.
"""

import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import sidelight as sl
from sidelight.regression.descent import fit as fitting
from sidelight.regression.descent.log_odds import Rate, clipped_end, told_share, true_log_odds
from sidelight.regression.descent.rules import Schedule
from sidelight.regression.model_predictions import PredictedFit
from sidelight.regression.prediction_sources import predictions_of

STEPS = Schedule(noise=0.02, passes=16, tail=12, clip_share=0.5, clip=1.0, step=2.8, constant_step=2.8)


def simulated_end(
    theta: np.ndarray, h: np.ndarray, *, share: float, truth: float, steps: Schedule, rows: int = 200_000
) -> tuple[float, float]:
    """Take the clipped steps on drawn rows whose labels have their true probabilities; return where they end."""
    rng = np.random.default_rng(5)
    z = np.column_stack([rng.standard_normal((rows, len(h) - 1)) * np.sqrt(h[:-1]), np.ones(rows)])
    chance = 1 / (1 + np.exp(-(share * z[:, :-1] @ theta[:-1] + truth)))
    point, points = np.zeros_like(theta), []
    for _ in range(steps.passes):
        said = 1 / (1 + np.exp(-(z @ point)))
        error = chance * np.maximum(said - 1, -steps.clip_share) + (1 - chance) * np.minimum(said, steps.clip_share)
        point = point - steps.step / 0.25 * (z.T @ error) / rows
        points.append(point)
    weights, end = h[:-1] * theta[:-1], np.mean(points[-steps.tail :], axis=0)
    return float(weights @ end[:-1] / (weights @ theta[:-1])), float(end[-1])


@pytest.mark.parametrize(
    ("clip", "share", "passes", "tail"), [(1.0, 1.0, 16, 12), (0.5, 0.7, 16, 4), (0.3, 0.4, 16, 12), (0.2, 1.0, 8, 6)]
)
def test_the_formula_is_what_steps_on_drawn_rows_do(clip: float, share: float, passes: int, tail: int) -> None:
    theta, h = np.array([1.5, -0.8, 0.4, 0.0, 0.7]), np.array([1.0, 0.6, 0.3, 0.1, 1.0])
    steps = replace(STEPS, clip_share=clip, passes=passes, tail=tail)
    given = {"truth": -1.2, "steps": steps}
    found, brute = (end(theta, h, share=share, **given) for end in (clipped_end, simulated_end))
    assert found == pytest.approx(brute, rel=0.03)
    wrong = clipped_end(theta, h, share=1.15 * share, **given)  # the test would see 15 % more
    assert abs(wrong[0] - brute[0]) > 2 * abs(found[0] - brute[0])
    wrong = clipped_end(theta, h, share=share, **given | {"truth": -1.4})
    assert abs(wrong[1] - brute[1]) > 2 * abs(found[1] - brute[1])


class TestShare:
    """What is kept of the log odds."""

    theta, h, nothing = np.array([2.0, 1.0, 0.3]), np.array([1.0, 0.8, 1.0]), np.zeros(3)

    def kept(self, *, clip: float = 0.5, noise: np.ndarray | None = None, passes: int = 64, **more: bool) -> float:
        steps = replace(STEPS, clip_share=clip, passes=passes, tail=4, step=1.9)  # short enough not to overshoot
        return true_log_odds(self.theta, self.nothing if noise is None else noise, self.h, self.h, steps=steps, **more)[
            0
        ]

    def test_no_clip_and_no_noise_leave_them_alone(self) -> None:
        assert self.kept(clip=1.0) == pytest.approx(1.0, abs=0.02)

    def test_a_lower_clip_leaves_less(self) -> None:
        every = [self.kept(clip=clip) for clip in (1.0, 0.5, 0.35, 0.25)]
        assert every == sorted(every, reverse=True)
        assert 0.65 < every[1] < 0.85

    def test_noise_leaves_less(self) -> None:
        little, much = (self.kept(clip=1.0, noise=np.full(3, each)) for each in (0.3, 3.0))
        assert little == pytest.approx(1 - 0.3 * 1.8 / 4.8, abs=0.02)
        assert much == pytest.approx(0.5)

    def test_true_log_odds_come_back(self) -> None:
        steps = replace(STEPS, clip_share=0.4)
        for truth in (0.3, -1.8):
            end, constant = simulated_end(self.theta, self.h, share=1.0, truth=truth, steps=steps)
            theta = np.append(end * self.theta[:-1], constant)
            told, rate = true_log_odds(theta, np.full(3, 1e-6), self.h, self.h, steps=steps)
            assert told * end == pytest.approx(1.0, rel=0.1)
            assert end > 1.1  # there was something to draw back
            nodes = np.random.default_rng(1).standard_normal(100_000) * np.sqrt(4.8)
            assert rate.share == pytest.approx(np.mean(1 / (1 + np.exp(-truth - nodes))), abs=0.02)
            assert abs(constant) > 1.15 * abs(truth)

    @pytest.mark.parametrize("theta", [np.zeros(3), np.full(3, np.inf), np.full(3, np.nan), np.full(3, 1e200), theta])
    @pytest.mark.parametrize("size", [0.0, 5e-324, 1e-300, 1e-100, 1.0, 1e100, 1e300, np.inf, np.nan])
    def test_nothing_that_was_released_breaks_it(self, theta: np.ndarray, size: float) -> None:
        sizes = (size * self.h, np.array([size, 0.0, 1.0]))
        for noise in (self.nothing, np.ones(3), np.full(3, np.inf), np.full(3, np.nan)):
            for h, likely in [(each, other) for each in sizes for other in (self.h, each)]:
                for intercept in (True, False):
                    found, rate = true_log_odds(theta, noise, h, likely, steps=STEPS, intercept=intercept)
                    assert 0 < found <= 1
                    assert rate is None or (0 < rate.share < 1 and np.isfinite(rate.variance))

    def test_columns_that_no_step_is_made_for_are_drawn_back_by_their_noise_alone(self) -> None:
        found, rate = true_log_odds(self.theta, np.full(3, 0.5), np.zeros(3), np.ones(3), steps=STEPS)
        assert rate is None
        assert found == pytest.approx(1 - 0.5 * 2 / 5)
        nearly, _ = true_log_odds(self.theta, np.full(3, 0.5), np.full(3, 1e-90), np.ones(3), steps=STEPS)
        assert nearly == pytest.approx(found)

    def test_without_a_constant(self) -> None:
        self_made = self.kept(intercept=False)
        assert 0.5 < self_made < 0.9


def two_classes(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, their labels, and the log odds that drew them."""
    rng = np.random.default_rng([18, seed])
    slopes = rng.standard_normal(8)
    x = rng.standard_normal((rows, 8)) * np.arange(1, 9) ** -0.5 / 4
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    odds = 10 * x @ slopes / np.sqrt(2) + 0.5
    return x, (rng.random(rows) < 1 / (1 + np.exp(-odds))).astype(int), odds


def log_loss(model: sl.LogisticRegression, x: np.ndarray, y: np.ndarray) -> float:
    """Return the mean of minus the logarithm of the probability of what came."""
    return float(-np.log(np.maximum(model.predict_proba(x)[np.arange(len(y)), y], 1e-300)).mean())


def fitted(x: np.ndarray, y: np.ndarray, *, seed: int = 7, **more: object) -> sl.LogisticRegression:
    """Fit with seeded noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings: dict[str, object] = {"epsilon": 1, "delta": "1e-6", "data_norm": 1, "classes": [0, 1]} | more
        return sl.LogisticRegression(**settings, random_state=seed).fit(x, y)


class TestFits:
    """Whole fits with shrinkage against fits with the same noise without it."""

    @pytest.mark.parametrize(("rows", "epsilon"), [(1500, 0.3), (6000, 1)])
    def test_probabilities_are_better(self, rows: int, epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
        x, y, _ = two_classes(1, rows)
        tested = [part[rows:] for part in two_classes(1, rows + 20_000)]
        seeds = range(7, 11)
        drawn = [fitted(x, y, epsilon=epsilon, seed=seed) for seed in seeds]
        monkeypatch.setattr(fitting, "true_log_odds", lambda *given, **more: (1.0, None))
        raw = [fitted(x, y, epsilon=epsilon, seed=seed) for seed in seeds]
        for one, other in zip(drawn, raw, strict=True):
            share = float(one.coef_[0, 0] / other.coef_[0, 0])
            assert share < 0.95
            np.testing.assert_allclose(one.coef_, share * other.coef_)
        losses = [np.mean([log_loss(each, *tested[:2]) for each in fits]) for fits in (drawn, raw)]
        assert losses[0] < losses[1] - 0.002

    @pytest.mark.parametrize("more", [{"shrinkage": "none"}, {"class_weight": {0: 1, 1: 3}}, {"geometry": "none"}])
    def test_what_it_is_not_for_stays(self, more: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
        x, y, _ = two_classes(2, 1500)

        def never(*given: object, **settings: object) -> tuple[float, Rate | None]:
            raise AssertionError("log odds were drawn back")

        monkeypatch.setattr(fitting, "true_log_odds", never)
        fitted(x, y, **more)

    @pytest.mark.parametrize("rows", [45, 55])
    @pytest.mark.parametrize("constant", [True, False])
    def test_public_rows_that_do_not_vary_break_no_paid_fit(self, rows: int, constant: bool) -> None:
        rng = np.random.default_rng(rows)
        x, y = rng.normal(0, 0.25, (rows, 2)).clip(-0.7, 0.7), rng.integers(0, 2, rows)
        public = sl.PublicData(np.column_stack([np.zeros((40, 2)), np.arange(40) % 2]), "rows that are all 0")
        for seed in range(6):
            more = {"epsilon": ".3", "rows": rows, "odds": "1e-6", "prediction": public, "fit_intercept": constant}
            model = fitted(x, y, seed=seed, **more)
            assert model.release_.value["chosen"] == -1
            assert np.isfinite(model.coef_).all()

    def test_a_release_is_as_sure_of_itself_as_slopes_that_were_drawn_back_may_be(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        x, y, _ = two_classes(1, 1500)
        drawn = fitted(x, y, epsilon=0.3)
        wanted = PredictedFit(features=8, data_norm=Fraction(1), classes=(0, 1))
        said = predictions_of(drawn, wanted).candidates[0].variances
        monkeypatch.setattr(fitting, "true_log_odds", lambda *given, **more: (1.0, None))
        raw = fitted(x, y, epsilon=0.3)
        noise = predictions_of(raw, wanted).candidates[0].variances
        share = float(drawn.coef_[0, 0] / raw.coef_[0, 0])
        assert share < 0.95
        assert (said >= share * noise * (1 - 1e-9))[:-1].all()
        assert (said <= noise).all()


def test_slopes_of_three_classes_are_drawn_back_by_their_noise() -> None:
    """Noise that sums to 0 over K classes, with K - 1 of its variances."""
    slopes, noise, likely = np.array([[2.0, -1.0, -1.0], [0.5, 0.0, -0.5]]), np.array([0.3, 0.1]), np.array([1.0, 0.5])
    # 1 - 2·(0.3 + 0.05)/(6 + 0.25)
    assert told_share(slopes, noise, likely) == pytest.approx(1 - 0.7 / 6.25)
    assert told_share(slopes, 100 * noise, likely) == 0.5
    assert told_share(0 * slopes, noise, likely) is None
    assert told_share(slopes, np.full(2, np.inf), likely) is None


def test_three_classes_that_nothing_tells_lose_less(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = [0.6, 0.3, 0.1]
    rng = np.random.default_rng(31)
    x, y = rng.uniform(-0.4, 0.4, (1500, 5)), rng.choice(3, 1500, p=shares)
    seeds, given = range(7, 11), {"epsilon": 0.5, "classes": [0, 1, 2]}
    drawn = [fitted(x, y, seed=seed, **given) for seed in seeds]
    monkeypatch.setattr(fitting, "told_share", lambda *given: 1.0)
    raw = [fitted(x, y, seed=seed, **given) for seed in seeds]
    for one, other in zip(drawn, raw, strict=True):
        share = float(one.coef_[0, 0] / other.coef_[0, 0])
        assert share < 0.95
        np.testing.assert_allclose(one.coef_, share * other.coef_)
    off = [np.mean([(each.predict_proba(x) - shares) ** 2 for each in fits]) for fits in (drawn, raw)]
    assert off[0] < 0.9 * off[1]
