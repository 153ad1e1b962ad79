"""Several tables about the same people: other people touched, engines, the cost of a view, TPC-H, vectors of totals."""

from __future__ import annotations

import shutil

from benchmarks import tables, tpch
from benchmarks.target import Target

_ABSENT = "" if shutil.which("tpchgen-cli") else "tpchgen-cli is not installed: pip install tpchgen-cli"

TARGETS = [
    Target("couplings", tables.engines, "couplings", "<=", 0),
    Target("engines-differ", tables.engines, "differ", "<=", 0),
    Target("brute-force-violations", tables.brute_force, "violations", "<=", 0),
    Target("totals-vs-duckdb", tables.totals, "ratio", "<=", 3),
    Target("tpch-queries", tpch.measure, "answered", ">=", 15, skipped=_ABSENT),
    Target("tpch-q1-large-cells", tpch.accuracy, "large_cells", "<=", 0.003, skipped=_ABSENT),
    Target("tpch-q1-small-cell", tpch.accuracy, "small_cell", "<=", 0.04, skipped=_ABSENT),
    Target("tpch-q9-median", tpch.accuracy, "median", "<=", 0.015, skipped=_ABSENT),
]
