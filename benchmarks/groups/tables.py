"""Several tables about the same people: other people touched, engines, the cost of a view, TPC-H, vectors of totals."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

from benchmarks import tables, tables_cost, tpch
from benchmarks.target import Target

_ABSENT = "" if shutil.which("tpchgen-cli") else "tpchgen-cli is not installed: pip install tpchgen-cli"
_NO_SPARK = "" if find_spec("pyspark") and shutil.which("java") else "PySpark or Java is not there: make test-spark"

TARGETS = [
    Target("couplings", tables.engines, "couplings", "<=", 0),
    Target("engines-differ", tables.engines, "differ", "<=", 0),
    Target("engines-differ-spark", tables.on_spark, "differ", "<=", 0, skipped=_NO_SPARK),
    Target("brute-force-violations", tables.brute_force, "violations", "<=", 0),
    Target("months-violations", tables.months, "violations", "<=", 0),
    Target("totals-vs-duckdb", tables_cost.cost, "totals", "<=", 3, skipped=_ABSENT),
    Target("capped-vs-duckdb", tables_cost.cost, "capped", "<=", 8, skipped=_ABSENT),
    Target("tpch-q4", tables_cost.cost, "q4", "<=", 0.0015, skipped=_ABSENT),
    Target("memory-sf10-gib", tables_cost.memory, "gib", "<=", 4, skipped=_ABSENT),
    Target("memory-text-keys-gib", tables_cost.memory_of_texts, "gib", "<=", 4, skipped=_ABSENT),
    Target("tpch-queries", tpch.measure, "answered", ">=", 15, skipped=_ABSENT),
    Target("tpch-q1-large-cells", tpch.accuracy, "large_cells", "<=", 0.003, skipped=_ABSENT),
    Target("tpch-q1-small-cell", tpch.accuracy, "small_cell", "<=", 0.04, skipped=_ABSENT),
    Target("tpch-q9-median", tpch.accuracy, "median", "<=", 0.015, skipped=_ABSENT),
]
