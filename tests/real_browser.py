"""Chromium for the tests in a browser: found, or Debian's installed where that is allowed, or the tests are skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium"]


def found_chromium() -> str | None:
    return os.environ.get("SIDELIGHT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def installed_chromium() -> str:
    """Find Chromium; install Debian's where this process may, else skip and say why."""
    import fcntl  # not on every system, and wanted by few tests

    if (found := found_chromium()) is not None:
        return found
    if os.environ.get("SIDELIGHT_INSTALL_CHROMIUM") == "0":
        pytest.skip("no Chromium on PATH, and SIDELIGHT_INSTALL_CHROMIUM=0 forbids installing it")
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        pytest.skip("no Chromium on PATH, and only root can install it by apt-get; set SIDELIGHT_CHROMIUM to its path")
    with (Path(tempfile.gettempdir()) / "sidelight-install-chromium").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker installs, the others wait and then find it
        if found_chromium() is None:
            try:
                subprocess.run(INSTALL, check=True, capture_output=True, timeout=200)
            except (OSError, subprocess.SubprocessError) as error:
                pytest.skip(f"no Chromium on PATH, and apt-get could not install it ({type(error).__name__})")
    if (found := found_chromium()) is None:
        pytest.skip("apt-get installed Chromium, but it is not on PATH; set SIDELIGHT_CHROMIUM to its path")
    return found


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium."""
    return installed_chromium()


@pytest.fixture(scope="module")
def the_browser(chromium: str) -> Iterator[Any]:
    """One browser for a file of tests: while it is open, no other can be. Its contexts have profiles of their own."""
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()
