"""Gaussians and mixtures with a few public rows: error against non-private estimates and CoinPress, and speed."""

from __future__ import annotations

from benchmarks import gaussians, mixtures
from benchmarks.target import Target

TARGETS = [
    Target("mean-one-public-row-vs-non-private", gaussians.measure, "mean_vs_plain", "<=", 1.3),
    Target("mean-one-public-row-vs-coinpress", gaussians.measure, "mean_vs_coinpress", "<=", 0.1),
    Target("covariance-five-public-rows-vs-non-private", gaussians.measure, "covariance_vs_plain", "<=", 1.25),
    Target("pure-covariance-vs-non-private", gaussians.measure, "pure_vs_plain", "<=", 1.4),
    Target("seconds-1e6-by-50-in-memory-vs-numpy", gaussians.measure, "memory_vs_plain", "<=", 5),
    Target("seconds-1e6-by-50-parquet-vs-numpy", gaussians.measure, "parquet_vs_plain", "<=", 5),
    Target("mixture-separation-6-all-found", mixtures.measure, "matched_at_6", ">=", 0.95),
    Target("mixture-separation-2-refused", mixtures.measure, "refused_at_2_or_less", ">=", 1),
    Target("mixture-one-component-too-many-refused", mixtures.measure, "refused_one_too_many", ">=", 0.9),
]
