"""Bodies of answers: public declarations, prices, and the state of a request; outcomes only after their slot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from sidelight.guarantees import claim_to_json, unit_to_text
from sidelight.ledger import LedgerEntry
from sidelight.plans.columns import write_column
from sidelight.server.budgets import AccountQuote, ready_time, start_time, utc_text
from sidelight.server.config import RELEASES_SAY, Pool, ServedTable, ServerConfig, rule_of
from sidelight.server.cost import cost_json
from sidelight.server.slots import Accepted
from sidelight.server.together import TOGETHER
from sidelight.wire import CODES, LIMITS, ProblemError, problem_json, write_json

_FAILED = "the release failed after it was charged; the charge stands, the cause is not shown, and a new key pays again"


def body(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON answer; it is not compressed, so that its size depends on the public shape only."""
    return Response(write_json(value), status_code=status, media_type="application/json", headers=headers)


def refusal(problem: ProblemError) -> Response:
    """Return the answer of a problem."""
    headers = {}
    if problem.code == "token":
        headers["WWW-Authenticate"] = "Bearer"
    if "retry_after" in problem.more:
        headers["Retry-After"] = str(problem.more["retry_after"])
    if problem.code in ("too-large", "wrong-type"):
        headers["Connection"] = "close"  # the rest of the body is not read
    return Response(
        write_json(problem_json(problem)),
        status_code=CODES[problem.code].status,
        media_type="application/problem+json",
        headers=headers,
    )


def table_json(config: ServerConfig, table: ServedTable, account: Pool, remaining: Mapping[str, str]) -> dict[str, Any]:
    """Return the public description of a table, and the balance of the account."""
    return {
        "name": table.name,
        "column": [_column(each) for each in table.schema.columns],
        "unit": unit_to_text(table.schema.unit),
        "promise": table.promise,
        "currency": table.currency,
        "budget": claim_to_json(account.budget),
        "account": account.name,
        "remaining": dict(remaining),
        "kinds": list(table.kinds),
        "largest": str(table.largest),
        "smallest": str(table.smallest),
        "strict": table.strict,
        "together": table.together,
        "capacity": table.capacity,
        "durations": dict(table.durations),
        "costs": cost_json(table.costs),
        "renew": _renewal_json(account),
        "population": None if table.population is None else _population(config, table.population),
        "public": {name: origin for name, (_, origin) in config.public.items()},
        "limits": dict(LIMITS),
    }


def _population(config: ServerConfig, name: str) -> dict[str, Any]:
    """Return the guarantee of a person over all tables of a population together."""
    pool = config.populations[name]
    first = next(table for table in config.tables.values() if table.population == name)
    promise = f"{rule_of(pool.budget.under(unit=first.schema.unit)).statement()} {RELEASES_SAY}"
    return {"name": name, "promise": promise, "partitioned_by": pool.partitioned_by}


def _renewal_json(account: Pool) -> dict[str, Any] | None:
    renew = account.renew
    if renew is None:
        return None
    return {"every": renew.every, "budget": claim_to_json(renew.budget), "windows": renew.windows}


def _column(column: Any) -> dict[str, Any]:
    written = write_column(column)
    return {key: value.isoformat() if hasattr(value, "isoformat") else value for key, value in written.items()}


def price_json(price: Mapping[str, Any], quote: AccountQuote, *, seconds: float) -> dict[str, Any]:
    """Return a price with the balance after it."""
    return {
        "guarantee": price["guarantee"],
        "claims": price["claims"],
        "charge": dict(quote.charge),
        "remaining": dict(quote.before),
        "after": None if quote.after is None else dict(quote.after),
        "fits": quote.fits,
        "expected": price["expected"],
        "seconds": seconds,
        "cost": price["cost"],
        "answer_bytes": price["answer_bytes"],
        "notes": price["notes"],
        "request": price["request"],
    }


def accepted_json(accepted: Accepted) -> dict[str, Any]:
    """Return the state of a request that waits, runs or was dropped."""
    dropped = accepted.state == "dropped" and accepted.problem is not None
    found = {
        "id": accepted.request_id,
        "table": accepted.table.name,
        "state": "dropped" if dropped else "queued" if accepted.state == "queued" else "running",
        "starts_at": utc_text(accepted.slot.start),
        "ready_at": utc_text(accepted.slot.end),
        "outcome": None,
    }
    return found | ({"problem": problem_json(accepted.problem)} if dropped and accepted.problem else {})


def entry_json(entry: LedgerEntry, table: ServedTable, *, now: float) -> dict[str, Any]:
    """Return the state of a charged request; before the end of its slot every state looks like "running"."""
    ready = entry.state != "reserved" and now >= ready_time(entry)
    outcomes = [json.loads(text) for text in outcome_texts(entry)] if ready else []
    batch = entry.request.get("kind") == TOGETHER
    return {
        "id": entry.key,
        "table": table.name,
        "state": entry.state if ready else "running",
        "starts_at": utc_text(start_time(entry)),
        "ready_at": utc_text(ready_time(entry)),
        "outcome": outcomes[0] if outcomes and not batch else None,
        **({"outcomes": outcomes or None} if batch else {}),
    } | ({"problem": {"title": _FAILED}} if ready and entry.state == "failed" else {})


def outcome_texts(entry: LedgerEntry) -> list[str]:
    """Return the outcomes of an entry with its id and head in the ledger, as `Release.to_json` writes them."""
    if entry.text is None:
        return []
    texts = json.loads(entry.text) if entry.request.get("kind") == TOGETHER else [entry.text]
    found = [json.loads(text) for text in texts]
    for each in found:
        each["circumstances"] |= {"entry_id": entry.entry_id, "ledger_head": entry.head}
    return [json.dumps(each, ensure_ascii=False, allow_nan=False) for each in found]


def beyond(quote: AccountQuote) -> ProblemError:
    """Return the refusal of a request that does not fit."""

    def words(amounts: Mapping[str, str]) -> str:
        return ", ".join(f"{name} = {amount}" for name, amount in amounts.items())

    parts = {"requested": words(quote.charge), "remaining": words(quote.before), "difference": words(quote.short)}
    text = f"the request does not fit: requested {parts['requested']}, remaining {parts['remaining']}"
    return ProblemError("budget", text, **parts)
