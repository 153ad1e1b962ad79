"""Data release: a synthetic table that starts from what is known.

Users write `SyntheticTable` (query) and read its release with `Synthetic` (released). Below them, from the bottom up:
`domain`, `axes`, `workload` and `spaces` (cells); `measurement` and `selection` (exact counts, prices, noise); `prior`
and `refit` (fits); `engine_plan`, `marginal_engine`, `single_queries` and `loglinear` with `tree_points` (engines);
`answer_bounds`, `certify` and `answers` (errors); `prediction` and `pooling` (public rows and earlier releases).
"""

from sidelight.synthesis.axes import Axis
from sidelight.synthesis.query import SyntheticTable
from sidelight.synthesis.released import Synthetic
from sidelight.synthesis.workload import Workload, linear_queries, marginals, prefixes, ranges

__all__ = [
    "Axis",
    "Synthetic",
    "SyntheticTable",
    "Workload",
    "linear_queries",
    "marginals",
    "prefixes",
    "ranges",
]
