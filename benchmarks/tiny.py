"""Start every script of `benchmarks/` on tiny sizes: a name that changed breaks this run, and not a number later.

    python -m benchmarks.tiny [--long] [words of modules' names ...]

Scripts are found, not listed: every module that can be run as a program, that has a `main` or a `measure`, that draws a
`FIGURE`, or that a target names. Each gets `SECONDS` of processor time, and a script that takes longer has to choose
its sizes by `measuring.sized`; those of `LONG` are started with `--long` only, by the slow tests. Data sets are
generated stand-ins, and nothing is written into the documentation. A script that needs a library or a program that is
absent runs as far as it gets.
"""

from __future__ import annotations

import os

os.environ |= {"SIDELIGHT_TINY": "1", "SIDELIGHT_DATA": os.devnull, "OMP_NUM_THREADS": "1", "MPLBACKEND": "svg"}

import contextlib
import inspect
import io
import json
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import FrameType, ModuleType
from typing import Any

import benchmarks
from benchmarks.measuring import TINY, AbsentError
from benchmarks.peers.environments import PeersError
from benchmarks.target import Target

#: Processor time of this process for one script, three times what the longest takes on a machine that does nothing
#: else, and for one that only a long run starts.
SECONDS, LONG_SECONDS = 30.0, 90.0
#: Scripts with a part of fixed size that takes seconds (a plan of DP-SGD, many models): started with `--long`.
LONG = {
    "audit_engines",
    "audit_failures",
    "audit_memory",
    "audit_meter",
    "error_bounds",
    "learning",
    "linear_base_rates",
    "linear_classes",
    "linear_forecasts",
    "linear_models",
    "linear_predictions",
    "linear_queries",
    "linear_regression_accuracy",
    "linear_speed",
    "server_kills",
    "server_prober",
    "additive_models",
    "additive_bands",
    "additive_pairs",
    "additive_forecasts",
    "additive_predictions",
    "many_quantiles_picture",
    "nist",
    "nist_page",
    "rounded_coverage",
    "spread_coverage",
    "wide_ranges",
    "figures.linear_accuracy",
    "figures.linear_tables",
    "figures.privacy_losses",
    "figures.stability_pate",
}
#: Programs that others start, with arguments of their own, and programs of other environments.
STARTED_BY_OTHERS = {"power_loss_stories": "power_loss"}
OTHER_ENVIRONMENTS = "peers.programs."
#: Programs that run other scripts.
OF_ALL = {"tiny", "targets", "__main__", "figures.__main__"}


def names() -> list[str]:
    """Return the modules of `benchmarks`, without the package's name."""
    found = [each.name.partition(".")[2] for each in walk_packages(benchmarks.__path__, "benchmarks.")]
    return sorted({*found, "__main__", "figures.__main__"} - {""})


def entries(name: str, module: ModuleType) -> dict[str, Callable[[], Any]]:
    """Return what a module is started by: `main`, then what of its functions targets ask for and `main` did not."""
    if name in OF_ALL or name in STARTED_BY_OTHERS or name.startswith(OTHER_ENVIRONMENTS):
        return {}
    found: dict[str, Callable[[], Any]] = {}
    if hasattr(module, "FIGURE"):
        size = ["--trials", "1", "--steps", "5", "--output", tempfile.gettempdir()]
        found["FIGURE"] = lambda: module.FIGURE.run(size)
    for function in ("main", "measure", *(script.__name__ for script in target_scripts() if _home(script) == name)):
        job = getattr(module, function, None)
        if job is not None and not hasattr(module, "FIGURE") and not _wants_arguments(job):
            found[function] = job
    if not found and "__main__" in inspect.getsource(module):
        raise AssertionError("it is a program without a `main` or a `measure`, and so nothing starts it on tiny sizes")
    return found


def _wants_arguments(job: Callable[..., Any]) -> bool:
    given = inspect.signature(job).parameters.values()
    return any(each.default is each.empty and each.kind is not each.VAR_POSITIONAL for each in given)


def target_scripts() -> list[Callable[[], Any]]:
    """Return what all targets are measured by."""
    groups = import_module("benchmarks.targets").GROUPS
    targets: list[Target] = [each for group in groups for each in import_module(f"benchmarks.groups.{group}").TARGETS]
    return list(dict.fromkeys(each.script for each in targets if not each.skipped))


def _home(script: Callable[[], Any]) -> str:
    return script.__module__.partition(".")[2]


def start(name: str, module: ModuleType) -> None:
    """Run what a module is started by, each once."""
    waiting = entries(name, module)
    done: set[str] = set()

    def noting(entry: str, job: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **rest: Any) -> Any:
            done.add(entry)
            return job(*args, **rest)

        return run

    sys.argv = [name, *getattr(module, "TINY_ARGUMENTS", ())]
    originals = {entry: job for entry, job in waiting.items() if entry != "FIGURE"}
    for entry, job in originals.items():
        setattr(module, entry, noting(entry, job))
    try:
        for entry, job in waiting.items():
            if entry not in done:
                job()
    finally:
        for entry, job in originals.items():
            setattr(module, entry, job)


class TooLongError(BaseException):
    """Not an `Exception`: scripts that try hostile inputs catch every one of these."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise in a script that takes more processor time."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLongError(f"it takes more than {seconds:g} s of processor time: choose its sizes by measuring.sized")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)  # again, should a callback have swallowed it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def tried(name: str) -> str:
    """Start one module; return what went wrong, "" if nothing did."""
    printed = io.StringIO()
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("ignore")
            module = import_module(f"benchmarks.{name}")
            with limited(LONG_SECONDS if name in LONG else SECONDS):
                start(name, module)
    except (PeersError, AbsentError, ImportError) as error:
        absent = getattr(error, "name", None) or ""
        if isinstance(error, ImportError) and absent.startswith(("sidelight", "benchmarks")):
            return f"{error}"
        if name.startswith(OTHER_ENVIRONMENTS):
            compile(Path(benchmarks.__path__[0], *name.split(".")).with_suffix(".py").read_text(), name, "exec")
    except SystemExit as error:
        absent = isinstance(error.__context__, PeersError | AbsentError)
        return "" if absent or error.code in (None, 0) else f"exit status {error.code}"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error}\n{''.join(traceback.format_exc().splitlines(keepends=True)[-9:])}"
    return ""


def main(words: list[str]) -> int:
    """Start the modules whose names contain one of the words, or all; print one JSON object a line."""
    assert TINY
    with tempfile.TemporaryDirectory(prefix="sidelight-tiny-") as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder  # what scripts write leaves with this run
        return _start_all(words)


def _start_all(words: list[str]) -> int:
    long, words = "--long" in words, [word for word in words if word != "--long"]
    target_scripts()  # imports nearly everything, and an import that is interrupted cannot be made again
    failed = 0
    for name in names():
        if (name in LONG) != long or (words and not any(word in name for word in words)):
            continue
        begun = time.process_time()
        wrong = tried(name)
        failed += bool(wrong)
        seconds = round(time.process_time() - begun, 2)
        print(json.dumps({"module": name, "seconds": seconds, "wrong": wrong}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
