"""Sizes, seconds, peak memory and figures, as all benchmarks choose, measure and print them."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

#: Whether scripts run on tiny sizes, only to see that they run (`benchmarks.tiny`): no number of such a run counts.
TINY = bool(os.environ.get("SIDELIGHT_TINY"))
Size = TypeVar("Size")


class AbsentError(RuntimeError):
    """A program or a data set that a script needs is not on this machine."""


def sized(full: Size, tiny: Size) -> Size:
    """Return the size that a script measures with, or the one at which it only shows that it runs."""
    return tiny if TINY else full


def written(path: Path) -> Path:
    """Return where a script writes a page or a picture of the documentation: of a tiny run, a copy elsewhere."""
    if not TINY:
        return path
    copy = Path(tempfile.gettempdir()) / f"sidelight-tiny-{os.getpid()}-{path.name}"
    if path.exists():
        shutil.copy(path, copy)
    return copy


def timed(job: Callable[[], object]) -> float:
    """Return the elapsed seconds of a job."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def processor_time(job: Callable[[], object]) -> float:
    """Return the processor seconds of a job, more than 0: other programs on the machine do not count."""
    start = time.process_time()
    job()
    return max(time.process_time() - start, 1e-9)


def forget_peak() -> None:
    """Let the peak resident memory begin anew, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_gigabytes() -> float:
    """Return the peak resident memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():  # `ru_maxrss` would count the parent's memory, which a new process shares until it starts
        (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 2**20
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**30  # bytes, on macOS


def print_figures(figures: Mapping[str, float]) -> None:
    """Print what a script measured: one figure a line, in a column.

    >>> print_figures({"ratio": 0.5, "seconds": 12.0})
    ratio    0.5
    seconds  12
    """
    width = max(map(len, figures), default=0)
    for name, value in figures.items():
        print(f"{name:{width}s}  {value:.4g}")
