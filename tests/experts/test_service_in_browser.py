"""The live page in a real browser: updates, no foreign requests, width of a phone."""

from __future__ import annotations

import threading
import time

import httpx
import pytest
import uvicorn
from service_fixtures import *  # noqa: F403 - fixtures
from service_fixtures import NAMES, made_reports

from sidelight.experts.service.app import service_app

pytestmark = pytest.mark.browser


@pytest.fixture
def page(the_browser):
    page = the_browser.new_page(viewport={"width": 390, "height": 800})
    yield page
    page.close()


@pytest.fixture
def url(plan, tokens):
    server = uvicorn.Server(uvicorn.Config(service_app(plan), port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def until(page, condition):
    for _ in range(100):  # wait_for_function is forbidden by the page's own policy
        if condition():
            return
        page.wait_for_timeout(200)
    raise AssertionError("the page did not follow")


def test_the_page_follows_the_rounds(page, url, plan, tokens):
    reports = made_reports(plan.reporting, 3)
    seen, errors = [], []
    page.on("request", lambda request: seen.append(request.url))
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url)
    assert "0 of 4 reports received" in page.inner_text("#now")
    assert page.inner_text("#left").startswith(("59:", "01:00:00"))

    def send(name):
        headers = {"Authorization": f"Bearer {tokens[name]}", "Content-Type": "application/json"}
        assert httpx.post(f"{url}/v1/reports", content=reports[1, name].to_json(), headers=headers).status_code == 201

    send("a")
    until(page, lambda: "1 of 4" in page.inner_text("#now"))
    for name in NAMES[1:]:
        send(name)
    until(page, lambda: page.title().startswith("Round 2"))
    page.click("summary")
    page.wait_for_timeout(2500)  # a refresh later the table is still open
    assert page.is_visible("td >> text='4 of 4'")
    assert errors == []
    assert all(address.startswith(url) or address == "data:," for address in seen)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
