"""Folders, hive partitions, Arrow datasets and streams, DuckDB connections and files; and what is refused instead."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import sidelight as sl
from plain_statistics import clipped_sum, row_count
from sidelight.aggregates import cell_counts
from sidelight.errors import BudgetError, PlanError, SchemaError, SourceError
from sidelight.grid import Grid
from sidelight.records import Category, Number, PersonId, Table
from sidelight.records.engines import parquet_files
from sidelight.testing import seeded_release

SCHEMA = [Number("x", lower=0, upper=100, granularity=1), Category("ward", ["A", "B/C", "7"]), Number("year")]


def written(
    folder: Path, *, ward: str = "ward=A", year: str = "year=2024", name: str = "part-0", **columns: Any
) -> Path:
    """Write one file of a partitioned table."""
    place = folder / year / ward
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns or {"x": [1.0, 2.0]}), place / f"{name}.parquet")
    return place / f"{name}.parquet"


def hive(folder: Path) -> Path:
    root = folder / "visits"
    written(root, x=[1.0, 2.0, None])
    written(root, ward="ward=B%2FC", x=[10.0])
    written(root, year="year=2025", ward="ward=__HIVE_DEFAULT_PARTITION__", x=[20.0, math.nan])
    written(root, year="year=__HIVE_DEFAULT_PARTITION__", ward="ward=7", x=[30.0, 40.0])
    (root / "_SUCCESS").touch()
    (root / ".part-0.parquet.crc").touch()
    return root


@pytest.mark.parametrize("person", [False, True])
@pytest.mark.parametrize("how", ["folder", "dataset"])
def test_columns_of_folders_are_columns(tmp_path: Path, how: str, person: bool) -> None:
    root = hive(tmp_path)
    source = root if how == "folder" else ds.dataset(root, partitioning="hive")
    if person:
        table = Table(source, schema=[SCHEMA[0], SCHEMA[2], PersonId("ward", max_rows=1)])
    else:
        table = Table(source, schema=SCHEMA)
    assert table.engine == "duckdb:parquet"
    for lowering in ("auto", "batches", "engine"):
        if person:
            assert row_count(table, lowering=lowering).value == 3  # three known wards, one row of each
            continue
        assert clipped_sum(table, "x", lowering=lowering).value == 103
        assert cell_counts(table, ["ward"], lowering=lowering).value.tolist() == [3, 1, 2, 2]
        assert row_count(table, lowering=lowering).value == 8
        grid = Grid(resolution=Fraction(1), first=2023, last=2026)
        assert cell_counts(table, ["year"], grids={"year": grid}, lowering=lowering).value.tolist() == [0, 4, 2, 0]
    years = Table(source, schema=[Number("year", lower=0, upper=3000, granularity=1)])
    for lowering in ("batches", "engine"):  # only names of folders are read
        assert clipped_sum(years, "year", lowering=lowering).value == 4 * 2024 + 2 * 2025


def test_a_name_of_a_folder_says_nothing_about_others(tmp_path: Path) -> None:
    """Other readers take 007 for the number 7 as long as all names look like numbers."""
    root = tmp_path / "t"
    schema = [Category("ward", ["007", "7"]), Number("x")]
    for ward in ("007", "7"):
        written(root, ward=f"ward={ward}", x=[1.0])
    alone = cell_counts(Table(root, schema=schema), ["ward"]).value.tolist()
    written(root, ward="ward=north", x=[1.0])
    assert alone == [1, 1, 0]
    for source in (root, ds.dataset(root, partitioning="hive")):
        assert cell_counts(Table(source, schema=schema), ["ward"]).value.tolist() == [1, 1, 1]


def test_folders_of_plain_files(tmp_path: Path) -> None:
    for part in range(3):
        pq.write_table(pa.table({"x": [float(part)]}), tmp_path / f"{part}.parquet")
    table = Table(tmp_path, schema=SCHEMA[:1])
    assert clipped_sum(table, "x").value == 3
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.csv").write_text("x\n1\n")
    (texts / "b.csv").write_text("x\n5\n")
    assert clipped_sum(Table(texts, schema=SCHEMA[:1]), "x").value == 6


def test_files_of_a_folder_that_disagree(tmp_path: Path) -> None:
    root = tmp_path / "t"
    written(root, ward="ward=secret", x=[1.0])
    written(root, ward="ward=hidden", x=["1"])
    with pytest.raises(SchemaError, match=r"ward=\.\.\./part-0.parquet' holds .* files of a folder") as caught:
        Table(root, schema=SCHEMA)
    assert "secret" not in str(caught.value)
    assert "hidden" not in str(caught.value)
    with pytest.raises(SchemaError, match=r"files of a folder|Arrow dataset says"):
        Table(ds.dataset(root, partitioning="hive"), schema=SCHEMA)
    Table(root, schema=[Category("ward", ["A"])])  # the columns that are read agree


@pytest.mark.parametrize("first", [True, False])
def test_a_column_missing_in_one_file(tmp_path: Path, first: bool) -> None:
    root = tmp_path / "t"
    written(root, ward="ward=a", **({"y": [1.0]} if first else {"x": [1.0]}))
    written(root, ward="ward=b", **({"x": [1.0]} if first else {"y": [1.0]}))
    with pytest.raises(SchemaError, match=r"ward=\.\.\./part-0.parquet' has no column 'x'"):
        Table(root, schema=SCHEMA)


def test_refused_folders(tmp_path: Path) -> None:
    def refused(match: str, schema: Any = SCHEMA) -> None:
        with pytest.raises((SourceError, SchemaError), match=match) as caught:
            Table(root, schema=schema)
        assert "secret" not in str(caught.value)

    root = tmp_path / "a"
    root.mkdir()
    refused("holds no file")
    file = written(root, ward="ward=secret")
    (root / "2024").mkdir()
    refused("not named column=value")
    (root / "2024").rmdir()
    file.with_suffix(".orc").write_bytes(b"")
    refused("cannot tell the format of .*part-0.orc")
    file.with_suffix(".orc").rename(root / "t.csv")
    refused("CSV and Parquet files")
    (root / "t.csv").unlink()
    pq.write_table(pa.table({"x": [1.0]}), root / "t.parquet")
    refused("other folders column=value")
    (root / "t.parquet").unlink()
    written(root, ward="ward=secret", name="part-1", x=[1.0], ward_=[1])
    pq.write_table(pa.table({"x": [1.0], "ward": ["B"]}), file)
    refused("holds the column 'ward', which the names")
    root = tmp_path / "b"
    (root / "ward=secret").mkdir(parents=True)
    (root / "ward=secret" / "t.csv").write_text("x\n1\n")
    refused("write them as Parquet")


@pytest.mark.parametrize("lowering", ["batches", "engine"])
@pytest.mark.parametrize("what", ["gone", "replaced"])
def test_a_file_that_goes_in_mid_scan(tmp_path: Path, what: str, lowering: Any) -> None:
    """The error names the file without a cell; nothing of the engine's message is in it."""
    root = tmp_path / "t"
    written(root, ward="ward=aa", x=[1.0] * 10, t=["u"] * 10)
    last = written(root, ward="ward=secret", x=[98765.0] * 10, t=["u"] * 10)
    table = Table(root, schema=[*SCHEMA, Category("t", ["u"])])
    if what == "gone":
        last.unlink()
    else:
        last.write_bytes(b"PAR1 98765 PAR1")
    with pytest.raises(SourceError, match=r"ward=\.\.\./part-0.parquet' (is not there|was changed)") as caught:
        cell_counts(table, ["t"], lowering=lowering)
    assert "secret" not in str(caught.value)
    assert "98765" not in str(caught.value)
    assert caught.value.__context__ is None


