"""A server of generated people in a process of its own, for tests."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sidelight.errors import ServiceError
from sidelight.server.config_file import read_config
from sidelight.server.identity import IdentityStore

Result = TypeVar("Result")
JOBS = ("cook", "nurse", "clerk")
CONFIG = """
title = "Generated people"
[listen]
port = 0
[ledger]
url = "budget.db"
key_file = "ledger.key"
head_file = "elsewhere/ledger.head"
[identity]
store = "identity.db"
audit = "audit.jsonl"
[work]
seats = 1
tick = "0.05 s"
fill = {fill}
queue = 40
longest_wait = "120 s"
free_per_second = 1000
[[table]]
name = "people"
source = {{path = "people.parquet"}}
capacity = 10_000
currency = "{currency}"
budget = {budget}
sharing = "reserved"
kinds = ["count", "mean", "sum", "histogram", "quantiles", "summary", "sql", "top_k"]
largest = {largest}
smallest = {smallest}
strict = {strict}
durations = {{default = "4 s"}}
column = [
  {{name = "age", lower = 0, upper = 120, granularity = 1}},
  {{name = "job", kind = "category", categories = ["cook", "nurse", "clerk"]}},
]
analyst = [{{name = "ada", budget = {share}}}, {{name = "bob", budget = {share}}}]
group = [{{name = "institute", members = ["cy", "dan"], budget = {share}}}]
{more}
"""
USUAL: Mapping[str, str] = {
    "currency": "epsilon",
    "budget": "{epsilon = 3}",
    "share": "{epsilon = 1}",
    "largest": "{epsilon = 0.5}",
    "smallest": "{epsilon = 0.001}",
    "strict": "true",
    "fill": "false",
    "more": "",
}


def write_people(folder: Path, *, rows: int = 300, more: int = 0) -> None:
    """Write a table of generated people; `more` adds that many rows at the end."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    ages = np.concatenate([(np.arange(rows) * 37) % 80 + 10, np.full(more, 119)])
    jobs = [JOBS[each % 3] for each in range(rows + more)]
    pq.write_table(pa.table({"age": pa.array(ages, pa.int64()), "job": pa.array(jobs)}), folder / "people.parquet")


def write_survey(folder: Path, **changes: str) -> Path:
    """Write the configuration, the key and the people; return the file."""
    (folder / "elsewhere").mkdir(parents=True, exist_ok=True)
    if not (folder / "people.parquet").exists():
        write_people(folder)
    (folder / "ledger.key").write_text(base64.b64encode(b"0" * 32).decode())
    file = folder / "survey.toml"
    file.write_text(CONFIG.format(**{**USUAL, **changes}))
    return file


def tokens_of(file: Path) -> dict[str, str]:
    """Make a token for each analyst."""
    store = IdentityStore(read_config(file).store)
    try:
        return {name: store.issue(name, now=time.time()) for name in ("ada", "bob", "cy", "dan")}
    finally:
        store.close()


@contextmanager
def serving(file: Path, *, program: str = "") -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the server of a file; yield its address and the process. `program` runs in it before it starts."""
    code = (
        f"{program}\nimport sys\nfrom sidelight.server.config_file import read_config\n"
        "from sidelight.server.running import serve_analysts\n"
        "serve_analysts(read_config(sys.argv[1]), when_ready=lambda url: print('on', url, flush=True))"
    )
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with file.with_suffix(".log").open("w") as lines:  # no pipe, which would fill up and stop the server
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE, stderr=lines, text=True, env=env
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line.startswith("on "):
            raise AssertionError(file.with_suffix(".log").read_text()[-3000:])
        yield line.split()[1], process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def until(condition: Callable[[], Result], *, seconds: float = 240.0) -> Result:
    """Return what a condition finds once that is true; a busy machine takes a while."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)
    return found


def undropped(ask: Callable[[], Any]) -> Any:
    """Return the answer of a paid request, made again with its key while a busy machine drops it uncharged."""
    for _ in range(20):
        answer = ask()
        if answer.json().get("state") != "dropped":
            return answer
    raise AssertionError(f"dropped again and again: {answer.text}")


def patiently(ask: Callable[[], Result]) -> Result:
    """Return what a client is answered, which asks again while a busy machine drops its request uncharged."""
    for _ in range(20):
        try:
            return ask()
        except ServiceError as error:
            if error.code != "unavailable":
                raise
    raise AssertionError("dropped again and again")


def unless_busy(scenario: Callable[[Path], None], folder: Path, *, attempts: int = 4) -> None:
    """Run a scenario that has seconds for each step; again where it fails while the machine has too much to do."""
    for place in range(attempts):
        try:
            scenario(folder / str(place))
            return
        except Exception:
            busy = os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1)
            if place + 1 == attempts or not busy:
                raise
