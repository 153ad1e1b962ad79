"""The page asks for nothing, sends nothing and keeps nothing; what a hostile report adds to it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from sidelight.privacy_page import report_bound
from sidelight.privacy_page.page import privacy_page
from sidelight.readable import shown_text

pytestmark = pytest.mark.browser

Open = Callable[..., Any]
STORED = """async () => [localStorage.length, sessionStorage.length, document.cookie.length,
    (await indexedDB.databases()).length, (await caches.keys()).length,
    (await navigator.serviceWorker.getRegistrations()).length]"""


def use(page: Any) -> None:
    page.get_by_text("Paste a whole row").click()
    page.locator("#paste").fill("39,2.5,F,<=50K")
    page.get_by_label("age").fill("abc")
    page.get_by_label("age").fill("41")
    page.get_by_role("button", name="Show what it revealed").click()
    page.locator("#answer").wait_for()


@pytest.fixture
def served(small_report: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """The page on a local server, which writes down everything that it is asked for."""
    asked: list[str] = []
    page = privacy_page(small_report).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/page", asked
    server.shutdown()
    server.server_close()


def test_no_request_but_the_page_and_nothing_stored(
    opened: Open, small_report: dict[str, Any], served: tuple[str, list[str]]
) -> None:
    url, asked = served
    seen = opened(small_report, url=url)
    use(seen.page)
    seen.page.wait_for_timeout(300)
    assert seen.requests == [url]
    assert asked == ["/page"]
    assert seen.page.evaluate(STORED) == [0, 0, 0, 0, 0, 0]
    assert seen.page.context.storage_state() == {"cookies": [], "origins": []}
    assert seen.page.url == url  # nothing went into the address either
    assert seen.messages == []
    seen.page.reload()
    assert seen.page.get_by_label("age").input_value() == ""  # and the browser restores no input


def test_it_works_without_a_network(opened: Open, small_report: dict[str, Any]) -> None:
    seen = opened(small_report)
    seen.page.context.set_offline(True)
    seen.page.reload()
    use(seen.page)
    bound = report_bound(small_report, {"age": 41.0, "dose": 2.5, "sex": "F"}, "<=50K")
    assert float(seen.page.locator("#exact-bound").text_content()) == pytest.approx(bound, rel=1e-12)
    assert {url.partition(":")[0] for url in seen.requests} == {"file"}


def test_the_policy_stops_what_should_not_be_there(
    opened: Open, small_report: dict[str, Any], served: tuple[str, list[str]]
) -> None:
    """The control: everything smuggled into the page is blocked, and reaches the server without the policy."""
    url, asked = served
    other = url.replace("/page", "/leak")
    smuggled = (
        f'<img src="{other}-image"><script>document.title = "changed"</script><iframe src="{other}-frame"></iframe>'
        f'<link rel="stylesheet" href="{other}-style"><b onclick="document.title=1" style="color:red">b</b></body>'
    )
    html = privacy_page(small_report).replace("</body>", smuggled)
    tries = f"""() => Promise.allSettled([fetch("{other}-fetch"), new Promise((done, failed) => {{
        const ask = Object.assign(new XMLHttpRequest(), {{ onload: done, onerror: failed }});
        ask.open("GET", "{other}-xhr");
        ask.send();
    }}), Promise.resolve(navigator.sendBeacon("{other}-beacon", "x"))])
        .then((found) => found.map((each) => each.status))"""
    seen = opened(html)
    assert seen.page.title() == "What did this release reveal about you?"
    assert seen.page.evaluate(tries)[:2] == ["rejected", "rejected"]
    seen.page.wait_for_timeout(300)
    assert asked == []
    assert all("Content Security Policy" in message or "violates" in message for message in seen.messages)
    assert len(seen.messages) >= 5
    start = html.index('<meta http-equiv="Content-Security-Policy"')
    unguarded = html[:start] + html[html.index(">", start) + 1 :]
    again = opened(unguarded)
    again.page.evaluate(tries)
    again.page.wait_for_timeout(300)
    assert again.page.title() == "changed"
    assert {f"/leak-{way}" for way in ("image", "style", "frame", "fetch", "xhr", "beacon")} <= set(asked)


HOSTILE = [
    "</script><script>document.title='changed'</script>",
    "<img src=x onerror=\"document.title='changed'\">",
    "<!--<script>",
    "\u2028\u2029'\"`${document.title='changed'}",
    "]]>&lt;b&gt;",
]


def test_a_hostile_report_is_shown_as_text(opened: Open, small_report: dict[str, Any]) -> None:
    small_report["encoding"]["features"] = [{"name": name, "lo": 0, "hi": 1} for name in HOSTILE] + [
        {"name": "__proto__", "levels": ["constructor", "</select><script>document.title='changed'</script>"]}
    ]
    small_report["encoding"]["label"] = {"negative": "<b>no</b>", "positive": "</option></select><i>yes</i>"}
    small_report["theta"] = [0.1] * 8
    seen = opened(small_report)
    shown = [label.text_content() for label in seen.page.locator("#fields label").all()]
    assert shown == [*map(shown_text, HOSTILE), "__proto__"]
    assert seen.page.locator("#fields img, #fields b, #fields script, #outcome b, #outcome i").count() == 0
    assert seen.page.locator("script").count() == 2
    for place in range(len(HOSTILE)):
        seen.page.locator(f"#f{place}").fill("0.5")
    seen.page.locator("#f5").select_option(index=2)
    seen.page.locator("#outcome-field").select_option(index=2)
    row = [0.5] * 5 + [small_report["encoding"]["features"][5]["levels"][1]]
    wanted = report_bound(small_report, row, "</option></select><i>yes</i>")
    assert float(seen.page.locator("#exact-bound").text_content()) == pytest.approx(wanted, rel=1e-12)
    seen.page.locator("#f0").fill("<img src=x onerror=alert(1)>")
    assert "is not a number" in seen.text("#f0-trouble")
    assert seen.page.title() == "What did this release reveal about you?"
    assert seen.messages == []
    assert len(seen.requests) == 1
