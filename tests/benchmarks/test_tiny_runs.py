"""Every script of `benchmarks/` runs: on tiny sizes, where a name that changed breaks the build and no number later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def started(*arguments: str, root: Path = ROOT) -> dict[str, str]:
    """Run modules in a process of its own, which reads its sizes once; return what went wrong, by module."""
    path = os.pathsep.join([str(root), str(ROOT / "src"), str(ROOT)])
    command = [sys.executable, "-m", "benchmarks.tiny", *arguments]
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=1500, env=environment)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found, done.stderr[-2000:]
    assert done.returncode == int(any(each["wrong"] for each in found)), done.stderr[-2000:]
    return {each["module"]: each["wrong"] for each in found}


@pytest.mark.quick_cases(1)
@pytest.mark.timeout(1500)  # a minute of one core, on a machine that does nothing else
def test_every_script_runs() -> None:
    found = started()
    assert not {module: wrong for module, wrong in found.items() if wrong}
    assert len(found) > 150
    assert {"pate", "covariance_speed", "privacy_report", "figures.figure1", "peers.deciles"} <= set(found)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_every_script_that_takes_longer_runs() -> None:
    assert not {module: wrong for module, wrong in started("--long").items() if wrong}


def test_a_script_that_cannot_run_is_found(tmp_path: Path) -> None:
    """A name that is gone, an endless script, a program that nothing starts, and one that is right."""
    copy = tmp_path / "copied"
    (copy / "benchmarks" / "peers").mkdir(parents=True)
    for name in ("__init__", "tiny", "measuring", "target", "peers/__init__", "peers/environments"):
        (copy / "benchmarks" / f"{name}.py").write_bytes((ROOT / "benchmarks" / f"{name}.py").read_bytes())
    scripts = {
        "targets": "GROUPS = []",
        "right": "def main():\n    print('found')",
        "gone": "from sidelight.stability.pate import proposals as distance\ndef measure():\n    distance(1)",
        "endless": "def main():\n    while True:\n        pass",
        "unstarted": "if __name__ == '__main__':\n    print('here')",
    }
    for name, text in scripts.items():
        (copy / "benchmarks" / f"{name}.py").write_text(text + "\n", encoding="utf-8")
    found = started(root=copy)
    assert found["right"] == ""
    assert "not callable" in found["gone"]
    assert "measuring.sized" in found["endless"]
    assert "nothing starts it" in found["unstarted"]