def test_the_charge_of_a_source_that_vanished_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "t"
    written(root, ward="ward=a", x=[1.0] * 10)
    last = written(root, ward="ward=b", x=[1.0] * 10)
    real, opened = parquet_files.pq.ParquetFile, []

    def while_the_first_is_read(path: Any, *rest: Any, **more: Any) -> Any:
        opened.append(path)
        if len(opened) == 1:
            last.unlink()
        return real(path, *rest, **more)

    with sl.open_ledger(f"sqlite:///{tmp_path}/budget.db") as ledger:
        session = sl.Session(Table(root, schema=SCHEMA), budget=sl.PureDP(1), ledger=ledger, scope="t")
        monkeypatch.setattr(parquet_files.pq, "ParquetFile", while_the_first_is_read)
        with pytest.raises(SourceError, match="is not there any more"):
            session.release(sl.Quantiles([0.5], column="x", epsilon="0.25"))
        assert [entry.state for entry in ledger.entries()] == ["failed"]
        with pytest.raises(BudgetError):  # a quarter of the budget is gone
            session.release(sl.Quantiles([0.5], column="x", epsilon="0.8"))
    assert opened


class Stream:
    """What a foreign library looks like: columns, and a stream of them whenever it is asked."""

    def __init__(self, table: pa.Table, *, times: int = 10**9) -> None:
        self.table, self.times, self.asked = table, times, 0

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        self.asked += 1
        if self.asked > self.times:
            raise RuntimeError("a cell: 98765")
        return self.table.__arrow_c_stream__(requested_schema)


