"""Attacks from the literature, each on a naive implementation that falls to it and on ours, which does not.

Least significant bits: Mironov, "On significance of the least significant bits for differential privacy" (2012).
Order, overflow and precision of sums: Casacuberta et al., "Widespread underestimation of sensitivity in differentially
private libraries" (2022). Reconstruction: Dinur and Nissim (2003). Membership: Shokri et al. (2017).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from broken_mechanisms import SCHEMA, of

import sidelight as sl
from benchmarks import membership
from sidelight.audit import audit, audit_runs
from sidelight.errors import BudgetError
from sidelight.guarantees import Claims
from sidelight.testing import SeededSession, seeded_release

ONE = Claims.of(sl.PureDP(1))

# --- least significant bits -----------------------------------------------------------------------------------------


def naive_laplace(value: float, rng: np.random.Generator, count: int) -> np.ndarray:
    """The textbook: a uniform double, a logarithm, a sum."""
    uniform = rng.integers(1, 2**53, count) / 2**53
    return value + np.where(rng.random(count) < 0.5, 1.0, -1.0) * -np.log(uniform)


def reachable(released: float, value: float) -> bool:
    """Return whether the textbook could have released exactly these bits for this value."""
    noise = released - value
    nearest = round(math.exp(-abs(noise)) * 2**53)
    for number in range(max(1, nearest - 8), min(2**53, nearest + 9)):
        if value + math.copysign(1.0, noise) * -float(np.log(number / 2**53)) == released:
            return True
    return False


@pytest.mark.planted("Laplace noise from a logarithm of doubles: the last bits tell the value")
def test_the_last_bits_of_textbook_laplace_noise_tell_the_value() -> None:
    rng = np.random.default_rng(1)

    def bits(value: float) -> Any:
        return lambda count: [reachable(float(y), 0.0) for y in naive_laplace(value, rng, count)]

    assert audit(bits(0.0), bits(1.0), draws=1200).refutes(sl.PureDP(1))


def test_the_last_bits_of_our_noise_tell_nothing() -> None:
    """Released sums are whole steps of a public grid: the same bits are possible whatever the rows are."""
    query, column = sl.Sum("x", epsilon=1), [sl.Number("x", lower=0, upper=1)]
    seen = []
    for rows in ([], [1.0], [0.1, 0.7]):
        table = sl.Table({"x": np.array(rows, dtype=float)}, schema=column)
        released = [float(seeded_release(query, table, seed=seed).value["sum"][0]) for seed in range(60)]
        seen.append({math.frexp(value)[0] * 2**53 % 2**12 for value in released if value})
    assert all(last == {0.0} for last in seen), "the last 12 of 53 bits are zero: the grid is far coarser than a double"


def finer_than_a_double_of_one(released: Any) -> list[bool]:
    """Return whether numbers have bits below 2**-53, which 1 plus noise in doubles never has."""
    return [float(y) * 2**53 % 1 != 0 for y in released]


@pytest.mark.planted("Gaussian noise in doubles: bits below those of the value tell that it is 0")
def test_the_last_bits_of_textbook_gaussian_noise_tell_the_value() -> None:
    rng = np.random.default_rng(3)

    def bits(value: float) -> Any:
        return lambda count: finer_than_a_double_of_one(value + rng.normal(size=count))

    assert audit(bits(0.0), bits(1.0), draws=20_000).refutes(sl.GDP(1))


def test_the_last_bits_of_our_gaussian_noise_tell_nothing() -> None:
    query, column = sl.Sum("x", mu=1), [sl.Number("x", lower=0, upper=1)]
    for rows in ([], [1.0]):
        table = sl.Table({"x": np.array(rows, dtype=float)}, schema=column)
        released = [seeded_release(query, table, seed=seed).value["sum"][0] for seed in range(60)]
        assert not any(finer_than_a_double_of_one(released))


# --- order, precision and overflow of sums ---------------------------------------------------------------------------


@pytest.mark.planted("a sum of floats, whose order moves it by more than a row")
def test_the_order_of_rows_moves_a_naive_sum_and_not_ours() -> None:
    rows = np.array([1.0] * 1500 + [0.25] * 1000, dtype=np.float16)  # 1500 + 1/4 rounds to 1500, 1000 times
    naive = [float(np.add.accumulate(each, dtype=np.float16)[-1]) for each in (rows, rows[::-1])]
    assert abs(naive[0] - naive[1]) > 200  # and one row was said to move it by 1 at most
    query, column = sl.Sum("x", epsilon=1), [sl.Number("x", lower=0, upper=1)]
    ours = [
        seeded_release(query, sl.Table({"x": each.astype(float)}, schema=column), seed=1).value["sum"][0]
        for each in (rows, rows[::-1], np.random.default_rng(1).permutation(rows))
    ]
    assert ours[0] == ours[1] == ours[2]


@pytest.mark.planted("a sum of small integers, which wraps")
def test_overflow_turns_one_row_into_many_in_a_naive_sum_and_not_in_ours() -> None:
    def wraps(rows: Any) -> float:
        full = np.append(np.round(rows.clamped), np.full(30, 4)).astype(np.int8)
        return float(np.add.reduce(full, dtype=np.int8)) + rows.noise(4)[0]

    assert audit_runs(of(wraps), SCHEMA, claims=ONE, kind="sum", runs=400, tries=16).refuted
    many = sl.Table({"x": np.full(1000, 4, dtype=np.int8)}, schema=[SCHEMA.number("x")])
    assert abs(seeded_release(sl.Sum("x", epsilon=100), many, seed=1).value["sum"][0] - 4000) < 10


# --- reconstruction -------------------------------------------------------------------------------------------------


def rebuilt(answers: dict[int, list[float]], count: int) -> np.ndarray:
    """Guess everybody's bit from noisy counts of the bits up to a place, by differences of their means."""
    means = [0.0, *(float(np.mean(answers.get(place, [np.nan]))) for place in range(1, count + 1))]
    return np.nan_to_num(np.diff(means), nan=0.5) > 0.5


