"""A pure private covariance against diffprivlib and OpenDP (5 columns), and against Laplace noise (20 columns).

10,000 simulated rows of length 1 with spectrum 1/i, epsilon 1 under adding or removing a row. With 20 columns both
libraries are given 45 seconds; so far neither has answered in that time.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import sidelight as sl
from benchmarks.covariance import table_of
from benchmarks.measuring import print_figures, sized
from benchmarks.peers.cases import covariance_error
from benchmarks.peers.environments import PeersError, run, save_data

ROWS, RUNS, PATIENCE = sized((10_000, 24, 45), (500, 1, 45))
PEERS = ("diffprivlib", "opendp")


def unit_rows(d: int) -> np.ndarray:
    """Generate rows of length 1."""
    rows = np.random.default_rng(d).standard_normal((ROWS, d)) / np.sqrt(np.arange(1, d + 1))
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def ours(rows: np.ndarray, **settings: object) -> tuple[float, float]:
    """Return the median error and the median seconds of releases through the pipeline."""
    query = sl.Covariance(radius=1, epsilon=1, **settings)  # type: ignore[arg-type]
    table, truth = table_of(rows), rows.T @ rows / len(rows)
    query.release(table)  # once for the imports
    errors, seconds = [], []
    for _ in range(RUNS):
        start = time.perf_counter()
        found = query.release(table).value["matrix"]
        seconds.append(time.perf_counter() - start)
        errors.append(float(np.linalg.norm(found - truth)))
    return float(np.median(errors)), float(np.median(seconds))


def laplace_error(rows: np.ndarray) -> float:
    """Return the median error of Laplace noise on the upper triangle of the sum, sensitivity (d + 1)/2."""
    d, rng = rows.shape[1], np.random.default_rng(1)
    errors = []
    for _ in range(RUNS):
        draws = rng.laplace(0, (d + 1) / 2, (d, d))
        errors.append(float(np.linalg.norm(np.triu(draws) + np.triu(draws, 1).T)) / ROWS)
    return float(np.median(errors))


def peer(name: str, rows: np.ndarray, *, trials: int, patience: float | None) -> dict[str, float] | None:
    """Run one peer in its environment; None if it has not answered in time."""
    with tempfile.TemporaryDirectory() as folder:
        save_data(Path(folder), [{"rows": rows}])
        seconds = 600 if patience is None else patience
        found = run(
            name,
            "covariance",
            data=Path(folder),
            trials=trials,
            seconds=seconds,
            patience=patience,
            epsilon=1.0,
            radius=1.0,
        )
    if not found.answers and found.failure is not None and found.failure.startswith("no answer"):
        return None
    if found.failure is not None:
        raise PeersError(f"{name}: {found.failure}")
    error = float(np.median([covariance_error({"rows": rows}, answer) for answer in found.answers]))
    return {"error": error, "seconds": float(np.median(found.seconds))}


def measure() -> dict[str, float]:
    """Return errors, seconds and ratios by name."""
    narrow, wide = unit_rows(5), unit_rows(20)
    error5, _ = ours(narrow)
    error20, seconds20 = ours(wide)
    laplace = laplace_error(wide)
    figures = {
        "our_error_5": error5,
        "our_error_20": error20,
        "laplace_error_20": laplace,
        "our_error_20_vs_laplace": error20 / laplace,
        "our_seconds_20": seconds20,
    }
    for name in PEERS:
        found = peer(name, narrow, trials=20, patience=None)
        assert found is not None
        figures[f"{name}_error_5"] = found["error"]
        figures[f"our_error_5_vs_{name}"] = error5 / found["error"]
        answer = peer(name, wide, trials=1, patience=PATIENCE)
        figures[f"{name}_seconds_20"] = float("inf") if answer is None else answer["seconds"]
        said = f"no answer in {PATIENCE} s" if answer is None else f"error {answer['error']:.3f}"
        print(f"{name}, 20 columns, epsilon 1: {said}", file=sys.stderr)
    return figures


def main() -> None:
    """Print all figures."""
    print_figures(measure())


if __name__ == "__main__":
    main()
