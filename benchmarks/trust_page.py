"""The trust page: what is claimed, how far our own attacks got, which planted bugs they caught, what was ever wrong.

    python -m benchmarks.trust_page [--long] [--seconds 4]    attack everything, write docs/trust.json and docs/trust.md
    python -m benchmarks.trust_page --only queries,planted    measure these parts again, keep the others
    python -m benchmarks.trust_page --render                  write docs/trust.md from the last numbers

`make trust` does the first, and `make audit` with `--long`, which also plants the bugs of slow tests and attacks every
query once more where it is sold far below its price (part "oversold"; without `--long` its numbers stay). The page is a
function of `docs/trust.json`, of the registry and of `SECURITY.md` alone: it has no number that was not measured here.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from benchmarks import audit_kills, audit_meter, audit_overspending, fuzzing, membership, power_loss, sampler_timing
from benchmarks.audit_oversold import attacked_oversold
from benchmarks.audit_queries import SECONDS, attacked
from benchmarks.audit_tight import attacked_tight
from benchmarks.measuring import written
from benchmarks.planted_bugs import caught_bugs
from benchmarks.trust_text import FAULTS, render
from sidelight.version import VERSION

ROOT = Path(__file__).resolve().parents[1]
#: Of a tiny run.
TINY_ARGUMENTS = ("--render",)
NUMBERS, PAGE = written(ROOT / "docs" / "trust.json"), written(ROOT / "docs" / "trust.md")


def parts_of(*, long: bool, seconds: float) -> dict[str, Callable[[], Any]]:
    """Return what is measured, by its name in `docs/trust.json`; what runs in processes of its own comes first."""
    oversold = {"oversold": lambda: {name: each.to_json() for name, each in attacked_oversold()}}
    return {
        "kills": audit_kills.measure,
        "interleavings": audit_overspending.measure,
        "power loss": power_loss.measure,
        "fuzzing": lambda: fuzzing.measure(seconds=60 if long else fuzzing.SECONDS),
        "planted": lambda: caught_bugs(quick=not long),
        "queries": lambda: {name: each.to_json() for name, each in attacked(seconds=seconds)},
        "tight": lambda: {name: each.to_json() for name, each in attacked_tight()},
        "membership": lambda: {name: attack().to_json() for name, attack in membership.cases(long=long).items()},
        "timing": sampler_timing.measure,
        "meter": audit_meter.counted,
        **(oversold if long else {}),
    }


#: Parts that wait for other processes: one after the other, in parallel with the attacks of this process.
BESIDE = {"planted", *FAULTS, "fuzzing"}


def measure_into(place: Path, parts: dict[str, Callable[[], Any]]) -> None:
    """Measure these parts and write each as soon as it is there: the new ones in the place of the old ones."""
    begun = {"day": datetime.now(UTC).date().isoformat(), "version": VERSION}
    writing = Lock()

    def one(name: str) -> None:
        start = time.monotonic()
        try:
            found = parts[name]()
        except (RuntimeError, OSError) as error:  # no strace here, say: the page keeps what was measured before
            print(f"{name}: not measured: {error}", file=sys.stderr, flush=True)
            return
        seconds = round(time.monotonic() - start)
        print(f"{name}: {seconds} s", file=sys.stderr, flush=True)
        with writing:
            write_numbers(place, read_numbers(place) | {name: {**begun, "seconds": seconds, "found": found}})

    with ThreadPoolExecutor(max_workers=1) as other:
        waiting = [other.submit(one, name) for name in parts if name in BESIDE]
        for name in parts:
            if name not in BESIDE:
                one(name)
        for each in waiting:
            each.result()


def read_numbers(place: Path) -> dict[str, Any]:
    """Return the numbers that were measured before."""
    known: dict[str, Any] = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    return known


def write_numbers(place: Path, numbers: dict[str, Any]) -> None:
    """Write the numbers with four digits each: more would differ without saying more."""
    place.write_text(json.dumps(_short(numbers), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _short(thing: Any) -> Any:
    if isinstance(thing, dict):
        return {name: _short(each) for name, each in thing.items()}
    if isinstance(thing, list | tuple):
        return [_short(each) for each in thing]
    if isinstance(thing, float) and math.isfinite(thing):
        return float(f"{thing:.4g}")
    return thing


def main() -> None:
    """Measure unless only the page is wanted, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", action="store_true", help="only write the page")
    parser.add_argument("--long", action="store_true", help="plant the bugs of slow tests too")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each query")
    parser.add_argument("--only", help="parts that are measured again, with commas")
    asked = parser.parse_args()
    if not asked.render:
        parts = parts_of(long=asked.long, seconds=asked.seconds)
        names = parts.keys() if asked.only is None else asked.only.split(",")
        measure_into(NUMBERS, {name: parts[name] for name in names})
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    PAGE.write_text(render(read_numbers(NUMBERS), security), encoding="utf-8")


if __name__ == "__main__":
    main()
