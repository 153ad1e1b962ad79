"""Half-open connections, with few descriptors and no proxy: reports get through, and the state is stored."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_fixtures import *  # noqa: F403 - fixtures
from service_fixtures import NAMES, PLAN, made_reports, uninterrupted, write_plan

from sidelight.experts.service.store import Tokens
from sidelight.web import connections
from sidelight.web.requests import LOG_LINES, LOG_SECONDS, LogLimit

#: Runs the service with few descriptors and little patience.
PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))
from sidelight.web import connections
connections.Waiting.__init__.__kwdefaults__["seconds"] = float(sys.argv[3])
from sidelight.experts.service.plan import read_service_plan
from sidelight.experts.service.app import serve
serve(read_service_plan(sys.argv[1]), when_ready=lambda url: print("on", url, flush=True))
"""


@contextmanager
def served(plan_file: Path, *, descriptors: int, seconds: float) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-c", PROGRAM, str(plan_file), str(descriptors), str(seconds)]
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"on (http://\S+)", process.stdout.readline())
            assert found, process.stderr.read() if process.stderr else ""
            yield found[1], process
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)


def half_open(url: str, *, silent: bool = False) -> socket.socket:
    """Connect and send half a header, or nothing."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=5)
    if not silent:
        connection.sendall(b"POST /v1/reports HTTP/1.1\r\nHost: experts\r\n")
    return connection


def left(connections_: list[socket.socket], *, within: float) -> int:
    """Wait until all are hung up on; return how many are not."""
    end = time.monotonic() + within
    for connection in connections_:
        connection.settimeout(max(0.01, end - time.monotonic()))
        try:
            while connection.recv(4096):
                pass
        except TimeoutError:
            return 1
        except OSError:
            pass
    return 0


@pytest.mark.parametrize("count", [120, pytest.param(300, marks=pytest.mark.slow)])
def test_half_open_connections_stop_nothing(tmp_path: Path, count: int, record_property: Any) -> None:
    """Two rounds of four reports over new connections, despite slow and idle clients."""
    plan = write_plan(tmp_path, PLAN + "\n[listen]\nport = 0\n")
    tokens = dict(zip(NAMES, Tokens(plan.tokens).issue(*NAMES), strict=True))
    reports = made_reports(plan.reporting, 2)
    with served(tmp_path / "experts.toml", descriptors=140, seconds=2) as (url, process), ExitStack() as stack:
        slow = [stack.enter_context(half_open(url, silent=place % 2 == 0)) for place in range(count // 2)]
        answers = []
        for round_ in (1, 2):
            for name in NAMES:
                sent = httpx.post(
                    f"{url}/v1/reports",
                    content=reports[round_, name].to_json(),
                    headers={"Authorization": f"Bearer {tokens[name]}", "Content-Type": "application/json"},
                    timeout=10,
                )
                answers.append(sent.status_code)
            slow += [stack.enter_context(half_open(url, silent=False)) for _ in range(count // 4)]
        assert answers == [201] * 8
        assert process.poll() is None
        assert len(slow) == count
        assert left(slow, within=15) == 0
        closed = httpx.get(f"{url}/v1/rounds", timeout=10).json()["rounds"]
    assert [each["reports"] for each in closed] == [4, 4]
    stored = json.loads((plan.folder / "snapshot.json").read_text())["content"]["server"]["player"]
    assert stored["sums"] == uninterrupted(plan, reports, 2)[1].state()["player"]["sums"]
    record_property(
        "audit", f"slow headers: {count} half-open connections, 140 descriptors; 8 of 8 reports were taken and stored"
    )


def test_a_trickle_of_bytes_gives_no_more_time(tmp_path: Path) -> None:
    write_plan(tmp_path, PLAN + "\n[listen]\nport = 0\n")
    with served(tmp_path / "experts.toml", descriptors=256, seconds=1) as (url, _), half_open(url) as slow:
        began = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - began < 20:
                slow.sendall(b"x-a: b\r\n")
                time.sleep(0.1)
        assert time.monotonic() - began < 15


class _Loop:
    """A loop whose timers never run by themselves."""

    def call_later(self, delay: float, *call: Any) -> Any:
        return type("Timer", (), {"cancel": lambda self: None, "delay": delay, "call": call})()


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[connections.Waiting]:
    monkeypatch.setattr(connections.asyncio, "get_running_loop", _Loop)
    return connections.Waiting(most=3)


def test_who_waits_longest_goes_and_who_has_sent_a_header_stays(waiting: connections.Waiting) -> None:
    pairs = [socket.socketpair() for _ in range(5)]
    near, far = [a for a, _ in pairs], [b for _, b in pairs]
    for each in near[:3]:
        assert waiting.arrived(each)
    waiting.busy(near[0].fileno())
    assert waiting.arrived(near[3])  # the second is hung up on, for the first is answered
    far[1].settimeout(1)
    assert far[1].recv(1) == b""
    waiting.gone(near[1].fileno())
    for each in (near[2], near[3]):
        waiting.busy(each.fileno())
    assert not waiting.arrived(near[4])  # all are answered: no room is left
    for pair in pairs:
        for each in pair:
            each.close()


def test_descriptors_are_kept_for_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    used = len(os.listdir("/dev/fd"))
    monkeypatch.setattr(connections.resource, "getrlimit", lambda which: (used + 100, 4096))
    assert connections.room() <= 100 - connections.RESERVE
    monkeypatch.setattr(connections.resource, "getrlimit", lambda which: (used + 20, 4096))
    with pytest.raises(OSError, match="ulimit"):
        connections.room()
    monkeypatch.setattr(connections.resource, "getrlimit", lambda which: (10**6, 10**6))
    assert connections.room() == connections.MOST


def test_strangers_cannot_fill_the_log(service: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="sidelight.experts.service"):
        for _ in range(60):
            assert service.post("/v1/reports", headers={"Authorization": "Bearer nobody"}).status_code == 401
    assert len(caplog.records) == LOG_LINES


def test_what_was_left_out_is_counted_and_errors_never_are() -> None:
    now = [0.0]
    limit = LogLimit(clock=lambda: now[0])

    def line(text: str, level: int = logging.WARNING) -> logging.LogRecord:
        return logging.LogRecord("x", level, "", 0, text, (), None)

    assert [limit.filter(line("refused")) for _ in range(20)].count(True) == LOG_LINES
    assert limit.filter(line("of another kind"))
    assert all(limit.filter(line("the disk is full", logging.ERROR)) for _ in range(20))
    now[0] = LOG_SECONDS
    record = line("refused")
    assert limit.filter(record)
    assert record.getMessage() == f"refused (before that, {20 - LOG_LINES} more lines left out)"
    assert sum(limit.filter(line(f"kind {number}")) for number in range(10_000)) <= 1000 + LOG_LINES
