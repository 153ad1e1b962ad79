"""The meter of releases: what it counts, whether it refuses what is correct, and what it costs.

    python -m benchmarks.audit_meter [--quick]

Every reference case of the tests, every hostile case of `audit_failures` and random plans are released with their
meters; a release that is refused is an overclaim. A query of the registry none of whose releases says what was drawn is
unmetered. The planted bugs are those of `tests/mechanisms/test_meter.py`, planted now.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import sidelight as sl
from sidelight.errors import NoiseError, SidelightError
from sidelight.registry import ENTRIES
from sidelight.session import pipeline
from sidelight.testing import seeded_release

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))  # the cases are those of the tests
RANDOM_PLANS = 300
REPEATS = 15
_SCORE = sl.PublicScore(lambda value: 0.0, "nothing")


@cache
def measure() -> dict[str, float]:
    """Return the figures of the targets."""
    metered = counted()
    missed, planted = planted_bugs()
    return {
        "unmetered": metered["unmetered"],
        "refused": metered["refused"],
        "planted": float(planted),
        "planted missed": float(missed),
        "overhead": overhead(),
        "runs without reference": float(runs_without_reference()),
    }


def counted(plans: int = RANDOM_PLANS) -> dict[str, float]:
    """Return how many releases were metered, what they drew, how many were refused, and the kinds without a line."""
    spent, releases, draws, refused = released_cases()
    random_refused, tried = random_plans(plans)
    return {
        "reference cases": float(releases),
        "draws": float(draws),
        "random plans": float(tried),
        "refused": float(refused + random_refused),
        "unmetered": float(len({each.kind for each in ENTRIES} - spent)),
    }


@cache
def released_cases() -> tuple[frozenset[str], int, int, int]:
    """Return the kinds whose reference cases say what was drawn, how many there were, their draws, and refusals."""
    from reference_cases import reference_cases

    spent: set[str] = set()
    releases = draws = 0
    with tempfile.TemporaryDirectory() as folder:
        cases = reference_cases(Path(folder))
        while True:
            try:
                done = next(cases)
            except StopIteration:
                return frozenset(spent), releases, draws, 0
            except NoiseError:  # a generator ends with its first error: what follows is not counted as metered
                return frozenset(spent), releases, draws, 1
            for outcome in done.outcomes:
                lines = getattr(outcome, "spending", ())
                if lines:
                    releases += 1
                    draws += sum(int(line["times"]) for line in lines)
                    spent |= kinds_of(outcome.query)


def kinds_of(request: Any) -> set[str]:
    """Return the kinds of the registry that a request is of: what estimators fit is one kind for ledgers."""
    kind = str(request["kind"])
    loss = str(request.get("loss", ""))
    fits = {"squared": "linear_regression", "logistic": "logistic_regression", "softmax": "logistic_regression"}
    more = {
        "linear_model": fits.get(loss, "linear_svc" if "hinge" in loss else ""),
        "group_quantiles": "quantiles",
        "additive_model": "additive_regression" if loss == "squared" else "additive_classifier",
    }
    return {kind, more.get(kind, kind)} - {""}


def random_plans(count: int, *, seed: int = 1) -> tuple[int, int]:
    """Release random queries of random tables; return how many were refused by their meter, and how many ran."""
    refused = ran = 0
    for place in range(count):
        draw = np.random.default_rng([seed, place])
        try:
            seeded_release(random_query(draw), random_table(draw), seed=place)
            ran += 1
        except NoiseError:
            refused += 1
        except SidelightError:
            continue  # refused by public numbers, before any charge
    return refused, ran


def random_table(draw: np.random.Generator) -> sl.Table:
    """Return a small table, of rows or of persons."""
    rows = int(draw.choice([0, 1, 7, 60, 900, 6000]))
    data = {
        "who": draw.integers(0, max(rows // 3, 1), rows),
        "age": draw.integers(0, 100, rows),
        "hours": draw.integers(0, 50, rows),
        "free": np.round(draw.standard_cauchy(rows) * 8, 3),
        "job": draw.choice(np.array(["a", "b", "c", "d"], object), rows),
        "word": draw.choice(np.array(["x", "y", "z"], object), rows),
    }
    columns: list[Any] = [
        sl.Number("age", lower=0, upper=100, granularity=1),
        sl.Number("hours", lower=0, upper=50, granularity=1),
        sl.Number("free"),
        sl.Category("job", ["a", "b", "c", "d"], other=None),
        sl.Label("word"),
    ]
    if draw.random() < 0.5:
        columns.insert(0, sl.PersonId("who", max_rows=int(draw.choice([1, 2, 5]))))
    return sl.Table(data, schema=columns, name="random")


def random_query(draw: np.random.Generator) -> Any:
    """Return a query of a random kind, price and form."""
    size = float(10 ** draw.uniform(-2, 1.5))
    # shares of such a delta are not exact floats: a share that is rounded up must not exceed the claim
    delta = f"{int(draw.integers(1, 10))}e-{int(draw.integers(4, 13))}"
    price: dict[str, Any] = [{"epsilon": size}, {"rho": size / 8}, {"epsilon": size, "delta": delta}, {"mu": size}][
        int(draw.integers(4))
    ]
    both: dict[str, Any] = {"epsilon": size, "delta": delta}
    plain = price if "mu" not in price else {"rho": size / 8}
    groups: dict[str, Any] = [{}, {"by": "job"}, {"by": ["job", sl.col("age").cut([18, 65])]}][int(draw.integers(3))]
    if groups:
        groups["max_groups"] = int(draw.choice([1, 2, 4]))
    column = str(draw.choice(["age", "free"]))
    levels = [0.5] if draw.random() < 0.3 else sl.quantiles.even_levels(int(draw.choice([3, 9, 25, 120])))
    quantiles: list[Callable[[], Any]] = [
        lambda: sl.Quantiles(levels, column=column, **plain),
        lambda: sl.Quantiles(levels, column=column, by="job", max_groups=2, **plain),
        lambda: sl.Quantiles(levels, column=column, by="job", **both),
        lambda: sl.Quantiles(levels, column=column, where=sl.col("age") > 30, **plain),
        lambda: sl.Quantiles(levels, column=column, by="job", prediction="total", max_groups=2, **plain),
    ]
    makers: list[Callable[[], Any]] = [
        lambda: sl.Count(**groups, **price),
        lambda: sl.Count(by="word", max_groups=2, epsilon=size, delta=delta),
        lambda: sl.Count(by=["job"], rollup=True, **price),
        lambda: sl.Mean(column, **groups, **price),
        lambda: sl.Mean(column, by="job", clip="by_group", max_groups=2, **price),
        lambda: sl.Mean("age", by="word", max_groups=2, epsilon=size, delta=delta),
        lambda: sl.Sum("age", **groups, **price),
        lambda: sl.Variance(column, **groups, **price),
        lambda: sl.Summary(column, **groups, **price),
        lambda: sl.Histogram("age", bins="private", **price),
        lambda: sl.TopK("job", k=2, route="peeling", **price),
        lambda: sl.CountDistinct("job", **price),
        *quantiles,
        *quantiles,
        *quantiles,  # many forms, which their groups choose by size
        lambda: sl.Distribution(column, **{name: each for name, each in plain.items() if name != "delta"}),
        lambda: sl.Covariance(["age"], radius=100, **plain),
        lambda: sl.StableMedian("age", epsilon=size, delta=delta),
        lambda: sl.StableMode("job", epsilon=size, delta=delta),
        lambda: sl.OPSPTR(features=["age"], target="hours", feature_norm=100, **both, score=_SCORE),
        lambda: sl.AdaOPS(features=["age"], target="hours", feature_norm=100, **both),
    ]
    return makers[int(draw.integers(len(makers)))]()


def planted_bugs() -> tuple[int, int]:
    """Plant the bugs of the meter's tests; return how many were missed, and how many there are."""
    test = "tests/mechanisms/test_meter.py"
    command = [sys.executable, "-m", "pytest", "-vv", "-o", "addopts=", test, "-k", "refused"]
    done = subprocess.run([*command, "-p", "no:cacheprovider"], cwd=ROOT, capture_output=True, text=True, check=False)
    results = re.findall(r"^tests/\S+.* (PASSED|FAILED|ERROR)\b", done.stdout, re.MULTILINE)
    missed = sum(result != "PASSED" for result in results)
    return (missed if results else 1), len(results)


