"""Identities from a trusted proxy, and the metrics for operators."""

from __future__ import annotations

import re
import socket

import httpx
import pytest

from analyst_server import serving, tokens_of, undropped, write_survey
from sidelight.errors import PlanError
from sidelight.server.config_file import read_config

PROXY = """proxy = {header = "X-Auth-Request-Email", secret_file = "proxy.secret", addresses = ["127.0.0.1/32"]}
names = {"ada@example.org" = "ada"}
"""
SECRET = "a secret of the proxy, 32 bytes."
GOOD = [("X-Auth-Request-Email", "ada@example.org"), ("X-Sidelight-Proxy", SECRET)]


def proxied(folder, *, addresses="127.0.0.1/32"):
    file = write_survey(folder)
    (folder / "proxy.secret").write_text(SECRET + "\n")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    text = file.read_text().replace('audit = "audit.jsonl"\n', f'audit = "audit.jsonl"\n{PROXY}')
    text = text.replace("port = 0", f'port = 0\nadmin = "127.0.0.1:{port}"').replace("127.0.0.1/32", addresses)
    file.write_text(text)
    return file, port


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    pytest.importorskip("uvicorn")
    file, port = proxied(tmp_path_factory.mktemp("proxied"))
    token = tokens_of(file)["bob"]
    with serving(file) as (url, _):
        yield url, f"http://127.0.0.1:{port}", token


def me(url, headers):
    return httpx.get(f"{url}/v1/me", headers=headers, timeout=60)


def test_a_proxy_names_the_analyst(behind):
    url, _, token = behind
    assert me(url, GOOD).json()["analyst"] == "ada"
    bearer = ("Authorization", f"Bearer {token}")
    assert me(url, [bearer]).json()["analyst"] == "bob"
    assert me(url, [bearer, *GOOD]).json()["analyst"] == "ada"  # judged by what the proxy says


@pytest.mark.parametrize(
    "headers",
    [
        GOOD[:1],
        GOOD[1:],
        [GOOD[0], ("X-Sidelight-Proxy", "another secret, of 32 bytes too.")],
        [GOOD[0], *GOOD],
        [*GOOD, GOOD[1]],
        [("X-Auth-Request-Email", "eve@example.org"), GOOD[1]],
        [("X-Auth-Request-Email", "ada"), GOOD[1]],
        [("X-Auth-Request-Email", ""), GOOD[1]],
    ],
    ids=["no secret", "no name", "wrong secret", "name twice", "secret twice", "unknown", "an analyst's own", "empty"],
)
def test_forged_headers_are_refused_and_not_anonymous(behind, headers):
    url, _, token = behind
    for more in ([], [("Authorization", f"Bearer {token}")]):  # nor is a right token taken then
        assert me(url, [*headers, *more]).status_code in (401, 429)


def test_metrics_count_and_tell_nothing_of_rows(behind):
    url, admin, token = behind
    body = {"query": {"kind": "count", "by": ["job"], "epsilon": "0.05"}}
    key = {"Idempotency-Key": "by proxy", "Prefer": "wait=20"}
    sent = {"json": body, "headers": [*GOOD, *key.items()], "timeout": 60}
    paid = undropped(lambda: httpx.post(f"{url}/v1/tables/people/releases", **sent))
    assert paid.json()["state"] == "released", paid.text
    page = httpx.get(f"{admin}/metrics", timeout=60)
    assert page.headers["content-type"] == "text/plain; version=0.0.4"
    assert 'sidelight_budget_spent{table="people"} 0.05' in page.text
    assert 'sidelight_releases_total{table="people",state="released"} 1' in page.text
    assert re.search(r'requests_total\{route="/v1/me",status="401"\} \d+', page.text)
    assert re.search(r'refusals_total\{code="token"\} \d+', page.text)
    assert not re.search("second|duration|memory|bytes|rows|exit", page.text)
    assert token not in page.text
    assert httpx.get(f"{admin}/", timeout=60).status_code == 404
    assert httpx.get(f"{admin}/metrics", headers={"Host": "evil.example"}, timeout=60).status_code == 404
    assert httpx.get(f"{url}/metrics", headers=GOOD, timeout=60).status_code == 404  # never on the public address


@pytest.mark.planted("a header that is believed from any address")
def test_the_header_counts_from_the_proxy_alone(tmp_path):
    file, _ = proxied(tmp_path, addresses="10.0.0.2/32")
    from starlette.requests import Request

    from sidelight.server.proxy_identity import TrustedProxy
    from sidelight.wire import ProblemError

    config = read_config(file)
    assert config.proxy is not None
    proxy = TrustedProxy(config.proxy)
    for address, answered in (("10.0.0.2", True), ("127.0.0.1", False)):
        headers = [(name.lower().encode(), value.encode()) for name, value in GOOD]
        request = Request({"type": "http", "headers": headers, "client": (address, 1)})
        assert proxy.speaks(request)
        try:
            found = proxy.holder(request, now=0.0).analyst == "ada"
        except ProblemError:
            found = False
        assert found is answered


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"ada@example.org" = "ada"', '"ada@example.org" = "eve"', "names maps"),
        ("127.0.0.1/32", "somewhere", "is not a network"),
        ("X-Auth-Request-Email", "X Auth", "header is the name"),
        ("proxy = {", "proxies = {", "unknown key"),
    ],
)
def test_mistakes_about_the_proxy_are_refused(tmp_path, old, new, message):
    file, _ = proxied(tmp_path)
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(PlanError, match=message):
        read_config(file)
