"""Blocking and asynchronous connections to a server: they differ in how they send bytes and pause. Requests are

repeated with the same bytes until the server itself answers, and answers are checked. Conversations are written once,
as coroutines: those of a blocking connection never wait for an event loop and run to their end at once.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from sidelight.errors import ServiceError, SidelightError, UnansweredError
from sidelight.web import http_client
from sidelight.wire import CODES, error_of

Result = TypeVar("Result")
#: The largest answer that is read, in bytes.
MOST_BYTES = 16 * 2**20
#: Statuses after which the same request may succeed.
_PASSING: Final = (429, 502, 503, 504)
#: Seconds in which an answer must be complete: longer than a server holds a request.
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


#: What an answer that does not end in time counts as.
_LATE: Final = HttpAnswer(0, b"Timeout")


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
        paid: bool = False,
    ) -> dict[str, Any]:
        """Send bytes, repeatedly if needed, and return the JSON of the answer.

        Raises:
            UnansweredError: no answer was understood; also any refusal of a `paid` request that was sent before, and
                not answered: what became of that is unknown.
        """
        kind = {} if content is None else {"Content-Type": "application/json"}
        sent = HttpRequest(method, path, content, {**kind, **(headers or {})})
        end, pause, unknown = time.monotonic() + patience, 0.2, False
        while True:
            status, body = await self._once(sent)
            if 0 < status < 400:
                return json_object(body)
            refused = _refusal(status, body)
            unknown |= paid and not _charged_nothing(refused)
            if (status and status not in _PASSING) or time.monotonic() + pause > end:
                code = getattr(refused, "code", "refused")
                raise UnansweredError(str(refused), code=code) if unknown else refused
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
        """Send a request in a thread: no limit of httpx ends an answer that comes byte by byte."""
        client, answered = self._clients.of(None), SimpleQueue[HttpAnswer | Exception]()
        thread = threading.Thread(target=lambda: answered.put(_answer(client, sent)), daemon=True)
        thread.start()
        try:
            found = answered.get(timeout=_TIMEOUT)
        except Empty:  # the thread ends with the next part of the answer
            return _LATE
        thread.join()
        if isinstance(found, Exception):
            raise found
        return found


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

        client, body = self._clients.of(asyncio.get_running_loop()), _Body()
        try:
            async with asyncio.timeout(_TIMEOUT), client.stream(**_arguments(sent)) as answer:
                async for part in answer.aiter_bytes():
                    body.take(part)
                return HttpAnswer(answer.status_code, body.found)
        except TimeoutError:
            return _LATE
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return HttpAnswer(0, type(error).__name__.encode())


def _answer(client: Any, sent: HttpRequest) -> HttpAnswer | Exception:
    """Return the answer of a request, or the error to raise."""
    import httpx

    body = _Body()
    try:
        with client.stream(**_arguments(sent)) as answer:
            for part in answer.iter_bytes():
                body.take(part)
            return HttpAnswer(answer.status_code, body.found)
    except TimeoutError:
        return _LATE
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return HttpAnswer(0, type(error).__name__.encode())
    except Exception as error:
        return error


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
    """The body of an answer, up to a limit of bytes and of time."""

    def __init__(self) -> None:
        self.found, self._end = b"", time.monotonic() + _TIMEOUT

    def take(self, part: bytes) -> None:
        self.found += part
        if len(self.found) > MOST_BYTES:
            raise UnansweredError(f"the answer has more than {MOST_BYTES} bytes", code="too-large")
        if time.monotonic() > self._end:
            raise TimeoutError


def _arguments(sent: HttpRequest) -> dict[str, Any]:
    return {"method": sent.method, "url": sent.path, "content": sent.content, "headers": dict(sent.headers)}


def json_object(text: bytes) -> dict[str, Any]:
    """Return the JSON object in an answer: finite numbers, and texts that can be written."""
    try:
        found = json.loads(text, parse_float=_finite, parse_constant=_finite)
        if b"\\ud" in text.lower():  # perhaps half of a surrogate pair, which JSON can write and UTF-8 cannot
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UnansweredError("the answer is not JSON of a sidelight server; is this its address?", code="unknown")
    return found


def _finite(text: str) -> float:
    if not math.isfinite(found := float(text)):
        raise ValueError(text)
    return found


def _refusal(status: int, body: bytes) -> SidelightError:
    """Return the server's refusal, or what stands in its place: no connection, or the page of a gateway."""
    if not status:
        return UnansweredError(f"the server cannot be reached ({body.decode()})", code="unreachable")
    try:
        return error_of(json_object(body))
    except UnansweredError:
        said = f"status {status} without the JSON of a sidelight server"
    if status in _PASSING:
        return UnansweredError(f"a gateway does not reach the server ({said})", code="unreachable")
    return UnansweredError(f"{said}; is this its address?", code="unknown")


def _charged_nothing(refused: SidelightError) -> bool:
    """Return whether a refusal of a paid request says that nothing was charged."""
    if isinstance(refused, ServiceError) and refused.code == "unavailable":
        return str(refused) == CODES["unavailable"].title  # another text: the request may have been accepted
    return not isinstance(refused, UnansweredError) and getattr(refused, "code", "") not in ("not-found", "unknown")
