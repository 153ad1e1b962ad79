"""Free requests: prices, expected errors, dry runs and reports, in processes without access to sources.

A pricing process has schemas and public data; it never opens a table or a ledger. Each job has a limit of processor
time and memory; exceeding it ends the process, and another is forked from the zygote.
"""

from __future__ import annotations

import asyncio
import json
import math
import resource
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from sidelight.errors import LedgerError, PlanError, RangeError, SidelightError, SidelightWarning
from sidelight.ledger.chain import canonical, checked_request
from sidelight.records import Table
from sidelight.records.numbers import exact_number, nearest_float
from sidelight.server.config import ServedTable, ServerConfig
from sidelight.server.cost import check_answer, check_cost
from sidelight.server.together import TOGETHER, parts_of, price_together
from sidelight.server.worker import SCRATCH, pin_to_cores, virtual_bytes, write_releases
from sidelight.server.zygote import Child, Zygote
from sidelight.session.query import PublicSource, declared_delta, prepare_query
from sidelight.wire import (
    LIMITS,
    ProblemError,
    WireResolver,
    check_limits,
    problem_of,
    read_json,
    read_wire_query,
    write_json,
)

#: Seconds of processor time and bytes of one job, and jobs of one process.
SECONDS, MEMORY, JOBS = 5, 2**30, 1000
#: The largest number of generated rows in one answer.
MOST_DUMMY_ROWS = 100_000
#: The largest answer of a process in bytes: a dry run has an outcome, its numbers and a chart, each with a limit.
_MOST_ANSWER = 8 * LIMITS["answer_bytes"]


# In the process.


