"""What everybody may see of a service, as JSON: rounds, actions, counts of reports and the guarantee. No report."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from sidelight.experts.server import Closed
from sidelight.experts.service.plan import ServicePlan
from sidelight.experts.service.rounds import Rounds
from sidelight.guarantees import decimal_text


def round_json(rounds: Rounds) -> dict[str, Any]:
    """The open round, or that there is none any more."""
    view, plan = rounds.view, rounds.plan
    is_open = view.round is not None and view.deadline is not None and view.action is not None
    return {
        "state": "open" if is_open else "finished",
        "round": view.round,
        "rounds": plan.reporting.rounds,
        "action": view.action,
        "action_name": None if view.action is None else plan.action_names[view.action],
        "deadline": None if view.deadline is None else moment(view.deadline),
        "seconds_left": None if view.deadline is None else round(max(0.0, view.deadline - time.time()), 3),
        "reports": rounds.received,
        "clients": view.clients,
    }


def closed_json(closed: Closed, plan: ServicePlan) -> dict[str, Any]:
    """A closed round."""
    return {
        "round": closed.round,
        "action": closed.action,
        "action_name": plan.action_names[closed.action],
        "reports": closed.reports,
        "clients": closed.expected,
    }


def terms_json(plan: ServicePlan) -> dict[str, Any]:
    """What clients must agree with, and what it guarantees them."""
    terms = plan.reporting
    return {
        "title": plan.title,
        "terms": terms.to_json(),
        "noise_scale": decimal_text(terms.noise_scale),
        "actions": list(plan.action_names),
        "player": plan.player.kind,
        "seconds": plan.seconds,
        "late": plan.late,
        "testing": plan.seed is not None,
        "guarantee": str(terms.claims),
        "person_guarantee": None if terms.max_rounds_per_person is None else str(terms.person_claims),
    }


def moment(seconds: float) -> str:
    """A time as text, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
