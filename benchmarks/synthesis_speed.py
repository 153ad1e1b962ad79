"""A release of 1e6 cells with 50 measured marginals: elapsed seconds and peak memory, in a process of its own.

Ten columns of four values (1,048,576 cells), all triples and their pairs as candidates, 50 rounds, 1e5 rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from time import process_time

import numpy as np

import sidelight as sl
from benchmarks.measuring import peak_gigabytes, sized, timed

COLUMNS, SIZE, ROWS, ROUNDS = sized((10, 4, 100_000, 50), (3, 2, 300, 2))


def run_once() -> dict[str, float]:
    """Generate a table and release it."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, SIZE, ROWS)
    names = [f"c{place}" for place in range(COLUMNS)]
    data = {name: np.where(rng.random(ROWS) < 0.5, hidden, rng.integers(0, SIZE, ROWS)) for name in names}
    table = sl.Table(data, schema=[sl.Category(name, range(SIZE), other=None) for name in names])
    query = sl.SyntheticTable(sl.marginals(3), rho="0.5", rounds=ROUNDS)
    found: list[object] = []
    start = process_time()
    seconds = timed(lambda: found.append(query.release(table)))
    processor = process_time() - start
    measured = len(sl.Synthetic(found[0]).measurements)  # type: ignore[arg-type]
    return {
        "cells": float(SIZE**COLUMNS),
        "measured": measured,
        "seconds": seconds,
        "processor_seconds": processor,
        "gigabytes": peak_gigabytes(),
    }


def measure() -> dict[str, float]:
    """Return seconds and gigabytes of a new process."""
    command = [sys.executable, "-m", "benchmarks.synthesis_speed", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).resolve().parents[1])
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    """Print the figures."""
    figures = run_once()
    if "--json" in sys.argv:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:12s} {value:10.4g}")


if __name__ == "__main__":
    main()
