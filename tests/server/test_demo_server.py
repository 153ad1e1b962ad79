"""`make demo-server`: what it prints can be pasted, into a shell and into Python, and works."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from analyst_server import unless_busy
from sidelight.cli import demo_server


def test_what_the_demo_prints_can_be_pasted(tmp_path):
    pytest.importorskip("uvicorn")
    unless_busy(pasted, tmp_path)


def pasted(folder):
    folder.mkdir()
    (folder / "survey.toml").write_text(demo_server._FILE.replace("port = 8472", "port = 0").replace('"4 s"', '"8 s"'))
    process = subprocess.Popen(
        [sys.executable, "-m", "sidelight.cli.demo_server", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = []
        while not lines or not lines[-1].startswith("  curl"):
            lines.append(process.stdout.readline())
            assert lines[-1], "".join(lines)
        for _ in range(20):  # a busy machine drops a request uncharged, and the same key may be asked again
            found = subprocess.run(lines[-1], shell=True, capture_output=True, text=True, check=True)
            if json.loads(found.stdout)["state"] != "dropped":
                break
        assert json.loads(found.stdout)["state"] == "released"
        code = "".join(line.removeprefix("  ") for line in lines if line.startswith("  ") and "curl" not in line)
        code = code.replace("print(remote.release(", "print(remote.release(wait=False, query=")
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "leaves epsilon 0.8" in told.stdout, told.stderr
    finally:
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=120)[0]
    assert (process.returncode, said) == (0, "")
