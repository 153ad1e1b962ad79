"""Tumult Analytics on Spark, on this machine: counts, averages and quantiles by group, with public keys."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.programs.trial import Data, Job, main, pairs_of


def counts(job: Job) -> Callable[[Data], Any]:
    """Counts by group."""
    from tmlt.analytics import KeySet, QueryBuilder  # type: ignore[import-not-found]

    ask = _asker(job)
    query = QueryBuilder("people").groupby(KeySet.from_dict({"g": list(range(job["groups"]))})).count()
    return lambda data: _in_order(ask({"g": data["group"]}, [(query, 1.0)])[0], ["g"], "count", (job["groups"],))


def means(job: Job) -> Callable[[Data], Any]:
    """Averages by group."""
    from tmlt.analytics import KeySet, QueryBuilder

    ask, (lower, upper) = _asker(job), map(float, job["bounds"])
    keys = KeySet.from_dict({"g": list(range(job["groups"]))})
    query = QueryBuilder("people").groupby(keys).average("x", lower, upper, name="m")

    def release(data: Data) -> np.ndarray:
        (found,) = ask({"g": data["group"], "x": data["x"]}, [(query, 1.0)])
        return np.clip(_in_order(found, ["g"], "m", (job["groups"],)), lower, upper)

    return release


def quantiles(job: Job) -> Callable[[Data], Any]:
    """A query a level, with an equal share of the budget each."""
    from tmlt.analytics import QueryBuilder

    ask, (lower, upper), levels = _asker(job), map(float, job["bounds"]), job["levels"]
    queries = [QueryBuilder("people").quantile("x", level, lower, upper, name="q") for level in levels]
    shared = [(query, 1 / len(levels)) for query in queries]
    return lambda data: [float(found["q"].iloc[0]) for found in ask({"x": data["x"]}, shared)]


def marginals(job: Job) -> Callable[[Data], Any]:
    """Counts by every pair of columns, with an equal share of the budget each."""
    from tmlt.analytics import KeySet, QueryBuilder

    ask, sizes = _asker(job), job["sizes"]
    pairs = pairs_of(sizes)
    queries = []
    for pair in pairs:
        keys = KeySet.from_dict({f"c{place}": list(range(sizes[place])) for place in pair})
        queries.append((QueryBuilder("people").groupby(keys).count(), 1 / len(pairs)))

    def release(data: Data) -> np.ndarray:
        columns = {f"c{place}": data["rows"][:, place] for place in range(len(sizes))}
        tables = [
            _in_order(found, [f"c{place}" for place in pair], "count", tuple(sizes[place] for place in pair))
            for pair, found in zip(pairs, ask(columns, queries), strict=True)
        ]
        return np.maximum(np.concatenate([table.ravel() for table in tables]), 0)

    return release


def _asker(job: Job) -> Callable[[dict[str, np.ndarray], list[tuple[Any, float]]], list[Any]]:
    """Return what asks queries of rows, each with its share of a pure budget, and gives pandas frames."""
    import pandas as pd
    from pyspark.sql import SparkSession
    from tmlt.analytics import AddOneRow, PureDPBudget, Session

    os.environ["PYSPARK_PYTHON"] = sys.executable  # of Spark's workers
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.extraJavaOptions", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    def ask(columns: dict[str, np.ndarray], queries: list[tuple[Any, float]]) -> list[Any]:
        frame = spark.createDataFrame(pd.DataFrame(columns))
        epsilon = float(job["epsilon"])
        session = Session.from_dataframe(
            privacy_budget=PureDPBudget(epsilon), source_id="people", dataframe=frame, protected_change=AddOneRow()
        )
        # A hair less than the share: shares that are rounded up would exceed the whole.
        budget = [PureDPBudget(epsilon * share * (1 - 1e-9)) for _, share in queries]
        return [session.evaluate(query, price).toPandas() for (query, _), price in zip(queries, budget, strict=True)]

    return ask


def _in_order(found: Any, keys: list[str], value: str, shape: tuple[int, ...]) -> np.ndarray:
    values = dict(zip(zip(*(found[key] for key in keys), strict=True), found[value], strict=True))
    return np.array([float(values[key]) for key in product(*map(range, shape))]).reshape(shape)


def processor_seconds() -> float:
    """Return the seconds of this process and, where /proc is, of those that it started: Spark is one of them."""
    if not Path("/proc/self/stat").exists():
        return time.process_time()
    parents, seconds = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        number = int(path.parent.name)
        parents[number] = int(fields[1])
        seconds[number] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    total = 0.0
    for number in seconds:
        above = number
        while above not in (0, 1, os.getpid()):
            above = parents.get(above, 0)
        total += seconds[number] if above == os.getpid() else 0.0
    return total


if __name__ == "__main__":
    methods = (counts, means, quantiles, marginals)
    main("tmlt.analytics", {each.__name__: each for each in methods}, processor_seconds=processor_seconds)
