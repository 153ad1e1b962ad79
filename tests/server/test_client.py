"""The client against servers that answer what a test wants: requests made again, and how long they are waited for."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

import sidelight as sl
from sidelight.client import connection, conversation
from sidelight.errors import RangeError, ServiceError
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

    def __call__(self, request: Any) -> Any:
        if request.url.path == "/v1/tables":
            return httpx.Response(200, json={"tables": [self._table()]})
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

    def _table(self) -> dict[str, object]:
        column = {"name": "job", "kind": "category", "categories": ["cook", "nurse"]}
        return {
            "name": "people", "column": [column], "promise": "", "kinds": ["count"], "remaining": {"epsilon": "1"},
            "sharing": "reserved", "durations": {"default": 4}, "limits": {},
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

    with pytest.raises(ServiceError, match=r"ConnectError.*key='one', which pays once"):
        ask(Lost(again=0), patience=0.3)


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
