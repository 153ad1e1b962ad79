"""A server of generated people in a process of its own, for tests."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from sidelight.server.config_file import read_config
from sidelight.server.identity import IdentityStore

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
    folder.mkdir(parents=True, exist_ok=True)
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
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
