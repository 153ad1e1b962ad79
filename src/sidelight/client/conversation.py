"""Requests to a server and the evaluation of its answers, without a network.

Queries are checked here first, against the public schema: most mistakes raise before anything is sent, with the same
text. The server checks everything again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from sidelight.client.connection import Connection
from sidelight.client.remote_answers import (
    RemotePrice,
    RemoteTable,
    outcomes_of,
    price_from_json,
    table_from_json,
)
from sidelight.errors import RangeError, ReleaseFailedError, ServiceError, nearest
from sidelight.guarantees import Amount, Claims
from sidelight.noise import OSEntropy
from sidelight.progress import progress
from sidelight.release import Outcome
from sidelight.session.query import prepare_query
from sidelight.version import VERSION
from sidelight.wire import REQUEST_KEY, write_json, write_wire_query

#: Seconds by which the slot of a repeated request may be later, and between such requests.
_LATEST_SLOT, _LONGEST_PAUSE = 600.0, 2.0
#: An answer that is promised for later than this is not waited for: a day.
_LONGEST_WAIT = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class RequestedAnswer:
    """What an answer must be of: the canonical query, and its claims; those of a batch are priced together."""

    request: Mapping[str, Any]
    claims: Claims | None


@dataclass(frozen=True, kw_only=True)
class Posted:
    """A paid request: its first state, and the data to repeat it."""

    id: str
    key: str
    ready_at: datetime
    state: Mapping[str, Any]
    table: str | None = None
    asked: Sequence[RequestedAnswer | None] = ()
    path: str = ""
    sent: bytes | None = None


class Conversation:
    """The requests to one server, each as a coroutine that a connection runs."""

    def __init__(self, connection: Connection, *, patience: float, table: str | None) -> None:
        self._connection, self._patience, self._usual = connection, patience, table
        self._known: dict[str, RemoteTable] | None = None

    async def tables(self) -> dict[str, RemoteTable]:
        """Ask for the tables, once."""
        if self._known is None:
            found = (await self._get("/v1/tables")).get("tables")
            if not isinstance(found, list):
                raise ServiceError("the list of tables is not understood; is the server newer?", code="unknown")
            self._known = {table.name: table for table in map(table_from_json, found)}
        return self._known

    async def amounts(self, member: str) -> dict[str, Mapping[str, str]]:
        """Request the remaining or spent budget by table."""
        try:
            found = (await self._get("/v1/tables"))["tables"]
            return {str(table["name"]): {str(n): str(a) for n, a in table[member].items()} for table in found}
        except (KeyError, TypeError, AttributeError):
            raise ServiceError("the list of tables is not understood; is the server newer?", code="unknown") from None

    async def statement(self, table: str | None) -> str:
        """Request the guarantee of everything that is ever released from a table."""
        return (await self._table(table)).promise

    async def price(self, query: Any, *, table: str | None, delta: Amount | None, forecast: bool) -> RemotePrice:
        """Ask for the price of a query or a batch."""
        name, body, _ = await self._body(query, table, delta)
        sent = _bytes({**body, "forecast": forecast})
        return price_from_json(await self._post(f"/v1/tables/{name}/price", sent))

    async def post(self, query: Any, *, table: str | None, delta: Amount | None, key: str | None) -> Posted:
        """Make a paid request."""
        name, body, asked = await self._body(query, table, delta)
        key = OSEntropy().read(16).hex() if key is None else _checked_key(key)
        path, sent = f"/v1/tables/{name}/releases", _bytes(body)
        try:
            state = await self._post(path, sent, key=key)
        except ServiceError as error:
            if error.code == "unreachable":
                raise ServiceError(
                    f"{error}; the request may have been charged: repeat it with key={key!r}, which is charged once",
                    code=error.code,
                ) from None
            raise
        return _posted(state, key=key, table=name, asked=asked, path=path, sent=sent)

    async def result(self, posted: Posted) -> Outcome | list[Outcome]:
        """Wait for the answer of a paid request."""
        now, found, end, pause = posted.state, outcomes_of(posted.state, key=posted.key), posted.ready_at, 0.2
        if end.timestamp() > time.time() + _LONGEST_WAIT.total_seconds():
            raise ServiceError(
                f"the server promises the answer for {end.isoformat(' ', 'minutes')}, more than a day ahead; "
                f"`remote.fetch({posted.id!r})` asks for it then",
                code="waiting",
            )
        with progress(f"waiting until {posted.ready_at.astimezone():%H:%M:%S}"):
            while found is None:
                if time.time() > end.timestamp() + self._patience:
                    raise ServiceError(
                        f"no answer yet; `remote.fetch({posted.id!r})` continues waiting", code="waiting"
                    )
                asked_at = time.monotonic()
                try:
                    now = await self._get(f"/v1/releases/{quote(posted.id, safe='')}", headers={"Prefer": "wait=20"})
                except ServiceError as error:
                    if posted.sent is None or error.code != "not-found":
                        raise
                    await self._connection.sleep(pause)
                    # another replica or a restarted server may not know an uncharged request: repeat it
                    now = await self._post(posted.path, posted.sent, key=posted.key)
                    pause = min(2 * pause, _LONGEST_PAUSE)
                    end = min(_ready_at(now), posted.ready_at + timedelta(seconds=_LATEST_SLOT))
                found = outcomes_of(now, key=posted.key)
                if found is None and time.monotonic() < asked_at + pause:  # a server that does not wait
                    await self._connection.sleep(pause)
        if posted.asked and len(found) != len(posted.asked):
            raise ServiceError("the server returned another number of answers than queries", code="unknown")
        for outcome, asked in zip(found, posted.asked or [None] * len(found), strict=True):
            _check_outcome(outcome, asked, posted)
        return found if "outcomes" in now else found[0]

    async def fetch(self, name: str) -> Outcome | list[Outcome]:
        """Wait for the answer of an earlier request."""
        state = await self._get(f"/v1/releases/{quote(name, safe='')}")
        return await self.result(_posted(state))

    async def page(self, table: str | None, after: str) -> tuple[list[Outcome], str] | None:
        """Ask for outcomes after an id, and the id to go on with; None at the end. Failed ones are left out."""
        name = (await self._table(table)).name
        since = f"&after={quote(after, safe='')}" if after else ""
        page = (await self._get(f"/v1/releases?table={name}&limit=50{since}")).get("releases")
        if not isinstance(page, list) or not page:
            return None
        found: list[Outcome] = []
        for state in page:
            with suppress(ReleaseFailedError):
                found += outcomes_of(state, key="") or ()
        return found, str(page[-1]["id"])

    async def _get(self, path: str, *, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        return await self._connection.ask("GET", path, patience=self._patience, headers=headers)

    async def _post(self, path: str, sent: bytes, *, key: str | None = None) -> dict[str, Any]:
        headers = {} if key is None else {"Idempotency-Key": key}
        return await self._connection.ask("POST", path, sent, patience=self._patience, headers=headers)

    async def _table(self, name: str | None) -> RemoteTable:
        tables = await self.tables()
        name = self._usual if name is None else name
        if name is None and len(tables) == 1:
            return next(iter(tables.values()))
        if name is None or name not in tables:
            raise RangeError(f"which table? {nearest(str(name), tables)}; write table='...'")
        return tables[name]

    async def _body(
        self, query: Any, table: str | None, delta: Amount | None
    ) -> tuple[str, dict[str, Any], list[RequestedAnswer | None]]:
        """Return the table's name, the body to send, and what the answers must be of: None for plain JSON."""
        found = await self._table(table)
        together = isinstance(query, list)
        if together != (delta is not None):
            raise RangeError("delta is for a list of queries that are priced together; one query has its own price")
        queries = query if together else [query]
        asked: list[RequestedAnswer | None] = []
        for each in queries:
            prepared = None if isinstance(each, Mapping) else prepare_query(each, found.schema)
            claims = None if prepared is None or together else prepared.claims
            asked.append(None if prepared is None else RequestedAnswer(request=prepared.request, claims=claims))
        sections = [write_wire_query(each) for each in queries]
        body = {"queries": sections, "delta": str(delta)} if together else {"query": sections[0]}
        return found.name, body, asked


