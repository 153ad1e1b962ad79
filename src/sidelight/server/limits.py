"""Rate limits in memory: requests of an analyst, and wrong tokens from an address."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

#: Names in memory; the least recently used is dropped.
_MOST = 10_000


class RateLimit:
    """Allows a number of events a second for each name, and a burst.

    >>> limit = RateLimit(per_second=1, burst=2, clock=lambda: 0.0)
    >>> [limit.allows("ada") for _ in range(3)], limit.allows("bob")
    ([True, True, False], True)
    """

    def __init__(self, *, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, name: str) -> bool:
        """Take one event of a name, if it has one left."""
        left, now = self._now(name)
        self._left[name] = (left - 1 if left >= 1 else left), now
        self._left.move_to_end(name)
        if len(self._left) > _MOST:
            self._left.popitem(last=False)
        return left >= 1

    def take(self, name: str, amount: float) -> None:
        """Subtract an amount that was already used, even if less was left."""
        left, now = self._now(name)
        self._left[name] = left - amount, now
        self._left.move_to_end(name)

    def is_used_up(self, name: str) -> bool:
        """Return whether a name has none left, without taking one."""
        return self._now(name)[0] < 1

    def _now(self, name: str) -> tuple[float, float]:
        now = self._clock()
        left, before = self._left.get(name, (self._burst, now))
        return min(self._burst, left + (now - before) * self._per_second), now
