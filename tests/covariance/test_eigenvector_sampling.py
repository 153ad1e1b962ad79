"""Iterative eigenvector sampling: budgets and coefficients as charged, the limit of no noise, reference errors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sidelight.aggregates import mapped_moments
from sidelight.covariance import eigenvector_sampling as module
from sidelight.covariance.eigenvector_sampling import complement, picks, sample_eigenvectors, sampling_claims
from sidelight.errors import RangeError, StrictError
from sidelight.guarantees.claims import Neighbours
from sidelight.noise import Source
from sidelight.testing import SeededEntropy

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
@pytest.mark.parametrize("form", ["direct", "printed"])
def test_draws_cost_what_is_charged(monkeypatch, kind, form) -> None:
    """Each draw's coefficient times the range of its change, summed, is half of ε; the eigenvalues cost the rest."""
    moments = mapped_moments(ROWS, radius=1, neighbours=kind)
    seen, spent = [], []
    original_values = module.noisy_values

    def record(matrix, source):
        seen.append(matrix)
        return np.eye(len(matrix))[0]

    def values(moments, private, *, epsilon, source):
        spent.append((Fraction(epsilon), private.size))
        return original_values(moments, private, epsilon=epsilon, source=source)

    monkeypatch.setattr(module, "bingham", record)
    monkeypatch.setattr(module, "noisy_values", values)
    prediction = np.diag(np.linspace(-0.2, 0.4, 10))
    with Source(SeededEntropy("cost")) as source:
        sample_eigenvectors(moments, rows=2000, prediction=prediction, epsilon="1/3", form=form, source=source)
    private = moments.second.value - np.rint(2000 * moments.levels**2 * prediction)
    eigenvalues, vectors = np.linalg.eigh(private)
    scale = {ADD: 1, SWAP: 2}[kind] if form == "direct" else {ADD: 2**0.5, SWAP: 2}[kind]
    total, place = 0.0, 0
    for part in (
        [private] if form == "direct" else [(vectors * np.maximum(s * eigenvalues, 0)) @ vectors.T for s in (1, -1)]
    ):
        basis = np.eye(10)
        for step in range(10):
            inner = basis.T @ part @ basis
            coefficient = np.linalg.norm(seen[place]) / np.linalg.norm(inner)
            assert np.abs(seen[place]) == pytest.approx(coefficient * np.abs(inner), rel=1e-6)
            price = coefficient * scale * moments.levels**2
            total += price if step < 9 or form == "printed" else 0.0
            basis, place = basis @ complement(np.eye(10 - step)[0]), place + 1
    assert place == len(seen)
    assert total == pytest.approx(1 / 6, rel=1e-6)
    assert total <= 1 / 6
    assert spent == [(Fraction(1, 6), 10 if form == "direct" else 20)]


@pytest.mark.parametrize("form", ["direct", "printed"])
def test_without_noise_the_matrix_comes_back(form) -> None:
    moments = mapped_moments(ROWS, radius=1)
    for prediction in (np.zeros((10, 10)), np.diag(np.linspace(-1, 1, 10))):
        with Source(SeededEntropy("limit")) as source:
            found = sample_eigenvectors(
                moments, rows=2000, prediction=prediction, epsilon=10**6, form=form, source=source
            )
        assert np.abs(found - TRUTH).max() < 0.02
        assert found == pytest.approx(found.T)


@pytest.mark.parametrize(("form", "reference"), [("direct", 0.130), ("printed", 0.214)])
def test_reference_errors(form, reference) -> None:
    """d = 10, n = 2000, ε = 1, swap, spectrum 1/i, W = 0."""
    moments = mapped_moments(ROWS, radius=1, neighbours=SWAP)
    with Source(SeededEntropy("errors")) as source:
        errors = [
            np.linalg.norm(
                sample_eigenvectors(
                    moments, rows=2000, prediction=np.zeros((10, 10)), epsilon=1, form=form, source=source
                )
                - TRUTH
            )
            for _ in range(9)
        ]
    assert np.median(errors) == pytest.approx(reference, rel=0.25)


def test_claims_before_any_row() -> None:
    public = mapped_moments(np.zeros((0, 4)), radius=1, neighbours=SWAP)
    claims = sampling_claims(public, epsilon="0.3")
    assert (claims.pure().epsilon, claims.numerics, claims.neighbours) == (Fraction("0.3"), "idealized", SWAP)
    with pytest.raises(RangeError, match="form"):
        sampling_claims(public, epsilon=1, form="other")
    with pytest.raises(RangeError):
        sampling_claims(public, epsilon=0)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("form", ["direct", "printed"])
def test_few_rows_and_columns_never_raise(size, form) -> None:
    for rows in (np.zeros((0, size)), np.full((2, size), np.nan), np.full((3, size), 1e300)):
        moments = mapped_moments(rows, radius=1)
        with Source(SeededEntropy("few")) as source:
            found = sample_eigenvectors(
                moments, rows=-1.0, prediction=np.eye(size), epsilon=1, form=form, source=source
            )
        assert np.isfinite(found).all()
        with pytest.raises(StrictError):
            sample_eigenvectors(
                moments,
                rows=1.0,
                prediction=np.eye(size),
                epsilon=1,
                form=form,
                source=Source(SeededEntropy(0), declared="exact"),
            )
