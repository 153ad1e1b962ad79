"""Every planted bug of the tests: found by its mark, planted now, and counted when it was caught.

    python -m benchmarks.planted_bugs [--quick] [--list]

A test with `@pytest.mark.planted("what is wrong")` plants a bug and passes when it is found. What is said here is what
such tests did when they were run: a bug counts once, however many cases its test has, and only if all of them passed.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


class Collector:
    """A plugin of pytest that writes down the bugs and what became of them."""

    def __init__(self) -> None:
        self.bugs: dict[str, dict[str, Any]] = {}
        self._of: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep tests that plant a bug."""
        kept = [item for item in items if item.get_closest_marker("planted")]
        for item in kept:
            (bug,) = item.get_closest_marker("planted").args
            self._of[item.nodeid] = bug
            self.bugs.setdefault(bug, {"test": item.nodeid.partition("[")[0], "caught": True, "ran": False})
        items[:] = kept

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note whether the bug was caught."""
        found = self.bugs[self._of[report.nodeid]]
        found["ran"] |= report.when == "call"
        found["caught"] &= report.passed


def run(*, quick: bool = False, only_list: bool = False) -> dict[str, dict[str, Any]]:
    """Return every planted bug with its test and whether it was caught, in this process."""
    collector = Collector()
    wanted = ["-m", "planted and not slow" if quick else "planted", "-q", "-p", "no:cacheprovider", "--no-header"]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*wanted, *(["--collect-only"] if only_list else []), str(ROOT / "tests")], plugins=[collector])
    return collector.bugs


def caught_bugs(*, quick: bool = False) -> dict[str, dict[str, Any]]:
    """Return the same, run by a process of its own."""
    command = [sys.executable, "-m", "benchmarks.planted_bugs", *(["--quick"] if quick else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3000)
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure() -> dict[str, float]:
    """Return how many bugs were planted by quick tests, and how many of them were not caught."""
    found = caught_bugs(quick=True)
    caught = sum(each["caught"] and each["ran"] for each in found.values())
    return {"caught": float(caught), "missed": float(len(found) - caught)}


if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv, only_list="--list" in sys.argv)))
