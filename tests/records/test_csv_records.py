"""Tables from CSV files: the text of one record adds, takes away and changes no other, and all tools see the same rows.

The attack that this closes: a comment with a thousand line breaks was a thousand rows.
"""

from __future__ import annotations

import csv
import gzip
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sidelight as sl
from plain_statistics import row_count
from sidelight.aggregates import cell_counts
from sidelight.errors import SidelightError, SourceError
from sidelight.records import Category, Number, PersonId, Table
from sidelight.records.engines.csv import open_csv
from sidelight.records.engines.files import files_of

CHARACTERS = [
    "a",
    "B",
    "7",
    " ",
    '"',
    '""',
    ",",
    ";",
    "\t",
    "|",
    "\n",
    "\r\n",
    "é",
    "漢",
    "#",
    "'",
    "\\",
    "-",
    "\ufeff",
]
texts = st.lists(st.sampled_from(CHARACTERS), max_size=6).map("".join)
rows_of_cells = st.lists(st.tuples(texts, texts), max_size=6)
NAMES = ("id", "note", "last, one")


def as_read(path: str | Path, names: tuple[str, ...] = NAMES) -> list[tuple[str, ...]]:
    """Return the cells of a CSV file as our reader gives them; missing is empty."""
    cells = pa.RecordBatchReader.from_stream(
        open_csv([str(path)], names, files_of([str(path)])).cells(names)
    ).read_all()
    return list(zip(*(column.to_pylist() for column in cells.columns), strict=True))


def by_python(path: Path, rows: list[tuple[str, ...]], delimiter: str, *, all_quoted: bool = False) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        quoting = csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL
        csv.writer(file, delimiter=delimiter, quoting=quoting).writerows([NAMES, *rows])


def by_pandas(path: Path, rows: list[tuple[str, ...]], delimiter: str) -> None:
    pd.DataFrame(rows, columns=list(NAMES)).to_csv(path, index=False, sep=delimiter)


def by_polars(path: Path, rows: list[tuple[str, ...]], delimiter: str) -> None:
    schema = dict.fromkeys(NAMES, pl.String)
    pl.DataFrame(rows, schema=schema, orient="row").write_csv(path, separator=delimiter)


def by_duckdb(path: Path, rows: list[tuple[str, ...]], delimiter: str) -> None:
    frame = pl.DataFrame(rows, schema=dict.fromkeys(NAMES, pl.String), orient="row").to_arrow()
    connection = duckdb.connect()
    connection.from_arrow(frame).write_csv(str(path), sep=delimiter, header=True)


WRITERS = {
    "python": by_python,
    "python, all quoted": lambda *given_: by_python(*given_, all_quoted=True),
    "pandas": by_pandas,
    "polars": by_polars,
    "duckdb": by_duckdb,
}


def others(path: Path, delimiter: str) -> dict[str, list[tuple[str, ...]]]:
    """Return the cells as pandas, Polars and DuckDB read them, as text."""
    frame = pd.read_csv(path, sep=delimiter, dtype=str, keep_default_na=False, na_values=[])
    whole = pl.read_csv(path, separator=delimiter, infer_schema=False)
    options = f"delim='{delimiter}', quote='\"', escape='\"', header=true, auto_detect=false"
    columns = ", ".join(f"'{name}': 'VARCHAR'" for name in NAMES)
    found = duckdb.connect().sql(f"SELECT * FROM read_csv('{path}', {options}, columns={{{columns}}})").fetchall()
    return {
        "pandas": list(frame.itertuples(index=False, name=None)),
        "polars": [tuple(cell or "" for cell in row) for row in whole.rows()],
        "duckdb": [tuple(cell or "" for cell in row) for row in found],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("csv")


@pytest.mark.parametrize("writer", list(WRITERS))
@given(rows_of_cells, st.sampled_from([",", ";", "\t", "|"]))
@settings(max_examples=25, deadline=None)
def test_ordinary_files_give_the_rows_that_every_other_tool_gives(folder, writer, cells, delimiter):
    rows = [(f"r{number}", *pair) for number, pair in enumerate(cells)]
    path = folder / "t.csv"
    WRITERS[writer](path, rows, delimiter)
    assert as_read(path) == rows
    for tool, read in others(path, delimiter).items():
        assert read == rows, tool


@pytest.mark.parametrize("writer", list(WRITERS))
@given(st.lists(st.lists(st.sampled_from(["a", "\r", "\n", '"', ",", "\0"]), max_size=5).map("".join), max_size=5))
@settings(max_examples=25, deadline=None)
def test_carriage_returns_and_nulls_come_back_as_they_were_written(folder, writer, cells):
    """Older writers of Python, and so of pandas, leave a carriage return without quotation marks: it ends nothing."""
    rows = [(f"r{number}", cell, "end") for number, cell in enumerate(cells)]
    path = folder / "t.csv"
    WRITERS[writer](path, rows, ",")
    assert as_read(path) == rows


@pytest.mark.parametrize("writer", list(WRITERS))
@given(st.lists(texts, max_size=4), texts, st.integers(0, 4), st.booleans())
@settings(max_examples=25, deadline=None)
def test_one_record_more_is_one_record_more_and_changes_no_other(folder, writer, cells, added, place, compressed):
    rows = [(cell, cell, "x") for cell in cells]
    more = [*rows[:place], (added, "y", added), *rows[place:]]
    found = []
    for some in (rows, more):
        path = folder / "t.csv"
        WRITERS[writer](path, some, ",")
        if compressed:
            path.with_suffix(".csv.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
            path = path.with_suffix(".csv.gz")
        found.append(Counter(as_read(path)))
    assert not found[0] - found[1]
    assert sum((found[1] - found[0]).values()) == 1


def people(comment: str) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "person": [f"p{number}" for number in range(50)],
            "age": rng.integers(18, 80, 50),
            "comment": ["fine", 'said "ow", left', "two\nlines", "", comment] * 10,
        }
    )


