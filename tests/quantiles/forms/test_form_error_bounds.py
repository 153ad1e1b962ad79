"""Error bounds of the forms: they cover, and the one without assumptions is larger."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import sidelight as sl
from sidelight.quantiles.evaluate import nonprivate_gap
from sidelight.quantiles.tree import even_levels

Draw = Callable[[np.random.Generator], np.ndarray]
KINDS: dict[str, tuple[Draw, dict[str, object]]] = {
    "normal": (lambda rng: rng.standard_normal(6000), {}),
    "lognormal": (lambda rng: rng.lognormal(10, 1, 6000), {"lower": 0, "upper": 1e9}),
    "two modes": (lambda rng: np.where(rng.random(6000) < 0.5, -5.0, 5.0) + rng.standard_normal(6000), {}),
    "pareto": (lambda rng: 1 + rng.pareto(1.1, 6000), {}),
    "ages": (lambda rng: np.rint(rng.gamma(6, 6.4, 6000)), {"granularity": 1, "lower": 0, "upper": 120}),
}


def coverage(count: int, trials: int) -> tuple[float, float]:
    """Return the share of releases whose every level keeps its bound at 95 %, and the median of bound over gap."""
    covered, ratios = [], []
    for place, (draw, declared) in enumerate(KINDS.values()):
        rng = np.random.default_rng([count, place])
        query = sl.Quantiles(even_levels(count), epsilon=1, **declared)  # type: ignore[arg-type]
        for _ in range(trials):
            values = draw(rng)
            release = query.release(values)
            gaps, bounds = nonprivate_gap(values, even_levels(count), release.value), release.error_bound(0.95)
            covered.append(bool((gaps <= bounds + 1e-9).all()))
            ratios.append(bounds.max() / max(gaps.max(), 1.0))
    return float(np.mean(covered)), float(np.median(ratios))


@pytest.mark.parametrize("count", [9, 49])
def test_error_bounds_cover(count: int) -> None:
    """In 25 releases of five kinds; 95 % would fail this with probability below 1e-6 (more than nine of 25 misses)."""
    covered, ratio = coverage(count, trials=5)
    assert covered >= 0.64
    assert ratio < 6


@pytest.mark.slow
@pytest.mark.parametrize("count", [9, 49, 199, 999])
def test_error_bounds_cover_nearly_always(count: int) -> None:
    """In 200 releases: at least the nominal share less two percent, and four standard errors."""
    covered, ratio = coverage(count, trials=40)
    assert covered >= 0.93 - 4 * (0.95 * 0.05 / 200) ** 0.5
    assert ratio <= 4.5
