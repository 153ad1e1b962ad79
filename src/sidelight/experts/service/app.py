"""The service as an ASGI application: a few routes over `Rounds`, typed refusals, and headers that browsers respect.

What is logged: codes, rounds, and names of clients whose token was right. Never a value, a token or a path; and few
lines of one kind, so that no client can fill the disk.

`serve` runs the service of a plan with uvicorn until it is stopped, or until its disk fails.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from sidelight.errors import PlanError, RefusedError, ReportError, StorageError
from sidelight.experts.report import NoisyReport
from sidelight.experts.server import Receipt
from sidelight.experts.service.answers import (
    PAGE_POLICY,
    STATUS,
    closed_json,
    description,
    page,
    round_json,
    terms_json,
)
from sidelight.experts.service.plan import ServicePlan
from sidelight.experts.service.rounds import HISTORY, Rounds
from sidelight.experts.service.store import ServiceStore, Tokens
from sidelight.web import need_service
from sidelight.web.requests import LogLimit, WithHeaders, read_body

log = logging.getLogger("sidelight.experts.service")
_ANSWERS = {Receipt.ACCEPTED: 201, Receipt.POSTPONED: 202, Receipt.DUPLICATE: 200}
_REFUSALS = {
    Receipt.LATE: ("closed_round", "the round of this report is closed; what comes now is not counted"),
    Receipt.EARLY: ("future_round", "the round of this report is not open yet; it was not counted"),
    Receipt.CONFLICT: ("conflict", "this client has another report in that round; the first one counts"),
}


class Service:
    """The routes. `rounds` is there while the application runs."""

    def __init__(self, plan: ServicePlan, open_rounds: Callable[[], Rounds]) -> None:
        self.plan = plan
        self.tokens = Tokens(plan.tokens)
        self.rounds: Rounds
        self._open_rounds = open_rounds
        self._log_limit = LogLimit()

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Resume the rounds and run them; on the way out leave them as they are, for the next start."""
        del app
        self.rounds = self._open_rounds()
        self.rounds.start()
        log.addFilter(self._log_limit)
        try:
            yield
        finally:
            log.removeFilter(self._log_limit)
            await self.rounds.stop()

    async def report(self, request: Request) -> Response:
        """Take a report."""
        client = ""
        try:
            client = self.tokens.client_of(request.headers.get("authorization"))
            report = read_report(await read_body(request, largest=self.plan.largest_report))
            if report.client_id != client:
                raise RefusedError("not_your_name", "the report bears another name than the token")
            receipt = await self.rounds.receive(report)
            if receipt in _REFUSALS:
                raise RefusedError(*_REFUSALS[receipt])
        except RefusedError as refusal:
            log.warning("refused a report of %r: %s", client or "an unknown client", refusal.code)
            return self._refusal(refusal)
        log.debug("%s a report of %r for round %d", receipt.value, client, report.round)
        body = {"receipt": receipt.value, "round": report.round, "nonce": report.nonce}
        return JSONResponse(body, status_code=_ANSWERS[receipt])

    def _refusal(self, refusal: RefusedError) -> Response:
        body: dict[str, Any] = {"code": refusal.code, "message": str(refusal), "open_round": self.rounds.view.round}
        headers = {"WWW-Authenticate": "Bearer"} if STATUS[refusal.code] == 401 else {}
        if STATUS[refusal.code] in (408, 413):
            headers["Connection"] = "close"  # the rest of the body is not wanted
        return JSONResponse(body, status_code=STATUS[refusal.code], headers=headers)

    async def closed(self, request: Request) -> Response:
        """Show closed rounds."""
        given = request.query_params.get("after", "0")
        if not (given.isascii() and given.isdecimal() and len(given) <= 11):
            return self._refusal(RefusedError("malformed", "after is a whole number of at least 0"))
        rounds = [closed_json(each, self.plan) for each in self.rounds.view.closed if each.round > int(given)]
        return JSONResponse({"rounds": rounds, "kept": HISTORY})

    async def health(self, request: Request) -> Response:
        """Return whether reports are taken."""
        del request
        failed = self.rounds.failed.is_set()
        return JSONResponse({"status": "failed" if failed else "ok"}, status_code=503 if failed else 200)

    async def page(self, request: Request) -> Response:
        """Show the live page."""
        del request
        self.rounds.want_observers()
        return HTMLResponse(page(self.rounds), headers={"Content-Security-Policy": PAGE_POLICY})

    async def unknown(self, request: Request, error: Exception) -> Response:
        """Answer what has no route, with a typed refusal like any other."""
        del request
        status = error.status_code if isinstance(error, HTTPException) else 500
        code = {404: "not_found", 405: "wrong_method"}.get(status, "malformed")
        refusal = RefusedError(code, "there is nothing here; /openapi.json says what there is")
        answer = self._refusal(refusal)
        answer.headers.update(getattr(error, "headers", None) or {})
        return answer


