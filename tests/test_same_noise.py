"""In CI a test draws the same noise in every run; other tests, and processes it starts, draw other noise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from same_noise import SameNoise
from sidelight.noise import OSEntropy

DRAWING = """
import pytest
from sidelight.noise import OSEntropy

@pytest.fixture(scope="module")
def shared():
    return OSEntropy().read(8)

@pytest.mark.parametrize("case", [0, 1])
def test_draws(shared, case):
    print("drawn", shared.hex(), OSEntropy().read(8).hex())
"""


def drawn(name: str, entropy: SameNoise) -> bytes:
    with entropy.of(name):
        return entropy.read(OSEntropy(), 16)


def test_a_name_has_one_stream_and_others_have_others() -> None:
    noise = SameNoise()
    with noise.of("a"):
        first = noise.read(OSEntropy(), 16)
        assert drawn("b", noise) == drawn("b", SameNoise()) != first
        second = noise.read(OSEntropy(), 16)  # goes on where it was
    assert second not in (first, drawn("b", noise))
    assert drawn("a", SameNoise()) == first


def test_a_child_draws_noise_of_its_own() -> None:
    noise = SameNoise()
    with noise.of("a"):
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            os.write(theirs, noise.read(OSEntropy(), 16))
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(ours, 16) != noise.read(OSEntropy(), 16)


@pytest.mark.parametrize("ci", ["1", ""])
def test_runs_of_a_test_agree_in_ci_only(ci: str, tmp_path: Path) -> None:
    file = tmp_path / "test_drawing.py"
    file.write_text(DRAWING, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-s", "-q", "-p", "same_noise", "-p", "no:cacheprovider", str(file)]
    runs = [
        subprocess.run(
            command, cwd=tmp_path, env=os.environ | {"CI": ci}, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    lines = [[line for line in run.splitlines() if "drawn" in line] for run in runs]
    assert all(len(set(each)) == 2 for each in lines)
    assert (lines[0] == lines[1]) is (ci == "1")
    assert OSEntropy().branding == "os"
