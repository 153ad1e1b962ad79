"""What a release costs on Spark beside the same statistic in Spark SQL: seconds in local mode, start-up not counted.

Spark has processes of its own, so seconds are measured and not processor seconds: on a machine that does nothing else.
`python -m benchmarks.engines_spark` prints them; it needs PySpark and Java (`make test-spark` installs PySpark).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sidelight as sl
from benchmarks.engines import NINE, ROWS, WIDTH, schema, write, write_wide
from sidelight.aggregates import clipped_moments

#: Why there is nothing to measure, if there is not.
MISSING = (
    "PySpark is not installed (make test-spark installs it)"
    if find_spec("pyspark") is None
    else "Java is not there"
    if shutil.which("java") is None
    else ""
)
_TURNS = 2


def _best(*jobs: Callable[[], Any]) -> list[float]:
    """Return the least seconds of each job; they take turns, after one turn that does not count."""
    found = [[_seconds(job) for job in jobs] for _ in range(1 + _TURNS)]
    return [min(times) for times in zip(*found[1:], strict=True)]


def _seconds(job: Callable[[], Any]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


@cache
def measure() -> dict[str, float]:
    """Return the ratios."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "6g")  # for the percentiles of Spark SQL, which hold all values
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    names = [f"x{place}" for place in range(WIDTH)]
    with tempfile.TemporaryDirectory() as folder:
        narrow = spark.read.parquet(str(write(Path(folder) / "narrow.parquet", rows=ROWS)))
        wide = spark.read.parquet(str(write_wide(Path(folder) / "wide.parquet")))
        table = sl.Table(narrow, schema=schema())
        wide_table = sl.Table(wide, schema=[sl.Number(name) for name in names])
        products = [f"sum({a} * {b})" for at, a in enumerate(names) for b in names[: at + 1]]
        deciles, by_sql, counts, grouped, moments, summed = _best(
            lambda: sl.Quantiles(NINE, column="x", epsilon=1).release(table),
            lambda: narrow.selectExpr(f"percentile(x, array({', '.join(map(str, NINE))}))").collect(),
            lambda: sl.Count(by=["a", "b", "c"], epsilon=1).release(table),
            lambda: narrow.groupBy("a", "b", "c").count().collect(),
            lambda: clipped_moments(wide_table, names, radius=1),
            lambda: wide.selectExpr(*products).collect(),
        )
    spark.stop()
    return {"spark_deciles": deciles / by_sql, "spark_counts": counts / grouped, "spark_moments": moments / summed}


if __name__ == "__main__":
    if MISSING:
        sys.exit(MISSING)
    for key, value in measure().items():
        print(f"{key:20} {value:.2f}")
