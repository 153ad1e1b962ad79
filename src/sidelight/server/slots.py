"""Runs accepted requests in their slots: starts a worker, checks its message, and reads the result from the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sidelight.errors import LedgerError, SidelightError
from sidelight.server.budgets import Budgets
from sidelight.server.config import DONE, LEAD, RECORD, Pool, ServedTable
from sidelight.server.identity import IdentityStore
from sidelight.server.schedule import Slot
from sidelight.server.worker import scratch_folder, slot_time
from sidelight.server.zygote import Child, Zygote
from sidelight.wire import ProblemError

log = logging.getLogger("sidelight.server")
#: Seconds after the end of the slot in which a slow ledger may record.
PATIENCE = 5.0
#: Paid failures that pause an account, and accounts with failures that pause a table.
FAILURES, FAILED_ACCOUNTS = 2, 3
#: Dropped requests kept in memory, so that their analysts can read the reason.
_REMEMBERED = 10_000


@dataclass(kw_only=True)
class Accepted:
    """A request that has a slot."""

    request_id: str
    table: ServedTable
    account: Pool
    slot: Slot
    digest: str
    canonical: str
    job: Mapping[str, Any]
    state: Literal["queued", "running", "dropped", "recorded"] = "queued"
    problem: ProblemError | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Slots:
    """The waiting and running requests; charged ones are stored in the ledger only."""

    def __init__(self, budgets: Budgets, store: IdentityStore, zygote: Zygote) -> None:
        self._budgets, self._store, self._zygote = budgets, store, zygote
        self._accepted: OrderedDict[str, Accepted] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def get(self, request_id: str) -> Accepted | None:
        """Return a waiting, running or dropped request."""
        return self._accepted.get(request_id)

    def accept(self, accepted: Accepted) -> None:
        """Run a request in its slot, even if its connection is lost."""
        self._accepted[accepted.request_id] = accepted
        task = asyncio.create_task(self._run(accepted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Drop waiting requests, and wait until running ones have ended."""
        self._stopping = True
        while self._tasks:  # a request accepted meanwhile is dropped as well
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, accepted: Accepted) -> None:
        slot, child = accepted.slot, None
        try:
            await self._until(slot.start - LEAD, accepted, stoppable=True)
            if self._stopping:
                accepted.problem = ProblemError("unavailable")
            else:
                accepted.state = "running"
                child = await asyncio.to_thread(self._start, accepted)
                await self._until(slot.end - DONE, accepted)
                said = _said(child)
                if said is None:
                    child.kill()
                await self._until(slot.end - RECORD, accepted)
                if said is None:
                    await self._give_up(accepted)
                await self._until(slot.end, accepted)
                await self._settle(accepted, _dropped(said))
        except SidelightError as error:  # of ledger or store: an entry is marked as failed later
            log.error("a slot of table %r failed: %s", accepted.table.name, type(error).__name__)
            accepted.problem = accepted.problem or ProblemError("unavailable")
        except Exception:  # a defect of the service: an entry is marked as failed later
            log.exception("a slot of table %r failed", accepted.table.name)
            accepted.problem = accepted.problem or ProblemError("unavailable")
        finally:
            if child is not None:
                await asyncio.to_thread(self._end, child, accepted)
            self._finish(accepted)

    async def _until(self, moment: float, accepted: Accepted, *, stoppable: bool = False) -> None:
        while (left := moment - slot_time(accepted.job)) > 0 and not (stoppable and self._stopping):
            await asyncio.sleep(min(left, 0.5) if stoppable else left)

    def _start(self, accepted: Accepted) -> Child:
        """Start a worker, which knows no head of the ledger but the newest that was seen here."""
        job = {**accepted.job, "head": self._budgets.newest_head()}
        child = self._zygote.fork("sidelight.server.worker:run_worker")
        child.connection.send_bytes(json.dumps(job).encode())
        return child

    def _end(self, child: Child, accepted: Accepted) -> None:
        child.end()
        shutil.rmtree(scratch_folder(self._budgets.config, accepted.request_id), ignore_errors=True)

    async def _give_up(self, accepted: Accepted) -> None:
        with contextlib.suppress(LedgerError):
            await asyncio.to_thread(self._budgets.give_up, accepted.table, accepted.account, accepted.request_id)

    async def _settle(self, accepted: Accepted, problem: ProblemError | None) -> None:
        """Read the result of the request from the ledger, waiting for a slow record."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                entry = await asyncio.to_thread(
                    self._budgets.entry, accepted.table, accepted.account, accepted.request_id
                )
            except SidelightError:
                await asyncio.sleep(0.1)
                continue
            if entry is None or (problem is not None and problem.code == "key-reused"):
                accepted.problem = problem or ProblemError("unavailable")
                return
            if entry.state != "reserved":
                with contextlib.suppress(SidelightError):
                    await asyncio.to_thread(self._budgets.newest_head)  # seen, so that later workers require it
                if entry.state == "failed":
                    await asyncio.to_thread(self._count_failures, accepted.table, accepted.account)
                return
            await asyncio.sleep(0.1)
        await self._give_up(accepted)

    def _finish(self, accepted: Accepted) -> None:
        accepted.state = "recorded" if accepted.problem is None else "dropped"
        accepted.job = {}  # the query and its releases may be large
        if accepted.problem is None:
            self._accepted.pop(accepted.request_id, None)  # it is in the ledger
        while len(self._accepted) > _REMEMBERED:
            oldest = next((name for name, each in self._accepted.items() if each.state == "dropped"), None)
            if oldest is None:
                break
            del self._accepted[oldest]
        accepted.done.set()

    def _count_failures(self, table: ServedTable, account: Pool) -> None:
        """Pause an account after two failed paid requests, and a table after failures of three accounts."""
        failed = {
            each.name: self._budgets.failures(table, each, since=self._store.resumed_at(table.name, each.name))
            for each in table.accounts
        }
        now = time.time()
        if failed[account.name] >= FAILURES:
            log.error("paused %r of table %r: its requests failed", account.name, table.name)
            self._store.pause(table.name, account.name, now=now)
        if sum(map(bool, failed.values())) >= FAILED_ACCOUNTS:
            log.error("paused table %r: requests of several accounts failed", table.name)
            self._store.pause(table.name, now=now)


def _said(child: Child) -> bytes | None:
    """Return the message of the worker; None if there is none. Read only once, at a fixed time."""
    try:
        return child.connection.recv_bytes() if child.connection.poll() else None
    except (OSError, EOFError):  # it ended: the ledger has the result
        return None


def _dropped(said: bytes | None) -> ProblemError | None:
    """Return the worker's reason for not charging a request."""
    if said is None or not said.startswith(b"{"):
        return None
    found = json.loads(said)
    return ProblemError(found.pop("code"), **found)
