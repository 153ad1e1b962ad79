"""Schemas and tables as people write them by mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sidelight as sl
from sidelight.errors import SchemaError


def test_one_declaration_may_stand_alone_and_a_generator_is_read_once() -> None:
    age = sl.Number("age")
    assert sl.Schema(age).columns == (age,)  # type: ignore[arg-type]
    assert sl.Schema(sl.Number(name) for name in ("a", "b")).names == ("a", "b")


@pytest.mark.parametrize("schema", ["age", ["age"], {"age": "number"}, 5, None])
def test_the_form_of_a_schema_is_shown(schema: Any) -> None:
    with pytest.raises(SchemaError, match=r'schema=\[sl\.Number\("age"\)'):
        sl.Table({"age": [1]}, schema=schema)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]),
    ],
)
def test_two_columns_of_one_name_are_to_be_renamed(frame: Any) -> None:
    with pytest.raises(SchemaError, match="two columns of this name; rename one of them"):
        sl.Table(frame, schema=[sl.Number("a")])


@pytest.mark.parametrize(
    ("cells", "labels", "message"),
    [
        ([1234, 2345], ["01234", "02345"], r"no label of column 'zip', '01234' first, can occur: .*read the column as"),
        ([1234, 2345], ["north", "1.0"], "whole number is its digits"),
        ([True, False], ["True", "False"], "its labels are 'true' and 'false'"),
    ],
)
def test_labels_that_cannot_occur_are_refused(cells: list[Any], labels: list[str], message: str) -> None:
    """Every row would be `other`, and nobody would say so. The type of the column decides, never a cell."""
    for frame in (pd.DataFrame({"zip": cells}), pl.DataFrame({"zip": cells}), {"zip": np.array(cells)}):
        with pytest.raises(SchemaError, match=message):
            sl.Table(frame, schema=[sl.Category("zip", labels)])
    sl.Table(pd.DataFrame({"zip": cells}), schema=[sl.Category("zip", [*labels, "7", "true"])])
    sl.Table(pd.DataFrame({"zip": cells}).astype(str), schema=[sl.Category("zip", labels)])


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "Europe/Paris")], ids=str)
def test_ids_that_are_dates_are_to_be_converted(kind: pa.DataType) -> None:
    """The advice was to declare `sl.Date`, after which rows instead of persons are protected."""
    born = pa.table(
        {"born": pa.array([0, 1], pa.int64()).cast(pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)}
    )
    with pytest.raises(SchemaError, match="convert it to whole numbers or text") as found:
        sl.Table(born, schema=[sl.PersonId("born", max_rows=2)])
    assert "Date(" not in str(found.value)
    with pytest.raises(SchemaError, match=r"declare sl\.Date\('born'"):
        sl.Table(born, schema=[sl.Category("born", ["a"])])


def test_an_index_is_no_column() -> None:
    frame = pd.DataFrame({"age": [1]}, index=pd.Index([7], name="patient"))
    with pytest.raises(SchemaError, match=r"write frame\.reset_index\(\)"):
        sl.Table(frame, schema=[sl.Number("age"), sl.PersonId("patient", max_rows=1)])
    with pytest.raises(SchemaError) as found:
        sl.Table(frame, schema=[sl.Number("height")])
    assert "reset_index" not in str(found.value)
