"""Attacks on a server's promises: outcomes before their time, second attempts, rows before the charge, and kill -9."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import closing
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path

import pytest

import sidelight as sl
from analyst_server import serving, tokens_of, undropped, write_survey
from sidelight.errors import ReleaseFailedError
from sidelight.guarantees import Claims
from sidelight.ledger import open_ledger
from sidelight.records import Table
from sidelight.server import answers, worker
from sidelight.server.answers import entry_json
from sidelight.server.budgets import ASKED, Budgets, utc_text
from sidelight.server.config_file import read_config
from sidelight.server.identity import IdentityStore
from sidelight.session import pipeline, request_key
from sidelight.wire import ProblemError

QUERY = '{"by":["job"],"epsilon":"0.1","kind":"count"}'


class Listening:
    """The end of a worker's connection."""

    def __init__(self):
        self.said = []

    def send_bytes(self, text):
        self.said.append(text)


class Clock:
    """The time of a worker, which goes on while it sleeps and never else: no test depends on the load of a machine."""

    def __init__(self):
        self.now = time.time()

    def time(self):
        return self.now

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(worker, "time", found)
    return found


@pytest.fixture
def prepared(tmp_path, clock):
    file = write_survey(tmp_path)
    config, tokens = read_config(file), tokens_of(file)
    budgets = Budgets(config, create=True)
    budgets.open_scopes()
    config.work.scratch.mkdir()
    yield config, budgets, tokens["ada"].split("_")[1]
    budgets.close()


def job_of(token, *, name="first", seconds=4.0, query=QUERY, start=None):
    start = worker.time.time() if start is None else start
    return {
        "table": "people",
        "query": query,
        "releases": {},
        "id": request_key("ada", "people", name),
        "digest": "0" * 64,
        "analyst": "ada",
        "token": token,
        "start": start,
        "clock": worker.time.time() - worker.time.monotonic(),
        "end": start + seconds,
        "seconds": str(seconds),
        "moment": start,
    }


def with_head(config, job):
    """Return a job with the newest head, as the listening process sends it."""
    with closing(Budgets(config, read_only=True)) as budgets:
        return {**job, "head": budgets.newest_head()}


def run(config, job, folder):
    listening = Listening()
    worker._release(listening, config, config.tables["people"], with_head(config, job), folder)
    return listening.said


def entry_of(budgets, job):
    table = budgets.config.tables["people"]
    return budgets.entry(table, table.accounts[0], job["id"])


def test_the_charge_is_on_disk_before_a_row_is_read(prepared, tmp_path, monkeypatch, clock):
    config, budgets, token = prepared
    job, seen = job_of(token, seconds=6.0), []
    module = __import__("sidelight.session.pipeline", fromlist=["_run_one"])
    run_one = module._run_one

    def watched(prepared_query, table, *, entropy, **more):
        seen.append(entry_of(budgets, job).state)
        return run_one(prepared_query, table, entropy=entropy, **more)

    monkeypatch.setattr(module, "_run_one", watched)
    said = run(config, job, tmp_path)
    assert (seen, said) == (["reserved"], [worker.READY])
    entry = entry_of(budgets, job)
    assert entry.state == "released"
    assert clock.now == pytest.approx(job["end"] - 0.2)  # recorded at the end, not when it was done


def test_a_failure_is_paid_final_and_says_nothing(prepared, tmp_path, monkeypatch):
    config, budgets, token = prepared
    module = __import__("sidelight.session.pipeline", fromlist=["_run_one"])

    def broken(prepared_query, table, *, entropy, **more):
        raise ValueError("the age of Wilhelmina")  # no digest and no time has these letters

    job = job_of(token, seconds=6.0)
    with monkeypatch.context() as patched:
        patched.setattr(module, "_run_one", broken)
        with pytest.raises(ReleaseFailedError) as failed:
            run(config, job, tmp_path)
    assert "Wilhelmina" not in str(failed.value)
    first = entry_of(budgets, job)
    assert first.state == "failed"
    assert "Wilhelmina" not in json.dumps([event.body for event in budgets.ledger.events()])
    with pytest.raises(ReleaseFailedError):  # the retry runs nothing and pays nothing
        run(config, job_of(token, seconds=6.0), tmp_path)
    assert entry_of(budgets, job) == first
    assert len(budgets.ledger.entries()) == 1


@pytest.mark.parametrize(
    ("query", "taken"),
    [('{"kind":"count","epsilon":0.1,"by":"job"}', True), ('{"kind":"count","epsilon":"0.1"}', False)],
)
def test_a_replica_that_comes_second_with_a_key_charges_nothing(prepared, tmp_path, query, taken):
    """It has not seen the request; the ledger compares the texts, or else the canonical queries."""
    config, budgets, token = prepared
    first = job_of(token, seconds=6.0)
    run(config, first, tmp_path)
    entry = entry_of(budgets, first)
    again = job_of(token, seconds=6.0, query=query) | {"digest": "1" * 64}
    if taken:
        run(config, again, tmp_path)
    else:
        with pytest.raises(ProblemError) as refused:
            run(config, again, tmp_path)
        assert refused.value.code == "key-reused"
    assert entry_of(budgets, again) == entry
    assert len(budgets.ledger.entries()) == 1


