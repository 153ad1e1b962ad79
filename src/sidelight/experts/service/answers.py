"""What everybody may see of a service: JSON and its OpenAPI description for programs, the live page for people.

The page is one HTML text with its style and script inside, allowed by their hashes and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from sidelight.experts.server import Closed
from sidelight.experts.service.plan import ServicePlan
from sidelight.experts.service.rounds import Rounds
from sidelight.guarantees import decimal_text
from sidelight.version import VERSION

if TYPE_CHECKING:
    from jinja2 import Template

_SHOWN_IN_TABLE = 20
#: The picture of closed rounds: how many, actions with a row of their own, measures, and letters of a name.
_ROUNDS = 60
_ROWS = 24
_WIDTH, _LEFT, _ROW, _BARS = 800, 150, 24, 44
_NAME = 20


def _part(name: str) -> str:
    return files("sidelight.experts.service").joinpath("live", name).read_text(encoding="utf-8")


def _allowed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_STYLE, _SCRIPT = _part("page.css"), _part("page.js")

#: What the page may do: its own style and script, and ask its own service.
PAGE_POLICY = "; ".join(
    [
        "default-src 'none'",
        f"style-src {_allowed(_STYLE)}",
        f"script-src {_allowed(_SCRIPT)}",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_part("page.html"))


def page(rounds: Rounds) -> str:
    """Return the page of the rounds as they stand."""
    view, plan, now = rounds.view, rounds.plan, time.time()
    deadline = moment(view.deadline or now)
    seconds = max(0, int((view.deadline or now) - now))
    terms = plan.reporting
    observers = rounds.observers
    return _template().render(
        plan=plan,
        view=view,
        received=rounds.received,
        deadline=f"{deadline[:10]} {deadline[11:19]}",
        deadline_iso=deadline,
        now_iso=moment(now),
        left=f"{seconds // 60:02d}:{seconds % 60:02d}",
        strip=strip_chart(view.closed, plan.action_names),
        last=view.closed[: -_SHOWN_IN_TABLE - 1 : -1],
        claims=str(terms.claims),
        success=_success(float(terms.exact_mu)),
        person_claims=None if terms.max_rounds_per_person is None else str(terms.person_claims),
        window=rounds.window,
        observers=None if observers is None else [_up(each) for each in observers],
        style=Markup(_STYLE),
        script=Markup(_SCRIPT),
        version=VERSION,
    )


def _success(mu: float) -> str:
    """How often the best test of two neighbours is right, if both are equally likely: Φ(μ/2), rounded up."""
    percent = 100 * (0.5 + 0.5 * math.erf(mu / 2 / math.sqrt(2)))
    return f"{min(100.0, math.ceil(10 * percent) / 10):.1f} %"


def _up(delta: float) -> str:
    """A δ with three digits, never smaller than it is."""
    delta = max(delta, 1e-300)  # a smaller one can have become 0
    step = 10.0 ** (math.floor(math.log10(delta)) - 2)
    return f"{math.ceil(delta / step) * step:.3g}"


def strip_chart(closed: Sequence[Closed], names: Sequence[str]) -> Markup | None:
    """Return the last rounds as SVG: a lane for every action, chosen or not. None without rounds.

    Of more actions than there is room for, those that were chosen most often have one, and the others share the last.
    A few rectangles, so by hand.
    """
    shown = list(closed[-_ROUNDS:])
    if not shown:
        return None
    rows = _rows(shown, len(names))
    step = min((_WIDTH - _LEFT) / len(shown), 26.0)
    bars = len(rows) * _ROW + 14
    parts = []
    for place, action in enumerate([*rows, None] if len(names) > len(rows) else rows):
        y = place * _ROW + _ROW / 2
        name = "others" if action is None else names[action]
        name = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
        parts.append(f'<text class="axis end" x="{_LEFT - 12}" y="{y + 4:.1f}">{escape(name)}</text>')
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y}" y2="{y}"/>')
        bars = (place + 1) * _ROW + 14
    for place, each in enumerate(shown):
        x = _LEFT + place * step
        row = rows.index(each.action) if each.action in rows else len(rows)
        kind = "mark last" if place == len(shown) - 1 else "mark"
        parts.append(_bar(kind, x, row * _ROW + 5, step, _ROW - 10))
        height = _BARS * min(1.0, each.reports / each.expected)
        parts.append(_bar("part", x, bars + _BARS - height, step, height))
    base = bars + _BARS
    parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{base}" y2="{base}"/>')
    parts.append(f'<text class="axis end" x="{_LEFT - 12}" y="{bars + _BARS / 2 + 4:.1f}">reports</text>')
    parts.append(f'<text class="axis" x="{_LEFT}" y="{base + 16}">round {shown[0].round}</text>')
    if len(shown) * step > 150:
        last = f'<text class="axis end" x="{_LEFT + len(shown) * step:.1f}" y="{base + 16}">{shown[-1].round}</text>'
        parts.append(last)
    title = f"Chosen actions of rounds {shown[0].round} to {shown[-1].round}, last: {names[shown[-1].action]}"
    head = f'<svg class="strip" viewBox="0 0 {_WIDTH} {base + 22}" role="img"><title>{escape(title)}</title>'
    return Markup(head + "".join(parts) + "</svg>")


def _rows(shown: Sequence[Closed], actions: int) -> list[int]:
    if actions <= _ROWS:
        return list(range(actions))
    counts: dict[int, int] = {}
    for each in shown:
        counts[each.action] = counts.get(each.action, 0) + 1
    often = sorted(counts, key=lambda action: (-counts[action], action))
    return often[: _ROWS - 1]


def _bar(kind: str, x: float, y: float, width: float, height: float) -> str:
    inside = max(width - 2, width * 0.7)
    return f'<rect class="{kind}" x="{x:.2f}" y="{y:.2f}" width="{inside:.2f}" height="{height:.2f}" rx="2"/>'


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
        "noise_scales": None
        if terms.sizes is None
        else {name: decimal_text(terms.noise_scale_of(name)) for name in terms.sizes},
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


#: Code, which programs read, and HTTP status of each refusal.
STATUS = {
    "malformed": 400,
    "no_token": 401,
    "unknown_token": 401,
    "revoked_token": 403,
    "not_your_name": 403,
    "not_found": 404,
    "wrong_method": 405,
    "too_slow": 408,
    "closed_round": 409,
    "future_round": 409,
    "conflict": 409,
    "too_large": 413,
    "wrong_type": 415,
    "not_finite": 422,
    "wrong_length": 422,
    "no_such_round": 422,
    "other_terms": 422,
    "storage": 503,
}

_TEXT = {"type": "string"}
_CLIENT = {"type": "string", "minLength": 1, "maxLength": 200}
_WHOLE = {"type": "integer"}
_COUNT = {"type": "integer", "minimum": 0}


def description(plan: ServicePlan) -> dict[str, Any]:
    """Return the description of a plan's service, with the limits of its terms."""
    return {
        "openapi": "3.1.0",
        "info": {"title": plan.title, "version": VERSION, "summary": "Noisy reports in, one action a round out."},
        "paths": {
            "/": {"get": _get("The live page.", {"type": "string"}, content="text/html")},
            "/health": {"get": _get("Whether reports are taken.", _object(status=_TEXT), more=(503,))},
            "/openapi.json": {"get": _get("This description.", {"type": "object"})},
            "/v1/terms": {"get": _get("What clients must agree with.", _TERMS)},
            "/v1/round": {"get": _get("The open round.", _ROUND)},
            "/v1/rounds": {"get": _rounds()},
            "/v1/reports": {"post": _reports()},
        },
        "components": {
            "schemas": {"Report": _report(plan), "Receipt": _RECEIPT, "Refusal": _REFUSAL},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return schema | {"type": [schema["type"], "null"]}


_REFUSAL = _object(code={"type": "string", "enum": list(STATUS)}, message=_TEXT, open_round=_or_null(_WHOLE))
_RECEIPT = _object(
    receipt={"type": "string", "enum": ["accepted", "duplicate", "postponed"]}, round=_WHOLE, nonce=_CLIENT
)
_ROUND = _object(
    state={"type": "string", "enum": ["open", "finished"]},
    round=_or_null(_COUNT),
    rounds=_COUNT,
    action=_or_null(_COUNT),
    action_name=_or_null(_TEXT),
    deadline=_or_null({"type": "string", "format": "date-time"}),
    seconds_left=_or_null({"type": "number", "minimum": 0}),
    reports=_COUNT,
    clients=_COUNT,
)
_CLOSED = _object(round=_COUNT, action=_COUNT, action_name=_TEXT, reports=_COUNT, clients=_COUNT)
_TERMS = _object(
    title=_TEXT,
    terms={"type": "object"},
    noise_scale=_TEXT,
    noise_scales={"type": ["object", "null"], "additionalProperties": _TEXT},
    actions={"type": "array", "items": _TEXT},
    player=_TEXT,
    seconds={"type": "number"},
    late=_TEXT,
    testing={"type": "boolean"},
    guarantee=_TEXT,
    person_guarantee=_or_null(_TEXT),
)


def _get(summary: str, schema: Any, *, content: str = "application/json", more: tuple[int, ...] = ()) -> dict[str, Any]:
    answer = {"description": summary, "content": {content: {"schema": schema}}}
    return {"summary": summary, "responses": {str(status): answer for status in (200, *more)}}


def _refusals(*statuses: int) -> dict[str, Any]:
    found = {}
    for status in statuses:
        codes = ", ".join(code for code, its in STATUS.items() if its == status)
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
        found[str(status)] = {"description": f"Refused: {codes}.", "content": content}
    return found


def _rounds() -> dict[str, Any]:
    operation = _get("Closed rounds, oldest first.", _object(rounds={"type": "array", "items": _CLOSED}, kept=_COUNT))
    operation["parameters"] = [
        {
            "name": "after",
            "in": "query",
            "required": False,
            "description": "Only rounds after this one.",
            "schema": {"type": "integer", "minimum": 0, "maximum": 10**11 - 1},
        }
    ]
    operation["responses"] |= _refusals(400)
    return operation


def _reports() -> dict[str, Any]:
    receipt = {"application/json": {"schema": {"$ref": "#/components/schemas/Receipt"}}}
    counted = {
        "201": {"description": "Accepted: stored, and counted once.", "content": receipt},
        "200": {"description": "The same report as before: counted once.", "content": receipt},
        "202": {"description": "Its round is closed; it counts in the open one.", "content": receipt},
    }
    return {
        "summary": "Send a report. The same bytes may be sent as often as needed.",
        "security": [{"token": []}],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Report"}}},
        },
        "responses": counted | _refusals(400, 401, 403, 408, 409, 413, 415, 422, 503),
    }


def _report(plan: ServicePlan) -> dict[str, Any]:
    terms = plan.reporting
    scales = sorted({decimal_text(terms.noise_scale_of(name)) for name in plan.clients})
    index = {"type": "integer", "minimum": 0, "maximum": terms.actions - 1} if terms.kind == "coordinate" else None
    return _object(
        version={"const": 1},
        client_id=_CLIENT,
        round={"type": "integer", "minimum": 1, "maximum": terms.rounds},
        kind={"const": terms.kind},
        index=index or {"type": "null"},
        values={
            "type": "array",
            "items": _WHOLE,
            "minItems": terms.coordinates,
            "maxItems": terms.coordinates,
            "description": f"Noisy gains in units of 2^-{terms.grid_bits}.",
        },
        grid_bits={"const": terms.grid_bits},
        noise_scale={"const": scales[0]} if len(scales) == 1 else {"type": "string", "enum": scales},
        mu={"const": decimal_text(terms.exact_mu)},
        nonce=_CLIENT,
        entropy=_CLIENT,
    )
