"""What does exact noise cost, as a ratio to NumPy's normal and to OpenDP's samplers, measured in one run?

Ratios, because absolute times depend on the machine; the best of several runs of each, taken in turns, because a shared
machine has quiet and busy moments. `python benchmarks/noise_cost.py` prints the table.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from benchmarks.measuring import processor_time, sized
from sidelight.noise import (
    Categorical,
    OSEntropy,
    Source,
    discrete_laplace,
    integers_below,
    rounded_gaussian,
    standard_normal,
)

SIZES = sized({"1e3": 1_000, "1e5": 100_000, "1e6": 1_000_000}, {"1e3": 10, "1e5": 20, "1e6": 30})
_REPEATS = sized({"1e3": 60, "1e5": 7, "1e6": 4}, {"1e3": 1, "1e5": 1, "1e6": 1})

Job = Callable[[], object]


def samplers(source: Source, n: int) -> dict[str, Job]:
    """Name what is timed: one call of each draws n values."""
    scores, weights, halves = np.arange(n) % 1000, np.arange(1, n + 1), np.arange(n) % 2
    return {
        "gaussian": lambda: rounded_gaussian(n, Fraction(3), source),
        "gaussian_2^45": lambda: rounded_gaussian(n, Fraction(2**45), source),
        "gaussian_two_scales": lambda: rounded_gaussian(n, [Fraction(2**30), Fraction(3)], source, which=halves),
        "laplace": lambda: discrete_laplace(n, Fraction(3), source),
        "laplace_10/7": lambda: discrete_laplace(n, Fraction(10, 7), source),
        "standard_normal": lambda: standard_normal(n, source),
        "integers_below_2^20": lambda: integers_below(2**20, n, source),
        "categorical": lambda: Categorical(scores, Fraction(1, 20), weights).draw(source),
    }


def opendp_samplers(n: int) -> dict[str, Job]:
    """Name OpenDP's integer samplers at scale 3; empty if it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return {}
    dp.enable_features("contrib")
    domain, zeros = dp.vector_domain(dp.atom_domain(T=int)), [0] * n
    laplace = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=3.0)
    gaussian = dp.m.make_gaussian(domain, dp.l2_distance(T=int), scale=3.0)
    return {"opendp_laplace": lambda: laplace(zeros), "opendp_gaussian": lambda: gaussian(zeros)}


def seconds(jobs: dict[str, Job], repeats: int) -> dict[str, float]:
    """Time the jobs in turns and return the best CPU time of each."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(repeats):
        for name, job in jobs.items():
            best[name] = min(best[name], processor_time(job))
    return best


def measure() -> dict[str, float]:
    """Return ratios: `<sampler>_<size>_vs_numpy` (cost relative to NumPy's normal; lower is better) and
    `opendp_<sampler>_vs_ours_1e5` (how many times slower OpenDP is; higher is better)."""
    ratios: dict[str, float] = {}
    generator = np.random.default_rng(1)
    with Source(OSEntropy()) as source:
        for job in samplers(source, 10).values():
            job()  # builds the tables
        for label, n in SIZES.items():
            jobs = {"numpy": lambda n=n: generator.normal(size=n), **samplers(source, n)}
            best = seconds(jobs, _REPEATS[label])
            for name in samplers(source, 1):
                ratios[f"{name}_{label}_vs_numpy"] = best[name] / best["numpy"]
            if label == "1e5":
                theirs = seconds(opendp_samplers(n), 1)
                for name, ours in (("opendp_laplace", "laplace"), ("opendp_gaussian", "gaussian")):
                    if name in theirs:
                        ratios[f"{name}_vs_ours_1e5"] = theirs[name] / best[ours]
    return ratios


def main() -> None:
    """Print the table."""
    ratios = measure()
    names = list(samplers(Source(OSEntropy()), 1))
    print("CPU time per draw, as a multiple of numpy.random.Generator.normal")
    print(f"{'':22s}" + "".join(f"{label:>8s}" for label in SIZES))
    for name in names:
        print(f"{name:22s}" + "".join(f"{ratios[f'{name}_{label}_vs_numpy']:8.1f}" for label in SIZES))
    for name in ("opendp_laplace", "opendp_gaussian"):
        key = f"{name}_vs_ours_1e5"
        if key in ratios:
            print(f"{name:22s} takes {ratios[key]:.0f} times as long as ours at 1e5 draws")


if __name__ == "__main__":
    main()
