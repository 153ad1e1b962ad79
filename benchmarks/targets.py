"""`make targets`: every target of every issue, measured now. `--only GROUP` for one group.

Exit status 1 when a target is missed or cannot be measured. A script runs once, whatever the number of its targets.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import iter_modules

from benchmarks import groups
from benchmarks.target import Target

GROUPS = sorted(module.name for module in iter_modules(groups.__path__))


def targets_of(group: str) -> list[Target]:
    """Return the targets of a group."""
    targets: list[Target] = import_module(f"benchmarks.groups.{group}").TARGETS
    return targets


def measure(target: Target, measured: dict[Callable[[], Mapping[str, float]], Mapping[str, float]]) -> float:
    """Return the target's figure; run its script unless an earlier target of this run did."""
    if target.script not in measured:
        start = time.perf_counter()
        try:
            measured[target.script] = target.script()
        except Exception as error:  # one script that cannot run must not hide the others' numbers
            measured[target.script] = {}
            print(f"{target.script.__module__}: {error}", file=sys.stderr)
        print(f"{target.script.__module__}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    return measured[target.script].get(target.figure, float("nan"))


def main() -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=GROUPS, help="one group of targets")
    only = parser.parse_args().only
    measured: dict[Callable[[], Mapping[str, float]], Mapping[str, float]] = {}
    all_kept = True
    for group in [only] if only else GROUPS:
        for target in targets_of(group):
            if target.skipped:
                print(f"{group}.{target.name} skipped: {target.skipped}", flush=True)
                continue
            line, kept = target.line(group, measure(target, measured))
            print(line, flush=True)
            all_kept &= kept
    return 0 if all_kept else 1


if __name__ == "__main__":
    sys.exit(main())