def test_a_comment_with_a_thousand_line_breaks_adds_no_row(tmp_path):
    """The exploit: `age` of the injected lines is 99."""
    frame = people("".join("\nme,99,x" for _ in range(1000)))
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    schema = [Category("age", list(range(18, 100)))]
    table = Table(path, schema=schema)
    assert row_count(table).value == len(frame) == 50
    counts = cell_counts(table, ["age"]).value
    assert counts[99 - 18] == 0
    assert counts.tolist() == cell_counts(Table(frame, schema=schema), ["age"]).value.tolist()
    # The negative control: line by line, as the file was read before, the attack works.
    assert cell_counts(Table(path, schema=schema, records="lines"), ["age"]).value[99 - 18] > 9000


def test_people_are_counted_as_in_pandas(tmp_path):
    frame = people("a\n\n\nb, c")
    frame = pd.concat([frame, frame.assign(age=30)])
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    schema = [PersonId("person", max_rows=2), Number("age", lower=0, upper=120)]
    assert row_count(Table(path, schema=schema)).value == row_count(Table(frame, schema=schema)).value == 100


@pytest.mark.parametrize("rest", ['9,"never closed\n10,4\n', '9,x"y\n', '"9" ,3\n', '9,"7"8\n', '9,"'])
def test_other_files_are_refused_before_the_charge_and_read_as_declared_lines(tmp_path, rest):
    path = tmp_path / "t.csv"
    path.write_text("id,x\n1,5\n" + rest)
    schema = [Number("x", lower=0, upper=10), Number("id", lower=0, upper=10)]
    table = Table(path, schema=schema)  # the header is fine, and no row is read
    session = sl.Session(table, budget=sl.PureDP(1), ledger=tmp_path / "budget.db")
    query = sl.Quantiles([0.5], column="x", epsilon=1)
    with pytest.raises(SourceError, match=r"t\.csv', line 3: ") as caught:
        session.release(query)
    assert "nothing was charged" in str(caught.value)
    assert (tmp_path / "budget.db").exists()
    lines = Table(path, schema=schema, records="lines")
    assert lines.engine == "duckdb:csv-lines"
    assert row_count(lines).value == 1 + rest.count("\n") + (not rest.endswith("\n"))
    again = sl.Session(lines, budget=sl.PureDP(1), ledger=tmp_path / "budget.db")
    again.release(query)  # the whole budget is still there


def test_the_file_is_scanned_once(tmp_path, monkeypatch):
    from sidelight.records.engines import csv as engine

    scanned = []
    real = engine.scan
    monkeypatch.setattr(engine, "scan", lambda *given_: (scanned.append(given_), real(*given_))[1])
    path = tmp_path / "t.csv"
    path.write_text("x\n1\n2\n")
    table = Table(path, schema=[Number("x")])
    assert scanned == []
    for _ in range(3):
        table.check_records()
        assert row_count(table).value == 2
    assert len(scanned) == 1


@pytest.mark.parametrize(
    "text", ['job,"pay\nviolet,nurse\nyellow,cook\n', "job,pay\rviolet,nurse\ryellow,cook\r", '"x\nviolet",job,nurse\n']
)
def test_records_that_an_open_quote_makes_part_of_a_name_are_not_in_the_message(tmp_path, text):
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode())
    with pytest.raises(SidelightError) as refused:
        sl.Table(path, schema=[sl.Number("age", lower=0, upper=99), sl.Category("job", ["a"])])
    assert not any(each in str(refused.value) for each in ("violet", "yellow", "nurse", "cook"))


