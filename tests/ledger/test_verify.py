"""Tampering of every kind, with the triggers out of the way: `verify` must see it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sidelight.errors import LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation, open_ledger
from sidelight.ledger.chain import Json, LedgerEvent, canonical, chained
from sidelight.ledger.journal import digest_of
from sidelight.ledger.schema import trigger_statements
from sidelight.ledger.verify import replay

KEY = bytes(range(32))


def fill(ledger: Ledger) -> str:
    """Write a small history of every kind of event and return the head of its last release."""
    ledger.open_scope("all", budget=PureDP(3))
    scope = ledger.open_scope("people", budget=PureDP(1), parent="all")
    outcomes = {"a": "release", "b": "refuse", "c": "fail", "d": None, "e": "release"}
    head = ""
    for key, outcome in outcomes.items():
        result = scope.reserve(Claims.of(PureDP("0.1")), request={"kind": "x"}, key=key)
        assert isinstance(result, Reservation)
        if outcome == "fail":
            result.fail()
        elif outcome is not None:
            head = getattr(result, outcome)(f"text of {key}")
    scope.record_external(Claims.of(PureDP("0.2")), note="another tool")
    ledger.open_scope("old", budget=PureDP(1)).close()
    return head


def tamper(ledger: Ledger, *statements: str) -> None:
    """Edit behind the triggers' back, as the owner of the database can, and leave no other trace."""
    if ledger.place.path is None:
        with ledger.store.write() as transaction:
            transaction.define("SET session_replication_role = replica")  # no triggers, no foreign keys
            for statement in statements:
                transaction.define(statement)
            transaction.define("SET session_replication_role = DEFAULT")
        return
    connection = sqlite3.connect(ledger.place.path)
    triggers = trigger_statements("sqlite")
    for statement in [*(f"DROP TRIGGER {name}" for name in triggers), *statements, *triggers.values()]:
        connection.execute(statement)
    connection.commit()
    connection.close()


