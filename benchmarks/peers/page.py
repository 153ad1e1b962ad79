"""The comparison with other libraries: one command asks everybody the same and writes docs/compared-with-others.md.

    python -m benchmarks.peers.page                          ask everybody; `make bench-peers`
    python -m benchmarks.peers.page --only counts,means      ask these tasks (or cases) again, keep the other numbers
    python -m benchmarks.peers.page --render                 write the page from the last numbers

The page is a function of `docs/compared-with-others.json`, which the same command measured, and of the lists in `cases`
and `entrants`. One program runs at a time; what is compared is the processor time of each.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import written
from benchmarks.peers.additive_cases import additive
from benchmarks.peers.cases import Case, generated
from benchmarks.peers.entrants import ENTRANTS, Entrant, entrants_of, ours
from benchmarks.peers.environments import PEERS, ROOT, Outcome, PeersError, prepare, run, save_data
from benchmarks.peers.page_text import render
from benchmarks.peers.ratios import LEAST_TRIALS, ratio_of_medians
from benchmarks.peers.real_cases import real
from benchmarks.trust_page import read_numbers, write_numbers
from sidelight.version import VERSION

#: Of a tiny run.
TINY_ARGUMENTS = ("--render",)
NUMBERS, PAGE = (written(ROOT / "docs" / f"compared-with-others.{ending}") for ending in ("json", "md"))
#: Programs that run at a time.
AT_A_TIME = 1
#: Seconds that a quick run waits for one program.
QUICK_PATIENCE = 60.0


def cases() -> list[Case]:
    """Return all cases, task by task: generated ones, and those on real sets that are here."""
    return sorted([*generated(), *real(), *additive()], key=lambda case: list(ENTRANTS).index(case.task))


def judged(case: Case, entrant: Entrant, outcome: Outcome, data: Sequence[Any]) -> dict[str, Any]:
    """Return the errors and seconds of one entrant, and why there are not more."""
    answers = [np.asarray(answer, dtype=np.float64) for answer in outcome.answers]
    errors = [case.error(data[trial % len(data)], answer) for trial, answer in enumerate(answers)]
    told: dict[str, Any] = {
        "peer": entrant.peer,
        "call": entrant.call,
        "against": entrant.against,
        "promise": entrant.promise(case),
        "errors": [error if np.isfinite(error) else None for error in errors],
        "processor": outcome.processor,
        "version": outcome.version,
        "failure": outcome.failure,
    }
    return told


def with_ratios(alone: Mapping[str, Any], predicted: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entrant with our errors and seconds over its own; ours as it is, or given the same facts."""
    theirs = [np.inf if error is None else error for error in other["errors"]]
    told = dict(other)
    for name, mine in (("ratio", alone["errors"]), ("predicted ratio", predicted["errors"])):
        if mine and theirs and all(error is not None for error in mine):
            told[name] = asdict(ratio_of_medians(mine, theirs))
    if alone["processor"] and other["processor"]:
        told["processor ratio"] = asdict(ratio_of_medians(alone["processor"], other["processor"]))
    return told


