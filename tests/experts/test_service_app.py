"""The service in one process: every refusal has its code, nothing is counted twice, nothing private is shown."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from dataclasses import replace

import pytest
from service_fixtures import *  # noqa: F403 - fixtures
from service_fixtures import NAMES, made_reports, uninterrupted, write_plan
from starlette.requests import Request
from starlette.testclient import TestClient

from sidelight.errors import RefusedError
from sidelight.experts.server import Closed
from sidelight.experts.service.answers import _success, _up, strip_chart
from sidelight.experts.service.app import service_app
from sidelight.experts.service.store import Tokens
from sidelight.web import requests


@pytest.fixture
def reports(plan):
    return made_reports(plan.reporting, 3)


def send(service, body, token=None, **headers):
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    content = body if isinstance(body, str | bytes) else body.to_json()
    return service.post("/v1/reports", content=content, headers={"Content-Type": "application/json", **headers})


def code(answer):
    assert set(answer.json()) == {"code", "message", "open_round"}
    return answer.status_code, answer.json()["code"]


def test_a_report_counts_once_however_often_it_is_sent(service, reports):
    first = send(service, reports[1, "a"])
    assert (first.status_code, first.json()["receipt"]) == (201, "accepted")
    for _ in range(3):
        again = send(service, reports[1, "a"])
        assert (again.status_code, again.json()["receipt"]) == (200, "duplicate")
    assert service.get("/v1/round").json()["reports"] == 1
    other = replace(reports[1, "a"], nonce="0" * 32)
    assert code(send(service, other)) == (409, "conflict")
    same_nonce = replace(reports[1, "a"], values=tuple(value + 1 for value in reports[1, "a"].values))
    assert code(send(service, same_nonce)) == (409, "conflict")
    assert service.get("/v1/round").json()["reports"] == 1


def test_late_and_future_reports_are_answered_without_harm(service, reports, plan, tokens):
    assert code(send(service, reports[2, "a"])) == (409, "future_round")
    for name in NAMES:
        assert send(service, reports[1, name], tokens[name]).status_code == 201
    wait_for_round(service, 2)
    assert send(service, reports[1, "a"]).json()["receipt"] == "duplicate"  # counted in its round, and remembered
    late = replace(reports[1, "a"], nonce="f" * 32)
    assert code(send(service, late)) == (409, "conflict")
    (closed,) = service.get("/v1/rounds").json()["rounds"]
    assert (closed["round"], closed["reports"], closed["clients"]) == (1, 4, 4)
    actions, server = uninterrupted(plan, reports, 1)
    assert closed["action"] == actions[0]
    assert service.get("/v1/round").json()["action"] == server.open_round()


def wait_for_round(service, number):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if service.get("/v1/round").json()["round"] == number:
            return
        time.sleep(0.01)
    raise AssertionError(f"round {number} did not open")


def test_a_round_closes_at_its_deadline_with_what_came(tmp_path):
    plan = write_plan(tmp_path, seconds="0.3", close_when_complete="")
    (token,) = Tokens(plan.tokens).issue("a")
    report = made_reports(plan.reporting, 3)[1, "a"]
    with TestClient(service_app(plan)) as service:
        assert send(service, report, token).status_code == 201
        for _ in range(2000):
            if service.get("/v1/round").json()["round"] > 1:
                break
        closed = service.get("/v1/rounds").json()["rounds"][0]
        assert (closed["reports"], closed["clients"]) == (1, 4)
        b = made_reports(plan.reporting, 3)[1, "b"]
        (other,) = Tokens(plan.tokens).issue("b")
        assert code(send(service, b, other)) == (409, "closed_round")


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"values": [1, 2]}, (422, "wrong_length")),
        ({"values": [1, 2, 3, 4]}, (422, "wrong_length")),
        ({"values": [1, 2, float("nan")]}, (422, "not_finite")),
        ({"values": [1, float("-inf"), 3]}, (422, "not_finite")),
        ({"values": [1, 2, 0.5]}, (400, "malformed")),
        ({"values": [1, 2, True]}, (400, "malformed")),
        ({"values": [1, 2, None]}, (400, "malformed")),
        ({"round": 0}, (422, "no_such_round")),
        ({"round": 41}, (422, "no_such_round")),
        ({"round": 40}, (409, "future_round")),
        ({"mu": "2"}, (422, "other_terms")),
        ({"noise_scale": "0.1"}, (422, "other_terms")),
        ({"grid_bits": 3}, (422, "other_terms")),
        ({"kind": "coordinate", "index": 0}, (422, "other_terms")),
        ({"index": 1}, (422, "other_terms")),
        ({"version": 2}, (422, "other_terms")),
        ({"client_id": "b"}, (403, "not_your_name")),
        ({"client_id": "nobody"}, (403, "not_your_name")),
        ({"extra": 1}, (400, "malformed")),
        ({"nonce": ""}, (400, "malformed")),
        ({"nonce": 7}, (400, "malformed")),
    ],
)
def test_every_mistake_has_its_code(service, reports, change, wanted):
    body = json.loads(reports[1, "a"].to_json()) | change
    assert code(send(service, json.dumps(body))) == wanted
    assert service.get("/v1/round").json()["reports"] == 0


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "null",
        "1e999",
        "\xff",
        '{"values": ' + "[" * 3000,
        b"\xff\xfe\x00",
    ],
)
def test_bytes_that_are_no_report_are_malformed(service, body):
    assert code(send(service, body)) == (400, "malformed")


def test_an_overflowing_number_is_not_finite(service, reports):
    text = reports[1, "a"].to_json()
    body = json.loads(text)
    broken = text.replace(str(body["values"][0]), "1e400", 1)
    assert code(send(service, broken)) == (422, "not_finite")


def test_a_hostile_value_is_clipped_to_what_honest_noise_reaches(service, reports, plan, tokens):
    hostile = replace(reports[1, "a"], values=(10**300, -(10**300), 0))
    assert send(service, hostile).status_code == 201
    for name in NAMES[1:]:
        send(service, reports[1, name], tokens[name])
    wait_for_round(service, 2)
    rounds = service.app.state.service.rounds
    low, high = rounds._server.limits.codes
    start = uninterrupted(plan, reports, 0)[1].player.sums
    grid = float(plan.reporting.grid)
    others = [sum(reports[1, name].values[place] for name in NAMES[1:]) for place in range(3)]
    moved = (rounds._server.player.sums - start) * 4 / grid
    assert moved == pytest.approx([others[0] + high, others[1] + low, others[2]], rel=1e-9)


def test_tokens_are_needed_and_can_be_revoked(service, reports, plan, tokens):
    headers = {"Content-Type": "application/json"}
    content = reports[1, "a"].to_json()
    del service.headers["Authorization"]
    answer = service.post("/v1/reports", content=content, headers=headers)
    assert code(answer) == (401, "no_token")
    assert answer.headers["www-authenticate"] == "Bearer"
    for wrong in ("sl_x_y", "nonsense", tokens["a"][:-1] + "_", "sl_" + "0" * 16 + "_" + "A" * 43, tokens["a"].upper()):
        assert code(send(service, content, wrong)) == (401, "unknown_token")
    mixed = "_".join([*tokens["a"].split("_")[:2], tokens["b"].split("_", 2)[2]])
    assert code(send(service, content, mixed)) == (401, "unknown_token")
    assert send(service, content, tokens["a"]).status_code == 201
    Tokens(plan.tokens).revoke("a")  # as another process would
    assert code(send(service, content, tokens["a"])) == (403, "revoked_token")
    assert service.get("/v1/round").json()["reports"] == 1  # what was counted stays
    (new,) = Tokens(plan.tokens).issue("a")
    assert send(service, content, new).status_code == 200


def test_a_report_that_is_too_large_is_refused_before_it_is_read(service, plan):
    assert code(send(service, "x" * (plan.largest_report + 1))) == (413, "too_large")

    def endless():
        for _ in range(1000):
            yield b"[" * 1000

    answer = service.post("/v1/reports", content=endless(), headers={"Content-Type": "application/json"})
    assert code(answer) == (413, "too_large")


def test_a_report_that_trickles_in_or_breaks_off_is_refused(monkeypatch):
    monkeypatch.setattr(requests, "PATIENCE", 0.05)
    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", b"application/json")]}

    async def never():
        await asyncio.sleep(60)

    async def gone():
        return {"type": "http.disconnect"}

    for receive, wanted in ((never, "too_slow"), (gone, "malformed")):
        with pytest.raises(RefusedError) as caught:
            asyncio.run(requests.read_body(Request(scope, receive), largest=100))
        assert caught.value.code == wanted


def test_the_type_the_method_and_the_path_are_checked(service, reports):
    content = reports[1, "a"].to_json()
    assert code(service.post("/v1/reports", content=content, headers={"Content-Type": "text/plain"})) == (
        415,
        "wrong_type",
    )
    answer = service.get("/v1/reports")
    assert code(answer) == (405, "wrong_method")
    assert "POST" in answer.headers["allow"]
    assert code(service.get("/v1/reports/1")) == (404, "not_found")
    assert code(service.get("/v1/rounds?after=x")) == (400, "malformed")


def test_logs_hold_no_value_and_no_token(service, reports, tokens, caplog):
    caplog.set_level(logging.DEBUG)
    report = reports[1, "a"]
    send(service, report)
    send(service, replace(report, nonce="1" * 32))
    send(service, json.dumps(json.loads(report.to_json()) | {"values": [987654321, 1, float("nan")]}))
    send(service, json.dumps(json.loads(report.to_json()) | {"values": [987654321]}))
    send(service, "987654321")
    send(service, report, "sl_aaaa_987654321")
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("sidelight")]
    assert sum("refused a report" in message for message in messages) == 5
    assert any("conflict" in message for message in messages)
    for message in messages:
        assert "987654321" not in message
        assert tokens["a"] not in message
        assert not any(str(value) in message for value in report.values)


def test_errors_quote_no_value(service, reports):
    for values in ([987654321, 1, float("nan")], [987654321], [987654321, 0.5, 1]):
        body = json.loads(reports[1, "a"].to_json()) | {"values": values}
        assert "987654321" not in send(service, json.dumps(body)).text


def test_no_page_shows_a_single_report_or_who_sent_one(service, reports, tokens):
    for name in ("a", "b"):
        send(service, reports[1, name], tokens[name])
    for path in ("/", "/v1/round", "/v1/rounds", "/v1/terms", "/openapi.json", "/health"):
        answer = service.get(path)
        assert answer.status_code == 200
        for name in ("a", "b"):
            report = reports[1, name]
            assert report.nonce not in answer.text
            assert not any(str(value) in answer.text for value in report.values)
    assert "2</strong> of 4 reports received" in service.get("/").text


def test_every_answer_has_strict_headers(service):
    for answer in (service.get("/"), service.get("/v1/round"), service.get("/nothing"), service.post("/v1/reports")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


def test_the_page_names_round_action_and_guarantee(service, plan):
    text = service.get("/").text
    action = service.get("/v1/round").json()["action_name"]
    assert f">{action}</span>" in text
    assert "round 1 of 40" in text
    assert str(plan.reporting.claims) in text
    assert "nothing here is private" in text  # the plan of the tests is seeded
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text


def test_titles_and_names_are_escaped(tmp_path):
    plan = write_plan(tmp_path, title='"<script>alert(1)</script>"', actions="['<b>', '\"', '&']")
    with TestClient(service_app(plan)) as service:
        text = service.get("/").text
    assert "<script>alert" not in text
    assert "<b>" not in text


def test_batches_show_what_observers_learn_rounded_up_and_for_whom_it_does_not_hold(tmp_path):
    plan = write_plan(tmp_path, kind='"rw_adabatch"', rounds="300")
    with TestClient(service_app(plan)) as service:
        text = service.get("/").text
        assert "Whoever sees only the actions" not in text  # it is being computed
        rounds = service.app.state.service.rounds
        for _ in range(1000):
            if rounds.observers is not None:
                break
            time.sleep(0.05)
        delta, plain = rounds.observers
        assert delta < plain
        text = service.get("/").text
        shown = float(re.search(r"δ at ε = 1 is ([\d.e-]+)", text)[1])
        assert delta <= shown <= delta * 1.01
        assert "does not hold against this service" in text
    assert _up(0.124803) == "0.125"
    assert float(_up(3.1e-9)) >= 3.1e-9
    assert _up(0.0) == _up(5e-324) == "1e-300"  # μ = 0.02: δ(1) is Φ(-50) and less, which is no float
    assert _success(1.0) == "69.2 %"  # Φ(1/2) = 0.69146


@pytest.mark.parametrize(("actions", "lanes", "others"), [(3, 3, 0), (24, 24, 0), (40, 3, 1)])
def test_every_action_has_a_lane_while_there_is_room(actions, lanes, others):
    """Of too many actions those that were chosen have one, and the rest share the last."""
    told = {"reports": 2, "expected": 3, "noise_scale": 1.0}
    closed = [Closed(round=number + 1, action=number % 3, **told) for number in range(9)]
    drawn = str(strip_chart(closed, [f"action {number}" for number in range(actions)]))
    names = re.findall(r'class="axis end"[^>]*>([^<]+)<', drawn)
    assert sum(name.startswith("action") for name in names) == lanes
    assert names.count("others") == others
    assert drawn.count('class="mark last"') == 1
