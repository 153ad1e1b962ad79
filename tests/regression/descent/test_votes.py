"""The choice for numbers: what one row's votes can do to it, and what an absurd prediction can do to a start."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidelight as sl
from sidelight.guarantees import Row
from sidelight.mechanisms.budget import Budget
from sidelight.predictions.origin import guess
from sidelight.regression.descent.geometry import Geometry, NoisyGram, PublicMoments, from_gram, guarded, without_map
from sidelight.regression.descent.integer_rows import GeometryMap, squared_votes
from sidelight.regression.descent.mapped_rows import CodedExamples
from sidelight.regression.descent.plan import plan_descent
from sidelight.regression.descent.row_sums import votes_against_starts
from sidelight.regression.descent.rules import odds_of
from sidelight.regression.descent.starts import DescentStart, StartChoice, start_of
from sidelight.regression.descent.targets import Targets
from sidelight.regression.model_predictions import PredictedCoefficients, PredictedFit
from sidelight.regression.prediction_sources import predictions_of
from sidelight.regression.rows import BoundedArrays

NUMBER = Targets(kind="squared", target_range=(-1, 1))
D, M = 4, 60


def choice_of(candidates: int, rows: int = 1) -> StartChoice:
    budget = Budget.of(mu=Fraction(1, 2))
    return StartChoice(
        candidates=candidates, budget=budget, odds=odds_of(9), unit=Row(), rows_per_unit=rows, votes=True
    )


def widest_move(choice: StartChoice, *, step: float, rows: int) -> float:
    """Return how far one person's rows can move log-probabilities apart, over all votes that they may have."""

    def logarithms(scores: Any) -> np.ndarray:
        masses = np.array([w * math.exp(step * s) for w, s in zip(choice.weights, (*scores, 0), strict=True)])
        return np.log(masses / masses.sum())

    before = np.arange(choice.candidates) * 3 - 2
    moves = itertools.product(range(-rows, rows + 1), repeat=choice.candidates)
    return max(float(np.ptp(logarithms(before + move) - logarithms(before))) for move in moves)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("candidates", [1, 2, 3])
def test_one_persons_votes_move_the_logarithms_within_the_spread(candidates: int, rows: int) -> None:
    choice = choice_of(candidates, rows)
    widest = widest_move(choice, step=float(choice.step), rows=rows)
    assert widest <= float(choice.spread) * (1 + 1e-9)
    assert widest > 0.999 * float(choice.spread)  # and it is attained


@pytest.mark.planted("noise of one candidate's votes for two", of=("LinearRegression", "LogisticRegression"))
def test_a_unit_for_one_candidate_fails_for_two() -> None:
    choice = choice_of(2)
    assert widest_move(choice, step=float(choice.spread), rows=1) > 1.9 * float(choice.spread)


@given(st.lists(st.tuples(*[st.integers(-1, 1)] * 2), max_size=8), st.tuples(*[st.integers(-1, 1)] * 2))
def test_the_least_of_two_sums_moves_no_further_than_a_vote(rows: list[tuple[int, int]], more: tuple[int, int]) -> None:
    def least(votes: list[tuple[int, int]]) -> int:
        return min(sum(vote[0] for vote in votes), sum(vote[1] for vote in votes))

    assert abs(least([*rows, more]) - least(rows)) <= 1


def test_a_vote_is_for_the_nearer_prediction_whatever_the_distance() -> None:
    whole = 2.0**28
    near, far, target = (
        np.array([[0.5], [0.1], [0.0]]),
        np.array([[0.9], [0.1], [-1e-4]]),
        np.array([[0.6], [0.3], [0.5]]),
    )
    votes = squared_votes(np.floor(near * whole), np.floor(far * whole), np.rint(target * 2**14))
    assert votes.tolist() == [1, 0, 1]
    assert squared_votes(np.floor(far * whole), np.floor(near * whole), np.rint(target * 2**14)).tolist() == [-1, 0, -1]


def private_geometry(*, noise: float = 0.0) -> Geometry:
    rng = np.random.default_rng(2)
    rows = np.column_stack([rng.uniform(-0.5, 0.5, (500, D)), np.full(500, 0.5)])
    extra = rng.normal(size=(D + 1, D + 1)) * noise
    return from_gram(NoisyGram(matrix=rows.T @ rows + extra + extra.T, noise_scale=max(noise, 1e-3)))


