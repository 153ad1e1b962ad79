"""Databases of PostgreSQL tables: the rows of plain lists, all tables of an address at one moment, in slices."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.tables import Places, made, rows_of, shop
from benchmarks.temporary_postgres import NoServerError, temporary_server

from plain_statistics import made_rows
from sidelight.aggregates import owners
from sidelight.aggregates.view_rows import made_by_persons
from sidelight.records.engines.postgres import PostgresRows

pytestmark = pytest.mark.postgres
driver = pytest.importorskip(
    "adbc_driver_postgresql.dbapi", reason="ADBC is not installed: pip install 'sidelight[postgres-tables]'"
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    given = os.environ.get("SIDELIGHT_TEST_POSTGRES")
    if given:
        yield given
        return
    try:
        with temporary_server() as server:
            yield server.address
            gc.collect()  # a table holds a connection as long as it lives
    except NoServerError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


@pytest.mark.parametrize("whole", [False, True])
def test_views_and_pairs_have_the_rows_of_plain_lists(
    address: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, lines = made(np.random.default_rng(7), whole=whole)
    places = Places(Path(), address)
    expected = rows_of(shop(places, "lists", orders, lines))
    database = shop(places, "postgres", orders, lines)
    assert rows_of(database) == expected
    view = database.view("lines")
    whole_length = made_rows(view).length
    monkeypatch.setattr(owners, "MOST_CELLS", 12)
    monkeypatch.setattr(owners, "_ROWS", 7)
    lengths = [held.length for held, _ in made_by_persons(view, frozenset(view.schema.names))]
    assert len(lengths) > 2
    assert sum(lengths) == whole_length


def _written_between(address: str) -> tuple[int, int]:
    """Read orders, let somebody write an order and two lines, read lines: return how many rows there were."""
    orders, lines = {"who": [1], "id": [1], "day": [1]}, {"id": [1, 2], "x": [3, 4]}
    database = shop(Places(Path(), address), "postgres", orders, lines)
    first = made_rows(database.view("orders")).length
    names = [database[name].name for name in ("orders", "lines")]
    with driver.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {names[0]} VALUES (2, 2, 2)")
        cursor.execute(f"INSERT INTO {names[1]} VALUES (1, 5), (2, 6)")
        connection.commit()
    return first, made_rows(database.view("lines")).length


def test_all_tables_of_an_address_are_read_at_one_moment(address: str) -> None:
    assert _written_between(address) == (1, 1)


@pytest.mark.planted("tables of one server read at two moments")
def test_without_a_common_moment_lines_are_younger_than_their_orders(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def alone(*_: Any) -> None: ...

    monkeypatch.setattr(PostgresRows, "read_at_moment_of", alone)
    assert _written_between(address) == (1, 2)
