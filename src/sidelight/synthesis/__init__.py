"""Data release: a synthetic table that starts from what is known.

Users write `SyntheticTable` (query.py) and read its release with `Synthetic` (output/released.py). Below them, from the
bottom up: `cells` (domain, workload, points), `measuring` (prices, exact counts, selection, noise), `fitting` (priors
and refits), `engines` (plans whose `claims` are known before the rows; `release_distribution` in engines/marginals.py),
`bounds`, `output`, and `predicted` (public rows and earlier releases).
"""

from sidelight.synthesis.cells.axes import Axis
from sidelight.synthesis.cells.workload import Workload, linear_queries, marginals, prefixes, ranges
from sidelight.synthesis.output.released import Synthetic
from sidelight.synthesis.query import SyntheticTable

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
