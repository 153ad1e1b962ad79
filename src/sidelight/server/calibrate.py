"""`sidelight server calibrate`: times of every allowed kind on generated rows, and durations derived from them.

The private source is never opened: rows are made from the schema, as many as the public `capacity`, in several shapes
that are hard in different ways. The curator writes the proposal into the file; nothing adapts to private rows.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from sidelight.errors import SidelightError
from sidelight.fork_guard import temporary_folder
from sidelight.noise import OSEntropy
from sidelight.records import Table
from sidelight.server.calibration_probes import prices_of, probe_query, probes_of, write_shapes
from sidelight.server.config import ServedTable, ServerConfig
from sidelight.server.cost import KindCost
from sidelight.server.worker import pin_to_cores
from sidelight.server.zygote import Zygote
from sidelight.session.accounts import OneOffAccount
from sidelight.session.pipeline import release_through

#: The duration of a slot as a multiple of the slowest run, and its minimum in seconds.
TIMES, LEAST = 5.0, 1.0
#: Runs of each probe on each shape, alternating between the largest and the smallest price.
RUNS: Final = 50
#: Seconds after which a probe is given up.
_PATIENCE: Final = 600.0


@dataclass(frozen=True, kw_only=True)
class CalibratedKind:
    """Measurements of one kind on generated rows; `problem` says why there are none."""

    kind: str
    duration: float | None = None
    cost: KindCost | None = None
    problem: str = ""


def calibrate(
    config: ServerConfig, table: ServedTable, *, runs: int = RUNS, said: Callable[[str], None] = lambda text: None
) -> list[CalibratedKind]:
    """Run every allowed kind of a table on generated rows of its capacity.

    Args:
        config: The server's file; its public data may be named by queries.
        table: Its schema, capacity, kinds and prices are used; its source is not opened.
        runs: Runs of each probe on each shape.
        said: Called with a progress message before each measurement.
    """
    zygote = Zygote(config)
    with temporary_folder() as folder:
        files = write_shapes(table.schema, table.capacity, Path(folder))
        zygote.start()
        try:
            return [_calibrated(config, table, kind, files, zygote, runs=runs, said=said) for kind in table.kinds]
        finally:
            zygote.stop()


def _calibrated(
    config: ServerConfig,
    table: ServedTable,
    kind: str,
    files: Sequence[Path],
    zygote: Zygote,
    *,
    runs: int,
    said: Callable[[str], None],
) -> CalibratedKind:
    prices = list(prices_of(table, kind))
    try:
        probes = dict(probes_of(config, table, kind))
    except SidelightError as error:
        return CalibratedKind(kind=kind, problem=str(error))
    found: dict[int, tuple[float, int]] = {}
    for size in sorted(probes):
        said(f"{table.name}: {kind} of {size} cell{'s' if size > 1 else ''}")
        priced = [{**probes[size], **prices[run % len(prices)]} for run in range(runs)]
        taken = [
            _taken(zygote, {"table": table.name, "path": str(file), "query": query})
            for file in files
            for query in priced
        ]
        failed = next((each["problem"] for each in taken if "problem" in each), None)
        if failed is not None:
            return CalibratedKind(kind=kind, problem=f"a run on generated rows failed ({failed})")
        found[size] = max(each["seconds"] for each in taken), max(each["bytes"] for each in taken)
    return fitted(kind, found)


def fitted(kind: str, found: Mapping[int, tuple[float, int]]) -> CalibratedKind:
    """Return the proposal for a kind from the slowest run and the largest memory of each size.

    The line starts at the smallest request and lies above all others: a cost is never below the measurements.

    >>> fitted("count", {1: (0.1, 1000), 11: (0.3, 1500)})
    CalibratedKind(kind='count', duration=1.5, cost=KindCost(seconds=0.1, seconds_per_cell=0.02, memory=1000, \
memory_per_cell=50.0), problem='')
    """
    smallest = min(found)
    seconds, memory = found[smallest]
    steps = {size: size - smallest for size in found if size > smallest}
    slope = max((max(0.0, found[size][0] - seconds) / step for size, step in steps.items()), default=0.0)
    more = max((max(0, found[size][1] - memory) / step for size, step in steps.items()), default=0.0)
    slowest = max(each for each, _ in found.values())
    duration = max(LEAST, math.ceil(10 * TIMES * slowest - 1e-9) / 10)
    cost = KindCost(
        seconds=_rounded(seconds), seconds_per_cell=_rounded(slope), memory=memory, memory_per_cell=_rounded(more)
    )
    return CalibratedKind(kind=kind, duration=duration, cost=cost)


def _rounded(value: float) -> float:
    """Return a number rounded up to three digits, so that no cost is too small."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / unit - 1e-6) * unit:.6g}")


def proposal(found: Sequence[CalibratedKind]) -> str:
    """Return `durations` and `costs` as lines of the file."""
    good = [each for each in found if each.duration is not None and each.cost is not None]
    durations = {"default": max((each.duration or LEAST for each in good), default=LEAST)}
    durations |= {each.kind: each.duration or LEAST for each in good}
    times = ", ".join(f'{kind} = "{seconds:g} s"' for kind, seconds in durations.items())
    costs = ", ".join(f"{each.kind} = {_cost_text(each.cost)}" for each in good if each.cost is not None)
    return f"durations = {{{times}}}\ncosts = {{{costs}}}"


def _cost_text(cost: KindCost) -> str:
    memory = max(1, math.ceil(cost.memory / 2**20))
    return (
        f"{{seconds = {cost.seconds:g}, seconds_per_cell = {cost.seconds_per_cell:g}, "
        f'memory = "{memory} MiB", memory_per_cell = {cost.memory_per_cell:g}}}'
    )


def _taken(zygote: Zygote, job: Mapping[str, Any]) -> dict[str, Any]:
    child = zygote.fork("sidelight.server.calibrate:run_probe")
    try:
        child.connection.send_bytes(json.dumps(job).encode())
        if not child.connection.poll(_PATIENCE):
            return {"problem": f"more than {_PATIENCE:g} s"}
        found: dict[str, Any] = json.loads(child.connection.recv_bytes())
        return found
    except (OSError, EOFError):
        return {"problem": "its process ended"}
    finally:
        child.end()


def run_probe(connection: Connection, config: ServerConfig) -> None:
    """Run one release on generated rows in a child, as a worker does, and send its time and memory."""
    job = json.loads(connection.recv_bytes())
    table = config.tables[job["table"]]
    pin_to_cores(listening=False)
    before, began = _resident_bytes("VmRSS"), time.perf_counter()
    try:
        rows = Table(job["path"], schema=table.schema, name=table.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            query = probe_query(config, table, job["query"])
            release_through(query, rows, OneOffAccount(), entropy=OSEntropy(), owner=False).to_json()
    except SidelightError as error:  # the rows are generated, so the text is not private
        connection.send_bytes(json.dumps({"problem": f"{type(error).__name__}: {error}"}).encode())
        return
    seconds = time.perf_counter() - began
    connection.send_bytes(json.dumps({"seconds": seconds, "bytes": max(0, _resident_bytes("VmHWM") - before)}).encode())


def _resident_bytes(name: str) -> int:
    """Return the current (`VmRSS`) or peak (`VmHWM`) memory of this process; 0 if unknown."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)
