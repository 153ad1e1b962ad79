"""What a server's page draws and saves of a release: what was asked for, with digits that hold."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.group_table import GroupTable
from sidelight.release import Release
from sidelight.release.page_numbers import MOST_DRAWN, page_numbers
from sidelight.testing import seeded_release
from sidelight.wire import write_json

MOST = 2**22
TABLE = sl.Table(
    {"x": [1.0, 5.0, 9.0] * 1000, "g": ["a", "b", "c_\u202e"] * 1000, "d": np.arange(3000) % 300},
    schema=[
        sl.Number("x", lower=0, upper=10),
        sl.Category("g", ["a", "b", "c_\u202e"], other=None),
        sl.Number("d", lower=0, upper=366, granularity=1),
    ],
)


def found(query: Any, table: Any = TABLE) -> tuple[Release[Any], dict[str, Any], list[list[str]]]:
    release = seeded_release(query, table, seed=2)
    numbers = page_numbers(release, most_bytes=MOST)
    return release, numbers, list(csv.reader(io.StringIO(numbers["csv"])))


def test_an_interval_of_a_count_of_a_million_holds_its_number() -> None:
    """The page rounded 1,234,563 and both of its ends to 1234560."""
    columns = {"count": [1_234_563], "noise_sd": [1.3], "low": [1_234_561.0], "high": [1_234_566.0]}
    release = seeded_release(sl.Count(epsilon=5), TABLE, seed=1)
    made = Release(**{**vars(release), "value": GroupTable(keys=[], groups=[()], columns=columns)})
    numbers = page_numbers(made, most_bytes=MOST)
    assert numbers["titles"] == ["count", "low", "high"]
    assert numbers["lines"] == [["1,234,563", "1,234,561", "1,234,566"]]
    assert numbers["csv"].splitlines()[1] == "1234563,1.3,1234561.0,1234566.0"


def test_digits_are_those_that_the_interval_leaves_and_ends_go_outward() -> None:
    columns = {"mean": [123456.78949], "low": [123456.78123], "high": [123456.79871]}
    release = seeded_release(sl.Mean("x", epsilon=5), TABLE, seed=1)
    made = Release(**{**vars(release), "value": GroupTable(keys=[], groups=[()], columns=columns)})
    assert page_numbers(made, most_bytes=MOST)["lines"] == [["123456.7895", "123456.7812", "123456.7988"]]


def test_a_statement_is_drawn_and_saved_as_it_was_asked() -> None:
    """The page drew all groups of the released table, without `ratio`."""
    statement = (
        "SELECT g, SUM(x) / COUNT(*) AS ratio FROM people GROUP BY g HAVING COUNT(*) > 10 ORDER BY ratio DESC LIMIT 1"
    )
    _, numbers, rows = found(sl.SQL(statement, epsilon=20))
    assert numbers["titles"] == ["g", "ratio", "ratio low", "ratio high"]
    (line,) = numbers["lines"]
    assert line[0] == r"c_\u202e"
    assert float(line[2]) < float(line[1]) < float(line[3])
    assert [row[:1] for row in rows] == [["g"], ["c_\u202e"]]
    assert rows[0][:2] == ["g", "ratio"]


@pytest.mark.parametrize("word", ["known", "plain", "unbiased", "supported", "pooled", "noise_sd"])
def test_a_number_that_is_called_like_a_working_is_drawn(word: str) -> None:
    _, numbers, _ = found(sl.SQL(f"SELECT g, COUNT(*) AS {word} FROM people GROUP BY g", epsilon=20))
    assert numbers["titles"][:2] == ["g", word.replace("_", " ")]


def test_workings_are_saved_and_not_drawn() -> None:
    _, numbers, rows = found(sl.Mean("x", by=["g"], epsilon=5))
    assert {"noise_sd", "supported", "count_unbiased"} <= set(rows[0])
    assert numbers["titles"] == ["g", "mean", "low", "high", "count", "count low", "count high"]


def test_dates_are_dates() -> None:
    """Quantiles of dates were drawn as 150."""
    days = sl.Table(
        {"d": [f"2020-{1 + place % 12:02d}-15" for place in range(3000)]},
        schema=[sl.Date("d", start="2020-01-01", end="2021-01-01")],
    )
    _, numbers, rows = found(sl.Quantiles([0.5], column="d", epsilon=50), days)
    assert numbers["titles"] == ["", "value"]
    assert numbers["lines"][0][1][:6] == "2020-0"
    assert rows[1] == numbers["lines"][0]
    _, numbers, rows = found(sl.Mean("d", epsilon=50), days)
    assert numbers["lines"][0][0].startswith("2020-")
    assert rows[1][0].startswith("2020-")


def test_what_is_no_list_of_numbers_has_no_lines() -> None:
    release, numbers, _ = found(sl.Covariance(["x", "d"], radius=400, epsilon=5))
    assert (numbers["lines"], numbers["csv"]) == ([], "")
    refused = sl.StableMedian("x", epsilon=1, delta="1e-9").release(
        sl.Table({"x": [0, 9] * 50}, schema=[sl.Number("x", lower=0, upper=9, granularity=1)])
    )
    assert isinstance(refused, sl.Refused)
    assert page_numbers(refused, most_bytes=MOST)["lines"] == []
    assert release.private is False


def test_a_long_table_is_drawn_in_part_and_saved_whole() -> None:
    labels = [f"g{place}" for place in range(MOST_DRAWN + 5)]
    long = sl.Table({"g": ["g0"]}, schema=[sl.Category("g", labels, other=None)])
    _, numbers, rows = found(sl.Count(by=["g"], epsilon=5), long)
    assert (len(numbers["lines"]), numbers["more"], len(rows)) == (MOST_DRAWN, 5, MOST_DRAWN + 6)


LONG = "a" * 400 + "\u202e"


@pytest.mark.parametrize("statement", [f"SELECT '{LONG}' || g AS label, COUNT(*) AS n FROM people GROUP BY g"])
@pytest.mark.parametrize("most", [200, 500, 1000, 2000, 3000, 4000])
def test_texts_are_counted_while_they_are_made(statement: str, most: int) -> None:
    """A statement of 1.5 KB wrote a label of 26,000 signs in 160 lines and in their CSV: 100 MB."""
    release = seeded_release(sl.SQL(statement, epsilon=20), TABLE, seed=2)
    whole, numbers = page_numbers(release, most_bytes=MOST), page_numbers(release, most_bytes=most)
    assert len(write_json([numbers["titles"], numbers["lines"], numbers["csv"]])) <= most
    assert numbers["lines"] == whole["lines"][: len(numbers["lines"])]
    assert len(numbers["lines"]) + numbers["more"] == 3
    assert numbers["csv"] in ("", whole["csv"])
    assert bool(numbers["csv"]) == (most >= 3000)


@pytest.mark.parametrize("most", [100, 5000, 200_000])
def test_numbers_without_groups_have_the_limit_too(most: int) -> None:
    release = seeded_release(
        sl.Quantiles([place / 1000 for place in range(1, 1000)], column="x", epsilon=5), TABLE, seed=2
    )
    numbers = page_numbers(release, most_bytes=most)
    assert len(write_json([numbers["titles"], numbers["lines"], numbers["csv"]])) <= most
    assert len(numbers["lines"]) + numbers["more"] == 999
    assert bool(numbers["csv"]) == (most == 200_000)
