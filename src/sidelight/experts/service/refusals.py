"""Every way in which the service says no: a code that programs read, a status, and words without a single value."""

from __future__ import annotations

from importlib.util import find_spec

from sidelight.errors import SidelightError

#: Code and HTTP status of each refusal.
STATUS = {
    "malformed": 400,
    "no_token": 401,
    "unknown_token": 401,
    "revoked_token": 403,
    "not_your_name": 403,
    "not_found": 404,
    "wrong_method": 405,
    "too_slow": 408,
    "closed_round": 409,
    "future_round": 409,
    "conflict": 409,
    "too_large": 413,
    "wrong_type": 415,
    "not_finite": 422,
    "wrong_length": 422,
    "no_such_round": 422,
    "other_terms": 422,
    "storage": 503,
}


class RefusedError(SidelightError):
    """A request is refused. The message holds public numbers only."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS[self.code]


class StorageError(SidelightError, OSError):
    """The state of a service cannot be kept or read. Nothing is acknowledged that was not stored."""


class MissingExtraError(SidelightError, ImportError):
    """A part of sidelight was asked for whose libraries are not installed."""


def need_service(*modules: str) -> None:
    """Raise `MissingExtraError` unless these libraries of the extra `[service]` are there."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"experts over HTTP need {', '.join(missing)}; install the extra: pip install 'sidelight[service]'"
        )
