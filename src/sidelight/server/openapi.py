"""`/openapi.json`: the interface of a server as OpenAPI 3.1, and the JSON schema of its queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sidelight.plans.queries import query_table
from sidelight.plans.tables import TaggedForm
from sidelight.server.config import ServerConfig
from sidelight.server.together import MOST_TOGETHER
from sidelight.version import VERSION
from sidelight.wire import CODES

_TEXT = {"type": "string"}
_ID = {"type": "string", "pattern": "^([0-9a-f]{64}|[0-9a-f]{32})$"}
_NUMBER = {"type": "number"}
_AMOUNTS = {"type": "object", "additionalProperties": _TEXT}
_FORECAST: dict[str, Any] = {"together": True, "forecast": {"type": "boolean"}}
_STATES = ["queued", "running", "released", "refused", "failed", "dropped"]


def query_schema(kinds: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of queries of these kinds, from the readers of plans."""
    found = TaggedForm(tables={kind: query_table(kind) for kind in kinds}).schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A query", **found}


def description(config: ServerConfig) -> dict[str, Any]:
    """Return the description of the interface."""
    problems = {"$ref": "#/components/schemas/Problem"}
    query = {"type": "object", "properties": {"kind": _TEXT}, "required": ["kind"]}
    state = _ref("State")
    return {
        "openapi": "3.1.0",
        "info": {"title": config.title, "version": VERSION},
        "paths": {
            "/health/live": {"get": _operation("The event loop runs.", _object(status=_TEXT), token=False)},
            "/health/ready": {
                "get": _operation("Requests are accepted.", _object(status=_TEXT), token=False, more=(503,))
            },
            "/v1/query-schema": {
                "get": _operation(
                    "The JSON schema of queries.", {"type": "object"}, token=False, content="application/schema+json"
                )
            },
            "/v1/me": {"get": _operation("The analyst of the token.", {"type": "object"}, codes=(401, 429))},
            "/v1/tables": {
                "get": _operation("The analyst's tables.", _object(tables=_list(_ref("Table"))), codes=(401, 429))
            },
            "/v1/tables/{table}": {"get": _operation("A table.", _ref("Table"), codes=(401, 404, 429), at=["table"])},
            **{
                f"/v1/tables/{{table}}/{name}": {
                    "post": _operation(summary, answer, codes=_ASKED, at=["table"], body=_body(query, **more))
                }
                for name, summary, answer, more in (
                    ("price", "The price of a query. Free.", _ref("Price"), _FORECAST),
                    (
                        "accuracy",
                        "The price of an error, or errors of prices. Free.",
                        {"type": "object"},
                        {"within": _NUMBER},
                    ),
                    ("dry-run", "A release on generated rows, not private. Free.", {"type": "object"}, {}),
                )
            },
            "/v1/tables/{table}/dummy": {
                "get": _operation(
                    "Made-up rows as CSV. Free.",
                    _TEXT,
                    codes=(400, 401, 404, 422, 429),
                    at=["table"],
                    content="text/csv",
                    given={"rows": {"type": "integer", "minimum": 1, "maximum": 100_000}},
                )
            },
            "/v1/tables/{table}/releases": {
                "post": _operation(
                    "Release a query, charged once per key.",
                    state,
                    codes=(*_ASKED, 503),
                    at=["table"],
                    body=_body(query, together=True),
                    more=(202,),
                    headers={"Idempotency-Key": {"type": "string", "pattern": "^[!-~]([ -~]{0,198}[!-~])?$"}},
                )
            },
            "/v1/releases": {
                "get": _operation(
                    "Charged requests, oldest first.",
                    _object(releases=_list(state)),
                    codes=(400, 401, 404, 429),
                    needed=("table",),
                    given={"table": _TEXT, "after": _ID, "limit": {"type": "integer", "minimum": 1, "maximum": 100}},
                )
            },
            "/v1/releases/{id}": {
                "get": _operation("A request.", state, codes=(401, 404, 429), at=["id"], more=(202,))
            },
            **{
                f"/v1/releases/{{id}}/{name}": {
                    "get": _operation(summary, _TEXT, codes=(401, 404, 422, 429), at=["id"], content=content)
                }
                for name, summary, content in (
                    ("report", "The report of a release.", "text/html"),
                    ("chart.svg", "The picture of a release, where it has one.", "image/svg+xml"),
                )
            },
            "/v1/releases/{id}/numbers": {
                "get": _operation(
                    "The numbers of a release as texts and as CSV, which is empty where it would be too long.",
                    _object(
                        titles=_list(_TEXT),
                        keys={"type": "integer"},
                        lines=_list(_list(_TEXT)),
                        more={"type": "integer"},
                        csv=_TEXT,
                    ),
                    codes=(401, 404, 422, 429),
                    at=["id"],
                )
            },
            "/v1/releases/{id}/proof": {
                "get": _operation(
                    "Whether the ledger contains a release.", {"type": "object"}, codes=(401, 404, 429), at=["id"]
                )
            },
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Problem": _object(type=_TEXT, title=_TEXT, status={"type": "integer"}, detail=_TEXT),
                "State": _object(
                    id=_TEXT,
                    table=_TEXT,
                    state={"enum": _STATES},
                    starts_at=_TEXT,
                    ready_at=_TEXT,
                    outcome={"type": ["object", "null"]},
                ),
                "Price": _object(
                    guarantee=_TEXT,
                    charge=_AMOUNTS,
                    remaining=_AMOUNTS,
                    fits={"type": "boolean"},
                    seconds=_NUMBER,
                    notes=_list(_TEXT),
                    expected={"type": ["object", "null"]},
                    cost={"type": ["object", "null"]},
                    answer_bytes={"type": "integer"},
                ),
                "Table": _object(
                    name=_TEXT,
                    column=_list({"type": "object"}),
                    promise=_TEXT,
                    remaining=_AMOUNTS,
                    spent=_AMOUNTS,
                    kinds=_list(_TEXT),
                    sharing={"enum": ["reserved", "first come"]},
                ),
            },
            "responses": {
                str(status): {
                    "description": "; ".join(sorted({each.title for each in CODES.values() if each.status == status})),
                    "content": {"application/problem+json": {"schema": problems}},
                }
                for status in sorted({each.status for each in CODES.values()})
            },
        },
    }


