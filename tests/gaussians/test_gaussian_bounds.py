"""The tail bound, brackets of public covariances, those of another population: reference numbers and coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.gaussians.point_cloud import bracket, gap_bounds
from sidelight.gaussians.step_arithmetic import norm_bound, one_shot_clip, public_radius


@pytest.mark.parametrize(
    ("size", "chance", "length"),
    [
        (5, 0.1, 4.048618),
        (10, 0.1, 4.919575),
        (10, 0.05, 5.190195),
        (10, 0.01, 5.725611),
        (20, 0.1, 6.178790),
        (50, 0.1, 8.721515),
        (50, 0.05, 8.970448),
        (50, 0.01, 9.463556),
    ],
)
def test_norm_bound(size: int, chance: float, length: float) -> None:
    assert norm_bound(size, chance) == pytest.approx(length, abs=5e-7)


def test_norm_bound_holds_and_one_a_fifth_shorter_does_not() -> None:
    lengths = np.linalg.norm(np.random.default_rng(0).standard_normal((200_000, 10)), axis=1)
    assert (lengths > norm_bound(10, 0.05)).mean() < 0.05
    assert (lengths > 0.8 * norm_bound(10, 0.05)).mean() > 0.05


def test_one_public_row_of_the_paper() -> None:
    """Radius in the number of columns, the paper's clip, its noise under replacement, and the tighter clip."""
    radius = public_radius(50, 1, 0.05)
    longest = norm_bound(50, 0.05 / 2000)
    assert radius == pytest.approx(9.194552, abs=5e-7)
    assert longest == pytest.approx(10.827253, abs=5e-7)
    assert radius + longest == pytest.approx(20.021806, abs=1e-6)
    assert 2 * (radius + longest) / 1000 == pytest.approx(0.0400436, abs=5e-8)  # ρ = 0.5: √(2ρ) = 1
    assert one_shot_clip(50, radius, 1000, 0.05) == pytest.approx(16.924112, abs=5e-7)
    assert public_radius(50, 4, 0.05) == pytest.approx(radius / 2)


@given(st.integers(1, 40), st.floats(0, 1e6), st.floats(1, 1e9))
def test_one_shot_clip_is_never_longer_than_the_papers(size: int, radius: float, rows: float) -> None:
    assert one_shot_clip(size, radius, rows, 0.05) <= radius + norm_bound(size, 0.05 / (2 * rows)) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("size", "rows", "lower", "upper"),
    [(5, 6, 0.092965, 9e4), (10, 11, 0.118504, 3.6e5), (50, 51, 0.172935, 9e6), (10, 200, 0.491066, 3.045944)],
)
def test_brackets(size: int, rows: int, lower: float, upper: float) -> None:
    found = bracket(size, rows, 0.05)
    assert found.lower == pytest.approx(lower, abs=5e-7)
    assert found.upper == pytest.approx(upper, rel=5e-7)


@pytest.mark.parametrize(("size", "rows", "lower", "upper"), [(10, 20, 0.293, 23.8), (20, 60, 0.368, 7.2)])
def test_simulated_brackets(size: int, rows: int, lower: float, upper: float) -> None:
    found = bracket(size, rows, 0.05)
    assert found.lower == pytest.approx(lower, rel=0.02)
    assert found.upper == pytest.approx(upper, rel=0.06)
    assert bracket(size, rows, 0.05) is found  # cached


def test_the_tridiagonal_simulation_has_the_law_of_wishart_matrices() -> None:
    """Against whole matrices; a law with one degree of freedom more is detected."""
    from scipy.stats import ks_2samp

    from sidelight.gaussians.point_cloud import _extreme_eigenvalues

    rng = np.random.default_rng(5)
    normal = rng.standard_normal((3000, 8, 4))
    values = np.linalg.eigvalsh(np.swapaxes(normal, 1, 2) @ normal / 8)
    for place, drawn in zip((0, -1), _extreme_eigenvalues(4, 8), strict=True):
        assert ks_2samp(values[:, place], drawn).pvalue > 1e-6
    assert ks_2samp(values[:, 0], _extreme_eigenvalues(4, 10)[0]).pvalue < 1e-6


@pytest.mark.parametrize(("size", "chance", "failures"), [(5, 0.1, 0.035), (10, 0.05, 0.015)])
def test_coverage_of_d_plus_1_rows(size: int, chance: float, failures: float) -> None:
    """All failures come from the lower eigenvalue, whose share of β is a third; a quarter of U misses far more."""
    rng = np.random.default_rng(1)
    runs = 4000
    public = rng.standard_normal((runs, size + 1, size))
    public -= public.mean(axis=1, keepdims=True)
    values = np.linalg.eigvalsh(np.swapaxes(public, 1, 2) @ public / size)
    found = bracket(size, size + 1, chance)
    too_low = (found.upper * values[:, 0] < 1).mean()
    too_high = (found.lower * values[:, -1] > 1).mean()
    assert too_high < 0.001
    assert too_low == pytest.approx(failures, abs=0.012)
    assert (found.upper / 4 * values[:, 0] < 1).mean() > 1.7 * too_low


def test_gap_bounds() -> None:
    found = gap_bounds(10, 11, 0.5, 0.05)
    assert found.lower == pytest.approx(0.00185163, abs=5e-9)
    assert found.upper == pytest.approx(2.304e7, rel=1e-6)
    assert found.condition == pytest.approx(1.24431e10, rel=1e-5)
    assert found.mean_bound == pytest.approx(210588.7, abs=0.1)
    assert gap_bounds(10, 11, 0.0, 0.05).mean_bound == pytest.approx(2925.31, abs=0.01)


@given(st.floats(0.05, 20), st.floats(-8, 8))
def test_the_bounds_for_a_gap_hold_in_one_dimension(ratio: float, shift: float) -> None:
    """For two normal laws with standard deviations 1 and `ratio`: from their distance γ to ratio and shift."""
    grid = np.linspace(-120, 120, 120_001)
    first = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    second = np.exp(-(((grid - shift) / ratio) ** 2) / 2) / np.sqrt(2 * np.pi) / ratio
    left = float(np.minimum(first, second).sum() * (grid[1] - grid[0]))  # 1 - γ
    assert max(ratio, 1 / ratio) ** 2 <= 4 / left**4 * (1 + 1e-6)
    assert shift**2 / ((1 + ratio**2) / 2) <= 8 * np.log(1 / left) + 1e-4
