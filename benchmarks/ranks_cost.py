"""What does it cost to rank a column of ten million numbers, as a ratio to what must be done anyway?

In memory the yardstick is one `np.sort` of the same floats. From a Parquet file it is what DuckDB needs to count the
column on the same grid; peak memory is that of a fresh process that only ranks the file. Each figure is of the best of
several runs taken in turns, because a shared machine has quiet and busy moments.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.measuring import peak_gigabytes, print_figures, sized, timed
from sidelight.aggregates import collect_ranks
from sidelight.grid import Grid
from sidelight.noise import OSEntropy, Source
from sidelight.records import Number, PersonId, Table

ROWS = sized(10_000_000, 5_000)
REPEATS = sized(4, 1)
#: A grid for continuous data (about as many codes as rows), and one of a declared granularity (about 10,000 codes).
GRIDS = {
    "fine": Grid(resolution=Fraction(1, 2**20)),
    "granular": Grid(resolution=Fraction(1, 1000), snap="nearest"),
}


def measure() -> dict[str, float]:
    """Return the ratios, and peak memory in gigabytes, by name."""
    values = np.random.default_rng(20261115).standard_normal(ROWS)
    with_gaps = values.copy()
    with_gaps[::10] = np.nan
    whole = np.round(values * 20)
    seconds = _best_of(
        {
            "sort": lambda: np.sort(values),
            "fine": lambda: rank(values, GRIDS["fine"]),
            "missing": lambda: rank(with_gaps, GRIDS["fine"]),
            "granular": lambda: rank(values, GRIDS["granular"]),
            "sort_whole": lambda: np.sort(whole),
            "whole": lambda: rank(whole, Grid(resolution=Fraction(1), snap="nearest")),
        }
    )
    figures = {
        "memory_fine_vs_sort": seconds["fine"] / seconds["sort"],
        "memory_missing_vs_sort": seconds["missing"] / seconds["sort"],
        "memory_granular_vs_sort": seconds["granular"] / seconds["sort"],
        "memory_whole_numbers_vs_sort": seconds["whole"] / seconds["sort_whole"],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.parquet"
        _write_parquet(values, path)
        for name in GRIDS:
            ours, theirs = (_in_own_process(job, name, path) for job in ("rank", "count"))
            figures[f"parquet_{name}_vs_count"] = ours["seconds"] / theirs["seconds"]
            figures[f"parquet_{name}_peak_gigabytes"] = ours["peak_gigabytes"]
        persons = _in_own_process("persons", "granular", path)
        figures["parquet_persons_vs_count"] = persons["seconds"] / theirs["seconds"]
        figures["parquet_persons_peak_gigabytes"] = persons["peak_gigabytes"]
    return figures


def main() -> None:
    """Print the table."""
    print_figures(measure())


def rank(values: np.ndarray, grid: Grid) -> None:
    """Rank an array; the dither is drawn when ranks are asked for, so it costs nothing here."""
    with Source(OSEntropy()) as source:
        collect_ranks(Table(values, schema=[Number("x")]), "x", grid, source)


def _best_of(jobs: dict[str, Callable[[], object]]) -> dict[str, float]:
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(REPEATS):
        for name, job in jobs.items():
            best[name] = min(best[name], timed(job))
    return best


def _write_parquet(values: np.ndarray, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": values, "who": np.arange(values.size) // 3}), path)


def _in_own_process(job: str, grid: str, path: Path) -> dict[str, float]:
    """Run a job in a fresh process, so that its peak memory is its own."""
    command = [sys.executable, "-m", "benchmarks.ranks_cost", job, grid, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _child(job: str, name: str, path: str) -> None:
    """Do one job of the Parquet comparison; print the best seconds and the peak resident memory of the process."""
    grid = GRIDS[name]
    person = [PersonId("who", max_rows=2)] if job == "persons" else []
    if job == "count":
        import duckdb

        step, half = float(grid.resolution), grid.half_step
        text = f"select floor(x / {step!r} + {half})::bigint as code, count(*) from read_parquet('{path}') group by 1"
        times = [timed(lambda: duckdb.sql(text).fetchnumpy()) for _ in range(REPEATS)]
    else:
        table = Table(path, schema=[Number("x"), *person])
        with Source(OSEntropy()) as source:
            times = [timed(lambda: collect_ranks(table, "x", grid, source)) for _ in range(1 if person else REPEATS)]
    print(json.dumps({"seconds": min(times), "peak_gigabytes": peak_gigabytes()}))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _child(*sys.argv[1:])
    else:
        main()