_ASKED = (400, 401, 403, 404, 413, 415, 422, 429)


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(of: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _object(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": list(members)}


def _body(query: Mapping[str, Any], *, together: bool = False, **more: Any) -> dict[str, Any]:
    def members(**own: Any) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {**own, **more},
            "required": list(own),
            "additionalProperties": False,
        }

    queries = {**_list(query), "minItems": 1, "maxItems": MOST_TOGETHER}
    batch = members(queries=queries, delta={"type": ["string", "number"]})
    schema = {"oneOf": [members(query=query), batch]} if together else members(query=query)
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _operation(
    summary: str,
    answer: Mapping[str, Any],
    *,
    token: bool = True,
    codes: Sequence[int] = (),
    more: Sequence[int] = (),
    at: Sequence[str] = (),
    given: Mapping[str, Any] | None = None,
    needed: Sequence[str] = (),
    headers: Mapping[str, Any] | None = None,
    body: Mapping[str, Any] | None = None,
    content: str = "application/json",
) -> dict[str, Any]:
    good = {"description": summary, "content": {content: {"schema": answer}}}
    parameters = [
        *({"name": name, "in": "path", "required": True, "schema": _TEXT} for name in at),
        *({"name": n, "in": "query", "required": n in needed, "schema": s} for n, s in (given or {}).items()),
        *({"name": name, "in": "header", "required": True, "schema": s} for name, s in (headers or {}).items()),
    ]
    return {
        "summary": summary,
        **({"security": [{"token": []}]} if token else {}),
        **({"parameters": parameters} if parameters else {}),
        **({"requestBody": body} if body else {}),
        "responses": {
            **{str(status): good for status in (200, *more)},
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in codes},
        },
    }
