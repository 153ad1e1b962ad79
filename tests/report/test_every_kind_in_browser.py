"""A report with every kind of release is legible: nothing sticks out, no number is cut, no word breaks by letters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from every_kind import every_kind
from test_report_in_browser import opened

from sidelight.registry import PLAN_KINDS
from sidelight.report import write_report

pytestmark = pytest.mark.browser

#: Words of up to this number of letters must not be broken; longer ones (hashes, names of columns) may be.
WORD = 14

#: What is wrong with the page as it is laid out: texts with the place where they were found.
FAULTS = """
(longest) => {
  const faults = [], seen = window.innerWidth;
  const name = (node) => `${node.tagName}.${node.getAttribute("class") || ""} ${node.textContent.trim().slice(0, 40)}`;
  for (const node of document.querySelectorAll("main *")) {
    const box = node.getBoundingClientRect();
    if (!box.width || node.closest("svg") !== null && node.tagName !== "svg") continue;
    if (box.right > seen + 0.5 || box.left < -0.5) faults.push(`outside: ${name(node)}`);
    const holder = node.parentElement.closest(".card, .scroll, .uses");
    if (holder && box.right > holder.getBoundingClientRect().right + 0.5) faults.push(`sticks out: ${name(node)}`);
    if (node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).display !== "inline")
      faults.push(`cut: ${name(node)}`);
  }
  for (const text of document.querySelectorAll("main svg text")) {
    const box = text.getBoundingClientRect(), frame = text.closest("svg").getBoundingClientRect();
    if (!box.width) continue;
    if (box.left < frame.left - 0.5 || box.right > frame.right + 0.5 || box.bottom > frame.bottom + 1)
      faults.push(`cut in a chart: ${text.textContent}`);
  }
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.parentElement.closest("svg, code")) continue;
    for (const match of node.data.matchAll(/[^\\s\\-\\u2013_/]+/g)) {
      if (match[0].length > longest) continue;
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (tops.size > 1) faults.push(`broken: ${match[0]} in ${name(node.parentElement)}`);
    }
  }
  return faults;
}
"""


@pytest.fixture(scope="module")
def page_path(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    del chromium  # skips before anything is computed
    folder = tmp_path_factory.mktemp("every_kind")
    return write_report(every_kind(folder), folder / "report.html")


def faults(page: Any) -> list[str]:
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    found: list[str] = page.evaluate(FAULTS, WORD)
    return found


@pytest.mark.parametrize(("width", "scheme"), [(1600, "light"), (900, "dark"), (360, "dark"), (360, "light")])
def test_every_kind_is_legible(the_browser: Any, page_path: Path, width: int, scheme: str) -> None:
    with opened(the_browser, page_path, width=width, scheme=scheme) as (page, _, messages):
        heights = page.evaluate("[...document.querySelectorAll('article')].map((card) => card.offsetHeight)")
        assert len(heights) == len(PLAN_KINDS)
        # what is long is folded: the tallest card is that of the synthetic table, with its pictures
        assert max(heights) < (1500 if width > 640 else 2300)
        assert faults(page) == []
        assert messages == []


@pytest.mark.parametrize(
    ("style", "fault"),
    [
        ("tbody th { min-width: 0 !important; max-width: 2em; overflow-wrap: anywhere; }", "broken: "),
        (".quantiles td { min-width: 40em; }", "cut: "),
        (".chip { white-space: nowrap; min-width: 30em; }", "outside: "),
        ("svg text { font-size: 30px !important; }", "cut in a chart: "),
    ],
)
def test_the_check_finds_what_it_looks_for(
    the_browser: Any, tmp_path: Path, page_path: Path, style: str, fault: str
) -> None:
    """The control: letter by letter, as tables once were, and three ways in which something is cut off."""
    broken = tmp_path / "broken.html"
    page_text = page_path.read_text(encoding="utf-8")
    broken.write_text(page_text.replace("</style>", f"{style}\n</style>", 1), encoding="utf-8")
    with opened(the_browser, broken, width=360, scheme="light") as (page, _, _):
        assert any(each.startswith(fault) for each in faults(page))


def test_it_prints_in_black_on_white_without_a_cut(the_browser: Any, page_path: Path) -> None:
    with opened(the_browser, page_path, width=900, scheme="dark") as (page, _, _):
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert faults(page) == []
