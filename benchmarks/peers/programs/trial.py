"""What every program of a library does: read a job, release again and again, write each answer with its seconds.

A job is a folder with `job.json`: the method, the number of trials, the seconds it may take, the folder of the data
(`0.npz`, `1.npz`, ...; the trials go round), and whatever the method needs to know, such as epsilon and bounds. After
each trial there is one more `answer-0.npy`, ..., and `result.json` has the seconds of all of them, so that a program
that is stopped has said what it had. Only NumPy is imported here: this runs in the environments of other libraries.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

Job = Mapping[str, Any]
Data = Mapping[str, np.ndarray]
#: Set up by public facts alone; releases from data.
Method = Callable[[Job], Callable[[Data], Any]]
#: A first run shorter than this is not counted: it warms up, and costs little to run again.
WARMING_SECONDS = 1.0


def main(package: str, methods: Mapping[str, Method], *, processor_seconds: Callable[[], float] | None = None) -> None:
    """Run the job whose folder is the only argument."""
    warnings.simplefilter("ignore")  # of convergence, of deprecations
    run(Path(sys.argv[1]), package, methods, processor_seconds=processor_seconds or time.process_time)


def run(folder: Path, package: str, methods: Mapping[str, Method], *, processor_seconds: Callable[[], float]) -> None:
    """Release as often as the job says, or until its seconds are over and the least number of trials is reached."""
    job: Job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    begun = time.monotonic()
    release = methods[job["method"]](job)
    files = sorted(Path(job["data"]).glob("*.npz"), key=lambda path: int(path.stem))
    seconds: list[float] = []
    processor: list[float] = []
    warm = False
    least = max(1, min(job.get("least", 1), job["trials"]))
    while len(seconds) < job["trials"] and (len(seconds) < least or time.monotonic() - begun < job["seconds"]):
        with np.load(files[len(seconds) % len(files)]) as arrays:
            data = dict(arrays)
        start, start_processor = time.perf_counter(), processor_seconds()
        answer = release(data)
        took, took_processor = time.perf_counter() - start, processor_seconds() - start_processor
        if not warm and took < WARMING_SECONDS:
            warm = True
            continue
        warm = True
        np.save(folder / f"answer-{len(seconds)}.npy", np.asarray(answer))
        seconds.append(took)
        processor.append(took_processor)
        _write(folder / "result.json", {"version": version(package), "seconds": seconds, "processor": processor})


def _write(path: Path, found: Mapping[str, Any]) -> None:
    """Replace a file atomically: readers find the old one or the new one."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(found), encoding="utf-8")
    os.replace(new, path)


def pairs_of(sizes: list[int]) -> list[tuple[int, int]]:
    """Return all pairs of columns."""
    return [(first, second) for first in range(len(sizes)) for second in range(first + 1, len(sizes))]


def pair_counts(rows: np.ndarray, sizes: list[int], *, total: float | None = None) -> np.ndarray:
    """Return the counts of all pairs of columns of category codes, one after the other; scaled to a total if given."""
    tables = [
        np.bincount(rows[:, first] * sizes[second] + rows[:, second], minlength=sizes[first] * sizes[second])
        for first, second in pairs_of(sizes)
    ]
    scale = 1.0 if total is None else total / max(len(rows), 1)
    return np.concatenate(tables) * scale


def pairs_in(made: Callable[[Data], Any], job: Job) -> Callable[[Data], Any]:
    """Return the counts of all pairs in the rows that are made, scaled to as many as there were."""
    return lambda data: pair_counts(made(data), job["sizes"], total=len(data["rows"]))
