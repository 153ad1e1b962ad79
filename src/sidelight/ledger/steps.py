"""A context manager of two halves that an interrupt between them does not leave open."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import AbstractContextManager
from typing import TypeVar

Held = TypeVar("Held")


class Steps(AbstractContextManager[Held]):
    """As `contextlib.contextmanager`, of which an interrupt after the first half leaves nothing open.

    There an interrupt that comes when the first half is done, and before the block begins, leaves the generator to
    whoever holds the traceback, and with it the transaction and its locks. At the very first step of `__exit__` one
    still can: who must be sure calls `close` in a `finally`.
    """

    def __init__(self, steps: Generator[Held, None, None]) -> None:
        self._steps = steps
        self._before = sys.exc_info()[1]  # what is being handled already is nobody's interrupt here

    def __enter__(self) -> Held:
        try:
            return next(self._steps)
        except BaseException as raised:
            self._steps.close()
            self._tell_interrupt(raised)
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                next(self._steps, None)
            else:
                self._steps.throw(error)
        except BaseException as raised:
            self._tell_interrupt(raised)
            if raised is not error:
                raise
        finally:
            self._steps.close()

    def close(self) -> None:
        """End what is still under way, as if it had failed."""
        self._steps.close()

    def _tell_interrupt(self, raised: BaseException) -> None:
        """Raise the interrupt that made SQLAlchemy fail an assertion of its own, as one in the middle of a commit."""
        behind = raised.__context__ if isinstance(raised, AssertionError) else None
        while behind is not None and behind is not self._before:
            if not isinstance(behind, Exception):
                raise behind from None
            behind = behind.__context__
