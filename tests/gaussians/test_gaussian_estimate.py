"""The estimator: steps as algebra, accuracy on reference cases, invariances, degenerate rows, cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.gaussians import estimate_cells
from sidelight.gaussians.gaussian_steps import whitening
from sidelight.gaussians.step_arithmetic import Constants, mapped_back, preconditioned, recentred
from sidelight.noise import Source
from sidelight.published.coinpress import declared_ranges
from sidelight.testing import SeededEntropy, seeded_release


@dataclass
class World:
    """A rotated Gaussian with log-spaced variances, far from the origin."""

    mean: np.ndarray
    root: np.ndarray
    rng: np.random.Generator

    @classmethod
    def of(cls, size: int, seed: int, *, condition: float = 1e4) -> World:
        rng = np.random.default_rng(seed)
        turn = np.linalg.qr(rng.standard_normal((size, size)))[0]
        root = (turn * np.sqrt(np.logspace(0, np.log10(condition), size))) @ turn.T
        return cls(1e4 * turn @ rng.standard_normal(size), root, rng)

    def draw(self, rows: int) -> np.ndarray:
        return self.mean + self.rng.standard_normal((rows, len(self.mean))) @ self.root

    def errors(self, mean: Any, covariance: Any) -> tuple[float, float]:
        back = np.linalg.inv(self.root)
        off = back @ np.asarray(covariance) @ back.T - np.eye(len(back))
        return float(np.linalg.norm(back @ (mean - self.mean))), float(np.linalg.norm(off))


def source(seed: int, numerics: Any = "exact") -> Source:
    return Source(SeededEntropy(seed), declared=numerics)


def medians(size: int, count: int, public: int, runs: int, **settings: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    ours, plain = [], []
    value: Any = None
    for seed in range(runs):
        world = World.of(size, seed)
        private, known = world.draw(count), world.draw(public)
        given = {} if "mean_bound" in settings else {"prediction": known}
        release = seeded_release(query := sl.GaussianFit(**given, **settings), query.table(private), seed=seed)
        value = release.value
        ours.append(world.errors(value["mean"], value["covariance"]))
        plain.append(world.errors(private.mean(axis=0), np.cov(private, rowvar=False)))
    return np.median(ours, axis=0), np.median(plain, axis=0), value


@pytest.mark.parametrize("public", [5, 11, 20, 50])
def test_few_public_rows_are_enough(public: int) -> None:
    """d = 10, condition number 1e4, n = 5000, rho = 0.5: within 1.3 of the non-private estimate for every m >= 5."""
    ours, plain, value = medians(10, 5_000, public, 20, rho="0.5", condition=10_000)
    assert ours[0] <= 1.15 * plain[0]
    assert ours[1] <= 1.3 * plain[1]
    assert not value["weak"]


@pytest.mark.slow
@pytest.mark.parametrize("public", [5, 11, 20, 50])
def test_many_rows_leave_no_price(public: int) -> None:
    ours, plain, _ = medians(10, 50_000, public, 20, rho="0.5", condition=10_000)
    assert ours[1] <= 1.1 * plain[1]


def test_pure_estimates() -> None:
    ours, plain, value = medians(10, 50_000, 5, 6, epsilon=1, condition=10_000)
    assert ours[1] <= 1.4 * plain[1]
    assert not value["weak"]
    _, _, value = medians(10, 5_000, 5, 1, epsilon=1, condition=10_000)
    assert value["weak"]


def test_a_sample_is_enough_for_coarse_steps() -> None:
    ours, plain, value = medians(6, 150_000, 5, 5, rho="0.5", condition=10_000)
    assert ours[0] <= 1.2 * plain[0]
    assert ours[1] <= 1.25 * plain[1]
    assert value["start"] == "ball"


def test_ranges_cost_what_public_rows_save() -> None:
    """CoinPress with R = 1e6, K = 1e8 and six steps at n = 5000 is at least 100 times worse; at n = 50000 it works."""
    ours, _, _ = medians(10, 5_000, 5, 5, rho="0.5", condition=10_000)
    ranges, _, _ = medians(10, 5_000, 5, 5, rho="0.5", mean_bound=1e6, variance_bound=1e8, steps=6)
    assert ranges[1] > 100 * ours[1]
    ranges, plain, _ = medians(10, 50_000, 5, 3, rho="0.5", mean_bound=1e6, variance_bound=1e8, steps=6)
    assert ranges[1] < 3 * plain[1]


@pytest.mark.parametrize(
    ("settings", "public", "worst"),
    [
        ({"rho": "0.5", "constants": "proven"}, 11, 1.4),
        ({"rho": "0.5", "constants": "proven"}, 40, 1.4),
        ({"rho": "0.5", "gap": "0.5"}, 50, 2.2),
        ({"rho": "0.5", "rows": 40_000, "condition": 10_000}, 5, 1.2),
        ({"epsilon": 2, "delta": "1e-6", "condition": 10_000}, 5, 1.4),
    ],
)
def test_variants(settings: dict[str, Any], public: int, worst: float) -> None:
    ours, plain, value = medians(10, 40_000, public, 4, **settings)
    assert ours[0] <= 1.5 * plain[0]
    assert ours[1] <= worst * plain[1]
    assert not value["weak"]


def test_a_public_population_elsewhere() -> None:
    """Harmless public rows with a gap: shifted by two standard deviations and twice as wide."""
    errors = []
    for seed in range(4):
        world = World.of(5, seed)
        known = world.mean + (2 * world.rng.standard_normal((25, 5)) + 2 / np.sqrt(5)) @ world.root
        query = sl.GaussianFit(prediction=known, gap="0.8", rho="0.5")
        value = seeded_release(query, query.table(world.draw(40_000)), seed=seed).value
        errors.append(world.errors(value["mean"], value["covariance"]))
    assert np.median(errors, axis=0)[0] < 0.05
    assert np.median(errors, axis=0)[1] < 0.1


def test_units_and_places_do_not_matter() -> None:
    """All rows times 1e6 and shifted by 1e9: the same errors within 5 %."""
    ours, moved = [], []
    for seed in range(20):
        world = World.of(5, seed, condition=100)
        private, known = world.draw(3000), world.draw(5)
        scaled = World(world.mean * 1e6 + 1e9, world.root * 1e6, world.rng)
        for found, here, change in ((ours, world, (1.0, 0.0)), (moved, scaled, (1e6, 1e9))):
            factor, shift = change
            query = sl.GaussianFit(prediction=known * factor + shift, rho="0.5")
            value = seeded_release(query, query.table(private * factor + shift), seed=seed).value
            found.append(here.errors(value["mean"], value["covariance"]))
    np.testing.assert_allclose(np.median(ours, axis=0), np.median(moved, axis=0), rtol=0.05)


def _mahalanobis(change: np.ndarray, condition: int, public: int, seeds: range) -> list[float]:
    found = []
    for seed in seeds:
        world = World.of(3, seed, condition=10)
        private, known = world.draw(1500), world.draw(public)
        moved = World(world.mean @ change + 7, world.root @ change, world.rng)
        query = sl.GaussianFit(prediction=known @ change + 7, rho="0.3", condition=condition)
        value = seeded_release(query, query.table(private @ change + 7), seed=seed).value
        back = np.linalg.inv(moved.root)  # rows: z root change, so the covariance is root'root of the moved root
        whitened = back.T @ value["covariance"] @ back
        found.append(float(np.linalg.norm(whitened - np.eye(3))))
    return found


def test_affine_invariance_in_distribution() -> None:
    """From the public rows' own shape, any linear change of all rows gives the same law; a ball does not."""
    from scipy.stats import ks_2samp

    change = np.array([[1e3, 0.0, 5.0], [2.0, 1e-3, 0.0], [0.0, 4e-4, 1.0]])
    plain = _mahalanobis(np.eye(3), 100, 12, range(60))
    assert ks_2samp(plain, _mahalanobis(change, 100, 12, range(60, 120))).pvalue > 1e-6
    ball = _mahalanobis(np.eye(3), 100, 3, range(30))
    assert ks_2samp(ball, _mahalanobis(change, 100, 3, range(30, 60))).pvalue < 1e-6


