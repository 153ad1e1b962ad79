"""Audits through the real door: the claims stand, and too little noise, planted, is found out. Reference accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.covariance import plan as plan_module
from sidelight.testing import seeded_release


def table_of(rows: np.ndarray) -> sl.Table:
    return sl.Table(rows, schema=[sl.Number(f"x{place}") for place in range(rows.shape[1])])


def _advantage(query: sl.Covariance, first: np.ndarray, second: np.ndarray, *, trials: int) -> tuple[float, float]:
    """Return TPR and FPR of the best test for two neighbours: the released sum against the direction they differ in."""
    direction = second.T @ second - first.T @ first
    scores = []
    for rows, seeds in ((first, 0), (second, 10**6)):
        table = table_of(rows)
        values = [seeded_release(query, table, seed=seeds + seed).value for seed in range(trials)]
        scores.append([float((value["noisy"] * max(value["rows"], 1.0) * direction).sum()) for value in values])
    middle = np.median(np.concatenate(scores))
    return float((np.array(scores[1]) > middle).mean()), float((np.array(scores[0]) > middle).mean())


NEIGHBOURS = (np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]))  # a swap, which moves the matrix by √2
CASES: list[tuple[dict[str, Any], float]] = [({"rho": 2}, 2.0), ({"epsilon": 2}, 2.0)]


def _gaussian_limit(mu: float) -> float:
    """The largest TPR − FPR of a GDP(mu) mechanism."""
    from math import erf, sqrt

    return erf(mu / (2 * sqrt(2)))


@pytest.mark.planted("an eighth of the noise of a covariance", of=("Covariance", "PCA"))
@pytest.mark.parametrize(("price", "amount"), CASES)
def test_the_claim_stands_and_a_planted_bug_does_not(
    price: dict[str, Any], amount: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = 300
    query = sl.Covariance(radius=1, rows=1, method="gauss", project=False, **price)
    limit = _gaussian_limit(2.0) if "rho" in price else (np.exp(amount) - 1) / (np.exp(amount) + 1)
    slack = 5.5 * np.sqrt(0.5 / trials)
    hit, false = _advantage(query, *NEIGHBOURS, trials=trials)
    assert hit - false <= limit + slack
    original = plan_module.matrix_noise

    def weak(moments: Any, budget: Any, law: Any) -> Any:
        return original(moments, budget.part(8 if budget.is_pure else 64), law)  # an eighth of the noise

    monkeypatch.setattr(plan_module, "matrix_noise", weak)
    hit, false = _advantage(query, *NEIGHBOURS, trials=trials)
    assert hit - false > limit + slack


def world(d: int, n: int, seed: int, *, isotropic: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    spectrum = np.ones(d) if isotropic else 1 / np.arange(1.0, d + 1)
    spectrum = 0.64 * spectrum / spectrum.sum()
    rotation, other = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    root = (rotation * np.sqrt(spectrum)) @ rotation.T
    rows, public = (rng.standard_normal((size, d)) @ root for size in (n, 200))
    rows, public = (each / np.maximum(np.linalg.norm(each, axis=1), 1)[:, None] for each in (rows, public))
    return rows, public.T @ public / 200, (other * spectrum) @ other.T


def median_error(rows: np.ndarray, **settings: Any) -> float:
    query, table = sl.Covariance(radius=1, rows=len(rows), **settings), table_of(rows)
    truth = rows.T @ rows / len(rows)
    errors = [np.linalg.norm(seeded_release(query, table, seed=seed).value["matrix"] - truth) for seed in range(50)]
    return float(np.median(errors))


@pytest.mark.slow
def test_reference_accuracy_zcdp() -> None:
    rows, public, bad = world(50, 2000, 1)
    truth = rows.T @ rows / 2000
    goe = median_error(rows, rho="0.5", method="gauss", project=False)
    rng = np.random.default_rng(2)
    paper = []
    for _ in range(50):
        draws = rng.normal(0, 1 / (2000 * np.sqrt(0.5)), (50, 50))
        paper.append(np.linalg.norm(np.triu(draws) + np.triu(draws, 1).T))
    assert 0.70 <= goe / np.median(paper) <= 0.77
    assert median_error(rows, rho="0.5", prediction=truth) <= 0.15 * goe
    assert median_error(rows, rho="0.5", prediction=public) <= 0.88 * goe
    assert median_error(rows, rho="0.5", prediction=bad) <= 1.03 * goe
    round_rows, _, _ = world(50, 2000, 3, isotropic=True)
    denoised = median_error(round_rows, rho="0.5")
    assert denoised <= 0.6 * median_error(round_rows, rho="0.5", method="gauss", project=False)
    assert denoised <= 0.85 * median_error(round_rows, rho="0.5", method="separate")


@pytest.mark.slow
def test_reference_accuracy_pure() -> None:
    d, n = 50, 20_000
    rows, _, _ = world(d, n, 4)
    truth, rng = rows.T @ rows / n, np.random.default_rng(5)
    wishart = median_error(rows, epsilon=1, method="gauss", project=False)
    laplace = median_error(rows, epsilon=1, method="gauss", noise="laplace", project=False)
    printed, separated = [], []
    for _ in range(50):
        full, half = (rng.laplace(0, scale * d * np.sqrt(2) / n, (d, d)) for scale in (1, 2))
        printed.append(np.linalg.norm(np.triu(full) + np.triu(full, 1).T))
        vectors = np.linalg.eigh(truth + np.triu(half) + np.triu(half, 1).T)[1]
        values = np.linalg.eigvalsh(truth) + rng.laplace(0, 4 / n, d)
        separated.append(np.linalg.norm((vectors * values) @ vectors.T - truth))
    assert wishart <= 0.17 * np.median(printed)
    # with the smaller constant √(d(d+3)/2) instead of d√2, Laplace noise is √(d/2) = 5 times worse, not 10
    assert wishart == pytest.approx(0.198 * laplace, rel=0.08)
    assert median_error(rows, epsilon=1, method="separate") <= 0.35 * np.median(separated)
