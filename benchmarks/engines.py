"""The cost of a release and the engine's own answer: Parquet files, a folder of partitions, and folds on all cores.

Files are made by DuckDB. Ours and theirs take turns in one run, and the best of each counts, in processor seconds;
folds on all cores are measured as seconds by processor seconds of the same run, on a machine that does nothing else.
`python -m benchmarks.engines_page --write` writes the table of `docs/explanation/engines.md`.
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
from benchmarks.measuring import forget_peak, peak_gigabytes, processor_time, sized
from sidelight.aggregates import clipped_moments

ROWS, FEWER, WIDE_ROWS, WIDTH = sized((10_000_000, 1_000_000, 10_000_000, 20), (4_000, 2_000, 2_000, 4))
REPEATS, FOLDERS = sized((3, 50), (2, 3))
MANY, PERSONS, MODEL_ROWS, CSV_ROWS = sized(
    (100_000_000, 10_000_000, 1_000_000, 2_000_000), (5_000, 2_000, 2_000, 2_000)
)
NINE = [each / 10 for each in range(1, 10)]


def write(path: Path, *, rows: int) -> Path:
    """Write narrow rows: a number, and three columns of few whole numbers."""
    duckdb.connect().execute(
        f"COPY (SELECT 100 * random() AS x, (random() * 5)::INTEGER AS a, (random() * 7)::INTEGER AS b, "
        f"(random() * {FOLDERS - 1})::INTEGER AS c FROM range({rows})) TO '{path}' (FORMAT parquet)"
    )
    return path


def write_wide(path: Path, *, rows: int = WIDE_ROWS, more: str = "") -> Path:
    """Write rows of 20 numbers of 32 bits: 80 bytes each."""
    columns = ", ".join(f"(random() - 0.5)::FLOAT AS x{place}" for place in range(WIDTH))
    made = f"SELECT *{more} FROM (SELECT {columns} FROM range({rows}))"
    duckdb.connect().execute(f"COPY ({made}) TO '{path}' (FORMAT parquet)")
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
    """Let NumPy compute the matrix of products, batch by batch, of rows that DuckDB reads, in floats of 64 bits."""
    total = np.zeros((WIDTH, WIDTH))
    for batch in duckdb.connect().read_parquet(str(path)).to_arrow_reader(1 << 17):
        rows = np.column_stack([column.to_numpy(zero_copy_only=False).astype(np.float64) for column in batch.columns])
        total += rows.T @ rows


def sql(statement: str, path: Path) -> None:
    """Let DuckDB answer without privacy."""
    duckdb.connect().execute(statement.format(f"read_parquet('{path}')")).fetchall()


def best(*jobs: Callable[[], None]) -> list[float]:
    """Return the least processor seconds of each job; they take turns."""
    found = [[processor_time(job) for job in jobs] for _ in range(REPEATS)]
    return [min(times) for times in zip(*found, strict=True)]


def wall_and_processor(job: Callable[[], None]) -> tuple[float, float]:
    """Return seconds by processor seconds (1: one core all the time, 0.5: two) and processor seconds, least of each."""
    found = []
    for _ in range(REPEATS - 1):
        start = time.perf_counter()
        spent = processor_time(job)
        found.append(((time.perf_counter() - start) / spent, spent))
    shares, times = zip(*found, strict=True)
    return min(shares), min(times)


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
        forget_peak()
        ours_few, ours, theirs, in_parts = best(
            lambda: deciles(few), lambda: deciles(many), lambda: sql(quantiles, many), lambda: deciles(parts)
        )
        counted, by_duckdb, counted_in_parts = best(
            lambda: counts(many), lambda: sql(groups, many), lambda: counts(parts)
        )
        return {
            "deciles": ours / theirs,
            "deciles_exponent": log10(ours / ours_few) / log10(ROWS / FEWER),
            "deciles_of_folders": in_parts / ours,
            "counts": counted / by_duckdb,
            "counts_of_folders": counted_in_parts / counted,
            "gigabytes": peak_gigabytes(),
        }


@cache
def measure_wide() -> dict[str, float]:
    """Return the ratios of second moments of ten million rows of 20 numbers, in a file of 0.8 GB."""
    with tempfile.TemporaryDirectory() as name:
        wide = write_wide(Path(name) / "wide.parquet")
        forget_peak()
        wall, products = wall_and_processor(lambda: moments(wide))
        peak = peak_gigabytes()
        (by_numpy,) = once(lambda: plain_moments(wide))
    return {"moments": products / by_numpy, "moments_wall": wall, "moments_gigabytes": peak}


def once(*jobs: Callable[[], None]) -> list[float]:
    """Return the processor seconds of each job, measured once: for those that take long."""
    return [processor_time(job) for job in jobs]


@cache
def measure_many() -> dict[str, float]:
    """Return the ratios of a hundred million rows of hundredths, in a file of well below 1 GB, and how time grows."""

    def written(path: Path, rows: int) -> Path:
        duckdb.connect().execute(
            f"COPY (SELECT (random() * 10000)::INTEGER / 100 AS x, (random() * 5)::INTEGER AS a, "
            f"(random() * 7)::INTEGER AS b, (random() * {FOLDERS - 1})::INTEGER AS c FROM range({rows})) TO '{path}' "
            "(FORMAT parquet)"
        )
        return path

    def cents(path: Path) -> None:
        table = sl.Table(path, schema=[sl.Number("x", lower=0, upper=100, granularity="0.01")])
        sl.Quantiles(NINE, column="x", epsilon=1).release(table)

    with tempfile.TemporaryDirectory() as name:
        few, many = written(Path(name) / "few.parquet", FEWER), written(Path(name) / "many.parquet", MANY)
        cents(few)
        (ours_few,) = best(lambda: cents(few))
        forget_peak()
        ours, counted = once(lambda: cents(many), lambda: counts(many))
        peak = peak_gigabytes()
        theirs, by_duckdb = once(
            lambda: sql(f"SELECT quantile_disc(x, {NINE}) FROM {{}}", many),
            lambda: sql("SELECT a, b, c, count(*) FROM {} GROUP BY ALL", many),
        )
    return {
        "deciles_1e8": ours / theirs,
        "exponent_1e8": log10(ours / ours_few) / log10(MANY / FEWER),
        "counts_1e8": counted / by_duckdb,
        "gigabytes_1e8": peak,
    }


@cache
def measure_persons() -> dict[str, float]:
    """Return the ratio of nine deciles of persons, at most five rows of each."""
    schema = [sl.Number("x", lower=0, upper=100), sl.PersonId("who", max_rows=5)]
    capped = "SELECT x, row_number() OVER (PARTITION BY who ORDER BY hash(who, x)) AS place FROM {}"
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "persons.parquet"
        duckdb.connect().execute(
            f"COPY (SELECT 100 * random() AS x, (random() * {PERSONS // 4})::INTEGER AS who FROM range({PERSONS})) "
            f"TO '{path}' (FORMAT parquet)"
        )
        table = sl.Table(path, schema=schema)
        few = sl.Table({"x": [1.0], "who": [1]}, schema=schema)
        sl.Quantiles(NINE, column="x", epsilon=1).release(few)  # whatever is loaded on first use
        forget_peak()
        (ours,) = once(lambda: sl.Quantiles(NINE, column="x", epsilon=1).release(table))
        peak = peak_gigabytes()
        (theirs,) = once(lambda: sql(f"SELECT quantile_disc(x, {NINE}) FROM ({capped}) WHERE place <= 5", path))
    return {"persons": ours / theirs, "persons_gigabytes": peak}


def measure_model(rows: int = MODEL_ROWS) -> dict[str, float]:
    """Return the ratios of a logistic fit of 20 columns with a text target to scikit-learn's, of one file.

    Both read the file; at 1e6 rows also both with the rows in memory, the labels as NumPy's own texts.
    """
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    names = [f"x{place}" for place in range(WIDTH)]
    columns = [*(sl.Number(each, lower=-0.5, upper=0.5) for each in names)]
    labels = sl.Category("y", ["no", "yes"], other=None)
    with tempfile.TemporaryDirectory() as name:
        more = ", CASE WHEN 4 * x0 + ln(1 / random() - 1) > 0 THEN 'yes' ELSE 'no' END AS y"
        path = write_wide(Path(name) / "model.parquet", rows=rows, more=more)
        table = sl.Table(path, schema=[*columns, labels])

        def model() -> sl.LogisticRegression:
            return sl.LogisticRegression(epsilon=1.0, delta=1e-6, classes=["no", "yes"], data_norm=1)

        def theirs() -> None:
            frame = pd.read_parquet(path)
            LogisticRegression().fit(frame[names].to_numpy(), frame["y"])

        few = sl.Table({each: np.zeros(999) for each in names} | {"y": ["no", "yes", "no"] * 333}, schema=table.schema)
        model().fit_table(few, features=names, target="y")  # whatever is loaded on first use
        forget_peak()
        (spent,) = once(lambda: model().fit_table(table, features=names, target="y") and None)
        peak = peak_gigabytes()
        (plain,) = once(theirs)
        if rows > MODEL_ROWS:
            return {"logistic_1e7": spent / plain, "logistic_gigabytes": peak}
        held = pd.read_parquet(path)
        features, target = held[names].to_numpy(np.float64), held["y"].to_numpy().astype(str)
        in_memory, by_sklearn = best(
            lambda: model().fit(features, target) and None, lambda: LogisticRegression().fit(features, target) and None
        )
    return {"logistic": spent / plain, "logistic_in_memory": in_memory / by_sklearn}


@cache
def measure_long_model() -> dict[str, float]:
    """Return the ratio of ten million rows."""
    return measure_model(ROWS)


@cache
def measure_csv() -> dict[str, float]:
    """Return the ratio of one column's sum of a CSV file of eight to DuckDB's own."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "rows.csv"
        columns = ", ".join(f"round(100 * random(), 3) AS x{place}" for place in range(8))
        duckdb.connect().execute(f"COPY (SELECT {columns} FROM range({CSV_ROWS})) TO '{path}' (HEADER)")
        table = sl.Table(path, schema=[sl.Number("x3", lower=0, upper=100)])
        ours, theirs = best(
            lambda: sl.Sum("x3", epsilon=1).release(table),
            lambda: duckdb.connect().execute(f"SELECT sum(x3) FROM read_csv('{path}')").fetchall(),
        )
    return {"csv": ours / theirs}
