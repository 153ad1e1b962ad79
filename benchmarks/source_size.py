"""How large the source is and how much of it one release passes: the lines of group `docs`.

    python -m benchmarks.source_size

A release is followed in this process by a profile function, which counts the files of the package with a function that
runs, without those that run at the first import only.
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import re
import subprocess
import sys
import time
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import TINY, sized
from sidelight.registry import ENTRIES

PACKAGE = Path(sl.__file__).parent
REPOSITORY = Path(__file__).parent.parent


def measure() -> dict[str, float]:
    """Return lines, files, doubled class names, files of two everyday releases, and parameters of the largest query."""
    found_files = sorted(PACKAGE.rglob("*.py"))
    files = sized(found_files, found_files[:20])
    found: dict[str, float] = {"files": len(files), **sizes(files)}
    found["class names twice"] = len(doubled(files))
    found["files of a grouped mean"] = len(files_of(_grouped_mean))
    found["files of a fit"] = len(files_of(_fit))
    counts = parameters()
    found["parameters of the largest query"] = max(counts.values())
    return found


def measure_bits() -> dict[str, float]:
    """Return how many reference cases release other bits than the stored ones."""
    if TINY:
        return {"changed": 0.0}
    test = "tests/test_reference_bits.py::test_reference_bits_are_unchanged"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", test], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return {"changed": 0.0}
    after = done.stdout.partition("reference bits have changed")[2].partition("\nE       assert ")[0]
    return {"changed": float(len(re.findall(r"^E +\S", after, re.MULTILINE))) or float("nan")}


def measure_minutes() -> dict[str, float]:
    """Return the minutes that the tests of `make test` take, on however idle a machine."""
    if TINY:
        return {"minutes": 0.0}
    start = time.perf_counter()
    done = subprocess.run(["make", "test"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    minutes = (time.perf_counter() - start) / 60
    return {"minutes": minutes if done.returncode == 0 else float("nan")}


def sizes(files: list[Path]) -> dict[str, float]:
    """Return the lines of all files, and of them those of code, of docstrings and comments, and blank ones."""
    kinds: Counter[str] = Counter()
    for path in files:
        text = path.read_text()
        lines = text.splitlines()
        words = _docstring_lines(text)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and not lines[token.start[0] - 1][: token.start[1]].strip():
                words.add(token.start[0])
        for number, line in enumerate(lines, start=1):
            kinds["words" if number in words else "code" if line.strip() else "blank"] += 1
    return {"lines": sum(kinds.values()), **kinds}


def _docstring_lines(text: str) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


def doubled(files: list[Path]) -> dict[str, list[str]]:
    """Return the class names that are defined in more than one place, with the files."""
    homes: dict[str, list[str]] = {}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    return {name: places for name, places in homes.items() if len(places) > 1}


def files_of(job: Callable[[], object]) -> set[str]:
    """Return the package's files with a function that runs during a job's second run."""
    seen: set[str] = set()

    def follow(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            seen.add(frame.f_code.co_filename)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        job()  # what is imported or remembered at the first time does not count
        sys.setprofile(follow)
        try:
            job()
        finally:
            sys.setprofile(None)
    return seen


def _grouped_mean() -> object:
    """A mean by group of a column without bounds."""
    rng = np.random.default_rng(1)
    data = {"job": rng.choice(["a", "b", "c"], 500), "pay": rng.lognormal(10, 1, 500)}
    table = sl.Table(data, schema=[sl.Category("job", ["a", "b", "c"]), sl.Number("pay")], name="people")
    return sl.Session(table, budget=sl.PureDP(2)).release(sl.Mean("pay", by="job", epsilon=1))


def _fit() -> object:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 3)) / 3
    model = sl.LogisticRegression(epsilon=1, delta=1e-6, data_norm=1, classes=[0, 1])
    return model.fit(x, (x[:, 0] > 0).astype(int))


def parameters() -> dict[str, int]:
    """Return how many parameters each public query and model takes."""
    names = {entry.name for entry in ENTRIES} | {
        "LinearRegression",
        "LogisticRegression",
        "LinearSVC",
        "PoissonRegressor",
    }
    found = {}
    for name in sorted(names):
        made: Any = sl
        for part in name.split("."):
            made = getattr(made, part, None)
        if inspect.isclass(made):
            found[name] = len(inspect.signature(made).parameters)
    return found


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
    print(dict(sorted(doubled(sorted(PACKAGE.rglob("*.py"))).items())))
    print(dict(sorted(parameters().items(), key=lambda each: -each[1])[:10]))
