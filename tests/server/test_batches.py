"""A fixed batch over HTTP: one price, one charge, one key, one slot as long as its queries' together."""

from __future__ import annotations

import time
from datetime import datetime
from types import SimpleNamespace

import pytest

import sidelight as sl
from analyst_server import patiently, serving, tokens_of, undropped, write_survey
from sidelight.errors import KeyReusedError, PlanError, RangeError
from sidelight.guarantees import Claims
from sidelight.ledger import open_ledger
from sidelight.server.config_file import read_config
from sidelight.server.pricing import answer_job
from sidelight.server.together import MOST_TOGETHER, price_together

httpx = pytest.importorskip("httpx")
PAIR = {
    "currency": "epsilon and delta",
    "budget": "{epsilon = 3, delta = 3e-5}",
    "share": "{epsilon = 1, delta = 1e-5}",
    "largest": "{epsilon = 0.5, delta = 1e-6}",
    "smallest": "{epsilon = 0.001, delta = 0}",
    "strict": "true\ntogether = true",
}
QUERIES = [sl.Count(by="job", epsilon="0.05", delta="1e-7"), sl.Mean("age", epsilon="0.1")]
WIRE = [{"kind": "count", "by": ["job"], "epsilon": "0.05", "delta": "1e-7", "noise": "gaussian"}] * 6


@pytest.fixture(scope="module")
def paired(tmp_path_factory):
    file = write_survey(tmp_path_factory.mktemp("batches"), **PAIR)
    tokens = tokens_of(file)
    with serving(file) as (url, _), sl.connect(url, token=tokens["ada"]) as ada:
        raw = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {tokens['bob']}"}, timeout=60)
        yield SimpleNamespace(ada=ada, raw=raw, file=file)
        raw.close()


def test_a_batch_is_charged_once_and_answers_in_order(paired):
    price = paired.ada.price(QUERIES, delta="1e-7")
    assert price.seconds == 8
    before = paired.ada.remaining["people"]
    pending = paired.ada.release_together(QUERIES, delta="1e-7", key="both", wait=False)
    found = patiently(lambda: paired.ada.release_together(QUERIES, delta="1e-7", key="both"))
    assert time.time() >= pending.ready_at.timestamp()
    assert [each.query["kind"] for each in found] == ["count", "mean"]
    assert len({each.circumstances.entry_id for each in found}) == 1
    assert price.remaining == before
    assert paired.ada.remaining["people"] == price.after
    again = paired.ada.release_together(QUERIES, delta="1e-7", key="both")
    assert [each.to_json() for each in again] == [each.to_json() for each in found]
    assert [each.to_json() for each in paired.ada.releases()] == [each.to_json() for each in found]
    assert [each.to_json() for each in paired.ada.fetch(pending.id)] == [each.to_json() for each in found]
    same = paired.ada.release_together(QUERIES, delta="0.0000001", key="both")  # the same amount in other words
    assert [each.to_json() for each in same] == [each.to_json() for each in found]
    with pytest.raises(KeyReusedError):
        paired.ada.release_together(QUERIES[::-1], delta="1e-7", key="both")
    assert paired.ada.remaining["people"] == price.after
    config = read_config(paired.file)
    with open_ledger(config.ledger, key=config.key_file.read_bytes().strip(), read_only=True) as ledger:
        (entry,) = ledger.entries()
        assert entry.state == "released"
        assert ledger.verify().ok


