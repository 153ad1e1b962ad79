"""Data release: a synthetic table that starts from what is known.

The seam between the table side and the engines: `Domain` (domain.py), `Workload` (workload.py), `PrivateMarginals` with
`Protection` (private_marginals.py), a plan whose `claims` are known before the rows (`MarginalPlan` in plan.py,
`MWEMPlan` in mwem.py), a `Prior` (prior.py), and, in engine.py,
`release_distribution(counts, plan, prior=, space=, source=) -> Fitted`.

Users write `SyntheticTable` (query.py) and read its release with `Synthetic` (released.py).
"""

from sidelight.synthesis.axes import Axis
from sidelight.synthesis.prediction import PublicTable
from sidelight.synthesis.query import SyntheticTable
from sidelight.synthesis.released import Synthetic
from sidelight.synthesis.workload import Workload, linear_queries, marginals, prefixes, ranges

__all__ = [
    "Axis",
    "PublicTable",
    "Synthetic",
    "SyntheticTable",
    "Workload",
    "linear_queries",
    "marginals",
    "prefixes",
    "ranges",
]