COLUMNS = {"x": [1.0, None, 250.0], "ward": ["A", None, "B/C"], "year": pa.array([1.5, 2, 3], pa.float16())}


def test_streams_of_foreign_libraries() -> None:
    table = Table(Stream(pa.table(COLUMNS)), schema=SCHEMA)
    assert table.engine == "arrow:stream"
    for _ in range(2):
        for lowering in ("auto", "batches", "engine"):
            assert clipped_sum(table, "x", lowering=lowering).value == 101
            assert cell_counts(table, ["ward"], lowering=lowering).value.tolist() == [1, 1, 0, 1]
    broken = pa.table({"x": pa.array([b"\xff", b"A"]).cast(pa.binary()).view(pa.string())})
    for lowering in ("batches", "engine"):
        found = cell_counts(Table(Stream(broken), schema=[Category("x", ["A"])]), ["x"], lowering=lowering)
        assert found.value.tolist() == [1, 1]


@pytest.mark.parametrize("times", [0, 1])
def test_streams_that_can_be_read_once_are_refused(times: int) -> None:
    with pytest.raises(SourceError, match=r"a Stream, hands no|only once") as caught:
        Table(Stream(pa.table(COLUMNS), times=times), schema=SCHEMA)
    assert "98765" not in str(caught.value)
    reader = pa.table(COLUMNS).to_reader()
    with pytest.raises(SchemaError, match="read_all"):
        Table(reader, schema=SCHEMA)


def test_a_stream_that_is_used_up_is_no_table_without_rows() -> None:
    source = Stream(pa.table(COLUMNS))
    table = Table(source, schema=SCHEMA)
    clipped_sum(table, "x", lowering="batches")
    source.table = source.table.slice(0, 0)
    with pytest.raises(SourceError, match="nothing the second time"):
        clipped_sum(table, "x", lowering="batches")


def test_datasets_in_memory_and_refused_ones(tmp_path: Path) -> None:
    assert clipped_sum(Table(ds.dataset(pa.table(COLUMNS)), schema=SCHEMA), "x").value == 101
    (tmp_path / "t.csv").write_text("x\n1\n")
    hive(tmp_path)
    whole = ds.dataset(tmp_path / "visits", partitioning="hive")
    for source, match in {
        "csv": (ds.dataset(tmp_path / "t.csv", format="csv"), "guesses"),
        "filter": (whole.filter(ds.field("x") > 1), "where="),
        "union": (ds.dataset([whole, whole]), "UnionDataset"),
        "by place": (
            ds.dataset(tmp_path / "visits", partitioning=["first", "second"]),
            "column=value",
        ),
    }.values():
        with pytest.raises(SourceError, match=match):
            Table(source, schema=SCHEMA[:1])


