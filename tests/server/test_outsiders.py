"""What somebody with a token of an analyst may try: odd headers and ids, shared keys, slow bodies, and much memory."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from server_fixtures import *  # noqa: F403 - fixtures

from sidelight.server.schedule import Slot
from sidelight.server.service import AnalystService
from sidelight.server.slots import Accepted, Slots
from sidelight.wire import LIMITS, ProblemError

BODY = json.dumps({"query": {"kind": "count", "epsilon": "0.01"}})


def raw(live, lines, body="", *, seconds=10.0):
    """Send a request as it is written, and return the status line and the rest."""
    address = urlsplit(live.url)
    text = "\r\n".join(
        [*lines, f"Host: {address.hostname}", "Connection: close", f"Content-Length: {len(body)}", "", body]
    )
    with socket.create_connection((address.hostname, address.port), timeout=seconds) as connection:
        connection.sendall(text.encode("latin-1"))
        found = b""
        while part := connection.recv(65_536):
            found += part
    status, _, rest = found.decode("latin-1").partition("\r\n")
    return int(status.split()[1]), rest


@pytest.mark.parametrize("twice", ["Authorization", "Content-Type", "Idempotency-Key"])
def test_a_header_that_decides_stands_once(live, twice):
    """Refusal of duplicate headers: a proxy may use the first, the server the last."""
    headers = {
        "Authorization": f"Bearer {live.tokens['ada']}",
        "Content-Type": "application/json",
        "Idempotency-Key": "x",
    }
    other = {"Authorization": f"Bearer {live.tokens['bob']}", "Content-Type": "text/plain", "Idempotency-Key": "y"}
    lines = ["POST /v1/tables/people/releases HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    status, rest = raw(live, [*lines, f"{twice}: {other[twice]}"], BODY)
    assert (status, "may occur only once" in rest) == (400, True)
    assert raw(live, [*lines, f"{twice.lower()}: {headers[twice]}"], BODY)[0] == 400
    for name in ("ada", "bob"):
        assert getattr(live, name).get("/v1/releases?table=people").json()["releases"] == []


@pytest.mark.parametrize(
    "name", ["%00", "..%2F..%2Fbudget.db", "a" * 5000, "%F0%9F%98%80", "0" * 63, "' OR 1=1 --", "%ff"]
)
def test_ids_are_ids_and_nothing_else_reaches_the_ledger(live, name):
    for rest in ("", "/report", "/chart.svg", "/numbers", "/proof"):
        found = live.ada.get(f"/v1/releases/{name}{rest}")
        assert (found.status_code, found.json()["type"]) == (404, "urn:sidelight:problem:not-found")
    assert live.ada.get(f"/v1/releases?table=people&after={name}").status_code == 400


def test_a_key_belongs_to_one_analyst(live):
    """Two members of one group use the same key: two requests, each paid, and each seen by both as the group's own."""
    ask = {"Idempotency-Key": "ours"}
    one, other = (
        client.post(
            "/v1/tables/people/releases", content=BODY, headers={**ask, "Content-Type": "application/json"}
        ).json()
        for client in (live.cy, live.dan)
    )
    assert one["id"] != other["id"]
    assert live.dan.get(f"/v1/releases/{one['id']}").status_code in (200, 202)
    assert live.ada.get(f"/v1/releases/{one['id']}").status_code == 404


def test_a_body_that_never_comes_costs_nobody_else(live):
    address = urlsplit(live.url)
    head = [
        "POST /v1/tables/people/price HTTP/1.1",
        f"Host: {address.hostname}",
        f"Authorization: Bearer {live.tokens['bob']}",
        "Content-Type: application/json",
        "Content-Length: 1000",
    ]
    slow = []
    for _ in range(15):
        slow.append(socket.create_connection((address.hostname, address.port)))
        slow[-1].sendall(("\r\n".join(head) + '\r\n\r\n{"query"').encode())
    began = time.monotonic()
    assert live.ada.get("/v1/tables/people").status_code == 200
    assert time.monotonic() - began < 15
    for each in slow:
        each.close()


def test_releases_that_a_query_names_are_limited_together(monkeypatch):
    """Fifty of four megabytes each would be held for every request that waits."""
    read = []

    def entry(table, account, name):
        read.append(name)
        text = json.dumps({"circumstances": {}, "filled": "x" * (LIMITS["answer_bytes"] // 2)})
        return SimpleNamespace(
            state="released", text=text, request={}, entry_id="0", head="0", at_utc="1970-01-01T00:00:00Z"
        )

    service = SimpleNamespace(budgets=SimpleNamespace(entry=entry), clock=SimpleNamespace(now=time.time))
    asking = SimpleNamespace(table=None, account=None)
    with pytest.raises(ProblemError, match="at most"):
        AnalystService._own_releases(service, asking, [f"{place:064x}" for place in range(50)])
    assert len(read) == 2
    assert len(AnalystService._own_releases(service, asking, ["0" * 64])) == 1


def test_what_was_dropped_is_remembered_without_its_query():
    async def dropped():
        slots = Slots(None, None, None)
        slots._stopping = True
        now = time.time()
        slot = Slot(seat=0, start=now, end=now + 1, account="people/ada")
        table = SimpleNamespace(name="people")
        job = {"query": "x" * 1000, "clock": now - time.monotonic()}
        accepted = Accepted(request_id="0", table=table, account=None, slot=slot, digest="", canonical="", job=job)
        slots.accept(accepted)
        await slots.stop()
        return slots.get("0")

    found = asyncio.run(dropped())
    assert (found.state, found.job) == ("dropped", {})
