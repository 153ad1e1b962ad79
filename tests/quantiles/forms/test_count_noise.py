"""Bounds of ranks from noisy counts: the coefficients are those of least squares, and the bound holds and is close."""

from __future__ import annotations

import numpy as np
import pytest

from sidelight.quantiles.forms.count_noise import below_proxy, linear_bound, noise_coefficients
from sidelight.quantiles.forms.least_squares import Round, agreed_counts


def nested(depth: int, generator: np.random.Generator) -> list[Round]:
    rounds = [Round.of(generator.normal(50, 9, 6), generator.uniform(1, 4, 6))]
    if depth > 1:
        parents = np.sort(np.concatenate([[1, 2, 3, 4], generator.integers(1, 5, 5)]))
        rounds.append(Round.of(generator.normal(20, 9, 9), generator.uniform(1, 4, 9), parents))
    if depth > 2:
        parents = np.sort(np.concatenate([np.arange(9), generator.integers(0, 9, 21)]))
        rounds.append(Round.of(generator.normal(20, 9, 30), generator.uniform(1, 40, 30), parents))
    return rounds


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_coefficients_are_those_of_the_estimate(depth: int) -> None:
    generator = np.random.default_rng(depth)
    rounds = nested(depth, generator)
    estimates = agreed_counts(rounds)
    cells = estimates[0] if depth == 1 else np.concatenate([estimates[0][:1], estimates[-1], estimates[0][-1:]])
    weights = generator.normal(size=(5, cells.size))
    found = noise_coefficients(rounds, weights)
    by_counts = sum(matrix @ each.counts for matrix, each in zip(found, rounds, strict=True))
    assert by_counts == pytest.approx(weights @ cells, rel=1e-10)


@pytest.mark.parametrize("gaussian", [False, True])
def test_the_bound_holds_and_is_not_wasteful(gaussian: bool) -> None:
    generator = np.random.default_rng(5)
    scaled = [generator.normal(size=(3, 40)), generator.normal(size=(3, 7))]
    chance = np.array([0.0, 5.0, 60.0])
    fixed, per_log = linear_bound(scaled, gaussian=gaussian, chance=chance, levels=1)
    draws = 100_000
    total = generator.normal(size=(draws, 3)) * np.sqrt(chance)
    for each in scaled:
        size = (draws, each.shape[1])
        noise = generator.normal(size=size) if gaussian else generator.laplace(scale=np.sqrt(0.5), size=size)
        total += noise @ each.T
    for beta in (0.2, 0.05, 0.01):
        bound = fixed + per_log * np.log(1 / beta)
        exceeded = (np.abs(total) > bound).mean(axis=0)
        assert (exceeded < beta).all()
        assert (bound < 2.2 * np.quantile(np.abs(total), 1 - beta, axis=0)).all()


def test_one_laplace_alone() -> None:
    """The worst case of the expansion: log(2/beta) b is exact for one variable, the bound has less than twice that."""
    fixed, per_log = linear_bound([np.full((1, 1), np.sqrt(2.0))], gaussian=False, chance=np.zeros(1), levels=1)
    bound = float((fixed + per_log * np.log(20))[0])
    assert np.log(20) < bound < 2 * np.log(40)


def test_no_noise_at_all_is_bounded_by_nearly_nothing() -> None:
    fixed, per_log = linear_bound([np.zeros((1, 3))], gaussian=False, chance=np.zeros(1), levels=1)
    assert abs(float((fixed + per_log * 3)[0])) < 1e-3


def test_the_proxy_bounds_the_moments_of_a_coin() -> None:
    for share in (1e-6, 0.01, 0.2, 0.4999999, 0.5, 0.9):
        proxy = float(below_proxy(np.array([1.0]), np.array([share]))[0])
        assert share * (1 - share) <= proxy * (1 + 1e-9) <= 0.25 * (1 + 1e-6)
        for t in np.linspace(-8, 8, 81):
            moment = np.log(share * np.exp(t * (1 - share)) + (1 - share) * np.exp(-t * share))
            assert moment <= proxy * t * t / 2 + 1e-9
