"""Linear models: accuracy beside DP-SGD, diffprivlib, AdaSSP and no privacy at all; noise; time and memory.

A lead is in points of accuracy, the mean of the same splits. `make targets` cannot ask for "above", so 0.01 points is
the least lead that counts.
"""

from __future__ import annotations

from benchmarks import linear_models, linear_peers, linear_regression_accuracy, linear_speed
from benchmarks.target import Target

#: The published accuracies of DP-SGD that was tuned for free (81.61, 83.54, 84.19), as the issue rounds them.
ADULT = {"0.1": 81.6, "1": 83.5, "8": 84.2}

TARGETS = [
    Target("logistic-noise-vs-gaussian", linear_models.measure, "noise_vs_gaussian", "<=", 1.001),
    *[
        Target(f"adult-accuracy-epsilon-{epsilon}", linear_models.measure, f"adult_epsilon_{epsilon}", ">=", limit)
        for epsilon, limit in ADULT.items()
    ],
    *[
        Target(
            f"adult-lead-over-honest-dp-sgd-epsilon-{epsilon}",
            linear_models.measure,
            f"adult_lead_over_honest_epsilon_{epsilon}",
            ">=",
            0.01,
        )
        for epsilon in ADULT
    ],
    Target(
        "bike-sharing-r2-below-not-private-epsilon-1",
        linear_regression_accuracy.measure,
        "bike_r2_missing_epsilon_1",
        "<=",
        0.02,
    ),
    *[
        Target(
            f"uci-share-at-or-below-adassp-epsilon-{epsilon}",
            linear_regression_accuracy.measure,
            f"uci_share_epsilon_{epsilon}",
            ">=",
            2 / 3,
        )
        for epsilon in ("0.1", "1")
    ],
    Target("smallest-lead-over-diffprivlib", linear_peers.measure, "smallest_lead", ">=", 0.01),
    Target("adult-time-vs-sklearn-newton", linear_speed.measure, "adult_vs_sklearn", "<=", 3),
    Target("parquet-1e7-passes", linear_speed.measure, "parquet_passes", "<=", 12),
    Target("parquet-1e7-peak-gigabytes", linear_speed.measure, "parquet_peak_gigabytes", "<=", 1),
]
