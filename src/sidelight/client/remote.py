"""`Remote`: a server's tables, asked with the same queries as a session's.

Queries are checked here first, against the public schema: most mistakes raise before anything is sent, with the same
text. The server checks everything again.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Self
from urllib.parse import quote

from sidelight.client.connection import Connection
from sidelight.client.remote_answers import (
    Pending,
    RemotePrice,
    RemoteTable,
    outcomes_of,
    price_from_json,
    table_from_json,
)
from sidelight.errors import RangeError, ReleaseFailedError, ServiceError, SidelightWarning, nearest
from sidelight.guarantees import Amount
from sidelight.noise import OSEntropy
from sidelight.progress import progress
from sidelight.registry import load_query
from sidelight.release import Outcome
from sidelight.session.query import prepare_query
from sidelight.version import VERSION
from sidelight.wire import write_json, write_wire_query

#: Seconds by which the slot of a request that is made again may be later than its first one, and between such requests.
_LATEST_SLOT, _LONGEST_PAUSE = 600.0, 2.0


def connect(url: str, *, token: str, patience: float = 60.0, verify: Any = True, transport: Any = None) -> Remote:
    """Open a server of `sidelight serve`; nothing is charged.

    Args:
        url: Where the server is: https, or http on this machine.
        token: What `sidelight token new` printed.
        patience: Seconds in which a request is sent again before an error is raised.
        verify: The certificate authorities that are believed: the usual ones, or an `ssl.SSLContext`.
        transport: For tests: an httpx transport in place of the network.

    Returns:
        The open server, a context manager that closes its connection.

    >>> import sidelight as sl
    >>> sl.connect("http://dp.example.org", token="sl_a_b")
    Traceback (most recent call last):
    sidelight.errors.RangeError: http to 'dp.example.org' would send the token in the clear; use https
    """
    return Remote(Connection(url, token, patience=patience, verify=verify, transport=transport))


class Remote:
    """A server as one analyst sees it. Made by `sl.connect`.

    Guarantee: that of each table's promise, whatever is asked; every answer carries its own.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @cached_property
    def tables(self) -> dict[str, RemoteTable]:
        """The analyst's tables by name: public declarations alone."""
        found = self._connection.get("/v1/tables").get("tables")
        if not isinstance(found, list):
            raise ServiceError("the list of tables is not understood; is the server newer?", code="unknown")
        return {table.name: table for table in map(table_from_json, found)}

    @property
    def remaining(self) -> dict[str, Mapping[str, str]]:
        """What is left now, by table."""
        found = self._connection.get("/v1/tables")["tables"]
        return {str(table["name"]): dict(table["remaining"]) for table in found}

    def price(
        self, query: Any, *, table: str | None = None, delta: Amount | None = None, forecast: bool = True
    ) -> RemotePrice:
        """Return what a query would cost, what would be left, and the expected error. Free.

        Args:
            query: A query, or a `[[query]]` section of a plan as a mapping; or a list of them, as `release_together`
                takes, whose expected errors are asked for one by one.
            table: Which table, where there are several.
            delta: Where a list is priced.
            forecast: Whether to find the expected error, which may take seconds.
        """
        name, body, _ = self._body(query, table, delta)
        return price_from_json(
            self._connection.post(f"/v1/tables/{name}/price", _bytes({**body, "forecast": forecast}))
        )

    def release(self, query: Any, *, table: str | None = None, key: str | None = None, wait: bool = True) -> Any:
        """Ask, pay, and return the release.

        Args:
            query: A query, or a `[[query]]` section of a plan as a mapping.
            table: Which table, where there are several.
            key: Remembers the answer for good: the same key and query return it and cost nothing, also after a lost
                connection or a failure. Left out, a fresh one is made.
            wait: False returns a `Pending` at once.

        Returns:
            The release, or `Refused` from a query that tests privately; or a `Pending`.

        Raises:
            BudgetError: it does not fit what is left. Nothing was charged.
            ReleaseFailedError: it was charged and failed; the same key returns the same failure.
        """
        return self._asked(*self._body(query, table, None), key=key, wait=wait)

    def release_together(
        self,
        queries: Sequence[Any],
        *,
        delta: Amount,
        table: str | None = None,
        key: str | None = None,
        wait: bool = True,
    ) -> Any:
        """Ask a fixed batch at one price, where the table says `together`; pay, and return the releases.

        Args:
            queries: All are fixed before the first runs; that is what makes the lower price valid.
            delta: Where the batch is priced.
            table, key, wait: As for `release`.

        Returns:
            The outcomes in the order of the queries; or a `Pending`.
        """
        return self._asked(*self._body(list(queries), table, delta), key=key, wait=wait)

    def _asked(
        self, name: str, body: Mapping[str, Any], requests: Sequence[Any], *, key: str | None, wait: bool
    ) -> Any:
        key = OSEntropy().read(16).hex() if key is None else key
        sent = _bytes(body)

        def post() -> Mapping[str, Any]:
            return self._connection.post(f"/v1/tables/{name}/releases", sent, headers={"Idempotency-Key": key})

        try:
            state = post()
        except ServiceError as error:
            if error.code == "unreachable":
                raise ServiceError(
                    f"{error}; the request may have been charged: ask again with key={key!r}, which pays once",
                    code=error.code,
                ) from None
            raise
        pending = self._pending(state, key=key, requests=requests, again=post)
        return pending.result() if wait else pending

    def sql(self, statement: str, *, table: str | None = None, key: str | None = None, **options: Any) -> Any:
        """Release what a SELECT asks, as `Session.sql` does.

        Args:
            statement: SELECT columns and aggregates FROM table [WHERE condition] [GROUP BY columns].
            table: Which table, where there are several.
            key: As for `release`.
            options: The price, and what else `sl.SQL` takes.
        """
        return self.release(load_query("sql")(statement, **options), table=table, key=key)

    def fetch(self, id: str) -> Outcome | list[Outcome]:  # noqa: A002 - the server's word
        """Return the outcome of an earlier request of this account, and wait for it if it is under way.

        A batch has several.
        """
        state = self._connection.get(f"/v1/releases/{quote(id, safe='')}")
        return self._pending(state, key="", requests=()).result()

    def releases(self, *, table: str | None = None) -> Iterator[Outcome]:
        """Yield the outcomes of earlier requests, oldest first; failed ones are left out."""
        name, after = self._table(table).name, ""
        while True:
            page = self._connection.get(f"/v1/releases?table={name}&limit=50{after}").get("releases")
            if not isinstance(page, list) or not page:
                return
            for state in page:
                with suppress(ReleaseFailedError):
                    yield from outcomes_of(state, key="") or ()
            after = f"&after={quote(str(page[-1]['id']), safe='')}"

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _table(self, name: str | None) -> RemoteTable:
        if name is None and len(self.tables) == 1:
            return next(iter(self.tables.values()))
        if name is None or name not in self.tables:
            raise RangeError(f"which table? {nearest(str(name), self.tables)}; write table='...'")
        return self.tables[name]

    def _body(
        self, query: Any, table: str | None, delta: Amount | None
    ) -> tuple[str, dict[str, Any], list[Mapping[str, Any] | None]]:
        """Return the table's name, the body that travels, and the canonical queries as they are known here."""
        found = self._table(table)
        together = isinstance(query, list)
        if together != (delta is not None):
            raise RangeError("delta is where a list of queries is priced together; one query has its own price")
        queries = query if together else [query]
        requests = [
            None if isinstance(each, Mapping) else prepare_query(each, found.schema).request for each in queries
        ]
        sections = [write_wire_query(each) for each in queries]
        body = {"queries": sections, "delta": str(delta)} if together else {"query": sections[0]}
        return found.name, body, requests

    def _pending(
        self,
        state: Mapping[str, Any],
        *,
        key: str,
        requests: Sequence[Any],
        again: Callable[[], Mapping[str, Any]] | None = None,
    ) -> Pending:
        name, ready = str(state.get("id")), _ready_at(state)

        def fetch() -> Outcome | list[Outcome]:
            now, found, end, pause = state, outcomes_of(state, key=key), ready, 0.2
            with progress(f"waiting until {ready.astimezone():%H:%M:%S}"):
                while found is None:
                    if time.time() > end.timestamp() + self._connection.patience:
                        raise ServiceError(f"no answer yet; `remote.fetch({name!r})` asks again", code="waiting")
                    path = f"/v1/releases/{name}"
                    try:
                        now = self._connection.get(path, headers={"Prefer": "wait=20"})
                    except ServiceError as error:
                        if again is None or error.code != "not-found":
                            raise
                        time.sleep(pause)
                        # another replica, or a new server, does not know what was not charged yet: it has a later slot
                        now, pause = again(), min(2 * pause, _LONGEST_PAUSE)
                        end = min(_ready_at(now), ready + timedelta(seconds=_LATEST_SLOT))
                    found = outcomes_of(now, key=key)
            if requests and len(found) != len(requests):
                raise ServiceError("the server answered another number of queries than were asked", code="unknown")
            believed = [_believed(*each) for each in zip(found, requests or [None] * len(found), strict=True)]
            return believed if "outcomes" in now else believed[0]

        return Pending(id=name, key=key, ready_at=ready, _fetch=fetch)


def _ready_at(state: Mapping[str, Any]) -> datetime:
    """Return when the answer of a request may be seen; it changes when the request is made again."""
    try:
        return datetime.fromisoformat(str(state["ready_at"]))
    except (KeyError, ValueError):
        raise ServiceError("the state of a request is not understood", code="unknown") from None


def _believed(outcome: Outcome, request: Mapping[str, Any] | None) -> Outcome:
    """Return an outcome that answers what was asked."""
    if request is None or json.dumps(outcome.query, sort_keys=True) == json.dumps(dict(request), sort_keys=True):
        return outcome
    text = "the server answered another query than the one that was asked"
    if outcome.circumstances.version == VERSION:
        raise ServiceError(f"{text}; nothing of its answer is used", code="unknown")
    warnings.warn(f"{text}: its version is {outcome.circumstances.version}", SidelightWarning, stacklevel=4)
    return outcome


def _bytes(value: Mapping[str, Any]) -> bytes:
    try:
        return write_json(dict(value)).encode()
    except (TypeError, ValueError):
        raise RangeError("the query holds something that JSON cannot say") from None
