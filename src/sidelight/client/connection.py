"""Connections to a server, of the usual kind and for `await`: each carries out the steps of a conversation.

The same bytes are sent again until they are answered, and little is believed. What is sent, and what follows from an
answer, is written once, as generators that yield steps and are sent what came back.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any, NamedTuple, TypeVar

from sidelight.errors import ServiceError
from sidelight.web import http_client
from sidelight.wire import error_of

Result = TypeVar("Result")
#: Bytes of an answer that are read at most.
MOST_BYTES = 16 * 2**20
#: Statuses after which the same request may succeed.
_PASSING = (429, 502, 503, 504)
#: Seconds for which an answer is waited for: longer than a server holds a request.
_TIMEOUT = 40.0


class Send(NamedTuple):
    """A step: send a request, and go on with its answer."""

    method: str
    path: str
    content: bytes | None
    headers: Mapping[str, str]


class Sleep(NamedTuple):
    """A step: go on after some seconds."""

    seconds: float


class Received(NamedTuple):
    """What came back: status and body; or status 0, and the name of the error as the body."""

    status: int
    body: bytes


Steps = Generator[Send | Sleep, Any, Result]


def ask(
    method: str, path: str, content: bytes | None = None, *, patience: float, headers: Mapping[str, str] | None = None
) -> Steps[dict[str, Any]]:
    """Send bytes, again and again if need be, and return the JSON that answers them."""
    kind = {} if content is None else {"Content-Type": "application/json"}
    end, pause = time.monotonic() + patience, 0.2
    while True:
        status, body = yield Send(method, path, content, {**kind, **(headers or {})})
        if 0 < status < 400:
            return _object(body)
        refused: Exception = ServiceError(f"the server cannot be reached ({body.decode()})", code="unreachable")
        if status:
            refused = error_of(_object(body))
        if (status and status not in _PASSING) or time.monotonic() + pause > end:
            raise refused
        yield Sleep(pause)
        pause = min(2 * pause, 5.0)


class Connection:
    """Sends requests with a token; nothing is sent to another host."""

    def __init__(self, url: str, token: str, *, patience: float, verify: Any, transport: Any) -> None:
        self._http = http_client(url, token, patience=patience, timeout=_TIMEOUT, verify=verify, transport=transport)

    def run(self, steps: Steps[Result]) -> Result:
        """Carry out a conversation and return what it found."""
        given: Received | None = None
        with closing(steps):
            while True:
                try:
                    step = steps.send(given)
                except StopIteration as end:
                    result: Result = end.value
                    return result
                given = None
                if isinstance(step, Send):
                    given = self._once(step)
                else:
                    time.sleep(step.seconds)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _once(self, step: Send) -> Received:
        import httpx

        body = _Body()
        try:
            with self._http.stream(step.method, step.path, content=step.content, headers=dict(step.headers)) as answer:
                for part in answer.iter_bytes():
                    body.take(part)
                return Received(answer.status_code, body.found)
        except httpx.TransportError as error:
            return Received(0, type(error).__name__.encode())


class AsyncConnection:
    """Sends requests as a `Connection` does, and lets others run meanwhile."""

    def __init__(self, url: str, token: str, *, patience: float, verify: Any, transport: Any) -> None:
        self._http = http_client(
            url, token, patience=patience, timeout=_TIMEOUT, verify=verify, transport=transport, awaited=True
        )

    async def run(self, steps: Steps[Result]) -> Result:
        """Carry out a conversation and return what it found."""
        given: Received | None = None
        with closing(steps):
            while True:
                try:
                    step = steps.send(given)
                except StopIteration as end:
                    result: Result = end.value
                    return result
                given = None
                if isinstance(step, Send):
                    given = await self._once(step)
                else:
                    await asyncio.sleep(step.seconds)

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    async def _once(self, step: Send) -> Received:
        import httpx

        body = _Body()
        try:
            async with self._http.stream(
                step.method, step.path, content=step.content, headers=dict(step.headers)
            ) as answer:
                async for part in answer.aiter_bytes():
                    body.take(part)
                return Received(answer.status_code, body.found)
        except httpx.TransportError as error:
            return Received(0, type(error).__name__.encode())


class _Body:
    """The body of an answer, up to a limit."""

    def __init__(self) -> None:
        self.found = b""

    def take(self, part: bytes) -> None:
        self.found += part
        if len(self.found) > MOST_BYTES:
            raise ServiceError(f"the answer has more than {MOST_BYTES} bytes", code="too-large")


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ServiceError("the answer is not JSON of a sidelight server; is this its address?", code="unknown")
    return found
