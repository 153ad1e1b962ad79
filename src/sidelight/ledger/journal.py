"""Reading and appending the events of a ledger's chain inside an open transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sidelight.errors import LedgerError
from sidelight.ledger.canonical import canonical, read
from sidelight.ledger.chain import Event, Kind, chained
from sidelight.ledger.schema import FIRST_SIGNED, SCHEMA_VERSION

if TYPE_CHECKING:
    from sidelight.ledger.transaction import Transaction

_COLUMNS: Final = "seq, at_utc, kind, scope_id, entry_id, body, prev_hash, hash, books"
_newest: dict[str, tuple[int, str]] = {}  # of each ledger, by its identity: the newest event that this process knows of


def lock_head(transaction: Transaction) -> tuple[int, str]:
    """Lock the end of the chain and return (seq, hash) of the last event.

    Every writer comes by here, so this is also where a process notices that a newer one has migrated the ledger under
    its feet; a migration takes this lock, so afterwards the version cannot change. And it notices here that an older
    copy of the ledger, or another one, stands in the place of the one that it has written or seen.
    """
    suffix = " FOR NO KEY UPDATE" if transaction.dialect == "postgresql" else ""
    row = transaction.row(f"SELECT value FROM meta WHERE key = 'head'{suffix}")
    head = None if row is None else read(row[0])
    if not isinstance(head, dict):
        raise LedgerError("the ledger has no head; it is damaged: run `sidelight ledger verify`")
    identity: dict[str, str] = dict(
        transaction.rows("SELECT key, value FROM meta WHERE key IN ('schema', 'ledger_id')")
    )
    if identity.get("schema") != SCHEMA_VERSION:
        raise LedgerError(
            f"the ledger has no longer schema {SCHEMA_VERSION}: a newer version of sidelight has migrated it while it "
            "was open here; nothing was written. Upgrade sidelight"
        )
    found = int(str(head["seq"])), str(head["hash"])
    if transaction.head is None:
        ledger_id = transaction.ledger_id or str(identity.get("ledger_id"))
        _check_not_older(transaction, ledger_id)
        transaction.head = (ledger_id, *found)
    return found


def remember_head(transaction: Transaction) -> None:
    """Note, after the commit, how far the ledger's history went."""
    if transaction.head is not None:
        ledger_id, seq, head = transaction.head
        _newest[ledger_id] = max(_newest.get(ledger_id, (-1, "")), (seq, head))


def _check_not_older(transaction: Transaction, ledger_id: str) -> None:
    seq, head = _newest.get(ledger_id, (-1, ""))
    if seq >= 0 and transaction.row("SELECT hash FROM event WHERE seq = :seq", seq=seq) != (head,):
        raise LedgerError(
            f"this process has seen event {seq} of the ledger with the head {head[:12]}..., and this file or database "
            "does not hold it: it is an older copy, or events were cut off, and spending from it would spend again "
            "what is spent. Nothing was granted; use the newest copy (`sidelight ledger verify --expect-head`)"
        )


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
    """Append one event to the chain whose head the caller has locked.

    It signs the scopes' rows as they are: a caller that changes them does so before, with the next event's number.
    """
    scopes = transaction.scopes
    if scopes is None:
        raise LedgerError("an event signs the scopes' rows, and nobody has looked at them; nothing was written")
    seq, head = lock_head(transaction)
    event = chained(
        seq=seq + 1,
        at_utc=at_utc,
        kind=kind,
        scope_id=scope_id,
        entry_id=entry_id,
        body=body,
        prev_hash=head,
        books=scopes.digest(),
        key=key,
    )
    insert_event(transaction, event)
    transaction.run(
        "UPDATE meta SET value = :value WHERE key = 'head'",
        value=canonical({"hash": event.hash, "seq": str(event.seq)}),
    )
    if transaction.head is not None:
        transaction.head = (transaction.head[0], event.seq, event.hash)
    return event


def insert_event(transaction: Transaction, event: Event) -> None:
    """Write the row of an event."""
    transaction.run(
        f"INSERT INTO event ({_COLUMNS})"
        " VALUES (:seq, :at_utc, :kind, :scope_id, :entry_id, :body, :prev_hash, :hash, :books)",
        **vars(event),
    )


def event_at(transaction: Transaction, seq: int, *, schema: int = FIRST_SIGNED) -> Event:
    """Return one event, also of a ledger that is about to be migrated."""
    columns = _COLUMNS if schema >= FIRST_SIGNED else _COLUMNS.replace("books", "NULL")
    row = transaction.row(f"SELECT {columns} FROM event WHERE seq = :seq", seq=seq)
    if row is None:
        raise LedgerError(f"event {seq} is missing; run `sidelight ledger verify`")
    return event_from_row(row)


def each_event(transaction: Transaction) -> Iterator[Event]:
    """Go through the whole history in order."""
    for row in transaction.each(f"SELECT {_COLUMNS} FROM event ORDER BY seq"):
        yield event_from_row(row)


def event_from_row(row: Sequence[object]) -> Event:
    """Build an event from the columns of its row."""
    seq, at_utc, kind, scope_id, entry_id, body, prev_hash, digest, books = row
    return Event(
        seq=int(str(seq)),
        at_utc=str(at_utc),
        kind=str(kind),
        scope_id=None if scope_id is None else str(scope_id),
        entry_id=None if entry_id is None else str(entry_id),
        body=str(body),
        prev_hash=str(prev_hash),
        hash=str(digest),
        books=None if books is None else str(books),
    )
