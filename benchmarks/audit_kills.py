"""Processes that spend from a ledger, killed at random moments: no charge is lost, none is made twice.

    python -m benchmarks.audit_kills [kills of each store] [seed] [sqlite] [postgresql] [early]

A victim has two sessions on one ledger and a thread for each; it charges, says that the data was opened, stores a
value and says that the value left. It is killed after a random time, sometimes while it opens the ledger; sometimes
it forks a child first, which must be granted nothing from a file. With PostgreSQL every tenth kill takes the server
instead. After every kill a process that knows nothing of the others looks: what was said before the kill has to be
there, once. With `early` a bug is planted: the data is opened before the charge.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.audit_overspending import warm_up
from benchmarks.measuring import sized
from benchmarks.temporary_postgres import (
    NoServerError,
    TemporaryServer,
    empty_database,
    quick_place,
    temporary_server,
)

KILLS, SEED = sized(100, 1), 22
STORES = sized(("sqlite", "postgresql"), ("sqlite",))
_SESSIONS = 2
_PRICE, _PARTS = "0.0001", 10**26  # of a charge, and what the ledger's totals count it as
_BUDGET = 9
_PATIENCE = 20.0


def measure(
    *, kills: int = KILLS, seed: int = SEED, stores: tuple[str, ...] = STORES, early: bool = False
) -> dict[str, float]:
    """Return over all kills the charges lost, doubled or granted to a forked child, and what shows that it was tried.

    A store that cannot be had here (no PostgreSQL) is left out of `kills` and counted in `missing`.
    """
    # in a process of its own, which never opens a ledger and can therefore fork what stands for a new process
    command = [
        sys.executable,
        "-m",
        "benchmarks.audit_kills",
        str(kills),
        str(seed),
        *stores,
        *(["early"] if early else []),
    ]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=1200)
    if done.returncode != 0:
        raise RuntimeError(f"the kills did not run: {done.stderr[-2000:]}")
    return {name: float(count) for name, count in json.loads(done.stdout.splitlines()[-1]).items()}


def _in_a_process(work: Callable[[Any], None]) -> tuple[int, int]:
    """Fork; the child does the work, which writes lines into a pipe. Return its id and the pipe's other end."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            work(lambda line: os.write(writer, f"{line}\n".encode()))
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    return child, reader


def _heard(reader: int, before: bytes = b"") -> list[str]:
    with os.fdopen(reader, "rb") as rest:
        return (before + rest.read()).decode().splitlines()


def _wait_for(lines: int, reader: int) -> bytes:
    """Return what was said when that many lines were, or when all processes have ended."""
    said = b""
    while said.count(b"\n") < lines and select.select([reader], [], [], _PATIENCE)[0]:
        if not (more := os.read(reader, 1 << 16)):
            break
        said += more
    return said


