"""Classifiers keep the base rate: constants that are solved for, the last release, and whole fits on plain laws."""

import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import sidelight as sl
from sidelight.regression.descent.base_rates import Calibration, Predictors
from sidelight.regression.descent.log_odds import Rate

SETTINGS: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "data_norm": 1}


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("size", [0.0, 0.5, 3.0])
def test_constants_give_the_shares_that_were_asked_for(outputs: int, size: float) -> None:
    rng = np.random.default_rng(2)
    slopes, variances = size * rng.normal(size=(4, outputs)), np.array([1.0, 0.5, 0.2, 0.1])
    wanted = np.array([0.7, 0.3]) if outputs == 1 else np.array([0.6, 0.3, 0.1])
    found = Predictors.normal(slopes, variances).constants(wanted)
    u = rng.normal(size=(200_000, 4)) * np.sqrt(variances) @ slopes
    u = np.column_stack([np.zeros(len(u)), u]) if outputs == 1 else u
    np.testing.assert_allclose(softmax(u + found, axis=1).mean(axis=0), wanted, atol=0.02 if outputs > 1 else 0.004)


def test_what_the_last_release_shows_is_taken_back() -> None:
    theta = np.array([[0.8], [0.3]])
    before = Calibration.of(theta, np.ones(2), Rate(0.3, 0.01), said=None, predicted=False, constant=1.0)
    given: dict[str, Any] = {"rows": 10_000.0, "weights": (), "unseen": 0.0}
    after = before.corrected(np.array([500.0]), deviation=1.0, **given)
    assert before.law.shares(after.constants)[1] == pytest.approx(0.25, abs=1e-3)
    noisy = before.corrected(np.array([500.0]), deviation=5000.0, **given)  # which says nothing
    assert before.law.shares(noisy.constants)[1] == pytest.approx(0.3, abs=0.02)
    assert noisy.of_constant > after.of_constant


def test_noise_of_the_last_release_is_not_taken_for_shares_of_many_classes() -> None:
    """Ten classes of a tenth each, and noise of a quarter of that: little of what it shows is taken back."""
    before = Calibration.of(np.zeros((3, 10)), np.ones(3), None, said=0.0, predicted=False, constant=1.0)
    gap = 0.025 * np.array([1.0, -1.0] * 5)
    kept = []
    for deviation in (25.0, 0.25):
        after = before.corrected(1000 * gap, deviation=deviation, rows=1000, weights=(), unseen=0.0)
        kept.append(float(np.mean((0.1 - before.law.shares(after.constants)) / gap)))
    assert 0.1 < kept[0] < 0.3
    assert kept[1] > 0.99


@pytest.mark.parametrize("size", [0.0, 1e-300, 1.0, 1e100, 1e300, np.inf, np.nan])
@pytest.mark.parametrize("outputs", [1, 3])
def test_nothing_that_was_released_breaks_it(size: float, outputs: int) -> None:
    for theta in (np.full((3, outputs), size), np.full((3, outputs), -size)):
        for variances in (None, np.full(3, size), np.ones(3)):
            for said, predicted in product((None, 1.0, np.inf, np.nan), (True, False)):
                before = Calibration.of(theta, variances, None, said=said, predicted=predicted, constant=0.5)
                for offset in (np.zeros(outputs), np.full(outputs, -1e300), np.arange(outputs) * 1e18):
                    after = before.corrected(offset, deviation=1e9, rows=1e-3, weights=(), unseen=1.0)
                    assert np.isfinite(before.put_into(np.zeros((3, outputs)), after.constants)).all()
                    found = (after.variance, after.of_constant, after.of_slopes, after.of_rest)
                    assert np.isfinite(found).all()


def fitted(x: np.ndarray, y: np.ndarray, *, seed: int, **more: Any) -> sl.LogisticRegression:
    """Fit with seeded noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = SETTINGS | {"classes": np.unique(y).tolist()} | more
        return sl.LogisticRegression(**settings, random_state=seed).fit(x, y)


def null_features(rows: int, shares: list[float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return five features that do not matter, and labels with these shares."""
    rng = np.random.default_rng([41, seed])
    return rng.uniform(-1, 1, (rows, 5)) / np.sqrt(5), rng.choice(len(shares), rows, p=shares)


CASES: dict[str, tuple[list[float], dict[str, Any]]] = {
    "two classes": ([0.8, 0.2], {}),
    "rare": ([0.98, 0.02], {}),
    "three classes": ([0.7, 0.2, 0.1], {}),
    "left alone": ([0.8, 0.2], {"shrinkage": "none"}),
    "without a map": ([0.8, 0.2], {"geometry": "none"}),
    "predicted": ([0.8, 0.2], {"prediction": sl.CoefficientPrediction([0.5] * 5, intercept=0.0, origin="a guess")}),
}


@pytest.mark.parametrize("case", CASES)
def test_mean_probabilities_are_the_shares_of_the_classes(case: str) -> None:
    shares, more = CASES[case]
    for seed in range(3):
        x, y = null_features(20_000, shares, seed)
        found = fitted(x, y, seed=seed, **more).predict_proba(x).mean(axis=0)
        np.testing.assert_allclose(found, np.bincount(y) / len(y), atol=0.01)  # noise has a deviation of 0.0012


def test_with_weights_probabilities_are_those_of_weighted_rows() -> None:
    x, y = null_features(20_000, [0.8, 0.2], 5)
    found = fitted(x, y, seed=1, class_weight={0: 1, 1: 4}).predict_proba(x).mean(axis=0)
    counts = np.bincount(y) * [1, 4]
    np.testing.assert_allclose(found, counts / counts.sum(), atol=0.02)


def test_the_stated_error_of_null_features_holds() -> None:
    for seed in range(5):
        x, y = null_features(20_000, [0.8, 0.2], seed)
        model = fitted(x, y, seed=seed)
        off = 100 * np.sqrt(np.mean((model.predict_proba(x)[:, 1] - 0.2) ** 2))
        assert off <= model.release_.error.at(0.95)[0] < 6
