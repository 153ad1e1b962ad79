"""The service as an ASGI application: a few routes over `Rounds`, typed refusals, and headers that browsers respect.

What is logged: codes, rounds, and names of clients whose token was right. Never a value, a token or a path; and few
lines of one kind, so that nobody can fill the disk.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from sidelight.errors import RefusedError, ReportError
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

log = logging.getLogger("sidelight.experts.service")
_ANSWERS = {Receipt.ACCEPTED: 201, Receipt.POSTPONED: 202, Receipt.DUPLICATE: 200}
_REFUSALS = {
    Receipt.LATE: ("closed_round", "the round of this report is closed; it was not counted"),
    Receipt.EARLY: ("future_round", "the round of this report is not open yet; it was not counted"),
    Receipt.CONFLICT: ("conflict", "this client has another report in that round; the first one counts"),
}
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
#: Seconds in which a request must have arrived.
PATIENCE = 20.0
#: Lines of one kind in a while, and how long that is in seconds.
LOG_LINES, LOG_SECONDS = 5, 60.0

#: Kinds that are counted separately; all further ones count as one.
_LOG_KINDS = 1000


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
    app.add_middleware(_WithHeaders)
    app.state.service = service
    return app


def _shown(made: Callable[[], Any]) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of a page for programs."""

    async def answer(request: Request) -> Response:
        del request
        return JSONResponse(made())

    return answer


class _WithHeaders:
    """Adds the headers that every answer has, unless it brought its own."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.lower().encode(), value.encode())
                        for name, value in _HEADERS.items()
                        if name.lower().encode() not in present
                    ),
                ]
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


async def read_body(request: Request, *, largest: int) -> bytes:
    """Return the body of a request; refuse one that is too large before it is all here, or that trickles in."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusedError("wrong_type", "a report is sent as application/json")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:19]) > largest:
        raise RefusedError("too_large", f"a report has at most {largest} bytes")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                size += len(part)
                if size > largest:
                    raise RefusedError("too_large", f"a report has at most {largest} bytes")
                parts.append(part)
    except TimeoutError:
        raise RefusedError("too_slow", f"a report must arrive within {PATIENCE:.0f} seconds") from None
    except ClientDisconnect:
        raise RefusedError("malformed", "the report broke off") from None
    return b"".join(parts)


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


class LogLimit(logging.Filter):
    """Lets through the first lines of each kind in a while; the next after it says how many were left out.

    A kind is a text with its values: names of clients and codes of refusals are few, whatever is sent.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._began = clock()
        self._seen: Counter[str] = Counter()
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written."""
        if record.levelno >= logging.ERROR:
            return True
        if self._clock() - self._began >= LOG_SECONDS:
            left_out, self._left_out, self._began = self._left_out, 0, self._clock()
            self._seen.clear()
            if left_out:
                record.msg, record.args = f"{record.getMessage()} (before that, {left_out} more lines left out)", ()
        kind = record.getMessage()
        kind = kind if kind in self._seen or len(self._seen) < _LOG_KINDS else ""
        self._seen[kind] += 1
        if self._seen[kind] > LOG_LINES:
            self._left_out += 1
            return False
        return True
