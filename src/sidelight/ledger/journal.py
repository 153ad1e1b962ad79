"""The journal inside an open transaction: reading and appending events, and the rows of the scopes that they sign.

Every event carries a digest of all scopes' rows (definitions, totals, last events) as they are after it, and the chain
covers the digest, with the key of a ledger that has one. The deciding transaction compares them before it trusts a
total or a budget: writing a smaller total into the table needs a new event, and that needs the key. The digest is over
all scopes, because an older row of one scope would fit an older event of that scope. Cutting off the newest events
makes an older copy of the ledger, which `lock_head` and `verify --expect-head` detect.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sidelight.errors import LedgerError
from sidelight.ledger.chain import Kind, LedgerEvent, canonical, chained, event_hash, read
from sidelight.ledger.schema import FIRST_SIGNED, SCHEMA_VERSION

if TYPE_CHECKING:
    from sidelight.ledger.definition import ScopeDefinition
    from sidelight.ledger.schema import Transaction

_COLUMNS: Final = "seq, at_utc, kind, scope_id, entry_id, body, prev_hash, hash, books"
_newest: dict[str, tuple[int, str]] = {}  # of each ledger, by its identity: the newest event that this process knows of
#: What never changes of a scope, as the table has it; `totals` and `head_seq` follow.
DEFINITION_COLUMNS: Final = "scope_id, parent_id, unit, neighbours, budget, routes"
_PREFIX: Final = b"sidelight-scopes\n"


def lock_head(transaction: Transaction) -> tuple[int, str]:
    """Lock the end of the chain and return (seq, hash) of the last event.

    Every writer calls this, so here a process detects that a newer version has migrated the ledger (a migration takes
    this lock, so the version cannot change afterwards), and that the ledger was replaced by an older copy or another.
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
) -> LedgerEvent:
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


def insert_event(transaction: Transaction, event: LedgerEvent) -> None:
    """Write the row of an event."""
    transaction.run(
        f"INSERT INTO event ({_COLUMNS})"
        " VALUES (:seq, :at_utc, :kind, :scope_id, :entry_id, :body, :prev_hash, :hash, :books)",
        **vars(event),
    )


def event_at(transaction: Transaction, seq: int, *, schema: int = FIRST_SIGNED) -> LedgerEvent:
    """Return one event, also of a ledger that is about to be migrated."""
    columns = _COLUMNS if schema >= FIRST_SIGNED else _COLUMNS.replace("books", "NULL")
    row = transaction.row(f"SELECT {columns} FROM event WHERE seq = :seq", seq=seq)
    if row is None:
        raise LedgerError(f"event {seq} is missing; run `sidelight ledger verify`")
    return event_from_row(row)


def newest_hash(transaction: Transaction) -> str:
    """Return the hash of the last event, or an empty text if there is none."""
    row = transaction.row("SELECT hash FROM event ORDER BY seq DESC LIMIT 1")
    return str(row[0] if row else "")


def each_event(transaction: Transaction) -> Iterator[LedgerEvent]:
    """Go through the whole history in order."""
    for row in transaction.each(f"SELECT {_COLUMNS} FROM event ORDER BY seq"):
        yield event_from_row(row)


def event_from_row(row: Sequence[object]) -> LedgerEvent:
    """Build an event from the columns of its row."""
    seq, at_utc, kind, scope_id, entry_id, body, prev_hash, digest, books = row
    return LedgerEvent(
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


def row_digest(columns: Mapping[str, str | None], *, totals: str, head_seq: int) -> str:
    """Return the digest of one scope's row: each column with its length before it, so that two rows differ in text."""
    fields = (*columns.values(), totals, str(head_seq))
    text = "".join("-" if field is None else f"{len(field)}:{field}" for field in fields)
    return hashlib.sha256(_PREFIX + text.encode()).hexdigest()


def digest_of(digests: Mapping[str, str]) -> str:
    """Return what an event carries: the digest of all rows' digests, in the order of the scopes' names.

    >>> digest_of({})[:16]
    'f2f34c4f5e272b23'
    """
    joined = "".join(digests[name] for name in sorted(digests))
    return hashlib.sha256(_PREFIX + joined.encode()).hexdigest()


class SignedScopes:
    """The scopes' rows inside one transaction; every change goes through here, to the table and to the digest."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._columns: dict[str, dict[str, str | None]] = {}
        self._totals: dict[str, str] = {}
        self._digests: dict[str, str] = {}
        names = DEFINITION_COLUMNS.split(", ")
        for row in transaction.rows(f"SELECT {DEFINITION_COLUMNS}, totals, head_seq FROM scope"):
            self._keep(dict(zip(names, row, strict=False)), totals=row[-2], head_seq=row[-1])

    def digest(self) -> str:
        """Return the digest of the rows as they are now."""
        return digest_of(self._digests)

    def columns(self, scope_id: str) -> dict[str, str | None] | None:
        """Return what the table says of a scope's definition, or None if there is no such scope."""
        return self._columns.get(scope_id)

    def totals(self, scope_id: str) -> str:
        """Return the stored totals of a scope."""
        return self._totals[scope_id]

    def insert(self, definition: ScopeDefinition, *, totals: str, seq: int) -> None:
        """Write the row of a new scope, which event `seq` creates."""
        columns = definition.to_columns()
        self._transaction.run(
            f"INSERT INTO scope ({DEFINITION_COLUMNS}, totals, head_seq)"
            " VALUES (:scope_id, :parent_id, :unit, :neighbours, :budget, :routes, :totals, :seq)",
            **columns,
            totals=totals,
            seq=seq,
        )
        self._keep(columns, totals=totals, head_seq=seq)

    def update(self, scope_id: str, *, seq: int, totals: str | None = None) -> None:
        """Write that event `seq` concerns a scope, and its new totals if they change."""
        totals = self._totals[scope_id] if totals is None else totals
        self._transaction.run(
            "UPDATE scope SET totals = :totals, head_seq = :seq WHERE scope_id = :scope_id",
            totals=totals,
            seq=seq,
            scope_id=scope_id,
        )
        self._keep(self._columns[scope_id], totals=totals, head_seq=seq)

    def _keep(self, columns: dict[str, str | None], *, totals: str, head_seq: int) -> None:
        name = str(columns["scope_id"])
        self._columns[name], self._totals[name] = columns, totals
        self._digests[name] = row_digest(columns, totals=totals, head_seq=head_seq)


def signed_scopes(transaction: Transaction, *, key: bytes | None) -> SignedScopes:
    """Lock the head and return all scopes, or refuse if they are not what the newest event signs.

    Once compared they stay in the transaction's memory: what somebody writes past the locks meanwhile is never signed.
    """
    if isinstance(transaction.scopes, SignedScopes):
        return transaction.scopes
    seq, head = lock_head(transaction)
    newest: Any = transaction.row("SELECT MAX(seq) FROM event")
    event = event_at(transaction, seq)
    scopes = SignedScopes(transaction)
    genuine = event.hash == head and hmac.compare_digest(head.encode(), event_hash(event, key=key).encode())
    if newest != (seq,) or not genuine or event.books != scopes.digest():
        raise LedgerError(
            "the totals or budgets in the ledger's tables are not those that its newest event signs: somebody changed "
            "them, or cut events off. Nothing was granted; run `sidelight ledger verify`, and restore a backup that "
            "passes `--expect-head` with the head of your newest release"
        )
    transaction.scopes = scopes
    return scopes
