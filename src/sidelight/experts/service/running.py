"""Runs the service of a plan with uvicorn until it is stopped, or until its disk fails."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from sidelight.errors import PlanError, StorageError
from sidelight.experts.service.plan import ServicePlan
from sidelight.web import need_service
from sidelight.web.connections import KEEP_ALIVE, Waiting, listeners, protocol, room

if TYPE_CHECKING:
    import uvicorn

    from sidelight.experts.service.rounds import Rounds


def serve(plan: ServicePlan, *, when_ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve until SIGINT or SIGTERM. `when_ready` is called with the address once requests are answered.

    Raises:
        PlanError: the plan does not fit the stored rounds, or its certificate cannot be read.
        StorageError: the folder is in use, damaged, or could not be written while serving.
    """
    need_service("starlette", "uvicorn")
    for file in (plan.certificate, plan.key):
        if file is not None and not file.is_file():
            raise PlanError(f"[listen] names {file.name!r}, and there is no such file")
    asyncio.run(_serve(plan, when_ready))


async def _serve(plan: ServicePlan, when_ready: Callable[[str], None]) -> None:
    import uvicorn

    from sidelight.experts.service.app import service_app
    from sidelight.experts.service.rounds import Rounds
    from sidelight.experts.service.store import ServiceStore
    from sidelight.web.requests import LogLimit

    rounds = Rounds(plan, ServiceStore(plan.folder))  # before the network: a mistake in the plan is a PlanError
    app = service_app(plan, open_rounds=lambda: rounds)
    try:
        waiting = Waiting(most=room())
        sockets = listeners(plan.listen.host, plan.listen.port, waiting)
    except OSError as error:
        where = f"{plan.listen.host}:{plan.listen.port}"
        raise PlanError(f"nothing can listen on {where}; is it in use? {error.strerror or error}") from None
    config = uvicorn.Config(
        app,
        http=protocol(waiting),
        loop="asyncio",  # whose sockets ask before they accept
        ssl_certfile=None if plan.certificate is None else str(plan.certificate),
        ssl_keyfile=None if plan.key is None else str(plan.key),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        backlog=256,
        timeout_graceful_shutdown=5,
        timeout_keep_alive=KEEP_ALIVE,
    )
    server = uvicorn.Server(config)
    network = logging.getLogger("uvicorn.error")
    network.setLevel(logging.WARNING)
    log_limit = LogLimit()
    network.addFilter(log_limit)
    watch = asyncio.create_task(_watch(server, rounds, when_ready))
    try:
        await server.serve(sockets=sockets)
    except SystemExit:  # uvicorn's way of saying that it could not start
        raise PlanError(f"nothing can listen on {plan.listen.host}:{plan.listen.port}; is it in use?") from None
    finally:
        network.removeFilter(log_limit)
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
    if rounds.failed.is_set():
        raise StorageError("the state could not be stored, so the service stopped; what it acknowledged is safe")


async def _watch(server: uvicorn.Server, rounds: Rounds, when_ready: Callable[[str], None]) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    gc.collect()
    gc.freeze()  # modules live as long as the service; the collector need not look at them again and again
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    scheme = "https" if server.config.is_ssl else "http"
    when_ready(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
    await rounds.failed.wait()
    server.should_exit = True
