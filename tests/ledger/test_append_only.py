"""Triggers: statements that the database itself refuses, from any client."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation

EVENT = "INSERT INTO event (seq, at_utc, kind, scope_id, entry_id, body, prev_hash, hash) VALUES"
ENTRY = "INSERT INTO entry (entry_id, scope_id, idem_key, attempt, reserve_seq, outcome_seq, state) VALUES"


@pytest.fixture
def busy(ledger: Ledger) -> Ledger:
    scope = ledger.open_scope("people", budget=PureDP(1))
    for key in ("a", "b", "c"):
        result = scope.reserve(Claims.of(PureDP("0.1")), request={"kind": "x"}, key=key)
        assert isinstance(result, Reservation)
        if key != "c":
            result.release("x") if key == "a" else result.fail()
    return ledger


REFUSED = [
    "UPDATE event SET body = '{}' WHERE seq = 1",
    "UPDATE event SET hash = 'x' WHERE seq = 1",
    "DELETE FROM event WHERE seq = 3",
    "DELETE FROM event",
    f"{EVENT} (99, 't', 'fail', NULL, NULL, '{{}}', 'p', 'h')",
    f"{EVENT} (7, 't', 'fail', NULL, NULL, '{{}}', 'p', 'h')",
    f"{EVENT} (7, 't', 'joke', NULL, NULL, '{{}}', (SELECT hash FROM event WHERE seq = 6), 'h')",
    f"{EVENT} (7, 't', 'fail', 'nowhere', NULL, '{{}}', (SELECT hash FROM event WHERE seq = 6), 'h')",
    f"{EVENT} (7, 't', 'fail', NULL, NULL, '{{}}', (SELECT hash FROM event WHERE seq = 6),"
    " (SELECT hash FROM event WHERE seq = 2))",
    "DELETE FROM entry WHERE idem_key = 'c'",
    "UPDATE entry SET state = 'reserved', outcome_seq = NULL WHERE idem_key = 'a'",
    "UPDATE entry SET state = 'failed' WHERE idem_key = 'a'",
    "UPDATE entry SET state = 'released' WHERE idem_key = 'b'",
    "UPDATE entry SET state = 'released' WHERE idem_key = 'c'",
    "UPDATE entry SET idem_key = 'd' WHERE idem_key = 'c'",
    "UPDATE entry SET state = 'failed', outcome_seq = 0 WHERE idem_key = 'c'",
    f"{ENTRY} ('new', 'people', 'c', 2, 6, NULL, 'reserved')",
    f"{ENTRY} ('new', 'people', 'b', 1, 6, NULL, 'reserved')",
    f"{ENTRY} ('new', 'people', 'new', 0, 6, NULL, 'reserved')",
    f"{ENTRY} ('new', 'people', 'new', 1, 6, 6, 'released')",
    "DELETE FROM scope",
    "UPDATE scope SET budget = '{}'",
    "UPDATE scope SET routes = '{}'",
    "UPDATE scope SET unit = 'event'",
    "UPDATE scope SET neighbours = 'replace'",
    "UPDATE scope SET parent_id = 'people'",
    "UPDATE scope SET head_seq = 0",
    "DELETE FROM meta",
    "UPDATE meta SET value = '0' WHERE key = 'schema'",
    "UPDATE meta SET key = 'neck' WHERE key = 'head'",
    "INSERT INTO meta (key, value) VALUES ('schema', '0')",
]

REPLACING = [
    "INSERT OR REPLACE INTO event SELECT seq, at_utc, kind, scope_id, entry_id, '{}', prev_hash, hash FROM event"
    " WHERE seq = 3",
    "INSERT OR REPLACE INTO event SELECT 7, at_utc, kind, scope_id, entry_id, body, prev_hash, hash FROM event"
    " WHERE seq = 3",
    "INSERT OR REPLACE INTO event SELECT 7, at_utc, kind, scope_id, entry_id, body,"
    " (SELECT hash FROM event WHERE seq = 6), hash FROM event WHERE seq = 3",
    "INSERT OR REPLACE INTO entry SELECT entry_id, scope_id, idem_key, attempt, reserve_seq, NULL, 'reserved'"
    " FROM entry WHERE idem_key = 'a'",
    "INSERT OR REPLACE INTO entry SELECT 'new', scope_id, idem_key, attempt, reserve_seq, NULL, 'reserved' FROM entry"
    " WHERE idem_key = 'a'",
    "INSERT OR REPLACE INTO entry SELECT 'new', scope_id, idem_key, 2, reserve_seq, NULL, 'reserved' FROM entry"
    " WHERE idem_key = 'a'",
    "INSERT OR REPLACE INTO scope SELECT scope_id, parent_id, unit, neighbours, budget, routes, totals, 9 FROM scope",
    "INSERT OR REPLACE INTO meta VALUES ('ledger_id', 'x')",
    "UPDATE OR REPLACE event SET seq = 2 WHERE seq = 3",
    "UPDATE OR REPLACE entry SET idem_key = 'a' WHERE idem_key = 'c'",
]


def attempt(ledger: Ledger, statement: str) -> None:
    with ledger.store.write() as transaction:
        transaction.run(statement)


def test_the_database_refuses_every_edit(busy: Ledger) -> None:
    assert len(busy.events()) == 7
    for statement in REFUSED:
        with pytest.raises(sa.exc.DBAPIError):
            attempt(busy, statement)
    assert busy.verify().ok


def test_sqlite_insert_or_replace_does_not_slip_past_the_delete_trigger(file_ledger: Ledger) -> None:
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    for key in ("a", "b", "c"):
        result = scope.reserve(Claims.of(PureDP("0.1")), request={"kind": "x"}, key=key)
        assert isinstance(result, Reservation)
        if key != "c":
            result.release("x") if key == "a" else result.fail()
    for statement in REPLACING:
        with pytest.raises(sa.exc.DBAPIError):
            attempt(file_ledger, statement)
    assert file_ledger.verify().ok


@pytest.mark.postgres
def test_postgresql_refuses_truncate(postgres_address: str) -> None:
    from sidelight.ledger import open_ledger

    with open_ledger(postgres_address) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
        for table in ("event", "entry", "scope", "meta"):
            with pytest.raises(sa.exc.DBAPIError, match="nothing is ever truncated"):
                attempt(ledger, f"TRUNCATE {table} CASCADE")
        assert ledger.verify().ok
