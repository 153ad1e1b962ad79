"""The analyst server: answers before their time, neighbouring tables, and what it costs; kills: `server_kills`.

    python -m benchmarks.analyst_server

Two servers whose tables differ in one person are asked the same script
and their transcripts are compared with released values masked. Sizes are small: a slot lasts seconds by design.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import sized
from sidelight.server.budgets import Budgets
from sidelight.server.config import ServerConfig
from sidelight.server.config_file import read_config
from sidelight.server.pricing import answer_job
from sidelight.session import request_key

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "server"))
from analyst_server import serving, tokens_of, write_people, write_survey

_QUERY = '{"by":["job"],"epsilon":"0.01","kind":"count"}'


def _config(folder: Path, **changes: str) -> tuple[ServerConfig, dict[str, str]]:
    large = {"budget": "{epsilon = 30}", "share": "{epsilon = 10}", **changes}
    file = write_survey(folder, **large)
    return read_config(file), tokens_of(file)


def _job(name: str, tokens: dict[str, str], head: tuple[int, str], start: float, seconds: float) -> dict[str, Any]:
    return {
        "table": "people", "query": _QUERY, "releases": {}, "id": name, "digest": "0" * 64, "analyst": "ada",
        "token": tokens["ada"].split("_")[1], "start": start, "end": start + seconds, "seconds": str(seconds),
        "moment": start, "head": head,
    }  # fmt: skip


@cache
def neighbours() -> dict[str, float]:
    """Ask two servers, one with a person more, the same; count lines that differ and answers before their time."""
    rounds = sized(4, 1)
    transcripts, early = [], 0
    for more in (0, 1):
        with tempfile.TemporaryDirectory() as folder:
            write_people(Path(folder), rows=1000, more=more)
            file = write_survey(Path(folder))
            tokens = tokens_of(file)
            with serving(file) as (url, _):
                lines, too_soon = _script(url, tokens["ada"], rounds)
            audit = (Path(folder) / "audit.jsonl").read_text().splitlines()
            config = read_config(file)
            budgets = Budgets(config)
            events = [f"{event.kind} {event.scope_id}" for event in budgets.ledger.events()]
            budgets.close()
        early += too_soon
        transcripts.append([*lines, f"audit {[sorted(json.loads(line)) for line in audit]}", *events])
    told = sum(one != other for one, other in zip(*transcripts, strict=False))
    return {"told_apart": told + abs(len(transcripts[0]) - len(transcripts[1])), "early": early}


def _script(url: str, token: str, rounds: int) -> tuple[list[str], int]:
    import httpx

    lines, early = [], 0
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        for place in range(rounds):
            for kind in ("count", "mean"):
                query = {"kind": kind, "by": ["job"], "epsilon": "0.05"} | ({"column": "age"} if kind == "mean" else {})
                price = client.post("/v1/tables/people/price", json={"query": query})
                key = {"Idempotency-Key": f"{kind} {place}"}
                answer = client.post("/v1/tables/people/releases", json={"query": query}, headers=key)
                lines += [_masked(price), _masked(answer)]
                ready = datetime.fromisoformat(answer.json()["ready_at"]).timestamp()
                while answer.status_code == 202:
                    answer = client.get(f"/v1/releases/{answer.json()['id']}")
                    early += answer.status_code != 202 and time.time() < ready
                    time.sleep(0.05)
                lines.append(_masked(answer))
        lines.append(_masked(client.get("/v1/tables/people")))
    return lines, early


def _masked(answer: Any) -> str:
    """Return status, names of headers and the body of an answer without released numbers, times and names by chance."""
    found = answer.json()
    if isinstance(found.get("outcome"), dict):
        found["outcome"]["value"] = _shape(found["outcome"]["value"])
        found["outcome"]["circumstances"] |= {"entry_id": "", "ledger_head": ""}
    text = re.sub(r'"(starts_at|ready_at)": "[^"]*"', r'"\1": ""', json.dumps(found, sort_keys=True))
    return f"{answer.status_code} {sorted(set(answer.headers) - {'date', 'content-length'})} {text}"


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_shape(each) for each in value]
    return type(value).__name__


@cache
def prices() -> dict[str, float]:
    """Ask for prices of different queries over HTTP, from four connections at once."""
    import httpx

    number = sized(600, 20)
    with tempfile.TemporaryDirectory() as folder:
        file = write_survey(Path(folder))
        tokens = tokens_of(file)
        with serving(file) as (url, _):

            def ask(part: int) -> None:
                headers = {"Authorization": f"Bearer {tokens['ada']}"}
                with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
                    for place in range(number // 4):
                        epsilon = f"0.{100 + part}{place:03}"
                        query = {"kind": "count", "by": ["job"], "epsilon": epsilon}
                        found = client.post("/v1/tables/people/price", json={"query": query, "forecast": False})
                        assert found.status_code == 200, found.text

            ask(9)
            with ThreadPoolExecutor(4) as threads:
                began = time.perf_counter()
                list(threads.map(ask, range(4)))
                seconds = time.perf_counter() - began
    return {"prices_a_second": number / seconds}


@cache
def processor_time() -> dict[str, float]:
    """Compare the processor time of a worker with that of the library, each in a fork with the libraries imported."""
    from sidelight.server import worker, zygote

    rows, runs = sized((1_000_000, 5), (1000, 1))
    for name in zygote.PRELOADED:
        __import__(name)
    with tempfile.TemporaryDirectory() as folder:
        write_people(Path(folder), rows=rows)
        config, tokens = _config(Path(folder))
        budgets = Budgets(config, create=True)
        budgets.open_scopes()
        head = budgets.newest_head()
        budgets.close()
        config.work.scratch.mkdir(exist_ok=True)
        served, library = [], []
        for place in range(runs):
            job = _job(request_key("ada", "people", str(place)), tokens, head, time.time(), 6.0)
            served.append(
                _forked(lambda job=job: worker._release(_Silent(), config, config.tables["people"], job, Path(folder)))
            )
            library.append(_forked(lambda place=place: _library(config, place)))
    ours, theirs = float(np.median(served)), float(np.median(library))
    print(f"  processor time: server {1000 * ours:.0f} ms, library {1000 * theirs:.0f} ms")
    ratio = ours / theirs
    return {"cpu_vs_library": min(ratio, 1.3) if ours - theirs <= 0.08 else ratio}


class _Silent:
    def send_bytes(self, text: bytes) -> None:
        """Say nothing."""


def _library(config: ServerConfig, place: int) -> None:
    import sidelight as sl

    table = config.tables["people"].open()
    session = sl.Session(table, budget=sl.PureDP(100), ledger=config.folder / "library.db")
    session.release(sl.Count(by="job", epsilon="0.01"), key=str(place))


def _forked(job: Any) -> float:
    pid = os.fork()
    if pid == 0:
        try:
            job()
        finally:
            os._exit(0)
    _, _, used = os.wait4(pid, 0)
    return used.ru_utime + used.ru_stime


@cache
def fuzz() -> dict[str, float]:
    """Price queries that are nearly right; count exceptions that are not ours, and prices that take seconds."""
    number = sized(3000, 100)
    draw = random.Random("nearly right")
    with tempfile.TemporaryDirectory() as folder:
        config = read_config(write_survey(Path(folder)))
        config.work.scratch.mkdir(exist_ok=True)
        unexpected = slow = 0
        for _ in range(number):
            query = _mutated(draw)
            began = time.process_time()
            job = {
                "do": "price",
                "table": "people",
                "query": json.dumps(query),
                "kind": "x",
                "forecast": draw.random() < 0.1,
            }
            found = answer_job(config, job)
            slow += time.process_time() - began > 5
            if found.get("problem", {}).get("unexpected"):
                unexpected += 1
                print("  not ours:", json.dumps(query)[:300])
    return {"not_ours": unexpected + slow}


_SEEDS: list[dict[str, Any]] = [
    {"kind": "count", "by": ["job"], "where": "age >= 18", "epsilon": "0.1"},
    {"kind": "mean", "column": "age", "by": ["job"], "epsilon": "0.1",
     "prediction": {"family": "cauchy", "location": 40, "scale": 10}},
    {"kind": "sum", "column": "age", "epsilon": 0.1},
    {"kind": "histogram", "column": "age", "bins": 10, "epsilon": "0.1"},
    {"kind": "quantiles", "column": "age", "levels": ["0.5", 0.9], "epsilon": "0.1",
     "prediction": {"family": "mixture", "priors": [{"family": "uniform", "lower": 0, "upper": 9}], "weights": [1]}},
    {"kind": "summary", "column": "age", "epsilon": "0.1"},
    {"kind": "sql", "statement": "SELECT job, AVG(age) FROM people WHERE age > 3 GROUP BY job", "epsilon": "0.1"},
    {"kind": "top_k", "column": "job", "k": 2, "epsilon": "0.1"},
]  # fmt: skip
_ODD = (
    *("", "age", "job", "x" * 500, "1e300", "-1", "1/0", "0", "age +", "((((", "SELECT",
      "\x00", "é", "nan", "inf", "auto"),
    *(None, True, False, 0, -1, 1, 10**30, -(10**30), 1e-300, 1e300, 0.5, [], [[]], {},
      {"family": "laplace"}, ["job", "job"]),
)  # fmt: skip


def _mutated(draw: random.Random) -> dict[str, Any]:
    query: dict[str, Any] = json.loads(json.dumps(draw.choice(_SEEDS)))
    other = draw.choice(_SEEDS)
    for _ in range(draw.randint(1, 3)):
        choice = draw.random()
        keys = list(query)
        if choice < 0.45 and keys:
            query[draw.choice(keys)] = draw.choice(_ODD)
        elif choice < 0.6 and len(keys) > 1:
            query.pop(draw.choice(keys[1:]))
        elif choice < 0.8:
            key = draw.choice(list(other))
            query[key] = other[key]
        elif isinstance(query.get("prediction"), dict) and query["prediction"]:
            inside = query["prediction"]
            inside[draw.choice(list(inside))] = draw.choice(_ODD)
        else:
            query[draw.choice(("by", "where", "delta", "rho", "mu", "known", "noise", "clip", "title"))] = draw.choice(
                _ODD
            )
    return query


def main() -> None:
    """Print all figures."""
    for job in (fuzz, processor_time, prices, neighbours):
        print(job.__name__, job())


if __name__ == "__main__":
    main()
