"""Real data sets for benchmarks, where they are: the folder that SIDELIGHT_DATA names, or one next to the project.

Without them the benchmarks generate stand-ins and say so. Nothing here is part of the package or needed by the tests.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


def find(name: str) -> Path | None:
    """Return the folder of a data set, or None where it is not."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    root = Path(os.environ.get("SIDELIGHT_DATA", beside))
    return root / name if (root / name).is_dir() else None


def columns(path: Path, *names: str) -> list[np.ndarray]:
    """Read columns of a Parquet file; missing numbers are NaN."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path, columns=list(names))
    return [table[name].to_numpy(zero_copy_only=False) for name in names]
