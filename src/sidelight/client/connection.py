"""Blocking and asynchronous connections to a server: they differ in how they send bytes and pause. Requests are

repeated with the same bytes until they are answered, and answers are checked. Conversations are written once, as
coroutines: those of a blocking connection never wait for an event loop and run to their end at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from sidelight.errors import ServiceError
from sidelight.web import http_client
from sidelight.wire import error_of

Result = TypeVar("Result")
#: The largest answer that is read, in bytes.
MOST_BYTES = 16 * 2**20
#: Statuses after which the same request may succeed.
_PASSING: Final = (429, 502, 503, 504)
#: Seconds to wait for an answer: longer than a server holds a request.
_TIMEOUT: Final = 40.0


class HttpRequest(NamedTuple):
    """A request to send."""

    method: str
    path: str
    content: bytes | None
    headers: Mapping[str, str]


class HttpAnswer(NamedTuple):
    """An answer: status and body; or status 0, with the name of the error as the body."""

    status: int
    body: bytes


class Connection:
    """Sends requests with a token to one host, and blocks until they are answered. A forked process

    opens its own connections: on a shared one each would read the other's answers.
    """

    awaited = False

    def __init__(self, url: str, token: str, *, patience: float, verify: Any, transport: Any) -> None:
        def client() -> Any:
            return http_client(
                url,
                token,
                patience=patience,
                timeout=_TIMEOUT,
                verify=verify,
                transport=transport,
                awaited=self.awaited,
            )

        client()  # a wrong address is refused at once; nothing is opened
        self._clients = _Clients(client)

    def run(self, conversation: Coroutine[Any, Any, Any]) -> Any:
        """Run a conversation and return its result."""
        try:
            conversation.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("unreachable: nothing in it waits for an event loop")

    async def ask(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        *,
        patience: float,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send bytes, repeatedly if needed, and return the JSON of the answer."""
        kind = {} if content is None else {"Content-Type": "application/json"}
        sent = HttpRequest(method, path, content, {**kind, **(headers or {})})
        end, pause = time.monotonic() + patience, 0.2
        while True:
            status, body = await self._once(sent)
            if 0 < status < 400:
                return _object(body)
            refused: Exception = ServiceError(f"the server cannot be reached ({body.decode()})", code="unreachable")
            if status:
                refused = error_of(_object(body))
            if (status and status not in _PASSING) or time.monotonic() + pause > end:
                raise refused
            await self.sleep(pause)
            pause = min(2 * pause, 5.0)

    async def sleep(self, seconds: float) -> None:
        """Do nothing for a while."""
        time.sleep(seconds)

    async def close(self) -> None:
        """Close the connection."""
        if (client := self._clients.closed(None)) is not None:
            client.close()

    async def _once(self, sent: HttpRequest) -> HttpAnswer:
        import httpx

        body = _Body()
        try:
            with self._clients.of(None).stream(**_arguments(sent)) as answer:
                for part in answer.iter_bytes():
                    body.take(part)
                return HttpAnswer(answer.status_code, body.found)
        except httpx.TransportError as error:
            return HttpAnswer(0, type(error).__name__.encode())


class AwaitedConnection(Connection):
    """Sends requests asynchronously; one client per event loop."""

    awaited = True

    def run(self, conversation: Coroutine[Any, Any, Any]) -> Any:
        """Return the conversation, to be awaited."""
        return conversation

    async def sleep(self, seconds: float) -> None:
        """Sleep without blocking the event loop."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the connections of this event loop; those of others ended with them."""
        if (client := self._clients.closed(asyncio.get_running_loop())) is not None:
            await client.aclose()

    async def _once(self, sent: HttpRequest) -> HttpAnswer:
        import httpx

        body = _Body()
        try:
            async with self._clients.of(asyncio.get_running_loop()).stream(**_arguments(sent)) as answer:
                async for part in answer.aiter_bytes():
                    body.take(part)
                return HttpAnswer(answer.status_code, body.found)
        except httpx.TransportError as error:
            return HttpAnswer(0, type(error).__name__.encode())


class _Clients:
    """A client of httpx for each process and event loop: neither may use what another opened."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._open = make, True
        self._blocking: dict[int, Any] = {}
        self._awaited: dict[int, WeakKeyDictionary[Any, Any]] = {}  # of a parent process, never touched by a child

    def of(self, loop: Any) -> Any:
        if not self._open:
            raise ServiceError("this connection was closed; open another with sl.connect", code="closed")
        found, name = self._here(loop)
        if name not in found:
            found[name] = self._make()
        return found[name]

    def closed(self, loop: Any) -> Any:
        """Stop sending, and return the client to close."""
        self._open = False
        found, name = self._here(loop)
        return found.pop(name, None)

    def _here(self, loop: Any) -> tuple[Any, Any]:
        process = os.getpid()
        if loop is None:
            return self._blocking, process
        return self._awaited.setdefault(process, WeakKeyDictionary()), loop


class _Body:
    """The body of an answer, up to a limit."""

    def __init__(self) -> None:
        self.found = b""

    def take(self, part: bytes) -> None:
        self.found += part
        if len(self.found) > MOST_BYTES:
            raise ServiceError(f"the answer has more than {MOST_BYTES} bytes", code="too-large")


def _arguments(sent: HttpRequest) -> dict[str, Any]:
    return {"method": sent.method, "url": sent.path, "content": sent.content, "headers": dict(sent.headers)}


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ServiceError("the answer is not JSON of a sidelight server; is this its address?", code="unknown")
    return found
