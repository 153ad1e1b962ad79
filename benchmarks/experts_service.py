"""The experts service: reports a second with 200 clients a round, every acknowledgement after its sync to disk.

The service is `sidelight serve` in a process of its own; 200 connections on loopback send vectors of 25 gains, all at
once when a round opens, and the next round opens when all were acknowledged. Closing rounds is part of the time.
`PLAYER` is the most expensive one. The reports are made beforehand, with random values in place of noise.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measuring import sized
from sidelight.experts import NoisyReport
from sidelight.experts.service.plan import ServicePlan, read_service_plan
from sidelight.experts.service.store import Tokens
from sidelight.guarantees import decimal_text

CLIENTS, ACTIONS, ROUNDS = sized((200, 25, 15), (6, 3, 2))
PLAYER = "rw_meta"
_NAMES = [f"client {place}" for place in range(CLIENTS)]


def measure() -> dict[str, float]:
    """Return reports a second, of the slowest round and of the service's processor time too, and what 99 % wait."""
    with tempfile.TemporaryDirectory() as folder:
        plan = _plan(Path(folder))
        tokens = dict(zip(_NAMES, Tokens(plan.tokens).issue(*_NAMES), strict=True))
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "sidelight", "serve", str(Path(folder) / "experts.toml")]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        ) as it:
            try:
                port = _port(it)
                before = _cpu_seconds(it.pid)
                found = asyncio.run(_load(port, plan, tokens))
                used = _cpu_seconds(it.pid) - before
                return found | {"reports_per_cpu_second": CLIENTS * ROUNDS / used}
            finally:
                it.send_signal(signal.SIGKILL)
                it.communicate()


def _cpu_seconds(pid: int) -> float:
    """Return the processor seconds of the service so far, NaN without /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _plan(folder: Path) -> ServicePlan:
    path = folder / "experts.toml"
    path.write_text(
        f"""
clients = {json.dumps(_NAMES)}
terms = {{actions = {ACTIONS}, mu = 1, sensitivity = 0.177, neighbours = "move", rounds = {ROUNDS}}}
player = {{kind = "{PLAYER}"}}
rounds = {{seconds = 600, close_when_complete = true}}
listen = {{port = 0}}
testing = {{seed = 1}}
""",
        encoding="utf-8",
    )
    return read_service_plan(path)


def _port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"on http://127.0.0.1:(\d+)", line):
            return int(found[1])
    raise RuntimeError("the service did not start")


def _requests(plan: ServicePlan, tokens: dict[str, str]) -> list[list[bytes]]:
    terms, rng = plan.reporting, np.random.default_rng(1)
    spread = float(terms.noise_scale / terms.grid)
    made = []
    for round_ in range(1, ROUNDS + 1):
        of_round = []
        for name in _NAMES:
            report = NoisyReport(
                client_id=name,
                round=round_,
                kind="vector",
                index=None,
                values=tuple(int(value) for value in rng.normal(0, spread, ACTIONS)),
                grid_bits=terms.grid_bits,
                noise_scale=decimal_text(terms.noise_scale),
                mu=decimal_text(terms.exact_mu),
                nonce=rng.bytes(16).hex(),
                entropy="seeded",
            )
            body = report.to_json().encode()
            head = (
                f"POST /v1/reports HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {tokens[name]}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            of_round.append(head.encode() + body)
        made.append(of_round)
    return made


async def _load(port: int, plan: ServicePlan, tokens: dict[str, str]) -> dict[str, float]:
    requests = _requests(plan, tokens)
    lines = [await asyncio.open_connection("127.0.0.1", port) for _ in _NAMES]
    times: list[float] = []

    async def send(line: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: bytes) -> None:
        start = time.perf_counter()
        status, _ = await _asked(line, request)
        if status != 201:
            raise RuntimeError(f"a report was answered {status}")
        times.append(time.perf_counter() - start)

    rates = []
    begin = time.perf_counter()
    for number, of_round in enumerate(requests, start=1):
        start = time.perf_counter()
        await asyncio.gather(*(send(line, request) for line, request in zip(lines, of_round, strict=True)))
        while True:
            _, body = await _asked(lines[0], b"GET /v1/round HTTP/1.1\r\nHost: x\r\n\r\n")
            if json.loads(body)["round"] != number:
                break
            await asyncio.sleep(0.01)
        rates.append(CLIENTS / (time.perf_counter() - start))
    seconds = time.perf_counter() - begin
    _, body = await _asked(lines[0], b"GET /v1/rounds HTTP/1.1\r\nHost: x\r\n\r\n")
    counted = [each["reports"] for each in json.loads(body)["rounds"]]
    if counted != [CLIENTS] * ROUNDS:
        raise RuntimeError(f"rounds counted {counted} reports")
    for _, writer in lines:
        writer.close()
    return {
        "reports_per_second": CLIENTS * ROUNDS / seconds,
        "slowest_round_per_second": min(rates),
        "acknowledged_99_percent_seconds": float(np.quantile(times, 0.99)),
    }


async def _asked(line: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: bytes) -> tuple[int, bytes]:
    reader, writer = line
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    assert length is not None
    return int(head[9:12]), await reader.readexactly(int(length[1]))


if __name__ == "__main__":
    print(measure())
