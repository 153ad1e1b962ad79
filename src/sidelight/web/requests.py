"""Requests and answers of a service: bodies that are small and arrive in time, headers, and few log lines of a kind."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request

from sidelight.errors import RefusedError

HEADERS = {
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


class WithHeaders:
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
                        for name, value in HEADERS.items()
                        if name.lower().encode() not in present
                    ),
                ]
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


async def read_body(request: Request, *, largest: int) -> bytes:
    """Return the body of a request; refuse one that is too large before it is all here, or that trickles in."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusedError("wrong_type", "a body is sent as application/json")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:19]) > largest:
        raise RefusedError("too_large", f"a body has at most {largest} bytes")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                size += len(part)
                if size > largest:
                    raise RefusedError("too_large", f"a body has at most {largest} bytes")
                parts.append(part)
    except TimeoutError:
        raise RefusedError("too_slow", f"a body must arrive within {PATIENCE:.0f} seconds") from None
    except ClientDisconnect:
        raise RefusedError("malformed", "the body broke off") from None
    return b"".join(parts)


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
