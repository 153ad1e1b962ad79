"""Propose, test, release: what a private test of well-behaved data saves, and what it costs where it cannot."""

from __future__ import annotations

from benchmarks import pate, stability_regression
from benchmarks.target import Target

TARGETS = [
    Target("pate-250-clear-votes-vs-plain", pate.measure, "clear_share_250", "<=", 0.6),
    Target("pate-400-clear-votes-vs-plain", pate.measure, "clear_share_400", "<=", 0.6),
    Target("pate-250-close-votes-vs-plain", pate.measure, "close_share_250", "<=", 1.2),
    Target("pate-400-close-votes-vs-plain", pate.measure, "close_share_400", "<=", 1.2),
    Target("pate-250-close-votes-said-in-advance", pate.measure, "close_said_250", ">=", 1),
    Target("pate-400-close-votes-said-in-advance", pate.measure, "close_said_400", ">=", 1),
    Target("pate-400-wrong-proposal-refused", pate.measure, "close_refused_400", ">=", 1),
    Target("pate-400-wrong-proposal-vs-plain", pate.measure, "close_refused_share_400", "<=", 1.2),
    Target("pate-analysis-1000-queries-seconds", pate.measure, "analysis_seconds", "<=", 2),
    Target(
        "regression-all-sets-vs-output-epsilon-0.1",
        stability_regression.measure,
        "worst_vs_output_epsilon_0.1",
        "<=",
        1,
    ),
    Target(
        "regression-all-sets-vs-output-epsilon-1", stability_regression.measure, "worst_vs_output_epsilon_1", "<=", 1
    ),
    Target(
        "regression-vs-log-cosh-where-predicted-epsilon-0.1",
        stability_regression.measure,
        "worst_vs_log_cosh_where_predicted_epsilon_0.1",
        "<=",
        1,
    ),
    Target(
        "regression-vs-log-cosh-where-predicted-epsilon-1",
        stability_regression.measure,
        "worst_vs_log_cosh_where_predicted_epsilon_1",
        "<=",
        1,
    ),
]
