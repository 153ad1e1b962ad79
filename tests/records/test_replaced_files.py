"""Files that change after a table was made fail its releases, and a file that a table would have twice is refused."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import sidelight as sl
from sidelight.errors import BudgetError, SourceError
from sidelight.records.engines import csv, parquet, parquet_files
from sidelight.testing import seeded_release

G, X = sl.Category("g", ["a", "b"], other=None), sl.Number("x", lower=0, upper=10, granularity=1)
CHANGED = "was changed or replaced after the table was made. The charge of a release stands; make the table"


def parquet_file(path: Path, cells: str = "aabb", *, size: int = 2, **more: Any) -> Path:
    """Write a file in another place and put it in the place of the one that is there."""
    columns = {"g": list(cells), "x": [float("ab".index(cell)) for cell in cells], **more}
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path.with_suffix(".new"), row_group_size=size)
    path.with_suffix(".new").replace(path)
    return path


def csv_file(path: Path, cells: str = "aabb") -> Path:
    text = "g,x\n" + "".join(f"{cell},{'ab'.index(cell)}\n" for cell in cells)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


#: How the files of a table are written, and the table of them; the last file is the one that changes.
SOURCES: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Any], dict[str, Any]]] = {
    "parquet": (lambda root: parquet_file(root / "t.parquet"), lambda root: root / "t.parquet", {}),
    "csv": (lambda root: csv_file(root / "t.csv"), lambda root: root / "t.csv", {}),
    "lines": (lambda root: csv_file(root / "t.csv"), lambda root: root / "t.csv", {"records": "lines"}),
    "gzip": (lambda root: csv_file(root / "t.csv.gz"), lambda root: root / "t.csv.gz", {}),
    "folder": (lambda root: parquet_file(root / "f" / "t.parquet"), lambda root: root / "f", {}),
    "partitions": (lambda root: parquet_file(root / "f" / "day=1" / "t.parquet"), lambda root: root / "f", {}),
    "pattern": (lambda root: csv_file(root / "f" / "t.csv"), lambda root: root / "f" / "*.csv", {}),
    "dataset": (
        lambda root: parquet_file(root / "f" / "t.parquet"),
        lambda root: ds.dataset(root / "f", format="parquet"),
        {},
    ),
}
COUNT = sl.Count(by="g", epsilon="0.25")
QUERIES = {
    "by group": COUNT,
    "by rank": sl.Quantiles([0.5], column="x", epsilon="0.25"),
    "by DuckDB": sl.Mean("x", where="g == 'a'", epsilon="0.25"),
}


@pytest.mark.parametrize("asked", QUERIES)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_file_that_was_replaced_fails_the_release_and_the_charge_stands(
    tmp_path: Path, kind: str, asked: str
) -> None:
    write, source, options = SOURCES[kind]
    path = write(tmp_path)
    with sl.open_ledger(f"sqlite:///{tmp_path}/budget.db") as ledger:
        made = sl.Table(source(tmp_path), schema=[G, X], name="t", **options)
        session = sl.Session(made, budget=sl.PureDP(1), ledger=ledger, scope="t")
        session.release(QUERIES[asked])
        write_again = parquet_file if path.suffix == ".parquet" else csv_file
        write_again(path, "aabbab")
        messages = []
        for _ in range(2):
            with pytest.raises(SourceError, match=CHANGED) as caught:
                session.release(QUERIES[asked])
            messages.append(str(caught.value))
            write_again(path, "bbbb")  # whatever it holds
        assert messages[0] == messages[1]
        assert "day=1" not in messages[0]
        assert [entry.state for entry in ledger.entries()] == ["released", "failed", "failed"]
        with pytest.raises(BudgetError):
            session.release(sl.Count(epsilon="0.5"))
        again = sl.Table(source(tmp_path), schema=[G, X], name="t", **options)
        sl.Session(again, budget=sl.PureDP(1), ledger=ledger, scope="t").release(QUERIES[asked])


def test_a_file_with_more_row_groups_is_not_read_in_part(tmp_path: Path) -> None:
    """With as many groups as the old file had, a record at the front would push another one out of the counts."""
    for cells in ("a" * 200 + "b" * 100, "b" + "a" * 200 + "b" * 100):
        path = parquet_file(tmp_path / "t.parquet", "a" * 200, size=100)
        table = sl.Table(path, schema=[G], name="t")
        parquet_file(path, cells, size=100)
        with pytest.raises(SourceError, match=CHANGED):
            seeded_release(COUNT, table, seed="same")


def test_a_column_that_the_schema_does_not_declare_is_not_read_for_another(tmp_path: Path) -> None:
    """Columns come to DuckDB by their positions: those of the file that was there."""
    path = tmp_path / "t.parquet"
    columns = {"x": [1.0] * 9, "secret": [9.0] * 9, "b": [True] * 9}
    pq.write_table(pa.table(columns), path)
    table = sl.Table(path, schema=[X, sl.Category("b", ["true"])], name="t")
    pq.write_table(pa.table({name: columns[name] for name in ("secret", "x", "b")}), path)
    with pytest.raises(SourceError, match=CHANGED):
        seeded_release(sl.Mean("x", where="b == 'true'", epsilon=10), table, seed="same")


@pytest.mark.parametrize("content", ["g\na\nb\n", "g\na\n", 'g\na"\n', "b\na\n"])
def test_any_write_is_the_same_error(tmp_path: Path, content: str) -> None:
    """Also a write of the same bytes: nothing depends on what the records are."""
    path = tmp_path / "t.csv"
    path.write_text("g\na\n")
    os.utime(path, ns=(1, 1))
    table = sl.Table(path, schema=[G], name="t")
    table.check_records()
    path.write_text(content)
    with pytest.raises(SourceError, match=CHANGED):
        seeded_release(COUNT, table, seed="same")


@pytest.mark.parametrize("kind", SOURCES)
def test_a_file_that_changes_while_it_is_read_fails_the_release(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer comes when the file is open, and the reader sees nothing of it."""
    write, source, options = SOURCES[kind]
    path = write(tmp_path)
    table = sl.Table(source(tmp_path), schema=[G, X], name="t", **options)
    table.check_records()
    seeded_release(COUNT, table, seed="same")
    opened = []

    @contextmanager
    def and_written(name: str, real: Any, *given: Any, **more: Any) -> Iterator[Any]:
        with real(name, *given, **more) as file:
            opened.append(name)
            os.utime(path, ns=(len(opened), 1))
            yield file

    for module, name in ((csv, "open_bytes"), (parquet, "open_plain"), (parquet_files, "open_plain")):
        real = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda path, *given, real=real, **more: and_written(path, real, *given, **more)
        )
    with pytest.raises(SourceError, match=CHANGED):
        seeded_release(COUNT, table, seed="same")
    assert opened


