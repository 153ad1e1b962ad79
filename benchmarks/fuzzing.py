"""Random inputs for plan files, releases, ledgers, cells and the service, counted (`tests/audits/fuzz_targets.py`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measuring import sized

SECONDS = sized(10.0, 0.05)


def measure(*, seconds: float = SECONDS) -> dict[str, float]:
    """Return how many inputs were tried and how many kinds of defects were seen; each target runs for `seconds`."""
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "tests/audits/fuzz_targets.py", str(seconds)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60 + 10 * seconds, env=os.environ)
    if done.returncode != 0:
        raise RuntimeError(f"the fuzzing did not run: {done.stderr[-2000:]}")
    print(done.stderr, file=sys.stderr)
    return {name: float(count) for name, count in json.loads(done.stdout.splitlines()[-1]).items()}


if __name__ == "__main__":
    print(measure(seconds=float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS))
