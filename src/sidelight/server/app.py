"""The routes of the server as an ASGI application. Logs contain codes, never a value, a token or a query."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections import Counter
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from sidelight.errors import LedgerDamagedError, SidelightError
from sidelight.server.answers import body, entry_json, outcome_texts, price_json, refusal
from sidelight.server.guard import Guarded, read_request
from sidelight.server.openapi import description, query_schema
from sidelight.server.page import PAGE, PAGE_POLICY
from sidelight.server.pricing import MOST_DUMMY_ROWS
from sidelight.server.service import NOT_NOW, AnalystService, Asking, log
from sidelight.session import request_key
from sidelight.web.requests import WithHeaders
from sidelight.wire import RELEASE_ID, REQUEST_KEY, ProblemError, query_digest

#: Seconds for which a request may be held with `Prefer: wait=...`, and releases on one page of the history.
LONGEST_HOLD, MOST_ON_A_PAGE = 30.0, 100
#: Requests of one analyst that are held at once.
MOST_HELD = 4


class AnalystRoutes:
    """The handlers of requests; their shared state is in the service."""

    def __init__(self, service: AnalystService) -> None:
        self._service = service
        self._ready_since = (0.0, False)
        self._holding: Counter[str] = Counter()
        self._verified = (0.0, False)
        # Written once: both are served without a token, and making the schema takes most of a second.
        tables = service.config.tables.values()
        self._schema = json.dumps(query_schema(sorted({kind for table in tables for kind in table.kinds})))
        self._openapi = json.dumps(description(service.config))

    # --- free requests ------------------------------------------------------------------------------------------------

    async def me(self, request: Request) -> Response:
        """Name the analyst of the token."""
        holder = await self._service.holder(request)
        tables = [table.name for table, _ in self._service.accounts(holder)]
        return body(
            {
                "analyst": holder.analyst,
                "actions": list(holder.actions),
                "tables": tables,
                "expires": round(holder.expires),
                "title": self._service.config.title,
            }
        )

    async def tables(self, request: Request) -> Response:
        """List the tables of the analyst."""
        found = [
            await asyncio.to_thread(self._service.described, table, account)
            for table, account in self._service.accounts(await self._service.holder(request))
        ]
        return body({"tables": found})

    async def table(self, request: Request) -> Response:
        """Describe a table."""
        asking = await self._service.asking(request)
        return body(await asyncio.to_thread(self._service.described, asking.table, asking.account))

    async def price(self, request: Request) -> Response:
        """Price a query: its cost, the remaining budget, and the expected error."""
        asking = await self._service.asking(request)
        asked = await read_request(request, {"query", "forecast"}, together=True)
        price = await self._service.priced(asking, asked["query"], forecast=bool(asked.get("forecast", True)))
        quote = await self._service.quote(asking, price)
        return body(price_json(price, quote, seconds=asking.table.duration(asked["query"])))

    async def accuracy(self, request: Request) -> Response:
        """Find the price that an error needs, or without `within` the errors of prices around the query's own."""
        asking = await self._service.asking(request)
        asked = await read_request(request, {"query", "within"})
        within = str(asked["within"]) if "within" in asked else None
        job = {"within": within, **await self._service.job(asking, "accuracy", asked["query"])}
        return body(await self._service.computed(asking.holder, job))

    async def dry_run(self, request: Request) -> Response:
        """Release from generated rows with seeded noise: not private, and independent of the table."""
        asking = await self._service.asking(request)
        asked = await read_request(request, {"query"})
        job = await self._service.job(asking, "dry-run", asked["query"])
        return body(await self._service.computed(asking.holder, job))

    async def dummy(self, request: Request) -> Response:
        """Send made-up rows of the declared shape."""
        asking = await self._service.asking(request)
        given = request.query_params.get("rows", "1000")
        if not (given.isascii() and given.isdecimal() and len(given) < 8 and 1 <= int(given) <= MOST_DUMMY_ROWS):
            raise ProblemError("malformed", f"rows is a whole number of 1 to {MOST_DUMMY_ROWS}")
        job = {"do": "dummy", "table": asking.table.name, "rows": int(given)}
        found = await self._service.computed(asking.holder, job)
        headers = {"X-Sidelight-Made-Up": "generated from the schema; nothing of the table"}
        return Response(found["csv"], media_type="text/csv", headers=headers)

    # --- what is paid -------------------------------------------------------------------------------------------------

    async def release(self, request: Request) -> Response:
        """Accept a paid request once per key, even if connections or processes are lost."""
        asking = await self._service.asking(request, action="ask")
        key = request.headers.get("idempotency-key", "")
        if not REQUEST_KEY.fullmatch(key):
            raise ProblemError("key-required", "send an Idempotency-Key of 1 to 200 printable ASCII characters")
        asked = await read_request(request, {"query"}, together=True)
        name = request_key(asking.holder.analyst, asking.table.name, key)
        digest = query_digest(asked["query"])
        async with self._service.turn(name):
            if not await self._service.is_known(asking, asked["query"], name=name, digest=digest):
                await self._service.accept(asking, asked["query"], name=name, digest=digest)
        return await self._held(request, asking, name, sent=digest)

    async def _held(self, request: Request, asking: Asking, name: str, *, sent: str | None = None) -> Response:
        """Answer now, or at the end of the slot if the client prefers to wait."""
        found = re.search(r"\bwait=(\d{1,3})\b", request.headers.get("prefer", ""))
        waiting = self._service.slots.get(name)
        who, open_states = asking.holder.analyst, ("queued", "running")
        held = found is not None and self._holding[who] < MOST_HELD  # more are answered at once, and poll
        if found is not None and held and waiting is not None and waiting.state in open_states:
            self._holding[who] += 1
            with contextlib.suppress(TimeoutError):
                try:
                    async with asyncio.timeout(min(float(found[1]), LONGEST_HOLD)):
                        await waiting.done.wait()
                finally:
                    self._holding[who] -= 1
        problem = None if waiting is None or waiting.digest != sent else waiting.problem
        if problem is not None and problem.code == "key-reused":  # another replica accepted another query first
            raise problem
        answer = await self._service.state(asking.table, asking.account, name)
        if answer is None:
            raise ProblemError("not-found")
        return body(answer, status=202 if answer["state"] in ("queued", "running") else 200)

    # --- what was released --------------------------------------------------------------------------------------------

    async def one(self, request: Request) -> Response:
        """Show one request of the analyst's accounts."""
        holder = await self._service.holder(request)
        for table, account in self._service.accounts(holder):
            if await self._service.state(table, account, request.path_params["id"]) is not None:
                asking = Asking(holder=holder, table=table, account=account)
                return await self._held(request, asking, request.path_params["id"])
        raise ProblemError("not-found")

    async def history(self, request: Request) -> Response:
        """List the charged requests of an account, oldest first."""
        given = request.query_params
        asking = await self._service.asking(request, table=given.get("table", ""))
        limit, after = given.get("limit", "20"), given.get("after")
        if not (limit.isascii() and limit.isdecimal() and len(limit) < 4 and 1 <= int(limit) <= MOST_ON_A_PAGE):
            raise ProblemError("malformed", f"limit is a whole number of 1 to {MOST_ON_A_PAGE}")
        if after is not None and not RELEASE_ID.fullmatch(after):
            raise ProblemError("malformed", "after is the id of a release")
        entries = await asyncio.to_thread(
            self._service.budgets.history, asking.table, asking.account, limit=int(limit), after=after
        )
        return body({"releases": [entry_json(each, asking.table, now=self._service.clock.now()) for each in entries]})

    async def report(self, request: Request) -> Response:
        """Show the report of a release."""
        return self._file((await self._drawn(request, "report"))["html"], "text/html", "report.html")

    async def chart(self, request: Request) -> Response:
        """Show the picture of a release."""
        found = (await self._drawn(request, "chart"))["svg"]
        if found is None:
            raise ProblemError("not-found")
        return self._file(found, "image/svg+xml", "chart.svg")

    async def numbers(self, request: Request) -> Response:
        """Show the numbers of a release as texts and as CSV."""
        return body(await self._drawn(request, "numbers"))

    async def _drawn(self, request: Request, job: str) -> dict[str, Any]:
        asking, entry = await self._service.finished(request)
        return await self._service.computed(
            asking.holder, {"do": job, "texts": outcome_texts(entry), "day": entry.at_utc[:10]}
        )

    def _file(self, text: str, kind: str, name: str) -> Response:
        """Answer with a file that a browser saves and never runs in this origin."""
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"
        headers = {"Content-Security-Policy": policy, "Content-Disposition": f'attachment; filename="{name}"'}
        return Response(text, media_type=kind, headers=headers)

    async def proof(self, request: Request) -> Response:
        """Return whether the ledger contains the head of a release, and whether the whole chain verifies."""
        _, entry = await self._service.finished(request)
        if time.time() - self._verified[0] > 60:
            try:
                intact = (await asyncio.to_thread(self._service.budgets.verify)).ok
            except LedgerDamagedError:  # it lacks a head that was seen
                intact = False
            self._verified = (time.time(), intact)
        return body(
            {
                "id": entry.key,
                "entry_id": entry.entry_id,
                "ledger_head": entry.head,
                "in_ledger": True,
                "chain_intact": self._verified[1],
            }
        )

    # --- requests without a token -------------------------------------------------------------------------------------

    async def live(self, request: Request) -> Response:
        """Answer while the event loop runs."""
        del request
        return body({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Return whether requests are accepted; checked at most once a second."""
        del request
        when, good = self._ready_since
        if time.monotonic() - when > 1:
            try:
                good = await asyncio.to_thread(self._service.is_ready)
            except SidelightError:
                good = False
            self._ready_since = (time.monotonic(), good)
        good = good and self._service.clock.is_believed and not self._service.stopping
        return body({"status": "ready" if good else "not ready"}, status=200 if good else 503)

    async def page(self, request: Request) -> Response:
        """Show the page, which uses only these routes."""
        del request
        return HTMLResponse(PAGE, headers={"Content-Security-Policy": PAGE_POLICY})

    async def schema(self, request: Request) -> Response:
        """Describe the queries of all kinds that any table allows."""
        del request
        return Response(self._schema, media_type="application/schema+json")

    async def openapi(self, request: Request) -> Response:
        """Describe the interface."""
        del request
        return Response(self._openapi, media_type="application/json")


def analyst_app(service: AnalystService) -> Starlette:
    """Return the application of a prepared service."""
    routes = AnalystRoutes(service)
    app = Starlette(
        routes=[
            Route("/", routes.page),
            Route("/health/live", routes.live),
            Route("/health/ready", routes.ready),
            Route("/openapi.json", routes.openapi),
            Route("/v1/query-schema", routes.schema),
            Route("/v1/me", routes.me),
            Route("/v1/tables", routes.tables),
            Route("/v1/tables/{table}", routes.table),
            Route("/v1/tables/{table}/price", routes.price, methods=["POST"]),
            Route("/v1/tables/{table}/accuracy", routes.accuracy, methods=["POST"]),
            Route("/v1/tables/{table}/dry-run", routes.dry_run, methods=["POST"]),
            Route("/v1/tables/{table}/dummy", routes.dummy),
            Route("/v1/tables/{table}/releases", routes.release, methods=["POST"]),
            Route("/v1/releases", routes.history),
            Route("/v1/releases/{id}", routes.one),
            Route("/v1/releases/{id}/report", routes.report),
            Route("/v1/releases/{id}/chart.svg", routes.chart),
            Route("/v1/releases/{id}/numbers", routes.numbers),
            Route("/v1/releases/{id}/proof", routes.proof),
        ],
        exception_handlers={ProblemError: _refused, SidelightError: _unavailable, HTTPException: _unknown},
        lifespan=service.lifespan,
    )
    app.router.redirect_slashes = False  # behind TLS of a proxy it would lead to http
    app.add_middleware(Guarded, config=service.config, counted=service.counted)
    app.add_middleware(WithHeaders)
    app.state.service = service
    return app


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    request.app.state.service.refused[error.code] += 1
    return refusal(error)


async def _unavailable(request: Request, error: Exception) -> Response:
    """Answer every error of ledger or disk with one text: the original may name paths, hosts or scopes."""
    log.error("a request could not be answered: %s", type(error).__name__)
    return await _refused(request, ProblemError("unavailable", NOT_NOW))


async def _unknown(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return await _refused(request, ProblemError("wrong-method" if status == 405 else "not-found"))
