"""Traps of the covariance release: pairing, reuse of noise, private radii and counts, seeds, rows that pair anew."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.covariance.plan import clipped_integers, pair_moments, pair_statistics
from sidelight.guarantees.units import Row
from sidelight.noise import Source, random_order
from sidelight.published.eigenvector_covariance import paired
from sidelight.testing import SeededEntropy, seeded_release


def table_of(rows: np.ndarray) -> sl.Table:
    return sl.Table(rows, schema=[sl.Number(f"x{place}") for place in range(rows.shape[1])])


def test_injected_noise_of_the_reference() -> None:
    matrix, prediction = np.array([[0.5, 0.2], [0.2, 0.3]]), 0.4 * np.eye(2)
    noise = np.array([[0.03, -0.01], [-0.01, 0.02]])

    def estimate(guess: np.ndarray) -> np.ndarray:
        values = np.linalg.eigvalsh(matrix - guess) + np.array([-0.02, 0.01])
        return paired(values, np.linalg.eigh(matrix - guess + noise)[1]) + guess

    expected = [[0.510411, 0.208839], [0.208839, 0.279589]]
    np.testing.assert_allclose(estimate(prediction), expected, atol=1e-6)
    np.testing.assert_allclose(estimate(prediction + 0.7 * np.eye(2)), estimate(prediction), atol=1e-14)


def test_one_added_row_changes_one_pair() -> None:
    """The pair sum along one random order moves by one replaced pair, wherever a row is inserted."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(1001, 2)) * 0.5
    coding = ClippedVector(
        columns=(sl.Number("x0"), sl.Number("x1")), radius=sl_fraction(1), levels=1 << 14, centres=(sl_fraction(0),) * 2
    )
    statistics = pair_statistics(coding, rows_per_unit=1, unit=Row())
    bound = float(statistics.finish(statistics.empty()).second.sensitivity)
    moved = []
    for left_out in (0, 500, 1000):
        orders = [random_order(1001, Source(SeededEntropy(seed))) for seed in range(3)]
        for order in orders:
            # couple: the left-out row's partner takes the last row's place in the smaller data set
            whole = _pair_sum(rows, order)
            smaller = _pair_sum(np.delete(rows, left_out, axis=0), _coupled(order, left_out))
            moved.append(np.linalg.norm(whole - smaller) * (1 << 14) ** 2)
    assert max(moved) <= bound * 1.001
    by_place = _pair_sum(rows, np.arange(1001)) - _pair_sum(rows[1:], np.arange(1000))
    assert np.linalg.norm(by_place) * (1 << 14) ** 2 > 5 * bound  # the trap


def sl_fraction(value: int) -> Any:
    from fractions import Fraction

    return Fraction(value)


def _clipped(rows: np.ndarray, length: float) -> np.ndarray:
    return rows * np.minimum(1, length / np.maximum(np.linalg.norm(rows, axis=1), 1e-300))[:, None]


def _pair_sum(rows: np.ndarray, order: np.ndarray) -> np.ndarray:
    half = len(order) // 2
    clipped = _clipped(rows, 1.0)
    differences = _clipped(clipped[order[0 : 2 * half : 2]] - clipped[order[1 : 2 * half : 2]], np.sqrt(2))
    return differences.T @ differences


def _coupled(order: np.ndarray, left_out: int) -> np.ndarray:
    """The order of the smaller data set that differs in one pair: the unpaired row replaces the one left out."""
    changed = order.copy()
    place = int(np.flatnonzero(order == left_out)[0])
    changed[place] = order[-1]
    changed = changed[:-1]
    return np.where(changed > left_out, changed - 1, changed)


def test_random_orders_are_uniform() -> None:
    with Source(SeededEntropy(5)) as source:
        counts = np.zeros((4, 4))
        for _ in range(4000):
            for place, row in enumerate(random_order(4, source)):
                counts[place, row] += 1
    assert np.abs(counts / 4000 - 0.25).max() < 0.05


def test_pairs_need_no_centre_and_count_all_rows() -> None:
    table = table_of(np.full((7, 2), 0.5))
    coding = ClippedVector(
        columns=(sl.Number("x0"), sl.Number("x1")), radius=sl_fraction(1), levels=1 << 14, centres=(sl_fraction(0),) * 2
    )
    with Source(SeededEntropy(1)) as source:
        moments, count = pair_moments(table, coding, pair_statistics(coding, rows_per_unit=1, unit=Row()), source)
    assert count == 7
    assert not np.asarray(moments.second.value).any()


def test_integer_clipping_never_exceeds_the_length() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.integers(-40_000, 40_000, (3, 20_000))
    found = np.stack(clipped_integers(vectors, levels=23_170))
    assert (found.astype(object) ** 2).sum(axis=0).max() <= 23_170**2
    assert (found.astype(float) ** 2).sum(axis=0).max() > 0.999 * 23_170**2
    short = vectors // 10
    np.testing.assert_array_equal(np.stack(clipped_integers(short, levels=23_170)), short)


def test_two_releases_never_share_noise() -> None:
    table = table_of(np.zeros((10, 3)))
    session = sl.Session(table, budget=sl.ZCDP(10))
    query = sl.Covariance(radius=1, rho="0.5", method="gauss", project=False)
    first, second = (session.release(query).value["noisy"] for _ in range(2))  # type: ignore[union-attr]
    assert not np.isclose(first, second).any()


def test_neither_a_seed_nor_a_private_radius_is_accepted() -> None:
    names = set(inspect.signature(sl.Covariance).parameters) | set(inspect.signature(sl.PCA).parameters)
    assert not names & {"seed", "random_state", "rng"}
    with pytest.raises(TypeError, match="radius"):
        sl.Covariance(rho=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("price", [{"rho": "0.5"}, {"epsilon": 1}, {"epsilon": 1, "noise": "laplace"}])
def test_the_number_of_rows_is_never_used_exactly(price: dict[str, Any]) -> None:
    query = sl.Covariance(radius=1, **price)
    counts = {seeded_release(query, table_of(np.zeros((50, 2))), seed=seed).value["rows"] for seed in range(12)}
    assert len(counts) > 3
    scale = 1 / np.sqrt(2 * 0.5 * 0.03) if "rho" in price else 1 / 0.03
    assert 0.1 * scale < np.std(list(counts)) < 4 * scale


def test_noise_is_symmetric_and_smaller_off_the_diagonal() -> None:
    query = sl.Covariance(radius=1, rho="0.5", rows=1, method="gauss", project=False)
    noise = seeded_release(query, table_of(np.zeros((1, 120))), seed=2).value["noisy"]
    np.testing.assert_array_equal(noise, noise.T)
    above = noise[np.triu_indices(120, 1)]
    assert above.std() == pytest.approx(np.sqrt(2) / np.sqrt(2), rel=0.06)
    assert np.diag(noise).std() == pytest.approx(np.sqrt(2), rel=0.35)
