"""Budgets under attack: random interleavings of open, close, fork, kill and release, over several processes.

Each interleaving has one ledger with a budget of four charges, a notebook (a long process with several sessions on it),
concurrent command lines (open, charge, close), children that a process forks while it has the ledger open, and sudden
deaths. Every granted charge is reported. In the end an independent process spends the rest.

    python -m benchmarks.audit_overspending [interleavings] [seed]
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measuring import sized
from benchmarks.temporary_postgres import quick_place

INTERLEAVINGS = sized(200, 1)
SEED = 15
CHARGES = 4  # that the budget allows
STEPS = sized(20, 3)
PATIENCE = 30.0  # seconds for an answer; a lock is held at most for the time of a charge
_MOST_PROCESSES = 5


def measure(*, interleavings: int = INTERLEAVINGS, seed: int = SEED) -> dict[str, float]:
    """Return how many charges were granted beyond the budgets, and what shows that the attack was one.

    `forgotten` counts granted charges that the ledger does not hold in the end, `stuck` the ledgers from which the last
    process could not spend what was left, `broken` those that do not verify, `granted` all grants.
    """
    # in a process of its own, which never opens a ledger and can therefore fork what stands for a new process
    command = [sys.executable, "-m", "benchmarks.audit_overspending", str(interleavings), str(seed)]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=1200)
    if done.returncode != 0:
        raise RuntimeError(f"the interleavings did not run: {done.stderr[-2000:]}")
    return {name: float(count) for name, count in json.loads(done.stdout.splitlines()[-1]).items()}


class Actor:
    """A process that executes commands. Its answers come over a socket, as one JSON line each."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        self.connection = connection
        self.lines = connection.makefile("rw")
        self.pid = int(self.lines.readline())
        self.handles = 0

    def tell(self, *command: object) -> None:
        self.lines.write(json.dumps(command) + "\n")
        self.lines.flush()

    def hear(self) -> str:
        """Return the answer, or "dead"."""
        try:
            return str(json.loads(self.lines.readline() or '"dead"'))
        except (OSError, ValueError):
            return "dead"

    def ask(self, *command: object) -> str:
        try:
            self.tell(*command)
        except OSError:
            return "dead"
        return self.hear()

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


class Interleaving:
    """One ledger, its processes, and what they were granted."""

    def __init__(self, folder: Path, choose: random.Random) -> None:
        self.choose = choose
        self.ledger = str(folder / "budget.db")
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(str(folder / "door"))
        self.door.listen()
        self.door.settimeout(PATIENCE)
        self.actors: list[Actor] = []
        self.granted = 0

    def run(self) -> dict[str, int]:
        notebook = self.start()
        notebook.handles += notebook.ask("open") == "done"
        for _ in range(STEPS):
            self.step()
            if not self.actors:
                self.start()
        while self.actors:
            actor = self.choose.choice(self.actors)
            self.leave(actor, sudden=self.choose.random() < 0.3)
        last = self.start()
        entries, intact, answer = self.granted, False, last.ask("open")
        if answer == "done":
            while (answer := self.charge(last, 0)) == "granted":
                pass
            entries, intact = json.loads(last.ask("count"))
        self.leave(last, sudden=False)
        self.door.close()
        return {
            "overspent": max(0, self.granted - CHARGES),
            "forgotten": max(0, self.granted - entries),
            "stuck": int(answer != "refused"),
            "broken": int(not intact),
            "granted": self.granted,
        }

    def step(self) -> None:
        actor = self.choose.choice(self.actors)
        what = self.choose.choices(
            ("charge", "open", "close", "forget", "command line", "fork", "kill", "kill while charging", "end", "look"),
            weights=(30, 12, 8, 4, 16, 10, 4, 4, 4, 6),
        )[0]
        match what:
            case "charge" if actor.handles:
                self.charge(actor, self.choose.randrange(actor.handles))
            case "open" if actor.handles < 3:
                actor.handles += actor.ask("open") == "done"
            case "close" | "forget" if actor.handles:
                if actor.ask(what, self.choose.randrange(actor.handles)) == "done":
                    actor.handles -= 1
            case "look":
                actor.ask("look")
            case "command line" if len(self.actors) < _MOST_PROCESSES:
                self.command_line()
            case "fork" if len(self.actors) < _MOST_PROCESSES:
                self.fork(actor)
            case "kill":
                self.leave(actor, sudden=True)
            case "kill while charging" if actor.handles:
                actor.tell("charge", 0)
                time.sleep(self.choose.random() * 0.01)
                os.kill(actor.pid, signal.SIGKILL)
                self.granted += actor.hear() == "granted"
                self.leave(actor, sudden=True)
            case "end":
                self.leave(actor, sudden=False)
            case _:
                pass

    def charge(self, actor: Actor, handle: int) -> str:
        answer = actor.ask("charge", handle)
        self.granted += answer == "granted"
        return answer

    def command_line(self) -> None:
        actor = self.start()
        if actor.ask("open") == "done":
            self.charge(actor, 0)
            if self.choose.random() < 0.3:
                actor.handles = 1  # it stays for a while
                return
        self.leave(actor, sudden=self.choose.random() < 0.2)

    def start(self) -> Actor:
        child = os.fork()
        if child == 0:
            self.door.close()
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            for actor in self.actors:
                actor.connection.close()
            _act(self.ledger)
        return self.welcome()

    def fork(self, parent: Actor) -> None:
        if parent.ask("fork") == "done":
            self.welcome().handles = parent.handles

    def welcome(self) -> Actor:
        connection, _ = self.door.accept()
        self.actors.append(Actor(connection))
        return self.actors[-1]

    def leave(self, actor: Actor, *, sudden: bool) -> None:
        if sudden:
            with contextlib.suppress(ProcessLookupError):
                os.kill(actor.pid, signal.SIGKILL)
        else:
            actor.ask("end")
        while actor.hear() != "dead":
            pass
        actor.end()
        self.actors.remove(actor)


