"""Bounds of ranks from noisy counts: the coefficients are those of least squares, and the bound holds and is close."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import gamma

from sidelight.quantiles.forms.count_noise import (
    NoiseTerms,
    _levelled,
    _Moments,
    below_proxy,
    linear_bound,
    noise_coefficients,
)
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


def terms(count: int, **given: object) -> NoiseTerms:
    nothing = {"laplace": (), "gaussian": (), "selections": np.zeros((count, 0))}
    zeros = {"chance": np.zeros(count), "uneven": np.zeros(count), "rows": np.ones(count)}
    return NoiseTerms(**{**nothing, **zeros, **given})  # type: ignore[arg-type]


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


@pytest.mark.parametrize("away", [0.0, 4.0, np.inf])
def test_a_sum_that_is_shifted_to_a_side_needs_less_to_the_other(away: float) -> None:
    """It exceeds its bound and the shift as often as it may, whichever way it is shifted; less than by both sides."""
    generator = np.random.default_rng(3)
    scaled = generator.normal(size=(1, 12))
    fixed, per_log = linear_bound(terms(1, laplace=[scaled], apart=np.array([away])))
    both, slope = linear_bound(terms(1, laplace=[scaled]))
    total = generator.laplace(scale=np.sqrt(0.5), size=(200_000, 12)) @ scaled[0]
    for beta in (0.2, 0.05, 0.01):
        bound = float((fixed + per_log * np.log(1 / beta))[0])
        shift = 0.0 if np.isinf(away) else away
        other = np.inf if np.isinf(away) else bound + 2 * shift
        assert ((total > bound) | (total < -other)).mean() < beta
        assert bound <= float((both + slope * np.log(1 / beta))[0]) + 1e-9
    if away > 0:
        assert float(fixed[0]) < float(both[0]) - 0.3


def test_shares_are_levelled_where_something_is_added() -> None:
    """The row that has most added has most of the failure probability; the largest bound is smaller, and all hold."""
    generator = np.random.default_rng(4)
    scaled = generator.normal(size=(50, 30)) / 5
    above = np.where(np.arange(50) == 7, 4.0, 0.0)
    asked = terms(50, laplace=[scaled], rows=np.full(50, 50.0), apart=above)
    fixed, per_log = linear_bound(asked, above=above)
    evenly, slope = linear_bound(asked)
    levelled, even = (each + above for each in (fixed + per_log * np.log(20), evenly + slope * np.log(20)))
    assert levelled.max() < 0.92 * even.max()
    assert (levelled < 1.2 * even).all(), "a quarter of it is shared out evenly"
    total = generator.laplace(scale=np.sqrt(0.5), size=(100_000, 30)) @ scaled.T
    for beta in (0.2, 0.05, 0.01):
        bound = fixed + per_log * np.log(1 / beta)
        assert (total > bound).any(axis=1).mean() < beta / 2, "no more than to one side of all of them"


def test_what_is_evenly_spread_adds_less_than_the_end_of_where_it_may_be() -> None:
    generator = np.random.default_rng(8)
    scaled = generator.normal(size=(1, 20))
    total = generator.laplace(scale=np.sqrt(0.5), size=(200_000, 20)) @ scaled[0]
    alone, slope = linear_bound(terms(1, laplace=[scaled]))
    for width in (1e-5, 1.0, 9.0, 40.0):
        fixed, per_log = linear_bound(terms(1, laplace=[scaled], even=np.array([width])))
        spread = total + generator.uniform(-width, width, total.size)
        for beta in (0.2, 0.05, 0.01):
            bound = float((fixed + per_log * np.log(1 / beta))[0])
            assert (np.abs(spread) > bound).mean() < beta
            assert bound < float((alone + slope * np.log(1 / beta))[0]) + width + 1e-6
            assert bound < 1.8 * np.quantile(np.abs(spread), 1 - beta)


def test_levelled_shares_add_up_to_one_and_no_others_are_better() -> None:
    generator = np.random.default_rng(6)
    heights, slopes = generator.normal(0, 20, 40), generator.uniform(1, 9, 40)
    shares = _levelled(heights, slopes)
    assert shares.sum() == pytest.approx(1)
    reached = heights - slopes * np.log(np.maximum(shares, 1e-300))
    assert reached[shares > 1e-6] == pytest.approx(np.full((shares > 1e-6).sum(), reached.min()), abs=1e-4)
    for _ in range(50):
        other = generator.dirichlet(np.ones(40))
        assert (heights - slopes * np.log(other)).max() >= reached.min()


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


@pytest.mark.parametrize("scales", [[1.0] * 2, [1.0] * 40, [3.0, *[1.0] * 20], [0.1, 5.0, 2.0, 2.0]])
def test_the_density_of_a_sum_is_nowhere_above_what_is_taken_for_it(scales: list[float]) -> None:
    """Of Laplace terms as they are: their density is largest at 0, where it is the integral of φ / 2π."""
    squares = np.square(scales)
    u = (np.arange(100_000) + 0.5) * 0.002
    largest = float(np.exp(-sum(np.log1p(each * u**2) for each in squares)).sum() * 0.002 / np.pi)
    flat = float(_Moments._flatness(np.array([squares.sum()]), np.array([max(scales)]))[0])
    assert largest <= 1 / flat < 2.2 * largest
    if len(scales) == 40:
        assert 1 / flat < 1.01 * largest


def test_one_term_has_no_such_density() -> None:
    assert _Moments._flatness(np.array([4.0]), np.array([2.0])).tolist() == [0.0]


def test_sharp_bounds_of_many_terms_hold_and_are_nearer() -> None:
    """Forty Laplace terms are the difference of two gammas: their tail at the bound, to both sides, by integration."""
    terms = {
        "laplace": [np.full((1, 40), math.sqrt(2))],
        "gaussian": (),
        "chance": np.zeros(1),
        "selections": np.zeros((1, 0)),
        "uneven": np.zeros(1),
        "rows": np.ones(1),
    }
    step = np.arange(0, 200, 0.01)
    missed = []
    for sharp in (False, True):
        fixed, per_log = linear_bound(NoiseTerms(**terms, sharp=sharp))  # type: ignore[arg-type]
        for beta in (0.05, 0.001):
            bound = float((fixed + per_log * math.log(1 / beta))[0])
            tail = float((gamma.pdf(step, 40) * gamma.sf(step + bound, 40)).sum() * 0.01)
            assert 2 * tail <= beta
            missed.append(2 * tail / beta)
    assert missed[2] > 2 * missed[0]
    assert missed[2] > 0.7
