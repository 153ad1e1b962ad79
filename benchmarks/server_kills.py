"""Kill -9 of a whole server, its zygote and its workers while analysts ask; then the ledger against what they saw.

    python -m benchmarks.server_kills [REQUESTS [KILLS [SECONDS [SLOT]]]]

Analysts ask over HTTP with keys, and ask again with the same key whenever a connection breaks. Kills come at random
moments, spread over the requests; some whole servers are stopped by SIGTERM, or twice by it, in place of SIGKILL. At
the end the server is started once more, and what was seen is compared with the ledger: `overspent` counts totals that
are not the sum of the entries, and entries that no analyst asked for; `lost` answers that were seen and are gone, and
charges without an end; `doubled` keys with two entries or two answers; `early` outcomes seen before `ready_at`.

A slot lasts seconds by design, so requests per second are seats over seconds: there are far more seats than cores.
What is charged in the first quarter of its slot counts, what is later is dropped and tests little: on a busy machine
choose a longer SLOT. Waiting clients sleep until the answer is due (polling twice a second cost more than the
releases), and clients wait longer between requests while requests are dropped.
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
from sidelight.session import request_key

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "server"))
from analyst_server import serving, write_survey

#: Seconds of a slot, seats for each of them, and seats at most.
SLOT, PER_SECOND, MOST_SEATS = 6, 4, 160
#: Accounts, each of an analyst who asks several requests at once, together as many as there are seats.
ANALYSTS = tuple(f"ada{number}" for number in range(12))
#: In quanta: what each request costs.
PRICE = 10**26
_BODY = {"query": {"epsilon": "0.0001", "kind": "count"}}
#: Runs in the server before it starts: a file with more seats than cores and memory is taken.
_MANY_SEATS = (
    f"import os\nos.sched_getaffinity = lambda pid: set(range({MOST_SEATS + 1}))\nos.sysconf = lambda name: 2**30"
)
#: How often the whole server, and how often its zygote, is what is killed; else a worker or a pricing process.
_WHOLE, _ZYGOTE = 0.15, 0.10
#: Answers that are also asked for one by one at the end.
_ONE_BY_ONE = 200


class Seen:
    """What analysts saw: of each request its final state, and what was asked at all."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.final: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, str] = {}  # whose request it is, whether an answer came or not
        self.slots: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.rest = 2.0  # seconds between the requests of an asker: longer while the machine drops what it is asked

    def note(self, answer: httpx.Response) -> float:
        """Keep an answer; return the seconds until the next poll, 0 if it is final."""
        state = answer.json()
        with self.lock:
            if "ready_at" not in state:
                self.counts[f"refused: {answer.status_code}"] += 1
                return 1.0
            self.slots.add(state["id"])
            over = state["state"] in ("released", "failed", "refused")
            ready = datetime.fromisoformat(state["ready_at"]).timestamp()
            self.counts["early"] += over and time.time() < ready - 0.001
            if over:
                before = self.final.setdefault(state["id"], state)
                self.counts["doubled"] += before != state
            if over or state["state"] == "dropped":
                self.counts[state["state"]] += 1
                self.rest = self.rest * 0.97 if over else min(60.0, self.rest * 1.1 + 0.5)
                return 0.0
            return max(0.5, ready - time.time())


