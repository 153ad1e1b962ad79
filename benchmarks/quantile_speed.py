"""Speed of nine private deciles, and of 199 quantiles, of ten million values, as ratios to what must be done anyway.

In memory the yardstick is one `np.sort` of the same floats; from a Parquet file it is what DuckDB needs to count the
column, in steps of a millionth or of the declared granularity. Each ratio is of interleaved repetitions of one run: of
the lower quartiles of processor time in memory (both sides are one thread; other programs still slow them down, by the
memory and the clock that all share), of the medians of elapsed time from files.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import peak_gigabytes, print_figures, processor_time, sized, timed
from sidelight.aggregates import collect_ranks
from sidelight.noise import OSEntropy, Source
from sidelight.quantiles import descend as descend_module
from sidelight.quantiles.descend import descend
from sidelight.quantiles.prepared import PreparedQuantiles
from sidelight.quantiles.tree import even_levels

ROWS = sized(10_000_000, 5_000)
DECILES = [Fraction(i, 10) for i in range(1, 10)]
MANY = 199
REPEATS = sized(9, 1)


def measure() -> dict[str, float]:
    """Return the ratios by name."""
    values = np.random.default_rng(20261115).standard_normal(ROWS)
    query = sl.Quantiles(DECILES, epsilon=1, prediction=sl.priors.Cauchy(0.0, 1.0))
    blind = sl.Quantiles(DECILES, epsilon=1)
    many = sl.Quantiles(even_levels(MANY), epsilon=1)
    seconds = _interleaved(
        {
            "sort": lambda: np.sort(values),
            "deciles": lambda: query.release(values),
            "deciles_blind": lambda: blind.release(values),
            "many": lambda: many.release(values),
        }
    )
    sampling = _sampling_seconds(query, values)
    figures = {
        "deciles_vs_sort": max(seconds["deciles"], seconds["deciles_blind"]) / seconds["sort"],
        "deciles_cauchy_vs_sort": seconds["deciles"] / seconds["sort"],
        "deciles_blind_vs_sort": seconds["deciles_blind"] / seconds["sort"],
        "many_vs_sort": seconds["many"] / seconds["sort"],
        "many_post_processing_milliseconds": 1000 * _post_processing_seconds(many, values),
        "sampling_vs_sort": sampling / seconds["sort"],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.parquet"
        _write_parquet(values, path)
        runs = [_parquet_in_own_process(path, case) for case in ("continuous", "granular")]
    figures["parquet_vs_count"] = max(run["release"] / run["count"] for run in runs)
    figures["parquet_continuous_vs_count"] = runs[0]["release"] / runs[0]["count"]
    figures["parquet_granular_vs_count"] = runs[1]["release"] / runs[1]["count"]
    figures["parquet_peak_gigabytes"] = max(run["peak_gigabytes"] for run in runs)
    return figures


def main() -> None:
    """Print the table."""
    print_figures(measure())


def _interleaved(jobs: dict[str, Callable[[], object]]) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(REPEATS):
        for name, job in jobs.items():
            taken[name].append(processor_time(job))
    return {name: _lower_quartile(times) for name, times in taken.items()}


def _lower_quartile(times: list[float]) -> float:
    return float(np.quantile(times, 0.25))


def _sampling_seconds(query: sl.Quantiles, values: np.ndarray) -> float:
    """Time the tree alone, on ranks that are already collected, with priors compiled anew each time."""
    table = sl.Table(values, schema=[query.declare()])
    with Source(OSEntropy()) as source:
        ranks = collect_ranks(table, "value", query.prepare(table.schema).grid, source)
        times = []
        for _ in range(sized(25, 1)):
            prepared = query.prepare(table.schema)
            times.append(processor_time(partial(_descend, prepared, ranks, source)))
    return _lower_quartile(times)


def _post_processing_seconds(query: sl.Quantiles, values: np.ndarray) -> float:
    """Time what is done with ranks that are already collected, less the selections: plan, counts, curve, bounds."""
    table = sl.Table(values, schema=[query.declare()])
    prepared = query.prepare(table.schema)
    assert isinstance(prepared, PreparedQuantiles)
    selecting = 0.0
    select = descend_module.select_rank

    def watched(*given: Any, **named: Any) -> int:
        nonlocal selecting
        start = time.process_time()
        found = select(*given, **named)
        selecting += time.process_time() - start
        return found

    descend_module.select_rank = watched
    try:
        with Source(OSEntropy()) as source:
            ranks = prepared.ranks(table, source)
            times = []
            for _ in range(sized(15, 1)):
                selecting = 0.0
                times.append(processor_time(partial(prepared.answer, ranks, source)) - selecting)
    finally:
        descend_module.select_rank = select
    return _lower_quartile(times)


def _descend(prepared: Any, ranks: Any, source: Source) -> None:
    descend(prepared.tree, ranks, priors=prepared.compiled, source=source)


def _write_parquet(values: np.ndarray, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": values}), path)


def _parquet_in_own_process(path: Path, case: str) -> dict[str, float]:
    """Run release and count in a fresh process each, so that peak memory is the release's own."""
    runs = {}
    for job in ("release", "count"):
        command = [sys.executable, "-m", "benchmarks.quantile_speed", job, case, str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        runs[job] = json.loads(done.stdout)
    return {
        "release": runs["release"]["seconds"],
        "count": runs["count"]["seconds"],
        "peak_gigabytes": runs["release"]["peak_gigabytes"],
    }


def _child(job: str, case: str, path: str) -> None:
    """One job of the Parquet comparison; prints seconds (median) and the peak resident memory of the process."""
    column = sl.Number("x") if case == "continuous" else sl.Number("x", lower=-10, upper=10, granularity="0.001")
    prediction = sl.priors.Cauchy(0.0, 1.0) if case == "continuous" else None
    query = sl.Quantiles(DECILES, epsilon=1, column="x", prediction=prediction)
    table = sl.Table(path, schema=[column])
    step = 2.0**-20 if case == "continuous" else 0.001
    if job == "release":
        times = [timed(lambda: query.release(table)) for _ in range(3)]
    else:
        import duckdb

        text = f"select floor(x / {step!r})::bigint as code, count(*) from read_parquet('{path}') group by 1"
        times = [timed(lambda: duckdb.sql(text).fetchnumpy()) for _ in range(3)]
    print(json.dumps({"seconds": statistics.median(times), "peak_gigabytes": peak_gigabytes()}))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _child(*sys.argv[1:])
    else:
        main()