@pytest.mark.parametrize("pattern", ["", "*.csv"])
def test_a_folder_or_pattern_with_another_file_fails_the_release(tmp_path: Path, pattern: str) -> None:
    root = tmp_path / "f"
    csv_file(root / "1.csv")
    table = sl.Table(root / pattern, schema=[G, X], name="t")
    (root / ("_SUCCESS" if not pattern else "t.txt")).touch()  # not one of the table
    seeded_release(COUNT, table, seed="same")
    more = csv_file(root / "secret.csv")
    with pytest.raises(SourceError, match="has other files than when the table was made") as caught:
        seeded_release(COUNT, table, seed="same")
    assert "secret" not in str(caught.value)
    more.unlink()
    seeded_release(COUNT, table, seed="same")
    (root / "1.csv").unlink()
    with pytest.raises(SourceError, match=r"1\.csv' is not there any more"):
        seeded_release(COUNT, table, seed="same")


def test_a_dataset_has_the_files_that_it_found(tmp_path: Path) -> None:
    parquet_file(tmp_path / "f" / "1.parquet")
    table = sl.Table(ds.dataset(tmp_path / "f", format="parquet"), schema=[G, X], name="t")
    before = seeded_release(COUNT, table, seed="same").value["count"].tolist()
    parquet_file(tmp_path / "f" / "2.parquet")
    assert seeded_release(COUNT, table, seed="same").value["count"].tolist() == before


def test_every_table_of_a_view_is_compared(tmp_path: Path) -> None:
    visit = tmp_path / "visit.parquet"
    pq.write_table(pa.table({"who": ["p", "q"], "x": [1.0, 2.0]}), visit)
    person = tmp_path / "person.csv"
    person.write_text("who,g\np,a\nq,b\n")
    tables = {
        "person": sl.Table(person, schema=[sl.PersonId("who", max_rows=1), sl.Key("who"), G]),
        "visit": sl.Table(visit, schema=[sl.PersonVia("who", to="person", max_rows=2), X]),
    }
    session = sl.Session(sl.Database(tables, name="clinic"), budget=sl.PureDP(100))
    session.release(sl.Count(epsilon=1), of="visit")
    session.release(sl.Count(epsilon=1), of="person")
    pq.write_table(pa.table({"who": ["p"], "x": [1.0]}), visit)
    with pytest.raises(SourceError, match=rf"visit\.parquet' {CHANGED}"):
        session.release(sl.Count(epsilon=1), of="visit")
    session.release(sl.Count(epsilon=1), of="person")  # which does not read it


