"""The page as a file: self-contained, with a policy that names exactly its own style and script, and in the package."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import real_browser
from sidelight.errors import SchemaError
from sidelight.privacy_page.page import SCRIPTS, embedded, privacy_page


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def parts(page: str) -> tuple[str, str, str, str]:
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    (style,) = re.findall(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    (report,) = re.findall(r'<script type="application/json" id="report">(.*?)</script>', page, flags=re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    return policy.replace("&#39;", "'"), style, report, script


def test_the_policy_allows_this_style_and_script_only(small_report: dict[str, Any]) -> None:
    policy, style, _, script = parts(privacy_page(small_report))
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";")}
    assert rules == {
        "default-src": ["'none'"],
        "script-src": [hash_of(script)],
        "style-src": [hash_of(style)],
        "connect-src": ["'none'"],
        "img-src": ["'none'"],
        "font-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    assert "unsafe" not in policy


def test_nothing_is_loaded_and_no_interface_that_could_send_or_store_is_named(small_report: dict[str, Any]) -> None:
    page = privacy_page(small_report)
    _, style, _, script = parts(page)
    assert not re.search(r"\s(src|href|action|style|on\w+)=", page)
    assert "@import" not in style
    assert "url(" not in style
    addresses = set(re.findall(r"\w+://[^\s\"'`]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the XML namespace of SVG, which is never fetched
    for word in (
        "fetch",
        "XMLHttpRequest",
        "WebSocket",
        "EventSource",
        "sendBeacon",
        "RTCPeerConnection",
        "Worker",
        "localStorage",
        "sessionStorage",
        "indexedDB",
        "cookie",
        "caches",
        "location",
        "history",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval",
        "Function(",
        "import(",
        "postMessage",
    ):
        assert word not in script, word


def test_the_report_is_inside_as_it_was_published(small_report: dict[str, Any]) -> None:
    _, _, report, _ = parts(privacy_page(json.dumps(small_report)))
    assert json.loads(report) == small_report


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "\u2028\u2029", "&lt;", "]]>", "\\u003c", '"}', "\x00"])
def test_what_is_embedded_cannot_leave_its_element(text: str) -> None:
    written = embedded({text: text})
    assert json.loads(written) == {text: text}
    assert not set(written) & set("<>&\u2028\u2029\x00")


def test_a_report_with_another_field_is_refused(small_report: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="true_losses"):
        privacy_page(small_report | {"true_losses": [0.1]})


def test_every_part_is_in_the_package_and_in_git() -> None:
    folder = files("sidelight.privacy_page").joinpath("template")
    names = {each.name for each in folder.iterdir()}
    assert names == {*SCRIPTS, "page.css", "page.html"}
    root = Path(__file__).parents[2]
    if shutil.which("git") is None or not (root / ".git").exists():
        pytest.skip("not a git checkout")
    paths = [f"src/sidelight/privacy_page/template/{name}" for name in sorted(names)]
    ignored = subprocess.run(["git", "check-ignore", *paths], cwd=root, capture_output=True, text=True, check=False)
    assert ignored.stdout == ""


def test_without_a_browser_the_tests_are_skipped_and_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests install nothing: one make target does."""
    monkeypatch.delenv("SIDELIGHT_CHROMIUM", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(pytest.skip.Exception, match="make browser"):
        real_browser.chromium_or_skip()
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/chromium" if name == "chromium" else None)
    assert real_browser.chromium_or_skip() == "/usr/bin/chromium"