def test_adding_a_row_adds_its_own_votes() -> None:
    """Block by block or in one go, the score of a table and one row more differ by at most one vote."""
    own, rng = without_map(D, rows=1.0), np.random.default_rng(3)
    plan = plan_descent(targets=NUMBER, features=D, epsilon=1, delta="1e-6", data_norm=1)
    X, y = rng.uniform(-0.5, 0.5, (41, D)), rng.uniform(-1, 1, 41)
    constant = np.zeros((D + 1, 1))
    constant[-1] = 0.2
    starts = [
        DescentStart(theta=rng.normal(size=(D + 1, 1)), variances=np.ones((D + 1, 1)), constant=constant),
        DescentStart(theta=rng.normal(size=(D + 1, 1)) / 9, variances=np.ones((D + 1, 1))),
    ]

    def scores(n: int) -> np.ndarray:
        bounded = BoundedArrays(X[:n], y[:n], policy=plan.policy)
        return -votes_against_starts(NUMBER, CodedExamples(bounded, data_norm=1.0), starts, GeometryMap(geometry=own))

    found = np.array([scores(n) for n in range(42)])
    assert (found[:, -1] == 0).all()
    assert np.abs(np.diff(found, axis=0)).max() == 1
    z = np.column_stack([X, np.full(41, 0.5)])
    errors = np.abs(z @ starts[1].theta[:, 0] - y)
    assert abs(found[-1, 1] - np.sign(np.abs(y) - errors).sum()) <= 2  # integers decide ties of a 2⁻¹⁴th


def coefficients(slopes: Any, constant: float) -> PredictedCoefficients:
    return PredictedCoefficients(theta=np.append(slopes, constant)[:, None], origin=guess(), what="a guess")


def deviation(start: DescentStart, geometry: Geometry) -> float:
    return float(np.sqrt(geometry.h[:D] @ start.theta[:D, 0] ** 2))


def test_an_absurd_prediction_is_cut_to_what_a_target_can_be_and_a_possible_one_is_not() -> None:
    geometry = private_geometry()
    absurd = start_of(coefficients(np.full(D, 50.0), 40.0), geometry, kind="squared")
    assert deviation(absurd, geometry) == pytest.approx(0.75)
    assert absurd.theta[-1, 0] == 1.0
    possible = start_of(coefficients(np.full(D, 0.3), 0.1), geometry, kind="squared")
    np.testing.assert_array_equal(possible.theta, geometry.mapped(np.full((D, 1), 0.3), np.array([0.1])))
    classes = start_of(coefficients(np.full(D, 50.0), 40.0), geometry, kind="logistic")  # log odds have no range
    assert deviation(classes, geometry) > 5


def public_rows(m: int, *, slope: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m)
    rows = rng.uniform(-0.5, 0.5, (m, D))
    return rows, np.clip(rows @ np.full(D, slope) + 0.3 + 0.1 * rng.normal(size=m), -1, 1)


def candidate(rows: np.ndarray, targets: np.ndarray) -> Any:
    wanted = PredictedFit(features=D, data_norm=Fraction(1), target_range=(-1, 1))
    return predictions_of(sl.PublicData(np.column_stack([rows, targets]), "rows"), wanted).candidates[0]


def test_public_rows_are_fitted_in_their_own_coordinates_where_the_geometry_is_noisy() -> None:
    from sklearn.linear_model import RidgeCV

    geometry = private_geometry(noise=40.0)
    rows, targets = public_rows(M)
    start = start_of(candidate(rows, targets), geometry, kind="squared")
    reference = RidgeCV(np.logspace(-4, 3, 15)).fit(rows, targets)
    slopes, constant = geometry.unmapped(start.theta)
    np.testing.assert_allclose(slopes[:, 0], reference.coef_, rtol=1e-6)
    assert constant[0] == pytest.approx(reference.intercept_)
    centred = rows - rows.mean(axis=0)
    covariance = start.residual_variance * np.linalg.inv(centred.T @ centred + reference.alpha_ * np.eye(D))
    expected = np.einsum("ij,jk,ik->i", geometry.inverse, covariance, geometry.inverse)
    np.testing.assert_allclose(start.variances[:D, 0], expected, rtol=1e-6)
    assert start.constant is not None
    assert start.constant[-1, 0] == pytest.approx(targets.mean())


@pytest.mark.parametrize("public", [True, False])
def test_the_reach_of_public_rows_is_that_of_their_predictions(public: bool) -> None:
    rng, (rows, targets) = np.random.default_rng(4), public_rows(M, slope=9.0)
    geometry = private_geometry()
    if public:
        inside = np.column_stack([rng.uniform(-0.5, 0.5, (500, D)), np.full(500, 0.5)])
        gram = NoisyGram(matrix=inside.T @ inside, noise_scale=1e-3)
        geometry = guarded(PublicMoments.of(rows), gram, rows=500.0)
    start = start_of(candidate(rows, np.sign(targets)), geometry, kind="squared")
    slopes, constant = geometry.unmapped(start.theta)
    predicted = rows @ slopes[:, 0] + constant[0]
    assert predicted.std() <= 0.75 + 1e-9
    assert predicted.mean() == pytest.approx(np.sign(targets).mean(), abs=0.05)
    assert (start.h is not None) == public
