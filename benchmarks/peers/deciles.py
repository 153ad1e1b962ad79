"""Nine deciles with other libraries and with ours, in one run: time and mean largest rank error, and the ratios.

N(0,1), bounds [-10, 10], one total pure epsilon of 1 under adding or removing a row, levels 0.1 ... 0.9.
"""

from __future__ import annotations

import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import sidelight as sl
from benchmarks.measuring import sized
from benchmarks.peers.cases import level_numbers
from benchmarks.peers.environments import OURS, PeersError, prepare, run, save_data
from sidelight.quantiles.evaluate import nonprivate_gap
from sidelight.quantiles.tree import even_levels

#: Trials for each peer and number of rows; few where one takes seconds.
TRIALS = {
    "diffprivlib": {10_000: 40, 1_000_000: 3},
    "opendp": {10_000: 40, 1_000_000: 12},
    "python-dp": {10_000: 40, 1_000_000: 12},
    "quantile_tree": {10_000: 100, 1_000_000: 40},
}
SIZES = {10_000: "1e4", 1_000_000: "1e6"}
OUR_TRIALS = sized({10_000: 200, 1_000_000: 60}, {10_000: 1, 1_000_000: 1})
DECILES = even_levels(9)


def missing() -> dict[str, str]:
    """Return why peers are not here, by name."""
    found = {}
    for peer in ("diffprivlib", "opendp", "python-dp"):
        try:
            prepare(peer)
        except PeersError as error:
            found[peer] = str(error)
    if len(found) == 3:
        raise PeersError(
            f"no peer could be installed ({found['opendp']}); this benchmark needs the package index: connect, or "
            "set PIP_INDEX_URL to a mirror, and run it again"
        )
    return found


def run_peer(peer: str, rows: int) -> dict[str, float]:
    """Run one peer in its environment; the tree in NumPy runs in ours."""
    trials = TRIALS[peer][rows]
    rng = np.random.default_rng(rows)
    data = [rng.standard_normal(rows) for _ in range(min(trials, 12))]
    with tempfile.TemporaryDirectory() as folder:
        save_data(Path(folder), [{"x": values} for values in data])
        known = {"program": "quantile_tree"} if peer == "quantile_tree" else {}
        found = run(
            OURS if known else peer,
            "quantiles",
            data=Path(folder),
            trials=trials,
            seconds=300,
            epsilon=1.0,
            bounds=[-10.0, 10.0],
            levels=level_numbers(9),
            **known,
        )
    if found.failure is not None:
        raise PeersError(f"{peer} failed at {rows} rows: {found.failure}")
    gaps = [
        float(nonprivate_gap(data[trial % len(data)], DECILES, answer).max())
        for trial, answer in enumerate(found.answers)
    ]
    return {"gap": statistics.mean(gaps), "seconds": statistics.median(found.seconds)}


def run_ours(rows: int, *, trials: int) -> dict[str, float]:
    """Run our release path, session and ledger-free door included."""
    query = sl.Quantiles(DECILES, epsilon=1, bounds=(-10, 10))
    rng = np.random.default_rng(rows)
    gaps, seconds = [], []
    for _ in range(trials):
        values = rng.standard_normal(rows)
        start = time.perf_counter()
        outputs = query.release(values).value
        seconds.append(time.perf_counter() - start)
        gaps.append(float(nonprivate_gap(values, DECILES, outputs).max()))
    return {"gap": statistics.mean(gaps), "seconds": statistics.median(seconds)}


def measure() -> dict[str, float]:
    """Return gaps, seconds and ratios by name; NaN where a peer has no wheel for this machine."""
    away = missing()
    figures: dict[str, float] = {}
    for rows, size in SIZES.items():
        ours = run_ours(rows, trials=OUR_TRIALS[rows])
        figures[f"our_gap_{size}"], figures[f"our_seconds_{size}"] = ours["gap"], ours["seconds"]
        gaps = []
        for peer in TRIALS:
            name = peer.replace("-", "_")
            if peer in away:
                figures[f"{name}_time_vs_ours_{size}"] = float("nan")
                continue
            if peer == "quantile_tree" and "python-dp" not in away:
                continue  # the stand-in is for machines without the original
            found = run_peer(peer, rows)
            gaps.append(found["gap"])
            figures[f"{name}_gap_{size}"], figures[f"{name}_seconds_{size}"] = found["gap"], found["seconds"]
            if peer != "quantile_tree":
                figures[f"{name}_time_vs_ours_{size}"] = found["seconds"] / ours["seconds"]
        figures[f"our_gap_vs_best_peer_{size}"] = ours["gap"] / min(gaps)
    return figures


def main() -> None:
    """Print a table, or say why there is none."""
    try:
        away = missing()
        figures = measure()
    except PeersError as error:
        sys.exit(f"peers: {error}")
    print("nine deciles of N(0,1), bounds [-10, 10], epsilon 1: mean largest gap in ranks, median seconds, times ours")
    for size in SIZES.values():
        print(f"\nn = {size}")
        best = figures[f"our_gap_vs_best_peer_{size}"]
        print(f"  {'sidelight':16s} {figures[f'our_gap_{size}']:9.1f} {figures[f'our_seconds_{size}']:10.4f} s")
        for peer in (name.replace("-", "_") for name in TRIALS):
            if f"{peer}_gap_{size}" in figures:
                ratio = figures[f"{peer}_seconds_{size}"] / figures[f"our_seconds_{size}"]
                gap, seconds = figures[f"{peer}_gap_{size}"], figures[f"{peer}_seconds_{size}"]
                note = "  (Google's algorithm in NumPy: error only)" if peer == "quantile_tree" else ""
                print(f"  {peer:16s} {gap:9.1f} {seconds:10.4f} s  {ratio:7.1f}x{note}")
        print(f"  our gap / best peer's gap: {best:.2f}")
    for peer, reason in away.items():
        print(f"\n{peer} was not measured on {platform.machine()}: {reason}")


if __name__ == "__main__":
    main()
