"""A table of PostgreSQL with texts is read as declared: the integers of all other engines."""

from __future__ import annotations

import gc
import os

import pyarrow as pa
import pytest
from benchmarks.temporary_postgres import NoServerError, temporary_server
from test_declared_readings import COLUMNS, _codes, _expected, _typed

from sidelight.records import Table

pytestmark = pytest.mark.postgres
driver = pytest.importorskip(
    "adbc_driver_postgresql.dbapi", reason="ADBC is not installed: pip install 'sidelight[postgres-tables]'"
)


def check(address: str) -> None:
    with driver.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS readings CASCADE")
        cursor.execute("CREATE SCHEMA readings")
        cursor.adbc_ingest("messy", _typed(pa.string()), mode="create", db_schema_name="readings")
        connection.commit()
    for schema in (COLUMNS, COLUMNS[1:]):
        table = Table(address, table="readings.messy", schema=schema)
        want = _codes(_expected(schema), engine=False)
        assert _codes(table, engine=False) == want
        assert _codes(table, engine=True) == want
    del table
    gc.collect()  # a table holds a connection as long as it lives


def test_texts_of_a_server() -> None:
    given = os.environ.get("SIDELIGHT_TEST_POSTGRES")
    if given:
        check(given)
        return
    try:
        with temporary_server() as server:
            check(server.address)
    except NoServerError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")
