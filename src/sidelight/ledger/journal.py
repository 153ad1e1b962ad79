"""Reading and appending the events of a ledger's chain inside an open transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sidelight.errors import LedgerError
from sidelight.ledger.canonical import canonical, read
from sidelight.ledger.chain import Event, Kind, chained
from sidelight.ledger.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from sidelight.ledger.store import Transaction

_COLUMNS: Final = "seq, at_utc, kind, scope_id, entry_id, body, prev_hash, hash"


def lock_head(transaction: Transaction) -> tuple[int, str]:
    """Lock the end of the chain and return (seq, hash) of the last event.

    Every writer comes by here, so this is also where a process notices that a newer one has migrated the ledger under
    its feet; a migration takes this lock, so afterwards the version cannot change.
    """
    suffix = " FOR NO KEY UPDATE" if transaction.dialect == "postgresql" else ""
    row = transaction.row(f"SELECT value FROM meta WHERE key = 'head'{suffix}")
    head = None if row is None else read(row[0])
    if not isinstance(head, dict):
        raise LedgerError("the ledger has no head; it is damaged: run `sidelight ledger verify`")
    if transaction.row("SELECT value FROM meta WHERE key = 'schema'") != (SCHEMA_VERSION,):
        raise LedgerError(
            f"the ledger has no longer schema {SCHEMA_VERSION}: a newer version of sidelight has migrated it while it "
            "was open here; nothing was written. Upgrade sidelight"
        )
    return int(str(head["seq"])), str(head["hash"])


def append(
    transaction: Transaction,
    *,
    kind: Kind,
    at_utc: str,
    body: Mapping[str, object],
    key: bytes | None,
    scope_id: str | None = None,
    entry_id: str | None = None,
) -> Event:
    """Append one event to the chain whose head the caller has locked."""
    seq, head = lock_head(transaction)
    event = chained(
        seq=seq + 1,
        at_utc=at_utc,
        kind=kind,
        scope_id=scope_id,
        entry_id=entry_id,
        body=body,
        prev_hash=head,
        key=key,
    )
    insert_event(transaction, event)
    transaction.run(
        "UPDATE meta SET value = :value WHERE key = 'head'",
        value=canonical({"hash": event.hash, "seq": str(event.seq)}),
    )
    return event


def insert_event(transaction: Transaction, event: Event) -> None:
    """Write the row of an event."""
    transaction.run(
        f"INSERT INTO event ({_COLUMNS}) VALUES (:seq, :at_utc, :kind, :scope_id, :entry_id, :body, :prev_hash, :hash)",
        **vars(event),
    )


def event_at(transaction: Transaction, seq: int) -> Event:
    """Return one event."""
    row = transaction.row(f"SELECT {_COLUMNS} FROM event WHERE seq = :seq", seq=seq)
    if row is None:
        raise LedgerError(f"event {seq} is missing; run `sidelight ledger verify`")
    return event_from_row(row)


def each_event(transaction: Transaction) -> Iterator[Event]:
    """Go through the whole history in order."""
    for row in transaction.each(f"SELECT {_COLUMNS} FROM event ORDER BY seq"):
        yield event_from_row(row)


def event_from_row(row: Sequence[object]) -> Event:
    """Build an event from the columns of its row."""
    seq, at_utc, kind, scope_id, entry_id, body, prev_hash, digest = row
    return Event(
        seq=int(str(seq)),
        at_utc=str(at_utc),
        kind=str(kind),
        scope_id=None if scope_id is None else str(scope_id),
        entry_id=None if entry_id is None else str(entry_id),
        body=str(body),
        prev_hash=str(prev_hash),
        hash=str(digest),
    )
