"""Proposals about votes: prices, chances, choices from public votes, and plans."""

from __future__ import annotations

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.noise import Source
from sidelight.stability.pate import (
    ClearVotes,
    NoisyLabels,
    pass_chance,
    plain_epsilon,
    proposal_table,
    simulate_votes,
    votes_of_agreement,
)
from sidelight.stability.pate.labels import LabelPlan
from sidelight.testing import SeededEntropy

CLEAR = np.tile([383, 8, 5, 4], (200, 1))
CLOSE = np.tile([210, 180, 6, 4], (200, 1))


def test_the_chance_to_pass_is_how_often_votes_pass() -> None:
    """Not at 0 or 1, and held against 200 draws of the test itself."""
    votes = np.array([[390, 10], [300, 100]])
    proposal = ClearVotes(budget="0.001", order=10, test_scale=10, delta="0.1")
    chance = pass_chance(proposal, noise_scale=40, votes=votes)
    assert 0.02 < chance < 0.98
    with Source(SeededEntropy("chance"), declared="exact") as source:
        passed = np.mean([proposal.clear(votes, 40.0, source) for _ in range(200)])
    assert abs(passed - chance) < 5.5 * np.sqrt(chance * (1 - chance) / 200)


def test_the_table_rises_with_the_budget() -> None:
    table = proposal_table(200, 40, delta="1e-5", budgets=["0.001", "0.01", "0.1", "1"], votes=CLEAR)
    assert [row.epsilon for row in table] == sorted(row.epsilon for row in table)
    assert [row.chance for row in table] == sorted(row.chance for row in table)
    assert "epsilon 0.469, 24% of the plain 2; released if the votes are clear" in str(table[1])


def test_a_proposal_that_costs_more_than_none_is_sent_back_before_any_charge() -> None:
    proposal = ClearVotes(budget="3", order=25, test_scale=5, delta="1e-5")
    assert float(proposal.price.epsilon) > plain_epsilon(200, 40, delta="1e-5")
    with pytest.raises(RangeError, match="whatever the votes"):
        NoisyLabels(votes=CLEAR, noise_scale=40, proposal=proposal).release()


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


def test_labels_take_no_other_proposal() -> None:
    with pytest.raises(RangeError, match="ClearVotes"):
        NoisyLabels(votes=CLEAR, noise_scale=40, proposal="auto")  # type: ignore[arg-type]


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