def _spend(address: str, number: int, *, fork: bool, early: bool, say: Callable[[str], object]) -> None:
    """Be a victim: two sessions, a thread each, charges until somebody ends it."""
    from sidelight.errors import SidelightError
    from sidelight.guarantees import Claims, PureDP
    from sidelight.ledger import Reservation, open_ledger

    price = Claims.of(PureDP(_PRICE))
    scopes = [open_ledger(address, wait_seconds=10).scope("people") for _ in range(_SESSIONS)]
    if fork and os.fork() == 0:
        with contextlib.suppress(SidelightError):
            scopes[0].reserve(price, request={"kind": "count"}, key=f"{number}/forked")
            say(f"opened {number}/forked")
        os._exit(0)

    def charge(session: int) -> None:
        for count in range(10_000):
            key = f"{number}/{session}/{count}"
            if early:
                say(f"opened {key}")
            try:
                reservation = scopes[session].reserve(price, request={"kind": "count"}, key=key)
                if isinstance(reservation, Reservation):
                    say(f"opened {key}")
                    reservation.release(f"value of {key}")
                    say(f"left {key}")
            except SidelightError:  # the server is gone
                return

    threads = [threading.Thread(target=charge, args=(session,)) for session in range(_SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _look(address: str, number: int, *, whole: bool, say: Callable[[str], object]) -> None:
    """Tell every entry of a victim, and of the whole ledger whether it verifies and its totals are its entries."""
    from sidelight.ledger import open_ledger

    with open_ledger(address, wait_seconds=10) as ledger:
        scope = ledger.scope("people")
        entries = scope.entries()
        for entry in entries:
            if entry.key is not None and entry.key.startswith(f"{number}/"):
                say(f"{entry.key} {entry.state}")
        if scope.totals().epsilon != len(entries) * _PARTS or (whole and not ledger.verify().ok):
            say("broken")
        say(f"entries {len(entries)}")


def _make(address: str, say: Callable[[str], object]) -> None:
    from sidelight.guarantees import PureDP
    from sidelight.ledger import open_ledger

    with open_ledger(address) as ledger:
        ledger.open_scope("people", budget=PureDP(_BUDGET))
    say("made")


def _kill_one(
    address: str, number: int, choose: random.Random, server: TemporaryServer | None, *, early: bool
) -> tuple[set[str], set[str]]:
    """Start a victim, kill it or its server, and return what it said: for which keys data was opened, a value left."""
    fork = choose.random() < 0.2
    victim, reader = _in_a_process(lambda say: _spend(address, number, fork=fork, early=early, say=say))
    before = _wait_for(choose.randrange(12), reader)  # 0: it may still be opening the ledger
    time.sleep(choose.random() * 0.02)
    if server is not None and number % 10 == 9:
        server.crash()
        server.start()
        time.sleep(0.1)  # for processes that continue after an error
    os.kill(victim, signal.SIGKILL)  # it may have ended by itself, and waits to be asked for its end
    os.waitpid(victim, 0)
    said = _heard(reader, before)
    opened, left = ({line.split()[1] for line in said if line.startswith(word)} for word in ("opened ", "left "))
    return opened, left


def _kills(address: str, kills: int, seed: int, server: TemporaryServer | None, *, early: bool) -> dict[str, int]:
    found = dict.fromkeys(("kills", "charges", "lost", "doubled", "forked", "broken"), 0)
    maker, made = _in_a_process(lambda say: _make(address, say))
    os.waitpid(maker, 0)
    if _heard(made) != ["made"]:
        raise RuntimeError("the ledger could not be made")
    for number in range(kills):
        choose = random.Random(f"{seed}/{number}")
        opened, left = _kill_one(address, number, choose, server, early=early)
        whole = number % 10 == 0 or number == kills - 1
        looker, seen = _in_a_process(lambda say, n=number, w=whole: _look(address, n, whole=w, say=say))  # type: ignore[misc]
        os.waitpid(looker, 0)
        lines = _heard(seen)
        entries = [line.split() for line in lines if "/" in line]
        states = dict(entries)
        found["kills"] += 1
        found["lost"] += len(opened - set(states)) + sum(states.get(key) not in (None, "released") for key in left)
        found["doubled"] += len(entries) - len(states)
        # a server hands every process a connection of its own; the locks of a file are not inherited
        found["forked"] += server is None and f"{number}/forked" in {*opened, *states}
        found["broken"] += "broken" in lines or not lines or not lines[-1].startswith("entries ")
        found["charges"] += len(entries)
    return found


def main(kills: int, seed: int, stores: list[str], *, early: bool) -> dict[str, int]:
    """Kill in each store that can be had, and add up."""
    warm_up()
    found: dict[str, int] = {"missing": 0}

    def add(more: dict[str, int]) -> None:
        for name, count in more.items():
            found[name] = found.get(name, 0) + count

    if "sqlite" in stores:
        folder = tempfile.mkdtemp(prefix="sidelight-kills-", dir=quick_place(megabytes=100))
        add(_kills(f"{folder}/budget.db", kills, seed, None, early=early))
        shutil.rmtree(folder)
    if "postgresql" in stores:
        try:
            with temporary_server() as server, empty_database(server.address) as address:
                add(_kills(address, kills, seed, server, early=early))
        except NoServerError as reason:
            print(f"no PostgreSQL: {reason}", file=sys.stderr)
            found["missing"] += 1
    return found


if __name__ == "__main__":
    given = sys.argv[1:]
    how = [int(text) for text in given if text.isdigit()]
    which = [text for text in given if text in STORES] or list(STORES)
    print(json.dumps(main(*(how + [KILLS, SEED][len(how) :]), which, early="early" in given)))
