"""What a private linear model costs in time and memory: Adult against scikit-learn, and 1e7 x 20 rows from Parquet.

Adult: processor time of one fit of all 48,842 rows with one BLAS thread, ours and scikit-learn's newton-cholesky in
turn, median of the ratios. Every fit of ours has another epsilon, so that nothing that was computed for an earlier one
can be used again: calibration, claims and certificate are part of the time.

Parquet: a child process fits a file as a user would, with `fit_table`; the file is never in memory. Counted are the
passes over the file, the processor time over the time that passed (how many cores were at work), and the peak memory of
the child, Python and its libraries included.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import linear_sets
from benchmarks.measuring import peak_gigabytes, print_figures, processor_time, sized

REPEATS = sized(5, 1)
ROWS, COLUMNS, CHUNK = sized((10_000_000, 20, 250_000), (2_000, 3, 1_000))


def adult_ratio(repeats: int = REPEATS) -> dict[str, float]:
    """Return our seconds, scikit-learn's, and the median ratio of neighbouring runs."""
    from sklearn.linear_model import LogisticRegression as Plain
    from threadpoolctl import threadpool_limits

    import sidelight as sl

    data = linear_sets.adult(complete=False)

    def ours(epsilon: float) -> float:
        model = sl.LogisticRegression(epsilon=epsilon, delta="1e-5", data_norm=1, classes=[0, 1])
        return processor_time(lambda: model.fit(data.rows, data.labels))

    def plain() -> float:
        model = Plain(solver="newton-cholesky")
        return processor_time(lambda: model.fit(data.rows, data.labels))

    with threadpool_limits(1):
        ours(0.9), plain()  # libraries are loaded now
        pairs = [(ours(1 + run / 100), plain()) for run in range(repeats)]
    return {
        "adult_seconds": statistics.median(first for first, _ in pairs),
        "adult_sklearn_seconds": statistics.median(second for _, second in pairs),
        "adult_vs_sklearn": statistics.median(first / second for first, second in pairs),
    }


def write_parquet(path: Path, *, rows: int = ROWS) -> None:
    """Generate rows of norm at most 1 with labels of a logistic model, chunk by chunk, one row group each."""
    import pyarrow
    import pyarrow.parquet

    rng = np.random.default_rng(20)
    weights = 3 * rng.standard_normal(COLUMNS)
    names = [f"x{place}" for place in range(COLUMNS)]
    writer = None
    for _ in range(0, rows, CHUNK):
        x = rng.uniform(-1, 1, (min(CHUNK, rows), COLUMNS)) / np.sqrt(COLUMNS)
        y = np.where(rng.random(len(x)) < 1 / (1 + np.exp(-x @ weights)), "yes", "no")
        columns = {name: np.ascontiguousarray(x[:, place]) for place, name in enumerate(names)}
        table = pyarrow.table(columns | {"y": y})
        # no dictionary for floats that never repeat
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema, use_dictionary=["y"], compression="none")
        writer.write_table(table)
    assert writer is not None
    writer.close()


def fit_parquet(path: Path, *, rows: int = ROWS) -> dict[str, float]:
    """Fit a file; return passes, seconds and the peak memory of this process. `rows` is a public number."""
    from unittest.mock import patch

    import sidelight as sl
    from sidelight.regression.estimators.table_encoding import TableExamples

    edge = 1 / np.sqrt(COLUMNS)
    numbers = [sl.Number(f"x{place}", lower=-edge, upper=edge) for place in range(COLUMNS)]
    table = sl.Table(str(path), schema=[*numbers, sl.Category("y", ["no", "yes"])])
    model = sl.LogisticRegression(epsilon=1, delta="1e-8", rows=rows)
    start, worked = time.perf_counter(), time.process_time()
    with patch.object(TableExamples, "batches", autospec=True, side_effect=TableExamples.batches) as opened:
        model.fit_table(table, target="y")
    passed = time.perf_counter() - start
    return {
        "parquet_passes": float(opened.call_count),
        "parquet_seconds": passed,
        "parquet_cores": (time.process_time() - worked) / passed,
        "parquet_peak_gigabytes": peak_gigabytes(),
    }


def parquet(rows: int = ROWS) -> dict[str, float]:
    """Write the file, fit it in a child process, and return what the child measured."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_parquet(path, rows=rows)
        command = [sys.executable, "-m", "benchmarks.linear_speed", str(path), str(rows)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=Path(__file__).resolve().parents[1]
        )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure() -> dict[str, float]:
    """Return the figures of the targets."""
    return adult_ratio() | parquet()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(fit_parquet(Path(sys.argv[1]), rows=int(sys.argv[2]))))
    else:
        print_figures(measure())
