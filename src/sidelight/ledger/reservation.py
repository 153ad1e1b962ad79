"""What a granted request gets: the licence to open the data once, which nobody can copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NoReturn, Self, TypedDict

from sidelight.errors import LedgerError
from sidelight.guarantees import Amount
from sidelight.ledger import decide
from sidelight.ledger.decide import FAIL_REASONS, FailReason

if TYPE_CHECKING:
    from sidelight.ledger.store import Store


class KeyOptions(TypedDict, total=False):
    """How an attempt is remembered; `Scope.reserve` explains each."""

    key: str | None
    at_utc: str | None
    resume: bool
    once: bool


class ChargeOptions(KeyOptions, total=False):
    """What any charge may say besides its price and request."""

    delta: Amount | None


class ReserveOptions(ChargeOptions, total=False):
    """What a charge to a scope may say, which recognises a request by the text that was sent, too."""

    sent: str | None


class Unique:
    """Refuses `copy`, `deepcopy` and `pickle`; survives `sklearn.clone` as the identical object."""

    def __copy__(self) -> NoReturn:
        self._refuse("copied")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self._refuse("copied")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self._refuse("pickled")

    def __sklearn_clone__(self) -> Self:
        return self

    def _refuse(self, what: str) -> NoReturn:
        raise LedgerError(
            f"a {type(self).__name__} cannot be {what}: two copies would each spend the budget. Pass the same object "
            "to threads; in another process, open the ledger again by its address"
        )


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
        return self._settle("release", {"text": _checked_text(text)})

    def refuse(self, text: str) -> str:
        """Store a paid refusal, the same price and the same fields as a release; return the new head."""
        return self._settle("refuse", {"text": _checked_text(text)})

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
            lambda transaction: decide.settle(transaction, entry_id=self.entry_id, kind=kind, body=body, key=self._key)
        )

    def __repr__(self) -> str:
        return f"Reservation(entry_id={self.entry_id!r}, scope_id={self.scope_id!r})"


def _checked_text(text: str) -> str:
    if not isinstance(text, str):
        raise LedgerError(f"an outcome is stored as text, got {type(text).__name__}; pass the release's JSON")
    return text
