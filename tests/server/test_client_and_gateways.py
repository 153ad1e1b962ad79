"""The client where gateways answer in place of the server, answers are lost or slow, or a server sends anything."""

from __future__ import annotations

import asyncio
import copy
import json
import random
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_client import BOTH, NOW, QUERY, Replica, ask

import sidelight as sl
from sidelight.client import connection, conversation
from sidelight.errors import BudgetError, RangeError, ServiceError, SidelightError
from sidelight.session import request_key
from sidelight.wire import CODES

httpx = pytest.importorskip("httpx")
HTML = b"<html><head><title>502 Bad Gateway</title></head><body><hr><center>nginx</center></body></html>\r\n"
NO_JSON = pytest.mark.parametrize("page", [HTML, b"", b"null", b"\xff", b"[1]"])


class Behind(Replica):
    """A server behind a gateway, which answers some requests itself: those that `instead` returns something for."""

    def __init__(self, instead: Callable[[Any, int], Any]) -> None:
        super().__init__(again=0)
        self._instead, self.keys = instead, list[str]()
        self.number = 0

    def __call__(self, request: Any) -> Any:
        if not request.url.path.startswith("/v1/releases") and not request.url.path.endswith("/releases"):
            return super().__call__(request)
        self.keys += [request.headers["idempotency-key"]] if request.method == "POST" else []
        self.number += 1
        found = self._instead(request, self.number)
        return super().__call__(request) if found is None else found

    def _state(self, state: str, ready: float) -> dict[str, object]:
        return super()._state("released", ready)


@BOTH
@NO_JSON
@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_gateway_that_does_not_reach_the_server_is_asked_again_with_the_same_key(
    ask: Any, status: int, page: bytes
) -> None:
    replica = Behind(lambda request, number: httpx.Response(status, content=page) if number == 1 else None)
    assert isinstance(ask(replica, patience=1.0), sl.Release)
    assert replica.keys == ["one", "one"]


LOST: list[Callable[[], Any]] = [
    lambda: httpx.Response(502, content=HTML),
    lambda: httpx.Response(504, content=b""),
    lambda: httpx.Response(500, content=b"Internal Server Error"),
    lambda: httpx.Response(404, content=HTML),
    lambda: httpx.Response(200, content=HTML),
    lambda: httpx.Response(302, content=b"", headers={"Location": "http://127.0.0.1:1/"}),
    lambda: httpx.Response(202, json={"state": "sideways"}),
    lambda: httpx.Response(202, content=b"x", headers={"Content-Encoding": "gzip"}),
    lambda: _raise(httpx.ConnectError("no")),
    lambda: _raise(httpx.ReadTimeout("no")),
    lambda: _raise(httpx.RemoteProtocolError("no")),
    lambda: httpx.Response(503, json={"type": "urn:sidelight:problem:unavailable", "detail": "no state"}),
]


def _raise(error: Exception) -> Any:
    raise error


@BOTH
@pytest.mark.parametrize("lost", LOST)
def test_every_error_of_a_paid_request_names_its_key(ask: Any, lost: Callable[[], Any]) -> None:
    with pytest.raises(ServiceError, match=r"may have been charged: ask again with key='one', which is charged") as it:
        ask(Behind(lambda request, number: lost()), patience=0.1)
    assert (it.value.key, it.value.request_id) == ("one", None)


@BOTH
@pytest.mark.parametrize("lost", LOST)
def test_every_error_of_waiting_names_key_and_id(ask: Any, lost: Callable[[], Any]) -> None:
    """Also where a request that was accepted is refused its answer, such as after a token was revoked."""
    waiting = {"id": "a" * 64, "state": "queued", "ready_at": "2026-01-01T00:00:00+00:00"}

    def instead(request: Any, number: int) -> Any:
        return httpx.Response(202, json=waiting) if request.method == "POST" else lost()

    with pytest.raises(ServiceError, match=r"with key='one', which.*remote.fetch\('a{64}'\)|no answer yet") as it:
        ask(Behind(instead), patience=0.1)
    assert (it.value.key, it.value.request_id) == ("one", "a" * 64)
    lost = {"type": "urn:sidelight:problem:token", "detail": "revoked"}
    waiting["ready_at"] = "2126-01-01T00:00:00+00:00"
    with pytest.raises(ServiceError, match=r"more than a day ahead.*with key='one'.*remote.fetch\('a{64}'\)"):
        ask(Behind(instead), patience=0.1)
    waiting["ready_at"] = "9999-01-01T00:00:00+00:00"


def test_a_random_key_is_named() -> None:
    with (
        pytest.raises(ServiceError, match=r"ask again with key='[0-9a-f]{32}'") as error,
        remote_of(Behind(lambda request, number: httpx.Response(200, content=HTML))) as remote,
    ):
        remote.release(QUERY)
    replica = Behind(lambda request, number: None)
    with remote_of(replica) as remote:
        remote.release(QUERY, key=error.value.key)
    assert replica.keys == [error.value.key]


