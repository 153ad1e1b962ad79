"""The stated error of a covariance has the rounding of its rows and the chance of its pairs in it.

All comparisons are at a confidence of 1 - 1e-7: less than one run in a million fails by chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.covariance import plan
from sidelight.covariance.error_tails import pairing_tail
from sidelight.testing import seeded_release

NEARLY_SURE = 1 - 1e-7


def _exceeded(data: np.ndarray, truth: np.ndarray, **query: Any) -> int:
    asked = sl.Covariance(radius=1, **query)
    table = asked.table(data)
    found = 0
    for seed in range(5):
        release = seeded_release(asked, table, seed=f"stated error {seed}")
        assert release.error.proved
        off = np.abs(np.linalg.eigvalsh(release.value["matrix"] - truth)).max()
        found += bool(off > release.error_bound(NEARLY_SURE)[0])
    return found


@pytest.mark.parametrize("columns", [1, 3])
def test_rounding_of_the_rows_is_in_the_bound(columns: int) -> None:
    """Entries are truncated to radius/2^14: with little noise five of five releases exceeded a bound of noise alone."""
    rows = np.full((100_000, columns), 0.5)
    rows[:, 0] = 0.499997  # just below a whole number of steps
    assert _exceeded(rows, rows.T @ rows / len(rows), rho=50, rows=len(rows)) == 0


def test_the_bound_is_no_larger_than_rounding_explains() -> None:
    rows = np.full((100_000, 1), 0.5)
    asked = sl.Covariance(radius=1, rho=50)
    assert seeded_release(asked, asked.table(rows), seed="size").error_bound(0.95)[0] < 2 * 2.0**-14 + 4e-5


@pytest.mark.parametrize("price", [{"rho": 50}, {"epsilon": 20}, {"rho": 50, "rows": 20_000}])
def test_random_pairs_are_in_the_bound(price: dict[str, Any]) -> None:
    """Which rows are paired decides more than little noise does: five of five releases exceeded the noise's bound."""
    rows = np.where(np.arange(20_000) % 2, 0.7, -0.7)[:, None]
    assert _exceeded(rows, np.array([[0.49]]), centre="pairs", **price) == 0
    asked = sl.Covariance(radius=1, centre="pairs", **price)
    error = seeded_release(asked, asked.table(rows), seed="text").error
    assert "further apart" in error.assumption
    assert error.at(0.95)[0] < 0.06


