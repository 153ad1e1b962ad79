"""The end of a server: what runs finishes, what waits is dropped, and everything is closed; nothing lost or doubled."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from analyst_server import serving, tokens_of, undropped, unless_busy, until, write_survey
from sidelight.server.audit_log import check_audit_log
from sidelight.server.budgets import Budgets
from sidelight.server.config_file import read_config
from sidelight.server.zygote import Zygote

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn")
BODY = {"query": {"by": ["job"], "epsilon": "0.1", "kind": "count"}}
#: Runs in the server: closing the service leaves a file.
CLOSES = """
import pathlib, sys
from sidelight.server import service
close = service.AnalystService.close
def closed(self):
    close(self)
    pathlib.Path(sys.argv[1]).with_name("closed").write_text("")
service.AnalystService.close = closed
"""


def survey(folder: Path) -> tuple[Path, str]:
    """Return a file with slots that are long enough on a busy machine, and a token."""
    file = write_survey(folder)
    file.write_text(file.read_text().replace('"4 s"', '"8 s"'))
    return file, tokens_of(file)["ada"]


def ask(url, token, key, wait=30):
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key, "Prefer": f"wait={wait}"}
    return httpx.post(f"{url}/v1/tables/people/releases", json=BODY, headers=headers, timeout=60)


def get(url):
    return httpx.get(url, timeout=60)


def started(url, token, key):
    """Make a request until it is charged, and return its id: a busy machine drops some before that."""
    while not _states(url, token):
        name = ask(url, token, key, wait=0).json()["id"]
        until(lambda: _states(url, token) or ask(url, token, key, wait=0).json()["state"] == "dropped")
    return name


def family(pid: int) -> list[int]:
    """Return a process and all that it and they started."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    return [pid, *(each for child in found for each in family(int(child)))]


@pytest.mark.parametrize(
    ("sent", "everybody"),
    [(signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGINT, True)],
    ids=["one process", "a whole unit", "a terminal"],
)
def test_what_runs_is_answered_and_what_waits_is_not_charged(tmp_path, sent, everybody):
    """As `docker stop`, `systemctl stop` and a terminal do, which also reach zygote and workers."""
    unless_busy(lambda folder: end_in_order(folder, sent, everybody=everybody), tmp_path)


def end_in_order(folder, sent, *, everybody):
    file, token = survey(folder)
    audit = read_config(file).audit
    with ThreadPoolExecutor(2) as threads, serving(file, program=CLOSES) as (url, process):
        running = threads.submit(undropped, lambda: ask(url, token, "runs"))
        started = until(lambda: _states(url, token))
        before = check_audit_log(audit)
        waiting = threads.submit(ask, url, token, "waits")
        until(lambda: check_audit_log(audit) > before)  # it is accepted
        for pid in family(process.pid) if everybody else [process.pid]:
            os.kill(pid, sent)
        until(lambda: get(f"{url}/health/ready").status_code == 503)  # it still answers, and takes nothing
        assert get(f"{url}/health/live").status_code == 200
        assert ask(url, token, "late").status_code == 503
        answered, dropped = running.result(), waiting.result()
        assert process.wait(timeout=120) == 0
    assert started == ["running"]
    assert answered.json()["state"] == "released"
    assert (dropped.json()["state"], dropped.json()["problem"]["status"]) == ("dropped", 503)
    assert (folder / "closed").exists()
    assert check_audit_log(audit) == before + 1
    assert _entries(file) == [("released", answered.json()["id"])]
    if not everybody:
        with serving(file) as (url, _):
            assert ask(url, token, "runs").json() == answered.json()
            assert undropped(lambda: ask(url, token, "waits")).json()["state"] == "released"
        assert len(_entries(file)) == 2


def test_a_second_signal_ends_the_server_and_no_paid_release(tmp_path):
    unless_busy(end_at_once, tmp_path)


def end_at_once(folder):
    file, token = survey(folder)
    with serving(file) as (url, process):
        accepted = started(url, token, "runs")
        process.send_signal(signal.SIGTERM)
        until(lambda: get(f"{url}/health/ready").status_code == 503)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == -signal.SIGTERM
    until(
        lambda: _entries(file) != [("reserved", accepted)], seconds=60
    )  # its worker is alone, and records at its time
    assert _entries(file) == [("released", accepted)]


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this system has no descriptors of processes")
def test_a_child_of_a_dead_zygote_is_killed_and_no_process_with_its_id():
    """Another process collects the children of a dead zygote, and their ids are used again."""
    zygote = Zygote(None)
    try:
        zygote.start()
        child = zygote.fork("sidelight.server.worker:run_worker")
        zygote._process.kill()
        zygote._process.wait()
        later = zygote.fork("sidelight.server.worker:run_worker")  # by another zygote
        real, child.pid = child.pid, later.pid  # as if the id had been used again
        child.kill()
        assert until(lambda: not _runs(real))
        child.end()
        assert _runs(later.pid)  # neither killed nor waited for
        later.end()
        assert not _runs(later.pid)
    finally:
        zygote.stop()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_workers_of_a_new_zygote_run_on_the_same_cores():
    """The listening process is kept on one core after the start; a zygote that it starts later is not."""
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")
    cores, zygote = os.sched_getaffinity(0), Zygote(None)
    try:
        os.sched_setaffinity(0, sorted(cores)[:1])
        zygote.start()
        assert os.sched_getaffinity(zygote._process.pid) == cores
    finally:
        os.sched_setaffinity(0, cores)
        zygote.stop()


def _states(url: str, token: str) -> list[str]:
    found = httpx.get(f"{url}/v1/releases?table=people", headers={"Authorization": f"Bearer {token}"}, timeout=60)
    return [each["state"] for each in found.json()["releases"]]


def _entries(file: Path) -> list[tuple[str, str | None]]:
    budgets = Budgets(read_config(file))
    try:
        assert budgets.ledger.verify().ok
        entries = budgets.ledger.entries()
        assert budgets.ledger.scope("people/ada").totals().epsilon == len(entries) * 10**29
        return [(entry.state, entry.key) for entry in entries]
    finally:
        budgets.close()
