"""A granted request: the licence to open the data once, and the outcome that it is exchanged for.

A copied accountant is a second budget: scikit-learn's `clone` deep-copies parameters, and a grid search over a copied
accountant charges nothing. So these objects refuse copies and pickles, and `clone` gets the identical object.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NoReturn, Self, TypeVar

from sidelight.errors import LedgerError, LedgerUnavailableError, SidelightWarning
from sidelight.ledger import decide
from sidelight.ledger.decide import FAIL_REASONS, FailReason

if TYPE_CHECKING:
    from sidelight.ledger.store import Store

Result = TypeVar("Result")
#: How long a charged request waits for its ledger while that is locked, its disk full, or its server away.
OUTCOME_SECONDS: Final = 60.0
_AGAIN: Final = 0.25  # seconds between attempts


_Kind = Literal["release", "refuse", "fail"]


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

    A value may leave only after `release` (or `refuse`) has returned. While the ledger cannot be written they try again
    for a minute: the value is paid for, and was drawn once. If they raise, discard it.
    """

    def __init__(self, store: Store, *, entry_id: str, scope_id: str, key: bytes | None) -> None:
        self._store = store
        self._key = key
        self.entry_id = entry_id
        self.scope_id = scope_id
        self._is_written = False  # the answer, in the ledger, though its head file could not be written after it

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

    def _settle(self, kind: _Kind, body: dict[str, object]) -> str:
        try:
            return self._settle_within(0.0 if kind == "fail" else OUTCOME_SECONDS, kind, body)
        except KeyboardInterrupt as interrupt:  # what is paid for is worth one more attempt
            try:
                self._settle_within(0.0, kind, body)
                interrupt.add_note(
                    f"The outcome of entry {self.entry_id} is in the ledger: its key returns it at no cost"
                )
            except LedgerError as error:
                interrupt.add_note(str(error))
            raise

    def _settle_within(self, seconds: float, kind: _Kind, body: dict[str, object]) -> str:
        def attempt() -> str:
            try:
                return self._store.decide(
                    lambda transaction: decide.settle(
                        transaction, entry_id=self.entry_id, kind=kind, body=body, key=self._key
                    ),
                    unwritten="the outcome is in the ledger" if self._is_written else "the outcome was not written",
                )
            except LedgerUnavailableError as error:
                self._is_written = self._is_written or (error.is_committed and kind != "fail")
                raise

        return self._again_while_away(attempt, seconds=seconds, doing="its outcome is kept and written again")

    def look(self, step: Callable[[], Result]) -> Result:
        """Return what the ledger is asked between charge and outcome; ask again for a minute while it is away."""
        return self._again_while_away(step, seconds=OUTCOME_SECONDS, doing="the ledger is asked again")

    def _again_while_away(self, step: Callable[[], Result], *, seconds: float, doing: str) -> Result:
        end, foreign = time.monotonic() + seconds, None
        while foreign is None:
            try:
                return step()
            except LedgerError as error:
                if not isinstance(error, LedgerUnavailableError) or time.monotonic() > end:
                    raise self._unfinished(error) from error
                _warn_of_waiting(error, doing)
                time.sleep(_AGAIN)
            except Exception as error:  # its text may quote the outcome, which is not to leave
                foreign = type(error).__name__
        raise self._unfinished(LedgerUnavailableError(f"the ledger could not be used ({foreign})"))

    def _unfinished(self, error: LedgerError) -> LedgerError:
        """Return an error of the same kind that says what became of the charge, and of an outcome that was written."""
        became = f"The charge of entry {self.entry_id} stands, and nothing came out"
        if self._is_written and isinstance(error, LedgerUnavailableError):  # a damaged one may have lost it
            became = (
                f"The charge of entry {self.entry_id} stands, and its outcome is in the ledger; it was not given out. "
                "When the head file can be written, its key returns it at no cost; without a key, it is the text of "
                "that entry in `ledger.entries()`"
            )
        elif isinstance(error, LedgerUnavailableError):
            became += (
                "; resume the request (`--resume`), which pays again, or mark it as abandoned (`sidelight ledger reap`)"
            )
        unfinished = type(error)(f"{error}. {became}")
        unfinished.charge_stands = True
        return unfinished

    def __repr__(self) -> str:
        return f"Reservation(entry_id={self.entry_id!r}, scope_id={self.scope_id!r})"


def _warn_of_waiting(error: LedgerError, doing: str) -> None:
    with suppress(SidelightWarning):  # a filter that makes errors of warnings must not cost the value
        warnings.warn(
            f"{error}. The request is charged, and {doing} for {OUTCOME_SECONDS:g} s",
            SidelightWarning,
            stacklevel=2,
        )


def _checked_text(text: str) -> str:
    if not isinstance(text, str):
        raise LedgerError(f"an outcome is stored as text, got {type(text).__name__}; pass the release's JSON")
    return text
