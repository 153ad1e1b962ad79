"""A ledger on an unresponsive PostgreSQL server: timeouts, and recovery of a lost COMMIT."""

from __future__ import annotations

import threading
import time

import pytest
from benchmarks.temporary_postgres import NoServerError, empty_database, temporary_server

from sidelight.errors import LedgerUnavailableError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import open_ledger
from silent_postgres import silent_relay

pytestmark = pytest.mark.postgres
ASKED = {"kind": "count"}
PRICE = Claims.of(PureDP("0.1"))


@pytest.fixture(scope="module")
def server():
    try:
        with temporary_server() as found:
            yield found
    except NoServerError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


@pytest.fixture
def relay(server):
    with empty_database(server.address) as database, silent_relay(database) as found:
        yield found


@pytest.fixture
def ledger(relay):
    with open_ledger(relay.address, wait_seconds=2, answer_seconds=2) as found:
        found.open_scope("people", budget=PureDP(1))
        yield found
        relay.silent.clear()


def test_a_silent_server_keeps_nobody_waiting(ledger, relay):
    relay.silent.set()
    for ask in (ledger.head, lambda: ledger.scope("people").reserve(PRICE, request=ASKED, key="a")):
        began = time.monotonic()
        with pytest.raises(LedgerUnavailableError):
            ask()
        assert time.monotonic() - began < 60  # two, three and two seconds, for as often as it is tried
    relay.silent.clear()
    ledger.scope("people").reserve(PRICE, request=ASKED, key="a").fail()
    assert [entry.key for entry in ledger.entries()] == ["a"]
    assert ledger.verify().ok


def test_a_commit_whose_answer_is_lost_is_found_again(ledger, relay):
    """The charge stands; it is looked up by its own name on a new connection, and not made twice."""
    ledger.head()
    relay.swallow_after = b"COMMIT"
    granted = ledger.scope("people").reserve(PRICE, request=ASKED, key="a", once=True)
    assert relay.swallow_after is None
    assert [(entry.entry_id, entry.state) for entry in ledger.entries()] == [(granted.entry_id, "reserved")]
    relay.swallow_after = b"COMMIT"
    granted.release("outcome")
    assert relay.swallow_after is None
    assert [(entry.state, entry.text) for entry in ledger.entries()] == [("released", "outcome")]
    assert ledger.verify().ok


def test_whoever_stops_in_the_middle_of_a_charge_lets_go_of_the_head(ledger, relay):
    """A transaction in which nothing happens is ended by the server, and others charge."""
    stopped, done = threading.Event(), threading.Event()

    def stop() -> None:
        with pytest.raises(Exception, match=r"terminat|closed|lost"), ledger.store.write() as transaction:  # noqa: PT012
            transaction.rows("SELECT * FROM meta WHERE key = 'head' FOR UPDATE")
            transaction._connection.exec_driver_sql("SELECT 1")
            stopped.set()
            done.wait(60)
            transaction.rows("SELECT 1")

    stopping = threading.Thread(target=stop)
    stopping.start()
    assert stopped.wait(30)
    with open_ledger(relay.address, wait_seconds=50, answer_seconds=50, create=False) as other:
        other.scope("people").reserve(PRICE, request=ASKED).fail()
    done.set()
    stopping.join(30)


def test_without_a_limit_nothing_is_set(relay):
    with open_ledger(relay.address) as found, found.store.read() as transaction:
        assert transaction.rows("SHOW statement_timeout") == [("0",)]
