"""Every error that sidelight raises on purpose, and the root of its warnings.

A message says what was wanted, what came and what to do. It holds public numbers only: no record's value, no private
count, nothing that two neighbouring data sets would print differently.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class SidelightError(Exception):
    """The root of all errors that sidelight raises on purpose."""


class SidelightWarning(UserWarning):
    """The root of all warnings that sidelight gives on purpose; their texts are public, as those of errors are."""


class RangeError(SidelightError, ValueError):
    """A public parameter lies outside the values that make sense for it."""


class ClaimError(SidelightError, ValueError):
    """A privacy claim was asked for that nothing proves, or two claims of different kinds were mixed."""


class SchemaError(SidelightError, ValueError):
    """A column, its kind or a declaration is missing or contradicts the request."""


class SourceError(SidelightError, OSError):
    """A data source cannot be read at all (no file, no permission, not the stated format)."""


class PlanError(SidelightError, ValueError):
    """A plan file is not understood."""


class BudgetError(SidelightError):
    """A request does not fit what is left. Nothing was written, nothing was spent, no data was opened."""

    def __init__(self, message: str, *, requested: str, remaining: str, difference: str) -> None:
        super().__init__(message)
        self.requested = requested
        self.remaining = remaining
        self.difference = difference


class LedgerError(SidelightError):
    """A ledger cannot be used: corrupt, locked, of a newer version, or not where it was said to be."""


class InProgressError(LedgerError):
    """The same request is reserved and not finished: another process runs it, or one died and must be reaped."""


class StrictError(SidelightError):
    """`strict=True` refuses a mechanism whose numerics are idealized."""


class ReleaseFailedError(SidelightError):
    """A release failed after the data was opened. Its charge stands; the cause may depend on data and is withheld."""


class NotCertifiedError(ReleaseFailedError):
    """No minimum of an objective could be certified. Nothing is released, the charge stands, nothing is tried again."""


class TeacherError(SidelightError, RuntimeError):
    """A teacher of a vote could not be trained. Nothing was charged or released; the cause may depend on its rows."""

    def __init__(self, message: str, *, number: int) -> None:
        super().__init__(message)
        self.number = number


class MissingPackageError(SidelightError, ImportError):
    """A package that is not among sidelight's own requirements is not installed."""


class NoiseError(SidelightError, RuntimeError):
    """Noise cannot be drawn safely: a source left its process, thread or release, or the arithmetic check failed."""


class PrivacyWarning(SidelightWarning):
    """A guarantee covers less than it seems to, because of what was done around the library."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the end of a message: the nearest known name, and all known names.

    >>> nearest("agee", ["age", "hours"])
    "did you mean 'age'? known: age, hours"
    """
    names = list(known)
    close = get_close_matches(word, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}known: {', '.join(names) or 'none'}"
