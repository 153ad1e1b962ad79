"""The table of groups: a mapping of columns, one row a group, whole after JSON and after every frame."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.group_table import GroupTable

JOBS = GroupTable(
    keys=["job", "sex"],
    groups=[("cook", "F"), ("cook", "M"), ("nurse", "F")],
    columns={"count": [12, 0, 30], "mean": [1.5, math.nan, 2.25], "supported": [True, False, True]},
    notes={"radius": 4.0},
)


def test_columns_are_read_by_name() -> None:
    assert list(JOBS) == ["job", "sex", "count", "mean", "supported"]
    assert JOBS["sex"] == ["F", "M", "F"]
    assert JOBS["count"].tolist() == [12, 0, 30]
    assert JOBS.row("nurse", "F") == {"count": 30, "mean": 2.25, "supported": True}
    assert JOBS.rows == 3
    with pytest.raises(KeyError, match="did you mean 'count'"):
        JOBS["cuont"]
    with pytest.raises(KeyError, match="no group"):
        JOBS.row("nurse", "M")
    with pytest.raises(ValueError, match="read-only"):
        JOBS["count"][0] = 7


def test_one_row_reads_as_numbers() -> None:
    whole = GroupTable(keys=[], groups=[()], columns={"mean": [41.5], "count": [7]})
    assert (whole.mean, whole.count) == (41.5, 7)
    with pytest.raises(AttributeError, match="no single 'count'"):
        _ = JOBS.count
    with pytest.raises(AttributeError, match="its columns are"):
        _ = whole.median


def test_json_brings_back_every_number_and_its_kind() -> None:
    again = GroupTable.from_json(json.loads(json.dumps(JOBS.to_json(), allow_nan=False)))
    assert again == JOBS
    assert [again[name].dtype for name in again.columns] == [JOBS[name].dtype for name in JOBS.columns]
    assert again.notes == {"radius": 4.0}
    assert math.isnan(again["mean"][1])


@pytest.mark.parametrize("rows", [3, 5000])
def test_texts_beside_numbers_come_back(rows: int) -> None:
    """Short tables write them as they are, long ones as codes."""
    texts = ["", "public", "invariant"]
    columns = {"count": range(rows), "exact": [texts[place % 3] for place in range(rows)]}
    table = GroupTable(keys=["leaf"], groups=[(f"{place:04}",) for place in range(rows)], columns=columns)
    written = json.dumps(table.to_json(), allow_nan=False)
    assert ("packed" in written) == (rows > 4096)
    again = GroupTable.from_json(json.loads(written))
    assert again == table
    assert again["exact"].tolist() == columns["exact"]
    assert again["exact"].dtype == table["exact"].dtype


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_hold_the_same_cells(library: str) -> None:
    pytest.importorskip(library)
    if library == "pandas":
        records = JOBS.to_pandas().to_dict("records")
    elif library == "polars":
        records = JOBS.to_polars().to_dicts()
    else:
        records = JOBS.to_arrow().to_pylist()
    wanted = JOBS.to_records()
    for found, row in zip(records, wanted, strict=True):
        for name, value in row.items():
            assert found[name] == value or math.isnan(found[name])


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_table_is_copied_and_pickled(again: Any) -> None:
    assert again(JOBS) == JOBS


def test_many_rows_are_cut_and_counted_in_print() -> None:
    long = GroupTable(keys=["k"], groups=[(f"<b>{n}",) for n in range(50)], columns={"count": np.arange(50)})
    assert "... and 30 more groups" in repr(long)
    assert "<b>" not in long._repr_html_()


def test_a_table_must_fit_together() -> None:
    with pytest.raises(RangeError, match="a number for each"):
        GroupTable(keys=["k"], groups=[("a",)], columns={"count": [1, 2]})
    with pytest.raises(RangeError, match="stands in it once"):
        GroupTable(keys=["k"], groups=[("a",), ("a",)], columns={"count": [1, 2]})
