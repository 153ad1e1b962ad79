"""The rounds as they run: reports in, a deadline, the next action out; never ahead of what the disk holds.

One lock orders reports and closings. Requests see the last state that was stored, so nothing that was seen can be
undone by a crash: closing a round again from the same snapshot and journal gives the same bits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sidelight.errors import PlanError, RangeError, RefusedError, ReportError, StorageError
from sidelight.experts.adabatch import RWAdaBatch
from sidelight.experts.follow_leader import RWFTPL
from sidelight.experts.meta import RWMeta
from sidelight.experts.player import Player, Stream, restoring
from sidelight.experts.report import NoisyReport, scales_of
from sidelight.experts.reporting import NEW_TERMS
from sidelight.experts.server import Closed, Receipt, Server
from sidelight.experts.service.plan import ServicePlan
from sidelight.experts.service.store import ServiceStore
from sidelight.guarantees import exact
from sidelight.guarantees.curves import gaussian_floats

log = logging.getLogger("sidelight.experts.service")

#: How many closed rounds are kept for the page.
HISTORY = 500
_COUNTED = (Receipt.ACCEPTED, Receipt.POSTPONED)


@dataclass(frozen=True, kw_only=True)
class RoundView:
    """What everybody may see. `round` is None when all rounds were played."""

    round: int | None
    action: int | None
    deadline: float | None
    clients: int
    closed: tuple[Closed, ...]


class Rounds:
    """The running service without its network: `start`, `receive` as often as reports come, `stop`."""

    def __init__(self, plan: ServicePlan, store: ServiceStore, *, clock: Callable[[], float] = time.time) -> None:
        self.plan = plan
        self.received = 0
        self.observers: tuple[float, float] | None = None  # δ(1) of the last round for observers, and for all others
        self.failed = asyncio.Event()
        self._store = store
        self._clock = clock
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="disk")
        self._lock = asyncio.Lock()
        self._complete = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._computing: asyncio.Task[None] | None = None
        try:
            self._server, self._history, self._deadline = self._resumed()
        except BaseException:
            store.close()
            raise
        self._publish()

    def _resumed(self) -> tuple[Server, list[Closed], float | None]:
        with restoring("service"):
            if (stored := self._store.load()) is not None:
                return self._restored(*stored)
        server = new_server(self.plan)
        server.open_round()
        deadline = self._clock() + self.plan.seconds
        self._store.save(self._content(server, [], deadline))
        self._journal = self._store.journal(executor=self._disk)
        return server, [], deadline

    def _restored(self, content: dict[str, Any], texts: list[str]) -> tuple[Server, list[Closed], float | None]:
        server = Server.from_state(_with_clients(content, self.plan))
        for text in texts:
            if server.receive(NoisyReport.from_json(text)) not in _COUNTED:
                raise StorageError("the journal does not belong to its snapshot; restore both from one backup")
        history, deadline = [Closed(**each) for each in content["history"]], content["deadline"]
        self._journal = self._store.journal(executor=self._disk)
        return server, history, deadline

    def _content(self, server: Server, history: list[Closed], deadline: float | None) -> dict[str, Any]:
        return {
            "agreement": self.plan.agreement(),
            "server": server.state(),
            "history": [asdict(each) for each in history],
            "deadline": deadline,
        }

    def _publish(self) -> None:
        server = self._server
        self.view = RoundView(
            round=server.round if server.is_open else None,
            action=server.open_round() if server.is_open else None,
            deadline=self._deadline if server.is_open else None,
            clients=len(server.clients),
            closed=tuple(self._history),
        )
        self.received = server.reports_received
        self._note_complete()

    def start(self) -> None:
        """Begin to close rounds at their deadlines."""
        _ = self._server.limits.codes  # loads what the first closing would wait for
        self._task = asyncio.create_task(self._run())

    def want_observers(self) -> None:
        """Begin to compute `observers` at the first request; only RW-AdaBatch has such a figure."""
        if self._computing is None and isinstance(self._server.player, RWAdaBatch):
            self._computing = asyncio.create_task(self._compute_observers())

    async def _compute_observers(self) -> None:
        """Compute once what observers of the actions learn about a report of the last round; it may take seconds."""

        def compute() -> tuple[float, float]:
            terms = self.plan.reporting
            guarantee = self._server.observers_guarantee(terms.rounds)
            plain = float(gaussian_floats(float(terms.exact_mu), np.array(1.0)))
            return min(plain, float(guarantee.delta(1.0))), plain

        with contextlib.suppress(RangeError):  # no such figure for these terms: the page leaves it out
            self.observers = await asyncio.get_running_loop().run_in_executor(None, compute)

    @property
    def window(self) -> int:
        """How many of the last rounds' noisy gains are kept, for learners that look at them."""
        player = self._server.player
        return player.window if isinstance(player, RWMeta) else 0

    async def stop(self) -> None:
        """Stop. The open round stays open: the next start goes on with it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        async with self._lock:  # a closing that was under way ends first
            self._journal.close()
        self._disk.shutdown()
        self._store.close()

    async def receive(self, report: NoisyReport) -> Receipt:
        """Take a report; return when the answer is safe to give: whatever it confirms is on the disk.

        Raises:
            RefusedError: the report does not fit the terms, or nothing can be stored any more.
        """
        try:
            async with self._lock:
                self._check(report)  # here: a closing may have failed while this report waited
                receipt = self._server.receive(report)
                journal = self._journal
                if receipt in _COUNTED:
                    journal.append(report.to_json())
            # also for a duplicate: the first of the two may not be stored yet
            await journal.durable()
        except ReportError as error:
            raise RefusedError("other_terms", str(error)) from None
        except StorageError as error:
            self._fail()
            raise RefusedError("storage", str(error)) from None
        self.received = self._server.reports_received
        self._note_complete()
        return receipt

    def _check(self, report: NoisyReport) -> None:
        terms = self.plan.reporting
        if self.failed.is_set():
            raise RefusedError("storage", "the state cannot be stored; the service takes no more reports")
        if len(report.values) != terms.coordinates:
            raise RefusedError("wrong_length", f"a report holds {terms.coordinates} values, got {len(report.values)}")
        if not 1 <= report.round <= terms.rounds:
            raise RefusedError("no_such_round", f"rounds are numbered 1..{terms.rounds}")

    def _note_complete(self) -> None:
        if self.plan.close_when_complete and self.received >= self.view.clients:
            self._complete.set()

    async def _run(self) -> None:
        try:
            while self._deadline is not None:
                left = max(0.0, self._deadline - self._clock())
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._complete.wait(), timeout=left)
                await asyncio.shield(self._close())  # stopping waits for a closing
        except Exception as error:  # whatever it is, no report may be acknowledged any more
            log.critical("rounds stopped: %s", type(error).__name__)
            self._fail()

    async def _close(self) -> None:
        async with self._lock:
            try:
                await self._close_locked()
            except BaseException:
                self._fail()  # before the lock is free: memory may be a round ahead of the disk
                raise

    async def _close_locked(self) -> None:
        await self._journal.durable()
        self._complete.clear()
        closed = self._server.close_round()
        self._history = [*self._history, closed][-HISTORY:]
        more = self._server.round <= self.plan.reporting.rounds
        if more:
            self._server.open_round()
        self._deadline = self._clock() + self.plan.seconds if more else None
        content = self._content(self._server, self._history, self._deadline)
        await asyncio.get_running_loop().run_in_executor(self._disk, self._store.save, content)
        self._journal.close()
        self._journal = self._store.journal(executor=self._disk)
        self._publish()
        log.info("round %d closed: %d of %d reports", closed.round, closed.reports, closed.expected)

    def _fail(self) -> None:
        self.failed.set()


def _with_clients(content: dict[str, Any], plan: ServicePlan) -> dict[str, Any]:
    """Return the stored server with the plan's clients: some may be new, all else must be as it was."""
    wanted = plan.agreement()
    for name, value in content["agreement"].items():
        if wanted[name] != value:
            raise PlanError(
                f"{name} of the plan changed since the first round; name the terms as they were. {NEW_TERMS}, "
                "and a [storage] folder of its own"
            )
    state: dict[str, Any] = content["server"]
    old: dict[str, int | None] = state["clients"]
    new = dict(plan.clients) if isinstance(plan.clients, dict) else dict.fromkeys(plan.clients)
    if any(name not in new or new[name] != place for name, place in old.items()):
        raise PlanError("a client of earlier rounds is gone or has another coordinate; keep it, and revoke its token")
    return state | {"clients": new}