EDITS = {
    "a body": "UPDATE event SET body = replace(body, 'text of a', 'text of A') WHERE seq = 4",
    "a body's spaces": "UPDATE event SET body = replace(body, '\":\"', '\": \"') WHERE seq = 4",
    "a doubled key": 'UPDATE event SET body = replace(body, \'{"text"\', \'{"text":"lie","text"\') WHERE seq = 4',
    "a kind": "UPDATE event SET kind = 'refuse' WHERE seq = 4",
    "a time": "UPDATE event SET at_utc = '2026-01-01T00:00:00.000000Z' WHERE seq = 4",
    "a scope": "UPDATE event SET scope_id = 'all' WHERE seq = 4",
    "no scope": "UPDATE event SET scope_id = NULL WHERE seq = 4",
    "an entry id": "UPDATE event SET entry_id = 'x' WHERE seq = 4",
    "a hash": "UPDATE event SET hash = 'x' WHERE seq = 4",
    "a link": "UPDATE event SET prev_hash = 'x' WHERE seq = 4",
    "an event gone": "DELETE FROM event WHERE seq = 4",
    "the first event gone": "DELETE FROM event WHERE seq = 0",
    "the last event gone": "DELETE FROM event WHERE seq = (SELECT max(seq) FROM event)",
    "all events gone": "DELETE FROM event",
    "another first event": "UPDATE event SET body = replace(body, 'ledger_id', 'ledger-id') WHERE seq = 0",
    "totals": "UPDATE scope SET totals = replace(totals, '700000', '600000') WHERE scope_id = 'people'",
    "totals of the parent": "UPDATE scope SET totals = replace(totals, '700000', '600000') WHERE scope_id = 'all'",
    "a scope opened again": "UPDATE scope SET totals = replace(totals, ',\"shut\":\"1\"', '') WHERE scope_id = 'old'",
    "a last event": "UPDATE scope SET head_seq = 3 WHERE scope_id = 'people'",
    "a budget": "UPDATE scope SET budget = replace(budget, '\"1\"', '\"9\"') WHERE scope_id = 'people'",
    "a rule": "UPDATE scope SET routes = replace(routes, '1000000', '9000000') WHERE scope_id = 'people'",
    "a parent": "UPDATE scope SET parent_id = NULL WHERE scope_id = 'people'",
    "a unit": "UPDATE scope SET unit = 'event' WHERE scope_id = 'people'",
    "neighbours": "UPDATE scope SET neighbours = 'replace' WHERE scope_id = 'people'",
    "a scope gone": "DELETE FROM scope WHERE scope_id = 'old'",
    "a state": "UPDATE entry SET state = 'refused' WHERE idem_key = 'a'",
    "a state undone": "UPDATE entry SET state = 'reserved', outcome_seq = NULL WHERE idem_key = 'a'",
    "an attempt": "UPDATE entry SET attempt = 2 WHERE idem_key = 'a'",
    "a key": "UPDATE entry SET idem_key = 'z' WHERE idem_key = 'a'",
    "another outcome": "UPDATE entry SET outcome_seq = 6 WHERE idem_key = 'a'",
    "an entry gone": "DELETE FROM entry WHERE idem_key = 'c'",
    "the head": "UPDATE meta SET value = replace(value, '\"seq\":\"1', '\"seq\":\"2') WHERE key = 'head'",
    "the identity": "UPDATE meta SET value = 'x' WHERE key = 'ledger_id'",
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "budget.db"
    with open_ledger(path) as ledger:
        fill(ledger)
    return path


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_an_edit_is_seen(filled: Path, tmp_path: Path, edit: str) -> None:
    with open_ledger(shutil.copy(filled, tmp_path)) as ledger:
        assert ledger.verify().ok
        tamper(ledger, edit)
        verification = ledger.verify()
    assert not verification.ok
    assert "NOT intact" in str(verification)


@pytest.mark.postgres
def test_the_same_edits_are_seen_in_postgresql(postgres_address: str) -> None:
    with open_ledger(postgres_address) as ledger:
        fill(ledger)
        assert ledger.verify().ok
        tables = ("event", "entry", "scope", "meta")
        tamper(ledger, *(f"CREATE TABLE kept_{table} AS TABLE {table}" for table in tables))
        for name, edit in EDITS.items():
            tamper(ledger, edit)
            assert not ledger.verify().ok, name
            tamper(
                ledger,
                *(f"DELETE FROM {table}" for table in tables),
                *(f"INSERT INTO {table} SELECT * FROM kept_{table}" for table in tables),
            )
            assert ledger.verify().ok, name


def test_an_intact_ledger_reads_well(filled: Path) -> None:
    with open_ledger(filled) as ledger:
        verification = ledger.verify()
        assert str(verification).startswith("the ledger is intact: 15 events, 5 entries, 3 scopes, head ")
        assert verification.head == ledger.head()


def test_missing_changed_and_foreign_triggers_are_seen(tmp_path: Path, filled: Path) -> None:
    weak = "CREATE TRIGGER event_update BEFORE UPDATE ON event WHEN 1 = 0 BEGIN SELECT 1; END"
    foreign = "CREATE TRIGGER spy AFTER INSERT ON event BEGIN UPDATE scope SET totals = '{}'; END"
    for statements in (["DROP TRIGGER event_update"], ["DROP TRIGGER event_update", weak], [foreign]):
        with open_ledger(shutil.copy(filled, tmp_path)) as ledger:
            connection = sqlite3.connect(str(ledger.place.path))
            for statement in statements:
                connection.execute(statement)
            connection.commit()
            connection.close()
            (problem,) = ledger.verify().problems
            assert "trigger" in problem


@pytest.mark.postgres
def test_a_trigger_switched_off_in_postgresql_is_seen(postgres_address: str) -> None:
    with open_ledger(postgres_address) as ledger:
        with ledger.store.write() as transaction:
            transaction.define("ALTER TABLE event DISABLE TRIGGER event_update")
        assert ledger.verify().problems == ("the trigger event_update is missing, changed or switched off",)


def test_a_stale_backup(tmp_path: Path) -> None:
    """Trap 17: the chain of an older copy is intact; only the head that a release carries gives it away."""
    path, backup = tmp_path / "budget.db", tmp_path / "backup.db"
    with open_ledger(path) as ledger:
        fill(ledger)
    shutil.copy(path, backup)
    with open_ledger(path) as ledger:
        result = ledger.scope("people").reserve(Claims.of(PureDP("0.1")), request={"kind": "x"}, key="later")
        assert isinstance(result, Reservation)
        head = result.release("the latest release")
        assert ledger.verify(expect_head=head).ok
    with open_ledger(backup) as ledger:
        assert ledger.verify().ok
        (problem,) = ledger.verify(expect_head=head).problems
        assert "older copy" in problem
        with pytest.raises(LedgerError, match="64 hexadecimal"):
            ledger.verify(expect_head="yesterday")


def test_an_earlier_head_is_still_expected_later(file_ledger: Ledger) -> None:
    head = fill(file_ledger)
    file_ledger.open_scope("more", budget=PureDP(1))
    assert file_ledger.verify(expect_head=head).ok


def rewritten(
    events: list[LedgerEvent], change: Callable[[LedgerEvent], LedgerEvent], key: bytes | None = None
) -> list[LedgerEvent]:
    """Forge a whole chain: change events, sign the totals that they amount to, and hash everything anew."""
    result: list[LedgerEvent] = []
    for event in map(change, events):
        prev = result[-1].hash if result else "0" * 64
        names = ("seq", "at_utc", "kind", "scope_id", "entry_id")
        fields: dict[str, Any] = {name: getattr(event, name) for name in names}
        fields |= {"body": event.content, "prev_hash": prev, "key": key}
        books = digest_of(replay([*result, chained(**fields)], key=key).rows)
        result.append(chained(**fields, books=books))
    return result


def body_change(kind: str, edit: Callable[[dict[str, Json]], None]) -> Callable[[LedgerEvent], LedgerEvent]:
    def change(event: LedgerEvent) -> LedgerEvent:
        if event.kind != kind:
            return event
        body = event.content
        edit(body)
        return replace(event, body=canonical(body))

    return change


def cheaper(body: dict[str, Json]) -> None:
    for share in body["charges"]:  # type: ignore[union-attr]
        share["charge"]["epsilon"] = "1"  # type: ignore[index, call-overload]


def without_parent(body: dict[str, Json]) -> None:
    body["charges"] = [share for share in body["charges"] if share["scope_id"] != "all"]  # type: ignore[index, union-attr, call-overload]


def other_unit(body: dict[str, Json]) -> None:
    for share in body["charges"]:  # type: ignore[union-attr]
        share["claims"][0]["unit"] = "event"  # type: ignore[index, call-overload]


def bigger(body: dict[str, Json]) -> None:
    body["rule"]["capacities"]["basic"] = str(9 * 10**30)  # type: ignore[index, call-overload]


FORGERIES = {
    "a smaller charge": body_change("reserve", cheaper),
    "a smaller external charge": body_change("import", cheaper),
    "the parent left out": body_change("reserve", without_parent),
    "nothing charged": body_change("reserve", lambda body: body.update(charges=[])),
    "another unit": body_change("reserve", other_unit),
    "a bigger capacity": body_change("scope", bigger),
    "an attempt skipped": body_change("reserve", lambda body: body.update(attempt="2")),
    "a key twice": body_change("reserve", lambda body: body.update(idem_key="a")),
    "a telling reason": body_change("fail", lambda body: body.update(reason="KeyError: Ann")),
    "a field more": body_change("refuse", lambda body: body.update(seconds="3.2")),
    "the run time": lambda event: (
        replace(event, at_utc="2026-01-01T00:00:00.000000Z") if event.kind == "release" else event
    ),
    "two outcomes": lambda event: (
        replace(event, kind="fail", body='{"reason":"failed"}', entry_id=None) if event.kind == "refuse" else event
    ),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forged_chain_that_breaks_a_rule_is_seen(filled: Path, change: Callable[[LedgerEvent], LedgerEvent]) -> None:
    with open_ledger(filled) as ledger:
        events = ledger.events()
    assert replay(rewritten(events, lambda event: event), key=None).problems == []
    assert replay(rewritten(events, change), key=None).problems


def test_overspending_in_the_events_is_seen(filled: Path) -> None:
    """I1: every prefix satisfies the rule."""
    with open_ledger(filled) as ledger:
        events = ledger.events()

    def dearer(body: dict[str, Json]) -> None:
        for share in body["charges"]:  # type: ignore[union-attr]
            share["claims"][0]["epsilon"] = "0.3"  # type: ignore[index, call-overload]
            share["charge"]["epsilon"] = str(3 * 10**29)  # type: ignore[index, call-overload]

    problems = replay(rewritten(events, body_change("reserve", dearer)), key=None).problems
    assert any("overspends the scope 'people'" in problem for problem in problems)


def test_a_lawful_forgery_is_seen_with_a_key_or_an_expected_head_only(tmp_path: Path) -> None:
    """The limit of a plain chain: a full rewrite, detected by key or head only."""

    def smaller(body: dict[str, Json]) -> None:
        for share in body["charges"]:  # type: ignore[union-attr]
            share["claims"][0]["epsilon"] = "0.01"  # type: ignore[index, call-overload]
            for name in share["charge"]:  # type: ignore[index, call-overload, union-attr]
                share["charge"][name] = str(10**28)  # type: ignore[index, call-overload]

    for key in (None, KEY):
        with open_ledger(tmp_path / f"{key is None}.db", key=key) as ledger:
            head = fill(ledger)
            events = ledger.events()
        forged = rewritten(events, body_change("reserve", smaller))
        history = replay(forged, key=key)
        assert bool(history.problems) == (key is not None)
        assert head not in history.hashes


def test_claims_understated_for_their_request_are_seen(file_ledger: Ledger) -> None:
    """I8: with the function that prices a request, verify compares."""
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    for epsilon, stated in (("0.2", "0.2"), ("0.3", "0.1")):
        scope.reserve(Claims.of(PureDP(stated)), request={"kind": "count", "epsilon": epsilon})

    def price(request: Mapping[str, Json]) -> Claims | None:
        return Claims.of(PureDP(str(request["epsilon"]))) if request["kind"] == "count" else None

    assert file_ledger.verify().ok
    (problem,) = file_ledger.verify(rederive=price).problems
    assert "less than the stored request costs" in problem
