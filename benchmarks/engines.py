"""What a release costs beside the engine's own answer: Parquet files, a folder of partitions, and folds on all cores.

Files are made by DuckDB. Ours and theirs take turns in one run, and the best of each counts, in processor seconds;
folds on all cores are measured as seconds by processor seconds of the same run, on a machine that does nothing else.
`python -m benchmarks.engines` prints the table of `docs/explanation/engines.md`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import cache
from math import log10
from pathlib import Path

import duckdb
import numpy as np

import sidelight as sl
from benchmarks.measuring import peak_gigabytes, processor_time
from sidelight.aggregates import clipped_moments

ROWS, FEWER, WIDE_ROWS, WIDTH, REPEATS, FOLDERS = 10_000_000, 1_000_000, 2_000_000, 20, 3, 50
NINE = [each / 10 for each in range(1, 10)]


def write(path: Path, *, rows: int) -> Path:
    """Write narrow rows: a number, and three columns of few whole numbers."""
    duckdb.connect().execute(
        f"COPY (SELECT 100 * random() AS x, (random() * 5)::INTEGER AS a, (random() * 7)::INTEGER AS b, "
        f"(random() * {FOLDERS - 1})::INTEGER AS c FROM range({rows})) TO '{path}' (FORMAT parquet)"
    )
    return path


def write_wide(path: Path) -> Path:
    """Write rows of 20 numbers."""
    columns = ", ".join(f"random() - 0.5 AS x{place}" for place in range(WIDTH))
    duckdb.connect().execute(f"COPY (SELECT {columns} FROM range({WIDE_ROWS})) TO '{path}' (FORMAT parquet)")
    return path


def write_folders(path: Path, source: Path) -> Path:
    """Write the same rows into a folder for each value of one column."""
    duckdb.connect().execute(f"COPY (FROM read_parquet('{source}')) TO '{path}' (FORMAT parquet, PARTITION_BY (c))")
    return path


def schema() -> list[sl.Number | sl.Category]:
    """Declare the narrow rows."""
    labels = [sl.Category(name, list(range(size)), other=None) for name, size in (("a", 6), ("b", 8), ("c", FOLDERS))]
    return [sl.Number("x", lower=0, upper=100), *labels]


def deciles(path: Path) -> None:
    """Release nine deciles."""
    sl.Quantiles(NINE, column="x", epsilon=1).release(sl.Table(path, schema=schema()))


def counts(path: Path) -> None:
    """Release counts by three columns."""
    sl.Count(by=["a", "b", "c"], epsilon=1).release(sl.Table(path, schema=schema()))


def moments(path: Path) -> None:
    """Add up the second moments that a covariance is released from."""
    names = [f"x{place}" for place in range(WIDTH)]
    table = sl.Table(path, schema=[sl.Number(name) for name in names])
    clipped_moments(table, names, radius=1)


def plain_moments(path: Path) -> None:
    """Let NumPy compute the matrix of products, batch by batch, of rows that DuckDB reads."""
    total = np.zeros((WIDTH, WIDTH))
    for batch in duckdb.connect().read_parquet(str(path)).to_arrow_reader(1 << 17):
        rows = np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])
        total += rows.T @ rows


def sql(statement: str, path: Path) -> None:
    """Let DuckDB answer without privacy."""
    duckdb.connect().execute(statement.format(f"read_parquet('{path}')")).fetchall()


def best(*jobs: Callable[[], None]) -> list[float]:
    """Return the least processor seconds of each job; they take turns."""
    found = [[processor_time(job) for job in jobs] for _ in range(REPEATS)]
    return [min(times) for times in zip(*found, strict=True)]


def seconds_by_processor_seconds(job: Callable[[], None]) -> float:
    """Return the least share: 1 for one core all the time, 0.5 for two."""
    shares = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        spent = processor_time(job)
        shares.append((time.perf_counter() - start) / spent)
    return min(shares)


@cache
def measure() -> dict[str, float]:
    """Return the ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few, many = (write(folder / f"{rows}.parquet", rows=rows) for rows in (FEWER, ROWS))
        parts = write_folders(folder / "parts", many)
        quantiles = f"SELECT quantile_disc(x, {NINE}) FROM {{}}"
        groups = "SELECT a, b, c, count(*) FROM {} GROUP BY ALL"
        deciles(few)  # whatever is loaded on first use
        ours_few, ours, theirs, in_parts = best(
            lambda: deciles(few), lambda: deciles(many), lambda: sql(quantiles, many), lambda: deciles(parts)
        )
        counted, by_duckdb, counted_in_parts = best(
            lambda: counts(many), lambda: sql(groups, many), lambda: counts(parts)
        )
        found = {
            "deciles": ours / theirs,
            "deciles_exponent": log10(ours / ours_few) / log10(ROWS / FEWER),
            "deciles_of_folders": in_parts / ours,
            "counts": counted / by_duckdb,
            "counts_of_folders": counted_in_parts / counted,
        }
        wide = write_wide(folder / "wide.parquet")
        products, by_numpy = best(lambda: moments(wide), lambda: plain_moments(wide))
        found |= {
            "moments": products / by_numpy,
            "moments_wall": seconds_by_processor_seconds(lambda: moments(wide)),
            "gigabytes": peak_gigabytes(),
        }
    return found


if __name__ == "__main__":
    for key, value in measure().items():
        print(f"{key:20} {value:.2f}")