def new_server(plan: ServicePlan) -> Server:
    """Return the server of a plan, no round played."""
    return Server(
        reporting=plan.reporting,
        player=_player(plan),
        clients=plan.clients,
        late=plan.late,
        allow_seeded=plan.seed is not None,
        stream=_stream(plan, "server"),
    )


def _player(plan: ServicePlan) -> Player:
    table, terms, gain_range = plan.player, plan.reporting, float(plan.reporting.exact_gain_range)
    shared: dict[str, Any] = {"actions": terms.actions, "stream": _stream(plan, "player")}
    for name in ("server_noise", "tolerance", "floor"):  # those of another kind were refused with the plan
        if (value := getattr(table, name)) is not None:
            shared[name] = float(exact(value, name=name))
    # Averages of k vectors have noise η/√k. RW-AdaBatch pads every round to the largest η of a client, others do not.
    if table.kind == "rw_adabatch":
        noise_scale = float(terms.noise_scale)
        return RWAdaBatch(noise_scale=noise_scale, gain_range=gain_range, largest_batch=table.largest_batch, **shared)
    usual = scales_of(terms, plan.clients if isinstance(plan.clients, dict) else dict.fromkeys(plan.clients))
    if table.kind == "rw_ftpl":
        return RWFTPL(noise_scale=usual, **shared)
    return RWMeta(noise_scale=usual, gain_range=gain_range, **shared)


def _stream(plan: ServicePlan, purpose: str) -> Stream:
    return Stream() if plan.seed is None else Stream.seeded(plan.seed).child(purpose)
