"""How far off answers are said to be: kinds that say nothing, and bounds of quantiles against the errors made."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import sized

_TESTS = Path(__file__).parent.parent / "tests" / "report"


def kinds() -> Mapping[str, float]:
    """Count the kinds of a plan that say before they run, or in their release, nothing of how far off they are."""
    sys.path.insert(0, str(_TESTS))
    try:
        from every_kind import every_kind
    finally:
        sys.path.remove(str(_TESTS))
    from sidelight.accuracy.expected import expected, with_expected
    from sidelight.group_table import GroupTable
    from sidelight.plans import read_plan
    from sidelight.release import Release

    with tempfile.TemporaryDirectory() as name:
        report = every_kind(Path(name))
        plan = read_plan(Path(name) / "plan.toml")
    blank = []
    for item, planned in zip(report.items, plan.queries, strict=True):
        before = expected(planned.query, planned.prepared, plan.schema, confidence=0.95)
        told = with_expected(item.outcome, planned.query, planned.prepared, plan.schema)
        assert isinstance(told, Release), planned.title
        intervals = isinstance(told.value, GroupTable) and any(
            column.endswith(("low", "noise_sd")) for column in told.value.columns
        )
        if before.basis == "nothing" or not (before.size >= 0) or (told.error is None and not intervals):
            blank.append(planned.title)
    return {"without": float(len(blank))}


#: Draws of the noise in each case of quantiles: of 100 the fifth largest is about the 95 % quantile.
DRAWS = sized(100, 1)
_LEVELS = {"median": [0.5], "quartiles": [0.25, 0.5, 0.75], "deciles": [n / 10 for n in range(1, 10)]}


def quantile_cases() -> list[tuple[str, np.ndarray, dict[str, Any]]]:
    """Return standard cases: name, generated rows, and what the column declares."""
    rng = np.random.default_rng(7)
    pay = np.round(rng.lognormal(10, 0.6, 20_000))
    ages = np.round(np.clip(rng.normal(42, 15, 5_000), 0, 110))
    humps = np.concatenate([rng.normal(-3, 1, 5_000), rng.normal(4, 0.5, 5_000)])
    return [
        ("pay, bounds far too wide", pay, {"lower": 0, "upper": 10_000_000}),
        ("pay, no bounds", pay, {}),
        ("pay, whole numbers", pay, {"lower": 0, "upper": 1_000_000, "granularity": 1}),
        ("ages, whole years", ages, {"granularity": 1, "lower": 0, "upper": 110}),
        ("uniform", rng.uniform(0, 1, 2_000), {"lower": 0, "upper": 1}),
        ("two humps", humps, {"lower": -20, "upper": 20}),
        ("heavy tail", rng.pareto(1.5, 50_000) + 1, {"lower": 0}),
    ]


def bounds(*, draws: int = DRAWS, told: bool = False) -> Mapping[str, float]:
    """Compare the likely error at 95 % with the 95 % quantile of the error made, both the largest over the levels.

    `stated_ratio` is the same of the bound that assumes nothing.
    """
    import sidelight as sl
    from benchmarks.rounded_laws import likely_error
    from sidelight.quantiles.evaluate import nonprivate_gap
    from sidelight.testing import seeded_release

    ratios, covered, stated = [], [], []
    for place, (name, rows, declared) in enumerate(quantile_cases()[: sized(None, 1)]):
        schema = [sl.Number("value", **declared)]
        table = sl.Table({"value": rows}, schema=schema)
        for which, levels in _LEVELS.items():
            for epsilon in ("0.1", "1"):
                query = sl.Quantiles(levels, column="value", epsilon=epsilon)
                releases = [seeded_release(query, table, seed=f"{place} {n}") for n in range(draws)]
                gaps = np.stack([nonprivate_gap(rows, levels, each.value) for each in releases])
                # what a release says of itself: many levels choose their form, and so their bound, by a released count
                bounds_told = np.stack([likely_error(each) for each in releases])
                most = float(np.median([each.error_bound(0.95).max() for each in releases]))
                worst = np.sort(gaps.max(axis=1))[int(0.95 * draws)]
                said = float(np.median(bounds_told.max(axis=1)))
                ratios.append(said / max(worst, 0.5))
                stated.append(most / max(worst, 0.5))
                covered.append(float((gaps <= bounds_told).all(axis=1).mean()))
                if told:
                    said_of = f"bound {said:7.1f} made {worst:7.1f} ratio {ratios[-1]:6.2f} covered {covered[-1]:.3f}"
                    print(f"{name:26} {which:10} {epsilon:4} {said_of}")
    return {
        "ratio": float(np.median(ratios)),
        "stated_ratio": float(np.median(stated)),
        "least_covered": min(covered),
    }