def ask(
    case: Case,
    pool: ThreadPoolExecutor,
    missing: Mapping[str, str],
    *,
    quick: bool = False,
    first: int = 0,
    calls: Collection[tuple[str, str]] | None = None,
) -> dict[str, Any]:
    """Run all entrants on one question; report those that are missing, fail or time out.

    Args:
        case: The question.
        pool: Where programs run.
        missing: Peers that are not here.
        quick: Whether to leave out those whose releases take minutes, and to wait a minute at most for the others.
        first: The number of the first trial: another one draws other data.
        calls: Calls and promises of those who are asked; all if left out.
    """
    data = [case.draw(first + trial) for trial in range(case.trials)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        save_data(folder, [{name: each[name] for name in each if not name.startswith("tru")} for each in data])

        def one(entrant: Entrant) -> dict[str, Any]:
            if entrant.peer in missing:
                return judged(case, entrant, Outcome(failure="not installed"), data)
            start = time.monotonic()
            outcome = run(
                entrant.peer,
                entrant.method,
                data=folder,
                trials=case.trials,
                seconds=0 if quick else entrant.seconds,  # then as few as a verdict needs
                patience=min(entrant.patience, QUICK_PATIENCE) if quick else entrant.patience,
                least=LEAST_TRIALS,
                **entrant.public(case),
            )
            said = f"{len(outcome.answers)} answers in {time.monotonic() - start:.0f} s"
            print(f"{case.name}: {entrant.name}: {said}; {outcome.failure or 'whole'}", file=sys.stderr, flush=True)
            return judged(case, entrant, outcome, data)

        others = [entrant for entrant in entrants_of(case) if not (quick and entrant.slow)]
        others = [each for each in others if calls is None or (each.call, each.promise(case)) in calls]
        told: list[str | None] = [None, "predicted", *dict.fromkeys(each.against for each in others if each.against)]
        mine = {name: ours(case, told=name) for name in told}
        slowest_first = sorted([*mine.values(), *others], key=lambda entrant: -entrant.slow)
        waiting = {entrant.name: pool.submit(one, entrant) for entrant in slowest_first}
        found = {name: waiting[entrant.name].result() for name, entrant in mine.items()}
        answers = [(each, waiting[each.name].result()) for each in others]
    return {
        "alone": found[None],
        "predicted": found["predicted"],
        "told": {name: each for name, each in found.items() if name not in (None, "predicted")},
        "others": [with_ratios(found[each.against], found["predicted"], answer) for each, answer in answers],
    }


def missing_peers(asked: Sequence[Case], *, quick: bool = False) -> dict[str, str]:
    """Return why peers of these cases are not here, by name; makes the environments that are not there yet."""
    found = {}
    wanted = {entrant.peer for case in asked for entrant in entrants_of(case) if not (quick and entrant.slow)}
    for peer in (each for each in PEERS if each in wanted):
        try:
            prepare(peer)
        except PeersError as error:
            found[peer] = str(error)
            print(f"{peer}: {error}", file=sys.stderr, flush=True)
    return found


def measure_into(place: Path, asked: Sequence[Case], *, keep: bool) -> None:
    """Ask everybody these questions, and write the numbers after each; keep those of other questions, or not."""
    begun = time.monotonic()
    missing = missing_peers(asked)
    prepared = time.monotonic()
    order = {case.name: place for place, case in enumerate(cases())}
    before = read_numbers(place) if keep else {}
    known: dict[str, Any] = before.get("cases", {})
    missing = {**before.get("missing", {}), **missing}
    with ThreadPoolExecutor(max_workers=AT_A_TIME) as pool:
        for case in asked:
            start = time.monotonic()
            words = {name: getattr(case, name) for name in ("title", "rows", "measure", "epsilon", "delta")}
            found = words | ask(case, pool, missing) | {"date": date.today().isoformat()}
            known[case.name] = found | {"seconds": round(time.monotonic() - start)}
            known = dict(sorted(known.items(), key=lambda item: order.get(item[0], len(order))))
            versions = sorted({case["alone"]["version"] or VERSION for case in known.values()})
            numbers: dict[str, Any] = {"version": " and ".join(versions), "date": _dates(known), "machine": machine()}
            numbers |= {"note": before["note"]} if "note" in before else {}
            numbers |= {"missing": missing, "cases": known}
            write_numbers(place, numbers)
            lists_in_one_line(place)
    minutes = [(end - start) / 60 for start, end in ((begun, prepared), (prepared, time.monotonic()))]
    print(f"prepared in {minutes[0]:.1f} minutes, measured in {minutes[1]:.1f}", file=sys.stderr)


def _dates(known: Mapping[str, Any]) -> str:
    """Return the days on which cases were measured."""
    return " and ".join(sorted({case.get("date", "an earlier day") for case in known.values()}))


def lists_in_one_line(place: Path) -> None:
    """Write the lists of numbers in a JSON file in a line each: hundreds of lists, of two dozen numbers each."""
    text = place.read_text(encoding="utf-8")
    short = re.sub(r"\[\n([^\[\]{}\"]*)\n\s*\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    place.write_text(short, encoding="utf-8")


def machine() -> str:
    """Return the kind of machine, and how busy it was: slow libraries make fewer trials on a busy one."""
    python = ".".join(platform.python_version_tuple()[:2])
    kind = f"{platform.system()}, {platform.machine()}, {os.cpu_count()} cores, Python {python}, NumPy {np.__version__}"
    return f"{kind}, load average {os.getloadavg()[2]:.0f}" if hasattr(os, "getloadavg") else kind


def main() -> None:
    """Ask unless only the page is wanted, and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", action="store_true", help="only write the page")
    parser.add_argument("--only", help="tasks or names of cases that are asked again, with commas")
    asked = parser.parse_args()
    if not asked.render:
        names = None if asked.only is None else set(asked.only.split(","))
        chosen = [case for case in cases() if names is None or {case.name, case.task} & names]
        if not chosen:
            known = ", ".join(dict.fromkeys(case.task for case in cases()))
            sys.exit(f"no case is called {asked.only!r}; tasks are {known}")
        measure_into(NUMBERS, chosen, keep=names is not None)
    PAGE.write_text(render(read_numbers(NUMBERS)), encoding="utf-8")


if __name__ == "__main__":
    main()
