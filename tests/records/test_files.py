"""CSV and Parquet files: what opening checks, that it reads no row, and that no cell is an error."""

from __future__ import annotations

import gzip
import math
import os
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plain_statistics import clipped_sum, grid_counts, row_count
from sidelight.aggregates import cell_counts, collect_ranks
from sidelight.errors import SchemaError, SourceError
from sidelight.grid import Grid
from sidelight.noise import Source
from sidelight.records import Category, Fill, Number, PersonId, Table
from sidelight.records.engines.duckdb import connect
from sidelight.records.rows import Wanted
from sidelight.testing import SeededEntropy


def numbers_in(path, name="x", **how):
    table = Table(path, schema=[Number(name)], **how)
    parts = [batch.numbers[name] for batch in table.rows.batches(Wanted(numbers=(name,)))]
    return sorted(np.concatenate([*parts, np.empty(0)]).tolist(), key=lambda value: (math.isnan(value), value))


def test_cells_that_are_not_numbers_are_missing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(
        b'id,x,c\n1,1.5,a\n2,abc,b\n3,,c\n4,nan,""\n5,inf,"a,b"\n6,1e400,"one line"\n7, 12 ,x\n8\n'
        b'9,1,2,3,4\n10,"1,234",q\n11,0x10,z\n12,-inf,"a""b"\n13,2020-01-01,z\n14,\xff\xfe,z\n'
    )
    found = numbers_in(path)
    assert [value for value in found if not math.isnan(value)] == [-math.inf, 1.0, 1.5, 12.0, math.inf, math.inf]
    assert sum(math.isnan(value) for value in found) == 8


def test_a_line_break_in_quotes_ends_no_record(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('x,note\n1,"one\n2,two"\n3,"three"\n')
    assert numbers_in(path) == [1.0, 3.0]
    assert row_count(Table(path, schema=[Number("x")])).value == 2


def test_a_line_break_in_quotes_ends_a_declared_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('x,note\n1,"one\n2,two"\n3,"three"\n')
    assert [value for value in numbers_in(path, records="lines") if not math.isnan(value)] == [3.0]
    assert row_count(Table(path, schema=[Number("x")], records="lines")).value == 3


def test_short_lines_are_filled(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,x\n1\n2,7\n")
    table = Table(path, schema=[Number("x", lower=0, upper=10, missing=Fill(3))])
    assert clipped_sum(table, "x", step=1).value == 10


@pytest.mark.parametrize(
    "rest", ['9,"never closed\n10,4\n', "9,\x00\n", "x" * 100_000 + "\n", "\n\n\n", '"a"b"c,"\n', "9,\ud7ff\n"]
)
def test_broken_lines_raise_no_error(tmp_path, rest):
    path = tmp_path / "t.csv"
    path.write_text("id,x\n1,5\n" + rest)
    records = "lines" if '"' in rest else "standard"
    assert 5.0 in numbers_in(path, records=records)
    for lowering in ("engine", "batches"):
        table = Table(path, schema=[Number("x"), Category("id", ["1"])], records=records)
        assert cell_counts(table, ["id"], lowering=lowering).value[0] == 1


@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".csv", ";"), (".tsv", "\t"), (".txt", "|")])
def test_delimiters_come_from_the_header(tmp_path, suffix, delimiter):
    path = tmp_path / f"t{suffix}"
    path.write_text(f"id{delimiter}x\n1{delimiter}5\n2{delimiter}7\n")
    assert numbers_in(path) == [5.0, 7.0]


