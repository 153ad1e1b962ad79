"""The bound for records that are about evenly spread: above the law itself, above sums, kept by releases, not loose."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sidelight as sl
from sidelight.quantiles import spread_bounds as module
from sidelight.quantiles.bounds import gap_bounds_tree
from sidelight.quantiles.evaluate import nonprivate_gap
from sidelight.quantiles.spread_bounds import _GRID, _Law, _line, spread_bounds
from sidelight.quantiles.tree import quantile_tree
from sidelight.testing import seeded_release

DECILES = [n / 10 for n in range(1, 10)]


def _exceeding(masses: np.ndarray, scale: float) -> np.ndarray:
    """Return the chance that the gap exceeds the best by more than t = 0, 1, 2, ...: run k on each side has gap k."""
    weights = masses * np.exp(-np.arange(len(masses)) / scale)
    return 1 - np.cumsum(weights) / weights.sum()


@pytest.mark.parametrize("scale", [0.5, 2.0, 20.0])
@pytest.mark.parametrize("growth", ["even", "steeper", "outside"])
def test_the_tail_is_above_the_law_where_the_assumption_holds(scale: float, growth: str) -> None:
    ranks = np.arange(2000)
    far = 1 + (ranks / (10 * scale)) ** 4
    allowed = {
        "even": ranks + 1.0,
        "steeper": (ranks + 1.0) * np.minimum(2.0, 1 + ranks / (3 * scale)),  # twice as sparse further out
        "outside": (ranks + 1.0) * far,
    }[growth]
    law = _Law(scale)
    said = np.interp(ranks[:200], _GRID * scale, law.tail)
    assert (_exceeding(np.diff(allowed, prepend=0.0), scale)[:200] <= said + 1e-9).all()


def test_a_tail_without_its_factor_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = np.arange(2000)
    masses = np.diff((ranks + 1.0) * np.where(ranks < 30, 1.0, 2.0), prepend=0.0)
    made = _exceeding(masses, 20.0)[:200]
    assert (made <= np.interp(ranks[:200], _GRID * 20, _Law(20.0).tail) + 1e-9).all()
    monkeypatch.setattr(module, "FACTOR", 1.0)
    assert (made > np.interp(ranks[:200], _GRID * 20, _Law(20.0).tail) + 1e-3).any()


def test_lines_are_above_simulated_sums_at_every_confidence() -> None:
    rng, laws = np.random.default_rng(3), [(_Law(10.0), 1.0), (_Law(7.0), 0.6), (_Law(3.0), 0.4)]
    drawn = sum(
        weight * law.scale * np.interp(rng.random(200_000), law.tail[::-1], _GRID[::-1]) for law, weight in laws
    )
    fixed, per_log = _line(laws, union=1)
    for failure in (0.5, 0.2, 0.05, 0.01, 0.001):
        said = fixed - 1.0 + per_log * math.log(1 / failure)  # without the best gaps, 1/2 each
        assert np.mean(drawn > said) <= failure
    made = float(np.quantile(drawn, 0.95))
    assert made < fixed - 1.0 + per_log * math.log(20) < 1.1 * made


@pytest.mark.parametrize("levels", [[0.5], [0.25, 0.5, 0.75], DECILES])
def test_it_is_much_sharper_than_the_bound_of_single_intervals(levels: list[float]) -> None:
    tree = quantile_tree(levels, epsilon=1, budget_power="1.5")
    fixed, per_log = spread_bounds(tree)
    now = max(a + b * math.log(20) for a, b in zip(fixed, per_log, strict=True))
    assert 2.5 * now < max(gap_bounds_tree(tree, beta=0.05, psi=2.0**-24))


def test_releases_keep_it_at_the_stated_confidence() -> None:
    """Of 150 draws at 80 % each at least 96 keep it: a law that does falls below less than once in a million."""
    rows = np.random.default_rng(4).lognormal(10, 0.6, 5000)
    query = sl.Quantiles([0.25, 0.5, 0.75], epsilon="0.2", bounds=(0, 1_000_000))
    kept = 0
    for seed in range(150):
        release = seeded_release(query, rows, seed=seed)
        likely = release.error_bound(0.8, assuming="spread")
        kept += bool((nonprivate_gap(rows, [0.25, 0.5, 0.75], release.value) <= likely).all())
    assert kept >= 96
