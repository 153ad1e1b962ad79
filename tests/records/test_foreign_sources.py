"""What is a column and what is not: arrays, lists and columns of known libraries; all else is refused by its type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sidelight as sl
from plain_statistics import clipped_sum
from sidelight.aggregates import cell_counts
from sidelight.errors import SchemaError
from sidelight.records.table import bare_numbers, bare_rows

NUMBER = [sl.Number("x", lower=0, upper=10)]
LABELS = [sl.Category("x", [1, 2, 2**60 + 1, 2**60 + 3])]


class Runs:
    """Becomes an array when it is asked, and remembers that it was: as lazy frames do."""

    shape = (3, 2)
    columns = ("b", "a")  # in another order than the schema

    def __init__(self) -> None:
        self.ran = False

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self.ran = True
        return np.zeros((3, 2))


@pytest.mark.parametrize("place", ["table", "column", "model", "principal components", "quantiles", "covariance"])
def test_what_only_becomes_an_array_is_refused_and_never_run(place: str) -> None:
    source = Runs()
    with pytest.raises(SchemaError, match=r"to_pandas\(\)|np\.asarray|two-dimensional|sl\.Table") as caught:
        {
            "table": lambda: sl.Table(source, schema=[sl.Number("a"), sl.Number("b")]),
            "column": lambda: sl.Table({"x": source}, schema=NUMBER),
            "model": lambda: sl.LinearSVC(epsilon=1, delta="1e-6", data_norm=1, classes=[0, 1]).fit(source, [0, 1, 0]),
            "principal components": lambda: bare_rows(source, taker="PCA"),
            "quantiles": lambda: sl.Quantiles([0.5], epsilon=1).release(source),
            "covariance": lambda: bare_numbers(source, None),
        }[place]()
    assert not source.ran
    assert "Runs" in str(caught.value) or place == "covariance"


@pytest.mark.parametrize(("library", "hint"), [("dask", "compute"), ("ibis", "to_pyarrow"), ("torch", "numpy")])
def test_the_refusal_says_what_to_write(library: str, hint: str) -> None:
    frame = type("Frame", (), {"__module__": f"{library}.core", "__array__": lambda self: np.zeros(3)})()
    with pytest.raises(SchemaError, match=hint):
        sl.Table(frame, schema=NUMBER)


def test_arrays_of_other_classes() -> None:
    values = np.array([[1.0, 2.0]])
    assert clipped_sum(sl.Table(values.view(np.matrix), schema=[*NUMBER, sl.Number("y")]), "x", step=1).value == 1
    records = np.array([(1, 7.0), (2, 8.0)], dtype=[("who", "i8"), ("x", "f8")])
    for structured in (records, records.view(np.recarray)):
        table = sl.Table(structured, schema=[sl.Number("x", lower=0, upper=10), sl.PersonId("who", max_rows=1)])
        assert clipped_sum(table, "x", step=1).value == 15
    odd = type("Odd", (np.ndarray,), {})
    with pytest.raises(SchemaError, match=r"got Odd"):
        sl.Table(np.zeros(3).view(odd), schema=NUMBER)


def test_a_memory_map_is_an_array(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([1.0, 2.0]))
    table = sl.Table(np.load(tmp_path / "x.npy", mmap_mode="r"), schema=NUMBER)
    assert clipped_sum(table, "x", step=1).value == 3


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([1, None, 2**60 + 1, 2**60 + 3]),
        pa.array([1, None, 2**60 + 1, 2**60 + 3]),
        pa.chunked_array([[1], [None, 2**60 + 1, 2**60 + 3]]),
        pd.Series([1, None, 2**60 + 1, 2**60 + 3], dtype="Int64"),
        pd.Series([1, None, 2**60 + 1, 2**60 + 3], dtype=pd.ArrowDtype(pa.int64())),
        pd.Series(pd.Categorical.from_codes([0, -1, 1, 2], categories=pd.Index([1, 2**60 + 1, 2**60 + 3]))),
        pd.array([1, None, 2**60 + 1, 2**60 + 3], dtype="Int64"),
    ],
    ids=lambda column: f"{type(column).__module__.partition('.')[0]} {type(column).__name__}",
)
def test_one_null_in_a_mapping_changes_no_label_and_no_id(column: Any) -> None:
    table = sl.Table({"x": column, "v": [1.0, 2.0, 3.0, 4.0]}, schema=[*LABELS, sl.Number("v")])
    assert cell_counts(table, ["x"]).value.tolist() == [1, 0, 1, 1, 1]
    persons = sl.Table(
        {"x": column, "v": [1.0, 2.0, 3.0, 4.0]},
        schema=[sl.PersonId("x", max_rows=1), sl.Number("v", lower=0, upper=9)],
    )
    assert clipped_sum(persons, "v", step=1).value == 8  # only the row without an id is dropped


def test_columns_of_several_libraries_side_by_side() -> None:
    source = {
        "a": pa.chunked_array([[1.0], [2.0, None]]),
        "b": pl.Series(["u", None, "v"]),
        "c": [3, "x", 4],
        "d": np.array([5, 6, 7]),
        "e": pd.Series(["p", "p", "q"]),
    }
    schema = [
        *(sl.Number(name, lower=0, upper=9) for name in "acd"),
        sl.Category("b", ["u", "v"]),
        sl.PersonId("e", max_rows=2),
    ]
    table = sl.Table(source, schema=schema)
    assert [clipped_sum(table, name, step=1).value for name in "acd"] == [3, 7, 18]
    assert cell_counts(table, ["b"]).value.tolist() == [1, 1, 1]
    with pytest.raises(SchemaError, match="one length"):
        sl.Table(source | {"c": [1]}, schema=schema)
    with pytest.raises(SchemaError, match="one column, got DataFrame"):
        sl.Table({"a": pd.DataFrame({"a": [1.0]})}, schema=[sl.Number("a")])


@pytest.mark.parametrize("texts", [["1", "2"], ("a.csv", "b.csv"), [Path("a.csv")], [b"1"]])
def test_a_list_of_nothing_but_texts_is_no_column_of_numbers(texts: Any) -> None:
    for source in (texts, {"x": texts}):
        with pytest.raises(SchemaError, match=r"every (cell is a text|entry is a path)"):
            sl.Table(source, schema=NUMBER)


@pytest.mark.parametrize("paths", [["a.csv", "b.CSV"], [Path("a.parquet"), "b.parquet"], [Path("a"), Path("b")]])
def test_a_list_of_paths_is_no_column_of_labels(paths: Any) -> None:
    with pytest.raises(SchemaError, match=r"every entry is a path.*pattern"):
        sl.Table(paths, schema=[sl.Category("x", ["a"])])


@pytest.mark.parametrize("cell", ["1", "a.csv", None, [1], b"1", Path("a")])
def test_no_single_cell_brings_that_refusal_about(cell: Any) -> None:
    for others in ([1.0, 2.0], [None, None]):
        for cells in ([cell, *others], [*others, cell]):
            sl.Table(cells, schema=NUMBER)


def test_names_of_an_arrow_table_are_not_its_cells() -> None:
    assert bare_rows(pa.table({"a": [987654.0], "b": [1.0]}), taker="PCA").schema.names == ("a", "b")
    assert bare_numbers(pa.table({"a": [987654.0], "b": [1.0]}), None).schema.names == ("a", "b")
