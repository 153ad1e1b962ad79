"""Every column is found by its own name, on every engine, whatever names its neighbours have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plain_statistics import clipped_sum, row_count
from sidelight.aggregates import cell_counts
from sidelight.errors import SchemaError
from sidelight.records import Category, Key, Label, Number, PersonId, PersonVia, Reference, Table

#: Names that a library takes for another column, a pattern, a path, a position, or a name of ours.
NAMES = [
    *("id", "ID", "id_1", "ID_1", "id_1_1", "iD_2", "a", "a.b", "a.b.c", "a.", ".a", "^id$", "^.*$", "*", "#1", "#2"),
    *("c0", "n0", "t0", "person", "person_key", "rowid", "file_row_number", "'a'", '"a"', '""', "`a`", "a b", "a,b"),
    *("SELECT", "COLUMNS(*)", "1", "0", "nan", "None", "a\\b", "ARROW:schema", "\u00e4", "a\u0308"),
]
ROWS = 7
PLACES = {name: place for place, name in enumerate(NAMES)}


def _cells(place: int) -> Any:
    return np.full(ROWS, place, np.int64)


def _table() -> pa.Table:
    return pa.table([pa.array(_cells(place)) for place in range(len(NAMES))], names=NAMES)


def _parquet(folder: Path, table: pa.Table) -> str:
    pq.write_table(table, folder / "rows.parquet")
    return str(folder / "rows.parquet")


def _csv(folder: Path) -> str:
    _table().to_pandas().to_csv(folder / "rows.csv", index=False)
    return str(folder / "rows.csv")


def _relation() -> Any:
    parts = [f"{place} AS " + '"' + name.replace('"', '""') + '"' for place, name in enumerate(NAMES)]
    return duckdb.connect().sql(f"SELECT {', '.join(parts)} FROM range({ROWS})")


SOURCES = {
    "arrow": lambda folder: _table(),
    "pandas": lambda folder: _table().to_pandas(),
    "polars": lambda folder: pl.from_arrow(_table()),
    "polars, lazy": lambda folder: pl.from_arrow(_table()).lazy(),
    "mapping": lambda folder: {name: _cells(place) for name, place in PLACES.items()},
    "parquet": lambda folder: _parquet(folder, _table()),
    "csv": _csv,
    "duckdb": lambda folder: _relation(),
}


@pytest.mark.parametrize("engine", SOURCES)
def test_each_name_is_its_own_column(engine, tmp_path):
    source = SOURCES[engine](tmp_path)
    for lowering in ("batches", "engine") if engine != "mapping" else ("batches",):
        table = Table(source, schema=[Number(name, lower=0, upper=len(NAMES), granularity=1) for name in NAMES])
        for name in NAMES:
            assert clipped_sum(table, name, lowering=lowering).value == ROWS * PLACES[name], name


@pytest.mark.parametrize("engine", SOURCES)
def test_a_person_is_found_by_the_declared_column(engine, tmp_path):
    """Its own cells are all equal, and the person's rows are cut to one whatever stands in other columns."""
    source = SOURCES[engine](tmp_path)
    for lowering in ("batches", "engine") if engine != "mapping" else ("batches",):
        for name in ("ID", "ID_1", "id_1_1", "a", "a.b", "^id$", "*", "#2"):
            table = Table(source, schema=[PersonId(name, max_rows=1), Number(NAMES[PLACES[name] - 1])])
            assert row_count(table, lowering=lowering).value == 1, name


