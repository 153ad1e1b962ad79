"""`sidelight serve` and `sidelight token`: an analyst server or an experts service, and the tokens of its clients."""

from __future__ import annotations

import logging
from pathlib import Path

from sidelight.cli.answers import note, print_cells
from sidelight.cli.terminal import tell
from sidelight.errors import RangeError, nearest
from sidelight.experts.service.app import serve
from sidelight.experts.service.plan import ServicePlan, read_service_plan
from sidelight.experts.service.store import Tokens


def serve_file(plan_file: Path) -> None:
    """Serve until interrupted; rounds resume from their stored state."""
    from sidelight.cli.analysts import is_survey, serve_survey

    if is_survey(plan_file):
        serve_survey(plan_file)
        return
    plan = read_service_plan(plan_file)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("sidelight.experts.service").setLevel(logging.INFO)
    live = {entry.client for entry in Tokens(plan.tokens).entries() if not entry.revoked}
    without = len(set(plan.clients) - live)
    if without:
        tell(f"{without} of {len(plan.clients)} clients have no token: `sidelight token new {plan_file} --all`")
    tell(f"{plan.reporting.claims}")
    if plan.seed is not None:
        tell("A test: draws are seeded, nothing is private")
    serve(plan, when_ready=lambda url: tell(f"Serving {plan.title!r} on {url}"))


def new_tokens(
    plan_file: Path,
    *,
    client: str | None,
    everybody: bool,
    tables: list[str],
    actions: str,
    days: int,
    words: str,
) -> None:
    """Print a new token for one client, or one for each client that has none."""
    from sidelight.cli.analysts import is_survey, new_analyst_token

    if is_survey(plan_file):
        new_analyst_token(plan_file, analyst=client, tables=tables, actions=actions, days=days, words=words)
        return
    plan = read_service_plan(plan_file)
    tokens = Tokens(plan.tokens)
    if (client is None) != everybody:
        raise RangeError("name one client, or give --all for every client without a token")
    if client is None:
        live = {entry.client for entry in tokens.entries() if not entry.revoked}
        names = [name for name in plan.clients if name not in live]
    else:
        names = [_known(plan, client)]
    issued = dict(zip(names, tokens.issue(*names), strict=True))
    note(tokens=[{"client": name, "token": token} for name, token in issued.items()])
    for name, token in issued.items():
        print_cells(name, token)


def revoke_token(plan_file: Path, *, client: str) -> None:
    """Revoke the token of a client; running services refuse it at once."""
    from sidelight.cli.analysts import is_survey, revoke_analyst_token

    if is_survey(plan_file):
        revoke_analyst_token(plan_file, client=client)
        return
    plan = read_service_plan(plan_file)
    Tokens(plan.tokens).revoke(client)
    note(client=client)
    tell(f"The token of {client!r} is revoked; reports it made before stay counted")


def list_tokens(plan_file: Path) -> None:
    """List the clients and whether they have a token."""
    from sidelight.cli.analysts import is_survey, list_analyst_tokens

    if is_survey(plan_file):
        list_analyst_tokens(plan_file)
        return
    plan = read_service_plan(plan_file)
    live = {entry.client: entry.id for entry in Tokens(plan.tokens).entries() if not entry.revoked}
    for name in plan.clients:
        print_cells(name, live.get(name, "no token"))
    note(clients=[{"client": name, "token": live.get(name)} for name in plan.clients])


def _known(plan: ServicePlan, client: str) -> str:
    if client not in plan.clients:
        raise RangeError(f"the plan has no client {client!r}; {nearest(client, plan.clients)}")
    return client
