"""`nonprivate_check` counts what declarations do to rows, alike on every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sidelight as sl

SCHEMA = [
    sl.PersonId("id", max_rows=2),
    sl.Number("age", lower=0, upper=110),
    sl.Date("visit", start="2020-01-01", end="2025-12-31"),
    sl.Category("sex", ["F", "M"]),
]
ROWS: dict[str, list[Any]] = {
    "id": ["a", "a", "a", "b", None, "c"],
    "age": ["31", "31,5", "", "2024-01-31", "450", "-1"],
    "visit": ["2024-01-31", "31.1.2024", "", "45000", "2031-01-01", "2019-01-01"],
    "sex": ["F", "f", "", "M", "f", "other"],
}
TEXTS = {name: [cell or None for cell in cells] for name, cells in ROWS.items()}


def csv_file(folder: Path) -> str:
    lines = zip(*([cell or "" for cell in cells] for cells in ROWS.values()), strict=True)
    text = "\n".join(",".join(f'"{cell}"' if "," in cell else cell for cell in line) for line in lines)
    (folder / "rows.csv").write_text(f"{','.join(ROWS)}\n{text}\n")
    return str(folder / "rows.csv")


@pytest.mark.parametrize("engine", ["csv", "pandas", "mapping"])
def test_every_kind_of_problem_is_counted(engine: str, tmp_path: Path) -> None:
    source: Any = {
        "csv": lambda: csv_file(tmp_path),
        "pandas": lambda: pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in TEXTS.items()}),
        "mapping": lambda: TEXTS | {"age": [*TEXTS["age"][:5], -1]},
    }[engine]()
    found = sl.nonprivate_check(sl.Table(source, schema=SCHEMA))
    person, age, visit, sex = found.columns
    assert (found.rows, found.persons, found.beyond_cap, person.missing) == (6, 3, 1, 1)
    assert (age.missing, age.unreadable, age.below, age.above) == (1, 2, 1, 1)
    assert dict(age.looks_like) == {"a decimal comma": 1, "a date": 1}
    assert (visit.missing, visit.unreadable, visit.below, visit.above) == (1, 2, 1, 1)
    assert dict(visit.looks_like) == {"a date in another form than 2024-01-31": 1, "a whole number": 1}
    assert (sex.missing, sex.unknown, sex.unknown_labels) == (1, 2, (("f", 2),))
    assert str(found).startswith("NOT PRIVATE, for the data owner only: 6 rows of 3 persons\n")
    assert len(found.problems) == 10


def test_typed_columns_are_counted_alike(tmp_path: Path) -> None:
    schema = [sl.Number("age", lower=0, upper=110), sl.Category("sex", ["F", "M"])]
    frame = pl.DataFrame({"age": [31.0, None, 450.0, float("nan")], "sex": ["F", "x", None, "M"]})
    frame.write_parquet(tmp_path / "rows.parquet")
    sources = [frame, frame.lazy(), frame.to_arrow(), frame.to_pandas(), str(tmp_path / "rows.parquet")]
    sources.append(duckdb.from_arrow(frame.to_arrow()))
    for source in sources:
        age, sex = sl.nonprivate_check(sl.Table(source, schema=schema)).columns
        assert (age.missing, age.unreadable, age.clamped) == (2, 0, 1)
        assert (sex.missing, sex.unknown) == (1, 1)


def test_texts_of_dates_on_every_engine(tmp_path: Path) -> None:
    schema = [sl.Date("visit", start="2020-01-01", end="2025-12-31")]
    texts = ["2024-01-31", "soon", None]
    pl.DataFrame({"visit": texts}).write_parquet(tmp_path / "rows.parquet")
    for source in (pa.table({"visit": texts}), pl.DataFrame({"visit": texts}), str(tmp_path / "rows.parquet")):
        (visit,) = sl.nonprivate_check(sl.Table(source, schema=schema)).columns
        assert (visit.missing, visit.unreadable, visit.looks_like) == (1, 1, (("something else", 1),))


def test_broken_lines_and_another_reader(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('age,sex\n31,F\n32,F,extra\n\n33\n"34","M"\n')
    found = sl.nonprivate_check(sl.Table(path, schema=[sl.Number("age")]))
    assert (found.rows, found.broken_lines) == (4, 2)
    path.write_text("age,sex\n31,F\n,\n33,M\n")
    found = sl.nonprivate_check(sl.Table(path, schema=[sl.Number("age")]))
    assert (found.rows, found.rows_by_pandas, found.broken_lines) == (3, 3, 0)
    path.write_text('age,sex\n31,"F\nG"\n33,M\n')
    table = sl.Table(path, schema=[sl.Number("age")], records="lines")
    found = sl.nonprivate_check(table)
    assert found.rows_by_pandas == 2
    assert any("pandas reads 2 rows" in problem for problem in found.problems)


def test_nothing_to_say(tmp_path: Path) -> None:
    table = sl.Table({"age": [1, 2]}, schema=[sl.Number("age", lower=0, upper=9)])
    assert str(sl.nonprivate_check(table)).endswith("every cell is read as declared")


@pytest.mark.parametrize("engine", ["csv", "pandas", "arrow"])
def test_people_with_more_labels_than_declared_are_counted(engine: str, tmp_path: Path) -> None:
    """The number of people with more labels than `per_person`, which would be cut silently."""
    rows: dict[str, list[Any]] = {
        "id": ["a", "a", "a", "b", "b", "c", None, None],
        "sex": ["F", "F", "M", "F", None, "x", "F", "M"],
        "place": ["1", "2", "3", "1", "2", "1", "2", "1"],
    }
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    source: Any = {"csv": str(tmp_path / "rows.csv"), "pandas": frame, "arrow": pa.table(rows)}[engine]
    schema = [
        sl.PersonId("id", max_rows=3),
        sl.Category("sex", ["F", "M"], per_person=1),
        sl.Category("place", ["1", "2", "3"], per_person=2),
    ]
    found = sl.nonprivate_check(sl.Table(source, schema=schema))
    assert [column.beyond_labels for column in found.columns] == [0, 1, 1]
    assert any(
        "place: 1 of 3 people with more than 2 labels, where per_person says 2" in each for each in found.problems
    )
