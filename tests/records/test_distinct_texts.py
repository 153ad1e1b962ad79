"""Labels are looked up once for each different text: the cells are those of reading one by one, on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidelight as sl
from sidelight.aggregates import cell_counts
from sidelight.records import Category, Number, Table
from sidelight.records.cells import texts_of
from sidelight.records.engines import parquet, spark
from sidelight.records.engines.arrays import as_distinct
from sidelight.records.engines.arrow_cells import distinct_of_arrow
from sidelight.records.engines.files import files_of
from sidelight.records.engines.folders import Member
from sidelight.records.rows import DistinctTexts, Wanted
from sidelight.testing import seeded_release


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_whole_numbers_at_the_ends_of_their_type(dtype):
    limits = np.iinfo(dtype)
    for values in (
        [limits.min, limits.max, limits.min, limits.max // 2],
        [limits.max, limits.max - 3, limits.max],
        [limits.min, limits.min + 2] * 40,
        [limits.min, limits.min + 2] * 400,
        [limits.max, limits.max - 3] * 400,
        list(range(100)) * 2,
        [7],
        [],
    ):
        array = np.array(values, dtype)
        found = as_distinct(array)
        assert found.tolist() == texts_of(array.tolist()).tolist()
        if isinstance(found, DistinctTexts):  # a number that no row has is not a label
            assert set(found.cells) - {None} == {str(value) for value in values}


def test_whole_numbers_of_parquet_files_with_and_without_gaps(tmp_path):
    labels = [3, 5, 9, 700]
    for cells in ([3, 9, 5, 5] * 300, [3, None, 9] * 300, [3, 2**62, 700], [-5, 3] * 400):
        pq.write_table(pa.table({"c": pa.array(cells, pa.int64())}), tmp_path / "t.parquet")
        table = Table(tmp_path / "t.parquet", schema=[Category("c", labels, other=None)])
        counted = cell_counts(table, ["c"]).value.tolist()
        assert counted == [cells.count(label) for label in labels]


def test_slices_share_what_was_looked_up():
    texts = DistinctTexts(["a", "b", None], np.array([0, 1, -1, 1, 0]))
    asked = []

    def table():
        asked.append(1)
        return {"a": 5, None: 9}

    assert texts.codes("x", table, 7).tolist() == [5, 7, 9, 7, 5]
    assert texts[1:3].codes("x", table, 7).tolist() == [7, 9]
    assert texts[np.array([True, False, True, False, False])].tolist() == ["a", None]
    assert np.asarray(texts).tolist() == texts.tolist() == ["a", "b", None, "b", "a"]
    assert len(asked) == 1
    assert (len(texts), texts.shape, repr(texts)) == (5, (5,), "DistinctTexts(private)")


CELLS = ["a", "", None, "b", "a", "é", "zz", "a"]
SOURCES = {
    "categories": lambda: pd.DataFrame({"c": pd.Categorical(CELLS)}),
    "str": lambda: pd.DataFrame({"c": pd.array(CELLS, "str")}),
    "object": lambda: pd.DataFrame({"c": pd.Series(CELLS, dtype=object)}),
    "arrow strings": lambda: pd.DataFrame({"c": pd.array(CELLS, pd.ArrowDtype(pa.string()))}),
    "polars": lambda: pl.DataFrame({"c": CELLS}),
    "polars categories": lambda: pl.DataFrame({"c": pl.Series(CELLS, dtype=pl.Categorical)}),
    "arrow": lambda: pa.table({"c": CELLS}),
    "dictionary": lambda: pa.table({"c": pa.array(CELLS).dictionary_encode()}),
    "chunks": lambda: pa.table({"c": pa.chunked_array([CELLS[:3], CELLS[3:]])}),
    "view": lambda: pa.table({"c": pa.array(CELLS, pa.string_view())}),
    "mapping": lambda: {"c": pd.Series(CELLS, dtype="str")},
    "list": lambda: {"c": CELLS},
}


@pytest.mark.parametrize("name", list(SOURCES))
def test_texts_of_every_source(name):
    table = Table(SOURCES[name](), schema=[Category("c", ["a", "é"])])
    cells = [cell for batch in table.rows.batches(Wanted(texts=("c",))) for cell in batch.texts["c"].tolist()]
    assert cells == [cell or None for cell in CELLS]
    assert cell_counts(table, ["c"], lowering="batches").value.tolist() == [3, 1, 4]


def test_plain_columns_of_parquet_are_what_duckdb_reads(tmp_path, monkeypatch):
    """The short way gives bit for bit what the long one does."""
    generator = np.random.default_rng(3)
    columns = {
        "x": pa.array([*generator.normal(size=400), np.nan, np.inf, -0.0, None]),
        "f": pa.array([*generator.normal(size=402), None, np.nan], pa.float32()),
        "i": pa.array([2**62 + 1, -(2**63), None, 2**53 + 1] * 101),
        "c": pa.array(["a", "b\x00", None, "", "é"] * 80 + ["a"] * 4),
        "n": pa.array(list(range(404)), pa.int16()),
    }
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=97)
    schema = [Number("x"), Number("f"), Number("i"), Category("c", ["a"]), Category("n", [1])]

    wanted = Wanted(numbers=("x", "f", "i"), texts=("c", "n"), person="c")

    def read():
        found = {name: [] for name in (*wanted.numbers, *wanted.texts, "person")}
        for batch in Table(path, schema=schema).rows.batches(wanted):
            for name in wanted.numbers:
                found[name] += batch.numbers[name].view(np.int64).tolist()
            for name in wanted.texts:
                found[name] += batch.texts[name].tolist()
            found["person"] += batch.person.tolist()
        return found

    opened = parquet.open_parquet([Member(str(path))], list(columns), files_of([str(path)]))
    assert parquet._is_plain(opened._footers[0], wanted, opened.types)
    short = read()
    monkeypatch.setattr(parquet, "_is_plain", lambda *_: False)
    long = read()
    nans = [name for name in ("x", "f", "i") if short[name] != long[name]]
    for name in nans:  # NaN and null are one: both are missing, whatever their bits
        short[name], long[name] = (
            [None if np.isnan(np.int64(bits).view(np.float64)) else bits for bits in found[name]]
            for found in (short, long)
        )
    assert {name: sorted(map(str, cells)) for name, cells in short.items()} == {
        name: sorted(map(str, cells)) for name, cells in long.items()
    }


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])
def test_a_text_that_is_no_utf8_is_missing_in_a_dictionary_too(kind, dictionary, tmp_path):
    """However a file was written; small pages make Arrow fall back from dictionaries to plain texts."""
    cells = pa.array(
        [b"\xff\xfe", b"a", None, b"b\xc3"] * 500 + [b"x%d" % number for number in range(500)], pa.binary()
    )
    column = cells.view(pa.string())
    if kind == "large_string":
        column = cells.cast(pa.large_binary()).view(pa.large_string())
    if kind == "dictionary":
        encoded = cells.dictionary_encode()
        column = pa.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary.view(pa.string()))
    path = tmp_path / "t.parquet"
    pages = {"dictionary_pagesize_limit": 1000, "data_page_size": 500}
    pq.write_table(pa.table({"c": column}), path, use_dictionary=dictionary, **pages)
    table = Table(path, schema=[Category("c", ["a"])])
    found = [cell for batch in table.rows.batches(Wanted(texts=("c",))) for cell in batch.texts["c"].tolist()]
    assert found == [None, "a", None, None] * 500 + [f"x{number}" for number in range(500)]


@pytest.mark.parametrize("index", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize(
    "column", [sl.Category("cell", ["a", "b"]), sl.PersonId("cell", max_rows=1)], ids=["label", "id"]
)
def test_a_null_among_indices_of_any_type_fails_nothing(index: str, column: Any) -> None:
    """Of unsigned indices 2^64 - 1 is none that a null could become: the release failed, after its charge."""
    places = pa.array([0, 1, None, 0], pa.type_for_alias(index))
    cells = pa.DictionaryArray.from_arrays(places, pa.array(["a", "b"]))
    frames = (cells, pa.chunked_array([cells.slice(0, 2), cells.slice(2)]), ["a", "b", None, "a"])
    schema = [sl.Number("x", lower=0, upper=9), column]
    by = {"by": "cell"} if isinstance(column, sl.Category) else {}
    found = []
    for given in frames:
        numbers = [1.0, 2.0, 3.0, 4.0]
        data = {"x": numbers, "cell": given} if isinstance(given, list) else pa.table({"x": numbers, "cell": given})
        release = seeded_release(sl.Count(epsilon=1, **by), sl.Table(data, schema=schema), seed=1)
        found.append(release.value["count"].tolist())
    assert found[0] == found[1] == found[2]


def test_batches_of_long_texts_are_put_together_only_as_far_as_arrow_holds_them(monkeypatch):
    """Offsets of texts have 32 bits: rows with long cells must not make a worker fail after the charge."""
    batches = [pa.record_batch([pa.array([f"{place}" * 100] * 10)], names=["c0"]) for place in range(9)]
    assert [each.num_rows for each in spark._joined(iter(batches))] == [90]
    monkeypatch.setattr(spark, "_MOST_JOINED", 3 * batches[0].nbytes)
    found = list(spark._joined(iter(batches)))
    assert [each.num_rows for each in found] == [30, 30, 30]
    assert [cell for each in found for cell in each.column(0).to_pylist()] == [f"{i // 10}" * 100 for i in range(90)]
    monkeypatch.setattr(spark, "BATCH_ROWS", 20)
    assert [each.num_rows for each in spark._joined(iter(batches[:5]))] == [20, 20, 10]
    assert not list(spark._joined(iter(())))


@pytest.mark.parametrize("numbers", [[1, 2, 0], [1, 2, 0] * 200])
def test_a_gap_in_one_batch_changes_no_label_of_another(numbers: list[int], tmp_path) -> None:
    """Whole numbers with gaps are looked up by Arrow's dictionary, those without by their distance from the first."""
    schema = [Category("g", [0, 1, 2], other=None)]
    parts = [numbers, [0, None, 2], numbers, [2, None, 0], numbers]
    table = pa.table({"g": pa.chunked_array(parts, pa.int64())})
    with pq.ParquetWriter(tmp_path / "gaps.parquet", table.schema) as writer:
        for part in parts:
            writer.write_table(pa.table({"g": pa.array(part, pa.int64())}))
    expected = [sum(part.count(label) for part in parts) for label in (0, 1, 2)]
    for source in (table, tmp_path / "gaps.parquet"):
        assert cell_counts(Table(source, schema=schema), ["g"], lowering="batches").value.tolist() == expected