class Trial:
    """One run: the server that runs now, what was seen, and when it is over."""

    def __init__(self, file: Path, *, requests: int, kills: int, seconds: float, slot: int) -> None:
        self.file, self.requests, self.kills, self.slot = file, requests, kills, slot
        self.seats = min(MOST_SEATS, PER_SECOND * slot)
        self.many = file.with_name("many-seats.toml")  # what the server reads: seats that this machine is refused
        self.many.write_text(file.read_text().replace("seats = 1", f"seats = {self.seats}"))
        self.end = time.time() + seconds
        self.url, self.seen, self.killed = "", Seen(), Counter[str]()
        self._over = threading.Event()

    @property
    def over(self) -> bool:
        """Whether enough was asked and killed, or the time is up."""
        if (len(self.seen.slots) >= self.requests and self.killed.total() >= self.kills) or time.time() > self.end:
            self._over.set()
        return self._over.is_set()

    def ask(self, analyst: str, token: str, keys: Iterator[int]) -> None:
        """Ask one request after the other; after a broken connection the same key again."""
        with httpx.Client(timeout=30, verify=False) as client:  # over http: no certificates are loaded
            while not self.over:
                key = f"key {next(keys)}"
                headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key, "Prefer": "wait=20"}
                self.seen.asked[request_key(analyst, "people", key)] = analyst
                for _ in range(60):
                    pause = 1.0
                    with suppress(httpx.HTTPError, ValueError):
                        address = f"{self.url}/v1/tables/people/releases"
                        pause = self.seen.note(client.post(address, json=_BODY, headers=headers))
                    if not pause or self._over.wait(pause):
                        break
                self._over.wait(self.seen.rest)

    @contextmanager
    def killing(self) -> Iterator[None]:
        """Keep a server running and kill it or a part of it, again and again, until the end."""
        thread = threading.Thread(target=self._live)
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def _live(self) -> None:
        draw, store = random.Random("kills of a server"), IdentityStore(read_config(self.file).store)
        due = 0.0
        try:
            while not self.over:
                with serving(self.many, program=_MANY_SEATS) as (url, process):
                    self.url, whole = url, False
                    while not self.over and not whole and process.poll() is None:
                        for name in ("", *ANALYSTS):  # failures pause accounts, and kills are failures
                            if store.is_paused("people", name):
                                store.resume("people", name, now=time.time())
                        time.sleep(draw.uniform(0.1, 0.4))
                        if len(self.seen.slots) >= due:
                            due = len(self.seen.slots) + draw.expovariate(self.kills / self.requests)
                            whole = self._kill_one(process, draw)
                    if not whole:
                        process.kill()
                        self.killed["server"] += 1
                    process.wait()
        finally:
            store.close()

    def _kill_one(self, process: subprocess.Popen[str], draw: random.Random) -> bool:
        """Kill a process of a server; return whether it was the whole."""
        part = draw.random()
        if part < _WHOLE:
            how = draw.choice(["server", "server", "server", "server stopped", "server stopped twice"])
            process.send_signal(signal.SIGKILL if how == "server" else signal.SIGTERM)
            if how == "server stopped twice":
                time.sleep(draw.uniform(0.0, self.slot / 2))
                process.send_signal(signal.SIGTERM)
            self.killed[how] += 1
            return True
        zygote = next(iter(_children(process.pid)), None)
        workers = [] if zygote is None else _children(zygote)
        if zygote is not None and (part < _WHOLE + _ZYGOTE or workers):
            kind, pid = ("zygote", zygote) if part < _WHOLE + _ZYGOTE else ("worker or pricing", draw.choice(workers))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.killed[kind] += 1
        return False


def _children(of: int) -> list[int]:
    """Return the processes that a process started and that were not killed yet."""
    found = subprocess.run(["pgrep", "-P", str(of), "-r", "S,R,D"], capture_output=True, text=True).stdout
    return [int(each) for each in found.split()]


