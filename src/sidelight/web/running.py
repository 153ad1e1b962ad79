"""Runs an application with uvicorn until it is stopped: limited connections, few log lines, no header of its own.

Shutdown is written by hand: uvicorn drops requests that exceed its own timeout, and raises the signal that stopped
it again, so that no code after it would run.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidelight.errors import PlanError
from sidelight.web.connections import KEEP_ALIVE, Waiting, listeners, protocol, room
from sidelight.web.requests import LogLimit

if TYPE_CHECKING:
    import uvicorn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def run_app(
    app: Any,
    *,
    host: str,
    port: int,
    certificate: Path | None,
    key: Path | None,
    when_ready: Callable[[str], None],
    until: Callable[[], Awaitable[Any]] | None = None,
    before_stop: Callable[[], Awaitable[Any]] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, or until `until` returns; `when_ready` is called with the address.

    `before_stop` is awaited while requests are still answered. A second signal ends the process at once.

    Raises:
        PlanError: nothing can listen there.
    """
    import uvicorn

    try:
        waiting = Waiting(most=room())
        sockets = listeners(host, port, waiting)
    except OSError as error:
        raise PlanError(f"nothing can listen on {host}:{port}; is it in use? {error.strerror or error}") from None
    stopped = asyncio.Event()

    class OrderlyServer(uvicorn.Server):
        def capture_signals(self) -> Any:
            return _signals(stopped)

    server = OrderlyServer(
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
    watch = asyncio.create_task(_watch(server, when_ready, [stopped.wait, *filter(None, [until])], before_stop))
    try:
        await server.serve(sockets=sockets)
    except SystemExit:  # uvicorn's way of saying that it could not start
        raise PlanError(f"nothing can listen on {host}:{port}; is it in use?") from None
    finally:
        network.removeFilter(limit)
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


@contextmanager
def _signals(stopped: asyncio.Event) -> Iterator[None]:
    """Set an event at the first signal; the next one does what signals do where nothing takes them."""
    loop = asyncio.get_running_loop()

    def leave() -> None:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)

    def first() -> None:
        leave()
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        stopped.set()

    if threading.current_thread() is not threading.main_thread():  # where signals cannot be taken
        yield
        return
    for each in _SIGNALS:
        loop.add_signal_handler(each, first)
    try:
        yield
    finally:
        if not stopped.is_set():
            leave()


async def _watch(
    server: uvicorn.Server,
    when_ready: Callable[[str], None],
    ends: list[Callable[[], Awaitable[Any]]],
    before_stop: Callable[[], Awaitable[Any]] | None,
) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    gc.collect()
    gc.freeze()  # modules live as long as the service; the collector need not look at them again and again
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    scheme = "https" if server.config.is_ssl else "http"
    when_ready(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
    waiting = [asyncio.ensure_future(end()) for end in ends]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if before_stop is not None:
            await before_stop()
    finally:
        for each in waiting:
            each.cancel()
        server.should_exit = True
