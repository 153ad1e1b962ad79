"""A worker: one release, then gone. It charges at the start of its slot and records at the end.

It is the only process of a server that opens a table. Whatever happens in it, its outcome is seen at the end of the
slot and not before; its output goes nowhere, and nobody reads how it ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sidelight.errors import BudgetError, SidelightError
from sidelight.guarantees import Amount, Claims
from sidelight.ledger import Reservation, Stored
from sidelight.noise import OSEntropy
from sidelight.server.budgets import ASKED, Budgets, counted_claims, utc_text
from sidelight.server.config import RECORD, Pool, ServedTable, ServerConfig
from sidelight.server.identity import IdentityStore
from sidelight.session.pipeline import release_through
from sidelight.wire import ProblemError, WireResolver, read_json, read_wire_query

if TYPE_CHECKING:
    from sidelight.session.accounts import ChargeAccount

#: What a worker says on its connection: that its outcome is ready. Read once, shortly before the end of the slot.
READY = b"ready"
#: The part of a slot in which the charge must be granted.
CHARGE_PART = 0.25


def run_worker(connection: Connection, config: ServerConfig) -> None:
    """Run the release of one job; what keeps it from being charged is said, and nothing else."""
    job = json.loads(connection.recv_bytes())
    table = config.tables[job["table"]]
    folder = Path(tempfile.mkdtemp(dir=config.work.scratch))
    _confine(config, job, folder)
    try:
        _release(connection, config, table, job, folder)
    except ProblemError as problem:
        connection.send_bytes(json.dumps({"code": problem.code, **problem.more}).encode())
    except BaseException:  # after the charge everything fails alike; before it the service sees that no entry is there
        with contextlib.suppress(OSError):
            connection.send_bytes(READY)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _release(
    connection: Connection, config: ServerConfig, table: ServedTable, job: Mapping[str, Any], folder: Path
) -> None:
    account = table.account_of(job["analyst"])
    assert account is not None
    budgets = Budgets(config, wait_seconds=(job["end"] - job["start"]) * CHARGE_PART)
    paced = PacedAccount(budgets, table, account, job, connection, fill=config.work.fill)
    resolver = WireResolver(
        {name: file for name, (file, _) in config.public.items()}, write_releases(job["releases"], folder)
    )
    try:
        query = read_wire_query(read_json(job["query"]), kinds=table.kinds, resolver=resolver)
        rows = table.open()
    except SidelightError:
        raise ProblemError("unavailable") from None
    release_through(
        query,
        rows,
        cast("ChargeAccount", paced),  # it wraps the reservation of the ledger
        entropy=OSEntropy(),
        key=job["id"],
        once=True,
        at_utc=utc_text(job["start"]),
        strict=table.strict,
        owner=False,
    )


def write_releases(texts: Mapping[str, str], folder: Path) -> dict[str, Path]:
    """Write releases that the service read from its ledger as files that readers of plans open, by their ids."""
    found = {}
    for place, (name, text) in enumerate(texts.items()):
        found[name] = folder / f"release-{place}.json"
        found[name].write_text(text, encoding="utf-8")
    return found


class PacedAccount:
    """Charges a scope of the ledger, and lets no outcome through before the end of the slot."""

    def __init__(
        self,
        budgets: Budgets,
        table: ServedTable,
        account: Pool,
        job: Mapping[str, Any],
        connection: Connection,
        *,
        fill: bool,
    ) -> None:
        self._budgets, self._table, self._account, self._job = budgets, table, account, job
        self._connection, self._fill = connection, fill

    def reserve(
        self,
        claims: Claims,
        *,
        request: Mapping[str, Any],
        key: str | None = None,
        resume: bool = False,
        once: bool = False,
        at_utc: str | None = None,
        delta: Amount | None = None,
    ) -> PacedReservation | Stored:
        """Charge, unless the analyst lost the right to ask since the request was accepted, or too much time is gone."""
        start, end = self._job["start"], self._job["end"]
        time.sleep(max(0.0, start - time.time()))
        self._check_right()
        asked = {"digest": self._job["digest"], "seconds": self._job["seconds"], "analyst": self._job["analyst"]}
        scope = self._budgets.scope(self._table, self._account)
        try:
            granted = scope.reserve(
                counted_claims(claims, self._table.budget, delta=delta),
                request={**request, ASKED: asked},
                key=key,
                resume=resume,
                once=once,
                at_utc=at_utc,
            )
        except BudgetError as error:
            parts = {"requested": error.requested, "remaining": error.remaining, "difference": error.difference}
            raise ProblemError("budget", **parts) from None
        except SidelightError:
            raise ProblemError("unavailable") from None
        if isinstance(granted, Stored):
            return granted
        if time.time() > start + (end - start) * CHARGE_PART:  # no data is opened; the entry says that it failed
            granted.fail()
            raise SystemExit
        self._budgets.keep_head()
        return PacedReservation(granted, self._budgets, self._connection, until=end - RECORD, fill=self._fill)

    def _check_right(self) -> None:
        config = self._budgets.config
        store = IdentityStore(config.store, create=False)
        try:
            if not store.is_live(self._job["token"], now=time.time()) or store.is_paused(
                self._table.name, self._account.name
            ):
                raise ProblemError("unavailable")
        finally:
            store.close()


class PacedReservation:
    """A reservation whose outcome is recorded at a moment that was fixed before it began."""

    def __init__(
        self, reservation: Reservation, budgets: Budgets, connection: Connection, *, until: float, fill: bool
    ) -> None:
        self._reservation, self._budgets, self._connection = reservation, budgets, connection
        self._until, self._fill = until, fill
        self.entry_id = reservation.entry_id

    def release(self, text: str) -> str:
        """Record a release at the end of the slot."""
        self._wait()
        return self._kept(self._reservation.release(text))

    def refuse(self, text: str) -> str:
        """Record a paid refusal at the end of the slot."""
        self._wait()
        return self._kept(self._reservation.refuse(text))

    def fail(self) -> str:
        """Record a failure at the end of the slot."""
        self._wait()
        return self._kept(self._reservation.fail())

    def _wait(self) -> None:
        with contextlib.suppress(OSError):  # a service that died does not keep the outcome from the ledger
            self._connection.send_bytes(READY)
        while (left := self._until - time.time()) > 0:
            if self._fill and left > 0.02:  # whoever measures the load of this host sees no end
                end = time.perf_counter() + 0.01
                while time.perf_counter() < end:
                    pass
            else:
                time.sleep(left)

    def _kept(self, head: str) -> str:
        self._budgets.keep_head()
        return head


def _confine(config: ServerConfig, job: Mapping[str, Any], folder: Path) -> None:
    """Limit what a worker can take from the host, and let it say nothing."""
    silent = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(silent, number)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    seconds = int(job["end"] - job["start"]) + 10
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    memory = config.work.memory + virtual_bytes()
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    pin_to_cores(listening=False)


def virtual_bytes() -> int:
    """Return the address space of this process, most of which libraries map and never touch."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 2**32


def pin_to_cores(*, listening: bool) -> None:
    """Keep workers off the core that answers requests: load on one would be felt on the other."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) > 1:
        os.sched_setaffinity(0, cores[:1] if listening else cores[1:])
