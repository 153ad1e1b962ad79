"""Dummy data: of the declared shape, the same for everybody, marked, and read by every kind of query."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import sidelight as sl
from sidelight.accuracy.dummy import dummy_csv
from sidelight.errors import RangeError
from sidelight.testing import seeded_release

SCHEMA = sl.Schema(
    [
        sl.PersonId("member", max_rows=4),
        sl.Number("age", lower=16, upper=110, granularity=1),
        sl.Number("fee", lower=0, upper=20, granularity="0.05"),
        sl.Number("score"),
        sl.Date("day", start="2024-01-01", end="2025-12-31"),
        sl.Date("hour", start="2024-01-01", end="2024-12-31", unit="hour"),
        sl.Category("district", ["north", "south"], per_person=1),
        sl.Label("title"),
    ]
)


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_cells_have_the_declared_shape() -> None:
    rows = read(dummy_csv(SCHEMA, 500, missing=0))
    assert len(rows) == 500
    assert {row["generated"] for row in rows} == {"not real"}
    assert {row["member"].partition(" ")[0] for row in rows} == {"generated"}
    for row in rows:
        assert 16 <= int(row["age"]) <= 110
        assert 0 <= float(row["fee"]) <= 20
        assert round(float(row["fee"]) * 20, 9).is_integer()
        assert "2024-01-01" <= row["day"] <= "2025-12-31"
        assert row["hour"].endswith(":00")
        assert row["district"] in ("north", "south", "other")
    counts = [sum(row["member"] == name for row in rows) for name in {row["member"] for row in rows}]
    assert {1, 2, 3, 4} == set(counts)
    districts: dict[str, set[str]] = {}
    for row in rows:
        districts.setdefault(row["member"], set()).add(row["district"])
    assert all(len(found) == 1 for found in districts.values())
    assert set().union(*districts.values()) == {"north", "south", "other"}


def test_they_are_the_same_for_everybody() -> None:
    """What a first and a second caller get, and the beginning of a longer file."""
    text = dummy_csv(SCHEMA, 50)
    assert text == dummy_csv(SCHEMA, 50)
    assert dummy_csv(SCHEMA, 80).startswith(text)
    assert dummy_csv(SCHEMA, 3, missing=0).splitlines()[1:3] == [
        '"generated 1","80","6.05","-0.46","2025-02-18","2024-08-22 22:00","north","label 1","not real"',
        '"generated 2","67","8.75","1.861","2025-08-26","2024-06-17 20:00","north","label 5","not real"',
    ]


def test_labels_with_line_breaks_stay_in_their_cells() -> None:
    labels = ["a\rb", "c\nd", "e"]
    rows = [*csv.DictReader(io.StringIO(dummy_csv([sl.Category("g", labels, other=None)], 60, missing=0), newline=""))]
    assert (len(rows), {row["g"] for row in rows}) == (60, set(labels))


def test_cells_are_missing_as_often_as_asked() -> None:
    rows = read(dummy_csv(SCHEMA, 1000, missing=0.1))
    for name in SCHEMA.names:
        empty = sum(row[name] == "" for row in rows)
        assert empty == 0 if name == "member" else 90 <= empty <= 110, name


@pytest.mark.parametrize("hostile", [False, True])
def test_the_file_and_the_table_are_one(tmp_path: Path, hostile: bool) -> None:
    place = tmp_path / "dummy.csv"
    place.write_text(dummy_csv(SCHEMA, 400, hostile=hostile), encoding="utf-8")
    from_file, in_memory = sl.Table(place, schema=SCHEMA), sl.dummy(SCHEMA, 400, hostile=hostile)
    assert in_memory.name == "generated rows"
    for query in (
        sl.Count(by="district", epsilon=1),
        sl.Mean("fee", by="district", epsilon=1),
        sl.Sum("age", epsilon=1),
        sl.TopK("title", k=3, epsilon=1, delta=1e-6, max_groups=1),
        sl.Quantiles([0.5], column="score", epsilon=1),
    ):
        first, second = (seeded_release(query, table, seed="x") for table in (from_file, in_memory))
        assert str(first.value) == str(second.value), query


def test_hostile_cells_are_there_only_on_request() -> None:
    plain, hostile = read(dummy_csv(SCHEMA, 300)), read(dummy_csv(SCHEMA, 300, hostile=True))
    assert "n/a" not in {row["age"] for row in plain}
    assert {"n/a", "1e300", "inf"} <= {row["age"] for row in hostile}
    assert "2024-02-30" in {row["day"] for row in hostile}
    most = max(sum(row["member"] == name for row in hostile) for name in {row["member"] for row in hostile})
    assert most > 4


def test_a_declared_column_keeps_its_name() -> None:
    rows = read(dummy_csv([sl.Number("generated", lower=0, upper=1)], 5))
    assert set(rows[0]) == {"generated", "generated_"}


@pytest.mark.parametrize("rows", [0, -1, 10**7, True, 2.5])
def test_a_wrong_number_of_rows_is_refused(rows: int) -> None:
    with pytest.raises(RangeError, match="rows"):
        sl.dummy(SCHEMA, rows)


def test_cells_are_written_as_the_schema_reads_them() -> None:
    schema = [
        sl.Number("fee", lower=0, upper=100, granularity="0.01", decimal=",", thousands="."),
        sl.Date("day", start="2020-01-01", end="2025-12-31", formats=["%d.%m.%Y"]),
        sl.Date("hour", start="2020-01-01", end="2021-12-31", unit="hour", formats=["%d/%b/%y %H:%M"]),
    ]
    rows = read(dummy_csv(schema, 300, missing=0))
    texts = {name: [row[name] for row in rows] for name in ("fee", "day", "hour")}
    assert any("," in text for text in texts["fee"])
    for table in (sl.dummy(schema, 300, missing=0), sl.Table(texts, schema=schema)):
        assert all(each.missing == each.unreadable == 0 for each in sl.nonprivate_check(table).columns)
