"""Predictions: what public data and yesterday save, and what they cost."""

from __future__ import annotations

from benchmarks import learning
from benchmarks.target import Target

TARGETS = [
    Target(
        "public-fit-error-vs-uniform-epsilon-0.1",
        learning.measure,
        "public_fit_vs_uniform_epsilon_0.1",
        "<=",
        0.45,
    ),
    Target(
        "public-fit-error-vs-uniform-epsilon-1",
        learning.measure,
        "public_fit_vs_uniform_epsilon_1",
        "<=",
        0.6,
    ),
    Target(
        "public-fit-shifted-vs-uniform-epsilon-1",
        learning.measure,
        "shifted_vs_uniform_epsilon_1",
        "<=",
        1.15,
    ),
    Target(
        "daily-error-vs-uniform-citibike-epsilon-0.1",
        learning.measure,
        "daily_vs_uniform_epsilon_0.1",
        "<=",
        0.55,
    ),
    Target(
        "daily-error-vs-uniform-flights-epsilon-0.1",
        learning.measure,
        "flights_vs_uniform_epsilon_0.1",
        "<=",
        0.65,
    ),
    Target("public-fit-seconds", learning.measure, "fit_seconds", "<=", 1),
    Target("daily-step-milliseconds", learning.measure, "step_milliseconds", "<=", 20),
]