def database(folder: Path) -> Path:
    with duckdb.connect(folder / "shop.db") as connection:
        connection.execute('CREATE TABLE "odd ""name" AS SELECT 1.0 AS x')
        connection.execute("CREATE TABLE people (x DOUBLE, ward VARCHAR, year INTEGER)")
        connection.execute("INSERT INTO people VALUES (1, 'A', 2024), ('nan', NULL, 2025), (250, 'B/C', NULL)")
        connection.execute("CREATE SCHEMA old; CREATE TABLE old.people AS SELECT 5.0 AS x")
        connection.execute("CREATE VIEW all_people AS SELECT * FROM main.people")
    return folder / "shop.db"


def test_tables_of_duckdb_files_and_connections(tmp_path: Path) -> None:
    path = database(tmp_path)
    for name in ("main.people", "all_people"):
        table = Table(path, table=name, schema=SCHEMA)
        assert (table.engine, table.name) == ("duckdb", name)
        for lowering in ("auto", "batches", "engine"):
            assert clipped_sum(table, "x", lowering=lowering).value == 101
            assert cell_counts(table, ["ward"], lowering=lowering).value.tolist() == [1, 1, 0, 1]
    assert clipped_sum(Table(path, table='odd "name', schema=SCHEMA[:1]), "x").value == 1
    assert clipped_sum(Table(path, table="shop.old.people", schema=SCHEMA[:1]), "x").value == 5
    del table
    with duckdb.connect() as mine:
        mine.execute("CREATE TEMP TABLE t AS SELECT 7 AS x")
        assert clipped_sum(Table(mine, table="t", schema=SCHEMA[:1]), "x").value == 7


def test_refused_databases(tmp_path: Path) -> None:
    path = database(tmp_path)
    for table, match in [(None, "'people'"), ("peopel", "no table 'peopel'.*people"), ("people", "several tables")]:
        with pytest.raises(SourceError, match=match):
            Table(path, table=table, schema=SCHEMA)
    with pytest.raises(SourceError, match="several tables; say which"):
        Table(duckdb.connect(), schema=SCHEMA)
    with pytest.raises(SourceError, match="leave it out"):
        Table(duckdb.connect().sql("select 1 as x"), table="x", schema=SCHEMA[:1])
    with pytest.raises(SourceError, match="leave it out"):
        Table([1.0], table="x", schema=SCHEMA[:1])
    with duckdb.connect(path), pytest.raises(SourceError, match="give that connection"):
        Table(path, table="main.people", schema=SCHEMA)
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "t.parquet")
    with pytest.raises(SourceError, match="leave it out"):
        Table(tmp_path / "t.parquet", table="x", schema=SCHEMA[:1])


def test_a_view_reads_nothing_outside_of_its_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "t.parquet")
    with duckdb.connect(tmp_path / "v.duckdb") as connection:
        connection.execute(f"CREATE VIEW v AS SELECT * FROM read_parquet('{tmp_path}/t.parquet')")
    with pytest.raises(SourceError):
        row_count(Table(tmp_path / "v.duckdb", table="v", schema=[Number("x")]))


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("s3://bucket/t.parquet", "httpfs"),
        ("HTTPS://user:98765@host/t.parquet", "read_parquet"),
        ("postgresql://user:98765@host/db", "table='people'.*ATTACH"),
        ("file:///t.parquet", "the path itself"),
    ],
)
def test_urls_are_refused_with_what_to_write(tmp_path: Path, source: str, hint: str) -> None:
    with pytest.raises(SourceError, match=hint) as caught:
        Table(source, schema=SCHEMA)
    assert "98765" not in str(caught.value)
    (tmp_path / "p.toml").write_text(
        f'[source]\npath = "{source}"\n[[column]]\nname = "x"\n[budget]\nepsilon = 1\n'
        '[[query]]\nkind = "quantiles"\ncolumn = "x"\nlevels = [0.5]\nepsilon = 1\n'
    )
    from sidelight.plans.plan import read_plan

    with pytest.raises(PlanError, match=hint):
        read_plan(tmp_path / "p.toml")


