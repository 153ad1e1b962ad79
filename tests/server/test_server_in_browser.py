"""The page of a server in a real browser: sign in, price, ask, wait; nothing from elsewhere, nothing as markup."""

from __future__ import annotations

import os

import pytest
from server_fixtures import *  # noqa: F403 - fixtures

from real_browser import chromium, the_browser  # noqa: F401 - fixtures

pytestmark = pytest.mark.browser


def until(page, condition):
    for _ in range(150):
        if condition():
            return
        page.wait_for_timeout(100)
    raise AssertionError("the page did not follow")


def test_an_analyst_asks_on_the_page(live, the_browser):  # noqa: F811
    page = the_browser.new_page(viewport={"width": 1000, "height": 1100})
    seen, errors = [], []
    page.on("request", lambda request: seen.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(live.url)
    page.fill("#token", live.tokens["ada"])
    page.press("#token", "Enter")
    until(page, lambda: page.is_visible("#ask"))
    assert "ada" in page.inner_text("#title")
    assert page.input_value("#token") == ""
    assert "ε = 3" in page.inner_text("#promise")
    page.fill("#query", '{"kind": "count", "by": ["job"], "epsilon": "0.05", "where": "job = \'<img src=x>\'"}')
    page.fill("#query", '{"kind": "count", "by": ["job"], "epsilon": "0.05"}')
    until(page, lambda: "leaves epsilon 0.95" in page.inner_text("#price"))
    page.click("#dry")
    until(page, lambda: page.is_visible("#answer"))
    assert "NOT PRIVATE" in page.inner_text("#band")
    page.click("#release")
    until(page, lambda: "released" in page.inner_text("#wait"))
    assert page.inner_text("#band") == ""
    assert '"ledger_head"' in page.inner_text("#outcome")
    until(page, lambda: "released" in page.inner_text("#past"))
    assert errors == []
    assert all(each.startswith(live.url) for each in seen)
    assert not any("sl_" in each for each in seen)
    assert page.evaluate("[document.cookie, localStorage.length, sessionStorage.length].join()") == ",0,0"
    if target := os.environ.get("SIDELIGHT_SCREENSHOT"):
        page.screenshot(path=target, full_page=True)
    page.close()
