"""What a ledger gives back about one charge: a stored answer, or the full entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from sidelight.accounting import Charge
from sidelight.errors import LedgerError
from sidelight.guarantees import Claims
from sidelight.ledger.canonical import Json

State = Literal["reserved", "released", "refused", "failed"]

#: Why an entry failed. A class name is written only for errors raised before the data was opened; after that the cause
#: is a function of the data, and the entry says no more than "failed".
FailReason = Literal["failed", "reaped", "SourceError", "SchemaError", "StrictError", "RangeError"]
FAIL_REASONS: Final = get_args(FailReason)

_LONGEST_NAME: Final = 500


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The answer that the same key bought before: nothing was charged again."""

    entry_id: str
    state: Literal["released", "refused"]
    text: str
    head: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One charge as the ledger knows it. `text` is the released value or refusal; `head` the hash of its outcome."""

    entry_id: str
    scope_id: str
    key: str
    attempt: int
    state: State
    at_utc: str
    claims: Claims
    charge: Charge
    request: Mapping[str, Json]
    text: str | None
    head: str | None


def checked_name(text: str, *, what: str) -> str:
    """Return a scope id or key that is safe to store and to show, or say what is wrong with it."""
    if not isinstance(text, str) or not text or len(text) > _LONGEST_NAME or not text.isprintable():
        got = repr(text[:60]) if isinstance(text, str) else type(text).__name__
        raise LedgerError(
            f"{what} must be printable text of 1 to {_LONGEST_NAME} characters, got {got}; "
            "use a short name, or the sha256 of a long one"
        )
    return str.__str__(text)
