"""A service whose clients have noise by their own public sizes: its terms name them, and other noise is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from service_fixtures import *  # noqa: F403 - fixtures
from service_fixtures import write_plan
from starlette.testclient import TestClient

from sidelight.errors import PlanError, ServiceError
from sidelight.experts import Client, Reporter
from sidelight.experts.service.answers import terms_json
from sidelight.experts.service.app import service_app
from sidelight.experts.service.rounds import Rounds, new_server
from sidelight.experts.service.store import ServiceStore, Tokens
from sidelight.guarantees import decimal_text
from sidelight.ledger import open_ledger
from sidelight.testing import SeededEntropy

PLAN = """
clients = {north = 0, south = 1}

[terms]
actions = ["north", "south"]
mu = 1
sensitivity = 1
neighbours = "move"
kind = "coordinate"
rounds = 9

[terms.sizes]
north = 40
south = 412.5

[player]
kind = "rw_meta"

[rounds]
seconds = 3600
close_when_complete = true

[testing]
seed = 5
"""


@pytest.fixture
def sized(tmp_path):
    return write_plan(tmp_path, PLAN)


def reporter(plan, name):
    ledger = open_ledger("sqlite://", testing=True)
    entropy = SeededEntropy("sizes", path=[name])
    size = plan.reporting.sizes[name]
    return Reporter(name, plan.reporting, ledger=ledger, index=plan.clients[name], size=size, entropy=entropy)


def test_the_plan_names_the_size_of_every_client(tmp_path, sized):
    assert [decimal_text(sized.reporting.exact_size(name)) for name in sized.clients] == ["40", "412.5"]
    for text, words in (
        (PLAN.replace("south = 412.5", "east = 4"), "no size of the client 'south'"),
        (PLAN.replace("north = 40", "north = 0"), "size must be positive"),
        (PLAN.replace("north = 40", "north = nan"), "size"),
        (PLAN.replace("north = 40", "north = [40]"), "sizes"),
        (PLAN.replace('"move"', '"replace"'), "replace"),
        (PLAN.replace("clients = {north = 0, south = 1}", "clients = {}"), "at least one"),
    ):
        with pytest.raises(PlanError, match=words):
            write_plan(tmp_path, text)


@pytest.mark.parametrize("kind", ["rw_ftpl", "rw_adabatch", "rw_meta"])
def test_every_player_starts_with_the_noise_of_each(tmp_path, kind):
    player = new_server(write_plan(tmp_path, PLAN.replace("rw_meta", kind))).player
    etas = [2**0.5 / 40, 2**0.5 / 412.5]
    assert player.noise_scale == pytest.approx(etas[0] if kind == "rw_adabatch" else etas, rel=1e-5)


def test_the_terms_of_the_service_name_the_noise_of_each(sized):
    shown = terms_json(sized)
    assert shown["terms"]["sizes"] == {"north": "40", "south": "412.5"}
    terms = sized.reporting
    assert shown["noise_scales"] == {name: decimal_text(terms.noise_scale_of(name)) for name in ("north", "south")}


def test_reports_with_other_noise_are_refused(sized):
    token = dict(zip(sized.clients, Tokens(sized.tokens).issue(*sized.clients), strict=True))
    reports = {name: reporter(sized, name).report(1, 0.25) for name in sized.clients}
    with TestClient(service_app(sized)) as client:

        def send(report, name):
            head = {"Authorization": f"Bearer {token[name]}", "Content-Type": "application/json"}
            return client.post("/v1/reports", content=report.to_json(), headers=head)

        wrong = replace(reports["north"], noise_scale=reports["south"].noise_scale)
        answer = send(wrong, "north")
        assert (answer.status_code, answer.json()["code"]) == (422, "other_terms")
        assert send(reports["north"], "south").json()["code"] == "not_your_name"
        assert send(reports["north"], "north").status_code == 201
        described = client.get("/openapi.json").json()["components"]["schemas"]["Report"]
        assert set(described["properties"]["noise_scale"]["enum"]) == {each.noise_scale for each in reports.values()}


def test_a_client_that_agreed_to_another_size_sends_nothing(tmp_path, sized):
    other = write_plan(tmp_path, PLAN.replace("north = 40", "north = 400"))  # the service says: less noise, please
    token = Tokens(other.tokens).issue("north", "south")[0]
    mine = reporter(sized, "north")
    with TestClient(service_app(other)) as there:
        client = Client("http://127.0.0.1", token, reporter=mine, transport=there._transport)
        with pytest.raises(ServiceError, match="sizes"):
            client.report(1, 0.25)
    assert mine.rounds_left == 9


def test_sizes_that_changed_are_a_new_agreement(tmp_path, sized):
    store = ServiceStore(sized.folder)
    content = {"agreement": sized.agreement(), "server": new_server(sized).state(), "history": [], "deadline": None}
    store.save(json.loads(json.dumps(content)))
    changed = write_plan(tmp_path, PLAN.replace("south = 412.5", "south = 4125"))
    with pytest.raises(PlanError, match="terms of the plan changed"):
        Rounds(changed, store)
