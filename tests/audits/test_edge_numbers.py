"""No public number at an edge keeps a query from being priced or refused: nothing hangs before any data is there."""

from __future__ import annotations

import collections
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from edge_cases import CASES, QUERIES, outcome

#: Seconds that a price may take; far above the slowest, so that a busy machine does not matter.
PATIENCE = 60.0


class Worker:
    """A process that prices one case at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, case: int) -> str:
        """Return the outcome of a case, or "hangs"; the process is then given up."""
        process = self._process or subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("edge_cases.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"%d\n" % case)
        process.stdin.flush()
        if not select.select([process.stdout], [], [], PATIENCE)[0]:
            self.stop()
            return "hangs"
        answer = process.stdout.readline().decode().strip()
        if not answer:
            self.stop()
            return "died"
        return answer

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@pytest.mark.slow
def test_every_edge_is_priced_or_refused(record_property: Any) -> None:
    worker = Worker()
    try:
        found = {case: worker.ask(number) for number, case in enumerate(CASES)}
    finally:
        worker.stop()
    counts = collections.Counter(found.values())
    stuck = {case for case, answer in found.items() if answer in ("hangs", "died")}
    plain = len(CASES) - counts["priced"] - counts["refused"] - len(stuck)
    record_property(
        "audit",
        f"prices that never come: {len(CASES)} edge numbers of {len(QUERIES)} queries (0, 1, subnormal, infinite): "
        f"{counts['priced']} priced, {counts['refused']} refused, {plain} raised an error of Python; {len(stuck)} hung",
    )
    assert stuck == set()


@pytest.mark.parametrize("query", sorted(QUERIES))
def test_the_ordinary_numbers_are_priced(query: str) -> None:
    """Otherwise the walk above would see refusals only."""
    parameter = QUERIES[query][2][0]
    assert outcome((query, parameter, QUERIES[query][1][parameter])) == "priced"