def test_a_pause_or_a_revoked_token_stops_the_charge(prepared, tmp_path):
    config, budgets, token = prepared
    store = IdentityStore(config.store)
    store.pause("people", now=time.time())
    with pytest.raises(ProblemError):
        run(config, job_of(token), tmp_path)
    store.resume("people", now=time.time())
    store.revoke(token)
    with pytest.raises(ProblemError):
        run(config, job_of(token), tmp_path)
    store.close()
    assert budgets.ledger.entries() == []


def test_a_token_that_is_revoked_while_the_ledger_is_locked_charges_nothing(prepared, tmp_path):
    """The right is looked at when the charge is decided, not when the worker begins to wait for its turn."""
    config, budgets, token = prepared
    store, found = IdentityStore(config.store), []

    def ask():
        with pytest.raises(ProblemError) as refused:
            run(config, job_of(token, seconds=40.0), tmp_path)
        found.append(refused.value.code)

    with budgets.ledger.store.write():  # somebody else charges
        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(0.3)  # it waits for the lock by now, or else it finds the token revoked
        store.revoke(token)
    asking.join(timeout=30)
    store.close()
    assert found == ["unavailable"]
    assert budgets.ledger.entries() == []


@pytest.mark.parametrize("change", ["revoke", "pause"])
def test_whoever_takes_a_right_away_waits_for_a_charge_that_is_being_decided(prepared, tmp_path, monkeypatch, change):
    """So nothing is charged after `revoke` and `pause` have returned."""
    config, budgets, token = prepared
    store, seen = IdentityStore(config.store), []

    def take_away():
        store.revoke(token) if change == "revoke" else store.pause("people", now=time.time())
        seen.append(len(budgets.ledger.entries()))

    taking = threading.Thread(target=take_away)
    is_paused = IdentityStore.is_paused

    def watched(self, name, account):
        taking.start()
        time.sleep(0.3)
        assert seen == []  # it waits
        return is_paused(self, name, account)

    monkeypatch.setattr(IdentityStore, "is_paused", watched)
    run(config, job_of(token, seconds=6.0), tmp_path)
    taking.join(timeout=10)
    assert seen == [1]
    store.close()


def test_beyond_the_budget_nothing_is_charged(prepared, tmp_path):
    config, budgets, token = prepared
    with pytest.raises(ProblemError) as refused:
        run(config, job_of(token, query='{"epsilon":"1.1","kind":"count"}'), tmp_path)
    assert refused.value.code == "budget"
    assert budgets.ledger.entries() == []


def test_a_worker_that_starts_late_charges_nothing(prepared, tmp_path):
    """No charge, or a client that overloads the host could use up others' budgets."""
    config, budgets, token = prepared
    late = job_of(token, seconds=4.0)
    with pytest.raises(ProblemError) as refused:
        run(config, late | {"start": late["start"] - 1.5, "end": late["end"] - 1.5}, tmp_path)
    assert refused.value.code == "unavailable"
    assert budgets.ledger.entries() == []


def test_a_slow_commit_counts_among_nobodys_failures(prepared, tmp_path, monkeypatch, clock):
    config, budgets, token = prepared
    job, reserve = job_of(token, seconds=4.0), Budgets.reserve

    def slow(*given, **options):
        granted = reserve(*given, **options)
        clock.sleep(1.1)
        return granted

    monkeypatch.setattr(Budgets, "reserve", slow)
    with pytest.raises(SystemExit):
        run(config, job, tmp_path)
    assert entry_of(budgets, job).state == "failed"
    table = config.tables["people"]
    assert budgets.failures(table, table.accounts[0], since=0.0) == 0


@pytest.mark.parametrize("others", [True, False])
def test_a_refusal_by_a_scope_of_others_tells_nothing(prepared, tmp_path, monkeypatch, others):
    from sidelight.errors import BudgetError

    config, _, token = prepared
    parts = {"requested": "1", "remaining": "0.123", "difference": "1"}

    def refuse(*given, **options):
        raise BudgetError("x", **parts, scope_id="people" if others else "people/ada")

    monkeypatch.setattr(Budgets, "reserve", refuse)
    with pytest.raises(ProblemError) as refused:
        run(config, job_of(token), tmp_path)
    assert refused.value.code == ("unavailable" if others else "budget")
    assert ("0.123" in str(refused.value.more)) is not others


