"""The journal inside an open transaction: reading and appending events, and the rows of the scopes that they sign.

Every event carries a digest of all scopes' rows (definitions, totals, last events) as they are after it, and the chain
covers the digest, with the key of a ledger that has one. The deciding transaction compares them before it trusts a
total or a budget: writing a smaller total into the table needs a new event, and that needs the key. The digest is over
all scopes, because an older row of one scope would fit an older event of that scope. A store remembers the digests of
the rows, so that a transaction reads those that changed since and those that it asks for. What it remembers needs no
trust: with it, too, all digests together are what the newest event signs, or all rows are read. Cutting off the newest
events makes an older copy of the ledger, which `lock_head` and `verify --expect-head` detect.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sidelight.errors import LedgerDamagedError, LedgerError
from sidelight.ledger.chain import Kind, LedgerEvent, canonical, chained, event_hash, read
from sidelight.ledger.schema import FIRST_SIGNED, SCHEMA_VERSION, Question, RememberedRows

if TYPE_CHECKING:
    from sidelight.ledger.definition import ScopeDefinition
    from sidelight.ledger.schema import Transaction

_COLUMNS: Final = "seq, at_utc, kind, scope_id, entry_id, body, prev_hash, hash, books"
#: Number and hash of an event.
Head: TypeAlias = tuple[int, str]
_newest: dict[str, Head] = {}  # of each ledger, by its identity: the newest event that this process knows of
#: What never changes of a scope, as the table has it; `totals` and `head_seq` follow.
DEFINITION_COLUMNS: Final = "scope_id, parent_id, unit, neighbours, budget, routes"
_ROWS: Final = f"SELECT {DEFINITION_COLUMNS}, totals, head_seq FROM scope"
_HEAD: Final[Mapping[str, str]] = {
    "sqlite": "SELECT value FROM meta WHERE key = 'head'",
    "postgresql": "SELECT value FROM meta WHERE key = 'head' FOR NO KEY UPDATE",
}
_IDENTITY: Final = "SELECT key, value FROM meta WHERE key IN ('schema', 'ledger_id')"
_NEWEST: Final = f"SELECT {_COLUMNS} FROM event ORDER BY seq DESC LIMIT 1"
_PREFIX: Final = b"sidelight-scopes\n"
_NOT_SIGNED: Final = (
    "the totals or budgets in the ledger's tables are not those that its newest event signs: they were changed, or "
    "cut events off. Nothing was granted; run `sidelight ledger verify`, and restore a backup that passes "
    "`--expect-head` with the head of your newest release"
)


def lock_head(transaction: Transaction) -> tuple[int, str]:
    """Lock the end of the chain and return (seq, hash) of the last event.

    Every writer calls this, so here a process detects that a newer version has migrated the ledger (a migration takes
    this lock, so the version cannot change afterwards), and that the ledger was replaced by an older copy or another.
    Once locked, only this transaction moves it.
    """
    if transaction.head is not None:
        return transaction.head[1:]
    row = transaction.row(_HEAD[transaction.dialect])
    head = None if row is None else read(row[0])
    if not isinstance(head, dict):
        raise LedgerDamagedError("the ledger has no head; it is damaged: run `sidelight ledger verify`")
    identity: dict[str, str] = dict(transaction.rows(_IDENTITY))
    if identity.get("schema") != SCHEMA_VERSION:
        raise LedgerError(
            f"the ledger has no longer schema {SCHEMA_VERSION}: a newer version of sidelight has migrated it while it "
            "was open here; nothing was written. Upgrade sidelight"
        )
    found = int(str(head["seq"])), str(head["hash"])
    ledger_id = transaction.ledger_id or str(identity.get("ledger_id"))
    if (seen := seen_head(ledger_id)) is not None and seen != found:
        check_contains(transaction, seen)
    transaction.head, transaction.locked = (ledger_id, *found), found
    return found


def remember_head(transaction: Transaction) -> None:
    """Note, after the commit, how far the ledger's history went."""
    if transaction.head is not None:
        see_head(transaction.head[0], transaction.head[1:])


def see_head(ledger_id: str, head: Head) -> None:
    """Note a head of a ledger, which another process may have seen: from now on this one spends only where it is."""
    _newest[ledger_id] = max(_newest.get(ledger_id, head), head)


def seen_head(ledger_id: str) -> Head | None:
    """Return the newest head of a ledger that this process knows of."""
    return _newest.get(ledger_id)