def test_together_costs_less_than_one_by_one(paired):
    one = paired.raw.post("/v1/tables/people/price", json={"query": WIRE[0]}).json()["charge"]
    all_of_them = paired.raw.post("/v1/tables/people/price", json={"queries": WIRE, "delta": "6e-7"}).json()
    assert float(all_of_them["charge"]["delta"]) <= 6 * float(one["delta"])
    assert float(all_of_them["charge"]["epsilon"]) < 0.75 * 6 * float(one["epsilon"])
    assert all_of_them["seconds"] == 24


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"queries": [], "delta": "1e-7"}, 400),
        ({"queries": WIRE}, 400),
        ({"queries": WIRE, "delta": "x"}, 422),
        ({"queries": WIRE, "delta": "0.1"}, 403),
        ({"queries": [*WIRE, "count"], "delta": "1e-7"}, 400),
        ({"queries": [{"kind": "nothing"}], "delta": "1e-7"}, 422),
        ({"queries": [{"kind": "together", "queries": WIRE, "delta": "1e-7"}], "delta": "1e-7"}, 422),
        ({"queries": WIRE * MOST_TOGETHER, "delta": "1e-7"}, 400),
        ({"queries": WIRE, "delta": "1e-7", "query": WIRE[0]}, 400),
        ({"query": {"kind": "together", "queries": WIRE, "delta": "1e-7"}}, 400),
        ({"queries": [{"kind": "sum", "column": "age", "epsilon": "0.4"}] * 3, "delta": "1e-7"}, 403),
    ],
)
def test_what_is_no_batch_is_refused_before_the_charge(paired, body, status):
    answer = paired.raw.post("/v1/tables/people/releases", json=body, headers={"Idempotency-Key": "wrong"})
    assert answer.status_code == status, answer.text
    assert paired.raw.get("/v1/tables/people").json()["remaining"] == {"epsilon": "1", "delta": "0.00001"}


def test_a_problem_says_which_query_of_a_batch_it_is_about(paired):
    body = {"queries": [WIRE[0], WIRE[0] | {"by": 3}], "delta": "1e-7"}
    assert paired.raw.post("/v1/tables/people/price", json=body).json()["place"] == "/queries/1/by"


def test_reports_show_every_query_and_predictions_take_no_batch(paired):
    body = {"queries": [WIRE[0], {"kind": "mean", "column": "age", "epsilon": "0.1"}], "delta": "1e-7"}

    def ask():
        answer = paired.raw.post("/v1/tables/people/releases", json=body, headers={"Idempotency-Key": "two"})
        slot = datetime.fromisoformat(answer.json()["ready_at"]) - datetime.fromisoformat(answer.json()["starts_at"])
        assert slot.total_seconds() == 8
        while answer.json()["state"] in ("queued", "running"):
            assert answer.json().get("outcomes") is None
            answer = paired.raw.get(f"/v1/releases/{answer.json()['id']}", headers={"Prefer": "wait=20"})
        return answer

    state = undropped(ask).json()
    assert (state["state"], state["outcome"], len(state["outcomes"])) == ("released", None, 2)
    report = paired.raw.get(f"/v1/releases/{state['id']}/report")
    assert report.status_code == 200
    assert report.text.count("age") >= 1
    query = {"kind": "mean", "column": "age", "epsilon": "0.1", "prediction": {"release": state["id"]}}
    refused = paired.raw.post("/v1/tables/people/price", json={"query": query})
    assert refused.status_code == 422


def test_a_table_says_whether_it_takes_batches(tmp_path):
    with pytest.raises(PlanError, match="together = true needs"):
        read_config(write_survey(tmp_path / "pure", strict="true\ntogether = true"))
    config = read_config(write_survey(tmp_path / "no", **{**PAIR, "strict": "true"}))
    job = {"do": "price", "table": "people", "kind": "together", "query": '{"kind":"together"}'}
    assert answer_job(config, job)["problem"]["code"] == "not-allowed"


def test_entries_of_batches_are_given_up_after_their_whole_slot(tmp_path):
    config = read_config(write_survey(tmp_path, **PAIR))
    assert config.longest == 4 * MOST_TOGETHER


def test_a_list_wants_a_delta(paired):
    with pytest.raises(RangeError, match="delta is for a list"):
        paired.ada.price(QUERIES)


def test_a_delta_is_not_given_away_for_little() -> None:
    """Three of 0.1 together are (0.299994, 1e-6) by the pair: the whole delta for nothing."""
    assert price_together([Claims.of(sl.PureDP("0.1"))] * 3, delta="1e-6").pure() is not None
    assert price_together([Claims.of(sl.PureDP("0.01"))] * 400, delta="1e-5").pure() is None
