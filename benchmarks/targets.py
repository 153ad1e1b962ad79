"""`make targets`: every target of every issue, measured now. `--only GROUP` for one group.

A group may have further files: `regression` is also `regression_additive`, whose lines are of the same group and come
last; `--only regression.additive` is that file alone.


Exit status 1 when a target is missed or cannot be measured. A script runs once, whatever the number of its targets.
Scripts run one after the other, because most measure seconds. A group that says `SIDE_BY_SIDE = True` runs them in as
many processes as there are cores, two at the most, and after them, one by one, those that it names in `ALONE`: all that
measure seconds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import cache, partial
from importlib import import_module
from pkgutil import iter_modules

from benchmarks import groups
from benchmarks.target import Target

Script = Callable[[], Mapping[str, float]]

#: What libraries of matrices ask how many threads they may have, when they are loaded.
_THREADS = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}
GROUPS = sorted(module.name for module in iter_modules(groups.__path__))


def files_of(only: str | None) -> list[str]:
    """Return the files of a group, those of its parts after its own; all without one."""
    if only is None:
        return GROUPS
    wanted = only.replace(".", "_")
    return [name for name in GROUPS if name == wanted or ("." not in only and name.startswith(f"{wanted}_"))]


def group_of(file: str) -> str:
    """Return the group whose lines a file has: the longest one that its name begins with."""
    whole = [name for name in GROUPS if name != file and file.startswith(f"{name}_")]
    return max(whole, key=len, default=file)


def targets_of(group: str) -> list[Target]:
    """Return the targets of a group."""
    targets: list[Target] = import_module(f"benchmarks.groups.{group}").TARGETS
    return targets


def run(script: Script, run_it: Callable[[Script], Mapping[str, float]]) -> Mapping[str, float]:
    """Return the figures of a script; none of one that cannot run, which must not hide the others' numbers."""
    start = time.perf_counter()
    figures: Mapping[str, float] = {}
    try:
        figures = run_it(script)
    except Exception as error:
        print(f"{script.__module__}: {error}", file=sys.stderr)
    print(f"{script.__module__}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return figures


def runs_of(group: str, known: Collection[Script], stack: ExitStack) -> dict[Script, Script]:
    """Return for each other script of a group how its figures are had: run once when asked for, or begun already."""
    wanted = dict.fromkeys(target.script for target in targets_of(group) if not target.skipped)
    scripts = [script for script in wanted if script not in known]
    module = import_module(f"benchmarks.groups.{group}")
    if not getattr(module, "SIDE_BY_SIDE", False):
        return {script: cache(partial(run, script, _here)) for script in scripts}
    threads = _THREADS - os.environ.keys()
    for name in threads:  # of processes that begin now; threads that wait for others only cost
        os.environ[name] = "1"
        stack.callback(os.environ.pop, name, None)
    pool = stack.enter_context(ThreadPoolExecutor(min(2, os.cpu_count() or 1)))
    alone = getattr(module, "ALONE", ())
    begun = {script: pool.submit(run, script, _in_a_new_process) for script in scripts if script not in alone}

    def afterwards(script: Script) -> Mapping[str, float]:
        wait(begun.values())
        for name in threads:
            os.environ.pop(name, None)
        return run(script, _here)

    return {
        script: begun[script].result if script in begun else cache(partial(afterwards, script)) for script in scripts
    }


def _here(script: Script) -> Mapping[str, float]:
    return script()


def _in_a_new_process(script: Script) -> Mapping[str, float]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(script).result()


def main() -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = {file: group_of(file) for file in GROUPS}
    known = [f"{group}.{file[len(group) + 1 :]}" if file != group else file for file, group in parts.items()]
    parser.add_argument("--only", choices=known, help="one group of targets, or one part of it")
    only = parser.parse_args().only
    figures: dict[Script, Script] = {}
    all_kept = True
    for file in files_of(only):
        group = group_of(file)
        with ExitStack() as stack:
            figures |= runs_of(file, figures, stack)
            for target in targets_of(file):
                if target.skipped:
                    print(f"{group}.{target.name} skipped: {target.skipped}", flush=True)
                    continue
                line, kept = target.line(group, figures[target.script]().get(target.figure, float("nan")))
                print(line, flush=True)
                all_kept &= kept
    return 0 if all_kept else 1


if __name__ == "__main__":
    sys.exit(main())
