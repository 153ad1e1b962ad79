"""TPC-H over a database: the answers of DuckDB with noise off, and refusals of what would list people."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.measuring import AbsentError

import sidelight as sl
from benchmarks import tpch
from sidelight.errors import RangeError, SchemaError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:a budget of epsilon")]


@pytest.fixture(scope="module")
def shop() -> Iterator[tuple[sl.Database, Path]]:
    try:
        folder = tpch.made()
    except AbsentError as reason:
        pytest.skip(str(reason))
    yield tpch.database(folder), folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("number", tpch.QUERIES)
def test_the_answer_is_that_of_duckdb(number: int, shop: tuple[sl.Database, Path]) -> None:
    assert tpch.differences(sl.Session(shop[0], budget=sl.PureDP(10**6)), shop[1], number) == []


@pytest.mark.parametrize("number", tpch.REFUSED)
def test_lists_of_people_are_refused(number: int, shop: tuple[sl.Database, Path]) -> None:
    statement, message = tpch.REFUSED[number]
    session = sl.Session(shop[0], budget=sl.PureDP(1))
    with pytest.raises((RangeError, SchemaError), match=message):
        session.sql(statement, epsilon=1, max_groups=1)
    assert "1" in str(session.remaining)
