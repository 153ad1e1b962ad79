"""Covariance: error with good and bad predictions, against the paper and other libraries; speed and memory."""

from __future__ import annotations

from benchmarks import covariance, covariance_speed
from benchmarks.peers import covariance as covariance_peers
from benchmarks.target import Target

TARGETS = [
    Target("denoise-public-rows-vs-paper-algorithm-6", covariance.measure, "denoise_vs_paper", "<=", 0.70),
    Target("denoise-public-rows-vs-plain-goe", covariance.measure, "denoise_vs_goe", "<=", 0.85),
    Target("denoise-bad-prediction-vs-plain-goe", covariance.measure, "bad_vs_goe", "<=", 1.02),
    Target("pure-denoise-vs-printed-separate", covariance.measure, "pure_vs_printed", "<=", 0.20),
    Target("error-5-columns-vs-diffprivlib", covariance_peers.measure, "our_error_5_vs_diffprivlib", "<=", 0.12),
    Target("error-5-columns-vs-opendp", covariance_peers.measure, "our_error_5_vs_opendp", "<=", 0.12),
    Target("error-20-columns-vs-laplace", covariance_peers.measure, "our_error_20_vs_laplace", "<=", 0.3),
    Target("seconds-20-columns", covariance_peers.measure, "our_seconds_20", "<=", 0.1),
    Target("diffprivlib-seconds-20-columns", covariance_peers.measure, "diffprivlib_seconds_20", ">=", 45),
    Target("opendp-seconds-20-columns", covariance_peers.measure, "opendp_seconds_20", ">=", 45),
    Target("time-1e5-by-1000-vs-blas", covariance_speed.measure, "ours_vs_blas", "<=", 1.5),
    Target("matrices-beyond-the-batch", covariance_speed.measure, "matrices", "<=", 3),
]
