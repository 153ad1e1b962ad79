"""The totals by which a request is decided are those that the newest event signs, on both stores."""

from __future__ import annotations

import sqlite3
import warnings
from pathlib import Path
from typing import Any

import pytest

from sidelight.errors import BudgetError, LedgerDamagedError, LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation, Stored, journal, open_ledger
from sidelight.ledger.chain import event_from_line
from sidelight.ledger.schema import RememberedRows

KEY = bytes(range(32))
HALF = Claims.of(PureDP("0.5"))
SWITCHED_OFF = {
    "sqlite": ("DROP TRIGGER IF EXISTS {trigger}",),
    "postgresql": ("ALTER TABLE {table} DISABLE TRIGGER {trigger}",),
}
NOTHING = '{"closed":[],"delta_items":"0","epsilon":"0","mu_squared":"0","rho":"0"}'


@pytest.fixture
def spent(address: str) -> Any:
    """A keyed ledger with its budget exhausted."""
    with open_ledger(address, key=KEY) as ledger:
        ledger.open_scope("everybody", budget=PureDP(2))
        scope = ledger.open_scope("people", budget=PureDP(1), parent="everybody")
        for _ in range(2):
            reservation = scope.reserve(HALF, request={"kind": "x"})
            assert isinstance(reservation, Reservation)
            reservation.release("text")
        with pytest.raises(BudgetError):
            scope.reserve(HALF, request={"kind": "x"})
        yield ledger


def meddle(ledger: Ledger, *statements: str) -> None:
    """Write to the database directly, as its owner can."""
    with ledger.store.write() as transaction:
        for table, action in (("scope", "update"), ("event", "delete"), ("meta", "update"), ("event", "update")):
            for statement in SWITCHED_OFF[transaction.dialect]:
                transaction.define(statement.format(table=table, trigger=f"{table}_{action}"))
        for statement in statements:
            transaction.define(statement)


def older_row(ledger: Ledger, name: str) -> str:
    """Return the statement that puts back the row that a scope had after the first charge, with its event's number."""
    first = next(event.seq for event in ledger.events() if event.kind == "release")
    half = ledger.scope(name).totals().epsilon // 2
    return (
        f"UPDATE scope SET totals = replace(totals, '{2 * half}', '{half}'), head_seq = {first} "
        f"WHERE scope_id = '{name}'"
    )


MEDDLING = {
    "totals zeroed": lambda ledger: ["UPDATE scope SET totals = replace(totals, '1000000', '0000000')"],
    "an older row": lambda ledger: [older_row(ledger, "people"), older_row(ledger, "everybody")],
    "a budget": lambda ledger: ["UPDATE scope SET budget = replace(budget, '\"1\"', '\"9\"')"],
    "a rule": lambda ledger: ["UPDATE scope SET routes = replace(routes, '1000000', '9000000')"],
    "no parent": lambda ledger: ["UPDATE scope SET parent_id = NULL"],
    "the newest event's digest": lambda ledger: ["UPDATE event SET books = NULL"],
    "the head": lambda ledger: ['UPDATE meta SET value = replace(value, \'"seq":"6"\', \'"seq":"4"\')'],
    "the newest event gone": lambda ledger: ["DELETE FROM event WHERE seq = 6"],
}


