"""The factorisation: reference numbers, exact running sums without noise, integers that cannot overflow."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import silence

from sidelight.errors import RangeError
from sidelight.mechanisms.prefix_sums import PrefixSums
from sidelight.mechanisms.square_root_factors import (
    SquareRoot,
    integer_type,
    square_root_coefficients,
    square_root_norms,
)
from sidelight.noise import Source
from sidelight.testing import SeededEntropy


def test_coefficients_of_the_square_root():
    assert square_root_coefficients(6).tolist() == [1, 0.5, 0.375, 0.3125, 0.2734375, 0.24609375]
    c = square_root_coefficients(300)
    assert np.allclose(np.convolve(c, c)[:300], 1.0)  # the square of the matrix is the running sum


@pytest.mark.parametrize(
    ("steps", "norm"),
    [
        (1, 1),
        (2, 1.25),
        (3, 1.390625),
        (10, 1.791343941586),
        (100, 2.531352112636),
        (1000, 3.265003080672),
        (2500, 3.556715218759),
        (10_000, 3.998010291062),
        (100_000, 4.730953051832),
    ],
)
def test_column_norms(steps, norm):
    assert square_root_norms(steps)[-1] == pytest.approx(norm, abs=1e-11)
    used = SquareRoot(steps=steps).largest_squared_norm / 2**40
    assert used == pytest.approx(norm, rel=1e-5)


def test_the_square_root_beats_a_tree_and_separate_noise():
    """Variance of the sum in units of sensitivity^2/(2 rho) at T = 1000: 10.7; trees have 53 and more."""
    norm = square_root_norms(1000)[-1]
    variances = SquareRoot(steps=1000).variances()
    assert norm * variances.max() == pytest.approx(10.7, abs=0.05)
    assert norm * variances.mean() == pytest.approx(9.6, abs=0.05)
    assert 10 * max(t.bit_count() for t in range(1, 1001)) == 90  # a plain tree of 10 levels


def matrix_of(encoder):
    """Rows of the encoder in the order in which they are blurred, from unit vectors."""
    columns = []
    for at in range(encoder.steps):
        rows = []
        stream = encoder.start(1, largest_code=1)
        for t in range(encoder.steps):
            stream.add(np.array([int(t == at)]), lambda exact, rows=rows: rows.append(int(exact[0])) or exact)
        columns.append(rows)
    return np.array(columns, dtype=object).T


@pytest.mark.parametrize("encoder", [SquareRoot(steps=1), SquareRoot(steps=13, bits=12)])
def test_the_claimed_column_norm_is_that_of_the_integers_that_run(encoder):
    matrix = matrix_of(encoder)
    assert (matrix**2).sum(axis=0).max() == encoder.largest_squared_norm
    assert abs(matrix).sum(axis=1).max() == encoder.largest_row_sum


def test_coefficients_are_the_nearest_integers_and_never_increase():
    coefficients = SquareRoot(steps=500).coefficients
    exact = Fraction(1)
    for k, used in enumerate(coefficients.tolist()):
        exact *= Fraction(2 * k - 1, 2 * k) if k else 1
        assert abs(used - exact * 2**20) <= Fraction(1, 2) + Fraction(1, 2**60)
    assert (np.diff(coefficients) <= 0).all()


@pytest.mark.parametrize("steps", [1, 2, 3, 64, 100, 700])
def test_without_noise_the_running_sums_are_exact(steps, monkeypatch):
    silence(monkeypatch)
    plan = PrefixSums(steps=steps, size=3, norm_bound=1, rho=1)
    generator = np.random.default_rng(steps)
    vectors = generator.normal(size=(steps, 3)) / 3
    codes = np.array([plan.quantiser.codes(v) for v in vectors])
    run = plan.start()
    with Source(SeededEntropy(0)) as source:
        for t in range(steps):
            estimate = run.add(vectors[t], source=source)
            assert (estimate == codes[: t + 1].sum(axis=0) * 2.0**-20).all()


def test_the_rounded_matrix_squared_is_not_the_running_sum():
    """Why the decoder inverts the integers: the square of the rounded matrix is off by 1e-6 of a gradient and more."""
    c = SquareRoot(steps=2000).coefficients / 2**20
    assert 5e-7 < np.abs(np.convolve(c, c)[:2000] - 1).max() < 1e-4


@given(bits=st.integers(8, 30), steps=st.integers(1, 40), seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_rows_beyond_int64_are_python_integers_with_the_same_sums(bits, steps, seed):
    encoder = SquareRoot(steps=steps, bits=bits)
    generator = np.random.default_rng(seed)
    codes = generator.integers(-(2**40), 2**40, size=(steps, 2))
    streams = [encoder.start(2, largest_code=largest) for largest in (2**20, 2**60)]
    for t in range(steps):
        rows = [[], []]
        for stream, kept in zip(streams, rows, strict=True):
            stream.add(codes[t] >> 20, lambda exact, kept=kept: kept.append(exact.tolist()) or exact)
        by_hand = [
            sum(int(encoder.coefficients[t - s]) * int(codes[s, i] >> 20) for s in range(t + 1)) for i in range(2)
        ]
        assert rows[0] == rows[1] == [by_hand]


def test_the_integer_type_changes_before_int64_could_overflow():
    assert integer_type(2**62 - 1) is np.int64
    assert integer_type(2**62) is object
    assert SquareRoot(steps=20_000, bits=30).start(1, largest_code=2**30)._codes.dtype == object
    assert SquareRoot(steps=20_000).start(1, largest_code=2**20 + 1)._codes.dtype == np.int64


@pytest.mark.parametrize(
    "make",
    [
        lambda: SquareRoot(steps=0),
        lambda: SquareRoot(steps=2**19),
        lambda: SquareRoot(steps=5, bits=40),
    ],
)
def test_refusals(make):
    with pytest.raises(RangeError):
        make()
