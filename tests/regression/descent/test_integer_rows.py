"""The lemma of the integer rows, and that a row's integers depend on that row alone; with mutations that must fail."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sidelight.regression.descent import integer_rows, mapped_rows
from sidelight.regression.descent.geometry import Geometry, NoisyGram, from_gram, without_map
from sidelight.regression.descent.integer_rows import (
    GRAM_SENSITIVITY,
    HALF,
    ROW_LENGTH,
    GeometryMap,
    clipped_errors,
    gradient_sum,
    gram_of,
    root_up,
    row_codes,
    softmax_loss_table,
    whole_norms,
)
from sidelight.regression.descent.mapped_rows import CodedExamples, MappedRows
from sidelight.regression.descent.row_sums import integer_gradient
from sidelight.regression.descent.targets import Targets
from sidelight.regression.rows import Block

RNG = np.random.default_rng(11)
NUMBER = Targets(kind="squared", target_range=(-1, 1))
TWO = Targets(kind="logistic", classes=("a", "b"))
WEIGHTED = Targets(kind="logistic", classes=("a", "b"), class_weights=(1, 5))
THREE = Targets(kind="softmax", classes=("a", "b", "c"))
GOALS = pytest.mark.parametrize("targets", [NUMBER, TWO, WEIGHTED, THREE], ids=["number", "two", "weighted", "three"])


def is_short(z: list[int], errors: np.ndarray, clip: int) -> bool:
    """Decide ‖z·e'‖ <= clip in Python's integers."""
    length = sum(entry**2 for entry in z) * sum(int(entry) ** 2 for entry in errors)
    return length <= clip**2


def shortened(z: list[int], errors: list[int], clip: int) -> np.ndarray:
    norms = whole_norms(np.array([z], np.int32))
    return clipped_errors(np.array([errors], np.float64), norms, clip)[0]


vectors = st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=6)
clips = st.integers(1, 2**32 - 1)


@settings(max_examples=300, deadline=None)
@given(z=vectors, error=st.integers(-(2**17), 2**17), clip=clips)
def test_the_lemma_for_one_output(z: list[int], error: int, clip: int) -> None:
    assert is_short(z, shortened(z, [error], clip), clip)


@settings(max_examples=300, deadline=None)
@given(z=vectors, errors=st.lists(st.integers(-(2**17), 2**17), min_size=2, max_size=5), clip=clips)
def test_the_lemma_for_several_outputs(z: list[int], errors: list[int], clip: int) -> None:
    found = shortened(z, errors, clip)
    assert is_short(z, found, clip)
    assert (np.abs(found) <= np.abs(errors)).all()


def small_cases(count: int = 4000) -> list[tuple[list[int], list[int], int]]:
    rng = np.random.default_rng(2)
    return [
        (rng.integers(-9, 10, 3).tolist(), rng.integers(-9, 10, 3).tolist(), int(rng.integers(1, 60)))
        for _ in range(count)
    ]


def test_the_lemma_holds_where_its_mutations_break() -> None:
    assert all(is_short(z, shortened(z, errors, clip), clip) for z, errors, clip in small_cases())
    assert is_short([1, 1], shortened([1, 1], [50], 7), 7)


def test_a_norm_that_is_rounded_down_breaks_the_lemma(monkeypatch: pytest.MonkeyPatch) -> None:
    def down(squares: np.ndarray) -> np.ndarray:
        return np.floor(np.sqrt(squares)).astype(np.int64)

    monkeypatch.setattr(integer_rows, "root_up", down)
    assert not is_short([1, 1], shortened([1, 1], [50], 7), 7)


def test_a_signed_division_breaks_the_lemma() -> None:
    def signed(z: list[int], errors: list[int], clip: int) -> np.ndarray:
        whole = np.array(errors, np.int64)
        r, length = int(whole_norms(np.array([z], np.int32))[0]), int(root_up(np.array([float(whole @ whole)]))[0])
        return whole * clip // (r * length) if r * length > clip else whole

    assert any(not is_short(z, signed(z, errors, clip), clip) for z, errors, clip in small_cases())


@given(square=st.integers(0, 2**53 - 1))
def test_roots_are_rounded_up(square: int) -> None:
    (root,) = root_up(np.array([float(square)])).tolist()
    assert root**2 >= square
    assert root == 0 or (root - 1) ** 2 < square


def long_rows(n: int, d: int) -> np.ndarray:
    rows = RNG.normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * RNG.choice([1.0, 1.0, 0.3], (n, 1)) * (1 - 1e-15)


@pytest.mark.parametrize("d", [1, 2, 20])
@pytest.mark.parametrize("norm", [1.0, 0.3, 1e20, 1e-20])
def test_codes_are_no_longer_than_they_may_be(d: int, norm: float) -> None:
    codes = row_codes(long_rows(2000, d) * norm, norm)
    assert (np.sum(codes.astype(object) ** 2, axis=1) <= ROW_LENGTH**2).all()
    assert np.abs(codes).max() > ROW_LENGTH * 0.2
    np.testing.assert_array_equal(row_codes(csr_array(long_rows(5, d)), 1.0).shape, (5, d))
    beyond = row_codes(np.full((1, d), 1.1), 1.0)  # no bounded row is that long: a defect elsewhere costs no privacy
    assert (np.sum(beyond**2, axis=1) <= ROW_LENGTH**2).all()


def test_a_row_moves_the_gram_matrix_by_its_sensitivity_at_most() -> None:
    codes = row_codes(long_rows(200, 4), 1.0)
    for place in range(200):
        moved = gram_of(codes) - gram_of(np.delete(codes, place, axis=0))
        assert int(np.sum(moved.astype(object) ** 2)) <= GRAM_SENSITIVITY**2
    full = np.array([[ROW_LENGTH, 0.0]])
    assert int(np.sum(gram_of(full).astype(object) ** 2)) == GRAM_SENSITIVITY**2


class Blocks:
    """Rows in blocks of one size."""

    in_memory = False

    def __init__(self, features: Any, targets: np.ndarray, size: int) -> None:
        self.features, self.targets, self.size = features, targets, size

    def blocks(self) -> Any:
        for start in range(0, self.features.shape[0], self.size):
            piece = slice(start, start + self.size)
            yield Block(self.features[piece], None, self.targets[piece], np.ones((len(self.targets[piece]), 1)))


def coordinates(d: int) -> Geometry:
    noise = RNG.normal(size=(d + 1, d + 1))
    matrix = 300 * np.eye(d + 1) + noise + noise.T
    return from_gram(NoisyGram(matrix=matrix, noise_scale=1.0))


def codes_of(targets: Targets, n: int) -> np.ndarray:
    if targets.kind == "squared":
        return targets.admit(RNG.uniform(-2, 2, n))[0]
    return targets.admit(RNG.choice(list(targets.classes), n))[0]


def sum_of(
    targets: Targets, geometry: Geometry, features: Any, labels: np.ndarray, theta: np.ndarray, size: int
) -> Any:
    mapping = GeometryMap(geometry=geometry)
    mapped = MappedRows(CodedExamples(Blocks(features, labels, size), data_norm=1.0), mapping)  # type: ignore[arg-type]
    return integer_gradient(targets, mapped, theta, mapping, clip=3 << 24)


@GOALS
@pytest.mark.parametrize("kind", ["mapped", "plain", "sparse"])
def test_sums_depend_on_no_order_and_no_block(targets: Targets, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n, d = 60, 8
    rows, labels = long_rows(n, d), codes_of(targets, n)
    geometry = coordinates(d) if kind == "mapped" else without_map(d, rows=100)
    theta = RNG.normal(size=(d + 1, targets.outputs))
    shape = csr_array if kind == "sparse" else np.asarray
    whole = sum_of(targets, geometry, shape(rows), labels, theta, size=n)
    for cells in (1 << 17, 1):
        monkeypatch.setattr(mapped_rows, "_CELLS", cells)
        for size in (1, 7, 64):
            np.testing.assert_array_equal(sum_of(targets, geometry, shape(rows), labels, theta, size), whole)
    order = RNG.permutation(n)
    np.testing.assert_array_equal(sum_of(targets, geometry, shape(rows[order]), labels[order], theta, 13), whole)
    total = np.zeros_like(whole)
    for place in range(n):  # each row by itself: what it adds is its own, bit for bit
        alone = sum_of(targets, geometry, shape(rows[place : place + 1]), labels[place : place + 1], theta, 1)
        rest = np.delete(np.arange(n), place)
        others = sum_of(targets, geometry, shape(rows[rest]), labels[rest], theta, n) if place < 5 else None
        assert others is None or (whole - others == alone).all()
        assert int(np.sum(alone.astype(object) ** 2)) <= (3 << 24) ** 2
        total += alone
    np.testing.assert_array_equal(total, whole)


def test_a_float_map_would_depend_on_the_rows_beside() -> None:
    """The mutation: mapping by a float product, whose last bits differ between one row and many."""
    d = 64
    geometry, rows = coordinates(d), long_rows(500, d)
    assert geometry.map is not None
    together = (rows - geometry.centre) @ geometry.map
    alone = np.vstack([(row[None, :] - geometry.centre) @ geometry.map for row in rows])
    if (together == alone).all():  # a BLAS that adds in one order only: nothing can be shown with it
        pytest.skip("this BLAS computes a row the same way wherever it stands")
    mapping = GeometryMap(geometry=geometry)
    codes = row_codes(rows, 1.0)
    np.testing.assert_array_equal(mapping.mapped(codes), np.vstack([mapping.mapped(code[None, :]) for code in codes]))


def test_integers_say_what_floats_say() -> None:
    """Gradients of integers are those of the real loss, to a few in ten thousand."""
    n, d = 4000, 6
    rows, geometry = long_rows(n, d), coordinates(d)
    assert geometry.map is not None
    z = np.column_stack([(rows - geometry.centre) @ geometry.map, np.ones(n)])
    theta = RNG.normal(size=(d + 1, 3)) / 3
    mapping = GeometryMap(geometry=geometry)
    for targets in (NUMBER, TWO, THREE):
        labels, point = codes_of(targets, n), theta[:, : targets.outputs]
        u = z @ point
        if targets.kind == "squared":
            errors = u - labels / 2**14
        elif targets.kind == "logistic":
            errors = -labels / (1 + np.exp(labels * u))
        else:
            errors = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True) - np.eye(3)[labels[:, 0].astype(int)]
        wanted = z.T @ errors
        mapped = MappedRows(CodedExamples(Blocks(rows, labels, 512), data_norm=1.0), mapping)  # type: ignore[arg-type]
        found = integer_gradient(targets, mapped, point, mapping, clip=1 << 40) * 2.0**-26
        assert np.linalg.norm(found - wanted) < 2e-3 * np.linalg.norm(np.abs(z).T @ np.abs(errors))


def test_predictors_stay_exact_at_the_ends() -> None:
    d = 50
    mapping = GeometryMap(geometry=coordinates(d))
    theta = mapping.theta_codes(np.full((d + 1, 1), 1e30))
    z = np.full((1, d + 1), 1 << 20)
    assert float((z.astype(object) @ theta.astype(object).astype(int))[0, 0]) < 2**53
    assert np.abs(mapping.factors).max() <= 2**24
    assert int(mapping.mapped(np.full((1, d), float(ROW_LENGTH)))[0, -1]) == 1 << 12
    assert GeometryMap(geometry=without_map(3, rows=9)).last == HALF
    assert gradient_sum(csr_array(np.eye(2)), np.array([[2.0], [3.0]]), HALF).tolist() == [[2], [3], [5 * HALF]]


@given(st.integers(1, 2**53 - 1), st.integers(1, 2**45))
def test_a_limit_by_floats_is_the_whole_quotient(clip: int, norm: int) -> None:
    """Also where the quotient is just below a whole number, for which a quotient that rounds up would be too long."""
    for near in {clip, min(max(clip - clip % norm - 1, 1), 2**53 - 1), max(clip - clip % norm, 1)}:
        limited = clipped_errors(np.array([[2.0**54]]), np.array([norm]), near)
        assert limited.tolist() == [[float(near // norm)]]


@pytest.mark.parametrize("classes", [3, 4, 8, 10, 16, 64, 128])
def test_losses_of_classes_do_not_hang_on_the_last_bit_of_a_logarithm(
    classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of one fit may be machines with other logarithms, and values at powers of two are whole numbers."""
    expected = softmax_loss_table.__wrapped__(classes)
    exact = math.log
    for towards in (-math.inf, math.inf):
        monkeypatch.setattr(integer_rows.math, "log", lambda x, towards=towards: math.nextafter(exact(x), towards))
        assert (softmax_loss_table.__wrapped__(classes) == expected).all()
        monkeypatch.undo()