@pytest.mark.parametrize("name", MEDDLING)
@pytest.mark.parametrize("again", [False, True], ids=["open", "opened again"])
def test_a_row_that_was_meddled_with_grants_nothing(
    spent: Ledger, address: str, name: str, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.endswith("gone"):
        statements = ["UPDATE entry SET state = 'reserved', outcome_seq = NULL WHERE outcome_seq = 6"]
        meddle(spent, "DROP TRIGGER entry_update" + ("" if spent.place.path else " ON entry"), *statements)
    before = len(spent.events())
    statements = MEDDLING[name](spent)
    meddle(spent, *statements)
    monkeypatch.setattr(journal, "_newest", {})  # as in a process that has never seen this ledger

    def ask() -> None:
        ledger = open_ledger(address, key=KEY) if again else spent
        ledger.scope("people").reserve(HALF, request={"kind": "x"})

    with pytest.raises(LedgerError) as refused:
        ask()
    assert not isinstance(refused.value, BudgetError)
    with pytest.raises(LedgerError):
        open_ledger(address, key=KEY).open_scope("more", budget=PureDP(1))
    assert len(spent.events()) == before - name.endswith("gone")
    assert not spent.verify().ok


@pytest.mark.parametrize("name", ["totals zeroed", "an older row", "a budget", "a rule", "no parent"])
def test_a_row_that_was_changed_is_never_signed(spent: Ledger, address: str, name: str) -> None:
    """A store remembers rows that it does not read again: others may go on, and the changed ones stay refused."""
    meddle(spent, *MEDDLING[name](spent))
    other = spent.open_scope("other people", budget=PureDP(1))
    other.reserve(HALF, request={"kind": "x"})
    with pytest.raises(LedgerDamagedError):
        spent.scope("people").reserve(HALF, request={"kind": "x"})
    with open_ledger(address, key=KEY) as fresh, pytest.raises(LedgerDamagedError):
        fresh.scope("other people").reserve(HALF, request={"kind": "x"})
    assert not spent.verify().ok


def test_what_is_remembered_needs_no_trust(spent: Ledger) -> None:
    """Wrong digests lead to reading all rows, never to signing something else."""
    known = spent.store._known
    assert known is not None
    scope = spent.open_scope("more", budget=PureDP(1))
    for seq, digests in (
        (known.seq, {**known.digests, "people": "0" * 64}),
        (10**6, known.digests),
        (-1, {"nobody": "0" * 64}),
    ):
        spent.store._known = RememberedRows(seq, digests, journal.digest_of(digests))
        scope.reserve(Claims.of(PureDP("0.1")), request={"kind": "x"})
        with pytest.raises(BudgetError):
            spent.scope("people").reserve(HALF, request={"kind": "x"})
    assert spent.verify().ok


def test_a_ledger_whose_end_was_cut_off_is_known_to_the_process_that_wrote_it(address: str) -> None:
    """A ledger truncated with its head: an older copy, refused by readers of later ones."""
    with open_ledger(address, key=KEY) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
        tables = ("scope", "entry", "event", "meta")
        with ledger.store.write() as transaction:
            for table in tables:
                transaction.define(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")
        ledger.scope("people").reserve(HALF, request={"kind": "x"})
        meddle(
            ledger,
            *(
                f"DROP TRIGGER {table}_delete" + ("" if ledger.place.path else f" ON {table}")
                for table in ("scope", "entry", "meta")
            ),
            *(f"DROP TRIGGER {table}_insert" + ("" if ledger.place.path else f" ON {table}") for table in tables),
            *(f"DELETE FROM {table}" for table in ("entry", "event", "scope", "meta")),
            *(f"INSERT INTO {table} SELECT * FROM kept_{table}" for table in ("meta", "scope", "event", "entry")),
        )
        with pytest.raises(LedgerError, match="does not hold it: it is an older copy"):
            ledger.scope("people").reserve(HALF, request={"kind": "x"})


def test_every_event_signs_and_every_wrong_signature_is_a_problem(spent: Ledger) -> None:
    events = spent.events()
    assert all(event.books for event in events)
    assert len({event.books for event in events}) == len(events)
    assert [event_from_line(event.to_line()) for event in events] == events
    meddle(spent, "UPDATE event SET books = (SELECT books FROM event AS first WHERE first.seq = 0) WHERE seq = 3")
    problems = spent.verify().problems
    assert any("event 3" in problem and "does not sign" in problem for problem in problems)
    assert any("event 3 was changed" in problem for problem in problems)


@pytest.fixture
def path_of_schema_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of schema 1, as the version before wrote it (with a key), in a process that has not seen it."""
    monkeypatch.setattr(journal, "_newest", {})
    path = tmp_path / "budget.db"
    connection = sqlite3.connect(path)
    connection.executescript((Path(__file__).parent / "schema_1.sql").read_text(encoding="utf-8"))
    connection.close()
    return path


def test_a_ledger_of_schema_1_is_brought_up_to_date_and_signs_from_then_on(
    path_of_schema_1: Path, tmp_path: Path
) -> None:
    with pytest.warns(UserWarning, match="from schema 1 to 2"):
        ledger = open_ledger(path_of_schema_1, key=KEY)
    with ledger:
        events = ledger.events()
        assert [event.books is None for event in events] == [True] * 8 + [False]
        scope = ledger.scope("people")
        assert scope.totals().epsilon == 6 * 10**29
        assert isinstance(scope.reserve(Claims.of(PureDP("0.3")), request={"kind": "x"}, key="before"), Stored)
        assert isinstance(scope.reserve(Claims.of(PureDP("0.4")), request={"kind": "w"}), Reservation)
        with pytest.raises(BudgetError):
            scope.reserve(Claims.of(PureDP("0.1")), request={"kind": "w"})
        assert ledger.verify(expect_head=events[4].hash).ok
        ledger.export(tmp_path / "history.jsonl")
    with open_ledger(tmp_path / "other.db") as other:
        for name in ("everybody", "people"):
            other.open_scope(name, budget=PureDP(2), parent="everybody" if name == "people" else None)
        into = {"people": "people"}
        assert other.import_events(tmp_path / "history.jsonl", key=KEY, into=into).booked == 4


def test_a_ledger_of_schema_1_with_other_totals_is_not_brought_up_to_date(path_of_schema_1: Path) -> None:
    connection = sqlite3.connect(path_of_schema_1)
    connection.execute("UPDATE scope SET totals = replace(totals, '600000', '000000')")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match=r"would not be intact: .*totals"):
        open_ledger(path_of_schema_1, key=KEY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(LedgerError):
            open_ledger(path_of_schema_1, key=KEY)
