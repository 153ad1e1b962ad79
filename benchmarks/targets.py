"""`make targets`: every target of every issue, measured now. `--only GROUP` for one group.

Exit status 1 when a target is missed or cannot be measured. A script runs once, whatever the number of its targets.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping

from benchmarks import learning, noise_cost, peers, quantile_accuracy, quantile_speed
from benchmarks.target import Target

TARGETS = [
    Target("noise", "gaussian-1e6-vs-numpy-normal", noise_cost.measure, "gaussian_1e6_vs_numpy", "<=", 10),
    Target("noise", "laplace-1e6-vs-numpy-normal", noise_cost.measure, "laplace_1e6_vs_numpy", "<=", 10),
    Target("quantiles", "deciles-1e7-vs-sort", quantile_speed.measure, "deciles_vs_sort", "<=", 2.5),
    Target("quantiles", "sampling-1e7-vs-sort", quantile_speed.measure, "sampling_vs_sort", "<=", 0.01),
    Target("quantiles", "parquet-1e7-vs-duckdb-count", quantile_speed.measure, "parquet_vs_count", "<=", 3),
    Target("quantiles", "parquet-1e7-peak-gigabytes", quantile_speed.measure, "parquet_peak_gigabytes", "<=", 1),
    Target(
        "quantiles", "error-exact-vs-floored-epsilon-1", quantile_accuracy.measure, "exact_vs_floor_eps1_m9", "<=", 0.65
    ),
    Target(
        "quantiles",
        "error-exact-vs-floored-epsilon-0.1",
        quantile_accuracy.measure,
        "exact_vs_floor_eps01_m9",
        "<=",
        0.65,
    ),
    Target(
        "quantiles",
        "scale-free-bound-excess-vs-limit",
        quantile_accuracy.measure,
        "scale_free_excess_vs_limit",
        "<=",
        1,
    ),
    Target(
        "quantiles",
        "scale-free-error-vs-cauchy-off-by-1e6",
        quantile_accuracy.measure,
        "scale_free_vs_wrong_cauchy",
        "<=",
        1,
    ),
    Target("quantiles", "speed-1e6-vs-diffprivlib", peers.measure, "diffprivlib_time_vs_ours_1e6", ">=", 100),
    Target("quantiles", "speed-1e6-vs-opendp-tree", peers.measure, "opendp_time_vs_ours_1e6", ">=", 10),
    Target("quantiles", "speed-1e6-vs-python-dp", peers.measure, "python_dp_time_vs_ours_1e6", ">=", 3),
    Target("quantiles", "error-1e4-vs-best-peer", peers.measure, "our_gap_vs_best_peer_1e4", "<=", 0.6),
    Target("quantiles", "error-1e6-vs-best-peer", peers.measure, "our_gap_vs_best_peer_1e6", "<=", 0.6),
    Target(
        "predictions",
        "public-fit-error-vs-uniform-epsilon-0.1",
        learning.measure,
        "public_fit_vs_uniform_epsilon_0.1",
        "<=",
        0.45,
    ),
    Target(
        "predictions",
        "public-fit-error-vs-uniform-epsilon-1",
        learning.measure,
        "public_fit_vs_uniform_epsilon_1",
        "<=",
        0.6,
    ),
    Target(
        "predictions",
        "public-fit-shifted-vs-uniform-epsilon-1",
        learning.measure,
        "shifted_vs_uniform_epsilon_1",
        "<=",
        1.15,
    ),
    Target(
        "predictions",
        "daily-error-vs-uniform-epsilon-0.1",
        learning.measure,
        "daily_vs_uniform_epsilon_0.1",
        "<=",
        0.55,
    ),
    Target("predictions", "public-fit-seconds", learning.measure, "fit_seconds", "<=", 1),
    Target("predictions", "daily-step-milliseconds", learning.measure, "step_milliseconds", "<=", 20),
]


def main() -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted({target.group for target in TARGETS}), help="one group of targets")
    only = parser.parse_args().only
    measured: dict[Callable[[], Mapping[str, float]], Mapping[str, float]] = {}
    all_kept = True
    for target in TARGETS:
        if only and target.group != only:
            continue
        if target.script not in measured:
            start = time.perf_counter()
            try:
                measured[target.script] = target.script()
            except Exception as error:  # one script that cannot run must not hide the others' numbers
                measured[target.script] = {}
                print(f"{target.script.__module__}: {error}", file=sys.stderr)
            print(f"{target.script.__module__}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
        value = measured[target.script].get(target.figure, float("nan"))
        line, kept = target.line(value)
        print(line, flush=True)
        all_kept &= kept
    return 0 if all_kept else 1


if __name__ == "__main__":
    sys.exit(main())