# --- steps as algebra ------------------------------------------------------------------------------------------------


def test_many_steps_without_noise_whiten() -> None:
    """Factors on the left, the way back with a transpose: four coarse steps on a matrix that is not symmetric."""
    world = World.of(4, 0, condition=1e4)
    truth = world.root @ world.root.T
    matrix = np.triu(np.random.default_rng(1).uniform(0.5, 1.0, (4, 4))) / 1e3
    for _ in range(4):
        matrix = preconditioned(matrix, matrix @ truth @ matrix.T, rows=1e12, noise_scale=1e-12, constants=Constants())
    np.testing.assert_allclose(matrix @ truth @ matrix.T, np.eye(4), atol=1e-3)
    second = matrix @ truth @ matrix.T
    np.testing.assert_allclose(mapped_back(matrix, second), truth, rtol=1e-6, atol=1e-6)
    inverse = np.linalg.inv(matrix)
    assert np.abs(inverse @ second @ inverse - truth).max() > 1.0  # without the transpose


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.integers(0, 1000))
def test_recentring_takes_the_spike_away(size: int, seed: int) -> None:
    """If the second moment about c is A⁻¹A⁻ᵀ, that about the mean is white after recentring."""
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((size, size)) + 3 * np.eye(size)
    offset = rng.standard_normal(size)
    offset *= rng.uniform(0, 0.9) / np.linalg.norm(offset)
    inverse = np.linalg.inv(matrix)
    about_mean = inverse @ inverse.T - np.outer(inverse @ offset, inverse @ offset)
    found = recentred(matrix, offset)
    np.testing.assert_allclose(found @ about_mean @ found.T, np.eye(size), atol=1e-8)
    assert np.isfinite(recentred(matrix, offset * 100)).all()


