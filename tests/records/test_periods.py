"""Windows: which period a date lies in, and declarations that are refused."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from plain_statistics import made_rows
from sidelight.aggregates.nonprivate_ties import nonprivate_ties
from sidelight.errors import SchemaError

DAY = sl.Date("day", start="2020-01-01", end="2029-12-31")
DATES = {"visit": "day"}


@pytest.mark.parametrize(
    ("length", "start", "end", "names"),
    [
        ("day", "2024-02-28", "2024-03-01", ("2024-02-28", "2024-02-29", "2024-03-01")),
        ("week", "2020-W52", "2021-W01", ("2020-W52", "2020-W53", "2021-W01")),
        ("month", "2023-11", "2024-02", ("2023-11", "2023-12", "2024-01", "2024-02")),
        ("quarter", "2023-Q3", "2024-Q1", ("2023-Q3", "2023-Q4", "2024-Q1")),
        ("year", "2023", "2024", ("2023", "2024")),
    ],
)
def test_periods_are_written_and_found_again(length: Any, start: str, end: str, names: tuple[str, ...]) -> None:
    window = sl.Window(length, start=start, end=end, dates=DATES)
    assert window.names == names
    assert [window.number_of(name) for name in names] == list(range(len(names)))


@pytest.mark.parametrize("length", ["day", "week", "month", "quarter", "year"])
def test_every_day_lies_in_the_period_of_the_calendar(length: Any) -> None:
    ends = {"day": ("2022-12-20", "2024-01-10"), "week": ("2022-W51", "2024-W02"), "month": ("2022-12", "2024-01")}
    ends |= {"quarter": ("2022-Q4", "2024-Q1"), "year": ("2022", "2024")}
    window = sl.Window(length, start=ends[length][0], end=ends[length][1], dates=DATES)
    days = [datetime.date(2022, 12, 20) + datetime.timedelta(days=place) for place in range(380)]
    codes = np.array([(day - datetime.date(2020, 1, 1)).days for day in days], np.float64)

    def name(day: datetime.date) -> str:
        year, week, _ = day.isocalendar()
        written = {"day": day.isoformat(), "week": f"{year}-W{week:02d}", "month": day.isoformat()[:7]}
        written |= {"quarter": f"{day.year}-Q{(day.month - 1) // 3 + 1}", "year": str(day.year)}
        return written[length]

    found = [window.names[place] for place in window.numbers_of(codes, DAY)]
    assert found == [name(day) for day in days]


def test_dates_beyond_the_ends_count_in_the_first_and_the_last_and_missing_ones_in_none() -> None:
    window = sl.Window("month", start="2024-01", end="2024-03", dates=DATES)
    codes = np.array([0, 1460, 1461, 1520, 1521, 3000, 9e9, -9e9, np.nan])
    assert window.numbers_of(codes, DAY).tolist() == [0, 0, 0, 1, 2, 2, 2, 0, -1]
    hours = sl.Date("day", start="2024-01-01", end="2024-12-31", unit="hour")
    assert window.numbers_of(np.array([0.0, 31 * 24 - 1, 31 * 24]), hours).tolist() == [0, 0, 1]
    assert window.numbers_of(np.array([-np.inf, -1e300, 1e300, np.inf]), hours).tolist() == [0, 0, 2, 2]


def test_ends_of_the_date_column_do_not_move_a_day_into_another_period() -> None:
    window = sl.Window("month", start="2024-01", end="2024-12", dates=DATES)
    for start, end in (("2024-06-01", "2024-07-31"), ("2023-01-01", "2024-01-31"), ("2030-01-01", "2030-12-31")):
        for unit in ("day", "hour"):
            column = sl.Date("day", start=start, end=end, unit=unit)
            codes = column.calendar.of_cells([f"2024-{month:02d}-10 23:59" for month in range(1, 13)])
            assert window.numbers_of(codes, column).tolist() == list(range(12))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"length": "hour"}, "one day, week, month"),
        ({"start": "2024-1"}, 'written as "2024-03"'),
        ({"start": "2024-13"}, 'written as "2024-03"'),
        ({"end": "2023-12"}, "ends after it starts"),
        ({"end": "9999-01"}, "before the year 9999"),
        ({"dates": {}}, "date column of each dated table"),
        ({"length": "day", "start": "1000-01-01", "end": "2024-01-01"}, "at most 40000 periods"),
    ],
)
def test_a_wrong_window_is_refused(given: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"length": "month", "start": "2024-01", "end": "2024-12", "dates": DATES}
    with pytest.raises(SchemaError, match=message):
        sl.Window(**(usual | given))


def _shop(
    *, dates: dict[str, str] | None = None, day: Any = DAY, ids: Any = (1, 2, 3), days: Any = None
) -> sl.Database:
    days = days or ["2024-01-05", "2024-02-09", "2024-02-10"]
    orders = {"who": [1, 1, 2], "id": list(ids), "day": days}
    window = sl.Window("month", start="2024-01", end="2024-12", dates=dates or {"orders": "day"})
    return sl.Database(
        {
            "person": sl.Table({"who": [1, 2], "tall": [1, 2]}, schema=[sl.PersonId("who", max_rows=1), sl.Key("who")]),
            "orders": sl.Table(orders, schema=[sl.PersonId("who", max_rows=3), sl.Key("id"), day]),
            "lines": sl.Table(
                {"id": [1, 1, 2, 3], "ship": ["2024-05-01"] * 4},
                schema=[
                    sl.PersonVia("id", to="orders", max_rows=9),
                    sl.Date("ship", start="2024-01-01", end="2024-12-31"),
                ],
            ),
            "code": sl.Table({"k": [1], "day": ["2024-01-01"]}, schema=[sl.Key("k"), DAY], public=True),
        },
        name="shop",
        window=window,
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dates": {"order": "day"}}, "dates a table 'order'"),
        ({"dates": {"code": "day"}}, "public and holds no persons' rows"),
        ({"dates": {"lines": "ship"}}, "belong to the period of the row of 'orders'"),
        ({"dates": {"orders": "id"}}, r"declare sl.Date\('id'"),
        ({"dates": {"person": "who"}}, r"declare sl.Date\('who'"),
        ({"day": sl.Date("day", start="2024-01-01", end="2024-12-31", missing=sl.Fill("2024-01-01"))}, "in no period"),
    ],
)
def test_dates_that_no_row_has_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        _shop(**given)


@pytest.mark.parametrize("one_object", [False, True])
def test_dated_rows_under_a_second_name_are_dated_too(tmp_path: Path, one_object: bool) -> None:
    """Otherwise a release of the second name reads the rows of a month and charges no account of one."""
    (tmp_path / "visits.csv").write_text("who,day,end\na,2024-02-09,2024-03-01\n")
    days = [sl.Date(name, start="2024-01-01", end="2024-12-31") for name in ("day", "end")]

    def visits() -> sl.Table:
        return sl.Table(tmp_path / "visits.csv", schema=[sl.PersonId("who", max_rows=3), *days])

    def made(**dates: str) -> sl.Database:
        one = visits()
        window = sl.Window("month", start="2024-01", end="2024-12", dates=dates)
        return sl.Database({"visit": one, "again": one if one_object else visits()}, name="clinic", window=window)

    for dates in ({"visit": "day"}, {"visit": "day", "again": "end"}):
        with pytest.raises(SchemaError, match="no account of a period would be charged"):
            made(**dates)
    assert made(visit="day", again="day").linked.date_of("again") is not None


def test_a_line_has_the_month_of_its_order_whatever_its_own_date_is() -> None:
    shop = _shop()
    found = {month: made_rows(shop.view("lines").within(month)).length for month in ("2024-01", "2024-02", "2024-05")}
    assert found == {"2024-01": 2, "2024-02": 2, "2024-05": 0}
    assert made_rows(shop.view("lines").within("2024-01", "2024-02")).length == 4


def test_a_line_whose_order_occurs_in_two_months_is_contested() -> None:
    shop = _shop(ids=[1, 1, 3])
    assert made_rows(shop.view("lines")).length == 1
    assert made_rows(shop.view("orders")).length == 3


def test_rows_without_a_date_are_in_no_view_and_timeless_rows_in_all() -> None:
    shop = _shop(days=["2024-01-05", None, "today"])
    assert made_rows(shop.view("orders")).length == 1
    people = sl.per_person(shop, of="person", orders=sl.fold.count("orders", upper=9)).within("2024-02")
    assert made_rows(people).numbers["orders"].tolist() == [0, 0]
    assert made_rows(sl.per_person(shop, of="orders").within("2024-02")).length == 0


def test_periods_of_a_view_are_named_once_and_in_order() -> None:
    shop = _shop()
    for first, last in (("2023-12", None), ("2025-01", None), ("2024-03", "2024-02"), ("2024-Q1", None)):
        with pytest.raises(SchemaError):
            shop.view("orders").within(first, last)
    with pytest.raises(SchemaError, match="already"):
        shop.view("orders").within("2024-01").within("2024-01", "2024-02")
    columns: list[Any] = [sl.PersonId("who", max_rows=1), sl.Number("x", granularity=1)]
    other = sl.Database({"visit": sl.Table({"who": [1], "x": [1]}, schema=columns)}, name="c").view("visit")
    with pytest.raises(SchemaError, match=r"without window=sl.Window"):
        other.within("2024-01")


def test_how_dates_are_read_is_part_of_the_window() -> None:
    texts = {
        _shop(day=each).linked.window_text()
        for each in (
            DAY,
            sl.Date("day", start="2020-01-01", end="2030-12-31"),
            sl.Date("day", start="2020-01-01", end="2029-12-31", formats=["%d.%m.%Y"]),
            sl.Date("day", start="2020-01-01", end="2029-12-31", unit="hour"),
        )
    }
    assert len(texts) == 4
    assert _shop().linked.window_text() in texts


def test_the_owner_is_shown_rows_without_a_date_and_lines_of_two_months() -> None:
    orders, lines = nonprivate_ties(_shop(days=["2024-01-05", None, "2024-02-10"]))[1:]
    assert (orders.rows, orders.dangling, orders.persons, lines.dangling) == (3, 1, 2, 1)
    orders, lines = nonprivate_ties(_shop(ids=[1, 1, 3]))[1:]
    assert (orders.contested, lines.contested, lines.dangling, lines.persons) == (0, 2, 1, 1)


def test_the_omop_tables_take_a_window() -> None:
    visits = {"visit_occurrence_id": [1, 2], "person_id": [1, 1], "visit_start_date": ["2024-01-05", "2024-02-05"]}
    made = sl.omop(
        {"person": {"person_id": [1]}, "visit_occurrence": visits},
        tables=["person", "visit_occurrence"],
        max_rows={"visit_occurrence": 5},
        columns={"visit_occurrence": [sl.Date("visit_start_date", start="2020-01-01", end="2029-12-31")]},
        window=sl.Window("month", start="2024-01", end="2024-12", dates={"visit_occurrence": "visit_start_date"}),
    )
    assert made_rows(made.view("visit_occurrence").within("2024-02")).length == 1