def _chunks(parts: list[list[Any]], index: str, kind: str, *, null: bool) -> Any:
    """Return chunks with a dictionary each, which may hold a null that no cell uses."""
    arrays = []
    for part in parts:
        texts = [*dict.fromkeys(cell for cell in part if cell is not None), *([None] if null else [])]
        places = pa.array([None if cell is None else texts.index(cell) for cell in part], pa.type_for_alias(index))
        arrays.append(pa.DictionaryArray.from_arrays(places, pa.array(texts, pa.type_for_alias(kind))))
    return pa.chunked_array(arrays)


@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize(("index", "kind"), [("int8", "string"), ("uint8", "large_string"), ("int8", "int64")])
def test_one_more_text_in_dictionaries_of_several_chunks_fails_nothing(index: str, kind: str, *, null: bool) -> None:
    """Arrow cannot join them once the indices are too short for all, or with a null: the release failed, charged."""
    for count in (127, 128, 129, 300):
        names = list(range(count)) if kind == "int64" else [f"p{number}" for number in range(count)]
        parts = [[*names[start : start + 60], None, names[0]] for start in range(0, count, 60)]
        column = _chunks(parts, index, kind, null=null)
        schema = [sl.PersonId("p", max_rows=1), Category("c", [names[0], names[-1]])]
        frames = [
            pa.table({"p": column, "c": column}),
            {"p": column, "c": column},
            pd.DataFrame(dict.fromkeys("pc", pd.arrays.ArrowExtensionArray(column))),
        ]
        for data in frames:
            found = cell_counts(Table(data, schema=schema), ["c"], lowering="batches").value.tolist()
            assert found == [1, 1, count - 2]
        read = distinct_of_arrow(column)
        assert read.tolist() == [None if cell is None else str(cell) for part in parts for cell in part]
