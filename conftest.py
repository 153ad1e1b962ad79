"""How all tests run: examples in an empty folder of their own, generated cases without a clock, the same ones in CI.

And on one thread each: tests run in as many processes as there are cores, their matrices are small, and threads that
wait for each other were most of what some of them cost. Libraries read this when they are loaded.

And without the real data sets of benchmarks, which may lie next to a clone: what a test sees is the same everywhere.

And without a garbage collector that looks at thousands of collected tests again and again: they live as long as the run
does, and were a third of what it took to collect them.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

os.environ["SIDELIGHT_DATA"] = os.devnull

#: What several folders of tests share is found by the processes that tests start, too.
_SHARED = str(Path(__file__).parent / "tests")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), _SHARED]))

# A loaded machine is no defect; and CI judges a change by the same cases every time (`make test` looks for new ones).
settings.register_profile("sidelight", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "sidelight")

#: One way to a browser for all tests that want one, the choice of cases for `make test`, and their noise in CI.
pytest_plugins = ["real_browser", "quick_cases", "same_noise"]

#: Fixtures hold no examples, and several files of one name cannot be searched for examples together.
collect_ignore_glob = ["tests/*/conftest.py"]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect tests without the garbage collector, and leave what was collected out of its sight while tests run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # libraries that count their objects at the end of a process find none left over


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path | None]:
    if not isinstance(request.node, pytest.DoctestItem):
        yield None
        return
    folder = tmp_path_factory.mktemp("example")
    monkeypatch.chdir(folder)
    yield folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line for each class of defect that an audit hunted: what it tried and what it found.

    An audit says so with `record_property("audit", "class: what was tried; what was found")`.
    """
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]
    lines = sorted({text for report in reports for name, text in report.user_properties if name == "audit"})
    if lines:
        terminalreporter.section("audits")
        for line in lines:
            terminalreporter.write_line(line)
