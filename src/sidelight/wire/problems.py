"""Problems by RFC 9457: a closed list of codes, each with status, fixed text, and the error that a client raises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sidelight.errors import (
    BudgetError,
    BusyError,
    ClaimError,
    KeyReusedError,
    PlanError,
    ProblemError,
    RangeError,
    SchemaError,
    ServiceError,
    SidelightError,
    StrictError,
)


class Code(NamedTuple):
    """What a code means: its HTTP status, its fixed text, and the error that the same mistake raises locally."""

    status: int
    title: str
    error: type[SidelightError]


CODES: Mapping[str, Code] = {
    "malformed": Code(400, "The request is not understood.", RangeError),
    "key-required": Code(400, "A paid request needs an Idempotency-Key.", RangeError),
    "token": Code(401, "The token is missing, unknown, expired or revoked.", ServiceError),
    "budget": Code(403, "The price does not fit what is left.", BudgetError),
    "not-allowed": Code(403, "This table does not allow it.", RangeError),
    "not-found": Code(404, "There is no such thing, or it is not yours.", ServiceError),
    "wrong-method": Code(405, "This address has another method.", ServiceError),
    "too-large": Code(413, "The body is too large.", RangeError),
    "wrong-type": Code(415, "The body is not application/json.", RangeError),
    "wrong-host": Code(421, "This host is not served here.", ServiceError),
    "query": Code(422, "The query is not understood.", PlanError),
    "schema": Code(422, "The query does not fit the schema.", SchemaError),
    "claim": Code(422, "The query has no price that this table can count.", ClaimError),
    "strict": Code(422, "This table refuses idealized numerics.", StrictError),
    "too-dear": Code(422, "The request takes too long to price, or is too large.", RangeError),
    "key-reused": Code(422, "The key was used for another query.", KeyReusedError),
    "busy": Code(429, "Too many requests at this time.", BusyError),
    "unavailable": Code(503, "The service cannot take this now; nothing was charged.", ServiceError),
}
#: Mistakes in reading and preparing a query, whose own texts are public and may be sent.
_OF_ERRORS: tuple[tuple[type[SidelightError], str], ...] = (
    (PlanError, "query"),
    (SchemaError, "schema"),
    (ClaimError, "claim"),
    (StrictError, "strict"),
    (SidelightError, "query"),
)


def problem_json(problem: ProblemError) -> dict[str, Any]:
    """Return the body of `application/problem+json`."""
    known = CODES[problem.code]
    return {
        "type": f"urn:sidelight:problem:{problem.code}",
        "title": known.title,
        "status": known.status,
        "detail": str(problem) or known.title,
        **problem.more,
    }


def problem_of(error: SidelightError) -> ProblemError:
    """Return the problem of a mistake in a query, with its own text. Only for errors raised before any row is near."""
    if isinstance(error, ProblemError):
        return error
    more = {"place": pointer(error.path)} if isinstance(error, PlanError) and error.path else {}
    return ProblemError(next(code for kind, code in _OF_ERRORS if isinstance(error, kind)), str(error), **more)


def pointer(path: Iterable[str | int]) -> str:
    """Return a path into JSON as a pointer by RFC 6901.

    >>> pointer(("query", "levels", 0, "a/b"))
    '/query/levels/0/a~1b'
    """
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def error_of(body: Any) -> SidelightError:
    """Return the error that the same mistake raises locally, from the body of a problem."""
    found = body if isinstance(body, dict) else {}
    code = str(found.get("type", "")).removeprefix("urn:sidelight:problem:")
    text = str(found.get("detail", "the service refused"))[:2000]
    if code not in CODES:
        return ServiceError(f"the service gave an answer that is not understood: {text}", code="unknown")
    kind = CODES[code].error
    if kind is BudgetError:
        parts = {name: str(found.get(name, ""))[:200] for name in ("requested", "remaining", "difference")}
        return BudgetError(text, **parts)
    return ServiceError(text, code=code) if kind is ServiceError else kind(text)
