"""Runs the server of a file with uvicorn until it is stopped; running releases finish at their ends first."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from sidelight.errors import PlanError, StorageError
from sidelight.server.config import ServerConfig
from sidelight.web import need_service
from sidelight.web.connections import KEEP_ALIVE, Waiting, listeners, protocol, room

if TYPE_CHECKING:
    import uvicorn


def serve_analysts(config: ServerConfig, *, when_ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve until SIGINT or SIGTERM. `when_ready` is called with the address once requests are answered.

    Raises:
        PlanError: the file does not fit the ledger, or nothing can listen there.
        LedgerError: the ledger does not verify, or lacks the head that was kept.
        StorageError: another server runs with the same store of tokens.
    """
    need_service("starlette", "uvicorn")
    config.store.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{config.store}.lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StorageError(f"another server runs with {config.store.name!r}; one at a time") from None
        asyncio.run(_serve(config, when_ready))


async def _serve(config: ServerConfig, when_ready: Callable[[str], None]) -> None:
    import uvicorn

    from sidelight.server.app import analyst_app
    from sidelight.server.service import AnalystService
    from sidelight.server.worker import pin_to_cores
    from sidelight.web.requests import LogLimit

    service = AnalystService(config)
    service.prepare()  # before the network: a mistake in the file is a PlanError
    pin_to_cores(listening=True)
    try:
        waiting = Waiting(most=room())
        sockets = listeners(config.listen.host, config.listen.port, waiting)
    except OSError as error:
        where = f"{config.listen.host}:{config.listen.port}"
        raise PlanError(f"nothing can listen on {where}; is it in use? {error.strerror or error}") from None
    server = uvicorn.Server(
        uvicorn.Config(
            analyst_app(service),
            http=protocol(waiting),
            loop="asyncio",  # whose sockets ask before they accept
            ssl_certfile=None if config.listen.certificate is None else str(config.listen.certificate),
            ssl_keyfile=None if config.listen.key is None else str(config.listen.key),
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
    watch = asyncio.create_task(_watch(server, when_ready))
    try:
        await server.serve(sockets=sockets)
    except SystemExit:  # uvicorn's way of saying that it could not start
        raise PlanError(f"nothing can listen on {config.listen.host}:{config.listen.port}; is it in use?") from None
    finally:
        network.removeFilter(limit)
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        service.close()


async def _watch(server: uvicorn.Server, when_ready: Callable[[str], None]) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    gc.collect()
    gc.freeze()
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    scheme = "https" if server.config.is_ssl else "http"
    when_ready(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
