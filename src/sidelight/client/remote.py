"""`Remote`: a server's tables, asked with the same queries as a session's.

Queries are checked here first, against the public schema: most mistakes raise before anything is sent, with the same
text. The server checks everything again.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Self
from urllib.parse import quote

from sidelight.client.connection import Connection
from sidelight.client.remote_answers import (
    Pending,
    RemotePrice,
    RemoteTable,
    outcome_of,
    price_from_json,
    table_from_json,
)
from sidelight.errors import RangeError, ReleaseFailedError, ServiceError, SidelightWarning, nearest
from sidelight.noise import OSEntropy
from sidelight.progress import progress
from sidelight.registry import load_query
from sidelight.release import Outcome
from sidelight.session.query import prepare_query
from sidelight.version import VERSION
from sidelight.wire import write_json, write_wire_query


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

    def price(self, query: Any, *, table: str | None = None, forecast: bool = True) -> RemotePrice:
        """Return what a query would cost, what would be left, and the expected error. Free.

        Args:
            query: A query, or a `[[query]]` section of a plan as a mapping.
            table: Which table, where there are several.
            forecast: Whether to find the expected error, which may take seconds.
        """
        name, section, _ = self._checked(query, table)
        return price_from_json(
            self._connection.post(f"/v1/tables/{name}/price", _bytes({"query": section, "forecast": forecast}))
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
        name, section, request = self._checked(query, table)
        key = OSEntropy().read(16).hex() if key is None else key
        try:
            state = self._connection.post(
                f"/v1/tables/{name}/releases", _bytes({"query": section}), headers={"Idempotency-Key": key}
            )
        except ServiceError as error:
            if error.code == "unreachable":
                raise ServiceError(
                    f"{error}; the request may have been charged: ask again with key={key!r}, which pays once",
                    code=error.code,
                ) from None
            raise
        pending = self._pending(state, key=key, request=request)
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

    def fetch(self, id: str) -> Outcome:  # noqa: A002 - the server's word
        """Return the outcome of an earlier request of this account, and wait for it if it is under way."""
        state = self._connection.get(f"/v1/releases/{quote(id, safe='')}")
        return self._pending(state, key="", request=None).result()

    def releases(self, *, table: str | None = None) -> Iterator[Outcome]:
        """Yield the outcomes of earlier requests, oldest first; failed ones are left out."""
        name, after = self._table(table).name, ""
        while True:
            page = self._connection.get(f"/v1/releases?table={name}&limit=50{after}").get("releases")
            if not isinstance(page, list) or not page:
                return
            for state in page:
                try:
                    found = outcome_of(state, key="")
                except ReleaseFailedError:
                    continue
                if found is not None:
                    yield found
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

    def _checked(self, query: Any, table: str | None) -> tuple[str, dict[str, Any], Mapping[str, Any] | None]:
        """Return the table's name, the section that travels, and the canonical query as it is known here."""
        found = self._table(table)
        if isinstance(query, Mapping):
            return found.name, dict(query), None
        request = prepare_query(query, found.schema).request
        return found.name, write_wire_query(query), request

    def _pending(self, state: Mapping[str, Any], *, key: str, request: Mapping[str, Any] | None) -> Pending:
        try:
            name, ready = str(state["id"]), datetime.fromisoformat(str(state["ready_at"]))
        except (KeyError, ValueError):
            raise ServiceError("the state of a request is not understood", code="unknown") from None

        def fetch() -> Outcome:
            outcome = outcome_of(state, key=key)
            end = ready.timestamp() + self._connection.patience
            with progress(f"waiting until {ready.astimezone():%H:%M:%S}"):
                while outcome is None:
                    if time.time() > end:
                        raise ServiceError(f"no answer yet; `remote.fetch({name!r})` asks again", code="waiting")
                    path = f"/v1/releases/{name}"
                    outcome = outcome_of(self._connection.get(path, headers={"Prefer": "wait=20"}), key=key)
            return _believed(outcome, request)

        return Pending(id=name, key=key, ready_at=ready, _fetch=fetch)


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