# --- degenerate rows -------------------------------------------------------------------------------------------------

DEGENERATE: dict[str, np.ndarray] = {
    "no rows": np.empty((0, 3)),
    "one row": np.ones((1, 3)),
    "all zero": np.zeros((500, 3)),
    "not finite": np.full((500, 3), np.nan),
    "infinite": np.full((500, 3), np.inf),
    "huge": np.full((500, 3), 1e300) * np.where(np.arange(500) % 2, 1, -1)[:, None],
    "constant columns": np.random.default_rng(0).standard_normal((500, 3)) * [1, 0, 0],
    "far away": np.random.default_rng(0).standard_normal((500, 3)) + 1e12,
}


@pytest.mark.parametrize("name", list(DEGENERATE))
@pytest.mark.parametrize(
    "settings",
    [
        {"rho": "0.5"},
        {"epsilon": 1},
        {"epsilon": 1, "noise": "laplace"},
        {"rho": "1e-9"},
        {"rho": "0.5", "rows": 500},
        {"rho": "0.5", "gap": "0.3"},
        {"rho": "0.5", "constants": "proven"},
    ],
)
def test_no_rows_make_it_fail(name: str, settings: dict[str, Any]) -> None:
    public = np.random.default_rng(1).standard_normal((6, 3))
    query = sl.GaussianFit(prediction=public, **settings)
    value = seeded_release(query, query.table(DEGENERATE[name]), seed=1).value
    assert np.isfinite(value["mean"]).all()
    assert np.linalg.eigvalsh(value["covariance"])[0] > 0


@pytest.mark.parametrize("name", list(DEGENERATE))
def test_no_rows_make_the_baseline_or_a_mean_fail(name: str) -> None:
    for query in (
        sl.GaussianFit(mean_bound=10, variance_bound=10, rho="0.5"),
        sl.GaussianMean(prediction=[0.0, 0.0, 0.0], rho="0.5"),
        sl.GaussianMean(prediction=[0.0, 0.0, 0.0], epsilon="0.5", steps=1),
    ):
        value = seeded_release(query, query.table(DEGENERATE[name]), seed=1).value
        assert np.isfinite(value["mean"]).all()