def _with_struct(ids: list[int]) -> pa.Table:
    inner = pa.array([{"id": number} for number in range(len(ids))])
    labels = pa.array(["a", "b"] * (len(ids) // 2))
    return pa.table(
        {"patient": inner, "patient.id": ids, "job": pa.array([{"code": "a"}] * len(ids)), "job.code": labels}
    )


@pytest.mark.parametrize("lowering", ["batches", "engine"])
def test_a_column_named_like_a_field_of_a_struct(lowering, tmp_path):
    """For "patient.id" Arrow also reads the field `id` of a column `patient`: all later columns would be shifted."""
    table = _with_struct([1, 1, 1, 1, 2, 2])
    for source in (table, _parquet(tmp_path, table)):
        persons = Table(source, schema=[PersonId("patient.id", max_rows=1), Category("job.code", ["a", "b"])])
        assert row_count(persons, lowering=lowering).value == 2
        labels = Table(source, schema=[Category("job.code", ["a", "b"])])
        assert cell_counts(labels, ["job.code"], lowering=lowering).value.tolist() == [3, 3, 0]


def test_repeated_names_of_a_relation():
    """DuckDB itself calls the second of two columns `id` by the name of the third."""
    source = duckdb.connect().sql("SELECT i AS id, i AS id, 'p' AS id_1, 1.0 AS x FROM range(9) AS t(i)")
    assert row_count(Table(source, schema=[PersonId("id_1", max_rows=1), Number("x")])).value == 1
    with pytest.raises(SchemaError, match="rename one of them"):
        Table(source, schema=[PersonId("id", max_rows=1), Number("x")])


def test_repeated_names_of_a_file(tmp_path):
    table = pa.table([[1, 2], [1, 2], [5, 5]], names=["id", "id", "x"])
    path = _parquet(tmp_path, table)
    with pytest.raises(SchemaError, match="rename one of them"):
        Table(path, schema=[PersonId("id", max_rows=1), Number("x")])
    for lowering in ("batches", "engine"):
        only = Table(path, schema=[Number("x", lower=0, upper=9, granularity=1)])
        assert clipped_sum(only, "x", lowering=lowering).value == 10


@pytest.mark.parametrize("lowering", ["batches", "engine"])
def test_texts_that_another_writer_marks_as_an_enumeration(lowering, tmp_path):
    """Arrow reads them as bytes, which were all missing; DuckDB reads texts."""
    path = tmp_path / "rows.parquet"
    duckdb.sql(
        "COPY (SELECT CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END AS label, 'p' || (i % 10) AS who "
        f"FROM range(100) AS t(i)) TO '{path}' (FORMAT parquet)"
    )
    plain = path.read_bytes()
    # in the footer: the name, and the field of the converted type, of which 0 is UTF8 and 4 (8 as written) is ENUM
    marked = re.sub(rb"(\x18(?:\x05label|\x03who)\x25)\x00", lambda found: found[1] + b"\x08", plain)
    assert len([1 for one, other in zip(plain, marked, strict=True) if one != other]) == 2
    path.write_bytes(marked)
    assert pa.types.is_binary(pq.ParquetFile(path).schema_arrow.field("label").type)
    labels = Table(str(path), schema=[Category("label", ["a", "b"])])
    assert cell_counts(labels, ["label"], lowering=lowering).value.tolist() == [50, 50, 0]
    assert (
        row_count(
            Table(str(path), schema=[PersonId("who", max_rows=1), Category("label", ["a"])]), lowering=lowering
        ).value
        == 10
    )


@pytest.mark.parametrize("kind", [pa.decimal128(38, 330), pa.decimal128(38, -39), pa.decimal256(76, 77)])
def test_decimals_that_arrow_cannot_write_are_refused_by_their_type(kind):
    """A release would fail after its charge as soon as there is a row."""
    cells = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(b"\x01" + bytes(kind.bit_width // 8 - 1))])
    for rows in (cells, cells[:0]):
        with pytest.raises(SchemaError, match="convert it to numbers"):
            Table(pa.table({"x": rows}), schema=[Number("x", lower=0, upper=1)])


#: Arrow's streams, DuckDB and PostgreSQL end a name before NUL, and Polars panics.
NUL = "a\0b"
WITH_NUL = {
    "arrow": lambda cells: pa.table(cells),
    "pandas": lambda cells: pd.DataFrame(cells),
    "polars": lambda cells: pl.DataFrame(cells),
    "polars, lazy": lambda cells: pl.DataFrame(cells).lazy(),
    "mapping": lambda cells: cells,
}


@pytest.mark.parametrize("engine", WITH_NUL)
def test_a_name_with_nul_is_refused_when_the_table_is_made(engine):
    """It failed releases of Arrow and Polars after their charge, and was read by other sources."""
    cells = {NUL: ["p"] * 5, "x": [1] * 5}
    for declare in (lambda: Category(NUL, ["p"]), lambda: Label(NUL), lambda: PersonId(NUL, max_rows=1)):
        with pytest.raises(SchemaError, match=r"NUL, got 'a\\x00b'; rename the column"):
            Table(WITH_NUL[engine](cells), schema=[declare(), Number("x", lower=0, upper=9, granularity=1)])
    for declare in (Key, lambda name: Reference(name, to="t"), lambda name: PersonVia(name, to="t", max_rows=1)):
        with pytest.raises(SchemaError, match=r"NUL, got 'a\\x00b'; rename the column"):
            Table(WITH_NUL[engine](cells), schema=[declare(NUL), Number("x", lower=0, upper=9, granularity=1)])


@pytest.mark.parametrize("engine", WITH_NUL)
@pytest.mark.parametrize("inside", [False, True])
def test_an_undeclared_name_with_nul_fails_no_release(engine, inside):
    """Arrow hands all columns over, with another name than it has: it is refused before a charge."""
    cells = {"other" if inside else NUL: [{NUL: 1}] * 5 if inside else [1] * 5, "x": [1] * 5}
    schema = [Number("x", lower=0, upper=9, granularity=1)]
    if engine == "arrow":
        with pytest.raises(SchemaError, match="a name ends before the character NUL"):
            Table(WITH_NUL[engine](cells), schema=schema)
        return
    assert clipped_sum(Table(WITH_NUL[engine](cells), schema=schema), "x").value == 5


def test_an_index_of_names_is_not_needed_by_pandas():
    """Columns of pandas are found by place: names need not be texts."""
    frame = pd.DataFrame({0: [1, 2], "0": [3, 4]})
    with pytest.raises(SchemaError, match="rename one of them"):
        Table(frame, schema=[Number("0", lower=0, upper=9)])
