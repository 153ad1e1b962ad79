"""The OpenAPI description of the service: what a program may send and what it can get back."""

from __future__ import annotations

from typing import Any

from sidelight.experts.service.plan import ServicePlan
from sidelight.guarantees import decimal_text
from sidelight.version import VERSION

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
_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
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
    receipt={"type": "string", "enum": ["accepted", "duplicate", "postponed"]}, round=_WHOLE, nonce=_NAME
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
        client_id=_NAME,
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
        nonce=_NAME,
        entropy=_NAME,
    )
