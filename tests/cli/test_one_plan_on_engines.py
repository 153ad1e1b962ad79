"""One plan file, unchanged, on three engines: the same releases under seeded noise. Spark: `tests/spark`."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl

from one_plan import releases, write_visits


def test_one_plan_gives_the_same_releases_on_numpy_duckdb_and_polars(tmp_path: Path) -> None:
    rows = write_visits(tmp_path)
    by_plan = releases(tmp_path)  # Arrow and DuckDB read the folder
    arrays = {name: rows.column(name).to_pylist() for name in rows.column_names}
    assert releases(tmp_path, arrays) == by_plan
    assert releases(tmp_path, duckdb.connect().from_arrow(rows)) == by_plan
    assert releases(tmp_path, pl.scan_parquet(tmp_path / "visits" / "*.parquet")) == by_plan
