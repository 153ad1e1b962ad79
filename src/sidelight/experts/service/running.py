"""Runs the service of a plan with uvicorn until it is stopped, or until its disk fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sidelight.errors import PlanError, StorageError
from sidelight.experts.service.plan import ServicePlan
from sidelight.web import need_service


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
    from sidelight.experts.service.app import service_app
    from sidelight.experts.service.rounds import Rounds
    from sidelight.experts.service.store import ServiceStore
    from sidelight.web.running import run_app

    rounds = Rounds(plan, ServiceStore(plan.folder))  # before the network: a mistake in the plan is a PlanError
    await run_app(
        service_app(plan, open_rounds=lambda: rounds),
        host=plan.listen.host,
        port=plan.listen.port,
        certificate=plan.certificate,
        key=plan.key,
        when_ready=when_ready,
        until=rounds.failed.wait,
    )
    if rounds.failed.is_set():
        raise StorageError("the state could not be stored, so the service stopped; what it acknowledged is safe")
