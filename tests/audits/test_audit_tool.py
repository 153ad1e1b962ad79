"""The audit tool on mechanisms whose loss is known: close to the truth from below, and leaks are refuted."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import sidelight as sl
from sidelight.audit import audit, one_by_one
from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import Claims


def randomized_response(rng: np.random.Generator, answer: int, epsilon: float):
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    return lambda count: np.where(rng.random(count) < keep, answer, 1 - answer)


def test_randomized_response_is_bounded_closely_and_never_above_the_truth():
    rng = np.random.default_rng(1)
    found = audit(randomized_response(rng, 0, 1.1), randomized_response(rng, 1, 1.1), draws=200_000)
    assert 1.05 < found.epsilon().value <= 1.1
    assert not found.refutes(sl.PureDP("1.1"))
    assert found.refutes(sl.PureDP("1.0"))


def test_the_bound_exceeds_the_truth_no_more_often_than_stated():
    # 200 audits at failure 0.1: more than 50 has probability below 1e-6 if the level is kept.
    rng = np.random.default_rng(2)
    noise = lambda shift: lambda count: rng.laplace(size=count) + shift  # noqa: E731
    audits = [audit(noise(0), noise(1), draws=400, failure=0.1) for _ in range(200)]
    assert sum(each.epsilon().value > 1 for each in audits) <= 50
    # Without the split the event fits the very draws that bound it: the level is far exceeded.
    peeking = [replace(each, ordering=each.test, choosing=each.test) for each in audits]
    assert sum(each.epsilon().value > 1 for each in peeking) > 150


def test_the_event_is_chosen_without_the_test_half():
    rng = np.random.default_rng(3)
    found = audit(lambda n: rng.normal(size=n), lambda n: rng.normal(size=n) + 1, draws=2000)
    other = replace(found, test=(found.test[1], found.test[0]))
    assert (found.epsilon().event.members == other.epsilon().event.members).all()
    assert found.epsilon().event.favours_first == other.epsilon().event.favours_first


def test_gaussian_noise_gets_its_mu_and_rho():
    rng = np.random.default_rng(4)
    found = audit(lambda n: rng.normal(size=n), lambda n: rng.normal(size=n) + 1, draws=400_000)
    assert 0.95 < found.mu().value <= 1.0
    assert 0.27 < found.rho().value <= 0.5  # one event cannot show all of the Rényi divergence
    assert not found.refutes(sl.GDP(1))
    assert found.refutes(sl.GDP("0.9"))
    assert not found.refutes(sl.ZCDP("0.5"))
    assert found.refutes(sl.ZCDP("0.25"))
    assert found.refutes(sl.PureDP(1))


def test_delta_forgives_exactly_that_much():
    rng = np.random.default_rng(5)

    def leaks_sometimes(secret: str):
        return lambda count: [secret if flag else "nothing" for flag in rng.random(count) < 0.02]

    found = audit(leaks_sometimes("a"), leaks_sometimes("b"), draws=40_000)
    assert found.refutes(sl.PureDP(2))
    assert found.refutes(sl.ApproxDP(1, "0.01"))
    assert not found.refutes(sl.ApproxDP("0.0001", "0.02"))


def test_a_set_that_is_no_threshold_is_found_among_real_outcomes():
    rng = np.random.default_rng(6)

    def parity(bit: int):
        return lambda count: 2 * rng.integers(0, 20, count) + (rng.random(count) < 0.9) * bit

    found = audit(parity(0), parity(1), draws=20_000)
    assert found.refutes(sl.PureDP(2))
    assert "outcome in {" in str(found.epsilon().event)


def test_many_distinct_real_outcomes_are_grouped():
    rng = np.random.default_rng(7)
    found = audit(lambda n: rng.laplace(size=n), lambda n: rng.laplace(size=n) + 2, draws=80_000)
    assert 1.7 < found.epsilon().value <= 2
    assert str(found.epsilon()).startswith("at least 1.")


def test_outcomes_may_be_tuples_and_unseen_ones_are_no_evidence():
    fresh = iter(range(10**6))
    found = audit(lambda n: [("x", next(fresh)) for _ in range(n)], lambda n: [("y", 0)] * n, draws=200)
    assert found.epsilon().favoured_hits == 100  # the only outcome that comes again is ("y", 0)
    assert found.refutes(sl.PureDP(1))
    assert audit(lambda n: [next(fresh) for _ in range(n)], lambda n: [-next(fresh) for _ in range(n)], draws=8).draws


def test_equal_laws_give_nothing():
    rng = np.random.default_rng(8)
    found = audit(lambda n: rng.integers(0, 5, n), lambda n: rng.integers(0, 5, n), draws=20_000)
    assert found.epsilon().value == 0
    assert found.mu().value == 0
    assert found.rho().value == 0
    assert not found.refutes(sl.PureDP("1e-9"))


def test_several_claims_share_the_failure_probability():
    rng = np.random.default_rng(9)
    found = audit(randomized_response(rng, 0, 2), randomized_response(rng, 1, 2), draws=80_000)
    assert not found.refutes(Claims.of(sl.PureDP(2), sl.ZCDP(2)))
    assert found.refutes(Claims.of(sl.PureDP(2), sl.ZCDP("0.01")))


def test_one_by_one_calls_once_a_draw():
    calls = []
    assert one_by_one(lambda: calls.append(1) or len(calls))(3) == [1, 2, 3]


def test_it_refuses_what_it_cannot_do():
    with pytest.raises(RangeError, match="multiple of 4"):
        audit(lambda n: [0] * n, lambda n: [0] * n, draws=6)
    with pytest.raises(RangeError, match="asked for 2 outcomes and returned 0"):
        audit(lambda n: [], lambda n: [0] * n, draws=8)
    with pytest.raises(RangeError, match="one kind of outcome"):
        audit(lambda n: [0] * n if n == 2 else ["x"] * n, lambda n: [0] * n, draws=8)
    with pytest.raises(RangeError, match="failure"):
        audit(lambda n: [0] * n, lambda n: [0] * n, draws=8, failure=0)
    found = audit(lambda n: [0] * n, lambda n: [0] * n, draws=8)
    with pytest.raises(RangeError, match="delta"):
        found.epsilon(1.0)
    with pytest.raises(ClaimError, match="an audit tests"):
        found.refutes(object())
