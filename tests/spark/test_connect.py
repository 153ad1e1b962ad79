"""A frame of Spark Connect gives the releases of plain lists; its session has a process of its own."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


@pytest.mark.timeout(900)
@pytest.mark.skipif(
    find_spec("grpc") is None, reason='Connect is not installed: pip install "sidelight[spark-connect]"'
)
def test_a_connect_frame_gives_the_releases_of_plain_lists() -> None:
    script = Path(__file__).parent / "on_connect.py"
    found = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=800, check=False)
    assert "the same releases" in found.stdout, found.stderr[-2000:]
