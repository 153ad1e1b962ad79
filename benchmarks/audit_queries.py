"""Every query and estimator attacked by `sidelight.audit.audit_query`, found by walking the registry.

    python -m benchmarks.audit_queries [seconds for each]

`cases` has one query for each name of the registry and each public estimator; `ELSEWHERE` says which have no table to
generate and are attacked by a test of their own. `TIGHT` are queries whose claim can nearly be reached: an audit that
refutes little of those has no teeth.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import sidelight as sl
from benchmarks.audit_failures import queries, schema_of
from sidelight.audit import QueryAudit, audit_query
from sidelight.registry import ENTRIES

SECONDS = 4.0
RUNS = 4000

#: The query of `audit_failures.queries` that stands for a public name, where it is not called the same.
_STANDS_FOR = {
    "ModelQuery": "LinearRegression, huber",
    "SeparatedMixture": "SeparatedMixture, public-cluster",
    "Count": "Count, predicted",
}
#: Public names that are attacked by a test of their own, or whose release is post-processing of another's.
ELSEWHERE = {
    "PrivateHistograms": "quantiles/sequence/test_sequence_private.py",
    "PATE": "stability/test_pate_audit.py",
    "PCA": "covariance/test_covariance_audit.py",  # of a released covariance
    "GaussianModel": "gaussians/test_gaussian_audit.py",  # keeps a released GaussianFit
    "GaussianMixture": "gaussians/test_mixture_privacy.py",  # keeps a released SeparatedMixture
}
#: Public classes with a `fit` that releases nothing.
NO_RELEASE = {"PublicScaler", "TableEncoding"}
#: Quick enough for every run of the tests.
QUICK = ("Quantiles", "Count", "Histogram", "CountDistinct", "TopK", "StableMedian", "StableMode", "MajorityVote")

_GRID = sl.Number("x", lower=0, upper=4, granularity=1)
_ODDS = math.exp(-1)
_CELLS = [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5]
_PRIOR = sl.priors.Histogram(_CELLS, [1.0, 1e-9, _ODDS / 3, _ODDS / 3, _ODDS / 3])
_UNIT = [sl.Number("b", lower=-1, upper=1), sl.Category("c", ["x", "y"], other=None)]


def names() -> set[str]:
    """Return every public name that releases something: queries of the registry, and classes that can be fitted."""
    fitted = {name for name in sl.__all__ if isinstance(each := getattr(sl, name), type) and hasattr(each, "fit")}
    return {entry.name for entry in ENTRIES} | (fitted - NO_RELEASE)


def cases() -> dict[str, tuple[Any, list[Any]]]:
    """Return one query with its columns for each name that can be attacked on a generated table."""
    known = queries()
    found = {}
    for name in sorted(names() - set(ELSEWHERE)):
        key = _STANDS_FOR.get(name, name)
        if key in known:
            found[name] = (known[key], schema_of(known[key]))
    return found


def tight() -> dict[str, tuple[Any, list[Any], dict[str, Any]]]:
    """Return queries whose claim can nearly be reached, with their columns and how long they are attacked."""
    logistic = sl.LogisticRegression(epsilon=4, delta="1e-3", solver="objective")
    return {
        "quantile": (
            sl.Quantiles([0.5], column="x", epsilon=1, prediction=_PRIOR),
            [_GRID],
            {"runs": 8000, "tries": 200},
        ),
        "count": (sl.Count(where=sl.col("x") > 1, epsilon=1), [_GRID], {"runs": 4000, "tries": 20}),
        "gaussian": (sl.Count(where=sl.col("x") > 1, mu=1), [_GRID], {"runs": 4000, "tries": 20}),
        "logistic": (
            sl.ModelQuery(model=logistic, target="c"),
            _UNIT,
            {"runs": 4000, "tries": 40},
        ),
    }


def attacked(*, seconds: float = SECONDS) -> Iterator[tuple[str, QueryAudit]]:
    """Attack every case, each for about so long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (query, schema) in cases().items():
            yield name, audit_query(query, schema, runs=RUNS, seconds=seconds)


def attacked_tight() -> Iterator[tuple[str, QueryAudit]]:
    """Attack the queries whose claim can nearly be reached."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (query, schema, how) in tight().items():
            yield name, audit_query(query, schema, **how)


def measure(*, seconds: float = SECONDS) -> dict[str, float]:
    """Return how many claims were refuted, how many names have no audit, and the least share of a tight claim."""
    found = dict(attacked(seconds=seconds))
    close = dict(attacked_tight())
    everything = [*found.values(), *close.values()]
    for name, each in (found | close).items():
        print(f"{name}: {each.share:.2f} of {each.best.claim}, {each}", file=sys.stderr)
    return {
        "refuted": float(sum(each.refuted for each in everything)),
        "raised": float(sum(sum(each.raised) for each in everything)),
        "without": float(len(names() - set(ELSEWHERE) - set(found))),
        "tight": min(each.share for each in close.values()),
        "seconds": sum(each.seconds for each in everything),
    }


if __name__ == "__main__":
    print(measure(seconds=float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS))
