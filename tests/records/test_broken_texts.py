"""Invalid UTF-8 on engines that allow it, and files of one pattern with different types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidelight as sl
from plain_statistics import clipped_sum
from sidelight.aggregates import cell_counts
from sidelight.errors import SchemaError
from sidelight.records.rows import Wanted

BROKEN = pa.array([b"a", b"\xff\xfe", b"b", b"a", b"b\xc3"], pa.large_binary()).view(pa.large_string())
TABLE = pa.table({"c": BROKEN, "x": [1.0, 2.0, 3.0, 4.0, 5.0]})
SCHEMA = [sl.Category("c", ["a", "b"], missing=sl.Fill("b")), sl.Number("x", lower=0, upper=9)]
PERSONS = [sl.PersonId("c", max_rows=1), sl.Number("x", lower=0, upper=1)]


def written(folder: Path) -> str:
    pq.write_table(TABLE, folder / "t.parquet")
    return str(folder / "t.parquet")


SOURCES = {
    "arrow": lambda folder: TABLE,
    "dictionary": lambda folder: pa.table({"c": BROKEN.dictionary_encode(), "x": TABLE["x"]}),
    "record batch": lambda folder: TABLE.to_batches()[0],
    "parquet": written,
    "duckdb": lambda folder: duckdb.connect().from_arrow(TABLE),
    "polars": lambda folder: pl.from_arrow(TABLE),
    "lazy": lambda folder: pl.DataFrame(pl.from_arrow(TABLE)).lazy(),
    "pandas": lambda folder: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "mapping": lambda folder: {"c": BROKEN, "x": TABLE["x"]},
}


@pytest.mark.parametrize("kind", SOURCES)
def test_an_invalid_text_is_missing(kind: str, tmp_path: Path) -> None:
    table = sl.Table(SOURCES[kind](tmp_path), schema=SCHEMA)
    persons = sl.Table(SOURCES[kind](tmp_path), schema=PERSONS)
    for lowering in ("batches",) if kind == "mapping" else ("batches", "engine"):
        assert cell_counts(table, ["c"], lowering=lowering).value.tolist() == [2, 3, 0]  # type: ignore[arg-type]
        assert clipped_sum(persons, "x", step=1, lowering=lowering).value == 2  # type: ignore[arg-type]
    assert sl.Quantiles([0.5], column="x", epsilon=1).release(persons).private


def parts(folder: Path, *tables: dict[str, Any]) -> str:
    for number, table in enumerate(tables):
        pq.write_table(pa.table(table), folder / f"p{number}.parquet")
    return str(folder / "p*.parquet")


INDICES = [pa.int8(), pa.int16(), pa.int32(), pa.uint64()]
TYPES = [*(pa.dictionary(index, pa.string()) for index in INDICES), pa.dictionary(pa.int8(), pa.large_string())]
TYPES += [pa.string(), pa.large_string(), pa.string_view()]


def broken_as(kind: pa.DataType) -> pa.Array:
    """Return the broken texts as an array of another type, without validation."""
    if not pa.types.is_dictionary(kind):
        return BROKEN.cast(kind)
    encoded = BROKEN.cast(kind.value_type).dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), encoded.dictionary)


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_files_whose_texts_had_any_type_in_memory_are_read_cell_by_cell(kind: pa.DataType, tmp_path: Path) -> None:
    table = {"c": broken_as(kind), "x": TABLE["x"]}
    good = {"c": pa.array(["a", "b"]).cast(pa.string()), "x": [1.0, 1.0]}
    parts(tmp_path, table, good, table)
    for pattern, times, more in (("p0.parquet", 1, 0), ("p*.parquet", 2, 1)):
        where = str(tmp_path / pattern)
        counts = [2 * times + more, 3 * times + more, 0]
        for lowering in ("batches", "engine"):
            found = cell_counts(sl.Table(where, schema=SCHEMA), ["c"], lowering=lowering)  # type: ignore[arg-type]
            assert found.value.tolist() == counts
            persons = sl.Table(where, schema=PERSONS)
            assert clipped_sum(persons, "x", step=1, lowering=lowering).value == 2  # type: ignore[arg-type]


def test_columns_of_a_file_are_found_by_their_place(tmp_path: Path) -> None:
    """Dots, names that differ in case only, names that are there twice, and the name of Arrow's own note."""
    names = ["a", "a.b", "Z", "z", "ARROW:schema", "x", "x"]
    columns = [pa.array([{"b": "n"}]), *(pa.array([letter]) for letter in "pqrstu")]
    pq.write_table(pa.Table.from_arrays(columns, names=names), tmp_path / "t.parquet")
    for name, letter in zip(["a.b", "Z", "z", "ARROW:schema"], "pqrs", strict=True):
        table = sl.Table(str(tmp_path / "t.parquet"), schema=[sl.Category(name, list("pqrstu"))])
        assert cell_counts(table, [name]).value.tolist() == [int(letter == each) for each in "pqrstu"] + [0]
    with pytest.raises(SchemaError, match="rename one of them"):
        sl.Table(str(tmp_path / "t.parquet"), schema=[sl.Category("x", ["t"])])


