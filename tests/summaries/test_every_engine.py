"""One table on every engine: each statistic by group is released to the same bits under the same seeded noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidelight as sl
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.values import value_of
from sidelight.errors import SourceError
from sidelight.testing import seeded_release

ROWS = 240
EMPLOYERS = ["acme", "acme ", "zeta", "Zürich", "Zu\u0308rich", "", "bolt", "x" * 250]
JOB = sl.Category("job", ["cook", "nurse", "clerk"])
SEX = sl.Category("sex", ["F", "M"], other=None, missing=sl.Drop())
AGE = sl.Number("age", lower=0, upper=120, granularity=1, missing=sl.Drop())
PAY = sl.Number("pay", missing=sl.Drop())
SCHEMA = [JOB, SEX, AGE, PAY, sl.Label("employer")]
PERSON = sl.PersonId("who", max_rows=4)
PRICE: dict[str, Any] = {"epsilon": 1, "delta": 1e-4}
ADULT = (sl.col("age") >= 18) & sl.col("job").isin(["cook", "nurse"])
FIELD = sl.col("job").lookup({"cook": "food", "nurse": "health"}, default="office")
TWENTY = sl.col("age").cut([20, 40, 60])
PERSONAL = {"max_groups": 2}

QUERIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "labels": lambda limits: sl.Count(by="employer", **PRICE, **limits),
    "labels of groups": lambda limits: sl.Count(by=["sex", "employer"], **PRICE, **limits),
    "rollup": lambda limits: sl.Count(by=["job", "sex"], rollup=True, of="rows", epsilon=1, **limits),
    "distinct": lambda limits: sl.CountDistinct("job", by="sex", epsilon=1, **limits),
    "distinct labels": lambda limits: sl.CountDistinct("employer", epsilon=1, **limits),
    "top": lambda limits: sl.TopK("job", k=2, epsilon=1, **limits),
    "where": lambda limits: sl.Mean("age", by="sex", where=ADULT, epsilon=1, **limits),
    "derived": lambda limits: sl.Mean(sl.col("age") * 2 - 1, by=[FIELD, TWENTY], mu=1, **limits),
    "without bounds": lambda limits: sl.Mean("pay", by="sex", epsilon=1, **limits),
    "by group": lambda limits: sl.Mean("pay", by="sex", epsilon=1, clip="by_group", **limits),
    "summary of labels": lambda limits: sl.Summary("pay", by="employer", epsilon=3, delta=1e-3, **limits),
    "spread": lambda limits: sl.Variance("age", by="job", rho=0.5, **limits),
    "sum": lambda limits: sl.Sum("age", by="sex", epsilon=1, **limits),
    "vectors": lambda limits: sl.Sum(sl.col("age") * 2 - 90, by="job", mu=1, person_total=99 if limits else None),
    "found vectors": lambda limits: sl.Sum("age", by=["job", "sex"], epsilon=1),
    "mean by labels": lambda limits: sl.Mean("age", by="employer", **PRICE, **limits),
    "means of labels": lambda limits: sl.Mean(["age", "pay"], by=["sex", "employer"], epsilon=3, delta=1e-3, **limits),
    "summary": lambda limits: sl.Summary("age", by="sex", epsilon=2, **limits),
}


def rows() -> dict[str, list[Any]]:
    """Return rows with gaps, undeclared labels in two spellings, and persons of 1 to 9 rows."""
    rng = np.random.default_rng(20261116)
    who = rng.choice(60, ROWS, p=np.arange(60, 0, -1) / 1830)
    return {
        "job": [[*JOB.labels, "pilot", None][place] for place in rng.integers(0, 5, ROWS)],
        "sex": [["F", "M", None, "f"][place] for place in rng.choice(4, ROWS, p=[0.45, 0.45, 0.05, 0.05])],
        "age": [None if age % 17 == 0 else int(age) for age in rng.integers(-5, 130, ROWS)],
        "pay": [float(value) for value in rng.lognormal(8, 0.6, ROWS)],
        "employer": [EMPLOYERS[place] for place in rng.choice(len(EMPLOYERS), ROWS, p=[0.3] + [0.1] * 7)],
        "who": [f"p{place}" for place in who],
    }


def _arrow() -> pa.Table:
    return pa.table(rows())


def _csv(folder: Path) -> Path:
    pd.DataFrame(rows()).astype({"age": "Int64"}).to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def _parquet(folder: Path) -> Path:
    pq.write_table(_arrow(), folder / "rows.parquet", row_group_size=50)  # threads take its parts in turn
    return folder / "rows.parquet"


SOURCES: dict[str, Callable[[Path], Any]] = {
    "numpy": lambda folder: rows(),
    "pandas": lambda folder: pd.DataFrame(rows()).astype({"job": "category", "age": "Int64"}),
    "polars": lambda folder: pl.DataFrame(rows()),
    "polars lazy": lambda folder: pl.DataFrame(rows()).lazy(),
    "arrow": lambda folder: _arrow(),
    "csv": _csv,
    "parquet": _parquet,
    "duckdb": lambda folder: duckdb.connect().from_arrow(_arrow()),
}
#: Queries whose persons DuckDB bounds by windows of its own take a second each.
QUICK = ("labels", "rollup", "where", "distinct", "vectors", "found vectors")


def released(source: Any, *, person: bool, names: tuple[str, ...]) -> dict[str, Any]:
    """Return what each query says of a source, as the text of its release without the names of things."""
    table = sl.Table(source, schema=[*SCHEMA, *([PERSON] if person else [])], name="rows")
    found = {}
    for name in names:
        outcome = seeded_release(QUERIES[name](PERSONAL if person else {}), table, seed=name)
        assert isinstance(outcome, sl.Release)
        found[name] = outcome.value.to_json()
    return found


@pytest.fixture(scope="module")
def expected() -> dict[bool, dict[str, Any]]:
    return {person: released(rows(), person=person, names=tuple(QUERIES)) for person in (False, True)}


@pytest.mark.parametrize("engine", [name for name in SOURCES if name != "numpy"])
@pytest.mark.parametrize("person", [False, True])
def test_releases_are_the_same_on_every_engine(engine, person, expected, tmp_path):
    slow = person and engine in ("csv", "duckdb")
    names = QUICK if slow else tuple(QUERIES)
    found = released(SOURCES[engine](tmp_path), person=person, names=names)
    for name in names:
        assert found[name] == expected[person][name], name


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["csv", "duckdb"])
def test_releases_of_persons_are_the_same_where_duckdb_bounds_them(engine, expected, tmp_path):
    found = released(SOURCES[engine](tmp_path), person=True, names=tuple(QUERIES))
    assert found == expected[True]


@pytest.mark.parametrize("person", [False, True])
def test_parts_and_threads_change_no_integer(person, tmp_path, monkeypatch):
    """One core or four, parts of three rows or all in one: the same sums."""
    schema = sl.Schema([*SCHEMA, *([PERSON] if person else [])])
    groups = groups_of(schema, by=["job", "sex"], max_groups=2 if person else None)
    values = [value_of(schema, "age")]
    whole = group_statistics(sl.Table(rows(), schema=schema), groups, values)
    for parts, threads in ((3, 4), (3, 1), (100, 2), (ROWS, 2)):
        monkeypatch.setattr("sidelight.records.engines.parquet.cores", lambda threads=threads: threads)
        pq.write_table(_arrow(), tmp_path / "parts.parquet", row_group_size=parts)
        table = sl.Table(tmp_path / "parts.parquet", schema=schema)
        found = group_statistics(table, groups, values)
        assert found.counts.value.tolist() == whole.counts.value.tolist()
        assert found.values[0].value.tolist() == whole.values[0].value.tolist()


def test_a_thread_that_fails_ends_the_others_and_quotes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "rows.parquet"
    pq.write_table(_arrow(), path, row_group_size=20)
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * (len(content) // 2) + content[4 + len(content) // 2 :])
    table = sl.Table(path, schema=SCHEMA)
    with pytest.raises(SourceError, match="withheld"):
        sl.Count(by="job", epsilon=1).release(table)


@pytest.mark.parametrize("engine", ["numpy", "pandas", "polars", "arrow", "csv", "parquet", "duckdb"])
def test_an_id_is_its_text_on_every_engine(engine, tmp_path):
    """Whole numbers are ids by their digits, and texts letter for letter, as labels of a category are."""
    ids = ["1", "1", "1", "2", "1.0", " 1"]
    frame = pa.table({"who": ids, "sex": ["F"] * len(ids)})
    numbers = pa.table({"who": [1, 1, 1, 2, 10, 11], "sex": ["F"] * len(ids)})
    schema = [sl.PersonId("who", max_rows=1), sl.Category("sex", ["F", "M"], other=None)]
    for table in (frame, numbers):
        pq.write_table(table, tmp_path / "ids.parquet")
        table.to_pandas().to_csv(tmp_path / "ids.csv", index=False)
        source = {
            "numpy": table.to_pydict(),
            "pandas": table.to_pandas(),
            "polars": pl.from_arrow(table),
            "arrow": table,
            "csv": tmp_path / "ids.csv",
            "parquet": tmp_path / "ids.parquet",
            "duckdb": duckdb.connect().from_arrow(table),
        }[engine]
        found = sl.Table(source, schema=schema)
        groups = groups_of(found.schema, by="sex", max_groups=1)
        assert group_statistics(found, groups).counts.value.tolist() == [4, 0]


def test_one_person_of_mixed_cells_is_one():
    """Cells of a list have no type: 1, 1.0, np.int64(1) and "1" are one id, as they are one label."""
    table = sl.Table(
        {"who": [1, 1.0, np.int64(1), "1", True], "sex": ["F"] * 5},
        schema=[sl.PersonId("who", max_rows=1), sl.Category("sex", ["F", "M"], other=None)],
    )
    groups = groups_of(table.schema, by="sex", max_groups=1)
    assert group_statistics(table, groups).counts.value.tolist() == [2, 0]
