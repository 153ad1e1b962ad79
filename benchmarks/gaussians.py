"""Gaussians with a few public rows: error against non-private estimates and plain CoinPress, and speed. Simulated.

Mean: 50 columns, 1000 rows, rho = 0.5, one public row. "vs non-private" has the mean at distance 1000 from the origin.
"vs CoinPress" is the published simulation: mean 1000 in every column, CoinPress in two steps with the true range
1000·√50, neighbours that replace a row. At distance 1000 itself no method can be ten times better than CoinPress: even
the non-private mean is not (`limit_at_distance_1000`).

Covariance: 10 columns, condition number 1e4, mean at about 1e4, five public rows; error ‖Σ^{-1/2} Σ̂ Σ^{-1/2} - I‖_F.

Speed: a million rows of 50 columns, five public rows; processor time of a release, text of the release included,
against reading the same source and NumPy's mean and covariance.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import print_figures, processor_time, sized

MEAN_RUNS, COVARIANCE_RUNS, PURE_RUNS = sized((25, 20, 10), (1, 1, 1))
SPEED_ROWS, SPEED_COLUMNS, REPEATS = sized((1_000_000, 50, 3), (2_000, 5, 1))


def measure() -> dict[str, float]:
    """Return all figures."""
    return {**means(), **covariances(), **speed()}


def means() -> dict[str, float]:
    """Return ratios of median errors of the mean."""
    near: dict[str, list[float]] = {name: [] for name in ("plain", "public", "coinpress")}
    far: dict[str, list[float]] = {name: [] for name in ("public", "coinpress")}
    for run in range(MEAN_RUNS):
        rng = np.random.default_rng((7, run))
        direction = rng.standard_normal(50)
        place = 1000 * direction / np.linalg.norm(direction)
        rows, public = rng.standard_normal((1000, 50)), rng.standard_normal((1, 50))
        near["plain"].append(float(np.linalg.norm(rows.mean(axis=0))))
        near["public"].append(_off(sl.GaussianMean(prediction=public + place, rho="0.5"), rows, place))
        near["coinpress"].append(_off(sl.GaussianMean(mean_bound=1000, rho="0.5"), rows, place))
        every = np.full(50, 1000.0)
        swap: dict[str, Any] = {"rho": "0.5", "rows": 1000}
        far["public"].append(_off(sl.GaussianMean(prediction=public + every, **swap), rows, every))
        far["coinpress"].append(_off(sl.GaussianMean(mean_bound=1000 * 50**0.5, **swap), rows, every))
    middle = {name: float(np.median(errors)) for name, errors in near.items()}
    return {
        "mean_vs_plain": middle["public"] / middle["plain"],
        "mean_vs_coinpress": float(np.median(far["public"]) / np.median(far["coinpress"])),
        "mean_vs_coinpress_at_distance_1000": middle["public"] / middle["coinpress"],
        "limit_at_distance_1000": middle["plain"] / middle["coinpress"],
    }


def _off(query: sl.GaussianMean, rows: np.ndarray, place: np.ndarray) -> float:
    return float(np.linalg.norm(query.release(rows + place).value["mean"] - place))


def world(size: int, seed: int, condition: float = 1e4) -> tuple[Callable[[int], np.ndarray], np.ndarray]:
    """Return a sampler of a rotated Gaussian far from the origin, and the root of its covariance."""
    rng = np.random.default_rng((11, seed))
    turn = np.linalg.qr(rng.standard_normal((size, size)))[0]
    root = (turn * np.sqrt(np.logspace(0, np.log10(condition), size))) @ turn.T
    mean = 1e4 * rng.standard_normal(size)
    return lambda rows: mean + rng.standard_normal((rows, size)) @ root, root


def covariances() -> dict[str, float]:
    """Return ratios of median Mahalanobis errors of the covariance."""
    found = {}
    cases: list[tuple[str, int, int, dict[str, Any]]] = [
        ("covariance_vs_plain", 5_000, COVARIANCE_RUNS, {"rho": "0.5"}),
        ("pure_vs_plain", 50_000, PURE_RUNS, {"epsilon": 1}),
    ]
    for name, count, runs, price in cases:
        ours, plain = [], []
        for run in range(runs):
            draw, root = world(10, run)
            rows, public = draw(count), draw(5)
            value = sl.GaussianFit(prediction=public, condition=10_000, **price).release(rows).value
            back = np.linalg.inv(root)
            ours.append(np.linalg.norm(back @ value["covariance"] @ back - np.eye(10)))
            plain.append(np.linalg.norm(back @ np.cov(rows, rowvar=False) @ back - np.eye(10)))
        found[name] = float(np.median(ours) / np.median(plain))
    return found


def speed() -> dict[str, float]:
    """Return ratios of processor times, in memory and from Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(3)
    rows = rng.standard_normal((SPEED_ROWS, SPEED_COLUMNS)) * np.linspace(1, 3, SPEED_COLUMNS) + 100
    public = rng.standard_normal((5, SPEED_COLUMNS)) * np.linspace(1, 3, SPEED_COLUMNS) + 100
    schema = [sl.Number(f"x{place}") for place in range(SPEED_COLUMNS)]
    query = sl.GaussianFit(prediction=public, rho="0.5")

    def plain(values: np.ndarray) -> None:
        values.mean(axis=0)
        np.cov(values, rowvar=False)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pq.write_table(pa.table({f"x{place}": rows[:, place] for place in range(SPEED_COLUMNS)}), path)

        def read() -> np.ndarray:
            return np.column_stack([column.to_numpy() for column in pq.read_table(path).columns])

        table = sl.Table(path, schema=schema)
        query.release(table)  # imports
        seconds = {
            "memory_plain": _least(lambda: plain(rows)),
            "memory_ours": _least(lambda: query.release(sl.Table(rows, schema=schema))),
            "parquet_plain": _least(lambda: plain(read())),
            "parquet_ours": _least(lambda: query.release(table)),
        }
    return {
        **{f"{name}_seconds": value for name, value in seconds.items()},
        "memory_vs_plain": seconds["memory_ours"] / seconds["memory_plain"],
        "parquet_vs_plain": seconds["parquet_ours"] / seconds["parquet_plain"],
    }


def _least(job: Callable[[], object]) -> float:
    return min(processor_time(job) for _ in range(REPEATS))


def main() -> None:
    """Print all figures."""
    print_figures(measure())


if __name__ == "__main__":
    main()