@BOTH
def test_a_refusal_after_a_lost_answer_does_not_say_that_nothing_was_charged(ask: Any) -> None:
    """The first attempt may be the reason for the second one's refusal."""
    budget = {"type": "urn:sidelight:problem:budget", "detail": "it does not fit"}

    def instead(request: Any, number: int, *, lost: int = 1) -> Any:
        if number <= lost:
            return httpx.Response(504, content=HTML)
        return httpx.Response(403, json=budget)

    with pytest.raises(ServiceError, match="does not fit; the request may have been charged: ask again with key='one'"):
        ask(Behind(instead), patience=1.0)
    with pytest.raises(BudgetError):  # the server itself refused the only attempt
        ask(Behind(lambda request, number: instead(request, number, lost=0)), patience=1.0)
    title = "The service cannot take this now; nothing was charged."
    paused = {"type": "urn:sidelight:problem:unavailable", "detail": title}
    with pytest.raises(ServiceError) as error:
        ask(Behind(lambda request, number: httpx.Response(503, json=paused)), patience=0.1)
    assert (str(error.value), error.value.key) == (title, None)


def test_an_interrupted_request_names_its_key() -> None:
    with pytest.raises(KeyboardInterrupt) as error, conversation.naming("one"):
        raise KeyboardInterrupt
    assert "ask again with key='one'" in error.value.__notes__[0]


def remote_of(replica: Any, *, patience: float = 0.1) -> sl.Remote:
    return sl.connect(
        "http://127.0.0.1", token="sl_a_b", table="people", patience=patience, transport=httpx.MockTransport(replica)
    )


# --- another version


@pytest.mark.parametrize("wrong", ["request", "claims"])
def test_another_version_is_noticed_before_anything_is_paid(wrong: str) -> None:
    class Other(Replica):
        def _price(self) -> dict[str, object]:
            found = super()._price()
            changed = {
                "request": {**self._asked, "another": "parameter"},
                "claims": [{"type": "PureDP", "epsilon": "0.2"}],
            }
            return found | {wrong: changed[wrong]}

    replica = Other(again=0)
    with remote_of(replica) as remote:
        for request in (remote.price, remote.release):
            with pytest.raises(ServiceError, match=r"in another way than this client of version .*nothing was charged"):
                request(sl.Count(epsilon="0.1"))
        assert replica.posts == 0
        assert isinstance(remote.release(QUERY), sl.Release)  # as a mapping, which nothing is compared with


class Unpriced(Replica):
    """A server that refuses every price, or reads the query in another way; it may know the key of a request."""

    def __init__(self, code: str, *, known: str | None) -> None:
        super().__init__(again=0)
        self._code, self._known = code, known

    def __call__(self, request: Any) -> Any:
        name = request_key("ada", "people", "one")
        if request.url.path == "/v1/me":
            return httpx.Response(200, json={"analyst": "ada"})
        if request.url.path.endswith("/price") and self._code in CODES:
            problem = {"type": f"urn:sidelight:problem:{self._code}", "detail": "not now"}
            return httpx.Response(CODES[self._code].status, json=problem)
        if request.url.path == f"/v1/releases/{name}" and self._known is None:
            return httpx.Response(404, json={"type": "urn:sidelight:problem:not-found", "detail": "not there"})
        if request.url.path == f"/v1/releases/{name}":
            return httpx.Response(200, json=self._state(str(self._known), NOW))
        return super().__call__(request)

    def _price(self) -> dict[str, object]:
        return super()._price() | {"request": {**self._asked, "another": "parameter"}}


@pytest.mark.parametrize("code", ["busy", "too-dear", "unavailable", "not-allowed", "claim", "another way"])
def test_a_refused_price_pays_for_nothing_and_a_key_that_was_paid_is_answered(code: str) -> None:
    """A paid request after a price that was refused for a moment would have been compared with nothing."""
    for key, known in [(None, None), ("one", None), ("one", "dropped")]:
        replica = Unpriced(code, known=known)
        with remote_of(replica) as remote, pytest.raises(SidelightError):
            remote.release(sl.Count(epsilon="0.1"), key=key)
        assert replica.posts == 0
    for known in ("running", "released"):
        with remote_of(Unpriced(code, known=known)) as remote:
            assert isinstance(remote.release(sl.Count(epsilon="0.1"), key="one"), sl.Release)


def test_each_kind_is_priced_before_its_first_paid_request_only() -> None:
    prices = []

    class Counting(Replica):
        def _price(self) -> dict[str, object]:
            prices.append(1)
            return super()._price()

    with remote_of(Counting(again=0)) as remote:
        for _ in range(3):
            remote.release(sl.Count(epsilon="0.1"))
    assert len(prices) == 1


