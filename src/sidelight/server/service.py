"""The parts of one server, shared by its routes: identities, prices, and accepting a request once.

No table is ever opened in this process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from starlette.applications import Starlette
from starlette.requests import Request

from sidelight.errors import ClaimError, PlanError, SidelightError
from sidelight.guarantees import Claims
from sidelight.ledger import LedgerEntry
from sidelight.ledger.decide import DECLARED
from sidelight.server.answers import accepted_json, beyond, entry_json, outcome_texts, table_json
from sidelight.server.audit_log import AuditLog
from sidelight.server.budgets import AccountQuote, Budgets, canonical_of, ready_time
from sidelight.server.clocks import ServerClock
from sidelight.server.config import LEAD, Pool, ServedTable, ServerConfig
from sidelight.server.guard import address_of
from sidelight.server.identity import Holder, IdentityStore
from sidelight.server.limits import RateLimit
from sidelight.server.metrics import MetricsPage, metrics_text
from sidelight.server.pricing import Pricing
from sidelight.server.proxy_identity import TrustedProxy
from sidelight.server.schedule import SeatSchedule
from sidelight.server.slots import Accepted, Slots
from sidelight.server.worker import READY, clear_scratch
from sidelight.server.zygote import Zygote
from sidelight.web.requests import LogLimit
from sidelight.wire import LIMITS, RELEASE_ID, ProblemError, problem_of, query_digest, release_ids, write_json

log = logging.getLogger("sidelight.server")
#: Cached prices per analyst: a common cache would reveal what others asked.
_REMEMBERED_PRICES = 200
#: Longest query with its price that is cached, in characters: 200 large ones per analyst would fill the memory.
_REMEMBERED_TEXT = 16 * 1024
#: Earlier releases that one query may name.
MOST_RELEASES = 50
#: Wrong tokens per address and minute; valid ones are always accepted.
_WRONG_TOKENS = 10
#: Seconds per minute for which an analyst may occupy a pricing process.
_PRICING_SECONDS = 20.0
#: Also of a request that may be a repeated one: it says nothing about a charge.
NOT_NOW = "The server cannot answer now; a request that was accepted goes on."
#: Seconds in which all sources must open at the start.
_OPENING = 120.0
#: The forecast of a query for which computing it takes too long.
_NO_FORECAST = {
    "size": None, "unit": "", "basis": "nothing", "condition": "the forecast takes too long", "likely": None,
    "text": "unknown: the forecast takes too long",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Asking:
    """The analyst, table and account of a request."""

    holder: Holder
    table: ServedTable
    account: Pool


class AnalystService:
    """The parts of a server; some exist only while the application runs."""

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.store = IdentityStore(config.store)
        self.budgets = Budgets(config, create=True)
        self.audit = AuditLog(config.audit)
        self._proxy = None if config.proxy is None else TrustedProxy(config.proxy)
        self.zygote = Zygote(config)
        self.schedule = SeatSchedule(
            seats=config.work.seats,
            tick=config.work.tick,
            queue=config.work.queue,
            longest_wait=config.work.longest_wait,
        )
        self.pricing: Pricing
        self.slots: Slots
        self.counted: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[str] = Counter()
        self._rate = RateLimit(per_second=config.work.free_per_second, burst=4 * config.work.free_per_second)
        self._wrong = RateLimit(per_second=_WRONG_TOKENS / 60, burst=_WRONG_TOKENS)
        self._pricing_time = RateLimit(per_second=_PRICING_SECONDS / 60, burst=_PRICING_SECONDS)
        self.clock = ServerClock(self.budgets, self.schedule)
        self._prices: dict[str, dict[str, dict[str, Any]]] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._log_limit = LogLimit()
        self.stopping = False

    def prepare(self) -> None:
        """Check ledger and scopes against the file, and that every source opens, before listening."""
        self.store.check_clock(time.time())
        self.budgets.begin()
        self.clock.compare()
        for window_difference in self.budgets.other_windows(moment=self.store.latest(time.time(), keep=False)):
            log.warning("%s", window_difference)
        self.config.work.scratch.mkdir(parents=True, exist_ok=True)
        clear_scratch(self.config)
        self.zygote.start()
        self._check_sources()

    def _check_sources(self) -> None:
        """Open every source in a separate process: no table is ever opened in this one."""
        child = self.zygote.fork("sidelight.server.worker:open_tables")
        try:
            answer = child.connection.recv_bytes() if child.connection.poll(_OPENING) else b""
        except (OSError, EOFError):
            answer = b""
        finally:
            child.end()
        if answer != READY:
            name = f" of {answer.decode()!r}" if answer else ""
            raise PlanError(f"a source{name} cannot be opened; `sidelight server check` of this file says why")

    async def stop(self) -> None:
        """Accept no more requests, drop waiting ones, and return when running ones have ended."""
        self.stopping = True
        await self.slots.stop()

    def close(self) -> None:
        """Close ledger, store and log."""
        self.zygote.stop()
        self.budgets.close()
        self.store.close()
        self.audit.close()

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Run between startup and shutdown; running requests are awaited at the end."""
        del app
        self.pricing = Pricing(self.zygote, self.config.work.pricing)
        self.slots = Slots(self.budgets, self.store, self.zygote)
        log.addFilter(self._log_limit)
        cleaning = asyncio.create_task(self._give_up_the_dead())
        admin = None if self.config.listen.admin is None else MetricsPage(self.config.listen.admin, self._metrics)
        try:
            if admin is not None:
                await admin.start()
            yield
        finally:
            await self.stop()
            if admin is not None:
                await admin.stop()
            cleaning.cancel()
            await asyncio.gather(cleaning, return_exceptions=True)
            self.pricing.stop()
            await asyncio.to_thread(self.zygote.stop)
            log.removeFilter(self._log_limit)

    def _metrics(self) -> str:
        counted, refused = dict(self.counted), dict(self.refused)
        return metrics_text(self.config, self.budgets, self.store, self.schedule, counted, refused)

    async def _give_up_the_dead(self) -> None:
        """Record unfinished entries of an earlier server or a lost slot as failed, once no worker can be alive."""
        while True:
            try:
                await asyncio.to_thread(self.budgets.watch_head)
                ahead = await asyncio.to_thread(self.clock.compare)
                await asyncio.to_thread(self.budgets.give_up_late, now=time.time() - ahead)
            except SidelightError:  # asked again
                pass
            await asyncio.sleep(5)

    def is_ready(self) -> bool:
        """Return whether ledger, store of tokens and audit log can be used, and the clock agrees with the ledger's."""
        _ = self.budgets.newest_head(), self.store.latest(time.time(), keep=False)
        return self.clock.agrees and self.audit.is_writable()

    # --- identities ---------------------------------------------------------------------------------------------------

    async def holder(self, request: Request) -> Holder:
        if not self.clock.is_believed:
            log.error("nothing is answered: the clock was set forward by a day; set it back, or restart if it is right")
            raise ProblemError("unavailable", NOT_NOW)
        address = address_of(request, self.config)
        try:
            if self._proxy is not None and self._proxy.speaks(request):
                holder = self._proxy.holder(request, now=time.time())
            else:
                given = request.headers.get("authorization")  # a slow store blocks no other request
                holder = await asyncio.to_thread(self.store.holder, given, now=time.time())
        except ProblemError:
            if self._wrong.is_used_up(address):
                raise ProblemError("busy", retry_after=60) from None
            self._wrong.allows(address)
            raise
        if holder.analyst not in self.config.analysts:
            raise ProblemError("token")
        if not self._rate.allows(holder.analyst):
            raise ProblemError("busy", retry_after=1)
        return holder

    async def asking(self, request: Request, *, action: str = "read", table: str | None = None) -> Asking:
        holder = await self.holder(request)
        found = self.config.tables.get(request.path_params["table"] if table is None else table)
        account = None if found is None else found.account_of(holder.analyst)
        if found is None or account is None or not holder.may("read", found.name):
            raise ProblemError("not-found")
        if not holder.may(action, found.name):
            facts = {"analyst": holder.analyst, "token": holder.token_id, "table": found.name}
            await asyncio.to_thread(self._write, "refused", {**facts, "code": "not-allowed"})
            raise ProblemError("not-allowed", "this token may read but not release")
        return Asking(holder=holder, table=found, account=account)

    def accounts(self, holder: Holder) -> list[tuple[ServedTable, Pool]]:
        tables = [each for each in self.config.tables_of(holder.analyst) if holder.may("read", each.name)]
        return [(table, account) for table in tables if (account := table.account_of(holder.analyst)) is not None]

    async def job(self, asking: Asking, name: str, query: Mapping[str, Any]) -> dict[str, Any]:
        ids = list(dict.fromkeys(release_ids(query)))[:MOST_RELEASES]
        releases = await asyncio.to_thread(self._own_releases, asking, ids) if ids else {}
        return {
            "do": name,
            "table": asking.table.name,
            "query": write_json(query),
            "releases": releases,
            "kind": str(query.get("kind")),
        }

    def _own_releases(self, asking: Asking, ids: list[str]) -> dict[str, str]:
        """Return the finished releases of the account by their ids; others are treated as unknown."""
        found: dict[str, str] = {}
        for name in ids:
            if sum(map(len, found.values())) > LIMITS["answer_bytes"]:
                raise ProblemError("too-dear", f"the releases of a query have at most {LIMITS['answer_bytes']} bytes")
            entry = self.budgets.entry(asking.table, asking.account, name)
            if entry is not None and entry.state == "released" and self.clock.now() >= ready_time(entry):
                texts = outcome_texts(entry)
                found |= {name: texts[0]} if len(texts) == 1 else {}  # a batch has several
        return found

    async def priced(self, asking: Asking, query: Mapping[str, Any], *, forecast: bool) -> dict[str, Any]:
        job = {**await self.job(asking, "price", query), "forecast": forecast}
        memory = self._prices.setdefault(asking.holder.analyst, {})
        name = query_digest({**job, "query": dict(query)})
        if name in memory:
            return memory[name]
        try:
            found = await self.computed(asking.holder, job)
        except ProblemError as problem:
            if problem.code != "too-dear" or not forecast:
                raise
            found = {**await self.priced(asking, query, forecast=False), "expected": _NO_FORECAST}
        if len(job["query"]) + len(write_json(found)) <= _REMEMBERED_TEXT:
            if len(memory) >= _REMEMBERED_PRICES:
                memory.pop(next(iter(memory)))
            memory[name] = found
        return found

    async def computed(self, holder: Holder, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of a pricing process, within the analyst's time limit."""
        name = holder.analyst
        if self._pricing_time.is_used_up(name):
            raise ProblemError("busy", retry_after=10)
        found: dict[str, Any] = await self.pricing.ask(job, used=lambda seconds: self._pricing_time.take(name, seconds))
        return found

    def described(self, table: ServedTable, account: Pool) -> dict[str, Any]:
        """Return the public description of a table, and the current balance of the account."""
        moment = self.store.latest(time.time())
        return {
            **table_json(self.config, table, account, self.budgets.remaining(table, account, moment=moment)),
            "spent": self.budgets.spent(table, account),
            "sharing": self.budgets.sharing(table),
            "window": self.budgets.window_name(table, account, moment=moment),
            "paused": self.store.is_paused(table.name, account.name),
        }

    async def quote(self, asking: Asking, price: Mapping[str, Any]) -> AccountQuote:
        claims = Claims.from_json(price["claims"])

        def quoted() -> AccountQuote:
            moment = self.store.latest(time.time())
            return self.budgets.quote(asking.table, asking.account, claims, delta=price["delta"], moment=moment)

        try:
            return await asyncio.to_thread(quoted)
        except ClaimError as error:
            raise problem_of(error) from None

    # --- what is paid

    def turn(self, name: str) -> asyncio.Lock:
        """Return the lock of a request id, so that concurrent copies of a request are one."""
        found = self._turns.get(name)
        if found is None:
            self._turns[name] = found = asyncio.Lock()
        return found

    async def is_known(self, asking: Asking, query: Mapping[str, Any], *, name: str, digest: str) -> bool:
        """Return whether a request was made before; refuse another query under its key.

        Two queries are the same if their JSON is (members in any order, numbers by value) or if their stored form in
        the ledger is: 0.1 and "0.1", a column with and without its default options.
        """
        waiting = self.slots.get(name)
        if waiting is not None and waiting.state == "dropped":
            waiting = None  # never charged: it may be repeated
        if waiting is not None:
            known: tuple[str | None, str] = waiting.digest, waiting.canonical
        else:
            entry = await asyncio.to_thread(self.budgets.entry, asking.table, asking.account, name)
            if entry is None:
                return False
            known = entry.sent, canonical_of(entry.request)
        if known[0] != digest and known[1] != await self._canonical(asking, query):
            raise ProblemError("key-reused")
        return True

    async def _canonical(self, asking: Asking, query: Mapping[str, Any]) -> str | None:
        """Return the canonical form of a query; None if it cannot be priced, so it was never accepted."""
        try:
            price = await self.priced(asking, query, forecast=False)
        except ProblemError as problem:
            if problem.code in ("busy", "unavailable"):  # says nothing about the query
                raise
            return None
        return canonical_of({**price["request"], DECLARED: asking.table.schema.digest()})

    async def accept(self, asking: Asking, query: Mapping[str, Any], *, name: str, digest: str) -> None:
        """Price a request, write it to the audit log, and assign a slot.

        Raises:
            ProblemError: it is not accepted, and nothing was charged.
        """
        table, account, holder = asking.table, asking.account, asking.holder
        closed = self.stopping or not self.clock.agrees
        if closed or await asyncio.to_thread(self.store.is_paused, table.name, account.name):
            raise ProblemError("unavailable")
        facts = {"analyst": holder.analyst, "token": holder.token_id, "table": table.name, "query": digest, "id": name}
        price = await self.priced(asking, query, forecast=False)
        try:
            if (quote := await self.quote(asking, price)).after is None:
                raise beyond(quote)
        except ProblemError as problem:
            await asyncio.to_thread(self._write, "refused", {**facts, "code": problem.code})
            raise
        seconds = table.duration(query)
        latest = await asyncio.to_thread(self.store.latest, time.time())
        slot = self.schedule.place(table.scope_of(account), seconds, now=self.clock.now() + LEAD)
        job = {
            **await self.job(asking, "release", query),
            "id": name,
            "digest": digest,
            "analyst": holder.analyst,
            "token": holder.token_id,
            "start": slot.start,
            "end": slot.end,
            "seconds": str(seconds),
            "clock": self.clock.ahead,
            "moment": max(slot.start, latest),
        }
        canonical = canonical_of({**price["request"], DECLARED: table.schema.digest()})
        accepted = Accepted(
            request_id=name, table=table, account=account, slot=slot, digest=digest, canonical=canonical, job=job
        )
        await asyncio.to_thread(self._write, "accepted", {**facts, "starts_at": slot.start})
        self.slots.accept(accepted)

    def _write(self, action: str, facts: Mapping[str, Any]) -> None:
        try:
            self.audit.write(at=round(time.time(), 3), action=action, **facts)
        except SidelightError:
            raise ProblemError("unavailable") from None

    async def state(self, table: ServedTable, account: Pool, name: str) -> dict[str, Any] | None:
        """Return the state of a request of an account; None if there is none."""
        if not RELEASE_ID.fullmatch(name):  # not an id: do not pass it to the ledger
            return None
        waiting = self.slots.get(name)
        if waiting is not None and (waiting.account != account or waiting.table != table):
            waiting = None
        if waiting is not None and waiting.state != "dropped":
            return accepted_json(waiting)
        entry = await asyncio.to_thread(self.budgets.entry, table, account, name)
        if entry is not None:  # the ledger decides what was charged
            return entry_json(entry, table, now=self.clock.now())
        return None if waiting is None else accepted_json(waiting)

    async def finished(self, request: Request) -> tuple[Asking, LedgerEntry]:
        holder, name = await self.holder(request), request.path_params["id"]
        for table, account in self.accounts(holder) if RELEASE_ID.fullmatch(name) else ():
            entry = await asyncio.to_thread(self.budgets.entry, table, account, name)
            if entry is not None and entry.text is not None and self.clock.now() >= ready_time(entry):
                return Asking(holder=holder, table=table, account=account), entry
        raise ProblemError("not-found")
