"""What the specification promises about released quantiles, tested from outside.

Written from the statements of the specification alone: outputs inside the declared bounds and on the grid, sorted,
independent of the order of rows, a prior draw on no data, never an error that the values decide.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sidelight as sl
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.testing import SeededEntropy, seeded_release

anything = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-(10**30), 10**30),
    st.sampled_from([None, "", "x", "7", True, float("nan"), 10**400, b"3", (1, 2)]),
)
levels = st.lists(st.integers(1, 99), min_size=1, max_size=6, unique=True).map(
    lambda hundredths: [Fraction(h, 100) for h in sorted(hundredths)]
)
settled = settings(max_examples=40, deadline=None)


@settled
@given(
    data=st.lists(anything, max_size=12),
    levels=levels,
    bounds=st.tuples(st.integers(-50, 50), st.integers(1, 100)),
    step=st.sampled_from(["1", "0.1", "0.25", "3", "1/7"]),
    seed=st.integers(0, 10**6),
)
def test_values_are_sorted_inside_the_bounds_and_on_the_grid(data, levels, bounds, step, seed):
    lower, upper = bounds[0], bounds[0] + bounds[1] + 3
    query = sl.Quantiles(levels, epsilon=1, bounds=(lower, upper), granularity=Fraction(step))
    data = [*data, 1.5]  # a list of nothing but texts is refused where numbers are declared
    value = seeded_release(query, data, seed=seed).value
    assert value.shape == (len(levels),)
    assert np.isfinite(value).all()
    assert (np.diff(value) >= 0).all()
    assert value.min() >= lower
    assert value.max() <= upper
    for each in value.tolist():
        multiple = each / float(Fraction(step))
        assert multiple == pytest.approx(round(multiple), abs=1e-6)


@settled
@given(data=st.lists(anything, max_size=12), seed=st.integers(0, 10**6))
def test_without_bounds_nothing_raises_and_values_are_finite(data, seed):
    data = [*data, 1.5]  # a list of nothing but texts is refused where numbers are declared
    value = seeded_release(sl.Quantiles(["0.1", "0.9"], epsilon="0.5"), data, seed=seed).value
    assert np.isfinite(value).all()
    assert value[0] <= value[1]


@settled
@given(data=st.lists(st.floats(-10, 10), min_size=2, max_size=12), seed=st.integers(0, 10**6), order=st.randoms())
def test_the_order_of_rows_changes_no_bit(data, seed, order):
    shuffled = list(data)
    order.shuffle(shuffled)
    for options in ({"bounds": (-10, 10)}, {"granularity": 1}, {"bounds": (0, None)}):
        query = sl.Quantiles(["0.25", "0.5", "0.75"], epsilon=1, **options)
        first, second = (seeded_release(query, rows, seed=seed).value for rows in (data, shuffled))
        assert first.tolist() == second.tolist()


@settled
@given(data=st.lists(st.floats(-20, 20), max_size=10), seed=st.integers(0, 10**6))
def test_values_beyond_the_bounds_count_at_the_bounds(data, seed):
    query = sl.Quantiles(["0.5"], epsilon=2, bounds=(-5, 5))
    clipped = [min(max(value, -5.0), 5.0) for value in data]
    assert seeded_release(query, data, seed=seed).value == seeded_release(query, clipped, seed=seed).value


@settled
@given(data=st.lists(st.floats(-5, 5), max_size=10), seed=st.integers(0, 10**6))
def test_missing_values_are_as_if_they_were_not_there(data, seed):
    query = sl.Quantiles(["0.5"], epsilon=2, bounds=(-5, 5))
    holes = [cell for value in data for cell in (math.nan, value, None)]
    assert seeded_release(query, data, seed=seed).value == seeded_release(query, holes, seed=seed).value


def drawn(query, rows, count):
    table = Table(np.array(rows, dtype=float), schema=[query.declare()])
    prepared = query.prepare(table.schema)
    source = Source(SeededEntropy("black box"))
    return np.array([prepared.run(table, source).value for _ in range(count)])


def within_binomial(hits, draws, probability):
    """Six standard deviations: about 1e-9 for the counts here."""
    return abs(hits - draws * probability) < 6 * math.sqrt(draws * probability * (1 - probability)) + 1


def test_no_data_gives_a_draw_from_the_prior():
    cells = [-0.5, 0.5, 1.5, 2.5, 3.5]
    prior = sl.priors.Histogram(cells, [0.1, 0.2, 0.3, 0.4])
    query = sl.Quantiles(["0.3"], epsilon=5, bounds=(0, 3), granularity=1, prediction=prior)
    values = drawn(query, [], 1500)[:, 0]
    for value, mass in enumerate([0.1, 0.2, 0.3, 0.4]):
        assert within_binomial((values == value).sum(), 1500, mass)
    assert not within_binomial((values == 3).sum(), 1500, 0.3)  # a law 25 % off is noticed


def test_a_large_epsilon_gives_the_quantile_itself():
    rows = np.arange(1000) / 10
    query = sl.Quantiles(["0.25", "0.5", "0.75"], epsilon=1000, bounds=(0, 100))
    assert drawn(query, rows, 5) == pytest.approx(np.tile([25, 50, 75], (5, 1)), abs=0.2)


def test_heavy_ties_are_answered_with_the_tied_value():
    rows = [30.0] * 400 + [31.0] * 200 + [32.0] * 400
    query = sl.Quantiles(["0.2", "0.5", "0.8"], epsilon=8, bounds=(0, 100), granularity=1)
    values = drawn(query, rows, 20)
    assert (values == [30, 31, 32]).mean() > 0.95


def test_the_declared_error_holds():
    rng = np.random.default_rng(5)
    rows = rng.normal(50, 10, 2000)
    query = sl.Quantiles(["0.25", "0.5", "0.75"], epsilon=1, bounds=(0, 100))
    bound = seeded_release(query, rows, seed=0).error_bound(0.95, assuming="spread")
    ranks = np.searchsorted(np.sort(rows), drawn(query, rows, 100))
    misses = (np.abs(ranks - 2000 * np.array([0.25, 0.5, 0.75])) > bound).any(axis=1).mean()
    assert misses <= 0.05 + 6 * math.sqrt(0.05 * 0.95 / 100)


def test_a_good_prediction_helps_and_changes_no_claim():
    rng = np.random.default_rng(6)
    rows = rng.normal(50, 10, 300)
    without = sl.Quantiles(["0.5"], epsilon="0.05", bounds=(-1e6, 1e6), granularity="1/64")
    near = replace(without, prediction=sl.priors.Cauchy(50, 2))
    far = replace(without, prediction=sl.priors.Cauchy(-5000, 2))
    missed = [np.abs(np.searchsorted(np.sort(rows), drawn(query, rows, 60)) - 150).mean() for query in (near, without)]
    assert 2 * missed[0] < missed[1]
    schema = Table(rows, schema=[near.declare()]).schema
    assert near.prepare(schema).claims == far.prepare(schema).claims == without.prepare(schema).claims


def test_the_price_is_the_declared_epsilon_whatever_the_data():
    query = sl.Quantiles(["0.1", "0.5", "0.9"], epsilon="0.7", bounds=(0, 1))
    guarantees = {str(seeded_release(query, rows, seed=1).guarantee) for rows in ([], [0.5], [0.1] * 1000)}
    assert len(guarantees) == 1
    assert seeded_release(query, [], seed=1).guarantee.implies(sl.PureDP("0.7"))
    assert not seeded_release(query, [], seed=1).guarantee.implies(sl.PureDP("0.69"))
