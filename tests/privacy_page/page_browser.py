"""Debian's Chromium for the tests of the page: found, or installed where that is allowed, or the tests are skipped."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from example_reports import published

from sidelight.privacy_page.page import privacy_page

__all__ = ["chromium", "opened", "small_report", "the_browser"]

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


@pytest.fixture(scope="session")
def the_browser(chromium: str) -> Iterator[Any]:
    """One browser for all tests; each test has a profile of its own that is thrown away."""
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Seen:
    """A page, every request it made and everything it complained about."""

    page: Any
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def text(self, place: str) -> str:
        return str(self.page.locator(place).inner_text())


@pytest.fixture
def opened(the_browser: Any, tmp_path: Path) -> Iterator[Callable[..., Seen]]:
    """Write the page of a report (or a given HTML text) to a file and open it."""
    contexts = []

    def open_page(report: dict[str, Any] | str, *, width: int = 900, scheme: str = "light", url: str = "") -> Seen:
        path = tmp_path / "page.html"
        path.write_text(report if isinstance(report, str) else privacy_page(report), encoding="utf-8")
        context = the_browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        seen = Seen(context.new_page())
        context.on("request", lambda request: seen.requests.append(request.url))
        seen.page.on("console", lambda message: seen.messages.append(message.text))
        seen.page.on("pageerror", lambda error: seen.messages.append(str(error)))
        seen.page.set_default_timeout(10_000)
        seen.page.goto(url or path.as_uri())
        return seen

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def small_report() -> dict[str, Any]:
    """The report of the published format's own example, with one more number."""
    report = published()
    age, sex = report["encoding"]["features"]
    dose = {"name": "dose", "lo": 0, "hi": 10, "outside": "reject"}
    encoding = report["encoding"] | {"features": [age, dose, sex], "data_norm": 1.2}
    return report | {"encoding": encoding, "theta": [0.12, 0.5, -0.4, 0.9, -1.1]}