def test_the_bound_of_pairs_holds_for_random_pairings() -> None:
    """Against pairings themselves, without noise: the chance is at most the stated one, the mean within its part."""
    rng = np.random.default_rng(5)
    for count in (10, 11, 200):
        rows = np.where(rng.random((count, 2)) < 0.5, 0.5, -0.5)
        truth = np.cov(rows.T, bias=True)
        off = []
        for _ in range(300):
            order = rng.permutation(count)
            apart = rows[order[: count // 2]] - rows[order[count // 2 : 2 * (count // 2)]]
            off.append(float(np.abs(np.linalg.eigvalsh(apart.T @ apart / count - truth)).max()))
        tail = pairing_tail(count, 1.0, parts=1)
        assert np.mean(off) <= 2 / np.sqrt(count) * (count / (count - 3)) ** 1.5 + 1 / (count - 1)
        assert max(off) <= tail.at_steps[-1]


@pytest.mark.parametrize("centre", [None, "mean"])
def test_short_rows_are_stated_to_be_as_near_as_they_are(centre: str | None) -> None:
    """A wrong number of rows moves a small matrix little; the bound that took the radius for its size was far off."""
    rows = np.random.default_rng(3).normal(0, 0.02, (4000, 2))
    asked = sl.Covariance(radius=1, rho="0.5", **({} if centre is None else {"centre": centre}))
    table = asked.table(rows)
    truth = rows.T @ rows / len(rows) if centre is None else np.cov(rows.T, bias=True)
    releases = [seeded_release(asked, table, seed=f"short {seed}") for seed in range(40)]
    made = [np.abs(np.linalg.eigvalsh(each.value["matrix"] - truth)).max() for each in releases]
    stated = [each.error_bound(0.95)[0] for each in releases]
    assert all(off <= each.error_bound(NEARLY_SURE)[0] for off, each in zip(made, releases, strict=True))
    assert np.median(stated) < 5 * np.quantile(made, 0.95)


@pytest.mark.parametrize("centre", [None, "mean"])
@pytest.mark.parametrize("count", [3, 60, 2000])
def test_rows_at_the_radius_are_in_the_bound(centre: str | None, count: int) -> None:
    """The largest matrix there is, whose error is mostly that of the number of rows."""
    rows = np.zeros((count, 2))
    rows[:, 0] = 1
    truth = np.diag([1.0, 0.0]) if centre is None else np.zeros((2, 2))
    assert _exceeded(rows, truth, rho="0.3", **({} if centre is None else {"centre": centre})) == 0
    assert _exceeded(rows, truth, rho=20, method="gauss", **({} if centre is None else {"centre": centre})) == 0


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("values", "query", "noise"),
    [
        ((0.7, 0.7), {}, "count_tail"),
        ((0.7, 0.7), {"centre": "mean", "rows": 400}, "vector_tail"),
        ((1, -1), {"centre": "mean"}, "count_tail"),
        ((0.01, -0.01), {}, "matrix_tail"),
    ],
    ids=["the number of rows", "the mean", "the number of rows about a mean", "the matrix"],
)
def test_each_noise_is_in_the_bound_and_a_smaller_weight_of_it_is_refuted(
    values: tuple[float, ...], query: dict[str, Any], noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """600 releases in which one noise decides: 30 may exceed, and 63 do less than once in ten million runs."""
    rows = np.zeros((400, 2))
    rows[:, 0] = np.tile(values, 200)
    truth = np.cov(rows.T, bias=True) if query else rows.T @ rows / 400
    asked = sl.Covariance(radius=1, rho="0.3", method="gauss", project=False, **query)
    table = asked.table(rows)
    releases = [seeded_release(asked, table, seed=f"rows {seed}") for seed in range(600)]
    off = [float(np.abs(np.linalg.eigvalsh(each.value["matrix"] - truth)).max()) for each in releases]
    assert sum(each > release.error_bound(0.95)[0] for each, release in zip(off, releases, strict=True)) < 63
    real = getattr(plan, noise)
    monkeypatch.setattr(plan, noise, lambda *args, **more: real(*args, **more).times(0.3))
    planted = [seeded_release(asked, table, seed=f"rows {seed}").error_bound(0.95)[0] for seed in range(600)]
    assert sum(each > bound for each, bound in zip(off, planted, strict=True)) > 63


def test_the_bound_about_a_mean_far_from_the_centre_is_near_what_is_needed() -> None:
    """Three noises of about one size: products of two of them were stated with one at ten deviations (2.6 times)."""
    rows = np.random.default_rng(8).normal([40, 40], 8, (400, 2))
    asked = sl.Covariance(radius=140, rho="0.5", centre="mean", method="gauss", project=False)
    table, truth = asked.table(rows), np.cov(rows.T, bias=True)
    releases = [seeded_release(asked, table, seed=f"far {seed}") for seed in range(300)]
    made = [np.abs(np.linalg.eigvalsh(each.value["matrix"] - truth)).max() for each in releases]
    stated = [each.error_bound(0.95)[0] for each in releases]
    assert sum(off > bound for off, bound in zip(made, stated, strict=True)) < 40
    assert np.median(stated) < 2.4 * np.quantile(made, 0.95)


@pytest.mark.parametrize("count", [20, 100, 300, 1000])
@pytest.mark.parametrize("centre", [None, "mean", "pairs"])
def test_no_bound_is_above_the_squared_radius(centre: Any, count: int) -> None:
    """Both matrices lie between 0 and it; a bound that was below it at no confidence rose above it at a larger one."""
    rows = np.random.default_rng(count).normal(size=(count, 2)) / 4
    table = sl.Table({"x": rows[:, 0], "y": rows[:, 1]}, schema=[sl.Number("x"), sl.Number("y")])
    release = sl.Covariance(radius=3, rho="0.05", **({} if centre is None else {"centre": centre})).release(table)
    for confidence in (0.5, 0.95, 0.999, 1 - 1e-9):
        assert 0 < release.error_bound(confidence)[0] <= 9
