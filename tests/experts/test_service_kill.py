"""A service that is killed at random points of its rounds loses nothing, doubles nothing and chooses the same actions.

Clients never send again what was acknowledged, except to see whether it is counted twice. A report that is lost after
its acknowledgement leaves its round incomplete for ever; one counted twice changes the sums, or closes a round early.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from service_fixtures import NAMES, PLAN, free_port, made_reports, uninterrupted, write_plan

import sidelight as sl
from sidelight.experts import Receipt
from sidelight.experts.service.store import Tokens


class Killable:
    """A service in a process of its own that can be started and killed."""

    def __init__(self, plan_file: Path, *bug: str) -> None:
        script = Path(__file__).with_name("service_process.py")
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._parent = subprocess.Popen(
            [sys.executable, str(script), str(plan_file), *bug],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=plan_file.with_name("service-errors.txt").open("w"),
            text=True,
            env=environment,
        )
        self._pid = 0

    def start(self, *, wait: bool = True) -> None:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write("start\n")
        self._parent.stdin.flush()
        said = self._parent.stdout.readline().strip()
        while said == "ready":  # of a service that was killed before it was heard
            said = self._parent.stdout.readline().strip()
        self._pid = int(said)
        if wait:
            assert self._parent.stdout.readline().strip() == "ready"

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        while True:
            try:
                os.kill(self._pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.001)

    def close(self) -> None:
        assert self._parent.stdin is not None
        self._parent.stdin.close()
        self._parent.wait(timeout=10)


@dataclass
class Traffic:
    """Four clients that report every round; what they saw."""

    url: str
    tokens: dict[str, str]
    reports: dict
    rounds: int
    acknowledged: set = field(default_factory=set)
    problems: list = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, name: str) -> None:
        chance = random.Random(name)
        reporter = type("Made", (), {"client_id": name})()
        try:
            with sl.experts.Client(self.url, self.tokens[name], reporter=reporter, patience=30) as client:
                for round_ in range(1, self.rounds + 1):
                    self._round(client, round_, name, chance)
        except Exception as error:
            self.problems.append(f"{name}: {error}")
            self.stop.set()

    def _round(self, client: sl.experts.Client, round_: int, name: str, chance: random.Random) -> None:
        report = self.reports[round_, name]
        while not self.stop.is_set():
            receipt = client.send(report)
            if receipt in (Receipt.ACCEPTED, Receipt.DUPLICATE):
                break
            if receipt is not Receipt.EARLY:
                raise AssertionError(f"round {round_} was answered {receipt.value}")
            time.sleep(0.005)
        self.acknowledged.add((round_, name))
        if chance.random() < 0.3 and not self.stop.is_set() and client.send(report) is not Receipt.DUPLICATE:
            raise AssertionError(f"a resend in round {round_} was not recognised")


def killed_run(folder: Path, *, kills: int, rounds: int, seed: int, bug: tuple[str, ...] = (), stuck: float = 20.0):
    """Return what went wrong in rounds with kills at random points, and the snapshot at the end."""
    plan = write_plan(folder, PLAN + f"\n[listen]\nport = {free_port()}\n", rounds=str(rounds))
    tokens = dict(zip(NAMES, Tokens(plan.tokens).issue(*NAMES), strict=True))
    reports = made_reports(plan.reporting, rounds)
    traffic = Traffic(f"http://127.0.0.1:{plan.listen.port}", tokens, reports, rounds)
    chance = random.Random(seed)
    service = Killable(folder / "experts.toml", *bug)
    threads = [threading.Thread(target=traffic.run, args=(name,)) for name in NAMES]
    done = 0
    try:
        service.start()
        for thread in threads:
            thread.start()
        every = rounds * len(NAMES) / (kills + 1)
        last, seen = time.monotonic(), 0
        due = chance.random() * 2 * every
        while any(thread.is_alive() for thread in threads) and not traffic.stop.is_set():
            if len(traffic.acknowledged) > seen:
                last, seen = time.monotonic(), len(traffic.acknowledged)
            if time.monotonic() - last > stuck:
                traffic.problems.append("a round does not become complete: an acknowledged report is lost")
                traffic.stop.set()
            if done < kills and len(traffic.acknowledged) >= due:
                time.sleep(chance.random() * 0.01)
                service.kill()
                done += 1
                due = (done + chance.random()) * every
                service.start(wait=chance.random() < 0.9)  # the others may die before they serve
            time.sleep(0.0005)
        while done < kills and not traffic.problems:
            service.kill()
            done += 1
            service.start()
        deadline = time.monotonic() + 10
        while (content := stored(plan.folder))["deadline"] is not None and time.monotonic() < deadline:
            if traffic.problems:
                break  # the reports that would end the round are never sent
            time.sleep(0.02)
    finally:
        traffic.stop.set()
        for thread in threads:
            thread.join(timeout=40)
        service.kill()
        service.close()
    return traffic.problems, content, done, uninterrupted(plan, reports, rounds)


def stored(folder: Path):
    return json.loads((folder / "snapshot.json").read_text(encoding="utf-8"))["content"]


def assert_same(outcome, kills):
    problems, content, done, (actions, server) = outcome
    assert problems == []
    assert done >= kills
    assert [each["action"] for each in content["history"]] == actions
    assert [each["reports"] for each in content["history"]] == [len(NAMES)] * len(actions)
    assert content["server"]["player"] == json.loads(json.dumps(server.state()["player"]))  # bit for bit
    assert content["server"]["pending"] == []


def test_fifty_kills_change_nothing(tmp_path):
    assert_same(killed_run(tmp_path, kills=50, rounds=25, seed=1), 50)


@pytest.mark.planted("an acknowledgement before the write")
def test_an_acknowledgement_before_the_write_is_caught(tmp_path):
    outcome = killed_run(tmp_path, kills=12, rounds=8, seed=2, bug=("acknowledge before writing",), stuck=3.0)
    assert any("lost" in problem or "not recognised" in problem for problem in outcome[0]), outcome[0]


@pytest.mark.planted("a resend counted twice")
def test_counting_a_resend_twice_is_caught(tmp_path):
    outcome = killed_run(tmp_path, kills=3, rounds=12, seed=3, bug=("count resends",), stuck=3.0)
    with pytest.raises(AssertionError):
        assert_same(outcome, 3)
    assert outcome[0] != [] or outcome[1]["server"]["player"] != outcome[3][1].state()["player"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_hundred_kills_change_nothing(tmp_path, seed):
    assert_same(killed_run(tmp_path, kills=100, rounds=40, seed=10 + seed), 100)