def test_columns_with_a_declared_reading_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('x;g\n"1,5";a\n')
    schema = [sl.Number("x", lower=0, upper=9, decimal=","), G]
    table = sl.Table(path, schema=schema, name="t")
    seeded_release(sl.Sum("x", epsilon=1), table, seed="same")
    path.write_text('x;g\n"1,5";a\n"2,5";a\n')
    with pytest.raises(SourceError, match=CHANGED):
        seeded_release(sl.Sum("x", epsilon=1), table, seed="same")


def test_rows_that_a_caller_brings_are_compared_and_those_of_the_session_are_not(tmp_path: Path) -> None:
    own, brought = parquet_file(tmp_path / "own.parquet"), parquet_file(tmp_path / "x.parquet")
    session = sl.Session(sl.Table(own, schema=[G, X], name="t"), budget=sl.PureDP(100))
    rows = sl.Table(brought, schema=[X], name="x")
    model = sl.PCA(n_components=1, epsilon=1, radius=10, session=session)
    parquet_file(own, "aaa")
    model.fit(rows)
    parquet_file(brought, "aaa")
    with pytest.raises(SourceError, match=rf"x\.parquet' {CHANGED}"):
        model.fit(rows)


def test_a_relative_path_stays_the_file_that_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, cells in (("one", "a" * 100), ("other", "a" * 900)):
        parquet_file(tmp_path / folder / "t.parquet", cells, size=1000)
        csv_file(tmp_path / folder / "c" / "t.csv", cells)
    monkeypatch.chdir(tmp_path / "one")
    tables = [
        sl.Table(path, schema=[G, X], name="t") for path in ("t.parquet", "c/t.csv", "c", "c/*.csv", "./t.parquet")
    ]
    monkeypatch.chdir(tmp_path / "other")
    for table in tables:
        assert abs(sl.Count(epsilon=10).release(table).value["count"][0] - 100) < 50
    assert tables[0].is_file(str(tmp_path / "one" / "t.parquet"))
    assert not tables[0].is_file("t.parquet")


@pytest.mark.parametrize("link", ["symbolic", "hard", "folder"])
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_file_that_a_folder_or_pattern_has_twice_is_refused(tmp_path: Path, link: str, ending: str) -> None:
    """Each of its records would be two rows at the price of one."""
    root, write = tmp_path / "f", parquet_file if ending == "parquet" else csv_file
    sources: list[Any] = [root, root / f"*.{ending}"]
    if link == "folder":
        write(root / "day=1" / f"a.{ending}")
        (root / "day=2").symlink_to("day=1")
        sources = [root if ending == "parquet" else root / "*" / "*.csv", root / "*" / f"*.{ending}"]
    else:
        first = write(root / f"a.{ending}")
        second = root / f"latest.{ending}"
        second.symlink_to(first.name) if link == "symbolic" else second.hardlink_to(first)
    for source in sources:
        with pytest.raises(SourceError, match=rf"a\.{ending}' and '.*' are the same file") as caught:
            sl.Table(source, schema=[G, X], name="t")
        assert "day=2" not in str(caught.value)


def test_a_dataset_that_names_a_file_twice_is_refused(tmp_path: Path) -> None:
    path = parquet_file(tmp_path / "t.parquet")
    (tmp_path / "l.parquet").symlink_to(path)
    for other in (path, tmp_path / "l.parquet"):
        with pytest.raises(SourceError, match="are the same file"):
            sl.Table(ds.dataset([str(path), str(other)]), schema=[G, X], name="t")


def test_links_to_different_files_are_files(tmp_path: Path) -> None:
    root = tmp_path / "f"
    root.mkdir()
    for name in ("1", "2"):
        (root / f"{name}.parquet").symlink_to(parquet_file(tmp_path / f"{name}.parquet", "a" * 50))
    assert abs(sl.Count(epsilon=10).release(sl.Table(root, schema=[G], name="t")).value["count"][0] - 100) < 40
    alone = sl.Table(root / "1.parquet", schema=[G], name="t")
    assert abs(sl.Count(epsilon=10).release(alone).value["count"][0] - 50) < 40
    (root / "1.parquet").unlink()
    (root / "1.parquet").symlink_to(tmp_path / "2.parquet")
    with pytest.raises(SourceError, match=CHANGED):
        sl.Count(epsilon=10).release(alone)
