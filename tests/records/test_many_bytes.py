"""Texts that reach 2**31 bytes in all, where Arrow's offsets of 32 bits end: no release fails by their sum."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sidelight as sl
from sidelight.records import Category, Date, PersonId, Table
from sidelight.records.engines import arrow_cells, duckdb_sources
from sidelight.records.engines.arrow_cells import cells_of_arrow, distinct_of_arrow, numbers_of_arrow
from sidelight.records.engines.duckdb import connect, reader_of
from sidelight.records.engines.parquet_files import PLAIN_ROWS, _has_dictionary, open_plain
from sidelight.testing import seeded_release

#: Texts of 4 MiB, each a chunk, which many references share: 2**31 bytes without the memory.
SIZE = 4 << 20
CHUNKS = [pa.array([f"{number}" + "x" * (SIZE - 1)], pa.string()) for number in range(3)]
REPEATS = (1 << 31) // SIZE


def many(*, beyond: int = 2) -> pa.ChunkedArray:
    return pa.chunked_array([CHUNKS[place % 3] for place in range(REPEATS + beyond)])


def test_the_ids_of_an_arrow_table_reach_the_limit() -> None:
    ids = many()
    table = pa.table({"id": ids, "group": pa.array(["a"] * len(ids))})
    declared = Table(table, schema=[PersonId("id", max_rows=3), Category("group", ["a"], other=None)])
    assert seeded_release(sl.Count(epsilon=100), declared, seed=1).value["count"].tolist() == [3]  # of persons


@pytest.mark.parametrize("held", [lambda column: column, lambda column: column.cast(pa.large_string())])
def test_chunks_are_encoded_without_being_put_together(held: Any) -> None:
    found = distinct_of_arrow(held(many()))
    assert [None if cell is None else (cell[0], len(cell)) for cell in found.cells] == [
        ("0", SIZE),
        ("1", SIZE),
        ("2", SIZE),
        None,
    ]
    assert np.array_equal(found.places, np.arange(REPEATS + 2) % 3)


def test_a_pandas_column_of_arrow_reaches_the_limit() -> None:
    frame = pd.DataFrame({"label": pd.array(many(), dtype=pd.ArrowDtype(pa.string()))})
    labels = [CHUNKS[1][0].as_py(), "a"]
    table = Table(frame, schema=[Category("label", labels)])
    found = seeded_release(sl.Count(by="label", epsilon=100), table, seed=1)
    assert found.value["count"].tolist() == [REPEATS // 3 + 1, 0, REPEATS + 2 - (REPEATS // 3 + 1)]


def test_chunks_with_missing_and_broken_texts_are_what_they_were() -> None:
    broken = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"\xffb"))
    chunks = [pa.array(["a", None]), pa.array([], pa.string()), broken, pa.array(["", "a"])]
    cells = ["a", None, None, "b", "", "a"]
    for column in (pa.chunked_array(chunks), pa.chunked_array(chunks).cast(pa.large_string(), safe=False)):
        assert distinct_of_arrow(column).tolist() == [cell or None for cell in cells]
        assert cells_of_arrow(column) == cells
    for empty in (pa.chunked_array([], pa.string()), pa.chunked_array([chunks[1]])):
        assert distinct_of_arrow(empty).tolist() == []


@pytest.mark.parametrize("chunked", [False, True])
def test_the_cells_of_a_dictionary_are_written_out_by_long_offsets(
    monkeypatch: pytest.MonkeyPatch, chunked: bool
) -> None:
    """Written out for real, 2**31 bytes would be twice that in memory."""
    kinds = []

    def spying(column: Any, kind: Any, **options: Any) -> Any:
        kinds.append(kind)
        return pc.cast(column, kind, **options)

    monkeypatch.setattr(arrow_cells, "pc", SimpleNamespace(cast=spying))
    column = pa.array(["2024-01-02", None, "?", "2024-01-02"]).dictionary_encode()
    if chunked:
        column = pa.chunked_array([column, column])
    copies = 1 + chunked
    calendar = Date("day", start="2024-01-01", end="2024-12-31").calendar
    assert np.array_equal(numbers_of_arrow(column, calendar), [1, np.nan, np.nan, 1] * copies, equal_nan=True)
    assert cells_of_arrow(column) == ["2024-01-02", None, "?", "2024-01-02"] * copies
    assert kinds == [pa.large_string()] * 2
    digits = pa.array([Decimal("1.5"), None], pa.decimal256(50, 30))
    assert np.array_equal(numbers_of_arrow(digits), [1.5, np.nan], equal_nan=True)
    assert kinds[2] == pa.large_string()


def test_our_connections_hand_texts_over_by_long_offsets(tmp_path: Path) -> None:
    path = tmp_path / "rows.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 'a' AS label")
    for ours in (connect(), connect(str(path))):
        assert reader_of(ours.sql("SELECT 'a' AS label")).schema.types == [pa.large_string()]


def test_batches_of_a_users_connection_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its offsets may be short, and the setting is not ours to change: fewer rows share one array."""
    asked = []

    def spying(relation: Any, **options: int) -> Any:
        asked.append(options.get("rows"))
        return reader_of(relation, **options)

    monkeypatch.setattr(duckdb_sources, "reader_of", spying)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 'a' AS label FROM range(40000)")
    table = Table(connection, table="t", schema=[Category("label", ["a"], other=None)])
    assert seeded_release(sl.Count(by="label", epsilon=100), table, seed=1).value["count"].tolist() == [40000]
    assert 1 << 15 in asked
    assert connection.execute("SELECT current_setting('arrow_large_buffer_size')").fetchone() == (False,)