def _act(ledger: str) -> None:
    """Be a process: answer commands until the command to end. The handles are the sessions that it has open."""
    from sidelight.errors import BudgetError, SidelightError
    from sidelight.guarantees import Claims, PureDP
    from sidelight.ledger import Reservation, open_ledger

    handles: list[Any] = []
    quarter = Claims.of(PureDP("0.25"))
    lines = _greet(ledger)

    def do(what: str, *which: int) -> str:
        nonlocal lines
        if what == "open":
            handle = open_ledger(ledger, wait_seconds=5)
            handle.open_scope("people", budget=PureDP("1"))
            handles.append(handle)
        elif what == "close":
            handles.pop(which[0]).close()
        elif what == "forget":
            del handles[which[0]]
            gc.collect()
        elif what == "look":
            with open_ledger(ledger, read_only=True) as reader:
                reader.entries()
        elif what == "count":
            return json.dumps([len(handles[0].entries()), handles[0].verify().ok])
        elif what == "charge":
            reservation = handles[which[0]].scope("people").reserve(quarter, request={"kind": "count"})
            if isinstance(reservation, Reservation):
                reservation.release("text")
                return "granted"
        elif what == "fork":
            told = lines
            if os.fork() == 0:
                told.close()
                lines = _greet(ledger)
                return ""
        return "done"

    with contextlib.suppress(OSError, ValueError):
        for line in iter(lambda: lines.readline(), ""):
            what, *which = json.loads(line)
            try:
                answer = "done" if what == "end" else do(what, *which)
            except BudgetError:
                answer = "refused"
            except SidelightError as error:
                answer = f"error {type(error).__name__}: {error}"
            if answer:
                lines.write(json.dumps(answer) + "\n")
                lines.flush()
            if what == "end":
                break
    sys.exit(0)  # with all that Python does at its end


def _greet(ledger: str) -> Any:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(Path(ledger).with_name("door")))
    lines = connection.makefile("rw")
    lines.write(f"{os.getpid()}\n")
    lines.flush()
    return lines


def warm_up() -> None:
    """Import and compile once what every child needs, with a ledger in memory."""
    from sidelight.guarantees import Claims, PureDP
    from sidelight.ledger import Reservation, open_ledger

    with open_ledger("sqlite://", testing=True) as ledger:
        scope = ledger.open_scope("people", budget=PureDP("1"))
        reservation = scope.reserve(Claims.of(PureDP("0.25")), request={"kind": "count"})
        assert isinstance(reservation, Reservation)
        reservation.release("text")
        assert ledger.verify().ok


def main(interleavings: int, seed: int) -> dict[str, int]:
    """Run the interleavings and add up what they found."""
    warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    quick = quick_place(megabytes=100)
    found: dict[str, int] = {"interleavings": interleavings}
    for number in range(interleavings):
        folder = Path(tempfile.mkdtemp(prefix="sidelight-audit-", dir=quick))
        # no `finally`: the children unwind this stack as well when they end
        for name, count in Interleaving(folder, random.Random(f"{seed}/{number}")).run().items():
            found[name] = found.get(name, 0) + count
        shutil.rmtree(folder, ignore_errors=True)
    return found


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:]]
    print(json.dumps(main(*(numbers + [INTERLEAVINGS, SEED][len(numbers) :]))))
