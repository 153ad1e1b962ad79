"""The same rows given to a database twice: recognised by object, file, relation and table, and refused before a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sidelight as sl
from sidelight.errors import SchemaError

DATA = {"payer": ["a", "b"], "payee": ["b", "c"], "euros": [3, 4], "day": ["2024-01-09", "2024-02-09"]}
EUROS = sl.Number("euros", lower=0, upper=9, granularity=1)
Made = tuple[dict[str, Any], dict[str, Any]]


def _twice(source: Any) -> Made:
    return {"source": source}, {"source": source}


def _file(folder: Path) -> Made:
    path = folder / "paid.csv"
    pd.DataFrame(DATA).to_csv(path, index=False)
    (folder / "link.csv").symlink_to(path)
    return {"source": path}, {"source": str(folder / "link.csv")}


def _relations(_: Path) -> Made:
    connection = duckdb.connect()
    connection.register("given", pa.table(DATA))
    connection.execute("CREATE TABLE paid AS SELECT * FROM given")
    return {"source": connection.table("paid")}, {"source": connection.table("paid")}


def _connection(_: Path) -> Made:
    connection = duckdb.connect()
    connection.register("given", pa.table(DATA))
    connection.execute("CREATE TABLE paid AS SELECT * FROM given")
    return {"source": connection, "table": "paid"}, {"source": connection, "table": "paid"}


def _wrapped(_: Path) -> Made:
    frame = pl.DataFrame(DATA)
    return {"source": frame}, {"source": narwhals.from_native(frame)}


def _duckdb_file(folder: Path) -> Made:
    path = folder / "paid.db"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", pa.table(DATA))
        connection.execute("CREATE TABLE paid AS SELECT * FROM given")
    return {"source": path, "table": "paid"}, {"source": path, "table": "paid"}


SAME = {
    "lists": lambda _: _twice(dict(DATA)),
    "arrays": lambda _: _twice({name: np.array(cells) for name, cells in DATA.items()}),
    "pandas": lambda _: _twice(pd.DataFrame(DATA)),
    "polars": lambda _: _twice(pl.DataFrame(DATA)),
    "lazy": lambda _: _twice(pl.LazyFrame(DATA)),
    "arrow": lambda _: _twice(pa.table(DATA)),
    "narwhals": _wrapped,
    "file": _file,
    "relations": _relations,
    "connection": _connection,
    "duckdb file": _duckdb_file,
}


def _table(given: dict[str, Any], schema: list[Any], **more: Any) -> sl.Table:
    source, *_ = (given.pop("source"),)
    return sl.Table(source, schema=schema, **given, **more)


@pytest.mark.parametrize("kind", SAME)
def test_rows_of_two_people_are_refused(kind: str, tmp_path: Path) -> None:
    """A payment would stay with the payee when its payer goes."""
    one, other = SAME[kind](tmp_path)
    paid = _table(one, [sl.PersonId("payer", max_rows=3), EUROS])
    got = _table(other, [sl.PersonId("payee", max_rows=3), EUROS])
    with pytest.raises(SchemaError, match="'paid' and 'got' are the same rows"):
        sl.Database({"paid": paid, "got": got}, name="bank")


@pytest.mark.parametrize("kind", SAME)
def test_private_rows_are_not_public(kind: str, tmp_path: Path) -> None:
    one, other = SAME[kind](tmp_path)
    paid = _table(one, [sl.PersonId("payer", max_rows=3), EUROS])
    listed = _table(other, [sl.Key("payee"), EUROS], public=True)
    with pytest.raises(SchemaError, match="'listed' is read from the file or frame of 'paid'"):
        sl.Database({"paid": paid, "listed": listed}, name="bank")


@pytest.mark.parametrize("kind", SAME)
def test_dated_rows_are_not_timeless(kind: str, tmp_path: Path) -> None:
    one, other = SAME[kind](tmp_path)
    day = sl.Date("day", start="2024-01-01", end="2024-12-31")
    paid = _table(one, [sl.PersonId("payer", max_rows=3), day])
    spent = _table(other, [sl.PersonId("payer", max_rows=3), EUROS])
    window = sl.Window("month", start="2024-01", end="2024-12", dates={"paid": "day"})
    with pytest.raises(SchemaError, match="'spent' is read from the rows of 'paid'"):
        sl.Database({"paid": paid, "spent": spent}, name="bank", window=window)


@pytest.mark.parametrize("kind", SAME)
def test_one_source_may_be_two_tables_of_the_same_people(kind: str, tmp_path: Path) -> None:
    """A flat file with a person's attributes in every row: removal affects both tables."""
    one, other = SAME[kind](tmp_path)
    paid = _table(one, [sl.PersonId("payer", max_rows=3), EUROS])
    person = _table(other, [sl.PersonId("payer", max_rows=1), sl.Category("payee", ["b", "c"])])
    assert set(sl.Database({"paid": paid, "person": person}, name="bank")) == {"paid", "person"}


def test_other_rows_are_other_rows(tmp_path: Path) -> None:
    schema = ([sl.PersonId("payer", max_rows=3), EUROS], [sl.PersonId("payee", max_rows=3), EUROS])
    connection = duckdb.connect()
    connection.register("given", pa.table(DATA))
    for name in ("one", "two"):
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    for number in (1, 2):
        with duckdb.connect(str(tmp_path / f"{number}.db")) as file:
            file.register("given", pa.table(DATA))
            file.execute("CREATE TABLE paid AS SELECT * FROM given")
    pairs = [
        ({"source": dict(DATA)}, {"source": dict(DATA)}),
        ({"source": connection, "table": "one"}, {"source": connection, "table": "two"}),
        ({"source": connection.table("one")}, {"source": connection.table("two")}),
        ({"source": tmp_path / "1.db", "table": "paid"}, {"source": tmp_path / "2.db", "table": "paid"}),
    ]
    for one, other in pairs:
        tables = {"paid": _table(one, schema[0]), "got": _table(other, schema[1])}
        assert set(sl.Database(tables, name="bank")) == {"paid", "got"}