def test_rows_that_miss_a_number_take_no_part() -> None:
    world = World.of(3, 5)
    private, known = world.draw(4000), world.draw(5)
    holes = np.vstack([private, np.full((4000, 3), np.nan)])
    query = sl.GaussianFit(prediction=known, rho=2, condition=10_000)
    with_holes = seeded_release(query, query.table(holes), seed=3).value
    without = seeded_release(query, query.table(private), seed=3).value
    np.testing.assert_allclose(with_holes["mean"], without["mean"], atol=0.2)
    assert abs(with_holes["rows"] - 4000) < 50


def test_private_rows_are_not_written_to() -> None:
    world = World.of(3, 6)
    private, known = world.draw(500), world.draw(5)
    before = private.copy()
    query = sl.GaussianFit(prediction=known, rho=1)
    seeded_release(query, query.table(private), seed=0)
    np.testing.assert_array_equal(private, before)


# --- cells -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Left:
    """Two cells by the sign of the first column, and a third that is always empty."""

    cells: int = 3

    def label(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        return np.where(columns[0] < 0, 0, 1)


def test_cells_have_their_own_gaussians_and_an_empty_one_is_no_exception() -> None:
    rng = np.random.default_rng(2)
    left, right = rng.normal(-50, 1, (20_000, 2)), rng.normal(50, 3, (5_000, 2))
    publics = [rng.normal(-50, 1, (4, 2)), rng.normal(50, 3, (2, 2)), [[0.0, 0.0]]]
    found = estimate_cells(
        np.vstack([left, right]), rule=Left(), predictions=publics, rho="0.5", scales=[None, None, 5], source=source(1)
    )
    np.testing.assert_allclose(found[0].mean, [-50, -50], atol=0.1)
    np.testing.assert_allclose(found[1].mean, [50, 50], atol=0.4)
    np.testing.assert_allclose(found[1].covariance, 9 * np.eye(2), atol=1.5)
    assert found[2].weak
    assert found[2].rows < 100
    assert all(np.isfinite(each.covariance).all() for each in found)


def test_a_cell_for_each_set_of_public_rows() -> None:
    with pytest.raises(RangeError, match="cells"):
        estimate_cells(np.zeros((3, 2)), rule=Left(), predictions=[[[0.0, 0.0]]], rho=1, source=source(0))


def test_cells_never_use_true_sizes() -> None:
    """Two data sets with the same noise and one row more in a cell: the released size moves by that one row only."""
    rng = np.random.default_rng(3)
    rows = rng.normal(-50, 1, (300, 2))
    publics = [rng.normal(-50, 1, (4, 2)), rng.normal(50, 1, (4, 2)), rng.normal(0, 1, (4, 2))]
    sizes = [
        [each.rows for each in estimate_cells(data, rule=Left(), predictions=publics, rho="0.5", source=source(seed))]
        for data in (rows, rows[1:])
        for seed in range(12)
    ]
    assert {round(abs(size - 300), 6) for size, _, _ in sizes} != {0.0}
    assert np.std([size for size, _, _ in sizes[:12]]) > 2


@pytest.mark.parametrize("size", [2, 10, 50])
def test_declared_ranges_whiten_by_any_noise(size: int) -> None:
    """A floor that noise of 1e11 rounds away left eigenvalues of 0, and a paid fit of a hopeless price failed."""
    known = declared_ranges(size, mean_bound=1, variance_bound=1)
    rng = np.random.default_rng(size)
    for power in range(-4, 21, 4):
        noise = rng.normal(size=(size, size)) * 10.0**power
        whitened = known.whitened(noise + noise.T, rows=1.0, noise_scale=1.0, law="goe")
        assert np.isfinite(whitening(np.eye(size), whitened)).all()
