"""Labels through the release pipeline: prices, refusals, the law of the noise."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import norm

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.guarantees.conversions import renyi_epsilon
from sidelight.release import Refused, Release
from sidelight.stability.pate import ClearVotes, NoisyLabels, VotePrice, cheapest_proposal, plain_epsilon
from sidelight.stability.pate.proposals import pass_chance
from sidelight.stability.pate.votes import checked_votes, read_votes
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


@pytest.mark.parametrize("plain", [0.00146, 2.92231, 9.999, 123.4])
def test_a_price_is_never_shown_below_what_it_is(plain: float) -> None:
    price = VotePrice(queries=9, noise_scale=40, delta="1e-5", plain=plain, proposal=None)
    shown = float(str(price).split("epsilon ")[1].split(",")[0])
    assert plain <= shown <= 1.01 * plain


def test_rows_of_votes_have_one_length() -> None:
    with pytest.raises(RangeError, match="different lengths"):
        NoisyLabels(votes=[[1, 2], [3]], noise_scale=20)
    for public in ([[1, 2], [3]], [[[1], [2, 3]], [[4], [5]]]):
        with pytest.raises(RangeError, match="different lengths"):
            checked_votes(public)


#: What may stand in place of a vote, and as how many it is read.
ODD_VOTES = [
    *(
        (190.5, 190),
        (-3, 0),
        (-0.5, 0),
        (math.nan, 0),
        (math.inf, 2**40),
        (-math.inf, 0),
        (2.0**63, 2**40),
        (1e300, 2**40),
    ),
    *(
        (None, 0),
        ("secret", 0),
        ("7", 7),
        ([7, 8], 0),
        ({}, 0),
        (10**400, 2**40),
        (-(10**400), 0),
        (1j, 0),
        (object(), 0),
    ),
]


@pytest.mark.parametrize(
    ("odd", "read"), ODD_VOTES, ids=[f"{type(odd).__name__}-{i}" for i, (odd, _) in enumerate(ODD_VOTES)]
)
def test_no_vote_decides_whether_labels_are_released(odd: Any, read: int) -> None:
    """One private entry raises nothing and changes no other, in a list and in an array of floats."""
    forms: list[Any] = [[[190, 7], [4, odd]], [(190, 7), (4, odd)]]
    if isinstance(odd, float):
        forms.append(np.array([[190, 7], [4, odd]]))
    for each in forms:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            query = NoisyLabels(votes=each, noise_scale=20)
            assert query.votes.tolist() == [[190, 7], [4, read]]  # type: ignore[union-attr]
            assert isinstance(query.release(), Release)


def test_whole_votes_are_read_alike_in_every_type() -> None:
    whole = [[190, 7, 3], [4, 2, 127]]
    for kind in ("i1", ">i2", "u8", "f2", ">f4", "f8", "longdouble"):
        kept = np.minimum(whole, 127) if kind == "i1" else np.array(whole)
        assert read_votes(kept.astype(kind)).tolist() == kept.tolist()
    assert read_votes(whole).tolist() == checked_votes(whole).tolist() == whole
    masked = np.ma.masked_array([[190.0, np.nan], [4, 2]], mask=[[False, True], [False, False]])
    assert read_votes(masked).tolist() == [[190, 0], [4, 2]]


@given(st.floats(-5, 300) | st.floats(2.0**40 - 3, 2.0**40 + 3), st.sampled_from([0, 1, 0.25, 1 - 2**-10]))
def test_votes_that_move_by_one_are_read_at_most_one_apart(vote: float, step: float) -> None:
    moved = vote + step
    assume(moved - vote <= 1)
    for kind in (np.float64, np.longdouble):
        first, second = read_votes(np.array([[vote, moved]], kind))[0].tolist()
        assert 0 <= second - first <= 1
    fine = np.array([[np.longdouble(2) - np.longdouble(2) ** -60, np.longdouble(3) - np.longdouble(2) ** -60]])
    assert np.diff(read_votes(fine)).tolist() == [[1]]


def test_votes_are_refused_for_shape_and_type_alone() -> None:
    for wrong, message in (
        (np.array([["1", "2"]]), "type <U1"),
        (np.array([[1, 2]], object), "type object"),
        (np.array([[True, False]]), "type bool"),
        (np.array([[1j, 2]]), "type complex128"),
        (np.array([3, 4]), "one row per query"),
        ([[3], [4]], "two classes or more"),
        ([3, 4], "not of rows"),
        ([], "not of rows"),
        (pd.DataFrame({"a": [1], "b": [2]}), "got DataFrame"),
    ):
        with pytest.raises(RangeError, match=message):
            NoisyLabels(votes=wrong, noise_scale=20)


def test_public_votes_are_still_checked_strictly() -> None:
    proposal = ClearVotes(budget="0.02", order=25, delta="1e-5")
    for wrong, message in (([[190.5, 3]], "some are not"), ([[190, -3]], "none may be negative")):
        with pytest.raises(RangeError, match=message):
            pass_chance(proposal, noise_scale=40, votes=wrong)


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
