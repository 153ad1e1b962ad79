"""A connection to PostgreSQL with a time limit for each answer.

Timeouts of the server hold only while it answers: one that is stopped, or a host that vanished behind a proxy, keeps a
connection open and says nothing. Written by hand, because psycopg waits for an answer for as long as the connection is
open.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import psycopg

#: Seconds after the timeouts of the server: its own refusal, which says more, comes first.
_LATER = 1.0


class TimedConnection(psycopg.Connection[Any]):
    """A connection that closes itself and raises when one answer takes longer than it may."""

    answer_seconds: float | None = None

    def limit(self, seconds: float) -> None:
        """Limit the time of every later answer, and have the server end statements and idle sessions by it."""
        # A session may be idle in a transaction while its process waits for another database. PostgreSQL counts such
        # a time only after a plain statement: psycopg ends a pipeline with a flush, which stops the server's clock.
        # Keepalives of the store end the sessions of hosts that vanished in between.
        for name, factor in (("statement_timeout", 1), ("idle_in_transaction_session_timeout", 2)):
            self.execute(f"SET {name} = {int(1000 * seconds * factor)}")
        self.answer_seconds = seconds

    def wait(self, gen: Any, *given: Any, **named: Any) -> Any:
        """Wait for the answer that a generator of psycopg reads."""
        if self.answer_seconds is None:
            return super().wait(gen, *given, **named)
        return super().wait(self._timed(gen, self.answer_seconds + _LATER), *given, **named)

    def _timed(self, gen: Any, seconds: float) -> Generator[Any, Any, Any]:
        """Go through the steps of a generator, which psycopg resumes a few times a second while nothing comes."""
        end = time.monotonic() + seconds
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > end:
                    self.pgconn.finish()  # the result of the statement is unknown: drop the connection
                    raise psycopg.OperationalError(
                        f"the server did not answer for {seconds:g} s; the connection is closed"
                    )
                wanted = gen.send(ready)
        except StopIteration as finished:
            return finished.value
