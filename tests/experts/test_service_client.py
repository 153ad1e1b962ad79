"""The client: the same bytes until they are acknowledged, nothing charged for a service with other terms."""

from __future__ import annotations

import json

import httpx
import pytest
from service_fixtures import *  # noqa: F403 - fixtures
from starlette.testclient import TestClient

import sidelight as sl
from sidelight import web as http_service
from sidelight.errors import BudgetError, MissingPackageError, RangeError
from sidelight.experts import Receipt, Reporter, Reporting
from sidelight.experts.service.answers import terms_json
from sidelight.experts.service.app import service_app
from sidelight.ledger import open_ledger
from sidelight.testing import SeededEntropy


@pytest.fixture
def reporter(plan):
    with open_ledger("sqlite://", testing=True) as ledger:
        yield Reporter("a", plan.reporting, ledger=ledger, entropy=SeededEntropy("client"))


class Network(httpx.BaseTransport):
    """Hands requests to an application, loses some answers, and remembers the bodies that were sent."""

    def __init__(self, inner, lose=()):
        self.inner = inner
        self.lose = list(lose)
        self.bodies = []

    def handle_request(self, request):
        if request.method == "POST":
            self.bodies.append(bytes(request.content))
            if self.lose:
                kind = self.lose.pop(0)
                if kind == "before":
                    raise httpx.ConnectError("lost")
                answer = self.inner(request)
                if kind == "after":
                    raise httpx.ReadError("lost")
                if isinstance(kind, int):
                    return httpx.Response(kind, json={"code": "storage", "message": "", "open_round": None})
                return answer
        return self.inner(request)


@pytest.fixture
def network(plan, tokens):
    with TestClient(service_app(plan)) as service:

        def inner(request):
            answer = service.request(
                request.method, request.url.raw_path.decode(), content=request.content, headers=dict(request.headers)
            )
            return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)

        yield Network(inner)


def client_of(tokens, reporter, network, **rest):
    return sl.experts.Client("http://127.0.0.1:1", tokens["a"], reporter=reporter, transport=network, **rest)


def test_a_resend_is_the_same_bytes_and_counts_once(tokens, reporter, network):
    network.lose = ["before", "after", 503, "after"]
    with client_of(tokens, reporter, network) as client:
        assert client.report(1, [0.1, 0.5, 0.2]) is Receipt.DUPLICATE  # an earlier answer was lost on the way
        assert client.report(1, [0.9, 0.9, 0.9]) is Receipt.DUPLICATE  # the report of round 1 is made
        assert client.open_round().reports == 1
    assert len(network.bodies) == 6
    assert len(set(network.bodies)) == 1  # the same noise, the same nonce
    assert reporter.rounds_left == 39


def test_late_early_and_conflicting_reports_are_receipts(tokens, reporter, network):
    with client_of(tokens, reporter, network) as client:
        assert client.report(2, None) is Receipt.EARLY
        assert client.report(1, None) is Receipt.ACCEPTED
        entropy = SeededEntropy("another")
        with open_ledger("sqlite://", testing=True) as ledger:
            other = Reporter("a", reporter.reporting, ledger=ledger, entropy=entropy)
            assert client.send(other.report(1, None)) is Receipt.CONFLICT
        with pytest.raises(BudgetError):
            client.report(41, None)


def test_other_terms_cost_nothing(tokens, network, plan):
    terms = Reporting.from_json(plan.reporting.to_json() | {"mu": "2"})
    with open_ledger("sqlite://", testing=True) as ledger:
        reporter = Reporter("a", terms, ledger=ledger, entropy=SeededEntropy("client"))
        with client_of(tokens, reporter, network) as client:
            with pytest.raises(sl.experts.ServiceError, match=r"other terms .* \(mu\)") as caught:
                client.report(1, None)
            assert caught.value.code == "other_terms"
        assert reporter.rounds_left == 40
    assert network.bodies == []


def test_refusals_keep_their_code(tokens, reporter, network):
    client = sl.experts.Client("http://localhost:1", "sl_a_b", reporter=reporter, transport=network)
    with client, pytest.raises(sl.experts.ServiceError) as caught:
        client.report(1, None)
    assert caught.value.code == "unknown_token"
    assert len(network.bodies) == 1  # nothing to gain by trying again


def test_patience_ends_and_the_report_stays(tokens, reporter, network):
    network.lose = ["before"] * 100
    with client_of(tokens, reporter, network, patience=0.3) as client:
        with pytest.raises(sl.experts.ServiceError, match="can be sent again") as caught:
            client.report(1, [0.1, 0.2, 0.3])
        assert caught.value.code == "unreachable"
        network.lose = []
        assert client.report(1, None) is Receipt.ACCEPTED
    assert len(set(network.bodies)) == 1


def test_a_password_of_the_address_is_never_shown(reporter):
    url = "https://ann:secret@dp.example.org:8443/survey?key=secret"
    with sl.experts.Client(url, "sl_a_b", reporter=reporter) as client:
        for text in (repr(client), str(client)):
            assert "https://ann:***@dp.example.org:8443/survey" in text
            assert "secret" not in text
    for url in ("https://ann:secret@host:port", "https://ann:se/secret@host", "https://ann:secret@[host", "x@\0secret"):
        with pytest.raises(RangeError, match="not shown because a password may stand there") as caught:
            sl.experts.Client(url, "sl_a_b", reporter=reporter)
        assert "secret" not in str(caught.value)
    with pytest.raises(RangeError, match="got 'https://host:port'"):
        sl.experts.Client("https://host:port", "sl_a_b", reporter=reporter)


def test_tokens_stay_out_of_the_clear_and_do_not_follow(tokens, reporter, plan):
    for url in ("http://example.org", "ftp://127.0.0.1", "127.0.0.1:80", "http://127.0.0.1.example.org"):
        with pytest.raises(RangeError, match=r"url|in the clear"):
            sl.experts.Client(url, tokens["a"], reporter=reporter)
    with pytest.raises(RangeError, match="token"):
        sl.experts.Client("https://example.org", "a\nb", reporter=reporter)
    asked = []

    def elsewhere(request):
        asked.append(str(request.url))
        if request.url.path == "/v1/terms":
            return httpx.Response(200, json=terms_json(plan))
        return httpx.Response(307, headers={"Location": "http://127.0.0.2/steal"}, json={})

    client = sl.experts.Client(
        "http://127.0.0.1", tokens["a"], reporter=reporter, transport=httpx.MockTransport(elsewhere)
    )
    with pytest.raises(sl.experts.ServiceError):
        client.report(1, None)
    assert not any("steal" in url for url in asked)
    assert tokens["a"] not in repr(client)


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b"[]",
        b"{}",
        b'{"receipt": "accepted", "round": 1, "nonce": "x"}',
        b"[" * 100_000,
        b'{"code": []}',
    ],
)
def test_an_answer_that_confirms_another_report_is_no_acknowledgement(tokens, reporter, plan, answer):
    def false(request):
        if request.method == "GET":
            return httpx.Response(200, content=json.dumps(terms_json(plan)))
        return httpx.Response(201, content=answer)

    client = sl.experts.Client("http://127.0.0.1", tokens["a"], reporter=reporter, transport=httpx.MockTransport(false))
    with pytest.raises(sl.experts.ServiceError) as caught:
        client.report(1, None)
    assert caught.value.code == "malformed"


def test_a_missing_extra_is_named(monkeypatch, tokens, reporter):
    monkeypatch.setattr(http_service, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"pip install 'sidelight\[service\]'"):
        sl.experts.Client("http://127.0.0.1", tokens["a"], reporter=reporter)
