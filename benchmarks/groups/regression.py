"""Linear models: accuracy vs DP-SGD, diffprivlib, AdaSSP and no privacy; predictions, wrong ones too; time, memory

A lead is in points of accuracy, the mean of the same splits. `make targets` cannot ask for "above", so 0.01 points is
the least lead that counts.
"""

from __future__ import annotations

from benchmarks import (
    linear_base_rates,
    linear_classes,
    linear_errors,
    linear_forecasts,
    linear_models,
    linear_predictions,
    linear_regression_accuracy,
    linear_speed,
    wide_ranges,
)
from benchmarks.peers import linear as linear_peers
from benchmarks.target import Target

#: The published accuracies of DP-SGD that was tuned for free (81.61, 83.54, 84.19), rounded; more at 0.1 by descent.
ADULT = {"0.1": 82.0, "1": 83.5, "8": 84.2}
#: Test accuracies of small sets and many classes: set, epsilon, least.
CLASSES = (("digits", 1.0, 0.87), ("digits", 8.0, 0.92), ("digits 0-4, 5-9", 1.0, 0.84), ("breast_cancer", 1.0, 0.93))

SIDE_BY_SIDE = True
ALONE = (linear_speed.measure,)
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
    *[
        Target(
            f"accuracy-{linear_classes.figure_name(name, epsilon).replace('_', '-')}",
            linear_classes.measure,
            linear_classes.figure_name(name, epsilon),
            ">=",
            least,
        )
        for name, epsilon, least in CLASSES
    ],
    Target("uci-share-near-the-better", linear_predictions.measure, "share_near_the_better", ">=", 0.85),
    Target("uci-share-above-both", linear_predictions.measure, "share_above_both", ">=", 0.6),
    Target("uci-share-near-the-old-default", linear_predictions.measure, "share_near_the_old_default", ">=", 0.9),
    Target("cost-of-shuffled-prediction", linear_predictions.measure, "cost_of_shuffled", "<=", 0.03),
    *[
        Target(f"cost-of-absurd-{what}", linear_predictions.measure_absurd, f"cost_of_absurd_{what}", "<=", 0.3)
        for what in ("rows", "coefficients")
    ],
    # of forecasts from public rows, the logarithm of the median ratio to what came, of a number or of classes
    Target("forecast-off-in-the-median", linear_forecasts.measure, "public_rows_off", "<=", 0.15),
    # how often the error that a release states at 95 % held where what it assumes holds
    *[
        Target(f"stated-error-held-{case.replace('_', '-')}", linear_errors.measure, case, ">=", 0.95)
        for case in ("a_number_public_rows", "a_number_without_a_map", "two_classes")
    ],
    Target("stated-error-held-separated", linear_errors.measure_separated, "separated", ">=", 0.95),
    # 8 columns of about 22,000 +- 9,000 declared 0..1,000,000, 20,000 rows, epsilon 1; 0.74 is possible
    Target("wide-ranges-r2", wide_ranges.measure, "r2", ">=", 0.6),
    # the largest share over six laws of rows of errors that did not hold, of 200 fits each; 5 % is stated
    Target("wide-ranges-errors-refuted", wide_ranges.measure, "errors_refuted", "<=", 0.05),
    # five features that do not matter, P(y = 1) = 0.2, epsilon 1, 20,000 rows: |mean probability - base rate|
    Target("base-rate-error", linear_base_rates.measure, "base_rate_error", "<=", 0.01),
    Target("base-rate-log-loss-above-constant", linear_base_rates.measure, "log_loss_above_constant", "<=", 0.005),
    # of eight laws, the one under which errors of classes that are stated at 95 % held least often
    Target("stated-error-of-classes-held-least", linear_base_rates.measure_laws, "held_least", ">=", 0.95),
    Target("adult-time-vs-sklearn-newton", linear_speed.measure, "adult_vs_sklearn", "<=", 4),
    Target("parquet-1e7-passes", linear_speed.measure, "parquet_passes", "<=", 20),
    Target("parquet-1e7-peak-gigabytes", linear_speed.measure, "parquet_peak_gigabytes", "<=", 1),
    Target("parquet-1e7-cores", linear_speed.measure, "parquet_cores", ">=", 1.3),
]
