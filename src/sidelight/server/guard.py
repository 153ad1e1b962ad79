"""Checks of every request: its host, its proxy, and the limits of its body."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from ipaddress import ip_address, ip_network
from typing import Any

from starlette.requests import Request

from sidelight.errors import RefusedError
from sidelight.server.answers import refusal
from sidelight.server.config import ServerConfig
from sidelight.server.together import TOGETHER, read_together
from sidelight.web.requests import read_body
from sidelight.wire import ProblemError, read_json
from sidelight.wire.json_text import MOST_BYTES

#: Headers that must not be repeated: a proxy and this server might each use another one.
_ONCE = (b"authorization", b"content-type", b"idempotency-key")
_BODY_PROBLEMS = {"wrong_type": "wrong-type", "too_large": "too-large"}


async def read_request(request: Request, members: set[str], *, together: bool = False) -> dict[str, Any]:
    """Read the body of a request: an object with a query or a batch, and known members only."""
    try:
        found = read_json(await read_body(request, largest=MOST_BYTES))
    except ProblemError:
        raise
    except RefusedError as error:
        raise ProblemError(_BODY_PROBLEMS.get(error.code, "malformed"), str(error)) from None
    if together and "queries" in found and set(found) <= members | {"queries", "delta"}:
        return {**found, "query": read_together(found)}
    query = found.get("query")
    if not isinstance(query, dict) or not set(found) <= members or query.get("kind") == TOGETHER:
        raise ProblemError("malformed", f"a request has the members {', '.join(sorted(members))}; query is an object")
    return found


def address_of(request: Request, config: ServerConfig) -> str:
    """Return the address of a client, as reported by the proxy if there is one: what that added is the last value."""
    direct = "" if request.client is None else request.client.host
    forwarded = "".join(request.headers.getlist("x-forwarded-for")[-1:])
    return forwarded.rpartition(",")[2].strip() if config.listen.behind_proxy and forwarded else direct


class Guarded:
    """Refuses requests for other hosts or from outside the proxies, and counts answers by status."""

    def __init__(self, app: Any, *, config: ServerConfig, counted: Counter[tuple[str, str]]) -> None:
        self._app, self._counted = app, counted
        listen = config.listen
        self._names = {each.lower() for each in (*listen.names, listen.host)} | {"localhost", "127.0.0.1", "[::1]"}
        self._proxies = [ip_network(each) for each in listen.behind_proxy]

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counting(message: Any) -> None:
            if message["type"] == "http.response.start":
                route = scope.get("route")
                self._counted[getattr(route, "path", "none"), str(message["status"])] += 1
            await send(message)

        problem = None if scope["path"].startswith("/health/") else self._problem(scope)
        if problem is None:
            await self._app(scope, receive, counting)
        else:
            await refusal(problem)(scope, receive, counting)

    def _problem(self, scope: Any) -> ProblemError | None:
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        host = hosts[0].rsplit(":", 1)[0] if hosts and not hosts[0].endswith("]") else "".join(hosts)
        if len(hosts) != 1 or host.lower() not in self._names:
            return ProblemError("wrong-host")
        sent = Counter(name for name, _ in scope["headers"])
        if any(sent[name] > 1 for name in _ONCE):
            return ProblemError(
                "malformed", "authorization, content-type and idempotency-key headers may occur only once"
            )
        if self._proxies:
            try:
                direct = ip_address((scope.get("client") or ("", 0))[0])
            except ValueError:
                return ProblemError("wrong-host")
            if not any(direct in network for network in self._proxies):
                return ProblemError("wrong-host")
        return None
