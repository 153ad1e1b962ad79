"""The clocks of a server: the time of its slots, and whether the clock of its host can be believed."""

from __future__ import annotations

import logging
import time

from sidelight.server.budgets import Budgets
from sidelight.server.identity import DAY
from sidelight.server.schedule import SeatSchedule

log = logging.getLogger("sidelight.server")
#: Seconds by which a replica's clock may differ from the database's: less than others wait for a late outcome.
_LARGEST_DIFFERENCE = 5.0


class ServerClock:
    """The time of slots, which is that of the host and goes on steadily while a seat is taken."""

    def __init__(self, budgets: Budgets, schedule: SeatSchedule) -> None:
        self._budgets, self._schedule = budgets, schedule
        #: Seconds by which the time of slots is ahead of the monotonic clock.
        self.ahead = self._at_start = time.time() - time.monotonic()
        #: Whether the clock was that of the ledger's database when they were compared last.
        self.agrees = True

    def now(self) -> float:
        """Return the time of slots: no step of the clock is followed inside them, and none backwards."""
        if self._schedule.is_idle(self.ahead + time.monotonic()):
            self.ahead = max(self.ahead, time.time() - time.monotonic())
        return self.ahead + time.monotonic()

    @property
    def is_believed(self) -> bool:
        """Whether the clock was not set forward by more than a day since the start."""
        return time.time() - time.monotonic() - self._at_start <= DAY

    def compare(self) -> float:
        """Return by how much the clock is ahead of the database's, which all replicas go by; log a difference."""
        clock_ahead = self._budgets.clock_ahead()
        self.agrees = abs(clock_ahead) <= _LARGEST_DIFFERENCE
        if not self.agrees:
            log.error("nothing is charged: the clock differs from the database's by %.0f s; set it right", clock_ahead)
        return clock_ahead
