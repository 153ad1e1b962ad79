"""Verification: everything a ledger stores, against what its events amount to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sidelight.errors import LedgerError
from sidelight.ledger.canonical import canonical
from sidelight.ledger.chain import checked_head, identity_of
from sidelight.ledger.journal import each_event
from sidelight.ledger.replay import Rederive, Replay, replay
from sidelight.ledger.schema import SCHEMA_VERSION, trigger_names, trigger_statements

if TYPE_CHECKING:
    from sidelight.ledger.store import Store
    from sidelight.ledger.transaction import Transaction

__all__ = ["Rederive", "Verification", "verify_ledger"]


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The outcome of a verification. `problems` is empty if the ledger is what it says it is."""

    events: int
    entries: int
    scopes: int
    head: str
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        events = "1 event" if self.events == 1 else f"{self.events} events"
        entries = "1 entry" if self.entries == 1 else f"{self.entries} entries"
        scopes = "1 scope" if self.scopes == 1 else f"{self.scopes} scopes"
        size = f"{events}, {entries}, {scopes}, head {self.head[:12]}"
        if self.ok:
            return f"the ledger is intact: {size}"
        return "\n".join([f"the ledger is NOT intact ({size}):", *(f"  {problem}" for problem in self.problems)])


def verify_ledger(
    store: Store, *, key: bytes | None, expect_head: str | None = None, rederive: Rederive | None = None
) -> Verification:
    """Replay the events and compare every table with the result, in one consistent view."""
    if expect_head is not None:
        checked_head(expect_head)
    with store.read() as transaction:
        history, problems = _compared(transaction, key=key, rederive=rederive)
    if expect_head is not None and expect_head not in history.hashes:
        problems.append(
            f"the expected head {expect_head[:12]}... is not in this ledger: it is an older copy, another ledger, or "
            "was written anew; what was spent since is forgotten here"
        )
    return Verification(
        events=0 if history.last is None else history.last.seq + 1,
        entries=len(history.entries),
        scopes=len(history.definitions),
        head="" if history.last is None else history.last.hash,
        problems=tuple(problems),
    )


def problems_in(transaction: Transaction, *, key: bytes | None) -> list[str]:
    """Verify the ledger as an open transaction sees it, its own changes included."""
    return _compared(transaction, key=key, rederive=None)[1]


def _compared(transaction: Transaction, *, key: bytes | None, rederive: Rederive | None) -> tuple[Replay, list[str]]:
    history = replay(each_event(transaction), key=key, rederive=rederive)
    return history, [*history.problems, *_differences(transaction, history)]


def _differences(transaction: Transaction, history: Replay) -> Iterator[str]:
    if transaction.dialect == "sqlite":
        for (text,) in transaction.rows("PRAGMA integrity_check"):
            if text != "ok":
                yield f"the database file is damaged: {text}"
    yield from _triggers(transaction)
    yield from _meta(transaction, history)
    yield from _scopes(transaction, history)
    yield from _entries(transaction, history)


def _triggers(transaction: Transaction) -> Iterator[str]:
    wanted = trigger_names(transaction.dialect)
    if transaction.dialect == "sqlite":
        texts = trigger_statements("sqlite")
        rows = transaction.rows("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        found = {name for name, sql in rows if texts.get(name) == sql}
    else:
        rows = transaction.rows(
            "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')"
            " AND tgrelid IN (to_regclass('meta'), to_regclass('scope'), to_regclass('event'), to_regclass('entry'))"
        )
        found = {name for (name,) in rows}
    for name in sorted(wanted - found):
        yield f"the trigger {name} is missing, changed or switched off"
    for name in sorted({row[0] for row in rows} - wanted):
        yield f"there is a foreign trigger {name}"


def _meta(transaction: Transaction, history: Replay) -> Iterator[str]:
    stored: dict[str, str] = dict(transaction.rows("SELECT key, value FROM meta"))
    if history.last is not None:
        head = canonical({"hash": history.last.hash, "seq": str(history.last.seq)})
        if stored.get("head") != head:
            yield "the stored head is not the last event: events were cut off or added"
    if history.genesis is not None:
        try:
            ledger_id = identity_of(history.genesis).ledger_id
        except LedgerError as error:
            yield str(error)
        else:
            if stored.get("ledger_id") != ledger_id:
                yield "the stored identity is not that of the first event"
        if not stored.get("schema") == history.schema == SCHEMA_VERSION:
            yield "the stored schema is not that of the first event and the migrations"


def _scopes(transaction: Transaction, history: Replay) -> Iterator[str]:
    rows = transaction.rows(
        "SELECT scope_id, parent_id, unit, neighbours, budget, routes, totals, head_seq FROM scope ORDER BY scope_id"
    )
    stored = {row[0]: row for row in rows}
    for name in sorted(stored.keys() ^ history.definitions.keys()):
        yield f"the scope {name!r} is in the table or in the events, not in both"
    for name in sorted(stored.keys() & history.definitions.keys()):
        columns = history.definitions[name].to_columns()
        if tuple(columns.values()) != tuple(stored[name][:6]):
            yield f"the definition of scope {name!r} is not that of its event"
        if stored[name][6] != canonical(history.books[name].to_json()):
            yield f"the totals of scope {name!r} are not those of its events"
        if stored[name][7] != history.last_seq[name]:
            yield f"the scope {name!r} names another last event than its history"


def _entries(transaction: Transaction, history: Replay) -> Iterator[str]:
    rows = transaction.rows(
        "SELECT entry_id, scope_id, idem_key, attempt, reserve_seq, outcome_seq, state FROM entry ORDER BY entry_id"
    )
    stored = {row[0]: tuple(row[1:]) for row in rows}
    for entry_id in sorted(stored.keys() ^ history.entries.keys()):
        yield f"the entry {entry_id} is in the table or in the events, not in both"
    for entry_id in sorted(stored.keys() & history.entries.keys()):
        told = history.entries[entry_id]
        wanted = (told.scope_id, told.key, told.attempt, told.reserve_seq, told.outcome_seq, told.state)
        if stored[entry_id] != wanted:
            yield f"the entry {entry_id} is not what its events say"