def test_line_ends_marks_and_compression(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfx,y\r\n1,2\r\n3,4\r\n")
    assert numbers_in(tmp_path / "a.csv") == [1.0, 3.0]
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        file.write("x\n1\n\n2\n")
    assert [value for value in numbers_in(tmp_path / "b.csv.gz") if not math.isnan(value)] == [1.0, 2.0]
    (tmp_path / "c.csv").write_text("x")
    assert numbers_in(tmp_path / "c.csv") == []
    (tmp_path / "d.csv").write_text('"a ""b"", c",x\n1,2\n')
    assert numbers_in(tmp_path / "d.csv", 'a "b", c') == [1.0]


def test_no_type_is_guessed_from_rows(tmp_path):
    """A column that looks like whole numbers, dates or booleans stays text until it is declared."""
    path = tmp_path / "t.csv"
    path.write_text("code,flag\n007,true\n7,1\n")
    table = Table(path, schema=[Category("code", ["007", "7"]), Category("flag", [True, 1])])
    assert cell_counts(table, ["code", "flag"]).value[:2, :2].tolist() == [[1, 0], [0, 1]]


def test_construction_reads_the_header_line_only(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "1,2\n" * 3)
    reads = []
    real = open

    class Watched:
        def __init__(self, file):
            self.file = file
            self.fileno = file.fileno

        def __enter__(self):
            return self

        def __exit__(self, *rest):
            self.file.close()

        def readline(self, limit):
            line = self.file.readline(limit)
            reads.append(line)
            return line

    from sidelight.records.engines import csv_records as blocks

    monkeypatch.setattr(blocks, "open", lambda *args, **kwargs: Watched(real(*args, **kwargs)), raising=False)
    table = Table(path, schema=[Number("x")])
    assert reads == [b"x,y\n"]
    # Nothing else was read either: the rows can still change without the table noticing.
    path.write_text("x,y\n" + "5,2\n" * 4)
    monkeypatch.undo()
    assert row_count(table).value == 4


def test_a_file_that_vanished_is_a_quiet_error(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x\n123456\n")
    table = Table(path, schema=[Number("x", lower=0, upper=1)])
    path.unlink()
    for lowering in ("engine", "batches"):
        with pytest.raises(SourceError, match="cannot be read to its end") as caught:
            clipped_sum(table, "x", step=1, lowering=lowering)
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None


def test_parquet_reads_the_footer_only(tmp_path):
    """Opening works although every byte of the rows is destroyed; reading then fails without a word about them."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": np.arange(1000.0)}), path, compression="none", use_dictionary=False)
    whole = bytearray(path.read_bytes())
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    whole[4 : len(whole) - footer] = b"\xa5" * (len(whole) - footer - 4)
    path.write_bytes(bytes(whole))
    table = Table(path, schema=[Number("x")])
    assert (table.engine, table.name) == ("duckdb:parquet", "t")
    with pytest.raises(SourceError, match="withheld"):
        row_count(table, lowering="batches")


def test_parquet_is_not_buffered_as_a_whole(tmp_path):
    """No read-ahead: newer versions of Arrow buffer the selected columns unless this is switched off."""
    path = tmp_path / "t.parquet"
    groups, rows = 24, 1 << 15
    with pq.ParquetWriter(path, pa.schema([("x", pa.float64())]), use_dictionary=False, compression="none") as writer:
        for group in range(groups):
            writer.write_table(pa.table({"x": np.arange(rows) + float(group)}))
    table = Table(path, schema=[Number("x")])
    before, most = pa.total_allocated_bytes(), 0
    for streams in ([table.rows.batches(Wanted(numbers=("x",)))], table.rows.in_parallel(Wanted(numbers=("x",)))):
        for stream in streams:
            for _ in stream:
                most = max(most, pa.total_allocated_bytes() - before)
    assert most < 0.8 * path.stat().st_size, "the whole file was in memory"


def test_duckdb_does_not_conclude_from_the_statistics_of_a_file(tmp_path):
    """The second line of defence: without our way through text, NaN is found all the same."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [math.nan] * 5 + [1.0, 2.0]}), path)
    relation = connect().read_parquet(str(path))
    assert relation.filter("x > 5").aggregate("count(*)").fetchall() == [(5,)]  # NaN is the largest number there
    assert relation.filter("isnan(x)").aggregate("count(*)").fetchall() == [(5,)]
    assert relation.aggregate("sum(isnan(x)::int)").fetchall() == [(5,)]


def test_duckdb_prints_no_progress():
    """After two seconds it would print a bar and the time that the rows took, on standard output, terminal or not."""
    setting = "SELECT current_setting('enable_progress_bar')"
    assert connect().execute(setting).fetchall() == [(False,)]


def test_parquet_types(tmp_path):
    path = tmp_path / "t.parquet"
    when = pa.array([0], pa.timestamp("s"))
    pq.write_table(
        pa.table({"t": when, "s": ["a"], "f": [0.5], "d": pa.array([1], pa.decimal128(5, 2)), "n": pa.nulls(1)}), path
    )
    Table(path, schema=[Number("f"), Number("d"), Category("s", ["a"]), PersonId("n", max_rows=1)][:3])
    for column in (Number("s"), Number("t"), Category("f", ["a"]), PersonId("f", max_rows=1), Category("t", ["a"])):
        with pytest.raises(SchemaError, match="is declared as"):
            Table(path, schema=[column, *([Number("d")] if isinstance(column, PersonId) else [])])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_several_files(tmp_path, suffix):
    for part in range(3):
        if suffix == ".csv":
            (tmp_path / f"p{part}.csv").write_text(f"x\n{part}\n")
        else:
            pq.write_table(pa.table({"x": [float(part)]}), tmp_path / f"p{part}.parquet")
    assert numbers_in(str(tmp_path / f"p*{suffix}")) == [0.0, 1.0, 2.0]


def test_several_files_have_one_header(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv").write_text("x,y\n1,2\n")
    with pytest.raises(SchemaError, match="another header"):
        Table(str(tmp_path / "*.csv"), schema=[Number("x")])


def test_errors_about_files(tmp_path):
    schema = [Number("x")]
    with pytest.raises(SourceError, match="there is no file"):
        Table(tmp_path / "none.csv", schema=schema)
    with pytest.raises(SourceError, match="no file matches"):
        Table(str(tmp_path / "*.csv"), schema=schema)
    with pytest.raises(SourceError, match="holds no file"):
        Table(tmp_path, schema=schema)
    (tmp_path / "t.xlsx").write_text("x")
    with pytest.raises(SourceError, match="cannot tell the format"):
        Table(tmp_path / "t.xlsx", schema=schema)
    (tmp_path / "t.parquet").write_text("x\n1\n")
    with pytest.raises(SourceError, match="is not a Parquet file"):
        Table(tmp_path / "t.parquet", schema=schema)
    (tmp_path / "u.parquet").write_bytes(b"PAR1" + b"\0" * 20 + b"PAR1")
    with pytest.raises(SourceError, match="footer"):
        Table(tmp_path / "u.parquet", schema=schema)
    for content in (b"", b"\n", b"\xff\xfe\xff"):
        (tmp_path / "e.csv").write_bytes(content)
        with pytest.raises(SourceError, match="no header line"):
            Table(tmp_path / "e.csv", schema=schema)
    for content in (b"x,y\r987,654\r", b"x" * (1 << 20)):
        (tmp_path / "e.csv").write_bytes(content)
        with pytest.raises(SourceError, match="do not end with a line feed") as caught:
            Table(tmp_path / "e.csv", schema=schema)
        assert "987" not in str(caught.value)
    (tmp_path / "e.csv").write_text('x,"y\nz"\n1,2\n')
    with pytest.raises(SourceError, match="not closed"):
        Table(tmp_path / "e.csv", schema=schema, records="lines")
    for content in ('x,"y\n1,987\n', 'x,"y\n' + "1,987\n" * (1 << 18)):
        (tmp_path / "e.csv").write_text(content)
        with pytest.raises(SourceError, match="not closed") as caught:
            Table(tmp_path / "e.csv", schema=schema)
        assert "987" not in str(caught.value)
    (tmp_path / "e.csv").write_text('x,"y\nz" q\n1,2\n')
    with pytest.raises(SourceError, match="line 2: text behind"):
        Table(tmp_path / "e.csv", schema=schema)
    (tmp_path / "[t].csv").write_text("x\n1\n")
    with pytest.raises(SourceError, match="pattern sign"):
        Table(tmp_path / "[t].csv", schema=schema)
    (tmp_path / "t.csv").write_text("agee,b,b,c\n1,2,3,4\n")
    with pytest.raises(SchemaError, match=r"no column 'age'.*did you mean 'agee'"):
        Table(tmp_path / "t.csv", schema=[Number("age"), Number("c")])
    (tmp_path / "u.csv").write_text("987,654\n1,2\n")
    with pytest.raises(SchemaError, match=r"no column 'age', nor any other") as caught:
        Table(tmp_path / "u.csv", schema=[Number("age")])
    assert "987" not in str(caught.value)
    with pytest.raises(SchemaError, match="names column 'b' twice"):
        Table(tmp_path / "t.csv", schema=[Number("b")])


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x\n1\n")
    path.chmod(0)
    with pytest.raises(SourceError, match="permissions"):
        Table(path, schema=[Number("x")])


def test_quotes_in_paths(tmp_path):
    path = tmp_path / "it's; drop table.csv"
    path.write_text("x\n1\n")
    assert numbers_in(path) == [1.0]
    assert Table(path, schema=[Number("x")]).name == "it's; drop table"


@pytest.mark.parametrize("grid", [Grid(resolution=Fraction(1, 10**6)), Grid(resolution=Fraction(1), first=0, last=99)])
def test_ranks_of_a_file_in_many_batches(tmp_path, grid):
    values = np.random.default_rng(1).uniform(0, 100, 300_000)
    pq.write_table(pa.table({"x": values}), tmp_path / "t.parquet")
    with Source(SeededEntropy(0)) as source:
        from_file = collect_ranks(Table(tmp_path / "t.parquet", schema=[Number("x")]), "x", grid, source)
        in_memory = collect_ranks(Table(values, schema=[Number("x")]), "x", grid, source)
        assert from_file.size == in_memory.size == 300_000
        for index in range(grid.index_of(0), grid.index_of(100), grid.index_of(100) // 50):
            coarse = index >> grid.dither_bits << grid.dither_bits
            assert from_file.below(coarse) == in_memory.below(coarse)


def test_grid_counts_of_a_file(tmp_path):
    (tmp_path / "t.csv").write_text("x\n0.5\n1.5\n1.6\n-9\ninf\nzzz\n")
    table = Table(tmp_path / "t.csv", schema=[Number("x")])
    assert grid_counts(table, "x", Grid(resolution=Fraction(1), first=0, last=3)).value.tolist() == [2, 2, 0, 1]
