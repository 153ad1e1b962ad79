"""Bounds of ranks from noisy counts: the coefficients are those of least squares, and the bound holds and is close."""

from __future__ import annotations

import numpy as np
import pytest

from sidelight.quantiles.forms.count_noise import Terms, below_proxy, linear_bound, noise_coefficients
from sidelight.quantiles.forms.least_squares import UNCOUNTED, Round, agreed_counts


def nested(depth: int, generator: np.random.Generator) -> list[Round]:
    rounds = [Round.of(generator.normal(50, 9, 6), generator.uniform(1, 4, 6))]
    if depth > 1:
        parents = np.sort(np.concatenate([np.arange(6), generator.integers(1, 5, 3)]))
        counted = (parents > 0) & (parents < 5)  # the outermost two are not counted again
        found = Round.of(generator.normal(20, 9, 7), generator.uniform(1, 4, 7), parents[counted])
        rounds.append(found.among(counted, parents))
    if depth > 2:
        parents = np.sort(np.concatenate([np.arange(9), generator.integers(0, 9, 21)]))
        rounds.append(Round.of(generator.normal(20, 9, 30), generator.uniform(1, 40, 30), parents))
    return rounds


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_coefficients_are_those_of_the_estimate(depth: int) -> None:
    generator = np.random.default_rng(depth)
    rounds = nested(depth, generator)
    estimates = agreed_counts(rounds)
    cells = estimates[-1]
    weights = generator.normal(size=(5, cells.size))
    found = noise_coefficients(rounds, weights)
    by_counts = sum(matrix @ each.counts for matrix, each in zip(found, rounds, strict=True))
    assert by_counts == pytest.approx(weights @ cells, rel=1e-10)
    for matrix, each in zip(found, rounds, strict=True):
        assert (np.abs(matrix[:, each.variances == UNCOUNTED]) < 1e-12).all(), "what was not counted has no noise"


def terms(count: int, **given: object) -> Terms:
    nothing = {"laplace": (), "gaussian": (), "selections": np.zeros((count, 0))}
    zeros = {"chance": np.zeros(count), "uneven": np.zeros(count), "rows": np.ones(count)}
    return Terms(**{**nothing, **zeros, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_the_bound_holds_and_is_not_wasteful(law: str) -> None:
    generator = np.random.default_rng(5)
    scaled = [generator.normal(size=(3, 40)), generator.normal(size=(3, 7))]
    chosen = generator.normal(size=(3, 2)) * np.array([[0.0], [9.0], [2.0]])
    chance = np.array([0.0, 5.0, 60.0])
    fixed, per_log = linear_bound(terms(3, **{law: scaled}, chance=chance, selections=chosen))
    draws = 100_000

    def laplace(size: tuple[int, int]) -> np.ndarray:
        return generator.laplace(scale=np.sqrt(0.5), size=size)

    total = generator.normal(size=(draws, 3)) * np.sqrt(chance) + laplace((draws, 2)) @ chosen.T
    for each in scaled:
        size = (draws, each.shape[1])
        total += (generator.normal(size=size) if law == "gaussian" else laplace(size)) @ each.T
    for beta in (0.2, 0.05, 0.01):
        bound = fixed + per_log * np.log(1 / beta)
        exceeded = (np.abs(total) > bound).mean(axis=0)
        assert (exceeded < beta).all()
        assert (bound < 1.6 * np.quantile(np.abs(total), 1 - beta, axis=0)).all()


def test_shares_of_the_failure_probability() -> None:
    """A row that has a tenth of it is bounded by what a single row has at a tenth."""
    scaled = np.full((2, 30), 1.0)
    fixed, per_log = linear_bound(terms(2, laplace=[scaled], rows=np.array([1.0, 10.0])))
    alone = fixed[0] + per_log[0] * np.log(20 * 10)
    shared = fixed[1] + per_log[1] * np.log(20)
    assert shared == pytest.approx(alone, rel=0.02)


def test_an_uneven_selection_is_bounded_at_its_factor() -> None:
    """A density four times a Laplace's in its tail: the bound is that of a Laplace at a quarter of the probability."""
    chosen = np.full((1, 1), 10 * np.sqrt(2.0))
    fixed, per_log = linear_bound(terms(1, selections=chosen, uneven=np.array([np.log(4.0)])))
    bound = float((fixed + per_log * np.log(20))[0])
    assert 10 * np.log(4 * 20) <= bound < 1.15 * 10 * np.log(4 * 2 * 20)


def test_no_noise_at_all_is_bounded_by_nearly_nothing() -> None:
    fixed, per_log = linear_bound(terms(1, laplace=[np.zeros((1, 3))]))
    assert abs(float((fixed + per_log * 3)[0])) < 1e-3


def test_the_proxy_bounds_the_moments_of_a_coin() -> None:
    for share in (1e-6, 0.01, 0.2, 0.4999999, 0.5, 0.9):
        proxy = float(below_proxy(np.array([1.0]), np.array([share]))[0])
        assert share * (1 - share) <= proxy * (1 + 1e-9) <= 0.25 * (1 + 1e-6)
        for t in np.linspace(-8, 8, 81):
            moment = np.log(share * np.exp(t * (1 - share)) + (1 - share) * np.exp(-t * share))
            assert moment <= proxy * t * t / 2 + 1e-9