def check_contains(transaction: Transaction, head: Head, *, known_from: str = "this process has seen") -> None:
    """Refuse a ledger without an event that was seen in it before."""
    seq, digest = head
    if transaction.row("SELECT hash FROM event WHERE seq = :seq", seq=seq) != (digest,):
        raise LedgerDamagedError(
            f"{known_from} event {seq} of the ledger with the head {digest[:12]}..., and this file or database "
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
        raise LedgerError("an event signs the scopes' rows, which were not read; nothing was written")
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
    transaction.later(
        "UPDATE meta SET value = :value WHERE key = 'head'",
        value=canonical({"hash": event.hash, "seq": str(event.seq)}),
    )
    if transaction.head is not None:
        transaction.head = (transaction.head[0], event.seq, event.hash)
    return event


def insert_event(transaction: Transaction, event: LedgerEvent) -> None:
    """Write the row of an event."""
    transaction.later(
        f"INSERT INTO event ({_COLUMNS})"
        " VALUES (:seq, :at_utc, :kind, :scope_id, :entry_id, :body, :prev_hash, :hash, :books)",
        **vars(event),
    )


def event_at(transaction: Transaction, seq: int, *, schema: int = FIRST_SIGNED) -> LedgerEvent:
    """Return one event, also of a ledger that is about to be migrated."""
    columns = _COLUMNS if schema >= FIRST_SIGNED else _COLUMNS.replace("books", "NULL")
    row = transaction.row(f"SELECT {columns} FROM event WHERE seq = :seq", seq=seq)
    if row is None:
        raise LedgerDamagedError(f"event {seq} is missing; run `sidelight ledger verify`")
    return event_from_row(row)


def newest_event(transaction: Transaction) -> tuple[int, str]:
    """Return number and hash of the last event; -1 and an empty text if there is none."""
    row = transaction.row("SELECT seq, hash FROM event ORDER BY seq DESC LIMIT 1")
    return (-1, "") if row is None else (int(row[0]), str(row[1]))


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


def _named(scope_ids: Iterable[str]) -> dict[str, str]:
    return {f"scope_{index}": name for index, name in enumerate(scope_ids)}


def _changed_since(known: RememberedRows | None, wanted: Sequence[str]) -> tuple[str, dict[str, object]]:
    """Return the condition of rows that changed since what is remembered, or that are asked for, and its values."""
    names = _named(wanted)
    among = f" OR scope_id IN ({', '.join(f':{name}' for name in names)})" if names else ""
    return f"head_seq > :since{among}", {"since": -1 if known is None else known.seq, **names}


def _columns_of(row: Sequence[Any]) -> dict[str, str | None]:
    return dict(zip(DEFINITION_COLUMNS.split(", "), row, strict=False))


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
    joined = "".join(map(digests.__getitem__, sorted(digests)))
    return hashlib.sha256(_PREFIX + joined.encode()).hexdigest()


def remembered(transaction: Transaction) -> RememberedRows | None:
    """Return what a store may remember of a transaction that was committed."""
    scopes, head = transaction.scopes, transaction.head
    return scopes.remembered(head[1]) if isinstance(scopes, SignedScopes) and head is not None else None


def look_at_rows(transaction: Transaction) -> RememberedRows:
    """Return the digests of all rows as a reader sees them, without a lock."""
    row = transaction.row("SELECT MAX(seq) FROM event")
    return SignedScopes(transaction).remembered(-1 if row is None or row[0] is None else int(row[0]))


class SignedScopes:
    """The scopes' rows inside one transaction; every change goes through here, to the table and to the digest.

    Rows that did not change since what is remembered of them are read when they are asked for, and compared.
    """

    def __init__(
        self, transaction: Transaction, *, known: RememberedRows | None = None, wanted: Sequence[str] = ()
    ) -> None:
        self._transaction = transaction
        self._columns: dict[str, dict[str, str | None]] = {}
        self._totals: dict[str, str] = {}
        self._digests: dict[str, str] = {} if known is None else dict(known.digests)
        self._whole = None if known is None else known.whole  # the digest of all, while none of them changes
        condition, given = _changed_since(known, wanted)
        self._read(condition, **given)

    def load(self, scope_id: str) -> None:
        """Read the row of a scope that was not read yet, and compare it."""
        before = self._digests.get(scope_id)
        if scope_id not in self._columns:
            self._read("scope_id = :scope_id", scope_id=scope_id)
            if before != self._digests.get(scope_id) or (before is not None and scope_id not in self._columns):
                raise LedgerDamagedError(_NOT_SIGNED)

    def children(self, scope_id: str) -> list[str]:
        """Return the names of the scopes directly below one, with their rows read and compared."""
        before = dict(self._digests)
        self._read("1 = 1")  # all: a row that was deleted, or given another parent, is none of those asked for
        if self._digests != before or set(self._columns) != set(before):
            raise LedgerDamagedError(_NOT_SIGNED)
        return sorted(name for name, columns in self._columns.items() if columns["parent_id"] == scope_id)

    def _read(self, condition: str, **given: object) -> None:
        for row in self._transaction.rows(f"{_ROWS} WHERE {condition}", **given):
            self._keep(_columns_of(row), totals=row[-2], head_seq=row[-1])

    def digest(self) -> str:
        """Return the digest of the rows as they are now."""
        if self._whole is None:
            self._whole = digest_of(self._digests)
        return self._whole

    def remembered(self, seq: int) -> RememberedRows:
        """Return the digests as a store keeps them, of a time when event `seq` was the newest."""
        return RememberedRows(seq, self._digests, self.digest())

    def names(self) -> Iterable[str]:
        """Return the names of all scopes."""
        return self._digests

    def columns(self, scope_id: str) -> dict[str, str | None] | None:
        """Return what the table says of a scope's definition, or None if there is no such scope."""
        self.load(scope_id)
        return self._columns.get(scope_id)

    def totals(self, scope_id: str) -> str:
        """Return the stored totals of a scope."""
        self.load(scope_id)
        return self._totals[scope_id]

    def insert(self, definition: ScopeDefinition, *, totals: str, seq: int) -> None:
        """Write the row of a new scope, which event `seq` creates."""
        columns = definition.to_columns()
        self._transaction.later(
            f"INSERT INTO scope ({DEFINITION_COLUMNS}, totals, head_seq)"
            " VALUES (:scope_id, :parent_id, :unit, :neighbours, :budget, :routes, :totals, :seq)",
            **columns,
            totals=totals,
            seq=seq,
        )
        self._keep(columns, totals=totals, head_seq=seq)

    def update(self, totals: Mapping[str, str | None], *, seq: int) -> None:
        """Write that event `seq` concerns some scopes, and their new totals where they change."""
        after = {name: self.totals(name) if new is None else new for name, new in totals.items()}
        names = _named(after)
        texts = {f"totals_{index}": text for index, text in enumerate(after.values())}
        chosen = " ".join(f"WHEN :{name} THEN :{text}" for name, text in zip(names, texts, strict=True))
        self._transaction.later(
            f"UPDATE scope SET totals = CASE scope_id {chosen} END, head_seq = :seq"
            f" WHERE scope_id IN ({', '.join(f':{name}' for name in names)})",
            **names,
            **texts,
            seq=seq,
        )
        for name, text in after.items():
            self._keep(self.columns(name) or {}, totals=text, head_seq=seq)

    def _keep(self, columns: dict[str, str | None], *, totals: str, head_seq: int) -> None:
        name = str(columns["scope_id"])
        self._columns[name], self._totals[name] = columns, totals
        digest = row_digest(columns, totals=totals, head_seq=head_seq)
        if self._digests.get(name) != digest:
            self._digests[name], self._whole = digest, None


def signed_scopes(
    transaction: Transaction, *, key: bytes | None, wanted: Sequence[str] = (), then: Sequence[Question] = ()
) -> SignedScopes:
    """Lock the head and return the scopes, or refuse if they are not what the newest event signs.

    `wanted` are scopes that the caller asks for, and `then` what it asks next: all is sent together, the lock first.
    Once compared they stay in the transaction's memory: what is written past the locks meanwhile is never signed.
    """
    if isinstance(transaction.scopes, SignedScopes):
        return transaction.scopes
    known = transaction.known
    if transaction.head is None:
        condition, given = _changed_since(known, wanted)
        first: list[Question] = [(_HEAD[transaction.dialect], {}), (_IDENTITY, {}), (_NEWEST, {})]
        transaction.ask_ahead(*first, (f"{_ROWS} WHERE {condition}", given), *then)
    seq, head = lock_head(transaction)
    newest = transaction.row(_NEWEST)
    event = None if newest is None else event_from_row(newest)
    scopes = SignedScopes(transaction, known=known, wanted=wanted)
    if known is not None and event is not None and event.books != scopes.digest():
        scopes = SignedScopes(transaction)
    genuine = event is not None and event.hash == head and event.seq == seq and event.books == scopes.digest()
    if event is None or not genuine or not hmac.compare_digest(head.encode(), event_hash(event, key=key).encode()):
        raise LedgerDamagedError(_NOT_SIGNED)
    transaction.scopes = scopes
    return scopes
