"""Bugs that would break a server's promises, planted: charging after the run, a seat freed early, a log that tells."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from test_server_attacks import clock, entry_of, job_of, prepared, run  # noqa: F401 - fixtures

import sidelight.server
from sidelight.server import worker
from sidelight.server.schedule import SeatSchedule
from sidelight.session import pipeline
from sidelight.wire import ProblemError


def states_when_rows_are_read(prepared, folder, monkeypatch):  # noqa: F811
    """Run a worker; return what the ledger said of its request whenever rows were read."""
    config, budgets, token = prepared
    job, seen, run_one = job_of(token, seconds=6.0), [], pipeline._run_one

    def watched(prepared_query, table, *, entropy, **more):
        entry = entry_of(budgets, job)
        seen.append(None if entry is None else entry.state)
        return run_one(prepared_query, table, entropy=entropy, **more)

    monkeypatch.setattr(pipeline, "_run_one", watched)
    run(config, job, folder)
    return seen


@pytest.mark.planted("a charge after the run")
def test_a_charge_after_the_run_is_noticed(prepared, tmp_path, monkeypatch):  # noqa: F811
    release = worker.release_through

    def run_first(query, table, account, *, entropy, **given):
        pipeline._run_one(pipeline.prepare_query(query, table.schema), table, entropy=entropy)
        return release(query, table, account, entropy=entropy, **given)

    monkeypatch.setattr(worker, "release_through", run_first)
    assert states_when_rows_are_read(prepared, tmp_path, monkeypatch) == [None, "reserved"]


def seats_held_twice(schedule, *, requests=20):
    """Place requests of several accounts at once; return how many pairs of slots overlap on one seat."""
    slots = []
    for place in range(requests):
        now = 1000 + 0.3 * place
        try:
            slots.append(schedule.place(f"account {place % 5}", 4.0, now=now))
        except ProblemError:
            continue
    assert len(slots) > 5
    pairs = [(one, other) for one in slots for other in slots if one.start < other.start]
    return sum(one.seat == other.seat and other.start < one.end for one, other in pairs)


def test_no_seat_is_held_twice():
    assert seats_held_twice(SeatSchedule(seats=2, tick=0.25, queue=40, longest_wait=60)) == 0


@pytest.mark.planted("a seat freed early")
def test_a_seat_that_is_freed_when_its_worker_is_done_is_noticed(monkeypatch):
    class Early(SeatSchedule):
        def place(self, account, duration, *, now):
            slot = super().place(account, duration, now=now)
            self._slots[-1] = replace(slot, end=slot.start + duration / 4)  # as if the end of the worker were seen
            return slot

    assert seats_held_twice(Early(seats=2, tick=0.25, queue=40, longest_wait=60)) > 0


#: What lines of the log and of the audit log may hold: public names, codes, times of the schedule, differences of
#: clocks, and sentences about open windows, made of their names and dates.
PUBLIC = {
    "table.name",
    "found.name",
    "accepted.table.name",
    "account.name",
    "type(error).__name__",
    "holder.analyst",
    "holder.token_id",
    "digest",
    "name",
    "problem.code",
    "slot.start",
    "round(time.time(), 3)",
    "action",
    "clock_ahead",
    "window_difference",
}


def secrets_in_lines(text):
    """Return what the source of a module would write into a log that is not among the public things."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "facts":
            assert isinstance(node.value, ast.Dict)
            found |= {ast.unparse(each) for each in node.value.values}
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner, given = ast.unparse(node.func.value), [*node.args, *(each.value for each in node.keywords)]
        if owner in ("log", "self.audit", "logging") and node.func.attr in (
            *("debug", "info", "warning", "error", "exception", "critical", "log", "write"),
        ):
            found |= {ast.unparse(each) for each in given if not isinstance(each, ast.Constant)}
        if owner == "asyncio" and node.args and ast.unparse(node.args[0]) == "self._write":
            facts = node.args[2]
            assert isinstance(facts, ast.Dict)
            found |= {ast.unparse(each) for each in facts.values if not isinstance(each, ast.Constant)}
    return found - PUBLIC - {"facts"}


def test_lines_of_the_log_hold_public_things_alone():
    folder = Path(sidelight.server.__file__).parent
    told = {path.name: secrets_in_lines(path.read_text()) for path in folder.glob("*.py")}
    assert {name: found for name, found in told.items() if found} == {}


@pytest.mark.planted("a log line with a duration or a row count")
@pytest.mark.parametrize(
    "line",
    ['log.info("took %s", time.time() - began)', 'log.warning("%d rows", len(rows))', "log.info(f'{count} rows')",
     "self.audit.write(seconds=ended - slot.start)",
     "await asyncio.to_thread(self._write, 'done', {'rows': table.count()})"],
)  # fmt: skip
def test_a_line_that_tells_is_noticed(line):
    assert secrets_in_lines(f"async def f():\n    {line}\n")