def test_an_answer_that_is_discarded_says_that_its_charge_stands() -> None:
    class Wrong(Replica):
        def __init__(self) -> None:
            super().__init__(again=0)
            self._outcome["query"].update(where="age > 100")

    with pytest.raises(ServiceError, match=r"the charge stands.*discarded") as error, remote_of(Wrong()) as remote:
        remote.release(sl.Count(epsilon="0.1"), key="one")
    assert (error.value.key, error.value.request_id) == ("one", "a" * 64)


# --- slow answers


class Dripping(httpx.SyncByteStream, httpx.AsyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        while True:
            time.sleep(0.05)
            yield b"1"

    async def __aiter__(self) -> Any:
        while True:
            await asyncio.sleep(0.05)
            yield b"1"


@BOTH
def test_an_answer_byte_by_byte_ends_in_time(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_TIMEOUT", 0.4)
    began = time.monotonic()
    with pytest.raises(ServiceError, match=r"Timeout.*with key='one'"):
        ask(Behind(lambda request, number: httpx.Response(200, stream=Dripping())), patience=0.5)
    assert time.monotonic() - began < 30


def test_no_answer_at_all_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers that drip, or a name that is never resolved: httpx waits for each part anew."""
    monkeypatch.setattr(connection, "_TIMEOUT", 0.3)
    began = time.monotonic()
    with pytest.raises(ServiceError, match="Timeout"):
        ask(Behind(lambda request, number: time.sleep(20)), patience=0.1)
    assert time.monotonic() - began < 15


# --- a server that sends anything

ODD: list[Any] = [
    None, True, 0, -1, 10**400, 1.5, float("nan"), float("inf"), "", "x", "\ud800", "1e999999999", "9" * 5000,
    "9999-99-99T99:99:99Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-14:00",
    "2026-11-19T03:55:05", "\x1b[2J\u202e", "a/b?c#d", "a" * 70_000, [], [1], {}, {"a": 1}, [[[[[]]]]], [None],
]  # fmt: skip


class Hostile(Replica):
    """A server one of whose answers has another value in one place."""

    def __init__(self, which: str, at: float, value: Any) -> None:
        super().__init__(again=0)
        self._which, self._at, self._value = which, at, value

    def __call__(self, request: Any) -> Any:
        path = request.url.path
        kind = "price" if path.endswith("/price") else "post" if request.method == "POST" else "get"
        kind = {"/v1/tables": "tables", "/v1/releases": "history"}.get(path, kind)
        found = {"releases": [self._state("released", 0.0)]}
        found = found if kind == "history" else json.loads(super().__call__(request).content)
        if kind == self._which:
            found = changed(found, self._at, self._value)
        return httpx.Response(200, content=json.dumps(found).encode())


def changed(value: Any, at: float, by: Any) -> Any:
    """Return JSON with another value, or a member less, at a place of it between 0 and 1."""
    value = copy.deepcopy(value)
    places: list[tuple[Any, Any]] = []

    def walk(found: Any) -> None:
        for key in found if isinstance(found, dict) else range(len(found)):
            places.append((found, key))
            if isinstance(found[key], dict | list):
                walk(found[key])

    walk(value)
    holder, key = places[int(at * len(places))]
    if by == "remove":
        del holder[key]
    else:
        holder[key] = by
    return value


def everything(remote: sl.Remote) -> None:
    query = sl.Count(epsilon="0.1")
    for table in remote.tables.values():
        table.dummy(3)
        repr(table)
        table._repr_html_()
    assert isinstance(remote.remaining, dict)
    assert isinstance(remote.spent, dict)
    remote.statement()
    str(remote.price(query))
    remote.price(query)._repr_html_()
    for found in (remote.release(query, key="k"), *zip(remote.releases(), range(2), strict=False)):
        repr(found)


@pytest.mark.parametrize("which", ["tables", "price", "post", "get", "history"])
def test_whatever_a_server_sends_is_an_error_of_ours(which: str) -> None:
    """Seeded: each odd value at some places of each answer."""
    chosen, refused = random.Random(which), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for value in [*ODD, "remove"]:
            for _ in range(8):
                at = chosen.random()
                try:
                    with remote_of(Hostile(which, at, value)) as remote:
                        everything(remote)
                except SidelightError:
                    refused += 1
                except Exception as error:
                    raise AssertionError((which, at, value)) from error
    assert refused > 50


@pytest.mark.parametrize("name", ["\ud800", "a" * 70_000, "../me", "", 7])
def test_an_id_that_is_none_is_refused_before_it_is_sent(name: Any) -> None:
    with pytest.raises(RangeError, match="hexadecimal"):
        remote_of(Replica(again=0)).fetch(name)
