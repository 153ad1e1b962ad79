"""The client against servers that answer what a test wants: requests made again, and how long they are waited for."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import sidelight as sl
from sidelight.client import AsyncRemote, Remote, connection, conversation
from sidelight.errors import RangeError, ServiceError
from sidelight.noise import OSEntropy
from sidelight.testing import seeded_release

httpx = pytest.importorskip("httpx")
SCHEMA = [sl.Category("job", ["cook", "nurse"])]
QUERY = {"kind": "count", "epsilon": "0.1"}
NOW, SOON = 0.0, 3600.0


def utc(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat()


class Replica:
    """A server that forgets a request until it was made `again` times more, and then has a later slot for it."""

    def __init__(self, *, again: int, pause: float = 0.0) -> None:
        self.posts, self._again, self._pause = 0, again, pause
        table = sl.Table({"job": ["cook", "nurse"]}, schema=SCHEMA, name="people")
        self._outcome = json.loads(seeded_release(sl.Count(epsilon="0.1"), table, seed=1).to_json())
        self._asked = json.loads(json.dumps(self._outcome["query"]))

    def __call__(self, request: Any) -> Any:
        if request.url.path == "/v1/tables":
            return httpx.Response(200, json={"tables": [self._table()]})
        if request.url.path.endswith("/price"):
            return httpx.Response(200, json=self._price())
        if request.method == "POST":
            self.posts += 1
            slot = NOW if self.posts == 1 else SOON
            return httpx.Response(202, json=self._state("queued", slot))
        if self.posts <= self._again:
            time.sleep(self._pause)
            return httpx.Response(404, json={"type": "urn:sidelight:problem:not-found", "detail": "not there"})
        return httpx.Response(200, json=self._state("released", SOON))

    def _state(self, state: str, ready: float) -> dict[str, object]:
        outcome = self._outcome if state == "released" else None
        return {"id": "a" * 64, "state": state, "ready_at": utc(ready), "outcome": outcome}

    def _price(self) -> dict[str, object]:
        claims = [{"type": "PureDP", "epsilon": "0.1"}]
        return {
            "guarantee": "PureDP(ε = 0.1)", "claims": claims, "charge": {}, "remaining": {}, "after": None,
            "expected": None, "seconds": 4, "notes": [], "request": self._asked,
        }  # fmt: skip

    def _table(self) -> dict[str, object]:
        column = {"name": "job", "kind": "category", "categories": ["cook", "nurse"]}
        return {
            "name": "people", "column": [column], "promise": "ours", "kinds": ["count"], "remaining": {"epsilon": "1"},
            "spent": {"epsilon": "0.25"}, "sharing": "reserved", "durations": {"default": 4}, "limits": {},
        }  # fmt: skip


def ask(replica: Replica, *, patience: float) -> object:
    transport = httpx.MockTransport(replica)
    with sl.connect("http://127.0.0.1", token="sl_a_b", patience=patience, transport=transport) as opened:
        return opened.release(QUERY, table="people", key="one")


def ask_awaited(replica: Replica, *, patience: float) -> object:
    async def asked() -> object:
        transport = httpx.MockTransport(replica)
        async with sl.connect_async("http://127.0.0.1", token="sl_a_b", patience=patience, transport=transport) as it:
            return await it.release(QUERY, table="people", key="one")

    return asyncio.run(asked())


BOTH = pytest.mark.parametrize("ask", [ask, ask_awaited])


@BOTH
def test_a_request_that_is_made_again_is_waited_for_until_its_new_slot(ask: Any) -> None:
    """Patience with the first slot is at its end when another replica gives the same key a slot of its own."""
    replica = Replica(again=1, pause=0.6)
    assert isinstance(ask(replica, patience=0.5), sl.Release)
    assert replica.posts == 2


def test_code_for_a_session_runs_on_a_server() -> None:
    def code(asks: sl.Session | Remote) -> list[object]:
        return [asks.release(sl.Count(epsilon="0.1")).kind, asks.statement(), asks.spent, asks.remaining]

    table = sl.Table({"job": ["cook", "nurse"]}, schema=SCHEMA, name="people")
    session = sl.Session(table, budget=sl.PureDP(1))
    with sl.connect("http://127.0.0.1", token="sl_a_b", transport=httpx.MockTransport(Replica(again=0))) as remote:
        assert code(remote) == ["count", "ours", {"people": {"epsilon": "0.25"}}, {"people": {"epsilon": "1"}}]
        assert code(session)[0] == "count"
    with pytest.raises(ServiceError, match="closed"):
        remote.spent  # noqa: B018


def test_both_remotes_offer_the_same() -> None:
    """What is a property of one is a method of the other; nothing else differs."""

    def names(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert names(Remote) == names(AsyncRemote)
    own = {name for kind in (Remote, AsyncRemote) for name in vars(kind) if not name.startswith("_")}
    assert own == {"tables", "remaining", "spent", "releases"}


class Port(BaseHTTPRequestHandler):
    """A handler with persistent connections that returns the client's port as the remaining budget."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        text = json.dumps({"tables": [{"name": "people", "remaining": {"port": str(self.client_address[1])}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *given: object) -> None:
        pass


