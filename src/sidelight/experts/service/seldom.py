"""A log that strangers cannot fill: a few lines of a kind in a while, then how many were left out."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

#: Lines of one kind in a while, and how long that is in seconds.
LINES, WHILE = 5, 60.0
#: Kinds that are told apart; all further ones are one.
_KINDS = 1000


class Seldom(logging.Filter):
    """Lets through the first lines of each kind in a while; the next after it says how many were left out.

    A kind is a text with its values: names of clients and codes of refusals are few, whatever is sent.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._began = clock()
        self._seen: Counter[str] = Counter()
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written."""
        if record.levelno >= logging.ERROR:
            return True
        if self._clock() - self._began >= WHILE:
            left_out, self._left_out, self._began = self._left_out, 0, self._clock()
            self._seen.clear()
            if left_out:
                record.msg, record.args = f"{record.getMessage()} (before that, {left_out} more lines left out)", ()
        kind = record.getMessage()
        kind = kind if kind in self._seen or len(self._seen) < _KINDS else ""
        self._seen[kind] += 1
        if self._seen[kind] > LINES:
            self._left_out += 1
            return False
        return True
