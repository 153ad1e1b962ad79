"""The cost of a release on Spark and the same statistic in Spark SQL: seconds in local mode, start-up not counted.

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
from functools import cache, partial
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
#: Rows on which what is short runs once before, so that Java has compiled it.
_WARM = 200_000
#: A job that takes longer is not run again.
_LONG = 20.0


def _ratio(name: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> float:
    """Return the least seconds of ours by theirs: of one run, or of two where they are short."""
    times: list[list[float]] = [[], []]
    while not times[0] or (len(times[0]) < 2 and max(map(min, times)) < _LONG):
        for job, found in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            job()
            found.append(time.perf_counter() - start)
    print(f"{name}: ours {min(times[0]):.1f} s, Spark SQL {min(times[1]):.1f} s", file=sys.stderr)
    return min(times[0]) / min(times[1])


@cache
def measure() -> dict[str, float]:
    """Return the ratios."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "10g")  # for the percentiles of Spark SQL, which hold all values
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    names = [f"x{place}" for place in range(WIDTH)]
    products = [f"sum({a} * {b})" for at, a in enumerate(names) for b in names[: at + 1]]
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for rows in (_WARM, ROWS):
            narrow = spark.read.parquet(str(write(Path(folder) / f"narrow{rows}.parquet", rows=rows)))
            wide = spark.read.parquet(str(write_wide(Path(folder) / f"wide{rows}.parquet", rows=rows)))
            table = sl.Table(narrow, schema=schema())
            wide_table = sl.Table(wide, schema=[sl.Number(name) for name in names])
            # A frame of its own for each run: Spark keeps what a frame has shuffled, and would not do it again.
            jobs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
                "spark_deciles": (
                    partial(sl.Quantiles(NINE, column="x", epsilon=1).release, table),
                    lambda rows=narrow: rows.selectExpr(f"percentile(x, array({', '.join(map(str, NINE))}))").collect(),
                ),
                "spark_counts": (
                    partial(sl.Count(by=["a", "b", "c"], epsilon=1).release, table),
                    lambda rows=narrow: rows.groupBy("a", "b", "c").count().collect(),
                ),
                "spark_moments": (
                    partial(clipped_moments, wide_table, names, radius=1),
                    lambda rows=wide: rows.selectExpr(*products).collect(),
                ),
            }
            if rows == ROWS:
                found = {name: _ratio(name, *pair) for name, pair in jobs.items()}
            else:
                for job in (*jobs["spark_counts"], jobs["spark_deciles"][0], jobs["spark_moments"][0]):
                    job()
    spark.stop()
    return found


if __name__ == "__main__":
    if MISSING:
        sys.exit(MISSING)
    for key, value in measure().items():
        print(f"{key:20} {value:.2f}")
