"""The page of a report, opened in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from example_reports import published

from sidelight.privacy_page.page import privacy_page

__all__ = ["opened", "small_report"]


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
