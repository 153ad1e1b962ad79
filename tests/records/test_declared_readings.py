"""Texts are read as declared: one rule for a cell, the same integers on every engine."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from away_rows import AwayRows
from plain_statistics import clipped_sum, row_count
from sidelight.aggregates import cell_counts
from sidelight.aggregates.coding import CategoryCoding, CombinedCoding, NumberCoding
from sidelight.aggregates.collect import coded_frame, coded_rows
from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.errors import SchemaError, SourceError
from sidelight.grid import Grid
from sidelight.records import Category, Date, Fill, Label, Number, PersonId, Schema, Table
from sidelight.records.date_formats import DateFormat
from sidelight.records.engines.declared import read_as_declared
from sidelight.records.readings import NumberReading, TextReading
from sidelight.records.rows import Wanted

GERMAN = NumberReading(",", ".", ("k.A.", "999"))


@pytest.mark.parametrize(
    ("reading", "text", "value"),
    [
        (GERMAN, "1.234,5", 1234.5),
        (GERMAN, " -1.234.567,25\u00a0", -1234567.25),
        (GERMAN, "\u22123,5", -3.5),
        (GERMAN, "+0,1", 0.1),
        (GERMAN, "1234,5", 1234.5),
        (GERMAN, ",5", 0.5),
        (GERMAN, "5,", 5.0),
        (GERMAN, "1e3", 1000.0),
        (GERMAN, "1,5E-2", 0.015),
        (GERMAN, "k.A.", None),
        (GERMAN, "999", None),
        (GERMAN, "999,00", None),
        (GERMAN, "12.34", None),  # not thousands, and no decimal point is declared
        (GERMAN, "1.2345", None),
        (GERMAN, "1234.567", None),
        (GERMAN, "1,234,5", None),
        (GERMAN, "", None),
        (GERMAN, ",", None),
        (GERMAN, "-", None),
        (GERMAN, "12 EUR", None),
        (GERMAN, "\uff11\uff12", None),  # full-width digits
        (GERMAN, "nan", None),
        (GERMAN, "-inf", -math.inf),
        (GERMAN, "1e99999", math.inf),
        (NumberReading(",", " "), "1\u202f234,5", 1234.5),
        (NumberReading(",", " "), "1 234\u00a0567", 1234567.0),
        (NumberReading(",", " "), "1  234", None),
        (NumberReading(".", "'"), "1\u2019234\u2019567.5", 1234567.5),
        (NumberReading(".", ","), "1,234.5", 1234.5),
        (NumberReading(".", ","), "12,34,567.5", 1234567.5),  # India
        (NumberReading(".", ","), "1,23", None),
        (NumberReading("."), "1,234", None),
    ],
)
def test_numbers(reading: NumberReading, text: str, value: float | None) -> None:
    found = reading.of_text(text)
    assert math.isnan(found) if value is None else found == value
    assert reading.of_cell(text) == found or math.isnan(found)


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([(",", "."), (".", ","), (",", " ")]))
@settings(max_examples=200, deadline=None)
def test_a_number_that_was_written_in_a_locale_is_read_back(value: float, signs: tuple[str, str]) -> None:
    decimal, thousands = signs
    text = f"{value:,.3f}".replace(",", "T").replace(".", decimal).replace("T", thousands)
    assert NumberReading(decimal, thousands).of_text(text) == float(f"{value:.3f}")


def test_cells_that_are_numbers_stay_what_they_are() -> None:
    assert GERMAN.of_cell(1.234) == 1.234
    assert math.isnan(GERMAN.of_cell(999))
    assert math.isnan(GERMAN.of_cell([1]))
    assert GERMAN.of_values(np.array([1.0, 999.0])).tolist()[0] == 1.0


@pytest.mark.parametrize(
    ("form", "text", "moment"),
    [
        ("%d.%m.%Y", "31.12.2025", "2025-12-31"),
        ("%d.%m.%Y", "1.2.2025", "2025-02-01"),
        ("%d.%m.%Y", "31.02.2025", None),
        ("%d.%m.%Y", "31.12.25", None),
        ("%d.%m.%y", "31.12.25", "2025-12-31"),
        ("%d.%m.%y", "31.12.45", "1945-12-31"),  # the column ends in 2030
        ("%m/%d/%Y %I:%M %p", "12/31/2025 08:05 pm", "2025-12-31 20:05"),
        ("%m/%d/%Y %I:%M %p", "12/31/2025 12:05 AM", "2025-12-31 00:05"),
        ("%m/%d/%Y %I:%M %p", "12/31/2025 13:05 AM", None),
        ("%Y%m%d", "20251231", "2025-12-31"),
        ("%Y%m%d", "2025123", None),
        ("%Y-%m-%dT%H:%M:%S%z", "2025-12-31T23:30:00-01:00", "2026-01-01 00:30"),
        ("%d %b %Y", "3 Mär. 2025", "2025-03-03"),
        ("%d %B %Y", "14 juillet  2025", "2025-07-14"),
        ("%d %B %Y", "14 jui 2025", None),  # juin or juillet
        ("%A, %d %B %Y", "lunedì, 3 MARZO 2025", "2025-03-03"),
        ("%j/%Y", "60/2024", "2024-02-29"),
        ("%j/%Y", "366/2025", None),
        ("%d.%m.%Y %H:%M:%S.%f", "31.12.2025 23:59:59.999", "2025-12-31 23:59"),
    ],
)
def test_dates(form: str, text: str, moment: str | None) -> None:
    found = DateFormat(form, 2030).minutes(text)
    if moment is None:
        assert found is None
        return
    want = datetime.datetime.fromisoformat(moment).replace(tzinfo=datetime.UTC)
    assert found == want.timestamp() // 60


@given(st.datetimes(datetime.datetime(1, 1, 1)))
@settings(max_examples=100, deadline=None)
def test_dates_are_those_of_strptime(moment: datetime.datetime) -> None:
    for form in ("%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M", "%Y%m%d%H%M", "%H:%M %j/%Y"):
        text = moment.strftime(form.replace("%Y", f"{moment.year:04d}"))
        days = moment.toordinal() - datetime.date(1970, 1, 1).toordinal()
        assert DateFormat(form, 2030).minutes(text) == days * 1440 + moment.hour * 60 + moment.minute


def test_labels() -> None:
    sex = Category(
        "sex",
        ["F", "M"],
        aliases={"M": ["male", 1], "F": ["female"]},
        casefold=True,
        strip=True,
        missing_texts=["k.A."],
    )
    assert sex.reading is not None
    texts = ["m", " MALE ", "1", "f\u00a0", "Other", "K.A.", "x ", "", "   ", None]
    assert [sex.reading.of_text(text) for text in texts] == [
        *("M", "M", "M", "F", "other", None, "x ", None, None, None)
    ]
    who = PersonId("who", max_rows=1, casefold=True, strip=True, missing_texts=["n/a"]).reading
    assert who is not None
    assert [who.of_text(text) for text in ("Ann  B", " ann b", "N/A")] == ["ann b", "ann b", None]


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: Number("x", decimal=";"), 'must be "." or ","'),
        (lambda: Number("x", thousands="."), 'write decimal = ","'),
        (lambda: Number("x", decimal=",", thousands=","), "must differ"),
        (lambda: Number("x", thousands="-"), "must be one of"),
        (lambda: Number("x", missing_texts="NA"), "must be a list"),
        (lambda: Number("x", missing_texts=[" "]), "not empty"),
        (lambda: Category("x", ["F", "f"], casefold=True), "as 'F' and as 'f'"),
        (lambda: Category("x", ["F", "M"], aliases={"F": ["x"], "M": ["x"]}), "as 'F' and as 'M'"),
        (lambda: Category("x", ["F", "M"], aliases={"D": ["x"]}), "not among its labels"),
        (lambda: Category("x", ["F", "M"], missing_texts=["M"]), "as missing and as 'M'"),
        (lambda: Category("x", ["F", "M"], aliases={"F": ["\ud800"]}), "not Unicode"),
        (lambda: Category("x", ["F", "M"], strip=1), "True or False"),
        (lambda: _date("%d.%m"), "year, month and day"),
        (lambda: _date("%d.%m.%Q"), "%Q"),
        (lambda: _date("%d.%m.%Y %I:%M"), "%I goes with %p"),
        (lambda: _date("%d.%m.%Y %d"), "twice"),
        (lambda: _date("%d/%m/%Y", "%m/%d/%Y"), "different dates"),
        (lambda: _date("%d-%m-%y", "%y-%m-%d"), "different dates"),
    ],
)
def test_what_cannot_be_meant_is_refused(declare: Callable[[], Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words.replace("(", "\\(").replace("%", "%")):
        declare()


def _date(*formats: str) -> Date:
    return Date("x", start="2020-01-01", end="2025-12-31", formats=formats)


COLUMNS = (
    PersonId("who", max_rows=2, strip=True, casefold=True, missing_texts=["?"]),
    Number("cost", lower=0, upper=5000, decimal=",", thousands=".", missing_texts=["k.A.", "999"], missing=Fill("7.5")),
    Date("day", start="2020-01-01", end="2025-12-31", formats=["%d.%m.%Y", "iso"], missing_texts=["01.01.1900"]),
    Category("sex", ["F", "M"], aliases={"M": ["male", "1"]}, casefold=True, strip=True, missing_texts=["-"]),
)
CELLS: dict[str, list[Any]] = {
    "who": ["a", " A", "a ", "b", "?", None, "c", "C", "", "ı", "İ", "d"],
    "cost": ["1.234,5", "12,25", "k.A.", "999,0", "1234.5", None, "-3", "9.999.999", "", "x", " 7 ", "0,5"],
    "day": [
        *("31.12.2025", "1.2.2021", "2024-02-29", "01.01.1900", "1900-01-01", None, "31.02.2024", "12/31/2024", ""),
        *(" 5.6.2023 ", "20240101", "01.01.2030"),
    ],
    "sex": ["m", "M ", "MALE", "1", "f", None, "-", "x", "", "F\u00a0", "other", "Other"],
}
SIZE = 40


def _columns() -> dict[str, list[Any]]:
    """Return the cells of all columns, each list beginning elsewhere, so that many rows are different."""
    found = {}
    for turn, (name, cells) in enumerate(CELLS.items()):
        found[name] = [cells[(place * (turn + 1) + turn + place // 12) % len(cells)] for place in range(SIZE)]
    return found


def _typed(kind: Any) -> pa.Table:
    return pa.table({name: pa.array(cells, pa.string()).cast(kind) for name, cells in _columns().items()})


def _csv(folder: Path) -> str:
    pd.DataFrame(_columns(), dtype=object).to_csv(folder / "a.csv", index=False, sep=";", encoding="utf-8-sig")
    return str(folder / "a.csv")


def _parquet(folder: Path) -> str:
    pq.write_table(_typed(pa.string()), folder / "a.parquet", row_group_size=7)
    return str(folder / "a.parquet")


def _untyped(cells: list[Any]) -> Any:
    array = np.empty(len(cells), object)
    array[:] = cells
    return array


class _Stream:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "objects": lambda _: {name: _untyped(cells) for name, cells in _columns().items()},
    "texts of NumPy": lambda _: {
        name: np.array([cell or "" for cell in cells], "U12") for name, cells in _columns().items()
    },
    "pandas objects": lambda _: pd.DataFrame(_columns(), dtype=object),
    "pandas strings": lambda _: pd.DataFrame(_columns(), dtype="string"),
    "pandas categories": lambda _: pd.DataFrame(_columns(), dtype="category"),
    "pandas on Arrow": lambda _: pd.DataFrame(_columns(), dtype=pd.ArrowDtype(pa.string())),
    "polars": lambda _: pl.DataFrame(_columns()),
    "polars lazy": lambda _: pl.DataFrame(_columns()).lazy(),
    "polars categories": lambda _: pl.DataFrame(_columns()).cast(pl.Categorical),
    "arrow": lambda _: _typed(pa.string()),
    "arrow long": lambda _: _typed(pa.large_string()),
    "arrow dictionary": lambda _: _typed(pa.dictionary(pa.int32(), pa.string())),
    "arrow stream": lambda _: _Stream(_typed(pa.string())),
    "mapping of libraries": lambda _: {
        "who": pl.Series(_columns()["who"]),
        "cost": pd.Series(_columns()["cost"], dtype=object),
        "day": pa.array(_columns()["day"]),
        "sex": _columns()["sex"],
    },
    "duckdb": lambda _: duckdb.connect().from_arrow(_typed(pa.string())),
    "csv": _csv,
    "parquet": _parquet,
}
GRID = Grid(resolution=Fraction(1, 4), first=0, last=20000, snap="nearest")


def _coding(schema: Schema) -> CombinedCoding:
    numbers = [NumberCoding(name, FixedPoint.on_grid(schema.number(name), GRID)) for name in ("cost", "day")]
    return CombinedCoding((*numbers, CategoryCoding(schema.category("sex"))))


def _codes(table: Table, *, engine: bool) -> Counter[tuple[int, ...]]:
    coding = _coding(table.schema)
    if engine:
        frame, columns = coded_frame(table, coding)
        batches = list(table.rows.stream(frame, columns))
    else:
        batches = list(coded_rows(table, coding))
    return Counter(row for batch in batches for row in zip(*(each.tolist() for each in batch), strict=True))


def _expected(columns: tuple[Any, ...]) -> Table:
    """Return the table of the values that the readings give, each cell by itself, without a declared reading."""
    cells = _columns()
    by_name: dict[str, Any] = {column.name: column for column in columns}
    read = {name: [column.reading.of_text(cell) for cell in cells[name]] for name, column in by_name.items()}
    calendar = by_name["day"].calendar
    read["day"] = [None if math.isnan(day) else calendar.text(day) for day in read["day"]]
    plain = [
        PersonId("who", max_rows=2),
        Number("cost", lower=0, upper=5000, missing=Fill("7.5")),
        Date("day", start="2020-01-01", end="2025-12-31"),
        Category("sex", ["F", "M"]),
    ]
    return Table(read, schema=[each for each in plain if each.name in by_name])


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("persons", [True, False])
def test_every_engine_gives_the_same_integers(name: str, persons: bool, tmp_path: Path) -> None:
    schema = COLUMNS if persons else COLUMNS[1:]
    table = Table(SOURCES[name](tmp_path), schema=schema)
    table.check_records()
    want = _codes(_expected(schema), engine=False)
    assert len(want) > 8
    assert _codes(table, engine=False) == want
    assert _codes(table, engine=True) == want
    assert row_count(table).value == row_count(_expected(schema)).value


def test_distributed_rows_are_read_by_the_workers() -> None:
    cells, schema = _typed(pa.string()), COLUMNS[1:]
    table, plain = Table(cells, schema=schema), _expected(schema)
    away = AwayRows(cells, parts=3, dates={"day": schema[1].reading})
    table._rows = read_as_declared(away, table.rows._readings, person=None)
    assert clipped_sum(table, "cost", step="1/4").value == clipped_sum(plain, "cost", step="1/4").value
    assert cell_counts(table, ["sex"]).value.tolist() == cell_counts(plain, ["sex"]).value.tolist()
    with pytest.raises(SourceError, match="one spelling"):
        read_as_declared(away, {"who": TextReading(strip=True)}, person="who")


def test_typed_columns_keep_their_values_but_for_those_that_mean_missing(tmp_path: Path) -> None:
    days = [datetime.date(2024, 1, 31), datetime.date(1900, 1, 1), None]
    cells = pa.table({"cost": pa.array([1.234, 999.0, None]), "day": pa.array(days)})
    pq.write_table(cells, tmp_path / "a.parquet")
    for source in (cells, cells.to_pandas(), pl.from_arrow(cells), str(tmp_path / "a.parquet")):
        (batch,) = Table(source, schema=COLUMNS[1:3]).rows.batches(Wanted(numbers=("cost", "day")))
        assert batch.numbers["cost"][0] == 1.234
        assert batch.numbers["day"][0] == 1491
        assert np.isnan(batch.numbers["cost"][1:]).all()
        assert np.isnan(batch.numbers["day"][1:]).all()


def test_digits_are_dates_where_a_form_says_so() -> None:
    day = Date("day", start="2020-01-01", end="2025-12-31", formats=["%Y%m%d"])
    for source in ([20200131, "20200131", None], np.array([20200131]), pa.array([20200131]), pl.Series([20200131])):
        (batch,) = Table(source, schema=[day]).rows.batches(Wanted(numbers=("day",)))
        assert batch.numbers["day"][0] == 30
    with pytest.raises(SchemaError, match="is declared as Date"):
        Table(np.array([20200131]), schema=[Date("day", start="2020-01-01", end="2025-12-31")])


def test_objects_are_read_by_what_they_are() -> None:
    """Text with a thousands dot and a float with equal digits, read differently."""
    (batch,) = Table(["1.234", 1.234, "k.A."], schema=[COLUMNS[1]]).rows.batches(Wanted(numbers=("cost",)))
    assert batch.numbers["cost"][:2].tolist() == [1234.0, 1.234]


def test_files_of_different_types_are_refused_by_their_footers(tmp_path: Path) -> None:
    pq.write_table(pa.table({"cost": ["1,5"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"cost": [1.5]}), tmp_path / "b.parquet")
    with pytest.raises(SchemaError, match="float and text"):
        Table(str(tmp_path / "*.parquet"), schema=[COLUMNS[1]])


def test_texts_need_a_declaration_to_be_numbers() -> None:
    with pytest.raises(SchemaError, match="decimal"):
        Table(pa.table({"cost": ["1.5"]}), schema=[Number("cost")])
    assert clipped_sum(
        Table(pa.table({"cost": ["1.5"]}), schema=[Number("cost", lower=0, upper=9, decimal=".")]), "cost", step="1/2"
    ).value in (3, Fraction(3, 2), 1.5)


def test_missing_texts_of_undeclared_labels() -> None:
    found = Label("drug", casefold=True, missing_texts=["N/A"]).reading
    assert found is not None
    assert [found.of_text(text) for text in (" n/a ", "Aspirin ")] == [None, "Aspirin "]


def test_a_schema_writes_its_readings_down_and_reads_them_back() -> None:
    schema = Schema(COLUMNS)
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.digest() != Schema([PersonId("who", max_rows=2), *COLUMNS[1:]]).digest()
    assert "decimal" not in str(Schema([Number("x"), Category("y", ["a"])]).to_json())
