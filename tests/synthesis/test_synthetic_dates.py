"""Synthetic rows of dates are dates again: they can be read as the rows that they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sidelight as sl
from sidelight.errors import SchemaError

LIBRARIES: Any = ("pandas", "polars", "pyarrow")


def schema(unit: Any) -> list[Any]:
    return [sl.Date("day", start="2020-01-01", end="2023-12-31", unit=unit), sl.Category("g", ["a", "b"], other=None)]


def query(**more: Any) -> sl.SyntheticTable:
    return sl.SyntheticTable(sl.marginals(1), bins={"day": 40}, missing=["day"], rho=50, **more)


def released(unit: str) -> sl.Release:
    cells = [None if place % 5 == 0 else f"2022-03-{1 + place % 28:02} 14:00" for place in range(500)]
    found = query().release(sl.Table({"day": cells, "g": ["a", "b"] * 250}, schema=schema(unit)))
    return sl.Release.from_json(found.to_json())


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("unit", ["day", "hour"])
def test_synthetic_dates_are_dates_and_public_rows_of_their_column(library: Any, unit: str, tmp_path: Path) -> None:
    release = released(unit)
    synthetic = sl.Synthetic(release)
    frame = synthetic.table(library=library)
    days = frame["day"].to_pylist() if library == "pyarrow" else frame["day"].to_list()
    there = [each for each in days if each is not None and each == each]  # not NaT
    assert sum((each.year, each.month) in ((2022, 2), (2022, 3), (2022, 4)) for each in there) > 350
    assert 80 < len(frame) - len(there) < 120
    read = query(prediction=sl.PublicData(frame, "synthetic")).prepare(sl.Schema(schema(unit))).prediction
    assert read is not None
    counted = sl.Count(where='day >= "2020-01-01"', epsilon=10**4).release(sl.Table(frame, schema=schema(unit)))
    assert counted.value["count"].tolist() == [len(there)]
    for ending in ("csv", "parquet"):
        path = tmp_path / f"rows.{ending}"
        synthetic.write(path, library=library)
        again = query(prediction=path).prepare(sl.Schema(schema(unit))).prediction
        assert again is not None
        assert again["sha256"] == read["sha256"]


def test_releases_that_do_not_say_how_they_count_give_numbers() -> None:
    release = released("day")
    columns = [{key: each[key] for key in each if key not in ("unit", "start")} for each in release.value["columns"]]
    older = sl.Release.from_json(release.to_json())
    older.value["columns"] = columns
    new, old = (sl.Synthetic(each).table() for each in (release, older))
    assert ((new["day"] - pd.Timestamp("2020-01-01")).dt.days.dropna() == old["day"].dropna()).all()
    assert new["g"].tolist() == old["g"].tolist()


def test_dates_take_the_type_of_a_public_table_that_has_dates_or_texts() -> None:
    synthetic = sl.Synthetic(released("day"))
    seconds = pd.DataFrame({"day": pd.Series(["2022-03-01"], dtype="datetime64[s]")})
    assert synthetic.table(9, like=seconds)["day"].dtype == "datetime64[s]"
    for number in (1, 1.5):
        with pytest.raises(SchemaError, match="does not fit the type"):
            synthetic.table(9, like=pd.DataFrame({"day": [number]}))