@pytest.fixture
def ports() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Port) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def in_a_child(work: Callable[[], str]) -> str:
    """Return what a forked process finds."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, work().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = pipe.read()
    os.waitpid(pid, 0)
    return found


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own(ports: str) -> None:
    """On a shared one parent and child would read each other's answers."""
    with sl.connect(ports, token="sl_a_b") as remote:

        def port() -> str:
            return remote.remaining["people"]["port"]

        first = port()
        theirs = in_a_child(lambda: " ".join(port() for _ in range(3))).split()
        assert len(theirs) == 3
        assert len({first, *theirs}) == 2
        assert port() == first  # the child closed nothing of the parent's
        keys = in_a_child(lambda: OSEntropy().read(16).hex()), OSEntropy().read(16).hex()
        assert keys[0] != keys[1]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_one_asynchronous_remote_serves_forks_loops_and_threads(ports: str) -> None:
    remote = sl.connect_async(ports, token="sl_a_b")

    async def port() -> str:
        found = [await remote.remaining() for _ in range(2)]  # the second one on the connection of the first
        (one,) = {each["people"]["port"] for each in found}
        return str(one)

    async def both() -> tuple[str, str, str]:
        outer = await port()
        inner = await asyncio.to_thread(lambda: asyncio.run(port()))  # another loop, while this one runs
        return outer, inner, await port()

    first, second = asyncio.run(port()), asyncio.run(port())
    outer, inner, again = asyncio.run(both())
    assert outer == again
    theirs = in_a_child(lambda: asyncio.run(port()))
    assert len({first, second, outer, inner, theirs}) == 5

    async def forked() -> str:
        before = await port()
        assert in_a_child(lambda: asyncio.run(port())) not in ("", before)  # from inside a running loop
        assert await port() == before
        await remote.close()
        with pytest.raises(ServiceError, match="closed"):
            await remote.remaining()
        return before

    asyncio.run(forked())


def test_a_token_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIDELIGHT_TOKEN", raising=False)
    with pytest.raises(RangeError, match="set SIDELIGHT_TOKEN"):
        sl.connect("http://127.0.0.1")
    monkeypatch.setenv("SIDELIGHT_TOKEN", "sl_a_b")
    replica, seen = Replica(again=0), []

    def answer(request: Any) -> Any:
        seen.append(request.headers["authorization"])
        return replica(request)

    with sl.connect("http://127.0.0.1", table="people", transport=httpx.MockTransport(answer)) as opened:
        assert isinstance(opened.release(QUERY, key="one"), sl.Release)
        with pytest.raises(RangeError, match="which table"):
            opened.release(QUERY, table="persons")
    assert set(seen) == {"Bearer sl_a_b"}


@BOTH
def test_an_address_where_no_server_is_says_which_key_to_ask_again_with(ask: Any) -> None:
    class Lost(Replica):
        def __call__(self, request: Any) -> Any:
            if request.method == "POST":
                raise httpx.ConnectError("gone")
            return super().__call__(request)

    with pytest.raises(ServiceError, match=r"ConnectError.*key='one', which is charged once"):
        ask(Lost(again=0), patience=0.3)


