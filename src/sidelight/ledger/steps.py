"""A context manager of two halves that an interrupt between them cannot leave open."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager
from typing import TypeVar

Held = TypeVar("Held")


class Steps(AbstractContextManager[Held]):
    """As `contextlib.contextmanager`, of which an interrupt between its two halves leaves nothing open.

    There an interrupt that comes when the first half is done, and before the block begins, leaves the generator to
    whoever holds the traceback, and with it the transaction and its locks.
    """

    def __init__(self, steps: Generator[Held, None, None]) -> None:
        self._steps = steps

    def __enter__(self) -> Held:
        try:
            return next(self._steps)
        except BaseException:
            self._steps.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                next(self._steps, None)
                return
            try:
                self._steps.throw(error)
            except BaseException as raised:
                if raised is not error:
                    raise
        finally:
            self._steps.close()

    def close(self) -> None:
        """End what is still under way, as if it had failed."""
        self._steps.close()