def runs_without_reference() -> int:
    """Return how many `run` methods no reference case runs: what the test of it finds, now."""
    command = [sys.executable, "-m", "pytest", "-q", "tests/test_reference_bits.py", "-k", "every_run"]
    done = subprocess.run([*command, "-p", "no:cacheprovider"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return 0
    named = done.stdout.partition("no reference case runs ")[2].partition(";")[0]
    return max(1, len([name for name in named.split(",") if name.strip()]))


def overhead() -> float:
    """Return the processor time of ten everyday releases with the meter over that without it, medians of turns."""
    draw = np.random.default_rng(3)
    rows = 20_000
    data = {"age": draw.integers(0, 100, rows), "job": draw.choice(np.array(["a", "b", "c"], object), rows)}
    schema = [sl.Number("age", lower=0, upper=100, granularity=1), sl.Category("job", ["a", "b", "c"], other=None)]
    people = sl.Table(data, schema=schema, name="people")
    queries = [
        sl.Count(epsilon=1),
        sl.Count(by="job", epsilon=1),
        sl.Mean("age", epsilon=1),
        sl.Mean("age", by="job", epsilon=1),
        sl.Sum("age", by="job", epsilon=1),
        sl.Histogram("age", bins=10, epsilon=1),
        sl.Quantiles([0.25, 0.5, 0.75], column="age", epsilon=1),
        sl.Quantiles(sl.quantiles.even_levels(50), column="age", epsilon=1),
        sl.Variance("age", epsilon=1),
        sl.TopK("job", k=2, epsilon=1),
    ]

    def seconds() -> float:
        begin = time.process_time()
        for query in queries:
            query.release(people)
        return time.process_time() - begin

    seconds()
    meter = pipeline.Meter
    ratios = []
    for _ in range(REPEATS):
        with_meter = seconds()
        pipeline.Meter = _NoMeter  # type: ignore[assignment, misc]
        try:
            without = seconds()
        finally:
            pipeline.Meter = meter  # type: ignore[misc]
        ratios.append(with_meter / without)
    return float(np.median(ratios))


class _NoMeter:
    """Counts nothing."""

    spending = ()

    def __init__(self, claims: Any) -> None:
        del claims

    def add(self, price: Any, part: Any, *, again: bool = False) -> None:
        """Count nothing."""

    def settle(self) -> None:
        """Compare nothing."""


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