def test_headers_hold_line_breaks_and_files_may_be_empty(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbf"a ""b""\r\nc",x\r\n"1\n",2\r\n')
    assert as_read(path, ('a "b"\r\nc', "x")) == [("1\n", "2")]
    for content in (b"a,x", b"a,x\n", b'a,x\r\n\r\n\n"",\n'):
        path.write_bytes(content)
        assert as_read(path, ("a", "x")) == ([("", "")] if b'"' in content else [])


def test_records_is_for_csv_files(tmp_path):
    schema = [Number("x")]
    pd.DataFrame({"x": [1.0]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(SourceError, match="is a Parquet file"):
        Table(tmp_path / "t.parquet", schema=schema, records="lines")
    with pytest.raises(SourceError, match="for paths of CSV files, got dict"):
        Table({"x": [1]}, schema=schema, records="lines")
    with pytest.raises(SourceError, match="must be"):
        Table({"x": [1]}, schema=schema, records="rows")
    Table({"x": [1]}, schema=schema).check_records()


def test_a_record_beyond_the_limit_has_no_cells_and_touches_no_other(tmp_path):
    """Longer than a block by far; with an odd number of marks up to where it is cut."""
    path = tmp_path / "t.csv"
    huge = b'"' + b'""\n,' * (1 << 22) + b'"'  # 16 MiB and a little
    fits = b'"' + b"\n" * (1 << 23) + b'"'
    path.write_bytes(b"x,y\n1,a\n2," + huge + b"\n3," + fits + b"\n4,d\n")
    assert [value for (value,) in as_read(path, ("x",))] == ["1", "", "3", "4"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_a_large_file_streams(tmp_path, record_property):
    """200 MB against 20 MB, also compressed: the memory does not grow with the file."""
    program = (
        "import sys, pathlib\n"
        "from sidelight.records import Number, Table\n"
        "from plain_statistics import row_count\n"
        "count = row_count(Table(sys.argv[1], schema=[Number('x')]), lowering='batches').value\n"
        "status = pathlib.Path('/proc/self/status').read_text().partition('VmHWM:')[2]\n"
        "print(count, status.split()[0])"
    )
    record = b'12345,"a comment\nof two lines, and ""marks"""\n' * 1000
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    used = {}
    for size in (450, 4500):
        for suffix in (".csv", ".csv.gz"):
            path = tmp_path / f"t{size}{suffix}"
            with gzip.open(path, "wb", 1) if suffix.endswith("gz") else path.open("wb") as file:
                file.write(b"x,note\n")
                for _ in range(size):
                    file.write(record)
            ran = subprocess.run(
                [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, env=environment
            )
            count, kilobytes = map(int, ran.stdout.split())
            assert count == size * 1000
            used[size, suffix] = kilobytes / 1024
    for suffix in (".csv", ".csv.gz"):
        assert used[4500, suffix] < used[450, suffix] + 60
    record_property(
        "audit",
        f"memory of CSV files: ten times the rows, {used[450, '.csv']:.0f} MB and "
        f"{used[4500, '.csv']:.0f} MB; does not grow",
    )


HOSTILE = [
    '"',
    '""',
    '"""',
    "\n",
    "\r\n",
    "\r",
    ",",
    '",',
    '\n"',
    '"\n',
    "\n9,99,x\n",
    '"\n9,99,"',
    "\0",
    "\ufeff",
    "x" * 70_000,
]


@pytest.mark.slow
def test_hostile_text_in_one_record_moves_no_other(tmp_path, record_property):
    rng = np.random.default_rng(5)
    tried = moved = 0
    path = tmp_path / "t.csv"
    for writer in WRITERS.values():
        for turn in range(150):
            cells = ["".join(rng.choice(HOSTILE, rng.integers(0, 6))) for _ in range(6)]
            rows = [(f"r{number}", cell, "end") for number, cell in enumerate(cells)]
            writer(path, rows, ",")
            whole = Counter(as_read(path))
            taken = turn % len(rows)
            writer(path, rows[:taken] + rows[taken + 1 :], ",")
            moved += whole - Counter(as_read(path)) != Counter([rows[taken]])
            tried += 1
    record_property(
        "audit",
        f"records of CSV files: {tried} pairs of neighbours with hostile text from "
        f"{len(WRITERS)} writers; {moved} moved another record",
    )
    assert moved == 0
