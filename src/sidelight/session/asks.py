"""What code may use that asks a table, whether its rows are here or on a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from sidelight.guarantees import Amount


@runtime_checkable
class Asks(Protocol):
    """A `Session`, or a `Remote` of `sl.connect` with one table: what takes it runs on either.

    A session counts in the kinds of its budget, and a server in the currency of each table, by its name.

    >>> from sidelight.client import Remote
    >>> from sidelight.session import Session
    >>> all(hasattr(kind, name) for kind in (Session, Remote) for name in ("release", "sql", "spent", "statement"))
    True
    """

    @property
    def remaining(self) -> Any:
        """What is left now."""
        ...

    @property
    def spent(self) -> Any:
        """What was charged so far."""
        ...

    def release(self, query: Any, *, key: str | None = None) -> Any:
        """Ask, pay, and return the release."""
        ...

    def release_together(self, queries: Sequence[Any], *, delta: Amount, key: str | None = None) -> Any:
        """Ask a fixed batch at one price, and return the releases."""
        ...

    def sql(self, statement: str, *, key: str | None = None, **options: Any) -> Any:
        """Release what a SELECT asks."""
        ...

    def statement(self) -> Any:
        """Return what may be published about everything that is released."""
        ...
