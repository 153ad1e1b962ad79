"""The page of a server in a real browser: sign in, price, ask, wait; nothing from elsewhere, nothing as markup."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from server_fixtures import *  # noqa: F403 - fixtures

import sidelight as sl
from real_browser import chromium, the_browser  # noqa: F401 - fixtures
from sidelight.group_table import GroupTable
from sidelight.release.page_numbers import page_numbers
from sidelight.testing import seeded_release

pytestmark = pytest.mark.browser


def until(page, condition):
    for _ in range(1200):  # a busy machine takes a while
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
    page.select_option("#kind", "count")
    page.check("#by input[value=job]")
    page.fill("#amount", "0.05")
    assert json.loads(page.input_value("#query")) == {"kind": "count", "by": ["job"], "epsilon": "0.05"}
    until(page, lambda: "leaves epsilon 0.95" in page.inner_text("#price"))
    assert "expected error" in page.inner_text("#price")
    page.click("#dry")
    until(page, lambda: page.is_visible("#answer"))
    assert "NOT PRIVATE" in page.inner_text("#band")
    for _ in range(20):  # one that a busy machine dropped was not paid
        page.evaluate("document.getElementById('wait').textContent = ''")
        page.click("#release")
        until(page, lambda: "The request is" in page.inner_text("#wait") and page.is_enabled("#release"))
        if "dropped" not in page.inner_text("#wait"):
            break
    assert "released" in page.inner_text("#wait")
    assert page.inner_text("#band") == ""
    assert '"ledger_head"' in page.text_content("#outcome")
    assert "PureDP (epsilon 0.05)" in page.inner_text("#guarantee")
    until(page, lambda: page.is_visible("#chart"))
    until(page, lambda: page.evaluate("document.getElementById('chart').naturalWidth") == 720)  # it was drawn
    assert "table below" in page.get_attribute("#chart", "alt")
    lines = page.inner_text("#numbers").splitlines()
    assert lines[1].split("\t")[:4] == ["job", "count", "low", "high"]
    assert [line.split("\t")[0] for line in lines[2:]] == ["cook", "nurse", "clerk", "other"]
    with page.expect_download() as saved:
        page.click("#save-numbers")
    assert Path(saved.value.path()).read_text().startswith('"job","count",')
    with page.expect_download() as saved:
        page.click("#save-report")
    assert "<html" in Path(saved.value.path()).read_text()
    page.click("#show-report")
    until(page, lambda: page.is_visible("#report"))
    frame = page.frame_locator("#report")
    until(page, lambda: "guarantee" in frame.locator("body").inner_text())
    assert page.get_attribute("#report", "sandbox") == ""  # nothing runs in it, and its origin is its own
    assert frame.locator("main").evaluate("each => getComputedStyle(each).maxWidth") != "none"  # its style is allowed
    until(page, lambda: "released" in page.inner_text("#past"))
    page.fill("#search", "histogram")
    assert page.inner_text("#found") == "0 of 1"
    page.fill("#search", "count by job")
    assert page.inner_text("#found") == "1 of 1"
    page.click("#past button:text('use as prediction')")
    assert list(json.loads(page.input_value("#query"))["prediction"]) == ["release"]
    page.click("#past button:text('show')")
    until(page, lambda: not page.is_visible("#same"))
    assert '"ledger_head"' in page.text_content("#outcome")
    assert errors == []
    assert all(each.startswith((live.url, "data:image/svg+xml,", "blob:")) for each in seen)
    assert not any("sl_" in each for each in seen)
    assert page.evaluate("[document.cookie, localStorage.length, sessionStorage.length].join()") == ",0,0"
    if target := os.environ.get("SIDELIGHT_SCREENSHOT"):
        page.screenshot(path=target, full_page=True)
    page.close()


def test_the_form_writes_what_the_schema_knows(live, the_browser):  # noqa: F811
    page = the_browser.new_page()
    page.goto(live.url)
    page.fill("#token", live.tokens["bob"])
    page.press("#token", "Enter")
    until(page, lambda: page.is_visible("#form"))
    kinds = page.eval_on_selector_all("#kind option", "all => all.map((each) => each.value)")
    assert kinds == ["count", "mean", "sum", "histogram", "quantiles", "summary", "sql"]  # what the table answers
    wanted = {
        "count": {},
        "mean": {"column": "age"},
        "histogram": {"column": "age", "bins": 10},
        "quantiles": {"column": "age", "levels": ["0.25", "0.5", "0.75"]},
        "sql": {"select": 'SELECT COUNT(*) FROM "people"'},
    }
    for kind, more in wanted.items():
        page.select_option("#kind", kind)
        assert json.loads(page.input_value("#query")) == {"kind": kind, **more, "epsilon": "0.05"}
        assert page.is_visible("#column") == ("column" in more)
        until(page, lambda: "costs epsilon 0.05" in page.inner_text("#price"))
        page.evaluate("document.getElementById('price').textContent = ''")
    page.select_option("#kind", "mean")
    page.fill("#where", "age >= 18")
    page.fill("#within", "5")
    page.click("#find")
    until(page, lambda: page.input_value("#amount") != "0.05")
    found = json.loads(page.input_value("#query"))
    assert (found["where"], found["epsilon"]) == ("age >= 18", page.input_value("#amount"))
    page.close()


SLOW_PRICES = """
  const real = window.fetch;
  window.delays = [];
  window.fetch = async (path, options) => {
    const delay = String(path).endsWith("/price") ? window.delays.shift() || 0 : 0;
    const answer = await real(path, options);
    await new Promise((done) => setTimeout(done, delay));
    return answer;
  };