def _checked_key(key: str) -> str:
    if not isinstance(key, str) or not REQUEST_KEY.fullmatch(key):
        raise RangeError(
            f"a key has 1 to 200 printable ASCII characters and no space at either end, got {str(key)[:60]!r}; use a "
            "short name, or the sha256 of a long one"
        )
    return key


def _posted(state: Mapping[str, Any], *, key: str = "", **more: Any) -> Posted:
    return Posted(id=str(state.get("id")), key=key, ready_at=_ready_at(state), state=state, **more)


def _ready_at(state: Mapping[str, Any]) -> datetime:
    """Return when the answer of a request is ready; it changes when the request is repeated."""
    try:
        return datetime.fromisoformat(str(state["ready_at"]))
    except (KeyError, ValueError):
        raise ServiceError("the state of a request is not understood", code="unknown") from None


def _check_outcome(outcome: Outcome, asked: RequestedAnswer | None, posted: Posted) -> None:
    """Refuse an outcome of another query, price or table than was asked."""
    if asked is None:
        return
    found = outcome.circumstances
    wrong = (
        "query" if json.dumps(outcome.query, sort_keys=True) != json.dumps(dict(asked.request), sort_keys=True) else ""
    )
    wrong = wrong or ("price" if asked.claims is not None and outcome.guarantee != asked.claims else "")
    wrong = wrong or ("table" if found.dataset != posted.table else "")
    if wrong:
        versions = (
            "" if found.version == VERSION else f" (its version is {found.version}, that of this client {VERSION})"
        )
        raise ServiceError(
            f"the server answered for another {wrong} than was asked{versions}; the answer is discarded, and "
            f"`remote.fetch({posted.id!r})` returns it unchecked",
            code="unknown",
        )


def _bytes(value: Mapping[str, Any]) -> bytes:
    try:
        return write_json(dict(value)).encode()
    except (TypeError, ValueError):
        raise RangeError("the query contains a value that JSON cannot represent") from None
