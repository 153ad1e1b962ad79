"""The report in a real browser: no requests, no errors, width of a phone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from report_fixtures import *  # noqa: F403 - fixtures

from sidelight.report import Report, write_report

pytestmark = pytest.mark.browser


@contextmanager
def opened(browser: Any, path: Path, *, width: int, scheme: str) -> Iterator[tuple[Any, list[str], list[str]]]:
    requests: list[str] = []
    messages: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    try:
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(path.as_uri())
        yield page, requests, messages
    finally:
        context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (360, "dark")])
def test_report_opens_quietly_and_fits(
    the_browser: Any, tmp_path: Path, full_report: Report, width: int, scheme: str
) -> None:
    path = write_report(full_report, tmp_path / "report.html")
    with opened(the_browser, path, width=width, scheme=scheme) as (page, requests, messages):
        assert requests == [path.as_uri()]
        assert page.locator("h1").inner_text() == "Ages and incomes"
        assert page.locator("article").count() == 5
        shown = "svg.narrow" if width < 640 else "svg.wide"
        hidden = "svg.wide" if width < 640 else "svg.narrow"
        assert page.locator(shown).first.is_visible()
        assert not page.locator(hidden).first.is_visible()
        for summary in page.locator("summary").all():
            summary.click()
        wide, seen = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= seen
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(17, 20, 27)" if scheme == "dark" else "rgb(247, 245, 240)")
        assert messages == []


def test_the_policy_stops_what_should_not_be_there(the_browser: Any, tmp_path: Path, full_report: Report) -> None:
    """The control: a script and a picture smuggled into the page are blocked, and the messages say so."""
    path = write_report(full_report, tmp_path / "report.html")
    smuggled = '<img src="https://example.invalid/a.png"><script>document.title = "changed"</script></body>'
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", smuggled), encoding="utf-8")
    with opened(the_browser, path, width=800, scheme="light") as (page, _, messages):
        assert page.title() == "Ages and incomes"
        assert len(messages) >= 2
        assert all("Content Security Policy" in message for message in messages)