def service_app(plan: ServicePlan, *, open_rounds: Callable[[], Rounds] | None = None) -> Starlette:
    """Return the application of a plan. Rounds run between its startup and its shutdown."""
    service = Service(plan, open_rounds or (lambda: Rounds(plan, ServiceStore(plan.folder))))
    app = Starlette(
        routes=[
            Route("/", service.page),
            Route("/health", service.health),
            Route("/openapi.json", _shown(lambda: description(plan))),
            Route("/v1/terms", _shown(lambda: terms_json(plan))),
            Route("/v1/round", _shown(lambda: round_json(service.rounds))),
            Route("/v1/rounds", service.closed),
            Route("/v1/reports", service.report, methods=["POST"]),
        ],
        exception_handlers={HTTPException: service.unknown},
        lifespan=service.lifespan,
    )
    app.add_middleware(WithHeaders)
    app.state.service = service
    return app


def _shown(made: Callable[[], Any]) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of a page for programs."""

    async def answer(request: Request) -> Response:
        del request
        return JSONResponse(made())

    return answer


def read_report(body: bytes) -> NoisyReport:
    """Return the report in a body."""
    try:
        return NoisyReport.from_json(body)
    except ReportError as error:
        if _has_values_that_are_not_finite(body):
            raise RefusedError(
                "not_finite", "values of a report are whole numbers on the grid; one is not finite"
            ) from None
        raise RefusedError("malformed", str(error)) from None


def _has_values_that_are_not_finite(body: bytes) -> bool:
    """Look closer at a report that was refused anyhow: NaN, an infinity, or a number beyond all floats."""
    try:
        read: Any = json.loads(body)
    except (ValueError, RecursionError):
        return False
    values = read.get("values") if isinstance(read, dict) else None
    return isinstance(values, list) and any(isinstance(each, float) and not math.isfinite(each) for each in values)


def serve(plan: ServicePlan, *, when_ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve until SIGINT or SIGTERM. `when_ready` is called with the address once requests are answered.

    Raises:
        PlanError: the plan does not fit the stored rounds, or its certificate cannot be read.
        StorageError: the folder is in use, damaged, or could not be written while serving.
    """
    need_service("starlette", "uvicorn")
    for file in (plan.certificate, plan.key):
        if file is not None and not file.is_file():
            raise PlanError(f"[listen] names {file.name!r}, and there is no such file")
    asyncio.run(_serve(plan, when_ready))


async def _serve(plan: ServicePlan, when_ready: Callable[[str], None]) -> None:
    from sidelight.web.running import run_app

    rounds = Rounds(plan, ServiceStore(plan.folder))  # before the network: a mistake in the plan is a PlanError
    await run_app(
        service_app(plan, open_rounds=lambda: rounds),
        host=plan.listen.host,
        port=plan.listen.port,
        certificate=plan.certificate,
        key=plan.key,
        when_ready=when_ready,
        until=rounds.failed.wait,
    )
    if rounds.failed.is_set():
        raise StorageError("the state could not be stored, so the service stopped; what it acknowledged is safe")
