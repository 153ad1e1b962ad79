"""A covariance of 100,000 rows and 1000 columns: time against plain BLAS, and memory in matrices. Simulated rows.

Time is processor time of pricing and running the query (coding, exact sums, exact noise, shrinkage towards a
prediction, projection, error bound), divided by that of one float64 Gram product and two symmetric eigendecompositions;
writing the release as text does not count. Memory is the peak of what Python and NumPy allocate, sums included, once
the rows are read, in matrices of 1000 × 1000 floats; the batch, and the codes of its rows, do not count.
"""

from __future__ import annotations

import tracemalloc

import numpy as np

import sidelight as sl
from benchmarks.covariance import table_of
from benchmarks.measuring import print_figures, processor_time, sized
from sidelight.aggregates.collect import collect
from sidelight.noise import OSEntropy, Source

ROWS, COLUMNS, REPEATS = sized((100_000, 1000, 2), (2_000, 20, 1))


def measure() -> dict[str, float]:
    """Return seconds, the ratio and the number of matrices."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((ROWS, COLUMNS))
    rows /= np.sqrt(COLUMNS)
    prediction = rows[:2000].T @ rows[:2000] / 2000
    table = table_of(rows)
    query = sl.Covariance(radius=1, rho="0.5", rows=ROWS, prediction=prediction)

    def plain() -> None:
        gram = rows.T @ rows
        np.linalg.eigh(gram)
        np.linalg.eigh(gram)

    def private() -> None:
        prepared = query.prepare(table.schema)
        with Source(OSEntropy(), declared="exact") as source:
            prepared.run(table, source)

    seconds = {"blas": min(processor_time(plain) for _ in range(REPEATS))}
    seconds["ours"] = min(processor_time(private) for _ in range(REPEATS))
    return {
        "blas_seconds": seconds["blas"],
        "our_seconds": seconds["ours"],
        "ours_vs_blas": seconds["ours"] / seconds["blas"],
        "matrices": matrices(table_of(rows[:1000]), query),
    }


def matrices(table: sl.Table, query: sl.Covariance) -> float:
    """Return the peak of what is allocated after the sums are made, in matrices."""
    prepared = query.prepare(table.schema)
    moments = collect(table, prepared.plan.statistics)
    with Source(OSEntropy(), declared="exact") as source:
        prepared.answer(prepared.plan.matrix_noise(moments).release(source), rows=1.0, mean=None)  # for the imports
        tracemalloc.start()
        released = prepared.plan.matrix_noise(moments).release(source)
        with_noise = tracemalloc.get_traced_memory()[1] + np.asarray(moments.second.value).nbytes
        del moments
        tracemalloc.reset_peak()
        prepared.answer(released, rows=float(ROWS), mean=None)
        shrinking = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return max(with_noise, shrinking) / (8 * COLUMNS**2)


def main() -> None:
    """Print all figures."""
    print_figures(measure())


if __name__ == "__main__":
    main()