class Chunk:
    """What a footer says of a column in a row group."""

    path = "label"
    logical_type = SimpleNamespace(type="STRING")

    def __init__(self, size: int, encodings: tuple[str, ...]) -> None:
        self.total_uncompressed_size, self.encodings = size, encodings


class OneColumn:
    """A footer of one column, or one of its row groups."""

    num_columns = 1

    def __init__(self, groups: list[tuple[int, int]]) -> None:
        self._groups, self.num_row_groups, self.schema = groups, len(groups), self
        self.num_rows = groups[0][0]

    def column(self, place: int) -> Chunk:
        assert place == 0
        return Chunk(self._groups[0][1], ("PLAIN", "RLE"))

    def row_group(self, place: int) -> OneColumn:
        return OneColumn(self._groups[place : place + 1])


GIB = 1 << 30


@pytest.mark.parametrize(
    ("groups", "group", "wanted"),
    [
        ([(1000, 2 * GIB)], None, False),
        ([(1000, GIB)], None, True),
        ([(1000, GIB), (1000, GIB)], None, False),  # one batch reads both
        ([(1000, GIB), (1000, GIB)], 1, True),
        ([(1000, GIB), (PLAIN_ROWS + 1000, 1), (1000, GIB)], None, True),
        ([(1000, GIB), (PLAIN_ROWS - 2, 1), (1000, GIB)], None, False),
        ([(0, 0), (PLAIN_ROWS, GIB // 2), (PLAIN_ROWS, GIB // 2), (PLAIN_ROWS, GIB // 2)], None, True),
        ([], None, True),
    ],
)
def test_a_column_is_no_dictionary_where_a_batch_might_reach_the_limit(
    groups: list[tuple[int, int]], group: int | None, wanted: bool
) -> None:
    footer: Any = OneColumn(groups or [(0, 0)])
    assert _has_dictionary(footer, "label", group) is wanted
    assert _has_dictionary(footer, "another", group) is False


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_labels_of_every_encoding_are_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.parquet"
    rows = pa.table({"label": ["a", "b", "b", None] * 10, "other": ["c"] * 40})
    pq.write_table(rows, path, use_dictionary=False, column_encoding={"label": encoding, "other": "PLAIN"})
    with open_plain(str(path), labels=["label", "other"]) as file:
        kinds = file.read_row_group(0).schema.types
    assert [pa.types.is_dictionary(kind) for kind in kinds] == [encoding == "PLAIN", True]
    table = Table(path, schema=[Category("label", ["a", "b"])])
    assert seeded_release(sl.Count(by="label", epsilon=100), table, seed=1).value["count"].tolist() == [10, 20, 10]
