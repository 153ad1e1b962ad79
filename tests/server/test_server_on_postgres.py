"""A server whose ledger and whose table are in PostgreSQL, from the first request to the verified ledger."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pyarrow.parquet as pq
import pytest
from benchmarks.temporary_postgres import NoServerError, empty_database, temporary_server

from analyst_server import serving, tokens_of, undropped, until, write_survey
from sidelight.ledger import open_ledger
from sidelight.server.config_file import read_config
from silent_postgres import silent_relay

pytestmark = pytest.mark.postgres
driver = pytest.importorskip(
    "adbc_driver_postgresql.dbapi", reason="ADBC is not installed: pip install 'sidelight[postgres-tables]'"
)
COUNT = {"query": {"kind": "count", "by": ["job"], "epsilon": "0.1"}}


@pytest.fixture(scope="module")
def databases():
    try:
        with (
            temporary_server() as server,
            empty_database(server.address) as ledger,
            empty_database(server.address) as rows,
        ):
            yield server, ledger, rows
    except NoServerError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


def written(folder, ledger, rows):
    file = write_survey(folder)
    with driver.connect(rows) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("people", pq.read_table(folder / "people.parquet"), mode="create")
        connection.commit()
    text = file.read_text().replace('url = "budget.db"', f'url = "{ledger}"')
    file.write_text(text.replace('path = "people.parquet"', f'path = "{rows}", table = "people"'))
    file.write_text(file.read_text().replace('"4 s"', '"8 s"'))  # the first connection to a database takes a while
    (folder / "people.parquet").unlink()
    return file


def test_ledger_and_table_on_postgres(tmp_path, databases):
    server, ledger, rows = databases
    file = written(tmp_path, ledger, rows)
    headers = {"Authorization": f"Bearer {tokens_of(file)['ada']}", "Prefer": "wait=30"}
    with serving(file) as (url, _), httpx.Client(base_url=url, headers=headers, timeout=60) as client:

        def ask(key):
            sent = {"json": COUNT, "headers": {"Idempotency-Key": key}}
            return undropped(lambda: client.post("/v1/tables/people/releases", **sent))

        first = ask("first").json()
        assert first["state"] == "released", first
        assert first["outcome"]["circumstances"]["engine"] == "postgres"
        assert ask("first").json() == first
        server.crash()  # nothing is charged meanwhile, and hosts and databases are not named
        lost = ask("second")
        assert lost.status_code == 503
        assert "postgres" not in lost.text
        assert client.get("/health/ready").status_code == 503
        server.start()
        again = ask("second")
        assert again.json()["state"] == "released", again.text
        assert client.get("/v1/tables/people").json()["remaining"] == {"epsilon": "0.8"}
    config = read_config(file)
    with open_ledger(config.ledger, key=config.key_file.read_bytes(), create=False) as found:
        assert found.verify().ok
        assert [entry.state for entry in found.entries()] == ["released"] * 2


def test_a_database_that_says_nothing_stops_no_other_request(tmp_path, databases):
    """Ledger and tokens are in it: requests are refused in time, the loop turns, and nothing is charged."""
    server, _, _ = databases
    with empty_database(server.address) as database, silent_relay(database) as relay:
        file = write_survey(tmp_path)
        text = file.read_text().replace('"budget.db"', f'"{relay.address}"')
        file.write_text(text.replace('"identity.db"', f'"{relay.address}"'))
        headers = {"Authorization": f"Bearer {tokens_of(file)['ada']}", "Idempotency-Key": "a"}
        with serving(file) as (url, _), httpx.Client(base_url=url, headers=headers, timeout=120) as client:
            assert client.get("/v1/tables/people").json()["remaining"] == {"epsilon": "1"}
            relay.silent.set()
            with ThreadPoolExecutor(2) as threads:
                lost = threads.submit(client.post, "/v1/tables/people/releases", json=COUNT)
                unready = threads.submit(client.get, "/health/ready")
                alive = [httpx.get(f"{url}/health/live", timeout=120).status_code for _ in range(3)]
                waited_for = lost.done()
                refused = lost.result(), unready.result()
            assert alive == [200] * 3
            assert not waited_for  # the loop answered while that request waited for the database
            assert [each.status_code for each in refused] == [503, 503]
            assert "127.0.0.1" not in refused[0].text
            relay.silent.clear()
            until(lambda: client.get("/v1/tables/people").status_code == 200)
            assert client.get("/v1/tables/people").json()["remaining"] == {"epsilon": "1"}