@pytest.mark.parametrize(
    ("source", "engine"),
    [
        (" postgresql://user:98765@host/db", None),
        ("'postgres://user:98765@host/db'", None),
        ("postgresql:/user:98765@host/db", None),
        ("host=h user=u password=98765", None),
        (" s3://key:98765@bucket/t.parquet", None),
        ("s3a://key:98765@bucket/t.parquet", "spark"),
        ("postgresql://user:98765@host/db", "spark"),
    ],
)
def test_no_misspelt_address_is_shown(tmp_path: Path, source: str, engine: Literal["spark"] | None) -> None:
    from sidelight.plans.plan import read_plan

    with pytest.raises(SourceError, match=r"with nothing before it|Spark does not read") as caught:
        Table(source, schema=SCHEMA, engine=engine)
    assert "98765" not in str(caught.value)
    by_engine = "" if engine is None else 'engine = "spark"\n'
    (tmp_path / "p.toml").write_text(
        f'[source]\npath = "{source}"\n{by_engine}[[column]]\nname = "x"\n'
        '[budget]\nepsilon = 1\n[[query]]\nkind = "quantiles"\ncolumn = "x"\nlevels = [0.5]\nepsilon = 1\n'
    )
    with pytest.raises(PlanError, match=r"with nothing before it|Spark does not read") as refused:
        read_plan(tmp_path / "p.toml")
    assert "98765" not in str(refused.value)


@pytest.mark.parametrize(
    "path", ["hdfs://host:9000/a@b/t.parquet", "abfss://box@account.dfs.core.windows.net/t.parquet"]
)
def test_addresses_that_spark_reads_pass(path: str) -> None:
    from sidelight.records.engines import check_local

    check_local(path, engine="spark")
    check_local("C:/me@home/postgres.csv")


@pytest.mark.parametrize("ending", ["feather", "jsonl", "sqlite"])
def test_other_files_are_refused_with_what_to_write(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"t.{ending}").write_bytes(b"x")
    with pytest.raises(SourceError, match="Parquet"):
        Table(tmp_path / f"t.{ending}", schema=SCHEMA)


def test_a_plan_names_a_table_and_a_folder(tmp_path: Path) -> None:
    from sidelight.plans.plan import read_plan

    database(tmp_path)
    rest = (
        '[[column]]\nname = "x"\n[budget]\nepsilon = 1\n'
        '[[query]]\nkind = "quantiles"\ncolumn = "x"\nlevels = [0.5]\nepsilon = 1\n'
    )
    (tmp_path / "p.toml").write_text(f'[source]\npath = "shop.db"\ntable = "all_people"\n{rest}')
    plan = read_plan(tmp_path / "p.toml")
    assert (plan.one.table, plan.name) == ("all_people", "all_people")


def test_the_same_folder_by_other_readers(tmp_path: Path) -> None:
    """Written by three libraries, read the same."""
    rows = pa.table({"x": [1.0, 2.0, 3.0], "ward": ["A", "B/C", None]})
    pq.write_to_dataset(rows, tmp_path / "arrow", partition_cols=["ward"])
    duckdb.connect().execute(f"COPY (FROM rows) TO '{tmp_path}/duck' (FORMAT parquet, PARTITION_BY (ward))")
    pl.from_arrow(rows).write_parquet(tmp_path / "polars", partition_by="ward")
    for name in ("arrow", "duck", "polars"):
        table = Table(tmp_path / name, schema=SCHEMA[:2])
        assert cell_counts(table, ["ward"]).value.tolist() == [1, 1, 0, 1], name
        assert clipped_sum(table, "x").value == 6


