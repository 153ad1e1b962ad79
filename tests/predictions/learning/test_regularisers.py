"""The regularisers: reference numbers, and minimisers that no other point beats."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.predictions.learning.entropic import Entropic, water_fill
from sidelight.predictions.learning.euclidean import Ball, Box, Euclidean
from sidelight.predictions.learning.schatten import Schatten


def test_water_filling_reference():
    rows = Entropic(rows=1, bins=5, floor=0.04).minimiser(np.array([0.3, -1, 2, 5, 0]), step_size=1.0)
    wanted = [0.1528453624086122, 0.5608349789469765, 0.04, 0.04, 0.2063196586444114]
    assert np.allclose(rows, [wanted], rtol=0, atol=1e-15)


@given(sums=st.lists(st.floats(-1e4, 1e4), min_size=6, max_size=6), step=st.floats(1e-6, 10), floor=st.floats(0, 1 / 3))
@settings(max_examples=200, deadline=None)
def test_rows_are_probabilities_above_the_floor_and_solve_the_problem(sums, step, floor):
    rows, bins = 2, 3
    g = np.array(sums).reshape(rows, bins)
    masses = Entropic(rows=rows, bins=bins, floor=floor).minimiser(np.array(sums), step_size=step)
    assert np.allclose(masses.sum(axis=1), 1, atol=1e-12)
    assert (masses >= floor * (1 - 1e-9)).all()
    # KKT: m (1 + log W) + step g is constant where W is above the floor, and not smaller where it is on it
    slope = rows * np.log(np.maximum(masses, 1e-300)) + step * g
    for row in range(rows):
        free = masses[row] > max(floor * (1 + 1e-6), 1e-250)
        if free.any():
            level = slope[row][free].max()
            assert slope[row][free].min() == pytest.approx(level, abs=1e-6 * max(1, abs(level)))
            on_floor = ~free & (floor > 0)
            assert (slope[row][on_floor] >= level - 1e-6 * max(1, abs(level))).all()


def test_a_floor_of_one_over_d_is_uniform():
    for bins in (2, 3, 7, 49):
        masses = water_fill(np.random.default_rng(bins).random((4, bins)), 1 / bins)
        assert np.allclose(masses, 1 / bins)


def test_far_apart_sums_do_not_underflow_to_nothing():
    masses = Entropic(rows=1, bins=3, floor=0.01).minimiser(np.array([0.0, 1e9, 2e9]), step_size=1.0)
    assert masses.tolist() == [[0.98, 0.01, 0.01]]


def test_schatten_reference():
    g = np.array([[2, 1, 0], [1, -1, 0.5], [0, 0.5, 0.25]])
    regulariser = Schatten(rows=3, curvature=3 * math.log(3))
    w = regulariser.minimiser(regulariser.to_vector(g), step_size=0.7)
    wanted = [
        [-0.418948543581, -0.206165293348, -0.002844067589],
        [-0.206165293348, 0.198125302668, -0.098105528393],
        [-0.002844067589, -0.098105528393, -0.041450383137],
    ]
    assert np.allclose(w, wanted, atol=1e-12)
    assert np.allclose(np.linalg.eigvalsh(w), [-0.4837504333, -0.0656461254, 0.2871229347], atol=1e-10)


@pytest.mark.parametrize("columns", [None, 5])
def test_the_schatten_minimiser_is_not_beaten_nearby(columns):
    generator = np.random.default_rng(8)
    regulariser = Schatten(rows=4, columns=columns)
    p = 1 + 1 / math.log(4)
    g = generator.normal(size=regulariser.shape)
    g = g + g.T if columns is None else g

    def objective(w):
        return regulariser.kappa / 2 * float((np.linalg.svd(w)[1] ** p).sum()) ** (2 / p) + 0.3 * float((g * w).sum())

    best = regulariser.minimiser(regulariser.to_vector(g), step_size=0.3)
    for size in (1e-3, 1e-2, 0.3):
        for _ in range(50):
            move = generator.normal(size=regulariser.shape)
            move = move + move.T if columns is None else move
            assert objective(best + size * move) >= objective(best) - 1e-12


def test_symmetric_matrices_travel_without_changing_their_length():
    regulariser = Schatten(rows=5)
    matrix = np.random.default_rng(1).normal(size=(5, 5))
    matrix = matrix + matrix.T
    vector = regulariser.to_vector(matrix)
    assert vector.shape == (15,)
    assert np.linalg.norm(vector) == pytest.approx(np.linalg.norm(matrix))
    assert np.allclose(regulariser.to_matrix(vector), matrix)
    assert np.allclose(regulariser.minimiser(np.zeros(15), step_size=1.0), 0)


def test_the_default_curvature_is_strongly_convex_and_the_published_one_is_not():
    """kappa (p-1) d^(-2(p-1)/p) is the strong-convexity constant in trace norm: at least 1, and .74 at d = 10."""
    for d, published in ((10, 0.74), (1000, 0.52)):
        log_d = math.log(d)
        constant = 1 / log_d * math.exp(-2 * log_d / (1 + log_d))
        assert Schatten(rows=d).kappa * constant == pytest.approx(1)
        assert 3 * log_d * constant == pytest.approx(published, abs=0.005)
    assert Schatten(rows=10).kappa == pytest.approx(9.29, abs=0.01)
    assert Schatten(rows=10).kappa <= math.e**2 * math.log(10)


@given(theta=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3))
def test_projections(theta):
    point = np.array(theta)
    for domain in (Box(-1.0, [1.0, 2.0, 3.0]), Ball([0.5, 0, 0], 2.0)):
        inside = domain.project(point)
        assert np.allclose(domain.project(inside), inside, atol=1e-12)
        other = domain.project(np.array([0.3, -0.7, 0.2]))
        assert (point - inside) @ (other - inside) <= 1e-6 * (
            1 + np.linalg.norm(point)
        )  # nearest point of a convex set


def test_euclidean_steps_from_the_start():
    learner = Euclidean(start=np.zeros((2, 2)), domain=Ball(0.0, 1.0))
    assert np.allclose(learner.minimiser(np.array([3.0, 0, 0, 4.0]), step_size=1.0), [[-0.6, 0], [0, -0.8]])
    assert learner.radius_squared == pytest.approx(0.5)
    assert Euclidean(start=np.zeros(4), domain=Box(-2, 2)).radius_squared == pytest.approx(8)
    with pytest.raises(RangeError, match="inside"):
        Euclidean(start=[5.0], domain=Box(-1, 1))


def test_widths_bound_the_noise():
    """E ||z||_* by simulation stays below each regulariser's constant."""
    generator = np.random.default_rng(3)
    cases = [
        (Euclidean(start=np.zeros(30), domain=Box(-1, 1)), np.linalg.norm),
        (Entropic(rows=3, bins=10, floor=0.01), lambda z: np.abs(z).max()),
        (Schatten(rows=12), lambda z: np.abs(np.linalg.eigvalsh(Schatten(rows=12).to_matrix(z))).max()),
        (Schatten(rows=6, columns=9), lambda z: np.linalg.norm(z.reshape(6, 9), 2)),
    ]
    for regulariser, dual in cases:
        mean = np.mean([dual(generator.standard_normal(regulariser.size)) for _ in range(400)])
        assert 0.5 * regulariser.gaussian_width < mean < regulariser.gaussian_width * 1.01


@pytest.mark.parametrize(
    "make",
    [
        lambda: Entropic(rows=0, bins=3, floor=0.1),
        lambda: Entropic(rows=1, bins=3, floor=0.5),
        lambda: Schatten(rows=2),
        lambda: Schatten(rows=5, trace_norm=-1.0),
    ],
)
def test_refusals(make):
    with pytest.raises(RangeError):
        make()
