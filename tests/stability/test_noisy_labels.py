"""Labels through the release pipeline: prices, refusals, the law of the noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.guarantees.conversions import renyi_epsilon
from sidelight.release import Refused, Release
from sidelight.stability.pate import ClearVotes, NoisyLabels, VotePrice, cheapest_proposal, plain_epsilon
from sidelight.stability.pate.proposals import checked_votes
from sidelight.testing import SeededEntropy, SeededSession


def votes(share: float, *, queries: int = 200, teachers: int = 400, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.array([rng.multinomial(teachers, [share, *[(1 - share) / 9] * 9]) for _ in range(queries)])


def test_plain_prices_are_those_of_the_gaussian_mechanism() -> None:
    prices = [plain_epsilon(200, sigma, delta="1e-5") for sigma in (20, 40, 60)]
    assert prices == pytest.approx([4.38, 1.99, 1.27], abs=5e-3)


def test_the_price_of_a_proposal_is_public_and_one_conversion() -> None:
    proposal = ClearVotes(budget="0.05", order=30, test_scale=10, delta="1e-5")
    wanted = renyi_epsilon(Fraction(30, 200) + Fraction(1, 20), Fraction(29), Fraction(1, 200_000))
    assert proposal.price.epsilon == wanted
    assert proposal.price.delta == Fraction(1, 100_000)


def test_clear_votes_cost_a_quarter_and_close_votes_are_not_proposed() -> None:
    clear = cheapest_proposal(200, 40, delta="1e-5", votes=votes(0.957))
    assert clear is not None
    assert float(clear.price.epsilon) < 0.3 * plain_epsilon(200, 40, delta="1e-5")
    assert cheapest_proposal(200, 40, delta="1e-5", votes=votes(0.4)) is None


def test_clear_votes_are_released_and_close_votes_refused_at_the_same_price() -> None:
    proposal = cheapest_proposal(200, 40, delta="1e-5", votes=votes(0.957))
    released = NoisyLabels(votes=votes(0.957, seed=1), noise_scale=40, proposal=proposal).release(
        entropy=SeededEntropy("labels")
    )
    refused = NoisyLabels(votes=votes(0.4, seed=1), noise_scale=40, proposal=proposal).release(
        entropy=SeededEntropy("labels")
    )
    assert isinstance(released, Release)
    assert isinstance(refused, Refused)
    assert (released.value == 0).mean() > 0.99
    assert released.guarantee.to_json() == refused.guarantee.to_json()
    assert released.query == refused.query


def test_nothing_public_shows_a_vote() -> None:
    query = NoisyLabels(votes=[[123456, 7]], noise_scale=5)
    assert "123456" not in repr(query)
    assert "123456" not in repr(query.prepare(sl.Schema([sl.Number("row")])))
    assert "123456" not in query.release().to_json()


@pytest.mark.parametrize("most", [2**53, 2**60, 1e300, np.float32(1e30), np.longdouble("1e4000"), np.uint64(2**64 - 1)])
def test_the_winner_of_enormous_votes_wins(most: object) -> None:
    release = NoisyLabels(votes=np.array([[most, 0], [0, most]]), noise_scale=20).release()
    assert release.value.tolist() == [0, 1]


def test_enormous_votes_stay_within_one_of_their_neighbours() -> None:
    near = np.array([[2**40 - 1, 2**40, 2**40 + 1, 2**62]])
    assert np.diff(checked_votes(near)).tolist() == [[1, 0, 0]]
    assert checked_votes(near[:, :2].astype(np.float64)).tolist() == [[2**40 - 1, 2**40]]
    assert checked_votes(np.array([[127, 3]], np.int8)).tolist() == [[127, 3]]


@pytest.mark.parametrize(
    ("chance", "shown"), [(0.9959, "0.9959"), (0.98, "0.98"), (1.0, "0.9999"), (0.99999, "0.9999"), (0.0, "0")]
)
def test_no_chance_is_shown_as_certain(chance: float, shown: str) -> None:
    proposal = ClearVotes(budget="0.02", delta="1e-5")
    price = VotePrice(queries=9, noise_scale=40, delta="1e-5", plain=2.0, proposal=proposal, chance=chance)
    assert f"with probability {shown} or more if" in str(price)


@pytest.mark.parametrize("votes", [[[1, 2], [3]], [[[1], [2, 3]], [[4], [5]]]])
def test_rows_of_votes_have_one_length(votes: list) -> None:
    with pytest.raises(RangeError, match="different lengths"):
        NoisyLabels(votes=votes, noise_scale=20)


def test_a_session_pays_for_labels() -> None:
    table = sl.Table({"row": [0.0]}, schema=[sl.Number("row")])
    session = SeededSession(table, budget=sl.GDP(1), seed=3)
    session.release(NoisyLabels(votes=votes(0.9, queries=100), noise_scale=20))
    assert session.remaining.mu is None or float(session.remaining.mu) < 0.75


@pytest.mark.parametrize("factor", [1.0, 1.3])
def test_the_noise_has_its_scale(factor: float) -> None:
    """4,000 votes with a gap of one deviation of the difference; noise 30 % off is found out."""
    trials, sigma = 4000, 10.0
    gap = round(math.sqrt(2) * sigma)
    close = np.tile([gap, 0], (trials, 1))
    labels = (
        NoisyLabels(votes=close, noise_scale=Fraction(sigma * factor)).release(entropy=SeededEntropy("scale")).value
    )
    expected = norm.sf(gap / (math.sqrt(2) * sigma))
    deviation = abs(labels.mean() - expected) / math.sqrt(expected * (1 - expected) / trials)
    assert (deviation < 5.5) == (factor == 1.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"budget": 0, "delta": "1e-5"}, "budget"),
        ({"budget": 1, "delta": 0}, "delta"),
        ({"budget": 1, "delta": "1e-5", "order": 1}, "above 1"),
        ({"budget": 1, "delta": "1e-5", "test_scale": 0}, "test_scale"),
    ],
)
def test_bad_proposals_are_refused(wrong: dict, message: str) -> None:
    with pytest.raises(RangeError, match=message):
        ClearVotes(**wrong)


def test_a_proposal_that_covers_everything_is_sent_back() -> None:
    proposal = ClearVotes(budget=10, order=25, delta="1e-5")
    with pytest.raises(RangeError, match="leave the proposal out"):
        NoisyLabels(votes=votes(0.9), noise_scale=40, proposal=proposal).release()


def test_a_person_with_several_rows_may_have_taught_several_teachers() -> None:
    persons = sl.Schema([sl.PersonId("who", max_rows=3), sl.Number("row")])
    one = NoisyLabels(votes=votes(0.9), noise_scale=40).prepare(sl.Schema([sl.Number("row")])).claims.gdp()
    for most in (1, 3):
        capped = sl.Schema([sl.PersonId("who", max_rows=most), sl.Number("row")])
        with pytest.raises(RangeError, match="write teachers_per_unit="):  # max_rows caps the table, and no vote
            NoisyLabels(votes=votes(0.9), noise_scale=40).prepare(capped)
    group = NoisyLabels(votes=votes(0.9), noise_scale=40, teachers_per_unit=3).prepare(persons).claims
    declared = NoisyLabels(votes=votes(0.9), noise_scale=40, teachers_per_unit=1).prepare(persons).claims
    assert group.gdp().mu == 3 * one.mu
    assert declared.gdp().mu == one.mu
    assert group.unit == declared.unit == persons.unit
    with pytest.raises(RangeError, match="teachers_per_unit"):
        NoisyLabels(votes=votes(0.9), noise_scale=40, teachers_per_unit=0)
