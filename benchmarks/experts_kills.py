"""The experts service killed 50 times at random points: failures of the test that compares it with a run in one go.

The test looks for a report that was lost after its acknowledgement, one counted twice, and any other action or sum.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.measuring import sized

#: A tiny run finds the test.
ONLY = sized((), ("--collect-only",))
TEST = "tests/experts/test_service_kill.py::test_fifty_kills_change_nothing"


def measure() -> dict[str, float]:
    """Return the number of failures, 0 or 1; raise if the test did not run."""
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", *ONLY, TEST], cwd=root, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"the test did not run: {done.stdout[-300:]}")
    return {"failures": float(done.returncode)}


if __name__ == "__main__":
    print(measure())
