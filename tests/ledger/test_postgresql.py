"""What only PostgreSQL can do wrong: lost connections, deadlocks, servers that forget commits."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sidelight.errors import LedgerError, LedgerUnavailableError, SidelightWarning
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation, open_ledger

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'sidelight[postgres]'")
pytestmark = pytest.mark.postgres

CLAIMS = Claims.of(PureDP("0.3"))
REQUEST = {"kind": "x"}


@pytest.fixture
def there(postgres_address: str) -> Iterator[Ledger]:
    with open_ledger(postgres_address) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
        yield ledger


def fail_once(monkeypatch: pytest.MonkeyPatch, act: Callable[[Any, Callable[[], None]], None]) -> list[int]:
    """Let the next COMMIT go wrong in this way; later ones work."""
    original = psycopg.Connection.commit
    failures: list[int] = []

    def commit(connection: Any) -> None:
        if failures:
            original(connection)
            return
        failures.append(1)
        act(connection, lambda: original(connection))

    monkeypatch.setattr(psycopg.Connection, "commit", commit)
    return failures


def lost_after(connection: Any, commit: Callable[[], None]) -> None:
    commit()
    connection.close()
    raise psycopg.OperationalError("server closed the connection unexpectedly")


def lost_before(connection: Any, commit: Callable[[], None]) -> None:
    connection.close()
    raise psycopg.OperationalError("server closed the connection unexpectedly")


def deadlock(connection: Any, commit: Callable[[], None]) -> None:
    connection.rollback()
    raise psycopg.errors.DeadlockDetected("deadlock detected")


@pytest.mark.parametrize("act", [lost_after, lost_before, deadlock])
def test_a_commit_that_goes_wrong_charges_once(
    there: Ledger, monkeypatch: pytest.MonkeyPatch, act: Callable[[Any, Callable[[], None]], None]
) -> None:
    scope = there.scope("people")
    failures = fail_once(monkeypatch, act)
    reservation = scope.reserve(CLAIMS, request=REQUEST, key="k")
    assert failures
    assert isinstance(reservation, Reservation)
    assert scope.totals().epsilon == 3 * 10**29
    assert len(scope.entries()) == 1
    assert there.verify().ok


@pytest.mark.parametrize("act", [lost_after, lost_before, deadlock])
def test_an_outcome_is_repeated_with_the_value_already_drawn(
    there: Ledger, monkeypatch: pytest.MonkeyPatch, act: Callable[[Any, Callable[[], None]], None]
) -> None:
    reservation = there.scope("people").reserve(CLAIMS, request=REQUEST, key="k")
    assert isinstance(reservation, Reservation)
    failures = fail_once(monkeypatch, act)
    head = reservation.release("drawn once")
    assert failures
    assert head == there.head()
    assert [entry.text for entry in there.entries()] == ["drawn once"]
    assert there.verify().ok


@pytest.mark.parametrize("act", [lost_after, lost_before])
def test_an_external_charge_is_booked_once(
    there: Ledger, monkeypatch: pytest.MonkeyPatch, act: Callable[[Any, Callable[[], None]], None]
) -> None:
    fail_once(monkeypatch, act)
    there.scope("people").record_external(CLAIMS, note="another tool")
    assert there.scope("people").totals().epsilon == 3 * 10**29
    assert there.verify().ok


def test_a_backend_that_is_terminated_between_transactions(there: Ledger) -> None:
    reservation = there.scope("people").reserve(CLAIMS, request=REQUEST)
    assert isinstance(reservation, Reservation)
    with there.store.write() as transaction:
        pass
    with there.store.read() as transaction:
        mine = transaction.rows("SELECT pg_backend_pid()")[0][0]
    other = open_ledger_connection(there)
    other.execute("SELECT pg_terminate_backend(%s)", (mine,))
    other.close()
    reservation.release("after the loss")
    assert there.verify().ok


def open_ledger_connection(ledger: Ledger) -> Any:
    return psycopg.connect(ledger.place.address.replace("+psycopg", ""), autocommit=True)


def test_isolation_is_set_whatever_the_servers_default(postgres_address: str) -> None:
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        name = connection.execute("SELECT current_database()").fetchone()[0]
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    with open_ledger(postgres_address) as ledger, ledger.store.write() as transaction:
        assert transaction.rows("SHOW transaction_isolation") == [("read committed",)]


def test_a_database_that_may_forget_commits_is_refused(postgres_address: str) -> None:
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        name = connection.execute("SELECT current_database()").fetchone()[0]
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    with pytest.raises(LedgerError, match="synchronous_commit=off"):
        open_ledger(postgres_address)


def test_a_lock_held_by_another_session_is_waited_for_and_then_reported(postgres_address: str) -> None:
    with open_ledger(postgres_address, wait_seconds=0.5) as ledger:
        scope = ledger.open_scope("people", budget=PureDP(1))
        other = psycopg.connect(postgres_address)
        other.execute("SELECT * FROM scope FOR UPDATE")
        with pytest.raises(LedgerError, match=r"locked by another process for 0\.5 s"):
            scope.reserve(CLAIMS, request=REQUEST)
        other.rollback()
        other.close()
        assert scope.totals().epsilon == 0
        assert isinstance(scope.reserve(CLAIMS, request=REQUEST), Reservation)


def test_a_ledger_without_patience_does_not_wait_for_ever(postgres_address: str) -> None:
    """For PostgreSQL a limit of 0 is none."""
    with open_ledger(postgres_address) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
    with open_ledger(postgres_address, wait_seconds=0) as ledger, psycopg.connect(postgres_address) as other:
        other.execute("SELECT * FROM meta FOR UPDATE")
        give_up = threading.Timer(5, other.rollback)
        give_up.start()
        with pytest.raises(LedgerError, match="locked by another process for 0 s"):
            ledger.scope("people").reserve(CLAIMS, request=REQUEST)
        give_up.cancel()


def test_a_role_that_could_not_write_an_outcome_is_not_charged(postgres_address: str) -> None:
    role = "analyst_" + postgres_address.rpartition("/")[2].partition("?")[0][-12:]
    with open_ledger(postgres_address) as ledger, psycopg.connect(postgres_address, autocommit=True) as owner:
        scope = ledger.open_scope("people", budget=PureDP(1))
        owner.execute(f"CREATE ROLE {role} LOGIN")
        owner.execute(f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {role}")
        owner.execute(f"REVOKE UPDATE ON entry FROM {role}")
        with open_ledger(re.sub("//[^@/]*@", f"//{role}@", postgres_address)) as theirs:
            with pytest.raises(LedgerError, match="may not UPDATE the table entry"):
                theirs.scope("people").reserve(CLAIMS, request=REQUEST)
            assert scope.entries() == []
            owner.execute(f"GRANT UPDATE (state, outcome_seq) ON entry TO {role}")
            reservation = theirs.scope("people").reserve(CLAIMS, request=REQUEST)
            assert isinstance(reservation, Reservation)
            reservation.release("the value")
        owner.execute(f"DROP OWNED BY {role}")
        owner.execute(f"DROP ROLE {role}")


def test_other_tables_of_the_database_are_left_alone(postgres_address: str) -> None:
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute("CREATE TABLE photo (name TEXT)")
    with open_ledger(postgres_address) as ledger:
        assert ledger.verify().ok


def test_a_table_of_ours_that_is_not_ours(postgres_address: str) -> None:
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute("CREATE TABLE meta (name TEXT)")
    with pytest.raises(LedgerError, match="is not a ledger"):
        open_ledger(postgres_address)


def test_text_of_every_kind(postgres_address: str) -> None:
    """NUL, separators and emoji go through the body unharmed: it is escaped JSON."""
    with open_ledger(postgres_address) as ledger:
        scope = ledger.open_scope("Zürich 😀", budget=PureDP(1))
        reservation = scope.reserve(CLAIMS, request={"kind": "x", "column": "a\x00b"}, key="día")
        assert isinstance(reservation, Reservation)
        reservation.release("\x00\u2028😀")
        assert scope.entries()[0].text == "\x00\u2028😀"
        assert ledger.verify().ok


def test_a_charge_and_its_outcome_are_sent_in_few_parts(there: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    from sidelight.ledger import pipelined

    sent: list[int] = []
    together = pipelined._together

    def watched(connection: Any, statements: Any) -> Any:
        sent.append(len(statements))
        return together(connection, statements)

    there.scope("people").reserve(CLAIMS, request=REQUEST)  # the first looks at all rows
    monkeypatch.setattr(pipelined, "_together", watched)
    reservation = there.scope("people").reserve(CLAIMS, request=REQUEST)
    assert isinstance(reservation, Reservation)
    assert sent == [5, 5, 1]  # what is read under the lock; what is written, with the settings of the server; read back
    sent.clear()
    reservation.release("text")
    assert sent == [5, 1, 4, 1]
    assert there.verify().ok


def test_what_is_sent_later_is_seen_by_the_next_question(there: Ledger) -> None:
    with there.store.write() as transaction:
        transaction.ask_ahead(("SELECT value FROM meta WHERE key = 'new'", {}))
        transaction.later("INSERT INTO meta (key, value) VALUES (:name, :value)", name="new", value="100 % :colon")
        assert transaction.rows("SELECT value FROM meta WHERE key = 'new'") == [("100 % :colon",)]
    with there.store.read() as transaction:  # committed
        assert transaction.row("SELECT value FROM meta WHERE key = :name", name="new") == ("100 % :colon",)


def test_a_statement_that_is_refused_later_rolls_back(there: Ledger) -> None:
    def work(transaction: Any) -> None:
        transaction.later("INSERT INTO meta (key, value) VALUES (:name, :value)", name="first", value="1")
        transaction.later("DELETE FROM meta WHERE key = 'head'")

    with pytest.raises(LedgerError, match="never deleted"):
        there.store.decide(work)
    with there.store.read() as transaction:
        assert transaction.row("SELECT value FROM meta WHERE key = 'first'") is None


def test_a_connection_that_is_stuck_in_the_middle_is_lost_and_the_charge_begins_again(
    there: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = psycopg.Connection.pipeline
    stuck: list[Any] = []

    def pipeline(connection: Any) -> Any:
        if not stuck:
            stuck.append(connection)
            connection.pgconn.enter_pipeline_mode()
            connection.pgconn.send_query_params(b"SELECT 1", None)
            raise psycopg.OperationalError("sending query failed: cannot exit pipeline mode while busy")
        return original(connection)

    scope = there.scope("people")
    scope.totals()
    monkeypatch.setattr(psycopg.Connection, "pipeline", pipeline)
    assert isinstance(there.store.decide(lambda transaction: transaction.rows("SELECT 1")), list)
    assert stuck[0].closed
    assert isinstance(scope.reserve(CLAIMS, request=REQUEST), Reservation)
    assert scope.totals().epsilon == 3 * 10**29


def test_a_host_that_vanishes_is_noticed_within_seconds(postgres_address: str) -> None:
    """Its transaction would hold the head, and everybody, until the system gives the connection up after hours."""
    with open_ledger(postgres_address) as ledger, ledger.store.write() as transaction:
        address = transaction.row("SELECT inet_client_addr()::text")
        found = [transaction.row(f"SHOW tcp_keepalives_{name}") for name in ("idle", "interval", "count")]
    assert found == ([("0",)] * 3 if address == (None,) else [("5",), ("1",), ("5",)])  # a socket has none


@pytest.mark.parametrize("given", ["the database", "the environment", "the address"])
def test_outcomes_are_written_whatever_encoding_the_client_is_told(
    postgres_address: str, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    address = postgres_address
    if given == "the database":
        with psycopg.connect(postgres_address, autocommit=True) as connection:
            name = connection.execute("SELECT current_database()").fetchone()[0]
            connection.execute(f"ALTER DATABASE {name} SET client_encoding = 'LATIN1'")
    elif given == "the environment":
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    else:
        address += ("&" if "?" in address else "?") + "client_encoding=latin1"
    with open_ledger(address) as ledger:
        reservation = ledger.open_scope("people", budget=PureDP(1)).reserve(CLAIMS, request=REQUEST, key="k")
        assert isinstance(reservation, Reservation)
        reservation.release("ε = 0.3, 漢")
        assert [entry.text for entry in ledger.entries()] == ["ε = 0.3, 漢"]


def test_a_database_without_an_encoding_is_refused(postgres_address: str) -> None:
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE bytes_alone ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        name = connection.execute("SELECT current_database()").fetchone()[0]
        try:
            with pytest.raises(LedgerError, match="stores SQL_ASCII text; a ledger needs one created with UTF8"):
                open_ledger(postgres_address.replace(name, "bytes_alone"))
        finally:
            connection.execute("DROP DATABASE bytes_alone WITH (FORCE)")


def test_a_ledger_that_was_read_only_for_a_while_is_used_again(
    there: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scope = there.scope("people")
    charged = scope.reserve(CLAIMS, request=REQUEST, key="k")
    assert isinstance(charged, Reservation)
    name = there.place.address.rpartition("/")[2].partition("?")[0]
    setting = f"ALTER DATABASE {name} SET default_transaction_read_only"
    with open_ledger_connection(there) as other:
        other.execute(f"{setting} = on")
        there.close()  # as when the server ends the sessions
        with pytest.raises(LedgerUnavailableError, match="the database takes no writes now"):
            scope.reserve(CLAIMS, request=REQUEST, key="other")
        later = threading.Timer(1.0, lambda: other.execute(f"{setting} = off"))
        later.start()
        with pytest.warns(SidelightWarning, match="kept and written again"):
            charged.release("the value")
        later.join()
    assert [entry.text for entry in there.entries()] == ["the value"]
    assert isinstance(scope.reserve(CLAIMS, request=REQUEST, key="another"), Reservation)
    assert not [record for record in caplog.records if record.name.startswith("psycopg")]


def test_a_role_that_may_not_update_is_told_what_it_needs(there: Ledger) -> None:
    with open_ledger_connection(there) as other:
        other.execute("CREATE ROLE reader LOGIN")
        try:
            other.execute("GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO reader")
            address = re.sub(r"//[^@/]*@", "//reader@", there.place.address.replace("+psycopg", ""))
            with (
                open_ledger(address) as ledger,
                pytest.raises(LedgerUnavailableError, match="SELECT, INSERT and UPDATE the tables"),
            ):
                ledger.scope("people").reserve(CLAIMS, request=REQUEST)
        finally:
            other.execute("DROP OWNED BY reader; DROP ROLE reader")
