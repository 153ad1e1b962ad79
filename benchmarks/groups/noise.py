"""What exact noise costs."""

from __future__ import annotations

from benchmarks import noise_cost
from benchmarks.target import Target

TARGETS = [
    Target("gaussian-1e6-vs-numpy-normal", noise_cost.measure, "gaussian_1e6_vs_numpy", "<=", 10),
    Target("laplace-1e6-vs-numpy-normal", noise_cost.measure, "laplace_1e6_vs_numpy", "<=", 10),
]