@pytest.mark.planted("counts without a ledger: all bits are reconstructed")
def test_reconstruction_works_without_a_budget_and_the_ledger_refuses_first() -> None:
    rng = np.random.default_rng(5)
    secret = rng.random(32) < 0.5
    sums = np.cumsum(secret)
    # without a budget: epsilon 1 for each count, as often as one likes
    asked = {place: list(sums[place - 1] + rng.laplace(0, 1, 400)) for place in range(1, 33)}
    assert np.mean(rebuilt(asked, 32) == secret) == 1
    # ours: the same questions through a session that was opened with epsilon 1
    schema = [sl.Number("place", lower=0, upper=40, granularity=1), sl.Category("bit", ["no", "yes"], other=None)]
    columns = {"place": np.arange(1.0, 33.0), "bit": np.where(secret, "yes", "no").astype(object)}
    session = SeededSession(sl.Table(columns, schema=schema, name="people"), seed=1, budget=sl.PureDP(1))
    answers: dict[int, list[float]] = {}

    def ask_until_refused() -> None:
        for place in list(range(1, 33)) * 400:
            where = (sl.col("place") <= place) & (sl.col("bit") == "yes")
            outcome = session.release(sl.Count(where=where, epsilon="0.1"))
            answers.setdefault(place, []).append(float(outcome.value["count"][0]))

    with pytest.raises(BudgetError):
        ask_until_refused()
    assert sum(map(len, answers.values())) == 10  # and not one more
    assert np.mean(rebuilt(answers, 32) == secret) < 0.85


# --- membership -----------------------------------------------------------------------------------------------------


@pytest.mark.planted("a model that is the rows")
def test_membership_in_a_model_without_protection_is_seen_by_shadow_models() -> None:
    assert membership.shadowed(membership.unprotected_model, ONE, runs=400).surely > 1


@pytest.mark.planted("synthetic rows that are drawn from the rows")
def test_membership_in_rows_that_are_drawn_from_the_rows_is_seen_by_shadow_models() -> None:
    assert membership.shadowed(membership.unprotected_table, ONE, runs=400).surely > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sl.LogisticRegression", "sl.SyntheticTable"])
def test_membership_in_ours_stays_below_the_claim(name: str, record_property: Any) -> None:
    found = membership.cases(long=True)[name]()
    record_property("audit", f"membership: {name}: {found.runs} shadow models of each kind; {found.refuted:.2f} shown")
    assert found.surely <= found.claimed


def test_few_shadow_models_of_ours() -> None:
    found = membership.shadowed(membership.our_model, membership.claims_of(membership.MODEL), runs=24)
    assert found.surely <= found.claimed
