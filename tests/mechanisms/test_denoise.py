"""Shrinkage by Stein's risk: against brute force, finite differences, Monte Carlo and its guarantee."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.mechanisms.denoise import PENALTIES, THRESHOLDS, _risk, _shrinkage, _spectra, denoise


def goe(rng: np.random.Generator, size: int, scale: float) -> np.ndarray:
    square = rng.normal(0, scale, (size, size))
    return (square + square.T) / 2


def threshold_matrix(matrix: np.ndarray, limit: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * (np.sign(values) * np.maximum(np.abs(values) - limit, 0))) @ vectors.T


def by_the_book(noisy: np.ndarray, scale: float, predictions: list[np.ndarray], penalty: float) -> tuple:  # type: ignore[type-arg]
    """The method as written, pair by pair."""
    d = len(noisy)
    best = None
    for place, candidate in enumerate([np.zeros_like(noisy), *predictions]):
        for shift in (False, True):
            rest = noisy - candidate
            mean = np.trace(rest) / d if shift else 0.0
            values, vectors = np.linalg.eigh(rest - mean * np.eye(d))
            for multiple in THRESHOLDS:
                limit = multiple * scale * math.sqrt(2 * d)
                s = np.array([math.copysign(max(abs(v) - limit, 0), v) if limit < math.inf else 0.0 for v in values])
                slope = (np.abs(values) > limit).astype(float)
                div = slope.sum()
                for i in range(d):
                    for j in range(i):
                        div += (s[i] - s[j]) / (values[i] - values[j])
                if shift:
                    div -= slope.sum() / d
                a = 1.0 if not (s**2).sum() else float(np.clip((s @ values - scale**2 * div) / (s @ s), 0, 1))
                freedom = d * (d + 1) / 2 - shift
                risk = ((a * s - values) ** 2).sum() - freedom * scale**2 + 2 * penalty * scale**2 * a * div
                risk += shift * scale**2
                if best is None or risk < best[0]:
                    matrix = candidate + mean * np.eye(d) + (vectors * (a * s)) @ vectors.T
                    best = (risk, place, shift, limit, a, matrix)
    assert best is not None
    return best


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("shape", ["goe", "wishart"])
def test_agrees_with_the_method_as_written(seed: int, shape: str) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 9))
    truth = np.diag(rng.exponential(0.3, size))
    noisy = truth + goe(rng, size, 0.1)
    predictions = [truth + goe(rng, size, 0.02), goe(rng, size, 1.0)][: int(rng.integers(0, 3))]
    risk, place, shift, limit, factor, matrix = by_the_book(noisy, 0.1, predictions, PENALTIES[shape])
    found = denoise(noisy, noise_scale=0.1, predictions=predictions, law=shape)  # type: ignore[arg-type]
    assert found.risk == pytest.approx(risk, rel=1e-9, abs=1e-12)
    assert (found.candidate, found.shift) == (None if place == 0 else place - 1, shift)
    assert found.threshold == pytest.approx(limit)
    assert found.factor == pytest.approx(factor, rel=1e-9)
    np.testing.assert_allclose(found.matrix, matrix, atol=1e-12)
    np.testing.assert_array_equal(found.matrix, found.matrix.T)


def numeric_divergence(matrix: np.ndarray, limit: float, *, shift: bool) -> float:
    """Σ over an orthonormal basis of symmetric (traceless, with shift) matrices of the directional derivatives."""
    d, step, total = len(matrix), 1e-5, 0.0
    basis = []
    for i in range(d):
        for j in range(i + 1):
            direction = np.zeros((d, d))
            direction[i, j] = direction[j, i] = 1 if i == j else 1 / math.sqrt(2)
            basis.append(direction)
    if shift:
        identity = np.eye(d) / math.sqrt(d)
        matrix = matrix - np.trace(matrix) / d * np.eye(d)
    derivative = [
        (threshold_matrix(matrix + step * b, limit) - threshold_matrix(matrix - step * b, limit)) / (2 * step)
        for b in basis
    ]
    total = sum(float((b * change).sum()) for b, change in zip(basis, derivative, strict=True))
    if shift:
        change = threshold_matrix(matrix + step * identity, limit) - threshold_matrix(matrix - step * identity, limit)
        total -= float((identity * change).sum()) / (2 * step)
    return total


def estimated_risk(values: np.ndarray, *, threshold: float, noise_scale: float, shift: bool = False) -> float:
    """Return Stein's unbiased estimate of the squared Frobenius error for one threshold, without a factor."""
    spectra = _spectra(np.sort(values), noise_scale=noise_scale)
    found = _shrinkage(spectra, np.array([threshold]), shift=shift)
    return float(_risk(*found, np.ones(1), noise_scale, 1.0, shift=shift)[0])


def divergence_of(values: np.ndarray, limit: float, *, shift: bool) -> float:
    """Read the divergence off two risks that differ in nothing else."""
    centred = values - values.mean() if shift else values
    kept = np.sign(centred) * np.maximum(np.abs(centred) - limit, 0)
    size = len(values)
    rest = ((kept - centred) ** 2).sum() - (size * (size + 1) / 2 - shift) + shift
    return (estimated_risk(values, threshold=limit, noise_scale=1.0, shift=shift) - rest) / 2


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("limit", [0.0, 0.2, 0.7, 1.5])
def test_divergence_is_that_of_finite_differences(shift: bool, limit: float) -> None:
    rng = np.random.default_rng(7)
    matrix = goe(rng, 6, 1.0)
    expected = numeric_divergence(matrix, limit, shift=shift)
    assert divergence_of(np.linalg.eigvalsh(matrix), limit, shift=shift) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    "values", [[0.5, 0.5, 2, 2, 2], [-3, -3, -3, 1, 1], [0.0, 0, 0, 0, 0], [1, 1, 1, 1, 1 + 1e-13]]
)
@pytest.mark.parametrize("limit", [0.3, 0.75])
def test_equal_eigenvalues_have_the_divergence_of_nearly_equal_ones(values: list[float], limit: float) -> None:
    near = np.array(values) + 1e-5 * np.arange(5)
    exactly = divergence_of(np.array(values, float), limit, shift=False)
    assert exactly == pytest.approx(divergence_of(near, limit, shift=False), abs=1e-3)