def overrun(prepared, monkeypatch, *, beyond, seconds=4.0):
    """Run a worker whose release ends beyond its slot, with no server there; return how it and its entry end.

    A process of its own, with the clock of this machine: it has almost the whole slot for its charge.
    """
    config, budgets, token = prepared
    run_one = pipeline._run_one

    def slow(prepared_query, table, *, entropy, **more):
        time.sleep(seconds + beyond)
        return run_one(prepared_query, table, entropy=entropy, **more)

    monkeypatch.setattr(worker, "time", time)
    monkeypatch.setattr(worker, "CHARGE_PART", 0.9)
    monkeypatch.setattr(pipeline, "_run_one", slow)
    for place in range(5):  # a busy machine may take the whole slot before it charges, which costs nothing
        job = with_head(config, job_of(token, name=str(place), seconds=seconds))
        budgets.close()  # a fork does not carry an open ledger
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            try:
                worker.run_worker(theirs, config)
            finally:
                os._exit(0)
        job |= {"start": time.time(), "end": time.time() + seconds, "moment": time.time()}
        ours.send_bytes(json.dumps(job).encode())
        _, status = os.waitpid(pid, 0)
        late, entry = time.time() - job["end"], entry_of(budgets, job)
        if entry is not None:
            return os.WIFSIGNALED(status) and os.WTERMSIG(status), entry.state, late
    raise AssertionError("never charged")


def test_a_worker_without_a_server_ends_at_its_time_and_says_nothing(prepared, monkeypatch):
    signal_number, state, late = overrun(prepared, monkeypatch, beyond=60.0)
    assert (signal_number, state) == (signal.SIGALRM, "reserved")  # given up later, at a time of the schedule
    assert late < 30


@pytest.mark.planted("a worker that records after its slot, when its rows let it")
def test_a_late_record_is_noticed(prepared, monkeypatch):
    monkeypatch.setattr(worker, "DONE", -60.0)
    assert overrun(prepared, monkeypatch, beyond=0.0)[1] == "released"


def test_folders_of_killed_workers_are_removed(prepared):
    config, _, _ = prepared
    old, new = worker.scratch_folder(config, "a" * 64), worker.scratch_folder(config, "b" * 64)
    for folder in (old, new):
        folder.mkdir()
    os.utime(old, (0, 0))
    other = config.work.scratch / "somebody else's"
    other.mkdir()
    worker.clear_scratch(config)
    assert (old.exists(), new.exists(), other.exists()) == (False, True, True)


def stored(budgets, *, seconds):
    """Charge and release at once, as a worker without a pace would."""
    table = budgets.config.tables["people"]
    scope = budgets.scope(table, table.accounts[0])
    reservation = scope.reserve(
        Claims.of(sl.PureDP("0.1")),
        request={"kind": "count", ASKED: {"seconds": str(seconds), "analyst": "ada"}},
        key="a" * 64,
        at_utc=utc_text(time.time()),
    )
    reservation.release(sl.Count(epsilon=1).release(Table({"x": [1]}, schema=[sl.Number("x")])).to_json())
    found = scope.entry_of("a" * 64)
    assert found is not None
    return found


def test_no_reader_sees_an_outcome_before_the_end_of_its_slot(prepared):
    _, budgets, _ = prepared
    table = budgets.config.tables["people"]
    entry = stored(budgets, seconds=5)
    early = entry_json(entry, table, now=time.time())
    assert (early["state"], early["outcome"]) == ("running", None)
    failed = replace(entry, state="failed", text=None)
    assert entry_json(failed, table, now=time.time()) == early  # nor how it ended
    assert entry_json(entry, table, now=time.time() + 5)["state"] == "released"


@pytest.mark.planted("an answer before ready_at")
def test_a_gate_that_is_left_open_is_noticed(prepared, monkeypatch):
    _, budgets, _ = prepared
    entry = stored(budgets, seconds=5)
    monkeypatch.setattr(answers, "ready_time", lambda entry: 0.0)
    assert entry_json(entry, budgets.config.tables["people"], now=time.time())["outcome"] is not None


@pytest.mark.slow
def test_a_server_that_is_killed_loses_and_doubles_nothing(tmp_path):
    """Kill -9 while requests wait, run and are recorded; the retry with the same key gets the one answer."""
    httpx = pytest.importorskip("httpx")
    file = write_survey(tmp_path)
    token = tokens_of(file)["ada"]
    body = {"query": json.loads(QUERY)}

    def ask(url, key, wait):
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key, "Prefer": f"wait={wait}"}
        return httpx.post(f"{url}/v1/tables/people/releases", json=body, headers=headers, timeout=60)

    for place, pause in enumerate((0.1, 1.5, 4.45, 4.9)):
        with serving(file) as (url, process):
            ask(url, f"key {place}", 0)
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
            process.wait()
    time.sleep(16)
    with serving(file) as (url, _):
        time.sleep(2)
        found, again = (
            [undropped(lambda key=f"key {place}": ask(url, key, 30)).json() for place in range(4)] for _ in range(2)
        )
    assert found == again
    assert {each["state"] for each in found} <= {"released", "failed"}
    config = read_config(file)
    with open_ledger(config.ledger, key=Path(config.key_file).read_bytes(), create=False) as ledger:
        assert ledger.verify().ok
        entries = ledger.entries()
        assert sorted(entry.key for entry in entries) == sorted({each["id"] for each in found})
        assert ledger.scope("people/ada").totals().epsilon == len(entries) * 10**29
