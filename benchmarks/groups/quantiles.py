"""Quantiles: speed, memory, and error against other rules and other libraries."""

from __future__ import annotations

from benchmarks import likely_errors, quantile_accuracy, quantile_many, quantile_speed
from benchmarks.peers import deciles
from benchmarks.target import Target

TARGETS = [
    Target("deciles-1e7-vs-sort", quantile_speed.measure, "deciles_vs_sort", "<=", 1.5),
    Target("199-quantiles-1e7-vs-sort", quantile_speed.measure, "many_vs_sort", "<=", 1.7),
    Target(
        "199-quantiles-post-processing-milliseconds",
        quantile_speed.measure,
        "many_post_processing_milliseconds",
        "<=",
        50,
    ),
    Target("sampling-1e7-vs-sort", quantile_speed.measure, "sampling_vs_sort", "<=", 0.01),
    Target("parquet-1e7-vs-duckdb-count", quantile_speed.measure, "parquet_vs_count", "<=", 3),
    Target("parquet-1e7-peak-gigabytes", quantile_speed.measure, "parquet_peak_gigabytes", "<=", 1),
    Target("error-exact-vs-floored-epsilon-1", quantile_accuracy.measure, "exact_vs_floor_eps1_m9", "<=", 0.65),
    Target(
        "error-exact-vs-floored-epsilon-0.1",
        quantile_accuracy.measure,
        "exact_vs_floor_eps01_m9",
        "<=",
        0.65,
    ),
    Target(
        "scale-free-bound-excess-vs-limit",
        quantile_accuracy.measure,
        "scale_free_excess_vs_limit",
        "<=",
        1,
    ),
    Target(
        "scale-free-error-vs-cauchy-off-by-1e6",
        quantile_accuracy.measure,
        "scale_free_vs_wrong_cauchy",
        "<=",
        1,
    ),
    Target("likely-errors-refuted", likely_errors.measure, "refuted", "<=", 0),
    Target("likely-errors-exceeded", likely_errors.measure, "exceeded", "<=", 0.05),
    Target("likely-over-error-smooth", likely_errors.measure, "over_error", "<=", 8),
    Target("speed-1e6-vs-diffprivlib", deciles.measure, "diffprivlib_time_vs_ours_1e6", ">=", 100),
    Target("speed-1e6-vs-opendp-tree", deciles.measure, "opendp_time_vs_ours_1e6", ">=", 10),
    Target("speed-1e6-vs-python-dp", deciles.measure, "python_dp_time_vs_ours_1e6", ">=", 3),
    Target("error-1e4-vs-best-peer", deciles.measure, "our_gap_vs_best_peer_1e4", "<=", 0.6),
    Target("error-1e6-vs-best-peer", deciles.measure, "our_gap_vs_best_peer_1e6", "<=", 0.6),
    *(Target(name, quantile_many.measure, figure, sense, limit) for name, figure, sense, limit in quantile_many.LIMITS),
]
