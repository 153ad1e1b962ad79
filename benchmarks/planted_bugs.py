"""Every planted bug of the tests: found by its mark, planted now, and counted when it was caught.

    python -m benchmarks.planted_bugs [--quick] [--list]

A test with `@pytest.mark.planted("what is wrong")` plants a bug and passes when it is found. What is said here is what
such tests did when they were run: a bug counts once, however many cases its test has, and as caught only if all of them
passed. A bug that only slow tests plant is "not run" by `--quick`: neither caught nor missed. `of=("Count", "Mean")` in
the mark says whose bug it would be; without it, it is that of the query whose audit the file is.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measuring import TINY

ROOT = Path(__file__).resolve().parents[1]


class Collector:
    """A plugin of pytest that writes down the bugs and what became of them."""

    def __init__(self, *, quick: bool) -> None:
        self._quick = quick
        self.bugs: dict[str, dict[str, Any]] = {}
        self._of: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep tests that plant a bug; of the slow ones, where only quick ones are run, keep the name: not run."""
        planted = [item for item in items if item.get_closest_marker("planted")]
        for item in planted:
            mark = item.get_closest_marker("planted")
            (bug,) = mark.args
            self._of[item.nodeid] = bug
            whose = list(mark.kwargs.get("of", ()))
            self.bugs.setdefault(bug, {"test": item.nodeid.partition("[")[0], "of": whose, "outcome": "not run"})
        items[:] = [item for item in planted if not (self._quick and item.get_closest_marker("slow"))]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note what became of the bug: one case that misses it is enough to call it missed."""
        found = self.bugs[self._of[report.nodeid]]
        if report.failed:
            found["outcome"] = "missed"
        elif report.when == "call" and report.passed and found["outcome"] != "missed":
            found["outcome"] = "caught"


def files() -> list[str]:
    """Return the test files that have the mark."""
    return [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.planted(" in path.read_text()]


def planted_in(text: str) -> dict[str, tuple[str, ...]]:
    """Return the bugs of a test file and whose each is, read from its marks without running anything."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "planted":
            whose = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords}.get("of", ())
            if node.args and isinstance(node.args[0], ast.Constant):
                found[node.args[0].value] = tuple(whose)
    return found


def run(*, quick: bool = False, only_list: bool = False) -> dict[str, dict[str, Any]]:
    """Return every planted bug with its test and whether it was caught, in this process."""
    collector = Collector(quick=quick)
    wanted = ["-q", "-p", "no:cacheprovider", "--no-header"]
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        code = pytest.main([*wanted, *(["--collect-only"] if only_list else []), *files()], plugins=[collector])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):  # a file that cannot be read stops them all
        raise RuntimeError(f"the tests did not run: {told.getvalue()[-1000:]}")
    return collector.bugs


def caught_bugs(*, quick: bool = False) -> dict[str, dict[str, Any]]:
    """Return the same, run by a process of its own."""
    command = [sys.executable, "-m", "benchmarks.planted_bugs", *(["--quick"] if quick else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3000)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def counted(bugs: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Return how many bugs were caught, missed and not run."""
    outcomes = [each["outcome"] for each in bugs.values()]
    return {outcome: outcomes.count(outcome) for outcome in ("caught", "missed", "not run")}


def _listed() -> dict[str, dict[str, Any]]:
    """Return the bugs of the first file as not run, for tiny runs."""
    return {bug: {"outcome": "not run"} for bug in planted_in(Path(files()[0]).read_text())}


def measure() -> dict[str, float]:
    """Return how many planted bugs the quick tests caught, how many they missed, and how many only slow tests plant."""
    bugs = (
        caught_bugs(quick=True)
        if not TINY
        else {bug: {"outcome": "not run"} for bug in planted_in(Path(files()[0]).read_text())}
    )
    return {outcome: float(count) for outcome, count in counted(bugs).items()}


if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv, only_list="--list" in sys.argv)))
