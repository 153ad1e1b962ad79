"""A worker process for one release: it charges at the start of its slot and records at the end.

It is the only process of a server that opens a table. Whatever happens in it, its outcome becomes visible at the
end of the slot and not before; its output is discarded, and its exit status is not read.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sidelight.errors import BudgetError, KeyReusedError, SidelightError
from sidelight.guarantees import Amount, Claims
from sidelight.ledger import Reservation, Stored
from sidelight.ledger.journal import see_head
from sidelight.ledger.place import parse_place
from sidelight.noise import OSEntropy
from sidelight.server.budgets import ASKED, Budgets, utc_text
from sidelight.server.config import DONE, RECORD, Pool, ServedTable, ServerConfig
from sidelight.server.identity import IdentityStore
from sidelight.server.proxy_identity import BY_PROXY, is_still_named
from sidelight.server.together import TOGETHER, declared, parts_of
from sidelight.session.pipeline import release_batch_through, release_through
from sidelight.wire import ProblemError, WireResolver, read_json, read_wire_query

if TYPE_CHECKING:
    from sidelight.session.accounts import ChargeAccount

#: The message of a worker whose outcome is ready. Read once, shortly before the end of the slot.
READY = b"ready"
#: The part of a slot in which the charge must be granted.
CHARGE_PART = 0.25
#: The prefix of temporary folders.
SCRATCH = "sidelight-"


def run_worker(connection: Connection, config: ServerConfig) -> None:
    """Run the release of one job; only a reason for not charging it is sent back."""
    job = json.loads(connection.recv_bytes())
    table = config.tables[job["table"]]
    folder = scratch_folder(config, job["id"])
    folder.mkdir(exist_ok=True)
    _confine(config, job, folder)
    try:
        _release(connection, config, table, job, folder)
    except ProblemError as problem:
        connection.send_bytes(json.dumps({"code": problem.code, **problem.more}).encode())
    except SystemExit:  # too late: no message, and the service records the failure at its time
        pass
    except BaseException:  # one message for all failures; the service checks for an entry
        with contextlib.suppress(OSError):
            connection.send_bytes(READY)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def open_tables(connection: Connection, config: ServerConfig) -> None:
    """Open every source once without reading a row, and send the name of the first that cannot be opened."""
    for table in config.tables.values():
        try:
            table.open()
        except Exception:
            connection.send_bytes(table.name.encode())
            return
    connection.send_bytes(READY)


def _release(
    connection: Connection, config: ServerConfig, table: ServedTable, job: Mapping[str, Any], folder: Path
) -> None:
    account = table.account_of(job["analyst"])
    assert account is not None
    budgets = Budgets(config, wait_seconds=(job["end"] - job["start"]) * CHARGE_PART)
    see_head(budgets.ledger.ledger_id, tuple(job["head"]))  # an older copy is refused in the charging transaction
    paced = PacedAccount(budgets, table, account, job, connection, fill=config.work.fill)
    resolver = WireResolver(
        {name: file for name, (file, _) in config.public.items()}, write_releases(job["releases"], folder)
    )
    try:
        asked = read_json(job["query"])
        queries = [read_wire_query(each, kinds=table.kinds, resolver=resolver) for each in parts_of(asked)]
        rows = table.open()
    except SidelightError:
        raise ProblemError("unavailable") from None
    payer = cast("ChargeAccount", paced)  # it wraps the reservation of the ledger
    settings: dict[str, Any] = {
        "entropy": OSEntropy(),
        "key": job["id"],
        "once": True,
        "at_utc": utc_text(job["start"]),
        "strict": table.strict,
        "owner": False,
    }
    if asked["kind"] == TOGETHER:
        paced.together_at = asked["delta"]
        release_batch_through(queries, rows, payer, delta=asked["delta"], **settings)
    else:
        release_through(queries[0], rows, payer, **settings)


def slot_time(job: Mapping[str, Any]) -> float:
    """Return the time in the slot of a job: a clock that is set while it runs changes nothing in it."""
    return float(job["clock"]) + time.monotonic()


def write_releases(texts: Mapping[str, str], folder: Path) -> dict[str, Path]:
    """Write releases from the ledger as files for readers of plans, and return their paths by id."""
    found = {}
    for place, (name, text) in enumerate(texts.items()):
        found[name] = folder / f"release-{place}.json"
        found[name].write_text(text, encoding="utf-8")
    return found


class PacedAccount:
    """Charges a scope of the ledger, and records no outcome before the end of the slot."""

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
        self.together_at: Amount | None = None  # of a batch: the delta of its price

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
        """Charge, unless the analyst lost the right since the request was accepted, or it is too late."""
        start, end = self._job["start"], self._job["end"]
        if self.together_at is not None:
            claims, delta = declared(claims, delta=self.together_at), self.together_at
        time.sleep(max(0.0, start - slot_time(self._job)))
        latest = start + (end - start) * CHARGE_PART
        if slot_time(self._job) > latest:  # the host is busy: do not charge for a release that cannot finish
            raise ProblemError("unavailable")
        asked = {"seconds": self._job["seconds"], "analyst": self._job["analyst"]}
        try:
            granted = self._reserve_by_right(
                self._table,
                self._account,
                claims,
                moment=self._job["moment"],
                request={**request, ASKED: asked},
                key=key,
                resume=resume,
                once=once,
                at_utc=at_utc,
                sent=self._job["digest"],
                delta=delta,
            )
        except ProblemError:
            raise
        except BudgetError as error:
            own = f"{error.scope_id}/".startswith(f"{self._table.scope_of(self._account)}/")
            if self._table.sharing == "reserved" and not own:  # does not reveal what others spent
                raise ProblemError("unavailable") from None
            parts = {"requested": error.requested, "remaining": error.remaining, "difference": error.difference}
            raise ProblemError("budget", **parts) from None
        except KeyReusedError:  # another replica accepted another query under this key
            raise ProblemError("key-reused") from None
        except SidelightError:
            raise ProblemError("unavailable") from None
        if isinstance(granted, Stored):
            return granted
        if slot_time(self._job) > latest:  # a slow COMMIT: no data is opened, and it does not count as a failure
            granted.fail("reaped")
            raise SystemExit
        return PacedReservation(granted, self._connection, self._job, fill=self._fill)

    def _reserve_by_right(self, *given: Any, **named: Any) -> Reservation | Stored:
        """Charge while the rights are locked, so that they cannot change between check and charge."""
        store, held = IdentityStore(self._budgets.config.store, create=False), contextlib.ExitStack()

        def confirm() -> None:
            held.close()  # the transaction may be repeated
            held.enter_context(store.holding())
            self._check_right(store)

        try:
            return self._budgets.reserve(*given, **named, confirm=confirm)
        finally:
            with contextlib.closing(store):
                held.close()

    def _check_right(self, store: IdentityStore) -> None:
        if self._job["token"] == BY_PROXY:
            right = is_still_named(self._budgets.config.proxy, self._job["analyst"])
        else:
            right = store.is_live(self._job["token"], now=time.time())
        if not right or store.is_paused(self._table.name, self._account.name):
            raise ProblemError("unavailable")


class PacedReservation:
    """A reservation whose outcome is recorded at a time fixed in advance.

    A worker that is late ends itself, even without a service to kill it: a later record would reveal its running
    time. The service marks its entry as failed, at a scheduled time.
    """

    def __init__(self, reservation: Reservation, connection: Connection, job: Mapping[str, Any], *, fill: bool) -> None:
        self._reservation, self._connection, self._job = reservation, connection, job
        self._done, self._until, self._fill = job["end"] - DONE, job["end"] - RECORD, fill
        self.entry_id = reservation.entry_id

    def release(self, text: str) -> str:
        """Record a release at the end of the slot."""
        self._wait()
        return self._reservation.release(text)

    def refuse(self, text: str) -> str:
        """Record a paid refusal at the end of the slot."""
        self._wait()
        return self._reservation.refuse(text)

    def fail(self) -> str:
        """Record a failure at the end of the slot."""
        self._wait()
        return self._reservation.fail()

    def _wait(self) -> None:
        if slot_time(self._job) > self._done:
            raise SystemExit
        signal.setitimer(signal.ITIMER_REAL, 0)  # done in time
        with contextlib.suppress(OSError):  # the outcome is recorded even if the service died
            self._connection.send_bytes(READY)
        while (left := self._until - slot_time(self._job)) > 0:
            if self._fill and left > 0.02:  # keeps the load of the host constant until the end
                end = time.perf_counter() + 0.01
                while time.perf_counter() < end:
                    pass
            else:
                time.sleep(left)


def _confine(config: ServerConfig, job: Mapping[str, Any], folder: Path) -> None:
    """Limit the resources of a worker, and discard its output."""
    silent = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(silent, number)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    seconds = int(job["end"] - job["start"]) + 10
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process, also inside a library call
    signal.setitimer(signal.ITIMER_REAL, max(0.01, job["end"] - DONE - slot_time(job)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    memory = config.work.memory + virtual_bytes()
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    _limit_files(config)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    pin_to_cores(listening=False)


def _limit_files(config: ServerConfig) -> None:
    """Limit file sizes to the memory of a worker plus the current size of the ledger."""
    path = parse_place(config.ledger).path
    most = config.work.memory + (0 if path is None else path.stat().st_size)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def scratch_folder(config: ServerConfig, name: str) -> Path:
    """Return the temporary folder of a job; the service removes it after a killed worker."""
    return config.work.scratch / f"{SCRATCH}{name}"


def clear_scratch(config: ServerConfig) -> None:
    """Remove folders of an earlier server, once none of its workers can be alive."""
    for folder in config.work.scratch.glob(f"{SCRATCH}*"):
        if folder.stat().st_mtime < time.time() - config.longest - 60:
            shutil.rmtree(folder, ignore_errors=True)


def virtual_bytes() -> int:
    """Return the address space of this process, most of which libraries map and never touch."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 2**32


def pin_to_cores(*, listening: bool) -> None:
    """Keep workers off the core that answers requests, so that their load does not delay answers."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) > 1:
        os.sched_setaffinity(0, cores[:1] if listening else cores[1:])
