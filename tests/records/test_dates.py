"""Dates: the same whole numbers on every engine and in both forms of rows, and shown as dates again."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.errors import RangeError, SchemaError
from sidelight.records import Date, Fill, Number, Schema, Table
from sidelight.records.dates import Calendar, minutes_of_text
from sidelight.records.expressions import col
from sidelight.records.rows import Wanted

UTC = dt.UTC
PLUS = dt.timezone(dt.timedelta(hours=5, minutes=30))
STAMPS = [
    dt.datetime(2020, 1, 1),
    dt.datetime(2024, 2, 29, 23, 59, 59, 999999),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    None,
    dt.datetime(1900, 3, 1, 0, 30),
    dt.datetime(2261, 1, 1, 12),
    dt.datetime(2019, 12, 31, 23, 0),
]
UNITS: list[Literal["day", "hour"]] = ["day", "hour"]


def column(unit: Literal["day", "hour"]) -> Date:
    return Date("visit", start="2020-01-01", end="2025-12-31", unit=unit)


def expected(unit: str, stamps: list[Any] = STAMPS) -> list[float]:
    """Count by Python's own arithmetic."""
    step = dt.timedelta(days=1) if unit == "day" else dt.timedelta(hours=1)
    start = dt.datetime(2020, 1, 1)
    naive = [each.astimezone(UTC).replace(tzinfo=None) if each and each.tzinfo else each for each in stamps]
    return [math.nan if each is None else float((each - start) // step) for each in naive]


def read(source: Any, unit: Literal["day", "hour"], *, form: str = "batches") -> list[float]:
    table = Table(source, schema=[column(unit)])
    wanted = Wanted(numbers=("visit",))
    if form == "batches":
        return [value for batch in table.rows.batches(wanted) for value in batch.numbers["visit"].tolist()]
    frame = table.rows.frame(wanted)
    if frame is None:
        pytest.skip("runs no expressions")
    found = frame.collect()["n0"].to_list()
    return [math.nan if each is None else each for each in found]


def parquet(values: Any, kind: Any, folder: Path) -> str:
    path = folder / "visits.parquet"
    pq.write_table(pa.table({"visit": pa.array(values, kind)}), path)
    return str(path)


def csv_file(texts: list[Any], folder: Path) -> str:
    path = folder / "visits.csv"
    path.write_text("visit,more\n" + "".join(f'"{text or ""}",1\n' for text in texts))
    return str(path)


def texts(stamps: list[Any] = STAMPS) -> list[str | None]:
    return [None if each is None else each.isoformat() for each in stamps]


SOURCES: dict[str, Callable[[Path], Any]] = {
    "list": lambda _: STAMPS,
    "list of texts": lambda _: texts(),
    "numpy": lambda _: np.array(STAMPS, "datetime64[us]"),
    "numpy texts": lambda _: np.array([each or "" for each in texts()]),
    "mapping": lambda _: {"visit": STAMPS},
    "mapping of columns": lambda _: {"visit": np.array(STAMPS, "datetime64[us]"), "o": pd.Series(range(7))},
    "mapping of series": lambda _: {"visit": pd.Series(np.array(STAMPS, "datetime64[ns]")), "o": [1] * 7},
    "pandas ns": lambda _: pd.DataFrame({"visit": np.array(STAMPS, "datetime64[ns]")}),
    "pandas s": lambda _: pd.DataFrame({"visit": pd.Series(STAMPS, dtype="datetime64[s]")}),
    "pandas object": lambda _: pd.DataFrame({"visit": pd.Series(STAMPS, dtype=object)}),
    "pandas text": lambda _: pd.DataFrame({"visit": pd.Series(texts(), dtype="string")}),
    "pandas categorical": lambda _: pd.DataFrame({"visit": pd.Categorical(texts())}),
    "pandas arrow": lambda _: pd.DataFrame({"visit": pd.Series(STAMPS, dtype=pd.ArrowDtype(pa.timestamp("us")))}),
    "polars": lambda _: pl.DataFrame({"visit": pl.Series(STAMPS, dtype=pl.Datetime("us"))}),
    "polars lazy": lambda _: pl.LazyFrame({"visit": pl.Series(STAMPS, dtype=pl.Datetime("ns"))}),
    "polars text": lambda _: pl.DataFrame({"visit": texts()}),
    "arrow": lambda _: pa.table({"visit": pa.array(STAMPS, pa.timestamp("us"))}),
    "arrow ns": lambda _: pa.table({"visit": pa.array(STAMPS, pa.timestamp("ns"))}),
    "arrow text": lambda _: pa.table({"visit": texts()}),
    "arrow dictionary": lambda _: pa.table({"visit": pa.array(texts()).dictionary_encode()}),
    "duckdb": lambda _: duckdb.from_arrow(pa.table({"visit": pa.array(STAMPS, pa.timestamp("us"))})),
    "duckdb ns": lambda _: duckdb.from_arrow(pa.table({"visit": pa.array(STAMPS, pa.timestamp("ns"))})),
    "duckdb text": lambda _: duckdb.from_arrow(pa.table({"visit": texts()})),
    "parquet": lambda folder: parquet(STAMPS, pa.timestamp("us"), folder),
    "parquet ns": lambda folder: parquet(STAMPS, pa.timestamp("ns"), folder),
    "parquet text": lambda folder: parquet(texts(), pa.string(), folder),
    "csv": lambda folder: csv_file(texts(), folder),
}


@pytest.mark.parametrize("form", ["batches", "frame"])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", SOURCES)
def test_every_engine_counts_alike(name: str, unit: Literal["day", "hour"], form: str, tmp_path: Path) -> None:
    assert np.array_equal(read(SOURCES[name](tmp_path), unit, form=form), expected(unit), equal_nan=True)


DAYS = [dt.date(2020, 1, 1), dt.date(2024, 2, 29), None, dt.date(1899, 12, 31)]
DAY_SOURCES: dict[str, Callable[[Path], Any]] = {
    "list": lambda _: DAYS,
    "numpy": lambda _: np.array(DAYS, "datetime64[D]"),
    "pandas": lambda _: pd.DataFrame({"visit": pd.Series(DAYS, dtype=object)}),
    "polars": lambda _: pl.DataFrame({"visit": DAYS}),
    "arrow": lambda _: pa.table({"visit": pa.array(DAYS, pa.date32())}),
    "arrow date64": lambda _: pa.table({"visit": pa.array(DAYS, pa.date64())}),
    "duckdb": lambda _: duckdb.from_arrow(pa.table({"visit": pa.array(DAYS, pa.date32())})),
    "parquet": lambda folder: parquet(DAYS, pa.date32(), folder),
    "csv": lambda folder: csv_file([each.isoformat() if each else None for each in DAYS], folder),
}


@pytest.mark.parametrize("form", ["batches", "frame"])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", DAY_SOURCES)
def test_dates_without_a_time(name: str, unit: Literal["day", "hour"], form: str, tmp_path: Path) -> None:
    midnights = [None if each is None else dt.datetime.combine(each, dt.time()) for each in DAYS]
    found = read(DAY_SOURCES[name](tmp_path), unit, form=form)
    assert np.array_equal(found, expected(unit, midnights), equal_nan=True)


AWARE = [dt.datetime(2024, 1, 1, 3, 0, tzinfo=PLUS), None, dt.datetime(2024, 1, 1, 23, 30, tzinfo=UTC)]
AWARE_SOURCES: dict[str, Callable[[Path], Any]] = {
    "list": lambda _: AWARE,
    "texts": lambda _: texts(AWARE),
    "pandas": lambda _: pd.DataFrame(
        {"visit": pd.Series([each and each.astimezone(UTC) for each in AWARE]).dt.tz_convert("Asia/Kolkata")}
    ),
    "pandas object": lambda _: pd.DataFrame({"visit": pd.Series(AWARE, dtype=object)}),
    "polars": lambda _: pl.DataFrame({"visit": pl.Series(AWARE, dtype=pl.Datetime("us", "Asia/Kolkata"))}),
    "arrow": lambda _: pa.table({"visit": pa.array(AWARE, pa.timestamp("us", "Asia/Kolkata"))}),
    "duckdb": lambda _: duckdb.from_arrow(pa.table({"visit": pa.array(AWARE, pa.timestamp("us", "UTC"))})),
    "parquet": lambda folder: parquet(AWARE, pa.timestamp("us", "Asia/Kolkata"), folder),
    "csv": lambda folder: csv_file(texts(AWARE), folder),
}


@pytest.mark.parametrize("form", ["batches", "frame"])
@pytest.mark.parametrize("name", AWARE_SOURCES)
def test_a_time_with_a_zone_counts_in_utc(name: str, form: str, tmp_path: Path) -> None:
    found = read(AWARE_SOURCES[name](tmp_path), "hour", form=form)
    assert np.array_equal(found, expected("hour", AWARE), equal_nan=True)


ODD = [
    "2024-02-30",
    "0000-01-01",
    "2024-1-1",
    "31.12.2024",
    "20240131",
    "45292",
    "2024-01-31T24:00",
    "2024-01-31T23:60",
    "yesterday",
    "2024-01-31x",
    "infinity",
    "epoch",
    "２０２４-01-31",
    "2024-01-31 14:05:09,25",
    " 2024-01-31 ",
    "2024-01-31 14:05 UTC",
    "2024-01-31T14:05-0930",
    "2024-01-31T14:05+14",
    "2024-01-31T14:05:00.123456789Z",
    "9999-12-31T23:59-14:00",
    "0001-01-01T00:00+14:00",
    "",
]


#: Texts that are nearly dates: one sign of a date is another.
ALMOST = st.builds(
    lambda text, place, sign: text[:place] + sign + text[place + 1 :],
    st.sampled_from(ODD),
    st.integers(0, 28),
    st.sampled_from("0123456789-T: +Z.,"),
)


@settings(max_examples=25)
@given(st.lists(st.one_of(st.sampled_from(ODD), ALMOST), min_size=20, max_size=60))
def test_duckdb_reads_texts_as_python_does(cells: list[str]) -> None:
    for unit in UNITS:
        by_python = [column(unit).calendar.of_text(text) for text in cells]
        assert np.array_equal(read(pa.table({"visit": cells}), unit, form="frame"), by_python, equal_nan=True)


def test_texts_that_are_not_dates_are_missing() -> None:
    read_as = [minutes_of_text(text) is not None for text in ODD]
    assert read_as == [False] * 13 + [True] * 8 + [False]


def test_no_cell_raises() -> None:
    class Odd(dt.datetime):
        def utcoffset(self) -> Any:
            raise RuntimeError

    calendar = column("hour").calendar
    cells = [Odd(2024, 1, 1), pd.NaT, np.datetime64("NaT"), 20240131, 1.5, b"2024-01-01", object(), [1], None]
    assert np.isnan(calendar.of_cells(cells)).all()
    assert calendar.of_cell(np.datetime64("2020-01-01T05", "h")) == 5
    assert calendar.of_cell(pd.Timestamp("2020-01-02", tz="UTC")) == 24
    extreme = np.array([2**63 - 1, -(2**63) + 1], np.int64)
    for resolution in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"):
        assert np.isfinite(calendar.of_array(extreme.view(f"datetime64[{resolution}]"))).all()


@pytest.mark.parametrize("native", ["DATE", "TIMESTAMP", "TIMESTAMPTZ"])
def test_infinite_dates_of_duckdb_go_to_the_ends(native: str) -> None:
    cells = f"(SELECT unnest(['infinity', '-infinity', '2020-01-02'])::{native} AS visit)"
    found = read(duckdb.sql(f"SELECT visit FROM {cells}"), "day")
    assert found[0] > 1e6
    assert found[1] < -1e6
    assert found[2] == 1


def test_a_declaration() -> None:
    visit = Date("visit", start=dt.date(2020, 1, 1), end="2020-01-31", missing=Fill("2020-01-10"))
    assert (visit.lower, visit.upper, visit.granularity, visit.fill) == (0, 30, 1, 9)
    assert isinstance(visit, Number)
    assert Date("visit", start="2020-01-01", end="2020-01-01", unit="hour").upper == 23
    assert Date("visit", start="2020-01-01 06:00", end="2020-01-01 08:00", unit="hour").upper == 2
    for declared in (visit, column("hour")):
        assert Schema.from_json(Schema([declared]).to_json()) == Schema([declared])
    for wrong in (
        {"start": "2020-01-01", "end": "2019-01-01"},
        {"start": "2020-01-01", "end": "2020-01-01"},
        {"start": "1.1.2020", "end": "2020-02-01"},
        {"start": "2020-01-01 06:00", "end": "2020-02-01"},
        {"start": "2020-01-01", "end": "2020-02-01", "unit": "week"},
    ):
        with pytest.raises((RangeError, SchemaError)):
            Date("visit", **wrong)  # type: ignore[arg-type]


def test_wrong_types_are_refused_with_what_to_declare() -> None:
    with pytest.raises(SchemaError, match=r"sl\.Date\('visit', start=\.\.\., end=\.\.\.\)"):
        Table(pa.table({"visit": pa.array(DAYS, pa.date32())}), schema=[Number("visit")])
    with pytest.raises(SchemaError, match="whole numbers may count anything"):
        Table({"visit": np.array([20240131])}, schema=[column("day")])


def test_conditions_and_bins_in_dates() -> None:
    schema = Schema([column("day"), Number("age")])
    condition = (col("visit") >= "2024-01-01") & (col("visit") < dt.date(2024, 7, 1))
    condition.check(schema)
    assert str(condition) == 'visit >= "2024-01-01" and visit < "2024-07-01"'
    shape = col("visit").cut(["2024-01-01", "2024-07-01"]).check(schema)
    assert shape.labels == ("below 2024-01-01", "[2024-01-01, 2024-07-01)", "2024-07-01 and above")  # type: ignore[union-attr]
    for wrong in (
        col("visit") >= "summer",
        col("visit") >= "2024-01-01 12:30",
        col("age") >= "2024-01-01",
        col("age").cut(["2024-01-01"]),
    ):
        with pytest.raises(SchemaError):
            wrong.check(schema)
    with pytest.raises(RangeError):
        col("visit").cut(["2024-07-01", "2024-01-01"]).check(schema)


def test_shown_as_dates() -> None:
    calendar = Calendar("hour", 24 * 18262)
    assert calendar.text(25.7) == "2020-01-02 01:00"
    assert calendar.text(math.inf) == "9999-12-31 23:00"
    assert column("day").calendar.text(Fraction(1)) == "2020-01-02"
    assert column("day").calendar.text(-1e300) == "0001-01-01"
    assert calendar.text(math.nan) == ""


@pytest.mark.parametrize("text", ["2024-01-31 14:00:00.5", "2024-01-31T14:00:09Z", "2024-01-31 14:00:00,000000001"])
def test_a_constant_inside_an_hour_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match="lies inside"):
        Calendar("hour", 0).of_constant(text, where="a test")
    assert Calendar("hour", 0).of_constant("2024-01-31 14:00:00.000", where="a test") % 24 == 14


def test_zoned_nanoseconds_of_pandas_are_read_from_a_file(tmp_path: Path) -> None:
    frame = pd.DataFrame({"visit": pd.Series(pd.to_datetime(STAMPS[:2], utc=True)).astype("datetime64[ns, UTC]")})
    frame.to_parquet(tmp_path / "t.parquet")
    assert read(str(tmp_path / "t.parquet"), "hour") == read(frame, "hour") == expected("hour", STAMPS[:2])


def test_periods_of_a_long_calendar_take_linear_time() -> None:
    """Every period was searched in the list of all labels: eight thousand years of months took minutes."""
    schema = Schema([Date("d", start="1900-01-01", end="9900-12-31")])
    before = time.process_time()
    shape = col("d").start_of("month").shape(schema)
    assert len(shape.labels) == 12 * 8001
    again = col("d").start_of("month").shape(schema)
    assert again.labels is shape.labels  # made once
    assert time.process_time() - before < 15
