"""The terms of reporting: what must be declared, and what the noise is."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidelight as sl
from sidelight.errors import ClaimError, RangeError
from sidelight.experts import (
    FilterLearner,
    Reporting,
    RWAdaBatch,
    RWMeta,
    ftpl_bound,
    meta_bound,
    move_sensitivity,
    presence_sensitivity,
)
from sidelight.guarantees import Event, Neighbours

GOOD = {"actions": 24, "mu": 1, "sensitivity": "0.1", "neighbours": "presence", "rounds": 10}


def test_sensitivity_and_neighbours_must_be_declared():
    for name in ("sensitivity", "neighbours"):
        with pytest.raises(RangeError, match=f"{name} is not declared"):
            Reporting(**{**GOOD, name: None})


@pytest.mark.parametrize(
    "wrong",
    [
        {"actions": 0},
        {"rounds": 0},
        {"rounds": True},
        {"mu": 0},
        {"mu": -1},
        {"mu": math.inf},
        {"sensitivity": 0},
        {"sensitivity": math.nan},
        {"neighbours": "mvoe"},
        {"kind": "matrix"},
        {"gain_range": 0},
        {"fill": 2},
        {"max_rounds_per_person": 0},
        {"sensitivity": "1e-12"},
        {"neighbours": "replace", "sensitivity": 1},
    ],
)
def test_wrong_terms_are_refused(wrong):
    with pytest.raises(RangeError):
        Reporting(**{**GOOD, **wrong})


@pytest.mark.parametrize("gain_range", [1e155, "1e155", 1e308, 10**400])
def test_a_range_of_gains_that_no_player_can_square_is_refused(gain_range):
    """Before a client charges a report of it, and by every player and bound."""
    with pytest.raises(RangeError, match=r"gain_range must be at most 1\.7e308|gain_range must be at most 1e\+150"):
        Reporting(actions=4, mu=1, sensitivity=1e155, neighbours="presence", rounds=10, gain_range=gain_range)
    if isinstance(gain_range, str):
        return
    for use in (
        lambda: RWMeta(actions=4, noise_scale=1.0, gain_range=gain_range),
        lambda: RWAdaBatch(actions=4, noise_scale=1.0, gain_range=gain_range),
        lambda: FilterLearner(actions=4, gain_range=gain_range),
        lambda: ftpl_bound(actions=4, rounds=10, noise_scale=1.0, gain_range=gain_range),
        lambda: meta_bound(learners=4, rounds=10, largest_eigenvalue=0.0, gain_range=gain_range),
    ):
        with pytest.raises(RangeError, match=r"gain_range must be at most 1e\+150.*state gains in a larger unit"):
            use()


def test_hospital_sensitivities():
    assert presence_sensitivity(8) == Fraction(1, 8)
    assert 0 <= move_sensitivity(8) ** 2 - Fraction(2, 64) < Fraction(1, 10**30)  # rounded up


@given(st.integers(1, 3000), st.floats(0.01, 20), st.floats(1e-4, 50))
def test_the_guarantee_is_that_of_the_noise_that_is_used(actions, mu, sensitivity):
    terms = Reporting(actions=actions, mu=mu, sensitivity=sensitivity, neighbours="move", rounds=3)
    # rounding to the grid enlarges the sensitivity (Theorem 1), and the noise covers it
    root = Fraction(math.isqrt(actions * 10**40) + 1, 10**20)
    least = terms.exact_sensitivity + Fraction(math.isqrt(actions * 10**40), 10**20) * terms.grid
    assert terms.grid * root <= terms.exact_sensitivity / 2**20 * (1 + Fraction(1, 10**15))
    assert terms.grid_sensitivity >= least
    assert terms.grid_sensitivity <= terms.noise_scale * terms.exact_mu
    assert terms.noise_scale * terms.exact_mu <= terms.exact_sensitivity * Fraction(1001, 1000) + Fraction(1, 10**6)
    (claim,) = terms.claims
    assert claim == sl.GDP(mu, neighbours=Neighbours.LOCAL_MOVE, unit=Event())


@given(st.integers(1, 50), st.sampled_from(["1", "1/3", "0.25"]), st.integers(1, 10**6))
def test_terms_come_back_from_json(actions, mu, rounds):
    terms = Reporting(
        actions=actions, mu=mu, sensitivity="0.3", neighbours="presence", rounds=rounds, kind="coordinate"
    )
    again = Reporting.from_json(terms.to_json())
    assert again.to_json() == terms.to_json()
    assert (again.noise_scale, again.grid_bits, again.budget) == (terms.noise_scale, terms.grid_bits, terms.budget)
    assert terms.budget.mu**2 >= rounds * terms.exact_mu**2


def test_a_figure_for_a_person_needs_the_number_of_rounds():
    with pytest.raises(ClaimError, match="max_rounds_per_person"):
        _ = Reporting(**GOOD).person_claims
    four = Reporting(**GOOD, max_rounds_per_person=4).person_claims
    assert 2 <= four.gdp().mu < 2 + Fraction(1, 10**30)


def test_any_two_inputs_need_the_whole_range():
    whole = Reporting(**{**GOOD, "neighbours": "replace", "sensitivity": 5})
    assert whole.relation is Neighbours.LOCAL
    one = Reporting(**{**GOOD, "neighbours": "replace", "sensitivity": 1, "kind": "coordinate"})
    assert one.coordinates == 1
