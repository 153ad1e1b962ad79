"""Learning predictions: the free average of past releases, and Schatten FTRL with its reference numbers."""

from __future__ import annotations

import numpy as np
import pytest

import sidelight as sl
from sidelight.covariance.learning import SchattenLearner, SequencePrediction, learned_prediction, trace_norm_gradient
from sidelight.errors import RangeError
from sidelight.noise import Source
from sidelight.predictions.learning.schatten import Schatten
from sidelight.testing import SeededEntropy, seeded_release


def rows_of(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    spectrum = 1 / np.arange(1.0, d + 1)
    rows = rng.standard_normal((n, d)) * np.sqrt(0.64 * spectrum / spectrum.sum())
    return rows / np.maximum(np.linalg.norm(rows, axis=1), 1)[:, None]


def table_of(rows: np.ndarray) -> sl.Table:
    return sl.Table(rows, schema=[sl.Number(f"x{place}") for place in range(rows.shape[1])])


def test_mirror_map_of_the_reference() -> None:
    regulariser = Schatten(rows=3)
    assert regulariser.kappa == pytest.approx(3.130013, abs=1e-6)
    point = regulariser.minimiser(regulariser.to_vector(np.diag([3, -1, 0.5])), step_size=0.1)
    np.testing.assert_allclose(np.diag(point), [-0.0953253, 0.0285126, -0.0133144], atol=1e-6)
    p = 1.910239
    values = np.diag(point)
    norm = (np.abs(values) ** p).sum() ** (1 / p)
    gradient = regulariser.kappa * norm ** (2 - p) * np.sign(values) * np.abs(values) ** (p - 1)
    np.testing.assert_allclose(gradient, [-0.3, 0.1, -0.05], atol=1e-5)


@pytest.mark.parametrize(("size", "curvature"), [(10, 9.29), (50, 19.2), (200, 28.5)])
def test_curvature_of_the_reference(size: int, curvature: float) -> None:
    assert Schatten(rows=size).kappa == pytest.approx(curvature, rel=0.005)


def test_sensitivity_of_a_data_set_is_twice_root_d() -> None:
    d = 9
    one, other = (trace_norm_gradient(c - np.eye(d) / (2 * d)) for c in (np.eye(d) / d, np.zeros((d, d))))
    assert np.linalg.norm(one - other) == pytest.approx(2 * np.sqrt(d))
    assert np.linalg.norm(one) <= np.sqrt(d) + 1e-12
    learner = SchattenLearner(columns=d, steps=8, rho="0.1")
    sums = learner.ftrl.sums
    moved = float(sums.integer_sensitivity * sums.quantiser.quantum)
    assert moved == pytest.approx(2 * np.sqrt(d), rel=1e-3)
    assert moved >= 2 * np.sqrt(d)
    assert learner.claims.neighbours is sl.Neighbours.REPLACE


@pytest.mark.parametrize("size", [1, 2, 6])
def test_ftrl_learns_where_the_budget_is_large(size: int) -> None:
    rng = np.random.default_rng(1)
    truth = np.diag(0.8 * np.arange(1.0, size + 1)[::-1] / (size * (size + 1) / 2))
    run = SchattenLearner(columns=size, steps=200, rho=10**6).start()
    with Source(SeededEntropy(1)) as source:
        for _ in range(200):
            noise = rng.normal(0, 0.01, (size, size))
            prediction = run.learn(truth + (noise + noise.T) / 2, source=source)
    assert np.abs(np.linalg.eigvalsh(prediction - truth)).sum() < 0.6 * np.trace(truth)
    assert np.linalg.eigvalsh(prediction).min() >= -1e-12
    assert np.trace(prediction) <= 1 + 1e-9


def test_past_releases_predict_for_free() -> None:
    rng = np.random.default_rng(2)
    plain, learned = [], []
    sequence = SequencePrediction()
    for day in range(12):
        rows = rows_of(500, 20, rng)
        truth, table = rows.T @ rows / 500, table_of(rows)
        without = seeded_release(sl.Covariance(radius=1, rho="0.1", rows=500), table, seed=day)
        query = sl.Covariance(radius=1, rho="0.1", rows=500, prediction=sequence.prediction)
        release = seeded_release(query, table, seed=1000 + day)
        assert isinstance(release, sl.Release)
        sequence.learn(release)
        plain.append(np.linalg.norm(without.value["matrix"] - truth))
        learned.append(np.linalg.norm(release.value["matrix"] - truth))
    assert np.median(learned[6:]) < 0.7 * np.median(plain)


def test_the_unshrunk_matrices_enter_with_their_precision() -> None:
    rng = np.random.default_rng(3)
    table = table_of(rows_of(500, 4, rng))
    releases = [
        seeded_release(sl.Covariance(radius=1, rho=rho, rows=500, prediction=np.eye(4)), table, seed=1)
        for rho in ("0.1", "0.4")
    ]
    found = learned_prediction(releases)  # type: ignore[arg-type]
    noisy = [release.value["noisy"] for release in releases]
    expected = 0.2 * noisy[0] + 0.8 * noisy[1]  # precisions 1/σ² are as ρ
    np.testing.assert_allclose(found.matrix, expected, atol=1e-9)
    assert np.abs(releases[0].value["noisy"] - releases[0].value["matrix"]).max() > 0  # the trap: shrunk ones differ


def test_entries_of_a_ledger_are_named(tmp_path: object) -> None:
    rng = np.random.default_rng(4)
    session = sl.Session(
        table_of(rows_of(100, 3, rng)), budget=sl.ZCDP(10), ledger=f"sqlite:///{tmp_path}/budget.db", scope="days"
    )
    release = session.release(sl.Covariance(radius=1, rho="0.5"))
    assert isinstance(release, sl.Release)
    origin = learned_prediction([release]).origin
    assert origin.kind == "released"
    assert origin.entries == (release.circumstances.entry_id,)


def test_mistakes() -> None:
    with pytest.raises(RangeError, match="at least one release"):
        learned_prediction([])
    with pytest.raises(RangeError, match="Covariance"):
        learned_prediction([sl.Quantiles(0.5, epsilon=1, granularity=1).release([1, 2, 3])])
    with pytest.raises(RangeError, match="columns"):
        SchattenLearner(columns=0, steps=3, rho=1)
