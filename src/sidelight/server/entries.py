"""What a server asks the ledger beyond entries by key: the key of an entry, and how many entries failed."""

from __future__ import annotations

from sidelight.ledger import Ledger


def key_of_entry(ledger: Ledger, scope_id: str, entry_id: str) -> str | None:
    """Return the key of an entry of a scope, by the entry's id."""
    with ledger.store.read() as transaction:
        row = transaction.row(
            "SELECT idem_key FROM entry WHERE entry_id = :entry_id AND scope_id = :scope_id",
            entry_id=entry_id,
            scope_id=scope_id,
        )
    return None if row is None else str(row[0])


def failures_of(ledger: Ledger, scope_id: str, *, since: str) -> int:
    """Return how many entries of a scope failed whose slots began at or after a time."""
    with ledger.store.read() as transaction:
        row = transaction.row(
            "SELECT COUNT(*) FROM entry JOIN event ON event.seq = entry.reserve_seq"
            " WHERE entry.scope_id = :scope_id AND entry.state = 'failed' AND event.at_utc >= :since",
            scope_id=scope_id,
            since=since,
        )
    return 0 if row is None else int(row[0])
