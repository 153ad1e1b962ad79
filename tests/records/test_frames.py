"""Frames of pandas, Polars, Arrow and DuckDB: types from metadata only, columns and series, odd dtypes."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from fractions import Fraction

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sidelight as sl
from plain_statistics import clipped_sum, grid_counts
from sidelight.aggregates import cell_counts
from sidelight.errors import SchemaError, SourceError
from sidelight.grid import Grid
from sidelight.records import Category, Number, PersonId, Table
from sidelight.records.rows import Wanted

SCHEMA = [Number("x", lower=0, upper=10)]


def opened(frame):
    """Frames stand for themselves, a query for a DuckDB relation."""
    return duckdb.connect().sql(frame) if isinstance(frame, str) else frame


@pytest.mark.parametrize(
    ("column", "engine"),
    [
        (pd.Series([1.0, 2.0, None], name="other"), "pandas"),
        (pd.Series([1, 2, None], dtype="Int64"), "pandas"),
        (pd.Series([1, "2", None, "?"], dtype=object), "pandas"),
        (pd.Series([True, True, True, False]).replace({True: 1}).astype(int), "pandas"),
        (pd.Index([1, 2, np.nan]), "numpy"),
        (pl.Series("other", [1, 2, None]), "polars"),
        (pl.Series([1.5, 1.5, float("nan")]), "polars"),
        (pa.array([1, 2, None]), "arrow"),
        (pa.chunked_array([[1.0], [2.0, None]]), "arrow"),
        (nw.from_native(pl.Series([1, 2]), series_only=True), "polars"),
        (np.array([1, 2], np.int8), "numpy"),
        (np.array([1, 2], ">f8"), "numpy"),
        ([1, 2, None, "x"], "numpy"),
        ((1, 2), "numpy"),
    ],
)
def test_one_column(column, engine):
    table = Table(column, schema=SCHEMA)
    assert table.engine == engine
    assert clipped_sum(table, "x", step=1).value in (3, 4)


@pytest.mark.parametrize("column", [pd.Series([1.0]), pl.Series([1.0]), pa.array([1.0])])
def test_one_column_for_two_declared(column):
    with pytest.raises(SchemaError, match="2 columns"):
        Table(column, schema=[Number("x"), Number("y")])


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"x": ["a"]}),
        pd.DataFrame({"x": pd.Categorical(["a"])}),
        pd.DataFrame({"x": pd.to_datetime(["2020-01-01"])}),
        pd.DataFrame([[1, 2]], columns=["x", "x"]),
        pl.DataFrame({"x": ["a"]}),
        pl.DataFrame({"x": [datetime.date(2020, 1, 1)]}),
        pl.DataFrame({"x": [[1]]}).lazy(),
        pa.table({"x": ["a"]}),
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]),
        "select 'a' as x",
        "select date '2020-01-01' as x",
    ],
)
def test_wrong_types(frame):
    with pytest.raises(SchemaError, match="'x' is declared as Number but the source holds"):
        Table(opened(frame), schema=[Number("x")])


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"c": pd.Categorical(["a", "b", None, "z"])}),
        pd.DataFrame({"c": ["a", "b", None, "z"]}),
        pd.DataFrame({"c": pd.Series(["a", "b", None, 7.5], dtype=object)}),
        pl.DataFrame({"c": pl.Series(["a", "b", None, "z"], dtype=pl.Categorical)}),
        pl.DataFrame({"c": pl.Series(["a", "b", None, "z"], dtype=pl.Enum(["z", "a", "b"]))}),
        pa.table({"c": pa.array(["a", "b", None, "z"]).dictionary_encode()}),
        pa.table({"c": pa.array(["a", "b", None, "z"], pa.large_string())}),
        "select unnest(['a', 'b', null, 'z']::enum('a', 'b', 'z')[]) as c",
    ],
)
def test_categories_in_every_text_type(frame):
    table = Table(opened(frame), schema=[Category("c", ["a", "b"])])
    for lowering in ("batches", "engine"):
        assert cell_counts(table, ["c"], lowering=lowering).value.tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    "frame", [pl.DataFrame({"x": [None, None]}), pa.table({"x": pa.nulls(2)}), duckdb.sql("select null as x")]
)
def test_columns_of_nulls(frame):
    table = Table(opened(frame), schema=SCHEMA)
    for lowering in ("batches", "engine"):
        assert clipped_sum(table, "x", step=1, lowering=lowering).value == 0


def test_decimals():
    values = pa.array([1, 2], pa.decimal128(6, 2))
    frames = (
        pa.table({"x": values}),
        pl.from_arrow(pa.table({"x": values})),
        duckdb.sql("select unnest([1.00, 2.00]) as x"),
    )
    for frame in frames:
        assert clipped_sum(Table(frame, schema=SCHEMA), "x", step=1).value == 3


def test_lazy_frames_are_not_collected_at_construction():
    def explode(frame):
        raise RuntimeError("read at construction")

    lazy = pl.LazyFrame({"x": [1.0, 2.0]}).map_batches(explode, schema={"x": pl.Float64})
    table = Table(lazy, schema=SCHEMA)
    with pytest.raises(SourceError, match="withheld"):
        clipped_sum(table, "x", step=1)


def test_pandas_columns_with_odd_names():
    frame = pd.DataFrame({7: [1.0, 2.0], ("a", "b"): [0.0, 0.0]})
    assert clipped_sum(Table(frame, schema=[Number("7", lower=0, upper=5)]), "7", step=1).value == 3


def test_other_objects_are_refused():
    with pytest.raises(SourceError, match="say which, as in table="):
        Table(duckdb.connect(), schema=SCHEMA)
    reader = pa.table({"x": [1.0]}).to_reader()
    with pytest.raises(SchemaError, match="read_all"):
        Table(reader, schema=SCHEMA)
    with pytest.raises(SchemaError, match="frame or a column"):
        Table(pl.DataFrame({"a": [1]}).group_by("a"), schema=SCHEMA)
    with pytest.raises(SchemaError, match="PersonId"):
        Table(pd.DataFrame({"x": [1.0], "p": [1.0]}), schema=[*SCHEMA, PersonId("p", max_rows=1)])


def test_the_user_s_frame_is_not_changed():
    frame = pd.DataFrame({"x": [3.0, np.nan, 1.0, 2.0]})
    before = frame.copy()
    grid_counts(Table(frame, schema=SCHEMA), "x", Grid(resolution=Fraction(1), first=0, last=9))
    pd.testing.assert_frame_equal(frame, before)


def test_engine_libraries_are_imported_only_when_needed():
    code = (
        "import sys, sidelight.records, sidelight.aggregates, numpy as np\n"
        "from sidelight.records import Table, Number\n"
        "from plain_statistics import clipped_sum\n"
        "clipped_sum(Table(np.ones(3), schema=[Number('x', lower=0, upper=1)]), 'x', step=1)\n"
        "print([m for m in ('pandas', 'polars', 'pyarrow', 'duckdb', 'narwhals', 'scipy') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize("kind", [">i8", "<i4", ">u2"])
def test_ids_and_labels_of_either_byte_order_are_read(kind: str) -> None:
    """What pandas takes apart in one order only would fail after the charge."""
    whole = np.array([1, 1, 2, 3], kind)
    frame = pd.DataFrame({"id": whole, "c": whole, "x": whole.astype(">f8")})
    schema = [sl.PersonId("id", max_rows=2), sl.Category("c", [1, 2, 3]), sl.Number("x", lower=0, upper=9)]
    table = sl.Table(frame, schema=schema)
    (batch,) = table.rows.batches(Wanted(numbers=("x",), texts=("c",), person="id"))
    assert (batch.texts["c"].tolist(), batch.numbers["x"].tolist()) == (["1", "1", "2", "3"], [1.0, 1.0, 2.0, 3.0])
    assert isinstance(sl.Session(table, budget=sl.PureDP(1)).release(sl.Count(epsilon=1)), sl.Release)
