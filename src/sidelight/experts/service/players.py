"""The server and the player that a plan describes, before the first round."""

from __future__ import annotations

import math

from sidelight.experts.adabatch import RWAdaBatch
from sidelight.experts.ftpl import RWFTPL
from sidelight.experts.meta import RWMeta
from sidelight.experts.player import Player
from sidelight.experts.server import Server
from sidelight.experts.service.plan import Number, ServicePlan
from sidelight.experts.stream import Stream
from sidelight.guarantees import exact


def new_server(plan: ServicePlan) -> Server:
    """Return the server of a plan, no round played."""
    return Server(
        reporting=plan.reporting,
        player=_player(plan),
        clients=plan.clients,
        late=plan.late,
        allow_seeded=plan.seed is not None,
        stream=_stream(plan, "server"),
    )


def _player(plan: ServicePlan) -> Player:
    options, terms = plan.player, plan.reporting
    client_scale = float(terms.noise_scale)
    # Averages of k vectors have noise η/√k. RW-AdaBatch pads every round to the client's η, its others do not.
    averaged = client_scale / math.sqrt(len(plan.clients)) if terms.kind == "vector" else client_scale
    stream = _stream(plan, "player")
    if options.kind == "rw_ftpl":
        noise = _float(options.server_noise, 0.0, name="server_noise")
        return RWFTPL(actions=terms.actions, noise_scale=averaged, server_noise=noise, stream=stream)
    if options.kind == "rw_adabatch":
        return RWAdaBatch(
            actions=terms.actions,
            noise_scale=client_scale,
            tolerance=_float(options.tolerance, 0.01, name="tolerance"),
            gain_range=float(terms.exact_gain_range),
            largest_batch=options.largest_batch,
            stream=stream,
        )
    floor = _float(options.floor, 2 * float(terms.exact_gain_range) ** 2, name="floor")
    return RWMeta(actions=terms.actions, noise_scale=averaged, floor=floor, stream=stream)


def _stream(plan: ServicePlan, purpose: str) -> Stream:
    return Stream() if plan.seed is None else Stream.seeded(plan.seed).child(purpose)


def _float(value: Number | None, usual: float, *, name: str) -> float:
    return usual if value is None else float(exact(value, name=name))
