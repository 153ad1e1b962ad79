"""While private data is open, nothing is said: no warning, no log line, no floating-point signal of this release.

A warning or a log line about a cell tells that the cell is there, and `python -W error` or
`np.seterr(all="raise")` would turn it into a failure. Switching warnings and logs off for the process would also
silence other threads, and two releases that end in another order than they began would leave the switch where it
was not (`warnings.catch_warnings` is not safe with threads). So one filter is put before all others, and asks for
each message whose it is: it matches in a thread that has data open, and in threads that Python did not start,
which are those of engines, while anyone has.
"""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

_STAND_IN = threading._DummyThread


class _Open:
    """Who has data open: a count for each thread, and of all."""

    def __init__(self) -> None:
        self._mine = threading.local()
        self._all = 0
        self._lock = threading.Lock()

    def enter(self, step: int) -> None:
        """Count one more, or one less."""
        self._mine.count = getattr(self._mine, "count", 0) + step
        with self._lock:
            self._all += step

    def anywhere(self) -> bool:
        """Return whether anybody has data open."""
        return self._all > 0

    def here(self) -> bool:
        """Return whether what happens in this thread belongs to a release."""
        if getattr(self._mine, "count", 0) > 0:
            return True
        # A thread that Python did not start is not known, or known by a stand-in since it first asked who it is.
        started = {each.ident for each in threading.enumerate() if not isinstance(each, _STAND_IN)}
        return self._all > 0 and threading.get_ident() not in started


_OPEN = _Open()
_TURN = threading.Lock()  # counting and the filter change together, or one who ends would silence another no more


class _Silent:
    """What stands for a pattern of messages in a filter of warnings, and for a filter of log records.

    Libraries that copy filters into their workers (scikit-learn does) read the text of a pattern: of this one, a text
    that matches nothing.
    """

    pattern = r"(?!)"

    def match(self, text: str) -> bool:
        """Match every warning of an open release."""
        del text
        return _OPEN.here()

    def filter(self, record: logging.LogRecord) -> bool:
        """Let a log record pass unless it is of an open release."""
        del record
        return not _OPEN.here()


_SILENT = _Silent()
_WARNINGS: Any = ("ignore", _SILENT, Warning, None, 0)


@contextmanager
def silence() -> Iterator[None]:
    """Silence what the block does: no warning, no log line, no floating-point signal."""
    with _TURN:
        _OPEN.enter(+1)
        _put_first()
    for handler in _handlers():
        if _SILENT not in handler.filters:
            handler.addFilter(_SILENT)
    try:
        with np.errstate(all="ignore"), _context_silence():
            yield
    finally:
        with _TURN:
            _OPEN.enter(-1)
            _take_away()


def _take_away() -> None:
    """Take the filter out with the last open data; where somebody's copy keeps it, it matches nothing."""
    if not _OPEN.anywhere():
        with suppress(ValueError):
            warnings.filters.remove(_WARNINGS)  # type: ignore[attr-defined]


def _put_first() -> None:
    """Put the filter before those of the user."""
    filters: Any = warnings.filters
    if not filters or filters[0] is not _WARNINGS:
        if _WARNINGS in filters:
            filters.remove(_WARNINGS)
        filters.insert(0, _WARNINGS)


@contextmanager
def _context_silence() -> Iterator[None]:
    """Use filters of this context alone where Python has them (3.14): then the list above is not asked."""
    if getattr(sys.flags, "context_aware_warnings", False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    else:
        yield


def _handlers() -> Iterator[logging.Handler]:
    """Return every place that log records go to."""
    if logging.lastResort is not None:
        yield logging.lastResort
    yield from logging.root.handlers
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            yield from logger.handlers