FIRST = {"x": [1, 2], "c": ["a", "b"], "p": [7, 8]}


def read(pattern: str) -> list[tuple[Any, ...]]:
    table = sl.Table(pattern, schema=[sl.Number("x"), sl.Category("c", ["a"]), sl.PersonId("p", max_rows=1)])
    found = []
    for batch in table.rows.batches(Wanted(numbers=("x",), texts=("c",), person="p")):
        assert batch.person is not None
        numbers = [None if value != value else value for value in batch.numbers["x"].tolist()]
        found += zip(numbers, batch.texts["c"].tolist(), batch.person.tolist(), strict=True)
    return sorted(found, key=str)


@pytest.mark.parametrize(
    ("later", "rows"),
    [
        ({"x": [1.5, None], "c": ["z", None], "p": [9.0, 9.5]}, [(1.5, "z", "9"), (None, None, None)]),
        ({"x": ["1.5", "?"], "c": [3, None], "p": ["09", "x"]}, [(1.5, "3", "9"), (None, None, None)]),
        ({"x": [[1], [2]], "c": [b"a", b"b"], "p": [True, None]}, [(None, None, "true"), (None, None, None)]),
        ({"x": [{"a": 1}] * 2, "c": [["a"]] * 2, "p": pa.nulls(2)}, [(None, None, None)] * 2),
        ({"extra": [1, 2], "x": [3, 4], "p": [1, 2], "c": ["a", "b"]}, [(3.0, "a", "1"), (4.0, "b", "2")]),
        (
            {"x": [3, 4], "c": pa.array(["a", "b"]).dictionary_encode(), "p": [1, 2]},
            [(3.0, "a", "1"), (4.0, "b", "2")],
        ),
    ],
    ids=["floats", "texts", "lists and bytes", "structs", "other columns", "dictionary"],
)
def test_a_file_of_another_type_changes_only_its_own_cells(later: Any, rows: Any, tmp_path: Path) -> None:
    first = [(1.0, "a", "7"), (2.0, "b", "8")]
    assert read(parts(tmp_path, FIRST, FIRST)) == sorted(first * 2, key=str)
    assert read(parts(tmp_path, FIRST, later)) == sorted([*first, *rows], key=str)
    assert read(parts(tmp_path, FIRST, later, FIRST)) == sorted([*first * 2, *rows], key=str)


def test_files_of_one_table_have_the_same_columns(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"p1\.parquet' has no column 'c', which .*p0\.parquet' has"):
        read(parts(tmp_path, FIRST, {"x": [1], "p": [1]}))
    with pytest.raises(SchemaError, match="no column 'c'"):
        read(parts(tmp_path, {"x": [1], "p": [1]}, FIRST))


def test_the_first_file_says_which_types_there_are(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="'x' is declared as Number but the source holds VARCHAR"):
        read(parts(tmp_path, FIRST | {"x": ["1", "2"]}, FIRST))