@cache
def measure(
    requests: float | None = None, kills: float = 60, seconds: float | None = None, slot: float = SLOT
) -> dict[str, float]:
    """Return what the kills changed."""
    most = sized(90.0, 20.0) if requests is None and seconds is None else seconds or 1e9
    with tempfile.TemporaryDirectory() as folder:
        file = _survey(Path(folder), int(slot))
        store = IdentityStore(read_config(file).store)
        tokens = {name: store.issue(name, now=time.time()) for name in ANALYSTS}
        store.close()
        trial = Trial(file, requests=int(requests or 800), kills=int(kills), seconds=most, slot=int(slot))
        keys = itertools.count()
        with trial.killing():
            while not trial.url and not trial.over:
                time.sleep(0.05)
            names = ANALYSTS * (trial.seats // len(ANALYSTS))
            askers = [threading.Thread(target=trial.ask, args=(name, tokens[name], keys)) for name in names]
            for thread in askers:  # spread over a slot: workers that all begin at once are late together
                thread.start()
                time.sleep(trial.slot / len(askers))
            while any(thread.is_alive() for thread in askers):
                for thread in askers:
                    thread.join(timeout=60 / len(askers))
                print(f"  {_words(trial)}", file=sys.stderr, flush=True)
        found = _compared(trial, tokens)
        print(f"  {_words(trial)}")
        requested = {"requests": len(trial.seen.slots), "kills": trial.killed.total()}
        return {**found, **requested, "early": trial.seen.counts["early"]}


def _words(trial: Trial) -> str:
    seen = trial.seen
    return f"{len(seen.slots)} requests with slots, kills: {dict(trial.killed)}, seen: {dict(seen.counts)}"


def _survey(folder: Path, slot: int) -> Path:
    """Write the configuration of the trial: its analysts have a share each."""
    file = write_survey(folder, budget="{epsilon = 12}", share="{epsilon = 0.01}", smallest="{epsilon = 0.0001}")
    analysts = "".join(f'{{name = "{name}", budget = {{epsilon = 0.9}}}}, ' for name in ANALYSTS)
    text = file.read_text().replace('"4 s"', f'"{slot} s"').replace("queue = 40", "queue = 400")
    file.write_text(text.replace("analyst = [", f"analyst = [{analysts}"))
    return file


def _compared(trial: Trial, tokens: dict[str, str]) -> dict[str, float]:
    """Start the server once more, wait until unfinished entries are marked as failed, and compare."""
    config, seen, found = read_config(trial.file), trial.seen, {}
    with serving(trial.many, program=_MANY_SEATS) as (url, _):
        time.sleep(config.longest + 10 + 7)
        for name, token in tokens.items():
            with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
                found |= {each["id"]: each for each in _history(client)}
                own = [each for each in seen.final if seen.asked[each] == name]
                for each in random.Random("one by one").sample(own, min(len(own), _ONE_BY_ONE // len(tokens))):
                    seen.counts["doubled"] += client.get(f"/v1/releases/{each}").json() != found.get(each)
    lost = sum(name not in found for name in seen.final)
    doubled = seen.counts["doubled"] + sum(found.get(name, state) != state for name, state in seen.final.items())
    budgets = Budgets(config)
    try:
        entries = budgets.ledger.entries()
        again = Counter(entry.key for entry in entries)
        overspent = int(not budgets.ledger.verify().ok) + sum(entry.key not in seen.asked for entry in entries)
        for name in ("people", *(f"people/{each}" for each in ANALYSTS)):
            scope = budgets.ledger.scope(name)
            own_entries = [entry for entry in entries if name in ("people", entry.scope_id)]
            overspent += int(scope.totals().epsilon != len(own_entries) * PRICE)
            overspent += int(not scope.rule.holds(scope.totals()))
        states = Counter(entry.state for entry in entries)
        print(f"  in the ledger: {dict(states)}")
        lost += states["reserved"]  # it should be marked as failed by now
    finally:
        budgets.close()
    doubled += sum(number - 1 for number in again.values())
    return {"overspent": overspent, "lost": lost, "doubled": doubled, "charged": len(entries)}


def _history(client: httpx.Client) -> Iterator[dict[str, Any]]:
    """Yield all charged requests of an account as its analyst reads them."""
    after = ""
    while page := client.get(f"/v1/releases?table=people&limit=100{after}").json()["releases"]:
        yield from page
        after = f"&after={page[-1]['id']}"


if __name__ == "__main__":
    print_figures(measure(*map(float, sys.argv[1:])))
