"""The rows of all scopes as the newest event signs them: definitions, totals and last events.

Every event carries a digest of these rows as they are after it, and stands with it in the chain, under the key of a
ledger that has one. The transaction that decides compares them before it believes a total or a budget: whoever writes a
smaller total into the table would have to write an event as well, and has not got the key. The digest is over all
scopes, because an older row of one scope would fit an older event of that scope; to cut off the newest events
altogether makes an older copy of the ledger, which `journal.lock_head` and `verify --expect-head` are for.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sidelight.errors import LedgerError
from sidelight.ledger.chain import event_hash
from sidelight.ledger.journal import event_at, lock_head

if TYPE_CHECKING:
    from sidelight.ledger.definition import ScopeDefinition
    from sidelight.ledger.transaction import Transaction

#: What never changes of a scope, as the table has it; `totals` and `head_seq` follow.
DEFINITION_COLUMNS: Final = "scope_id, parent_id, unit, neighbours, budget, routes"
_PREFIX: Final = b"sidelight-scopes\n"


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
