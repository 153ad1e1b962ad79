"""Memory after the charge: the largest legal plan of every query, on an empty table, in a process of its own.

What runs after a charge must fit into a small machine: one that is killed there was paid for nothing. `prepare` refuses
larger plans by public numbers. Sizes here are those limits; what one step above them is refused, a test holds.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import sidelight as sl
from sidelight.aggregates.counts import MAX_CELLS, MOST_GROUPS
from sidelight.aggregates.moments import MOST_COLUMNS
from sidelight.errors import SidelightError
from sidelight.quantiles.by_group import MOST_RELEASED
from sidelight.quantiles.forms.rule import MOST_CODES
from sidelight.quantiles.query import MOST_LEVELS
from sidelight.session.pipeline import _run_one
from sidelight.session.query import prepare_query
from sidelight.summaries.clipping import _MOST_TREES
from sidelight.testing import SeededEntropy

Plan = Callable[[], tuple[Any, list[Any]]]
PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}


def numbers(count: int, **more: Any) -> list[Any]:
    """Declare number columns x0, x1, ..."""
    return [sl.Number(f"x{place}", **{"lower": -1, "upper": 1, **more}) for place in range(count)]


def names(count: int) -> list[str]:
    """Name them."""
    return [f"x{place}" for place in range(count)]


def labels(count: int, name: str = "c") -> Any:
    """Declare a category of this many labels."""
    return sl.Category(name, [str(place) for place in range(count)], other=None)


def tens(leaves: int) -> sl.Hierarchy:
    """Put ten labels under each node, and a thousand of these under each node above."""
    every = [str(place) for place in range(leaves)]
    nodes = {f"by {size}": [str(place // size) for place in range(leaves)] for size in (10_000, 10)}
    return sl.Hierarchy("c", {"c": every, **nodes}, levels=list(nodes))


def grouped(name: str, groups: int, **more: Any) -> Plan:
    """Ask for a statistic of a number in this many groups."""
    column: Any = sl.col("c") == "1" if name == "Proportion" else "x0"
    return lambda: (getattr(sl, name)(column, by="c", epsilon=1, **more), [*numbers(1), labels(groups)])


def model(kind: str, columns: int, target: Any, **more: Any) -> Plan:
    """Fit a model of many columns."""
    return lambda: (
        sl.ModelQuery(model=getattr(sl, kind)(**PRICE, **more), target=target.name),
        [*numbers(columns), target],
    )


def many_labels() -> Any:
    """Fit an additive model of about as many labels as there may be in all."""
    texts = [str(place) for place in range(1 << 14)]
    columns = [sl.Category(f"x{place}", texts, other=None) for place in range(60)]
    return sl.ModelQuery(model=sl.AdditiveRegressor(**PRICE), target="y"), [*columns, TARGET]


def fit(kind: str, target: Any, **more: Any) -> Plan:
    """Fit by sufficient statistics or stability, of as many columns as there may be."""
    width = MOST_COLUMNS - 1
    price = {"mu": 1} if kind == "AdaSSP" else PRICE
    return lambda: (
        getattr(sl, kind)(features=names(width), target=target.name, feature_norm=1, **price, **more),
        [*numbers(width), target],
    )


def _nothing(value: Any) -> float:
    return 0.0


LEVELS = sl.quantiles.even_levels(MOST_LEVELS)
TARGET = sl.Number("y", lower=-1, upper=1)
#: By kind: plans at the limits. Kinds that only add to another one's work have that one's plan.
PLANS: dict[str, Sequence[Plan]] = {
    "quantiles": [
        lambda: (
            sl.Quantiles(LEVELS, epsilon=1, form="codes"),
            numbers(1, lower=0, upper=MOST_CODES - 1, granularity=1),
        ),
        lambda: (sl.Quantiles(LEVELS, epsilon=1, form="cells", size=10**12), numbers(1)),
        lambda: (sl.Quantiles(sl.quantiles.even_levels(1000), epsilon=1, form="select"), numbers(1)),
        lambda: (sl.Quantiles(LEVELS, epsilon=1, form="tree"), numbers(1)),
        lambda: (sl.Quantiles([0.5], column="x0", by="c", epsilon=1), [*numbers(1), labels(MOST_RELEASED)]),
    ],
    "distribution": [lambda: (sl.Distribution("x0", epsilon=1, size=10**12), numbers(1))],
    "count": [
        lambda: (sl.Count(by="c", epsilon=1, rollup=True), [labels(MOST_GROUPS - 1)]),
        lambda: (sl.Count(by=tens(MOST_GROUPS), rho=1, prediction={"0": 1}), [labels(MOST_GROUPS)]),
    ],
    "histogram": [lambda: (sl.Histogram("x0", bins=10**5, by="c", epsilon=1), [*numbers(1), labels(10)])],
    "count_distinct": [
        lambda: (sl.CountDistinct("c", by="d", epsilon=1), [labels(MAX_CELLS // 4096), labels(4096, "d")])
    ],
    "top_k": [lambda: (sl.TopK("c", k=1000, epsilon=1), [labels(MOST_GROUPS)])],
    "covariance": [lambda: (sl.Covariance(names(MOST_COLUMNS), radius=1, rho=1), numbers(MOST_COLUMNS))],
    "gaussian": [
        lambda: (
            sl.GaussianFit(names(1000), mean_bound=1, variance_bound=1, rho=1, steps=1),
            numbers(1000),
        )
    ],
    "gaussian_mean": [lambda: (sl.GaussianMean(names(MOST_COLUMNS), mean_bound=1, rho=1), numbers(MOST_COLUMNS))],
    "gaussian_mixture": [
        lambda: (
            sl.SeparatedMixture(
                names(300), components=2, prediction=np.random.default_rng(1).normal(size=(24, 300)), rho=1
            ),
            numbers(300),
        )
    ],
    "synthetic_table": [
        lambda: (
            sl.SyntheticTable(sl.marginals(3), rho=1, engine="mwem"),
            [labels(228, f"c{place}") for place in range(3)],
        ),
    ],
    "adassp": [fit("AdaSSP", TARGET)],
    "linear_regression": [model("LinearRegression", 8000, TARGET), model("LinearRegression", 1000, TARGET)],
    "additive_regression": [model("AdditiveRegressor", 1000, TARGET), many_labels],
    "additive_classifier": [model("AdditiveClassifier", 1000, labels(2), classes=["0", "1"])],
    "linear_svc": [model("LinearSVC", 3000, labels(2), classes=["0", "1"])],
    "logistic_regression": [
        model("LogisticRegression", 500, labels(2000), classes=[str(place) for place in range(2000)]),
        model("LogisticRegression", 100, labels(300), classes=[str(place) for place in range(300)], solver="objective"),
    ],
    "linear_model": [model("PoissonRegressor", 2000, TARGET, largest_count=10)],
    "stable_median": [lambda: (sl.StableMedian("x0", **PRICE), numbers(1, granularity="1e-6"))],
    "stable_mode": [lambda: (sl.StableMode("c", **PRICE), [labels(MOST_GROUPS)])],
    "stable_logistic_regression": [fit("StableLogistic", labels(2))],
    "stable_principal_components": [
        lambda: (
            sl.StablePCA(columns=names(MOST_COLUMNS), components=3, radius=1, **PRICE),
            numbers(MOST_COLUMNS),
        )
    ],
    "majority_vote": [lambda: (sl.MajorityVote("c", noise_scale=20, **PRICE), [labels(2)])],
    "posterior_sample": [fit("AdaOPS", TARGET)],
    "selected_posterior_sample": [fit("OPSPTR", TARGET, score=sl.PublicScore(_nothing, "nothing"))],
    "selection": [
        lambda: (
            sl.Selection(
                candidates=[sl.Quantiles(LEVELS, column="x0", epsilon=1)] * 4,
                score=sl.PublicScore(_nothing, "nothing"),
                delta="1e-6",
            ),
            numbers(1),
        )
    ],
    "mean": [grouped("Mean", MOST_GROUPS), grouped("Mean", _MOST_TREES, clip="by_group")],
    "proportion": [grouped("Proportion", MOST_GROUPS // 4)],
    "sql": [
        lambda: (sl.SQL("SELECT c, COUNT(*), AVG(x0) FROM rows GROUP BY c", epsilon=1), [*numbers(1), labels(10**5)])
    ],
    "sum": [
        grouped("Sum", MOST_GROUPS // 4),
        lambda: (
            sl.Sum("x0", by=replace(tens(MOST_GROUPS), public_totals={"all": {"all": 9}}), clip=(0, 1), rho=1),
            [*numbers(1), labels(MOST_GROUPS)],
        ),
    ],
    "variance": [grouped("Variance", MOST_GROUPS // 4)],
    "standard_deviation": [grouped("StandardDeviation", MOST_GROUPS // 4)],
    "summary": [grouped("Summary", _MOST_TREES)],
}
#: Released by a sequence, a day at a time, with the forms of `quantiles`.
OF_SEQUENCES = ("learned_quantiles", "counted_quantiles")


def run(kind: str, place: int) -> dict[str, Any]:
    """Prepare and run a plan here; return seconds and the peak of the memory since the process began."""
    warnings.simplefilter("ignore")
    query, schema = PLANS[kind][place]()
    empty = {each.name: np.zeros(0) if isinstance(each, sl.Number) else np.zeros(0, "U1") for each in schema}
    table = sl.Table(empty, schema=schema)
    try:
        prepared = prepare_query(query, table.schema)
    except SidelightError as error:
        return {"refused": str(error), "gb": 0.0, "seconds": 0.0}
    began = time.monotonic()
    try:
        _run_one(prepared, table, entropy=SeededEntropy(kind))
    except SidelightError as error:
        return {"failed": str(error), "gb": float("inf"), "seconds": 0.0}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"gb": peak / 1e9, "seconds": time.monotonic() - began}


def apart(kind: str, place: int, *, seconds: float) -> dict[str, Any]:
    """Run a plan in a process of its own, for at most so long."""
    child = [sys.executable, "-m", "benchmarks.audit_memory", kind, str(place)]
    try:
        done = subprocess.run(
            child, capture_output=True, timeout=seconds, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
    except subprocess.TimeoutExpired:
        return {"gb": float("inf"), "seconds": seconds, "failed": "took too long"}
    except subprocess.CalledProcessError as error:
        return {"gb": float("inf"), "seconds": 0.0, "failed": error.stderr.decode()[-300:]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(kinds: Sequence[str] = (), *, seconds: float = 600) -> dict[str, float]:
    """Return the largest memory in GB, of all plans, and the longest time; a plan that is refused is a mistake here."""
    found = []
    for kind in kinds or PLANS:
        for place in range(len(PLANS[kind])):
            each = apart(kind, place, seconds=seconds)
            print(kind, place, each, file=sys.stderr, flush=True)
            found.append(each)
    return {
        "gb": max(each["gb"] for each in found),
        "seconds": max(each["seconds"] for each in found),
        "refused": float(sum("refused" in each for each in found)),
    }


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(run(sys.argv[1], int(sys.argv[2]))))
    else:
        print(measure(sys.argv[1:]))