@pytest.mark.parametrize("how", ["folder", "dataset", "stream", "connection", "file"])
@pytest.mark.parametrize("unit", ["day", "hour"])
def test_dates_are_read_by_the_calendar_wherever_they_stand(tmp_path: Path, how: str, unit: Any) -> None:
    """Dates in folder names, text columns and date columns; an invalid folder name is missing."""
    cells = ["2024-01-02", "2024-02-01 13%3A30", "2024-12-31T23%3A59+01%3A00", "never", "__HIVE_DEFAULT_PARTITION__"]
    plain = [None if each[0] == "_" else each.replace("%3A", ":") for each in cells]
    schema = [sl.Date("day", start="2024-01-01", end="2024-12-31", unit=unit), Category("ward", ["A"])]
    rows = pa.table({"day": plain, "ward": ["A"] * 5})
    expected = clipped_sum(Table(rows, schema=schema), "day").value
    if how in ("folder", "dataset"):
        for each in cells:
            place = tmp_path / "visits" / f"day={each}"
            place.mkdir(parents=True)
            pq.write_table(pa.table({"ward": ["A"]}), place / "0.parquet")
        text = ds.partitioning(pa.schema([("day", pa.string())]), flavor="hive")
        folder = tmp_path / "visits"
        table = Table(folder if how == "folder" else ds.dataset(folder, partitioning=text), schema=schema)
    elif how == "stream":
        table = Table(Stream(rows), schema=schema)
    else:
        path = str(tmp_path / "t.duckdb") if how == "file" else ":memory:"
        connection = duckdb.connect(path)
        connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
        if how == "file":
            connection.close()
        table = Table(connection if how == "connection" else path, schema=schema, table="visits")
    for lowering in ("batches", "engine"):
        assert clipped_sum(table, "day", lowering=lowering).value == expected
        assert row_count(table, lowering=lowering).value == 5
    by_ward = sl.Mean("day", by="ward", epsilon=1)
    found = [repr(seeded_release(by_ward, each, seed=1).value) for each in (table, Table(rows, schema=schema))]
    assert found[0] == found[1]


def test_files_of_a_pattern_are_named_without_the_cells_in_their_folders(tmp_path: Path) -> None:
    root = hive(tmp_path)
    table = Table(str(root / "*" / "*" / "*.parquet"), schema=[SCHEMA[0]])
    for path in root.glob("year=2025/*/*.parquet"):
        path.unlink()
    with pytest.raises(SourceError, match=r"year=\.\.\./ward=\.\.\./part-0\.parquet") as error:
        clipped_sum(table, "x")
    assert "2025" not in str(error.value)


def test_datasets_of_parts_of_files_are_refused(tmp_path: Path) -> None:
    """A file would be read once for each of its parts, and every record counted as often."""
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": [float(n) for n in range(10)]}), path, row_group_size=2)
    whole = ds.dataset(str(path))
    (fragment,) = whole.get_fragments()
    parts = {
        "split": fragment.split_by_row_group(),
        "chosen": [fragment.subset(ds.field("x") > 7)],
    }
    schema = [Number("x", lower=0, upper=100)]
    for fragments in parts.values():
        some = ds.FileSystemDataset(fragments, whole.schema, fragment.format, fragment.filesystem)
        with pytest.raises(SourceError, match="parts of files"):
            Table(some, schema=schema)
    assert row_count(Table(whole, schema=schema)).value == 10


@pytest.mark.parametrize("ending", ["csv", "dat", "json"])
def test_no_message_about_a_file_shows_a_cell_of_its_folder(tmp_path: Path, ending: str) -> None:
    for ward, text in (("A", "x\n1\n"), ("zeugin-41b", 'y\n1\n"2\n')):
        (tmp_path / f"ward={ward}").mkdir()
        (tmp_path / f"ward={ward}" / f"p.{ending}").write_text(text, encoding="utf-8")
    for pattern in (f"*/p.{ending}", f"*z*/p.{ending}"):
        with pytest.raises((SourceError, SchemaError)) as caught:
            row_count(Table(tmp_path / pattern, schema=[Number("x", lower=0, upper=9)]))
        assert "zeugin" not in str(caught.value)
