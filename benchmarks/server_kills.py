"""Kill -9 of a whole server, its zygote and its workers while analysts ask; then the ledger against what they saw.

    python -m benchmarks.server_kills [SECONDS]

Analysts ask over HTTP with keys, and ask again with the same key whenever a connection breaks. Every second or two a
process is killed, at random. At the end the server is started once more, every key is asked again, and what was seen
is compared with the ledger: `overspent` counts totals that are not the sum of the entries, `lost` answers that were
seen and are gone, `doubled` keys with two entries or two answers, `early` outcomes seen before `ready_at`. Far more
seats than cores, so that many requests run at once; a charge that is late under that load is a paid failure, too.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from benchmarks.measuring import print_figures, sized
from sidelight.server.budgets import Budgets
from sidelight.server.config_file import read_config
from sidelight.server.identity import IdentityStore

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "server"))
from analyst_server import serving, tokens_of, write_survey

SEATS, ANALYSTS = 12, ("ada", "bob", "cy")
#: In quanta: what each request costs.
PRICE = 10**27
_BODY = {"query": {"by": ["job"], "epsilon": "0.001", "kind": "count"}}
#: Runs in the server before it starts: a file with more seats than cores is taken.
_MANY_SEATS = f"import os\nos.sched_getaffinity = lambda pid: set(range({SEATS + 1}))"


class Seen:
    """What analysts saw: of each key its id and its final state."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.final: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, str] = {}
        self.counts: Counter[str] = Counter()

    def note(self, key: str, answer: httpx.Response) -> bool:
        """Keep an answer; return whether it is final."""
        state = answer.json()
        with self.lock:
            if "ready_at" not in state:
                self.counts["refused at once"] += 1
                return False
            self.asked[key] = state["id"]
            over = state["state"] in ("released", "failed", "refused")
            ready = datetime.fromisoformat(state["ready_at"]).timestamp()
            self.counts["early"] += over and time.time() < ready - 0.001
            if over:
                before = self.final.setdefault(key, state)
                self.counts["doubled"] += before != state
            return over or state["state"] == "dropped"


class Running:
    """The server that runs now: its address, and the process to kill."""

    def __init__(self) -> None:
        self.url, self.process = "", subprocess.Popen(["true"])

    def children(self, of: int) -> list[int]:
        """Return the processes that a process started."""
        found = subprocess.run(["pgrep", "-P", str(of)], capture_output=True, text=True).stdout
        return [int(each) for each in found.split()]


def analyst(running: Running, token: str, keys: Iterator[int], end: float, seen: Seen) -> None:
    """Ask one request after the other until the end; after a broken connection the same key again."""
    while time.time() < end:
        key = f"key {next(keys)}"
        for _ in range(40):
            with suppress(httpx.HTTPError, ValueError):
                headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key, "Prefer": "wait=20"}
                address = f"{running.url}/v1/tables/people/releases"
                if seen.note(key, httpx.post(address, json=_BODY, headers=headers, timeout=30)):
                    break
            if time.time() > end:
                return
            time.sleep(0.5)


@contextmanager
def killing(running: Running, file: Path, end: float, kills: Counter[str]) -> Iterator[None]:
    """Keep a server running and kill it or a part of it, again and again, until the end."""
    draw, store = random.Random("kills of a server"), IdentityStore(read_config(file).store)

    def live() -> None:
        while time.time() < end:
            with serving(_many(file), program=_MANY_SEATS) as (url, process):
                running.url, running.process = url, process
                store.resume("people", now=time.time())  # failures pause accounts, and kills are failures
                for name in ("ada", "bob", "institute"):
                    store.resume("people", name, now=time.time())
                for _ in range(draw.randint(15, 45)):
                    time.sleep(draw.uniform(0.3, 1.8))
                    for name in ("", "ada", "bob", "institute"):
                        store.resume("people", name, now=time.time())
                    (zygote, *_), part = running.children(process.pid) or [0], draw.random()
                    workers = running.children(zygote) if zygote else []
                    if part < 0.04 and zygote:
                        _kill(zygote)
                        kills["zygote"] += 1
                    elif workers:
                        _kill(draw.choice(workers))
                        kills["worker or pricing"] += 1
                    if time.time() > end:
                        break
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills["server"] += 1

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        store.close()


def _many(file: Path) -> Path:
    """Return the file that the server reads, with seats that this machine would be refused."""
    return file.with_name("many-seats.toml")


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@cache
def measure(seconds: float | None = None) -> dict[str, float]:
    """Return what the kills changed."""
    seconds = sized(90.0, 8.0) if seconds is None else seconds
    with tempfile.TemporaryDirectory() as folder:
        file = write_survey(Path(folder), budget="{epsilon = 9}", share="{epsilon = 3}")
        file.write_text(file.read_text().replace('"4 s"', '"3 s"'))
        _many(file).write_text(file.read_text().replace("seats = 1", f"seats = {SEATS}"))
        tokens, seen, running, kills = tokens_of(file), Seen(), Running(), Counter[str]()
        keys, end = itertools.count(), time.time() + seconds
        with killing(running, file, end, kills):
            while not running.url:
                time.sleep(0.05)
            askers = [
                threading.Thread(target=analyst, args=(running, tokens[name], keys, end, seen))
                for name in ANALYSTS
                for _ in range(SEATS // 2)
            ]
            for thread in askers:
                thread.start()
            for thread in askers:
                thread.join()
        return {**_compared(file, tokens, seen), "kills": sum(kills.values()), **_told(kills, seen)}


def _told(kills: Counter[str], seen: Seen) -> dict[str, float]:
    print(f"  {len(seen.asked)} requests with slots, kills: {dict(kills)}, seen: {dict(seen.counts)}")
    return {"requests": len(seen.asked), "early": seen.counts["early"]}


def _compared(file: Path, tokens: dict[str, str], seen: Seen) -> dict[str, float]:
    """Start the server once more, wait until the dead are given up, and compare."""
    config, lost = read_config(file), 0
    with serving(_many(file), program=_MANY_SEATS) as (url, _):
        time.sleep(config.longest + 10 + 7)
        with httpx.Client(base_url=url, timeout=30) as client:
            owners = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
            for key, before in seen.final.items():
                found = [client.get(f"/v1/releases/{before['id']}", headers=owners[name]) for name in ANALYSTS]
                good = [each.json() for each in found if each.status_code == 200]
                lost += not good
                seen.counts["doubled"] += bool(good) and good[0] != before
                assert key in seen.asked
    budgets = Budgets(config)
    try:
        entries = budgets.ledger.entries()
        again = Counter(entry.key for entry in entries)
        overspent = int(not budgets.ledger.verify().ok)
        for name in ("people", "people/ada", "people/bob", "people/institute"):
            scope = budgets.ledger.scope(name)
            own = [entry for entry in entries if name in ("people", entry.scope_id)]
            overspent += int(scope.totals().epsilon != len(own) * PRICE) + int(not scope.rule.holds(scope.totals()))
        states = Counter(entry.state for entry in entries)
        print(f"  in the ledger: {dict(states)}")
        lost += states["reserved"]  # given up by now, or nobody ever learns what became of it
    finally:
        budgets.close()
    twice = sum(number - 1 for number in again.values())
    return {"overspent": overspent, "lost": lost, "doubled": seen.counts["doubled"] + twice}


if __name__ == "__main__":
    print_figures(measure(*map(float, sys.argv[1:])))
