"""Additive models compared with DP-EBM and our linear models; predictions, wrong ones too; seconds.

A part of the group `regression`: `make targets ONLY=regression.additive` runs it alone. A ratio is that of two mean
errors over the same five splits.
"""

from __future__ import annotations

from benchmarks import additive_models, additive_predictions, additive_speed
from benchmarks.target import Target

#: Over DP-EBM at epsilon 0.1, 1 and 8.
NUMBERS = {
    "bike": (0.61, 0.76, 0.71),
    "diamonds": (0.23, 0.45, 0.47),
    "wine": (0.13, 0.70, 0.98),
    "nox": (0.35, 0.86, 0.91),
}
CLASSES = {
    "adult": (0.79, 0.80, 0.82),
    "credit": (0.96, 0.98, 0.98),
    "hi": (0.97, 0.96, 0.97),
    "flchain": (0.84, 0.89, 0.92),
}

SIDE_BY_SIDE = True
ALONE = (additive_speed.measure,)
_BOTH = ((additive_models.measure_numbers, NUMBERS), (additive_models.measure_classes, CLASSES))
TARGETS = [
    *[
        Target(f"additive-vs-ebm-{name}-{epsilon:g}", script, f"{name}_{epsilon:g}", "<=", limit)
        for script, limits in _BOTH
        for name, each in limits.items()
        for epsilon, limit in zip(additive_models.EPSILONS, each, strict=True)
    ],
    Target("additive-never-above-ebm", additive_models.measure_numbers, "largest_over_ebm", "<=", 1.05),
    Target("additive-never-above-ebm-classes", additive_models.measure_classes, "largest_over_ebm", "<=", 1.05),
    Target("additive-vs-linear-cells", additive_models.measure_numbers, "share_near_linear", ">=", 0.86),
    Target("additive-vs-linear-cells-classes", additive_models.measure_classes, "share_near_linear", ">=", 0.86),
    Target("additive-public-tenth", additive_predictions.measure, "tenth_excess", "<=", 0.015),
    Target("additive-flipped-cost", additive_predictions.measure, "flipped_excess", "<=", 0.02),
    Target("additive-flipped-vs-default", additive_predictions.measure, "flipped_over_default", "<=", 1.15),
    # of a fit without a line stage, which has the whole budget for curves: 100,000 rows of 20 columns
    Target("additive-seconds-1e5x20", additive_speed.measure, "seconds_lines_none", "<=", 3),
]
