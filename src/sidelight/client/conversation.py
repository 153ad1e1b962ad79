"""Requests to a server and the evaluation of its answers, without a network.

Queries are checked here first, against the public schema: most mistakes raise before anything is sent, with the same
text. The server checks everything again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sidelight.client.connection import Connection
from sidelight.client.remote_answers import (
    RemotePrice,
    RemoteTable,
    RequestState,
    amounts_from_json,
    price_from_json,
    state_from_json,
    table_from_json,
    understood,
)
from sidelight.errors import RangeError, ReleaseFailedError, ServiceError, SidelightError, UnansweredError, nearest
from sidelight.guarantees import Amount, Claims
from sidelight.noise import OSEntropy
from sidelight.progress import progress
from sidelight.release import Outcome
from sidelight.session import request_key
from sidelight.session.query import prepare_query
from sidelight.version import VERSION
from sidelight.wire import RELEASE_ID, REQUEST_KEY, write_json, write_wire_query

#: Seconds by which the slot of a repeated request may be later, and between such requests.
_LATEST_SLOT, _LONGEST_PAUSE = 600.0, 2.0
#: An answer that is promised for later than this is not waited for: a day.
_LONGEST_WAIT = 86_400.0


@dataclass(frozen=True, kw_only=True)
class RequestedAnswer:
    """What an answer must be of: the canonical query, and its claims; those of a batch are priced together."""

    request: Mapping[str, Any]
    claims: Claims | None


@dataclass(frozen=True, kw_only=True)
class Posted:
    """A paid request: its first state, and the data to repeat it."""

    key: str
    state: RequestState
    table: str | None = None
    asked: Sequence[RequestedAnswer | None] = ()
    path: str = ""
    sent: bytes | None = None


class Conversation:
    """The requests to one server, each as a coroutine that a connection runs."""

    def __init__(self, connection: Connection, *, patience: float, table: str | None) -> None:
        self._connection, self._patience, self._usual = connection, patience, table
        self._known: dict[str, RemoteTable] | None = None
        self._compared: set[tuple[str, str]] = set()  # tables and kinds that server and client read alike

    async def tables(self) -> dict[str, RemoteTable]:
        """Ask for the tables, once."""
        if self._known is None:
            answer = await self._get("/v1/tables")
            with understood("the list of tables"):
                self._known = {table.name: table for table in map(table_from_json, answer["tables"])}
        return self._known

    async def amounts(self, member: str) -> dict[str, Mapping[str, str]]:
        """Request the remaining or spent budget by table."""
        answer = await self._get("/v1/tables")
        with understood("the list of tables"):
            return {table["name"]: amounts_from_json(table[member]) for table in answer["tables"]}

    async def statement(self, table: str | None) -> str:
        """Request the guarantee of everything that is ever released from a table."""
        return (await self._table(table)).promise

    async def price(self, query: Any, *, table: str | None, delta: Amount | None, forecast: bool) -> RemotePrice:
        """Ask for the price of a query or a batch."""
        name, body, asked = await self._body(query, table, delta)
        return await self._priced(name, body, asked, forecast=forecast)

    async def post(self, query: Any, *, table: str | None, delta: Amount | None, key: str | None) -> Posted:
        """Make a paid request; the first one of each kind is priced before, which is free."""
        name, body, asked = await self._body(query, table, delta)
        given, key = key, OSEntropy().read(16).hex() if key is None else _checked_key(key)
        kinds = {(name, each.request["kind"]) for each in asked if each is not None}
        if not kinds <= self._compared:
            try:
                await self._priced(name, body, asked, forecast=False)
                self._compared |= kinds
            except SidelightError as error:  # without a comparison, only a request that was made before is asked again
                unreachable = getattr(error, "code", "") == "unreachable"
                if given is None or unreachable or not await self._is_known(name, key):
                    raise
        path, sent = f"/v1/tables/{name}/releases", _bytes(body)
        with naming(key, of=UnansweredError):
            state = await self._post(path, sent, key=key)
            return _posted(state, key=key, table=name, asked=asked, path=path, sent=sent)

    async def _is_known(self, table: str, key: str) -> bool:
        """Return whether a request was made with a key, so that another one with it charges nothing."""
        me = await self._get("/v1/me")
        with understood("the name of the account"):
            name = request_key(me["analyst"], table, key)
        try:
            return bool((await self._get(f"/v1/releases/{name}")).get("state") != "dropped")
        except ServiceError as error:
            if error.code != "not-found":
                raise
            return False

    async def result(self, posted: Posted) -> Outcome | list[Outcome]:
        """Wait for the answer of a paid request."""
        with naming(posted.key, posted.state.id):
            state, repeated = await self._ended(posted)
            if state.error is not None and repeated and not isinstance(state.error, ReleaseFailedError):
                raise state.error  # it was made twice, and only one of them was dropped
        if state.error is not None:
            raise state.error
        asked = posted.asked or [None] * len(state.outcomes)
        if len(asked) != len(state.outcomes):
            raise _wrong_answer("another number of queries than was asked", posted)
        for outcome, one in zip(state.outcomes, asked, strict=True):
            _check_outcome(outcome, one, posted)
        return state.outcomes if state.together else state.outcomes[0]

    async def _ended(self, posted: Posted) -> tuple[RequestState, bool]:
        """Return the last state of a paid request, and whether it was made again."""
        now, end, pause, repeated = posted.state, posted.state.ready_at.timestamp(), 0.2, False
        if end > time.time() + _LONGEST_WAIT:
            raise ServiceError(
                f"the server promises the answer for {now.ready_at.isoformat(' ', 'minutes')}, more than a day ahead",
                code="waiting",
            )
        with progress(f"waiting until {now.ready_at.astimezone():%H:%M:%S}"):
            while not now.ended:
                if (left := end - time.time()) < -self._patience:
                    raise ServiceError("no answer yet", code="waiting")
                asked_at = time.monotonic()
                try:
                    now = await self._state(posted.state.id, key=posted.key, patience=self._patience + max(0.0, left))
                except ServiceError as error:
                    if posted.sent is None or error.code != "not-found":
                        raise
                    await self._connection.sleep(pause)
                    # another replica or a restarted server may not know an uncharged request: repeat it
                    found, repeated = await self._post(posted.path, posted.sent, key=posted.key), True
                    now, pause = state_from_json(found, key=posted.key), min(2 * pause, _LONGEST_PAUSE)
                    end = min(now.ready_at.timestamp(), posted.state.ready_at.timestamp() + _LATEST_SLOT)
                if not now.ended and time.monotonic() < asked_at + pause:  # a server that does not wait
                    await self._connection.sleep(pause)
        return now, repeated

    async def _state(self, name: str, *, key: str, patience: float) -> RequestState:
        path, held = f"/v1/releases/{quote(name, safe='')}", {"Prefer": "wait=20"}
        return state_from_json(await self._connection.ask("GET", path, patience=patience, headers=held), key=key)

    async def fetch(self, name: str) -> Outcome | list[Outcome]:
        """Wait for the answer of an earlier request."""
        if not isinstance(name, str) or not RELEASE_ID.fullmatch(name):
            raise RangeError(f"an id has 32 or 64 hexadecimal digits, got {str(name)[:80]!r}")
        return await self.result(_posted(await self._get(f"/v1/releases/{name}")))

    async def page(self, table: str | None, after: str) -> tuple[list[Outcome], str] | None:
        """Ask for outcomes after an id, and the id to go on with; None at the end. Failed ones are left out."""
        name = (await self._table(table)).name
        since = f"&after={quote(after, safe='')}" if after else ""
        answer = await self._get(f"/v1/releases?table={name}&limit=50{since}")
        with understood("the list of releases"):
            page = [state_from_json(each) for each in answer["releases"]]
            if page and page[-1].id == after:
                raise ValueError(after)
        return ([outcome for each in page for outcome in each.outcomes], page[-1].id) if page else None

    async def _get(self, path: str, *, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        return await self._connection.ask("GET", path, patience=self._patience, headers=headers)

    async def _post(self, path: str, sent: bytes, *, key: str | None = None) -> dict[str, Any]:
        headers, paid = {} if key is None else {"Idempotency-Key": key}, key is not None
        return await self._connection.ask("POST", path, sent, patience=self._patience, headers=headers, paid=paid)

    async def _priced(
        self, name: str, body: Mapping[str, Any], asked: Sequence[RequestedAnswer | None], *, forecast: bool
    ) -> RemotePrice:
        """Ask for a price, and refuse one of another query than the answer must be of: nothing is charged yet."""
        found = await self._post(f"/v1/tables/{name}/price", _bytes({**body, "forecast": forecast}))
        price = price_from_json(found)
        with understood("the price"):
            theirs = price.request["queries"] if "queries" in body else [price.request]
            claims = Claims.from_json(found["claims"])
            same = len(theirs) == len(asked) and all(
                one is None or (_same(each, one.request) and one.claims in (None, claims))
                for each, one in zip(theirs, asked, strict=True)
            )
        if not same:
            raise ServiceError(
                f"the server reads this query, or its price, in another way than this client of version {VERSION}; "
                "nothing was charged. Use the server's version, or send the query as a mapping, whose answer is not "
                "checked",
                code="unknown",
            )
        return price

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
    return Posted(key=key, state=state_from_json(state, key=key), **more)


@contextmanager
def naming(key: str, request_id: str | None = None, *, of: type[SidelightError] = SidelightError) -> Iterator[None]:
    """Name key and id in errors of a request that may have been charged: they ask again without paying again."""
    ways = [f"with key={key!r}, which is charged once"] if key else []
    ways += [] if request_id is None else [f"with `remote.fetch({request_id!r})`, which costs nothing"]
    said = f"the request may have been charged: ask again {', or '.join(ways)}"
    try:
        yield
    except of as error:
        code = getattr(error, "code", "unknown")
        raise ServiceError(f"{error}; {said}", code=code, key=key or None, request_id=request_id) from None
    except SidelightError:  # nothing was charged
        raise
    except BaseException as error:  # an interruption, for one
        error.add_note(said)
        raise


def _same(found: object, asked: Mapping[str, Any]) -> bool:
    return json.dumps(found, sort_keys=True) == json.dumps(dict(asked), sort_keys=True)


def _wrong_answer(what: str, posted: Posted) -> ServiceError:
    return ServiceError(
        f"the server answered for {what}; the charge stands. The answer is discarded, and `remote.fetch("
        f"{posted.state.id!r})` returns it unchecked",
        code="unknown",
        key=posted.key or None,
        request_id=posted.state.id,
    )


def _check_outcome(outcome: Outcome, asked: RequestedAnswer | None, posted: Posted) -> None:
    """Refuse an outcome of another query, price or table than was asked."""
    if asked is None:
        return
    found = outcome.circumstances
    wrong = "" if _same(outcome.query, asked.request) else "query"
    wrong = wrong or ("price" if asked.claims is not None and outcome.guarantee != asked.claims else "")
    wrong = wrong or ("table" if found.dataset != posted.table else "")
    if wrong:
        versions = (
            "" if found.version == VERSION else f" (its version is {found.version}, that of this client {VERSION})"
        )
        raise _wrong_answer(f"another {wrong} than was asked{versions}", posted)


def _bytes(value: Mapping[str, Any]) -> bytes:
    try:
        return write_json(dict(value)).encode()
    except (TypeError, ValueError):
        raise RangeError("the query contains a value that JSON cannot represent") from None
