"""How fast are counts and means by group, as a ratio to DuckDB's own GROUP BY from Parquet and to pandas' groupby?

One pass gives the count and the pair of a mean for each of 1000 groups, with a group column of text, of whole numbers,
and of pandas' categories. The best of several runs counts, in seconds and in processor seconds. `--rows 10000000` is
the size of the target: at most 2 times DuckDB, at most 3 times pandas.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from benchmarks.measuring import processor_time, timed
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.values import value_of
from sidelight.records import Category, Number, Table

ROWS, GROUPS, REPEATS = 1_000_000, 1000, 3


def people(rows: int) -> pd.DataFrame:
    """Return rows with a job as text and as a number, and hours."""
    rng = np.random.default_rng(20261115)
    jobs = rng.integers(0, GROUPS, rows)
    names = np.array([f"job {number:04d}" for number in range(GROUPS)])
    return pd.DataFrame({"job": pd.Series(names[jobs], dtype="str"), "code": jobs, "hours": rng.normal(40, 10, rows)})


def ours(source: object, column: str) -> int:
    """Return the number of rows that our pass counted."""
    labels = [f"job {number:04d}" for number in range(GROUPS)] if column == "job" else list(range(GROUPS))
    table = Table(source, schema=[Category(column, labels, other=None), Number("hours", lower=0, upper=100)])
    groups = groups_of(table.schema, by=column)
    found = group_statistics(table, groups, [value_of(table.schema, "hours")])
    assert not isinstance(found.counts.value, int)
    return int(found.counts.value.sum())


def main() -> None:
    """Print a line for each source."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    given = parser.parse_args(sys.argv[1:] if __name__ == "__main__" else [])
    frame = people(given.rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        frame.to_parquet(path, index=False)
        categories = frame.assign(job=frame["job"].astype("category"))

        def by_duckdb(column: str) -> Callable[[], object]:
            query = f"SELECT {column}, count(hours), avg(hours) FROM read_parquet('{path}') GROUP BY {column}"
            return lambda: duckdb.connect().sql(query).fetchall()

        def by_pandas(table: pd.DataFrame, column: str) -> Callable[[], object]:
            return lambda: table.groupby(column, observed=False)["hours"].agg(["count", "mean"])

        jobs = {
            "parquet, text": (lambda: ours(path, "job"), by_duckdb("job")),
            "parquet, whole numbers": (lambda: ours(path, "code"), by_duckdb("code")),
            "pandas, text": (lambda: ours(frame, "job"), by_pandas(frame, "job")),
            "pandas, categories": (lambda: ours(categories, "job"), by_pandas(categories, "job")),
            "pandas, whole numbers": (lambda: ours(frame, "code"), by_pandas(frame, "code")),
        }
        print(f"{given.rows:,} rows, {GROUPS} groups: count and mean in one pass")
        print(f"{'source':24} {'ours, s':>8} {'theirs, s':>10} {'ratio':>6} {'ratio, processor':>17}")
        for name, pair in jobs.items():
            assert pair[0]() == given.rows
            walls = [min(timed(job) for _ in range(REPEATS)) for job in pair]
            cores = [min(processor_time(job) for _ in range(REPEATS)) for job in pair]
            print(f"{name:24} {walls[0]:8.3f} {walls[1]:10.3f} {walls[0] / walls[1]:6.2f} {cores[0] / cores[1]:17.2f}")


if __name__ == "__main__":
    main()
