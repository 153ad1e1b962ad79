"""Seats and time slots: start times depend on arrivals and declared durations only.

An accepted request gets a seat, a start and an end, which never change. The seat is occupied until the end, even
if its worker finishes earlier, so no time that an analyst sees depends on a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from sidelight.wire import ProblemError


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A seat for one release, from the start of its worker to the time of its outcome (seconds since the epoch)."""

    seat: int
    start: float
    end: float
    account: str


class SeatSchedule:
    """The seats of a server.

    >>> schedule = SeatSchedule(seats=1, tick=0.25, queue=4, longest_wait=60)
    >>> [schedule.place(account, 2.0, now=100.1).start for account in ("people/ada", "people/bob")]
    [100.25, 102.25]
    """

    def __init__(self, *, seats: int, tick: float, queue: int, longest_wait: float) -> None:
        self._seats, self._tick, self._queue, self._longest_wait = seats, tick, queue, longest_wait
        self._slots: list[Slot] = []

    def place(self, account: str, duration: float, *, now: float) -> Slot:
        """Return the earliest slot that the account may have.

        Raises:
            ProblemError: `busy`, with the seconds after which to retry.
        """
        self._slots = [slot for slot in self._slots if slot.end > now]
        waiting = [slot for slot in self._slots if slot.start > now]
        own = sum(slot.account == account for slot in waiting)
        first = self._on_tick(now + 1e-9)
        starts = sorted({first, *(self._on_tick(slot.end) for slot in self._slots if slot.end > first)})
        found = next((slot for start in starts for slot in self._at(start, account, duration)), None)
        full = len(waiting) >= self._queue or own >= max(1, self._queue // 4)
        if found is None or full or found.start - now > self._longest_wait:
            later = min((slot.start for slot in waiting), default=now) - now
            raise ProblemError("busy", retry_after=max(1, math.ceil(later)))
        self._slots.append(found)
        return found

    def is_idle(self, now: float) -> bool:
        """Return whether no seat is occupied or promised."""
        return all(slot.end <= now for slot in self._slots)

    def waiting(self, now: float) -> int:
        """Return how many accepted requests have not started."""
        return sum(slot.start > now for slot in self._slots)

    def taken(self, now: float) -> int:
        """Return how many seats are occupied."""
        return sum(slot.start <= now < slot.end for slot in self._slots)

    def _at(self, start: float, account: str, duration: float) -> Iterable[Slot]:
        end = start + duration
        meanwhile = [slot for slot in self._slots if slot.start < end and slot.end > start]
        if sum(slot.account == account for slot in meanwhile) >= max(1, self._seats // 2):
            return
        taken = {slot.seat for slot in meanwhile}
        yield from (
            Slot(seat=seat, start=start, end=end, account=account) for seat in range(self._seats) if seat not in taken
        )

    def _on_tick(self, moment: float) -> float:
        return math.ceil(moment / self._tick - 1e-6) * self._tick
