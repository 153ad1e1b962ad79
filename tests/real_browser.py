"""Chromium for the tests in a browser: found, or the tests are skipped. `make browser` installs it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
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


def found_chromium() -> str | None:
    """Return the path of Chromium, or None where there is none."""
    return os.environ.get("SIDELIGHT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium."""
    return chromium_or_skip()


def chromium_or_skip() -> str:
    """Return the path of Chromium; without one, skip and say what to do. Tests install nothing."""
    if (found := found_chromium()) is None:
        pytest.skip("no Chromium on PATH: `make browser` installs Debian's, or set SIDELIGHT_CHROMIUM to its path")
    return found


@pytest.fixture(scope="module")
def the_browser(chromium: str) -> Iterator[Any]:
    """One browser for a file of tests: while it is open, no other can be. Its contexts have profiles of their own."""
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()
