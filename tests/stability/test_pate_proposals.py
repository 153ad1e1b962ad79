"""Proposals about votes: prices, chances, choices from public votes, and the test by smooth sensitivity."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sidelight.errors import RangeError, StrictError
from sidelight.guarantees.conversions import renyi_epsilon
from sidelight.noise import Source
from sidelight.release import Refused, Release
from sidelight.stability.pate import (
    ClearVotes,
    NoisyLabels,
    SmoothVotes,
    cheapest_proposal,
    cheapest_smooth_proposal,
    pass_chance,
    plain_epsilon,
    proposal_table,
    quantiles_of,
    simulate_votes,
    votes_of_agreement,
)
from sidelight.stability.pate.plan import LabelPlan
from sidelight.stability.pate.smooth_cost import smooth_noise_renyi
from sidelight.testing import SeededEntropy, SeededSession

CLEAR = np.tile([383, 8, 5, 4], (200, 1))
CLOSE = np.tile([210, 180, 6, 4], (200, 1))
SMOOTH = SmoothVotes(budget="0.5", order=12, smoothness="0.025", sensitivity_scale=5, sum_scale=7, delta="1e-5")


def test_the_price_of_a_smooth_proposal_is_the_sum_of_three_divergences_converted_once() -> None:
    proposal = SmoothVotes(budget="0.05", order=20, smoothness="0.01", sensitivity_scale=15, sum_scale=10, delta="1e-5")
    total = Fraction(smooth_noise_renyi(20, smoothness=0.01, scale=10)) + Fraction(20, 450) + Fraction(1, 20)
    assert float(total - Fraction(20, 450) - Fraction(1, 20)) == pytest.approx(0.16503444, rel=1e-6)
    wanted = renyi_epsilon(total, Fraction(19), Fraction(1, 200_000))
    assert float(proposal.price.epsilon) == pytest.approx(float(wanted), rel=1e-8)
    assert proposal.price.epsilon >= wanted
    assert proposal.price.delta == Fraction(1, 100_000)


def test_smooth_proposals_release_clear_votes_and_refuse_close_ones_and_are_idealized() -> None:
    released = NoisyLabels(votes=CLEAR, noise_scale=40, proposal=SMOOTH).release(entropy=SeededEntropy("smooth"))
    refused = NoisyLabels(votes=CLOSE, noise_scale=40, proposal=SMOOTH).release(entropy=SeededEntropy("smooth"))
    assert isinstance(released, Release)
    assert isinstance(refused, Refused)
    assert released.circumstances.numerics == refused.circumstances.numerics == "idealized"
    assert released.guarantee.numerics == "idealized"
    assert released.guarantee.to_json() == refused.guarantee.to_json()
    assert released.query == refused.query


def test_a_strict_session_refuses_the_smooth_test_before_any_charge() -> None:
    import sidelight as sl

    table = sl.Table({"row": [0.0]}, schema=[sl.Number("row")])
    session = SeededSession(table, budget=sl.ApproxDP(2, "1e-4"), seed=3, strict=True)
    before = session.spent
    with pytest.raises(StrictError):
        session.release(NoisyLabels(votes=CLEAR, noise_scale=40, proposal=SMOOTH))
    assert session.spent == before


def test_the_chance_to_pass_is_how_often_votes_pass() -> None:
    """Not at 0 or 1, and held against 200 draws of the test itself."""
    votes = np.array([[390, 10], [300, 100]])
    proposal = ClearVotes(budget="0.001", order=10, test_scale=10, delta="0.1")
    chance = pass_chance(proposal, noise_scale=40, votes=votes)
    assert 0.02 < chance < 0.98
    with Source(SeededEntropy("chance"), declared="exact") as source:
        passed = np.mean([proposal.clear(votes, 40.0, source) for _ in range(200)])
    assert abs(passed - chance) < 5.5 * np.sqrt(chance * (1 - chance) / 200)


def test_the_smooth_bound_passes_as_often_as_said_and_is_too_low_as_rarely_as_stated() -> None:
    """At a failure probability of 0.05; without its shift upwards, the planted bug, it is low half of the time."""
    votes = np.array([[300, 100], [260, 140]])
    proposal = SmoothVotes(budget="0.02", order=5, smoothness="0.04", delta="0.1")
    chance = pass_chance(proposal, noise_scale=40, votes=votes)
    assert 0.02 < chance < 0.98
    bound = proposal._bound(votes, 40.0)
    quantiles = quantiles_of(votes, bound.cost, tie_margin=1 / 1024)
    cost = float(bound.cost.at(quantiles).sum())
    unshifted = replace(bound, failure=0.999)
    with Source(SeededEntropy("bound"), declared="idealized") as source:
        drawn, low = (np.array([each.release(quantiles, source) for _ in range(600)]) for each in (bound, unshifted))
    assert abs((drawn <= 0.02).mean() - chance) < 5.5 * np.sqrt(chance * (1 - chance) / 600)
    allowed = 0.05 + 5 * np.sqrt(0.05 * 0.95 / 600)
    assert (drawn < cost).mean() < allowed
    assert (low < cost).mean() > allowed


def test_the_distance_costs_less_than_smooth_sensitivity() -> None:
    ours = cheapest_proposal(200, 40, delta="1e-5", votes=CLEAR)
    smooth = cheapest_smooth_proposal(200, 40, delta="1e-5", votes=CLEAR, orders=(12, 20, 30))
    assert ours is not None
    assert smooth is not None
    assert ours.price.epsilon < smooth.price.epsilon
    assert pass_chance(ours, noise_scale=40, votes=CLEAR) > 0.98
    assert pass_chance(smooth, noise_scale=40, votes=CLEAR) > 0.98
    assert cheapest_smooth_proposal(200, 40, delta="1e-5", votes=CLOSE, orders=(12, 20)) is None


def test_the_table_rises_with_the_budget() -> None:
    table = proposal_table(200, 40, delta="1e-5", budgets=["0.001", "0.01", "0.1", "1"], votes=CLEAR)
    assert [row.epsilon for row in table] == sorted(row.epsilon for row in table)
    assert [row.chance for row in table] == sorted(row.chance for row in table)
    assert "epsilon 0.47, 24% of the plain 1.99; released if the votes are clear" in str(table[1])


def test_a_proposal_that_costs_more_than_none_is_sent_back_before_any_charge() -> None:
    proposal = ClearVotes(budget="3", order=25, test_scale=5, delta="1e-5")
    assert float(proposal.price.epsilon) > plain_epsilon(200, 40, delta="1e-5")
    with pytest.raises(RangeError, match="whatever the votes"):
        NoisyLabels(votes=CLEAR, noise_scale=40, proposal=proposal).release()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"order": 60, "smoothness": "0.01"}, "too large for"),
        ({"order": 1}, "above 1"),
        ({"smoothness": 0}, "smoothness"),
        ({"sum_scale": -1}, "sum_scale"),
        ({"sensitivity_scale": 0}, "sensitivity_scale"),
        ({"budget": 0}, "budget"),
        ({"delta": 1}, "delta"),
    ],
)
def test_smooth_proposals_outside_their_range(wrong: dict, message: str) -> None:
    with pytest.raises(RangeError, match=message):
        SmoothVotes(**{"budget": 1, "delta": "1e-5", **wrong})


def plan(**rest: object) -> LabelPlan:
    usual = {"teachers": 400, "classes": 4, "noise_scale": 40, "delta": "1e-5", "proposal": "auto"}
    return LabelPlan(**{**usual, "expected_votes": None, **rest})  # type: ignore[arg-type]


def test_a_plan_says_in_advance_what_will_be_charged() -> None:
    assert plan().price(200).proposal is None
    clear, close = plan(expected_votes=CLEAR).price(200), plan(expected_votes=CLOSE).price(200)
    assert clear.epsilon < 0.3 * clear.plain
    assert clear.chance > 0.98
    assert close.proposal is None
    assert close.epsilon == close.plain == pytest.approx(1.993, abs=1e-3)
    assert "nothing can be refused" in str(close)
    assert plan(expected_votes=0.96).price(200).epsilon < 0.4 * clear.plain


def test_a_proposal_out_of_reach_is_said_in_advance() -> None:
    proposal = ClearVotes(budget="0.0001", order=25, delta="1e-5")
    with pytest.raises(RangeError, match="even if all agreed"):
        plan(teachers=30, proposal=proposal).price(200)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"teachers": 1}, "teachers"),
        ({"teachers": 2.5}, "teachers"),
        ({"noise_scale": 0}, "noise_scale"),
        ({"delta": 0}, "delta"),
        ({"proposal": "cheap"}, "proposal"),
        ({"proposal": ClearVotes(budget=1, delta="1e-6")}, "give both the same"),
        ({"expected_votes": [[1, 2, 3, 4]]}, "add up to the 400 teachers"),
        ({"expected_votes": [[399.5, 0.5, 0, 0]]}, "whole numbers"),
        ({"expected_votes": [[401, -1, 0, 0]]}, "negative"),
        ({"expected_votes": 0.3}, "share of teachers"),
    ],
)
def test_plans_outside_their_range(wrong: dict, message: str) -> None:
    with pytest.raises(RangeError, match=message):
        plan(**wrong).price(10)


def test_simulated_votes_are_of_so_many_teachers() -> None:
    from sklearn.neighbors import NearestCentroid

    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    x = rng.normal(size=(300, 2)) + 4 * y[:, None]
    votes = simulate_votes(
        NearestCentroid(), x, y, [[0, 0], [4, 4]], classes=[0, 1], teachers=30, rows_a_teacher=20, rng=rng
    )
    assert votes.sum(axis=1).tolist() == [30, 30]
    assert votes.argmax(axis=1).tolist() == [0, 1]
    assert votes_of_agreement(1.0, teachers=7, classes=2).tolist() == [[7, 0]]