@pytest.mark.parametrize("key", ["", " one", "one ", "ключ", "é", "a" * 201, "one\n", "\ud800", 7])
def test_a_key_that_no_header_carries_is_refused_before_it_is_sent(key: Any) -> None:
    replica = Replica(again=0)
    opened = sl.connect("http://127.0.0.1", token="sl_a_b", transport=httpx.MockTransport(replica))
    with pytest.raises(RangeError, match="printable ASCII"):
        opened.release(QUERY, key=key)
    assert replica.posts == 0


@BOTH
def test_no_endless_answer_is_read(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MOST_BYTES", 1000)
    with pytest.raises(ServiceError, match="more than 1000 bytes"):
        ask(Replica(again=0), patience=0.3)


@BOTH
def test_a_server_that_forgets_again_and_again_is_not_asked_for_ever(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever slots it promises: they count up to a limit, and between requests there is a pause."""
    monkeypatch.setattr(conversation, "_LATEST_SLOT", 0.5)
    replica = Replica(again=100)
    with pytest.raises(ServiceError, match="no answer yet"):
        ask(replica, patience=0.5)
    assert 2 <= replica.posts <= 5


def test_an_answer_for_another_query_price_or_table_is_discarded() -> None:
    """Whatever version it says it is of; it can still be fetched by its id, as it is."""
    changes: dict[str, Callable[[dict[str, Any]], None]] = {
        "query": lambda outcome: outcome["query"].update(where="age > 100"),
        "price": lambda outcome: outcome.update(guarantee=[{"type": "PureDP", "epsilon": "0.01"}]),
        "table": lambda outcome: outcome["circumstances"].update(dataset="others"),
    }

    class Wrong(Replica):
        def __init__(self, wrong: str, version: str | None) -> None:
            super().__init__(again=0)
            changes[wrong](self._outcome)
            self._outcome["circumstances"].update({} if version is None else {"version": version})

    for wrong in changes:
        for version in (None, "9.9"):
            replica = Wrong(wrong, version)
            with sl.connect("http://127.0.0.1", token="sl_a_b", transport=httpx.MockTransport(replica)) as remote:
                with pytest.raises(ServiceError, match=f"another {wrong} than was asked.*discarded"):
                    remote.release(sl.Count(epsilon="0.1"), key="one")
                assert isinstance(remote.fetch("a" * 64), sl.Release)
    with sl.connect("http://127.0.0.1", token="sl_a_b", transport=httpx.MockTransport(Replica(again=0))) as remote:
        assert isinstance(remote.release(sl.Count(epsilon="0.1"), key="one"), sl.Release)


@BOTH
def test_a_server_that_does_not_wait_is_asked_with_pauses(ask: Any) -> None:
    class Hasty(Replica):
        asked = 0

        def __call__(self, request: Any) -> Any:
            if request.method == "GET" and "releases" in request.url.path:
                self.asked += 1
                return httpx.Response(200, json=self._state("queued", 0.5))
            return super().__call__(request)

    replica = Hasty(again=0)
    with pytest.raises(ServiceError, match="no answer yet"):
        ask(replica, patience=1.0)
    assert 2 <= replica.asked <= 10


@BOTH
def test_a_promise_for_years_ahead_is_not_waited_for(ask: Any) -> None:
    class Far(Replica):
        def _state(self, state: str, ready: float) -> dict[str, object]:
            return super()._state("queued", ready) | {"ready_at": "9999-12-31T23:59:59+00:00"}

    with pytest.raises(ServiceError, match="more than a day ahead"):
        ask(Far(again=0), patience=0.3)


@pytest.mark.parametrize("address", ["https://h/a\nb", "https://h/\x00", "https://[h", "https://h:99999999"])
def test_an_address_that_is_none_is_refused_by_ourselves(address: str) -> None:
    with pytest.raises(RangeError, match="address"):
        sl.connect(address, token="sl_a_b")