"""


def test_the_price_that_is_confirmed_is_that_of_what_is_sent(live, the_browser):  # noqa: F811
    """An edit takes the old price away at once, and a late answer to an older query is not shown."""
    page = the_browser.new_page()
    page.add_init_script(SLOW_PRICES)
    confirmed = []
    page.on("dialog", lambda dialog: (confirmed.append(dialog.message), dialog.dismiss()))
    page.goto(live.url)
    assert page.is_disabled("#release")
    page.fill("#token", live.tokens["bob"])
    page.press("#token", "Enter")
    until(page, lambda: "costs epsilon 0.05" in page.inner_text("#price"))
    page.evaluate("window.delays = [3000]")
    page.fill("#query", '{"kind": "count", "epsilon": "0.01"}')
    assert (page.inner_text("#price"), page.is_disabled("#release")) == ("", True)
    until(page, lambda: page.evaluate("window.delays.length") == 0)  # it was asked for, and is answered late
    page.fill("#query", '{"kind": "count", "epsilon": "0.5"}')
    until(page, lambda: "costs epsilon 0.5," in page.inner_text("#price"))
    page.wait_for_timeout(4000)
    assert "costs epsilon 0.5," in page.inner_text("#price")
    page.click("#release")
    assert "costs epsilon 0.5," in confirmed.pop()
    page.fill("#query", '{"kind": "count", "epsilon": "0.02"}')
    page.evaluate("document.getElementById('release').onclick()")  # as a click that the button does not prevent
    until(page, lambda: "wait for the price" in page.inner_text("#problem"))
    until(page, lambda: "costs epsilon 0.02" in page.inner_text("#price"))
    assert confirmed == []
    page.close()


def test_the_page_draws_what_was_asked_for_and_nothing_as_markup(live, the_browser):  # noqa: F811
    """It rounded all numbers to six digits, and drew the table below a statement instead of what the statement asks."""
    page = the_browser.new_page()
    page.goto(live.url)
    columns = {"count": [1_234_563, 8], "count_noise_sd": [1, 1], "low": [1_234_561, 6], "high": [1_234_566, 9]}
    table = GroupTable(keys=["is_known"], groups=[("yes",), ("no\u202e<b>",)], columns=columns)
    release = seeded_release(sl.Count(epsilon=1), sl.Table({"x": [1]}, schema=[sl.Number("x")]), seed=1)
    outcome = replace(release, value=table)
    drawn = "([outcome, numbers]) => shown(outcome, true, numbers, '', '', null)"
    page.evaluate(drawn, [json.loads(outcome.to_json()), page_numbers(outcome, most_bytes=2**22)])
    cells = page.eval_on_selector_all(
        "#numbers tr", "rows => rows.map((row) => [...row.cells].map((each) => each.textContent))"
    )
    assert cells == [
        ["is known", "count", "low", "high"],
        ["yes", "1,234,563", "1,234,561", "1,234,566"],
        [r"no\u202e<b>", "8", "6", "9"],
    ]
    page.fill("#token", live.tokens["bob"])
    page.press("#token", "Enter")
    until(page, lambda: page.is_visible("#form"))
    select = "SELECT job, SUM(age) / COUNT(*) AS ratio FROM people GROUP BY job ORDER BY ratio DESC LIMIT 1"
    page.fill("#query", json.dumps({"kind": "sql", "select": select, "epsilon": "0.5"}))
    until(page, lambda: "costs epsilon 0.5" in page.inner_text("#price"))
    page.click("#dry")
    until(page, lambda: "ratio" in page.inner_text("#numbers"))
    assert page.evaluate("document.querySelectorAll('#numbers tbody tr').length") == 1
    with page.expect_download() as saved:
        page.click("#save-numbers")
    head, *lines = Path(saved.value.path()).read_text().splitlines()
    assert (head.split(",")[:2], len(lines)) == (['"job"', '"ratio"'], 1)
    page.close()


@pytest.mark.parametrize("lost", [1, 4])
def test_one_answer_is_charged_once_though_connections_are_lost(live, the_browser, lost):  # noqa: F811
    """The next click had a new key, which was charged again, and the error was gone after 300 milliseconds."""
    page = the_browser.new_page()
    page.on("dialog", lambda dialog: dialog.accept())
    keys, polls = [], []

    def on_the_way(route):
        request = route.request
        if request.method == "POST" and request.url.endswith("/releases"):
            keys.append(request.headers["idempotency-key"])
            if len(keys) <= lost:
                route.fetch()  # the server is asked, and its answer does not arrive
                route.abort("connectionreset")
                return
        elif len(request.url.rpartition("/")[2]) == 64:
            polls.append(request.url)
            if len(polls) == 1:
                route.fulfill(status=429, headers={"Retry-After": "1"}, json={"title": "Too many requests."})
                return
        route.continue_()

    page.route("**/v1/**", on_the_way)
    page.goto(live.url)
    page.fill("#token", live.tokens["cy"])
    page.press("#token", "Enter")
    until(page, lambda: page.is_visible("#form"))
    page.fill("#amount", f"0.0{lost}")
    until(page, lambda: f"costs epsilon 0.0{lost}" in page.inner_text("#price"))
    before = live.cy.get("/v1/tables/people").json()["remaining"]["epsilon"]
    page.click("#release")
    if lost == 4:
        until(page, lambda: "The connection was lost" in page.inner_text("#problem"))
        until(page, lambda: page.is_enabled("#release"))  # the price came, and leaves the error
        assert "charged once" in page.inner_text("#problem")
        page.click("#release")
    for _ in range(20):  # one that a busy machine dropped was not paid
        until(page, lambda: "The request is" in page.inner_text("#wait") and page.is_enabled("#release"))
        if "dropped" not in page.inner_text("#wait"):
            break
        page.evaluate("document.getElementById('wait').textContent = ''")
        page.click("#release")
    assert "released" in page.inner_text("#wait")
    assert page.inner_text("#problem") == ""
    assert len(keys) >= lost + 1
    assert len(set(keys[: lost + 1])) == 1
    after = live.cy.get("/v1/tables/people").json()["remaining"]["epsilon"]
    assert Decimal(before) - Decimal(after) == Decimal(f"0.0{lost}")
    count = len(keys)
    page.evaluate("document.getElementById('wait').textContent = ''")
    page.click("#release")  # what was read is asked anew
    until(page, lambda: "The request is" in page.inner_text("#wait"))
    assert keys[count] not in keys[:count]
    page.close()


def test_an_error_stays_until_the_next_action(live, the_browser):  # noqa: F811
    page = the_browser.new_page()
    page.on("dialog", lambda dialog: dialog.accept())
    refusal = {"title": "The request does not fit."}
    page.route("**/v1/tables/people/releases", lambda route: route.fulfill(status=422, json=refusal))
    page.goto(live.url)
    page.fill("#token", live.tokens["cy"])
    page.press("#token", "Enter")
    until(page, lambda: page.is_enabled("#release"))
    page.click("#release")
    until(page, lambda: page.inner_text("#problem") == "The request does not fit.")
    until(page, lambda: page.is_enabled("#release"))  # priced again
    page.wait_for_timeout(500)
    assert page.inner_text("#problem") == "The request does not fit."
    page.fill("#query", '{"kind": "count"')
    assert page.inner_text("#problem") == ""
    until(page, lambda: "JSON" in page.inner_text("#problem"))
    page.fill("#query", '{"kind": "count", "epsilon": "0.01"}')
    until(page, lambda: page.is_enabled("#release"))
    assert page.inner_text("#problem") == ""
    page.close()


def test_numbers_that_are_too_long_are_offered_as_json(live, the_browser):  # noqa: F811
    page = the_browser.new_page()
    page.goto(live.url)
    table = GroupTable(keys=["job"], groups=[("a" * 300,), ("b" * 300,)], columns={"count": [1, 2]})
    release = seeded_release(sl.Count(epsilon=1), sl.Table({"x": [1]}, schema=[sl.Number("x")]), seed=1)
    outcome = replace(release, value=table)
    drawn = "([outcome, numbers]) => shown(outcome, true, numbers, '', '', null)"
    for most, lines, csv in ((100, 0, False), (500, 1, False), (900, 2, False), (2000, 2, True)):
        page.evaluate("document.getElementById('ask').hidden = false")
        page.evaluate(drawn, [json.loads(outcome.to_json()), page_numbers(outcome, most_bytes=most)])
        assert page.evaluate("document.querySelectorAll('#numbers tbody tr').length") == lines
        caption = page.text_content("#numbers caption")
        assert ("all 2 are too long for a page and for CSV: save the release as JSON" in caption) == (not csv)
        assert ("the first" in caption) == (lines < 2)
        hidden = "name => document.getElementById(name).hidden"
        assert [page.evaluate(hidden, name) for name in ("scroll", "save-numbers", "save-outcome")] == [
            False, not csv, False
        ]  # fmt: skip
    page.close()


def axe() -> str:
    """Return the text of axe, which `make browser` fetches; without it the test is skipped."""
    given = os.environ.get("SIDELIGHT_AXE") or Path(__file__).parents[2] / "build" / "package" / "axe.min.js"
    if not Path(given).is_file():
        pytest.skip("no axe: `make browser` fetches it, or set SIDELIGHT_AXE to the path of axe.min.js")
    return Path(given).read_text(encoding="utf-8")


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1000])
def test_the_page_is_accessible(live, the_browser, colours, width):  # noqa: F811
    text = axe()
    context = the_browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=colours,
        bypass_csp=True,  # for axe, which is ours
    )
    page = context.new_page()
    page.goto(live.url)
    page.add_script_tag(content=text)
    found = page.evaluate("axe.run()")["violations"]
    page.fill("#token", live.tokens["bob"])
    page.keyboard.press("Enter")
    until(page, lambda: page.is_visible("#ask"))
    until(page, lambda: "leaves" in page.inner_text("#price"))
    page.focus("#kind")
    page.keyboard.press("ArrowDown")
    page.focus("#by input")
    page.keyboard.press("Space")
    until(page, lambda: '"job"' in page.input_value("#query"))
    page.focus("#dry")
    page.keyboard.press("Enter")  # the keyboard alone suffices
    until(page, lambda: page.is_visible("#answer"))
    found += page.evaluate("axe.run()")["violations"]
    assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    context.close()
