"""Every query and estimator attacked by `sidelight.audit.audit_query`, found by walking the registry.

    python -m benchmarks.audit_queries [seconds for each]

`cases` has one query for each name of the registry and each public estimator; `ELSEWHERE` says which have no table to
generate and are attacked by a test of their own. Claims that can nearly be reached are attacked by `audit_tight`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import sidelight as sl
from benchmarks.audit_failures import queries, schema_of
from benchmarks.measuring import sized
from sidelight.audit import QueryAudit, audit_query
from sidelight.registry import ENTRIES

SECONDS = sized(6.0, 0.01)
RUNS = sized(4000, 8)

#: The query of `audit_failures.queries` that stands for a public name, where it is not called the same.
_STANDS_FOR = {
    "ModelQuery": "LinearRegression, huber",
    "SeparatedMixture": "SeparatedMixture, public-cluster",
    "Count": "Count, predicted",
}
#: Further queries of `audit_failures.queries` whose claims or noise are made in another way than their kind's.
_MORE = ("Count, exact totals", "Count, public totals", "Sum, public totals", "Sum, hierarchy, predicted")
#: Public names that are attacked by a test of their own, or whose release is post-processing of another's.
ELSEWHERE = {
    "PrivateHistograms": "quantiles/sequence/test_sequence_private.py",
    "PubTrack": "quantiles/sequence/test_sequence_tracked.py",
    "PATE": "stability/test_pate_audit.py",
    "PCA": "covariance/test_covariance_audit.py",  # of a released covariance
    "GaussianModel": "gaussians/test_gaussian_audit.py",  # keeps a released GaussianFit
    "GaussianMixture": "gaussians/test_mixture_privacy.py",  # keeps a released SeparatedMixture
}
#: Public classes with a `fit` that releases nothing.
NO_RELEASE = {"PublicScaler", "TableEncoding"}
#: Quick enough for every run of the tests.
QUICK = ("Quantiles", "Count", "Histogram", "CountDistinct", "TopK", "StableMedian", "StableMode", "MajorityVote")


def names() -> set[str]:
    """Return every public name that releases something: queries of the registry, and classes that can be fitted."""
    fitted = {name for name in sl.__all__ if isinstance(each := getattr(sl, name), type) and hasattr(each, "fit")}
    return {entry.name for entry in ENTRIES} | (fitted - NO_RELEASE)


def cases() -> dict[str, tuple[Any, list[Any]]]:
    """Return one query with its columns for each name that can be attacked on a generated table."""
    known = queries()
    found = {}
    for name in sized(sorted(names() - set(ELSEWHERE)), list(QUICK[1:5])):
        key = _STANDS_FOR.get(name, name)
        if key in known:
            found[name] = (known[key], schema_of(known[key]))
    return found | {key: (known[key], schema_of(known[key])) for key in _MORE}


def attacked(*, seconds: float = SECONDS) -> Iterator[tuple[str, QueryAudit]]:
    """Attack every case, each for about so long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (query, schema) in cases().items():
            yield name, audit_query(query, schema, runs=RUNS, seconds=seconds)


def measure(*, seconds: float = SECONDS) -> dict[str, float]:
    """Return how many claims were refuted, in how many runs something was raised, and how many names have no audit."""
    found = dict(attacked(seconds=seconds))
    for name, each in found.items():
        print(f"{name}: {each.share:.2f} of {each.best.claim}, {each}", file=sys.stderr)
    return {
        "refuted": float(sum(each.refuted for each in found.values())),
        "raised": float(sum(sum(each.raised) for each in found.values())),
        "without": float(len(names() - set(ELSEWHERE) - set(found))),
        "seconds": sum(each.seconds for each in found.values()),
    }


if __name__ == "__main__":
    print(measure(seconds=float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS))
