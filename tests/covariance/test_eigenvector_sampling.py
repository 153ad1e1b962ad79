"""Iterative eigenvector sampling: budgets and coefficients as charged, the limit of no noise, reference errors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mapped_moments import mapped_moments
from sidelight.errors import RangeError, StrictError
from sidelight.guarantees.claims import Neighbours
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.published import eigenvector_covariance as module
from sidelight.published.eigenvector_covariance import complement, picks, sample_eigenvectors, sampling_claims
from sidelight.testing import SeededEntropy

PURE = Budget.of(epsilon=1)
ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE


def rows_with_spectrum(count, size, seed):
    generator = np.random.default_rng(seed)
    values = 1 / np.arange(1, size + 1)
    turn = np.linalg.qr(generator.normal(size=(size, size)))[0]
    rows = generator.normal(size=(count, size)) * np.sqrt(values / values.sum()) @ turn.T * 0.8
    return rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))


ROWS = rows_with_spectrum(2000, 10, seed=0)
TRUTH = ROWS.T @ ROWS / len(ROWS)


def test_the_order_takes_the_larger_end_and_its_sign() -> None:
    assert picks(np.array([5.0, 1.0, 0.0, -2.0, -6.0])) == [(4, -1.0), (0, 1.0), (3, -1.0), (1, 1.0), (2, 1.0)]
    assert picks(np.array([3.0])) == [(0, 1.0)]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_complement_is_orthonormal(size) -> None:
    direction = np.random.default_rng(size).normal(size=size)
    direction /= np.linalg.norm(direction)
    basis = np.column_stack([direction, complement(direction)])
    assert basis.T @ basis == pytest.approx(np.eye(size), abs=1e-12)


@pytest.mark.parametrize("kind", [ADD, SWAP])
def test_draws_cost_what_is_charged(monkeypatch, kind) -> None:
    """Each draw's coefficient times the range of its change, summed, is half of ε; the eigenvalues cost the rest."""
    moments = mapped_moments(ROWS, radius=1, neighbours=kind)
    seen, spent = [], []
    original_noise = module.eigenvalue_noise

    def record(matrix, source):
        seen.append(matrix)
        return np.eye(len(matrix))[0]

    def values(moments, budget, private=None):
        if private is not None:
            spent.append((budget.epsilon, private.size))
        return original_noise(moments, budget, private)

    monkeypatch.setattr(module, "bingham", record)
    monkeypatch.setattr(module, "eigenvalue_noise", values)
    prediction = np.diag(np.linspace(-0.2, 0.4, 10))
    with Source(SeededEntropy("cost")) as source:
        budget = Budget.of(epsilon="1/3")
        sample_eigenvectors(moments, rows=2000, prediction=prediction, budget=budget, source=source)
    private = moments.second.value - np.rint(2000 * moments.levels**2 * prediction)
    assert len(seen) == 10
    scale = {ADD: 1, SWAP: 2}[kind]
    total, basis = 0.0, np.eye(10)
    for step, matrix in enumerate(seen):
        inner = basis.T @ private @ basis
        coefficient = np.linalg.norm(matrix) / np.linalg.norm(inner)
        assert np.abs(matrix) == pytest.approx(coefficient * np.abs(inner), rel=1e-6)
        total += coefficient * scale * moments.levels**2 if step < 9 else 0.0  # the last one has no choice
        basis = basis @ complement(np.eye(10 - step)[0])
    assert total == pytest.approx(1 / 6, rel=1e-6)
    assert total <= 1 / 6
    assert spent == [(Fraction(1, 6), 10)]


def test_without_noise_the_matrix_comes_back() -> None:
    moments = mapped_moments(ROWS, radius=1)
    for prediction in (np.zeros((10, 10)), np.diag(np.linspace(-1, 1, 10))):
        with Source(SeededEntropy("limit")) as source:
            found = sample_eigenvectors(
                moments, rows=2000, prediction=prediction, budget=Budget.of(epsilon=10**6), source=source
            )
        assert np.abs(found - TRUTH).max() < 0.02
        assert found == pytest.approx(found.T)


def test_reference_errors() -> None:
    """d = 10, n = 2000, ε = 1, swap, spectrum 1/i, W = 0."""
    moments = mapped_moments(ROWS, radius=1, neighbours=SWAP)
    with Source(SeededEntropy("errors")) as source:
        errors = [
            np.linalg.norm(
                sample_eigenvectors(
                    moments,
                    rows=2000,
                    prediction=np.zeros((10, 10)),
                    budget=PURE,
                    source=source,
                )
                - TRUTH
            )
            for _ in range(9)
        ]
    assert np.median(errors) == pytest.approx(0.130, rel=0.25)


def test_claims_before_any_row() -> None:
    public = mapped_moments(np.zeros((0, 4)), radius=1, neighbours=SWAP)
    claims = sampling_claims(public, budget=Budget.of(epsilon="0.3"))
    assert (claims.pure().epsilon, claims.numerics, claims.neighbours) == (Fraction("0.3"), "idealized", SWAP)
    with pytest.raises(RangeError, match="pure price only"):
        sampling_claims(public, budget=Budget.of(rho=1))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_few_rows_and_columns_never_raise(size) -> None:
    for rows in (np.zeros((0, size)), np.full((2, size), np.nan), np.full((3, size), 1e300)):
        moments = mapped_moments(rows, radius=1)
        with Source(SeededEntropy("few")) as source:
            found = sample_eigenvectors(moments, rows=-1.0, prediction=np.eye(size), budget=PURE, source=source)
        assert np.isfinite(found).all()
        with pytest.raises(StrictError):
            sample_eigenvectors(
                moments,
                rows=1.0,
                prediction=np.eye(size),
                budget=PURE,
                source=Source(SeededEntropy(0), declared="exact"),
            )