def test_a_tie_across_the_threshold_counts_one_half() -> None:
    values = np.array([0.5 - 1e-13, 0.5 + 1e-13])
    assert divergence_of(values, 0.5, shift=False) == pytest.approx(1.5)  # one slope, and the mean of two slopes


def test_no_threshold_keeps_every_degree_of_freedom_and_infinity_none() -> None:
    values = np.array([-1.0, 0.25, 0.5, 3.0])
    assert divergence_of(values, 0.0, shift=False) == pytest.approx(10)
    assert divergence_of(values, 0.0, shift=True) == pytest.approx(9)
    assert estimated_risk(values, threshold=math.inf, noise_scale=0.1) == pytest.approx((values**2).sum() - 0.1)
    centred = values - values.mean()
    assert estimated_risk(values, threshold=math.inf, noise_scale=0.1, shift=True) == pytest.approx(
        (centred**2).sum() - 0.09 + 0.01
    )


def _risk_and_estimate(*, shift: bool, scale_told: float, draws: int = 4000) -> tuple[float, float, float]:
    rng = np.random.default_rng(1)
    truth = np.diag([2, 1, 0.5, 0, 0, -1])
    errors, estimates = [], []
    for _ in range(draws):
        noisy = truth + goe(rng, 6, 0.3)
        mean = np.trace(noisy) / 6 * np.eye(6) if shift else np.zeros((6, 6))
        errors.append(((mean + threshold_matrix(noisy - mean, 0.5) - truth) ** 2).sum())
        estimates.append(estimated_risk(np.linalg.eigvalsh(noisy), threshold=0.5, noise_scale=scale_told, shift=shift))
    spread = float(np.std(np.array(estimates) - np.array(errors))) / math.sqrt(draws)
    return float(np.mean(errors)), float(np.mean(estimates)), spread


@pytest.mark.parametrize("shift", [False, True])
def test_risk_is_unbiased(shift: bool) -> None:
    error, estimate, spread = _risk_and_estimate(shift=shift, scale_told=0.3)
    assert abs(error - estimate) < 5.5 * spread
    if not shift:
        assert error == pytest.approx(1.564, abs=0.06)  # the reference number


def test_a_noise_scale_30_percent_off_is_seen_in_the_risk() -> None:
    error, estimate, spread = _risk_and_estimate(shift=False, scale_told=0.39)
    assert abs(error - estimate) > 10 * spread


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_deterministic_guarantee(seed: int, size: int) -> None:
    """‖Ĉ−C‖² <= 2τ‖C−W‖_tr whenever τ >= ‖Z‖_op: half of the common bound, by strong convexity."""
    rng = np.random.default_rng(seed)
    truth, prediction, noise = goe(rng, size, 1), goe(rng, size, 1), goe(rng, size, rng.exponential(0.5))
    limit = float(np.abs(np.linalg.eigvalsh(noise)).max()) * rng.uniform(1, 2)
    estimate = prediction + threshold_matrix(truth + noise - prediction, limit)
    distance = np.abs(np.linalg.eigvalsh(truth - prediction)).sum()
    assert ((estimate - truth) ** 2).sum() <= 2 * limit * distance * (1 + 1e-9) + 1e-12


@given(st.integers(0, 10**6), st.floats(-5, 5), st.floats(0.01, 100))
def test_laws(seed: int, turn: float, unit: float) -> None:
    rng = np.random.default_rng(seed)
    noisy, prediction = goe(rng, 5, 1.0), goe(rng, 5, 0.3)
    found = denoise(noisy, noise_scale=0.2, predictions=[prediction])
    scaled = denoise(unit * noisy, noise_scale=0.2 * unit, predictions=[unit * prediction])
    np.testing.assert_allclose(scaled.matrix, unit * found.matrix, rtol=1e-7, atol=1e-7 * unit)
    rotation = np.linalg.qr(rng.normal(size=(5, 5)) + turn)[0]
    rotated = denoise(rotation @ noisy @ rotation.T, noise_scale=0.2, predictions=[rotation @ prediction @ rotation.T])
    assert rotated.risk == pytest.approx(found.risk, rel=1e-6, abs=1e-9)


def test_perfect_prediction_is_returned_and_a_bad_one_is_not() -> None:
    rng = np.random.default_rng(3)
    truth = np.diag(1 / np.arange(1.0, 31))
    noisy = truth + goe(rng, 30, 0.05)
    good = denoise(noisy, noise_scale=0.05, predictions=[truth, goe(rng, 30, 1.0)])
    assert good.candidate == 0
    assert np.linalg.norm(good.matrix - truth) < 0.2 * np.linalg.norm(noisy - truth)
    assert denoise(noisy, noise_scale=0.05, predictions=[goe(rng, 30, 1.0)]).candidate is None


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_a_noise_scale_must_be_positive(scale: float) -> None:
    with pytest.raises(RangeError, match="noise_scale"):
        denoise(np.eye(2), noise_scale=scale)


def test_an_unknown_law_is_refused() -> None:
    with pytest.raises(RangeError, match="did you mean 'wishart'"):
        denoise(np.eye(2), noise_scale=1, law="wishhart")  # type: ignore[arg-type]
