"""Privacy reports: the bounds that people read, and the page they read them on."""

from __future__ import annotations

from benchmarks import privacy_page_speed, privacy_report
from benchmarks.target import Target

TARGETS = [
    Target("bound-over-exact-loss-1000-people", privacy_report.measure, "worst_bound_over_exact_objective", ">=", 1),
    Target(
        "bound-over-exact-loss-1000-people-descent", privacy_report.measure, "worst_bound_over_exact_descent", ">=", 1
    ),
    Target("violations-at-rho-0.1", privacy_report.measure, "violations_at_rho_1_in_10_objective", "<=", 0.1),
    Target("violations-at-rho-0.1-descent", privacy_report.measure, "violations_at_rho_1_in_10_descent", "<=", 0.1),
    Target("median-bound-over-epsilon-credit", privacy_report.measure, "median_over_epsilon_objective", "<=", 0.5),
    Target(
        "median-bound-over-epsilon-credit-descent", privacy_report.measure, "median_over_epsilon_descent", "<=", 0.5
    ),
    Target("page-kilobytes-100-features", privacy_page_speed.measure, "page_kilobytes", "<=", 200),
    Target("answer-milliseconds-100-features", privacy_page_speed.measure, "answer_milliseconds", "<=", 50),
]
