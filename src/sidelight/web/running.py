"""Runs an application with uvicorn until it is stopped: limited connections, few log lines, no header of its own."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidelight.errors import PlanError
from sidelight.web.connections import KEEP_ALIVE, Waiting, listeners, protocol, room
from sidelight.web.requests import LogLimit

if TYPE_CHECKING:
    import uvicorn


async def run_app(
    app: Any,
    *,
    host: str,
    port: int,
    certificate: Path | None,
    key: Path | None,
    when_ready: Callable[[str], None],
    until: Callable[[], Awaitable[Any]] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, or until `until` returns; `when_ready` is called with the address.

    Raises:
        PlanError: nothing can listen there.
    """
    import uvicorn

    try:
        waiting = Waiting(most=room())
        sockets = listeners(host, port, waiting)
    except OSError as error:
        raise PlanError(f"nothing can listen on {host}:{port}; is it in use? {error.strerror or error}") from None
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=protocol(waiting),
            loop="asyncio",  # whose sockets ask before they accept
            ssl_certfile=None if certificate is None else str(certificate),
            ssl_keyfile=None if key is None else str(key),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            backlog=256,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=KEEP_ALIVE,
        )
    )
    network = logging.getLogger("uvicorn.error")
    network.setLevel(logging.WARNING)
    limit = LogLimit()
    network.addFilter(limit)
    watch = asyncio.create_task(_watch(server, when_ready, until))
    try:
        await server.serve(sockets=sockets)
    except SystemExit:  # uvicorn's way of saying that it could not start
        raise PlanError(f"nothing can listen on {host}:{port}; is it in use?") from None
    finally:
        network.removeFilter(limit)
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def _watch(
    server: uvicorn.Server, when_ready: Callable[[str], None], until: Callable[[], Awaitable[Any]] | None
) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    gc.collect()
    gc.freeze()  # modules live as long as the service; the collector need not look at them again and again
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    scheme = "https" if server.config.is_ssl else "http"
    when_ready(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
    if until is not None:
        await until()
        server.should_exit = True
