"""A charge that has been written and waits for its one outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sidelight.errors import LedgerError
from sidelight.ledger.decide import settle
from sidelight.ledger.entry import FAIL_REASONS, FailReason
from sidelight.ledger.unique import Unique

if TYPE_CHECKING:
    from sidelight.ledger.store import Store


class Reservation(Unique):
    """The licence to open the data once. Exactly one of `release`, `refuse` and `fail` ends it; the charge stays.

    A value may leave only after `release` (or `refuse`) has returned. If it raises, discard the value.
    """

    def __init__(self, store: Store, *, entry_id: str, scope_id: str, key: bytes | None) -> None:
        self._store = store
        self._key = key
        self.entry_id = entry_id
        self.scope_id = scope_id

    def release(self, text: str) -> str:
        """Store the released text durably; return the ledger's new head."""
        return self._settle("release", {"text": _checked(text)})

    def refuse(self, text: str) -> str:
        """Store a paid refusal, the same price and the same fields as a release; return the new head."""
        return self._settle("refuse", {"text": _checked(text)})

    def fail(self, reason: FailReason = "failed") -> str:
        """Record that nothing came out; return the new head. After the data was opened, only "failed" may be said."""
        if reason not in FAIL_REASONS:
            raise LedgerError(
                f"the reason of a failure comes from a closed list ({', '.join(FAIL_REASONS)}), because a free text "
                "may quote a record; say 'failed'"
            )
        return self._settle("fail", {"reason": reason})

    def _settle(self, kind: Literal["release", "refuse", "fail"], body: dict[str, object]) -> str:
        return self._store.decide(
            lambda transaction: settle(transaction, entry_id=self.entry_id, kind=kind, body=body, key=self._key)
        )

    def __repr__(self) -> str:
        return f"Reservation(entry_id={self.entry_id!r}, scope_id={self.scope_id!r})"


def _checked(text: str) -> str:
    if not isinstance(text, str):
        raise LedgerError(f"an outcome is stored as text, got {type(text).__name__}; pass the release's JSON")
    return text
