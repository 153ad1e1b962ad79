"""Starts services for tests that kill them: a process that has everything imported forks one for each line it reads.

Run as `python service_process.py experts.toml [bug]`. A bug is planted on purpose, so that the tests are seen to fail.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import scipy.special  # noqa: F401 - what a service loads on its way
import uvicorn.lifespan.on
import uvicorn.loops.asyncio
import uvicorn.protocols.http.h11_impl  # noqa: F401

import sidelight.experts.service.app  # noqa: F401
from sidelight.experts import Receipt, Server
from sidelight.experts.service.app import serve
from sidelight.experts.service.plan import read_service_plan
from sidelight.experts.service.store import Journal


def acknowledge_before_writing() -> None:
    """Answer at once, write a little later."""
    write = Journal._write

    async def durable(self: Journal) -> None:
        if self._waiting and (self._storing is None or self._storing.done()):
            self._storing = asyncio.create_task(self._store())

    def late(self: Journal, data: bytes) -> None:
        time.sleep(0.2)
        write(self, data)

    Journal.durable = durable  # type: ignore[method-assign]
    Journal._write = late  # type: ignore[method-assign]


def count_resends() -> None:
    """Count a report each time that it comes."""
    receive = Server.receive

    def twice(self: Server, report):  # type: ignore[no-untyped-def]
        receipt = receive(self, report)
        if receipt is Receipt.DUPLICATE and report.round == self.round:
            self._pending[f"{report.client_id} {len(self._pending)}", report.round] = report
        return receipt

    Server.receive = twice  # type: ignore[method-assign]


BUGS = {"acknowledge before writing": acknowledge_before_writing, "count resends": count_resends}


def main() -> None:
    plan = read_service_plan(sys.argv[1])
    if len(sys.argv) > 2:
        BUGS[sys.argv[2]]()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no waiting for killed processes
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                serve(plan, when_ready=lambda url: print("ready", flush=True))
            finally:
                os._exit(1)
        print(child, flush=True)


if __name__ == "__main__":
    main()
