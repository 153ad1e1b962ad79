"""How fast are counts and means by group, as a ratio to DuckDB's own GROUP BY from Parquet and to pandas' groupby?

One release gives the count and the mean of each of 1000 groups, with a group column of text, of whole numbers, and of
pandas' categories; runs of ours and of theirs take turns, and the best of each counts, in seconds and in processor
seconds. `--rows 10000000` is the size of the target: at most 2 times DuckDB, at most 3 times pandas.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

import sidelight as sl
from benchmarks.measuring import processor_time, sized, timed

ROWS, TARGET_ROWS, GROUPS, MANY_GROUPS, REPEATS = sized(
    (1_000_000, 10_000_000, 1000, 10_000, 7), (2_000, 2_000, 20, 30, 1)
)


def people(rows: int) -> pd.DataFrame:
    """Return rows with a job as text and as a number, and hours."""
    rng = np.random.default_rng(20261115)
    jobs = rng.integers(0, GROUPS, rows)
    names = np.array([f"job {number:04d}" for number in range(GROUPS)])
    return pd.DataFrame({"job": pd.Series(names[jobs], dtype="str"), "code": jobs, "hours": rng.normal(40, 10, rows)})


def ours(source: object, column: str) -> sl.Release:
    """Return our counts and means."""
    labels = [f"job {number:04d}" for number in range(GROUPS)] if column == "job" else list(range(GROUPS))
    schema = [sl.Category(column, labels, other=None), sl.Number("hours", lower=0, upper=100)]
    return sl.Mean("hours", by=column, epsilon=1).release(sl.Table(source, schema=schema))


def seconds_of(job: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds and the processor seconds of a job."""
    spent = 0.0

    def run() -> None:
        nonlocal spent
        spent = processor_time(job)

    return timed(run), spent


def compare(rows: int) -> dict[str, tuple[float, float, float, float]]:
    """Return our seconds, theirs, and the processor seconds of both, for each kind of source."""
    frame = people(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        frame.to_parquet(path, index=False)
        categories = frame.assign(job=frame["job"].astype("category"))

        def by_duckdb(column: str) -> Callable[[], object]:
            query = f"SELECT {column}, count(hours), avg(hours) FROM read_parquet('{path}') GROUP BY {column}"
            return lambda: duckdb.connect().sql(query).fetchall()

        def by_pandas(table: pd.DataFrame, column: str) -> Callable[[], object]:
            return lambda: table.groupby(column, observed=False)["hours"].agg(["count", "mean"])

        jobs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "parquet, text": (lambda: ours(path, "job"), by_duckdb("job")),
            "parquet, whole numbers": (lambda: ours(path, "code"), by_duckdb("code")),
            "pandas, text": (lambda: ours(frame, "job"), by_pandas(frame, "job")),
            "pandas, categories": (lambda: ours(categories, "job"), by_pandas(categories, "job")),
            "pandas, whole numbers": (lambda: ours(frame, "code"), by_pandas(frame, "code")),
        }
        found = {}
        for name, (our, their) in jobs.items():
            our()  # once for the imports
            runs = [(*seconds_of(our), *seconds_of(their)) for _ in range(REPEATS)]
            our_wall, our_core, wall, core = (min(each) for each in zip(*runs, strict=True))
            found[name] = (our_wall, wall, our_core, core)
        return found


def many_groups() -> float:
    """Return the processor seconds of releases of 10,000 counts and of 10,000 means from 10,000 rows, the longer one.

    Nearly all of it is noise and what follows it: pulling, rounding, intervals, the table. One thread does it, so that
    these are the seconds of an idle machine; on a busy one the clock ran five times as long.
    """
    labels = [f"job {number:05d}" for number in range(MANY_GROUPS)]
    frame = pd.DataFrame({"job": labels, "hours": np.linspace(20.0, 60.0, MANY_GROUPS)})
    schema = [sl.Category("job", labels, other=None), sl.Number("hours", lower=0, upper=100)]
    table = sl.Table(frame, schema=schema)
    queries: list[Any] = [sl.Count(by="job", epsilon=1), sl.Mean("hours", by="job", epsilon=1)]
    return max(min(processor_time(lambda q=query: q.release(table)) for _ in range(REPEATS)) for query in queries)


def measure() -> dict[str, float]:
    """Return the ratios at the size of the targets."""
    found = {}
    for name, (our, their, our_core, their_core) in compare(TARGET_ROWS).items():
        found[name] = our / their
        told = f"{our:.3f} s, {our / their:.2f} times theirs; in processor seconds {our_core / their_core:.2f} times"
        print(f"{name}: {told}", file=sys.stderr)
    return {
        "text_vs_duckdb": found["parquet, text"],
        "numbers_vs_duckdb": found["parquet, whole numbers"],
        "vs_pandas": max(ratio for name, ratio in found.items() if name.startswith("pandas")),
        "many_groups": many_groups(),
    }


def main() -> None:
    """Print a line for each source."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    given = parser.parse_args(sys.argv[1:] if __name__ == "__main__" else [])
    print(f"{given.rows:,} rows, {GROUPS} groups: count and mean in one release")
    print(f"{'source':24} {'ours, s':>8} {'theirs, s':>10} {'ratio':>6} {'ratio, processor':>17}")
    for name, (our, their, our_core, their_core) in compare(given.rows).items():
        print(f"{name:24} {our:8.3f} {their:10.3f} {our / their:6.2f} {our_core / their_core:17.2f}")
    print(f"{MANY_GROUPS:,} groups: {many_groups():.3f} processor seconds a release")


if __name__ == "__main__":
    main()
