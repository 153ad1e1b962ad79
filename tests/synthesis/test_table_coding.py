"""How rows become places of a synthetic table's axes: one meaning on all engines, and nothing in a row raises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.collect import coded_frame, coded_rows
from sidelight.synthesis.axes import axis_of, coding_of

AGES = [3.0, 18.0, 17.999, None, -5.0, 64.0, 1e300, float("inf"), float("-inf"), 65.0]
SEXES = ["F", "M", None, "F", "x", "", "other", "M", "(missing)", "F"]
NUMBER = sl.Number("age", lower=0, upper=100)
CATEGORY = sl.Category("sex", ["F", "M"])


def sources(folder: Path) -> dict[str, Any]:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    data = {"age": AGES, "sex": SEXES}
    frame = pl.DataFrame(data)
    frame.write_parquet(folder / "rows.parquet")
    frame.write_csv(folder / "rows.csv")
    return {
        "pandas": pd.DataFrame(data),
        "polars": frame,
        "lazy": frame.lazy(),
        "arrow": pa.table(data),
        "parquet": folder / "rows.parquet",
        "csv": folder / "rows.csv",
    }


@pytest.mark.parametrize("kept", [False, True])
def test_every_engine_gives_the_same_codes(tmp_path: Path, kept: bool) -> None:
    axes = [
        axis_of(NUMBER, edges=[0, 18, 65, 100], keeps_missing=kept),
        axis_of(CATEGORY, keeps_missing=kept),
    ]
    coding = coding_of(axes)
    ages = [0, 1, 0, 3, 0, 1, 2, 2, 0, 2]
    absent = 3 if kept else 2
    sexes = [0, 1, absent, 0, 2, absent, 2, 1, 3 if kept else 2, 0]
    expected = list(zip(ages, sexes, strict=True))
    if not kept:
        del expected[3]  # a missing number is dropped, as declared
    for name, source in sources(tmp_path).items():
        table = sl.Table(source, schema=[NUMBER, CATEGORY])
        rows = [tuple(row) for codes in coded_rows(table, coding) for row in np.stack(codes, axis=1).tolist()]
        assert sorted(rows) == sorted(expected), name
        if name in ("lazy", "parquet"):
            frame, columns = coded_frame(table, coding)
            lowered = [tuple(row) for part in table.rows.stream(frame, columns) for row in np.stack(part, 1).tolist()]
            assert sorted(lowered) == sorted(expected), name


def test_a_fill_value_has_the_code_of_its_bin() -> None:
    number = sl.Number("age", lower=0, upper=100, missing=sl.Fill(18))
    coding = coding_of([axis_of(number, edges=[0, 18, 65, 100])])
    table = sl.Table({"age": [np.nan, 3.0]}, schema=[number])
    assert [code.tolist() for codes in coded_rows(table, coding) for code in codes] == [[1, 0]]
