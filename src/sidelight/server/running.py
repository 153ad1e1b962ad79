"""Runs a configured server with uvicorn until it is stopped; running releases finish first."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import Callable

from sidelight.errors import StorageError
from sidelight.server.config import ServerConfig
from sidelight.web import need_service


def serve_analysts(config: ServerConfig, *, when_ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve until SIGINT or SIGTERM. `when_ready` is called with the address once requests are answered.

    Raises:
        PlanError: the file does not match the ledger, or the address cannot be used.
        LedgerError: the ledger does not verify, or lacks the stored head.
        StorageError: another server runs with the same store of tokens.
    """
    need_service("starlette", "uvicorn")
    if isinstance(config.store, str):  # replicas share it
        asyncio.run(_serve(config, when_ready))
        return
    config.store.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{config.store}.lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StorageError(
                f"another server runs with {config.store.name!r}; replicas share a store of tokens in PostgreSQL"
            ) from None
        asyncio.run(_serve(config, when_ready))


async def _serve(config: ServerConfig, when_ready: Callable[[str], None]) -> None:
    from sidelight.server.app import analyst_app
    from sidelight.server.service import AnalystService
    from sidelight.server.worker import pin_to_cores
    from sidelight.web.running import run_app

    service = AnalystService(config)
    service.prepare()  # before the network: a mistake in the file is a PlanError
    pin_to_cores(listening=True)
    listen = config.listen
    try:
        await run_app(
            analyst_app(service),
            host=listen.host,
            port=listen.port,
            certificate=listen.certificate,
            key=listen.key,
            when_ready=when_ready,
            before_stop=service.stop,
        )
    finally:
        service.close()
