"""`Remote` and `AsyncRemote`: the tables of a server, with the queries of a session.

Both share `RemoteRequests`: a blocking connection returns results, the other one awaitables.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Self

from sidelight.client.connection import AwaitedConnection, Connection
from sidelight.client.conversation import Conversation
from sidelight.client.remote_answers import Pending, RemoteTable
from sidelight.errors import RangeError
from sidelight.guarantees import Amount
from sidelight.registry import load_query
from sidelight.release import Outcome

#: The environment variable of the token.
_TOKEN = "SIDELIGHT_TOKEN"


def connect(
    url: str,
    *,
    token: str | None = None,
    table: str | None = None,
    patience: float = 60.0,
    verify: Any = True,
    transport: Any = None,
) -> Remote:
    """Open a server of `sidelight serve`; nothing is charged.

    Args:
        url: Where the server is: https, or http on this machine.
        token: What `sidelight token new` printed; left out, that of the environment variable `SIDELIGHT_TOKEN`.
        table: The default table, where there are several.
        patience: Seconds in which a request is sent again, the last time at their end; each has 40 seconds in all.
        verify: The trusted certificate authorities: the default ones, or an `ssl.SSLContext`.
        transport: For tests: an httpx transport in place of the network.

    Returns:
        The open server, a context manager that closes its connection.

    >>> import sidelight as sl
    >>> sl.connect("http://dp.example.org", token="sl_a_b")
    Traceback (most recent call last):
    sidelight.errors.RangeError: http to 'dp.example.org' would send the token in the clear; use https
    """
    return Remote(
        Connection(url, _token(token), patience=patience, verify=verify, transport=transport),
        patience=patience,
        table=table,
    )


def connect_async(
    url: str,
    *,
    token: str | None = None,
    table: str | None = None,
    patience: float = 60.0,
    verify: Any = True,
    transport: Any = None,
) -> AsyncRemote:
    """Open a server of `sidelight serve` for `await`: many requests wait at once, in one thread.

    Args:
        url, token, table, patience, verify: As for `sl.connect`.
        transport: For tests: an asynchronous httpx transport in place of the network.

    Returns:
        The open server, an asynchronous context manager that closes its connection. Properties of `Remote` are
        methods here.

    >>> import sidelight as sl
    >>> sl.connect_async("http://dp.example.org", token="sl_a_b")
    Traceback (most recent call last):
    sidelight.errors.RangeError: http to 'dp.example.org' would send the token in the clear; use https
    """
    return AsyncRemote(
        AwaitedConnection(url, _token(token), patience=patience, verify=verify, transport=transport),
        patience=patience,
        table=table,
    )


def _token(given: str | None) -> str:
    found = os.environ.get(_TOKEN) if given is None else given
    if found is None:
        raise RangeError(f"a server needs a token: write token='...', or set {_TOKEN}")
    return found


class RemoteRequests:
    """The requests to a server, blocking or asynchronous."""

    def __init__(self, connection: Connection, *, patience: float, table: str | None) -> None:
        self._connection = connection
        self._conversation = Conversation(connection, patience=patience, table=table)

    def _run(self, conversation: Coroutine[Any, Any, Any]) -> Any:
        return self._connection.run(conversation)

    def price(self, query: Any, *, table: str | None = None, delta: Amount | None = None, forecast: bool = True) -> Any:
        """Return the price of a query, the remaining budget, and the expected error. Free.

        Args:
            query: A query, or a `[[query]]` section of a plan as a mapping; or a list of them, as `release_together`
                takes, for which there is no expected error.
            table: Which table, where there are several.
            delta: Where a list is priced.
            forecast: Whether to find the expected error, which may take seconds.

        Returns:
            The `RemotePrice`, which prints the price and the remaining budget.
        """
        return self._run(self._conversation.price(query, table=table, delta=delta, forecast=forecast))

    def release(self, query: Any, *, table: str | None = None, key: str | None = None, wait: bool = True) -> Any:
        """Release a query: charge it, wait, and return the outcome.

        Args:
            query: A query, or a `[[query]]` section of a plan as a mapping.
            table: Which table, where there are several.
            key: Stores the answer permanently: the same key and query return it at no cost, also after a lost
                connection or a failure. By default a new one is made.
            wait: False returns a `Pending` at once.

        Returns:
            The release, or `Refused` from a query that tests privately; or a `Pending`.

        Raises:
            BudgetError: it does not fit the remaining budget. Nothing was charged.
            ReleaseFailedError: it was charged and failed; the same key returns the same failure.
        """
        return self._run(self._asked(query, table, None, key, wait=wait))

    def release_together(
        self,
        queries: Sequence[Any],
        *,
        delta: Amount,
        table: str | None = None,
        key: str | None = None,
        wait: bool = True,
    ) -> Any:
        """Release a fixed batch at one price, where the table allows `together`.

        Args:
            queries: All are fixed before the first runs; that is what makes the lower price valid.
            delta: Where the batch is priced.
            table, key, wait: As for `release`.

        Returns:
            The outcomes in the order of the queries; or a `Pending`.
        """
        return self._run(self._asked(list(queries), table, delta, key, wait=wait))

    async def _asked(self, query: Any, table: str | None, delta: Amount | None, key: str | None, *, wait: bool) -> Any:
        posted = await self._conversation.post(query, table=table, delta=delta, key=key)
        if wait:
            return await self._conversation.result(posted)
        return Pending(
            id=posted.state.id,
            key=posted.key,
            ready_at=posted.state.ready_at,
            _fetch=lambda: self._run(self._conversation.result(posted)),
        )

    def sql(self, statement: str, *, table: str | None = None, key: str | None = None, **options: Any) -> Any:
        """Release a SELECT statement, as `Session.sql` does.

        Args:
            statement: SELECT columns and aggregates FROM table [WHERE condition] [GROUP BY columns].
            table: Which table, where there are several.
            key: As for `release`.
            options: The price, and other parameters of `sl.SQL`.

        Returns:
            The release of a table.
        """
        return self.release(load_query("sql")(statement, **options), table=table, key=key)

    def statement(self, *, table: str | None = None) -> Any:
        """Return the sentence that may be published about everything ever released from a table.

        Args:
            table: Which table, where there are several.

        Returns:
            The guarantee of the table, as its owner declared it.
        """
        return self._run(self._conversation.statement(table))

    def fetch(self, id: str) -> Any:  # noqa: A002 - the server's word
        """Return the outcome of an earlier request of this account, waiting for it if it is running.

        Args:
            id: The id of the request, or of its entry in the server's ledger.

        Returns:
            The outcome; of a batch, the outcomes.
        """
        return self._run(self._conversation.fetch(id))

    def close(self) -> Any:
        """Close the connection."""
        return self._run(self._connection.close())


class Remote(RemoteRequests):
    """A server as one analyst sees it. Made by `sl.connect`.

    Guarantee: that of each table, for all requests together; every answer carries its own.
    """

    @property
    def tables(self) -> dict[str, RemoteTable]:
        """The analyst's tables by name, as public declarations."""
        return dict(self._run(self._conversation.tables()))

    @property
    def remaining(self) -> dict[str, Mapping[str, str]]:
        """The remaining budget by table."""
        return dict(self._run(self._conversation.amounts("remaining")))

    @property
    def spent(self) -> dict[str, Mapping[str, str]]:
        """The charges of this account so far by table; for a group, of all its members."""
        return dict(self._run(self._conversation.amounts("spent")))

    def releases(self, *, table: str | None = None) -> Iterator[Outcome]:
        """Yield the outcomes of earlier requests, oldest first; failed ones are left out."""
        after = ""
        while (page := self._run(self._conversation.page(table, after))) is not None:
            found, after = page
            yield from found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class AsyncRemote(RemoteRequests):
    """A server as one analyst sees it, for `await`. Made by `sl.connect_async`; its methods are those of `Remote`.

    Guarantee: that of each table, for all requests together; every answer carries its own.
    """

    async def tables(self) -> dict[str, RemoteTable]:
        """Return the analyst's tables by name, as public declarations."""
        return await self._conversation.tables()

    async def remaining(self) -> dict[str, Mapping[str, str]]:
        """Return the remaining budget by table."""
        return await self._conversation.amounts("remaining")

    async def spent(self) -> dict[str, Mapping[str, str]]:
        """Return the charges of this account so far by table."""
        return await self._conversation.amounts("spent")

    async def releases(self, *, table: str | None = None) -> AsyncIterator[Outcome]:
        """Yield the outcomes of earlier requests, oldest first; failed ones are left out."""
        after = ""
        while (page := await self._conversation.page(table, after)) is not None:
            found, after = page
            for each in found:
                yield each

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._connection.close()