def run_pricing(connection: Connection, config: ServerConfig) -> None:
    """Answer jobs until the connection ends."""
    pin_to_cores(listening=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    memory = MEMORY + virtual_bytes()
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for _ in range(JOBS):
        try:
            job = json.loads(connection.recv_bytes())
        except EOFError:
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        soft = math.ceil(used.ru_utime + used.ru_stime) + SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
        connection.send_bytes(json.dumps(answer_job(config, job), allow_nan=False).encode())


def answer_job(config: ServerConfig, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"answer": ...} or {"problem": ...}; a function of the configuration and the job alone."""
    try:
        return {"answer": _JOBS[job["do"]](config, job)}
    except SidelightError as error:
        problem = problem_of(error)
        return {"problem": {"code": problem.code, "text": str(problem), **problem.more}}
    except MemoryError:
        return {"problem": {"code": "too-dear", "text": ""}}
    except Exception:  # a defect: tests count it, and the answer does not describe it
        return {"problem": {"code": "query", "text": "the query cannot be prepared", "unexpected": True}}


class Asked(NamedTuple):
    """The prepared query of a job, its warnings, and its expected cost."""

    table: ServedTable
    query: Any
    prepared: Any
    notes: list[str]
    cost: dict[str, float | int] | None


def _asked(config: ServerConfig, job: Mapping[str, Any], *, at: tuple[str | int, ...] = ("query",)) -> Asked:
    """Read and prepare the query of a job, which stands `at` a place, and refuse one with too large a cost."""
    table = config.tables[job["table"]]
    values = read_json(job["query"])
    check_limits(values, table.schema)
    public = {name: file for name, (file, _) in config.public.items()}
    folder = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=config.work.scratch)) if job.get("releases") else Path()
    try:
        releases = write_releases(job.get("releases", {}), folder)
        query = read_wire_query(values, kinds=table.kinds, resolver=WireResolver(public, releases))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            prepared = prepare_query(query, table.schema)
    except PlanError as error:
        error.path = (*at, *error.path)
        raise
    finally:
        if job.get("releases"):
            shutil.rmtree(folder, ignore_errors=True)
    prepared.check_source(PublicSource(schema=table.schema, engine="file", in_memory=False, name=table.name))
    if prepared.reads_external_rows:
        raise PlanError("a query with external rows cannot be released by a server")
    if table.strict and prepared.numerics != "exact":
        raise ProblemError(
            "strict", f"this table accepts only exact numerics, and this {values.get('kind')} is {prepared.numerics}"
        )
    _check_storable(prepared.request)
    notes = [str(each.message) for each in caught if isinstance(each.message, SidelightWarning)]
    cost = table.costs.get(str(values.get("kind")))
    check_answer([prepared])
    expected = check_cost(cost, prepared, duration=table.duration(values), memory=config.work.memory)
    return Asked(table, query, prepared, notes, expected)


def _check_storable(request: Mapping[str, Any]) -> None:
    """Refuse a request that the ledger would refuse, with its price and not at its charge."""
    try:
        canonical(checked_request(request))
    except LedgerError as error:
        raise PlanError(str(error)) from None


def _price_together(config: ServerConfig, job: Mapping[str, Any]) -> dict[str, Any]:
    """Price a fixed batch; expected errors are computed for single queries only."""
    if not config.tables[job["table"]].together:
        raise ProblemError("not-allowed", "this table does not price queries together")
    whole = read_json(job["query"])
    parts = [
        _asked(config, {**job, "query": write_json(each)}, at=("queries", place))
        for place, each in enumerate(parts_of(whole))
    ]
    prepared = [each.prepared for each in parts]
    most = check_answer(prepared)
    request = {"kind": TOGETHER, "delta": whole["delta"], "queries": [dict(each.request) for each in prepared]}
    _check_storable(request)
    claims = price_together([each.claims for each in prepared], delta=whole["delta"])
    return {
        "claims": claims.to_json(),
        "guarantee": str(claims),
        "delta": whole["delta"],
        "kind": TOGETHER,
        "request": request,
        "notes": [note for each in parts for note in each.notes],
        "expected": None,
        "cost": None,
        "answer_bytes": most,
    }


def _price(config: ServerConfig, job: Mapping[str, Any]) -> dict[str, Any]:
    if job["kind"] == TOGETHER:
        return _price_together(config, job)
    table, query, prepared, notes, cost = _asked(config, job)
    delta = declared_delta(query)
    found = {
        "claims": prepared.claims.to_json(),
        "guarantee": str(prepared.claims),
        "delta": None if delta is None else str(delta),
        "kind": job["kind"],
        "request": prepared.request,
        "notes": notes,
        "expected": None,
        "cost": cost,
        "answer_bytes": check_answer([prepared]),
    }
    if job.get("forecast"):
        from sidelight.accuracy.expected import expected

        forecast = expected(query, prepared, table.schema, confidence=0.95)
        found["expected"] = {**forecast.to_json(), "text": str(forecast)}
    return found


def _accuracy(config: ServerConfig, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the price that an error needs; without an error, what is expected at prices around the query's own."""
    from sidelight.accuracy.price import epsilon_for, swept

    table, query, *_ = _asked(config, job)
    if job["within"] is None:
        found = swept(query, table.schema)
        return {"sweep": [{"name": name, "amount": str(at), "expected": each.to_json()} for name, at, each in found]}
    try:
        within = nearest_float(exact_number(job["within"], name="within"))
    except RangeError:
        raise RangeError("within is a positive number: an error in the unit of the answer") from None
    needed = epsilon_for(query, table.schema, within=within)
    return {
        "name": needed.name,
        "amount": str(float(needed.amount)),
        "text": str(needed),
        "expected": needed.expected.to_json(),
    }


def _dry_run(config: ServerConfig, job: Mapping[str, Any]) -> dict[str, Any]:
    from sidelight.accuracy.forecast import USUAL_ROWS, as_cells, generated
    from sidelight.release.page_numbers import page_numbers
    from sidelight.report.render import picture
    from sidelight.testing import seeded_release

    table, query, *_ = _asked(config, job)
    rows = Table(as_cells(generated(table.schema, USUAL_ROWS), table.schema), schema=table.schema, name=table.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = seeded_release(query, rows, seed="dry run")
    numbers = page_numbers(outcome, most_bytes=LIMITS["answer_bytes"])
    return {"outcome": json.loads(outcome.to_json()), "chart": picture(outcome), "numbers": numbers}


def _dummy(config: ServerConfig, job: Mapping[str, Any]) -> dict[str, Any]:
    from sidelight.accuracy.dummy import dummy_csv

    return {"csv": dummy_csv(config.tables[job["table"]].schema, job["rows"])}


def _report(config: ServerConfig, job: Mapping[str, Any]) -> dict[str, Any]:
    from sidelight.release import outcome_from_json
    from sidelight.report import Item, Report, render

    outcomes = map(outcome_from_json, job["texts"])
    items = tuple(Item(title=str(each.query.get("column") or each.query["kind"]), outcome=each) for each in outcomes)
    return {"html": render(Report(title=config.title, day=job["day"], items=items))}


def _chart(config: ServerConfig, job: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the first outcome that has a chart."""
    from sidelight.release import outcome_from_json
    from sidelight.report.render import picture

    del config
    drawn = (picture(outcome_from_json(text)) for text in job["texts"])
    return {"svg": next((each for each in drawn if each is not None), None)}


def _numbers(config: ServerConfig, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of the first outcome, as they are shown."""
    from sidelight.release import outcome_from_json
    from sidelight.release.page_numbers import page_numbers

    del config
    return page_numbers(outcome_from_json(job["texts"][0]), most_bytes=LIMITS["answer_bytes"])


_JOBS: Mapping[str, Callable[[ServerConfig, Mapping[str, Any]], dict[str, Any]]] = {
    "price": _price,
    "accuracy": _accuracy,
    "dry-run": _dry_run,
    "dummy": _dummy,
    "report": _report,
    "chart": _chart,
    "numbers": _numbers,
}


# In the listening process.


class Pricing:
    """The pricing processes of a server; each runs one job at a time."""

    def __init__(self, zygote: Zygote, processes: int) -> None:
        self._zygote = zygote
        self._free: asyncio.LifoQueue[Child | None] = asyncio.LifoQueue()
        for _ in range(processes):
            self._free.put_nowait(None)

    async def ask(self, job: Mapping[str, Any], *, used: Callable[[float], None] = lambda seconds: None) -> Any:
        """Return the answer of a job; `used` is called with the seconds for which a process was occupied.

        Raises:
            ProblemError: the problem of the job; `too-dear` if it took or answers too much.
        """
        child, began = await self._free.get(), time.monotonic()
        try:
            text = json.dumps(job).encode()
            for _ in range(2):  # a process ends after its number of jobs
                fresh = child is None
                child = child or await asyncio.to_thread(self._zygote.fork, "sidelight.server.pricing:run_pricing")
                assert child is not None
                found = await _exchange(child, text)
                if found is not None:
                    break
                await asyncio.to_thread(child.end)
                child = None
                if fresh:
                    break
        except BaseException:
            if child is not None:
                child.end()
                child = None
            raise
        finally:
            used(time.monotonic() - began)
            self._free.put_nowait(child)
        if found is None:
            raise ProblemError("too-dear")
        if "problem" in found:
            problem = found["problem"]
            raise ProblemError(problem.pop("code"), problem.pop("text"), **problem)
        return found["answer"]

    def stop(self) -> None:
        """End the processes."""
        while not self._free.empty():
            child = self._free.get_nowait()
            if child is not None:
                child.end()


async def _exchange(child: Child, text: bytes) -> dict[str, Any] | None:
    """Send a job and wait for its answer; None if the process ended, takes too long or answers too much."""
    loop, connection = asyncio.get_running_loop(), child.connection
    arrived = asyncio.Event()
    try:
        connection.send_bytes(text)
        loop.add_reader(connection.fileno(), arrived.set)
        try:
            async with asyncio.timeout(6 * SECONDS):
                await arrived.wait()
        finally:
            loop.remove_reader(connection.fileno())
        found: dict[str, Any] = json.loads(connection.recv_bytes(_MOST_ANSWER))  # the rest is being written
        return found
    except (OSError, EOFError, TimeoutError):
        return None
