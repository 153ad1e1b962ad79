"""The three primitives: reference noise scales, laws, claims known before any row, grids, and nothing that raises."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mapped_moments import mapped_moments
from sidelight.aggregates.mapped_vector import RowMap, as_table, mapped_aggregate
from sidelight.errors import RangeError, StrictError
from sidelight.guarantees.claims import Neighbours
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.idealized_noise import gridded_sum
from sidelight.mechanisms.noisy_moments import count_noise, matrix_noise, vector_noise
from sidelight.noise import Source
from sidelight.testing import SeededEntropy

ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE
N, D = 1000, 10


def moments(neighbours, rows=None, **options):
    data = np.zeros((1, D)) if rows is None else rows
    return mapped_moments(data, radius=1, neighbours=neighbours, **options)


def count(data, **price):
    return count_noise(data, Budget.of(**price))


def vector(data, law=None, **price):
    return vector_noise(data, Budget.of(**price), law)


def matrix(data, law=None, **price):
    return matrix_noise(data, Budget.of(**price), law)


def test_reference_noise_scales_of_a_swap() -> None:
    """n = 1000, d = 10, swap, on the matrix of one row."""
    public = moments(SWAP)
    full = matrix(public, epsilon=1).deviation / N
    assert full == pytest.approx(0.0066332, abs=1e-7)  # c = 500
    assert D * (D + 1) / 2 * full**2 == pytest.approx(0.00242, abs=1e-8)  # E‖Z‖_F²
    half = matrix(public, epsilon="0.5").deviation / N  # c = 250
    assert half == pytest.approx(0.0132665, abs=1e-7)
    assert half / 2**0.5 == pytest.approx(0.0093808, abs=1e-7)
    laplace = matrix(public, epsilon="0.5", law="laplace").deviation / 2**0.5 / N
    assert laplace == pytest.approx(2 * 65**0.5 / 1000, rel=1e-6)
    assert laplace == pytest.approx(0.0161245, abs=1e-7)
    assert laplace < 0.0282843  # the paper's
    goe = matrix(public, rho="0.5").deviation / N
    assert goe == pytest.approx(0.00141421, abs=1e-8)
    assert matrix(public, rho="0.25").deviation / N == pytest.approx(0.002, abs=1e-8)


def test_noise_scales_of_adding_and_removing() -> None:
    public = moments(ADD)
    assert matrix(public, rho="0.5").deviation == pytest.approx(1)
    assert matrix(public, epsilon=1).deviation == pytest.approx(11**0.5)
    assert matrix(public, epsilon=1, law="laplace").deviation == pytest.approx(2**0.5 * 5.5)
    assert vector(public, rho="0.5").deviation == pytest.approx(1)
    assert vector(public, epsilon=1).deviation == pytest.approx(11**0.5)
    assert vector(public, epsilon=1, law="laplace").deviation == pytest.approx(20**0.5, rel=1e-4)
    assert count(public, rho="0.5").deviation == pytest.approx(1)
    assert count(public, epsilon=1).deviation == pytest.approx(2**0.5)


def test_one_column_is_exact_laplace_noise_of_the_smaller_scale() -> None:
    public = moments(SWAP, np.zeros((1, 1)))
    assert matrix(public, epsilon=1).deviation == pytest.approx(2**0.5)  # Laplace of scale 1/ε, swap or not
    source = Source(SeededEntropy("one"), declared="exact")
    for noise in (matrix(public, epsilon=1), vector(public, epsilon=1)):
        assert (noise.law, noise.numerics) == ("laplace", "exact")
        noise.release(source)


def test_claims_are_known_before_any_row_and_say_what_is_exact() -> None:
    aggregate = mapped_aggregate(
        as_table(np.zeros((0, 3))), None, row_map=RowMap.of(3, centre=None, matrix=None, radius=2), neighbours=SWAP
    )
    public = aggregate.finish(aggregate.empty())
    for claims in (
        count(public, rho="0.5").claims,
        vector(public, rho="0.5").claims,
        matrix(public, rho="0.5").claims,
    ):
        assert claims.zcdp().rho <= Fraction(1, 2)
        assert (claims.neighbours, claims.numerics) == (SWAP, "exact")
    for law, numerics in (("wishart", "idealized"), ("laplace", "exact")):
        claims = matrix(public, epsilon="0.3", law=law).claims
        assert (claims.pure().epsilon, claims.numerics) == (Fraction("0.3"), numerics)
        assert matrix(public, epsilon="0.3", law=law).numerics == numerics
    assert vector(public, epsilon="0.3").claims.numerics == "idealized"
    assert vector(public, epsilon="0.3", law="laplace").claims.numerics == "exact"
    assert count(public, epsilon="0.3").claims.numerics == "exact"


def test_strict_sources_refuse_idealized_noise_and_take_the_discrete_one() -> None:
    data = moments(ADD, np.ones((5, 2)))
    for noise in (matrix, vector):
        with pytest.raises(StrictError):
            noise(data, epsilon=1).release(Source(SeededEntropy(0), declared="exact"))
        noise(data, epsilon=1, law="laplace").release(Source(SeededEntropy(0), declared="exact"))
        noise(data, rho=1).release(Source(SeededEntropy(0), declared="exact"))


def draws(release, count):
    return np.array([release() for _ in range(count)])


def passes(sample, law, scale):
    return stats.kstest(sample / scale, law).pvalue


def test_laws_in_the_users_units_and_laws_thirty_percent_off() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 3))
    data = mapped_moments(rows, radius=2)
    unit = float(data.scale)
    source = Source(SeededEntropy("laws"))
    total, second = data.total.value * unit, data.second.value * unit**2
    off = np.triu_indices(3, 1)
    spherical = draws(lambda: vector(data, epsilon="0.5").release(source) - total, 1800)
    samples = {
        # a coordinate of direction × Gamma(3) is Laplace in three dimensions, with the density (1 + |t|)e^-|t|/4
        "spherical": (spherical.ravel() / 4, lambda t: np.where(t < 0, 1, 0) + np.sign(t) * (1 - _tail(t)), 1.0),
        "vector": (
            draws(lambda: vector(data, rho="0.5").release(source) - total, 1600).ravel(),
            "norm",
            2.0,
        ),
        "goe": (
            draws(lambda: (matrix(data, rho="0.5").release(source) - second)[off], 1600).ravel(),
            "norm",
            4 / 2**0.5,
        ),
        "laplace": (
            draws(
                lambda: np.diag(matrix(data, epsilon=2, law="laplace").release(source) - second),
                1200,
            ).ravel(),
            "laplace",
            4 * 2 / 2,
        ),
    }
    for name, (sample, law, scale) in samples.items():
        assert passes(sample, law, scale) > 1e-8, name
        assert passes(sample, law, 1.3 * scale) < 1e-8, name
        assert passes(sample, law, scale / 1.3) < 1e-8, name
    lengths = np.linalg.norm(spherical, axis=1) / 4
    assert stats.kstest(lengths, stats.gamma(3).cdf).pvalue > 1e-8
    assert stats.kstest(lengths / 1.3, stats.gamma(3).cdf).pvalue < 1e-8


def _tail(t):
    return np.exp(-np.abs(t)) * (2 + np.abs(t)) / 4


def test_results_are_symmetric_and_near_the_truth() -> None:
    rows = np.random.default_rng(1).normal(size=(20_000, 4)) / 4
    data = mapped_moments(rows, radius=1)
    clipped = rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    source = Source(SeededEntropy("near"))
    for price in ({"rho": 1}, {"epsilon": 1}, {"epsilon": 1, "law": "laplace"}):
        released = matrix(data, **price).release(source)
        assert np.array_equal(released, released.T)
        assert np.abs(released - clipped.T @ clipped).max() < 8 * matrix(data, **price).deviation + 5
        total = vector(data, **price).release(source)
        assert np.abs(total - clipped.sum(axis=0)).max() < 8 * vector(data, **price).deviation + 5
    assert abs(count(data, rho=1).release(source) - 20_000) < 8
    assert abs(count(data, epsilon=1).release(source) - 20_000) < 25


def test_no_noise_serves_two_releases() -> None:
    """The trap: the same noise in two releases would cancel in their difference."""
    data, source = moments(ADD, np.ones((5, 3))), Source(SeededEntropy("twice"))
    for price in ({"rho": 1}, {"epsilon": 1}, {"epsilon": 1, "law": "laplace"}):
        for noise in (matrix(data, **price), vector(data, **price)):
            first, second = (noise.release(source) for _ in range(2))
            assert (np.abs(first - second) > 0).all()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.floats(), min_size=2, max_size=2), max_size=5), st.sampled_from(["rho", "epsilon"]))
def test_no_rows_and_odd_rows_never_raise(rows, kind) -> None:
    """The trap: nothing about NaN, infinities, constant columns or zero rows raises or warns."""
    data = moments(ADD, np.array(rows, float).reshape(-1, 2))
    source = Source(SeededEntropy("odd"))
    with np.errstate(all="raise"):
        for noise in (matrix, vector, count):
            assert np.isfinite(noise(data, **{kind: 1}).release(source)).all()


@pytest.mark.parametrize(
    "price",
    [{}, {"rho": 1, "epsilon": 1}, {"rho": 0}, {"epsilon": -1}, {"rho": math.nan}, {"epsilon": math.inf}],
)
def test_bad_prices_are_refused(price) -> None:
    for noise in (matrix, vector, count):
        with pytest.raises(RangeError):
            noise(moments(ADD), **price)


def test_noise_that_does_not_fit_the_price_is_refused() -> None:
    data = moments(ADD)
    for arguments in ({"rho": 1, "law": "wishart"}, {"epsilon": 1, "law": "goe"}, {"epsilon": 1, "law": "x"}):
        with pytest.raises(RangeError, match="noise must be"):
            matrix(data, **arguments)
    with pytest.raises(RangeError, match="noise must be"):
        vector(data, rho=1, law="spherical")


@pytest.mark.parametrize("deviation", [2.0**-20, 0.37, 3.0, 2.0**13, 2.0**40, 2.0**80])
def test_grid_points_are_exact_roundings_however_large_the_integers_are(deviation) -> None:
    values = np.array([0, 1, -1, 2**60 + 12345, -(2**62), 987654321], np.int64)
    noise = np.array([0.3, -1.7, 0.01, 2.2, -0.9, 12.5]) * deviation
    step = Fraction(2) ** (math.frexp(deviation)[1] - 11)
    for value, shift, found in zip(
        values, noise, gridded_sum(values, noise, smallest_deviation=deviation), strict=True
    ):
        exact = (Fraction(int(value)) + Fraction(float(shift))) / step
        nearest = math.floor(exact + Fraction(1, 2))
        allowed = {nearest} if abs(exact - nearest) < Fraction(499, 1000) else {nearest - 1, nearest, nearest + 1}
        assert any(float(found) == float(step * point) for point in allowed)
