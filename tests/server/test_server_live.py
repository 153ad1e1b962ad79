"""A server in its own process, asked with httpx and with the client: what is charged, what is seen, and when."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal

import httpx
import pytest
from server_fixtures import *  # noqa: F403 - fixtures

import sidelight as sl
from analyst_server import patiently, tokens_of, undropped, until
from sidelight.errors import BudgetError, KeyReusedError, RangeError, SchemaError, ServiceError
from sidelight.ledger import open_ledger
from sidelight.release import outcome_from_json
from sidelight.release.page_numbers import page_numbers
from sidelight.server.audit_log import check_audit_log
from sidelight.server.config_file import read_config
from sidelight.server.identity import IdentityStore

COUNT = {"query": {"kind": "count", "by": ["job"], "epsilon": "0.05"}}

#: The same query in other words: members in another order, and numbers and defaults spelled otherwise.
OTHER_TEXTS = [
    {"query": {"epsilon": 0.05, "by": "job", "kind": "count"}},
    {"query": {"epsilon": "5e-2", "kind": "count", "by": ["job"]}},
    {"query": {"by": ["job"], "kind": "count", "epsilon": "1/20"}},
]


def ask(client, key, body=COUNT, **headers):
    return client.post("/v1/tables/people/releases", json=body, headers={"Idempotency-Key": key, **headers})


def left(client):
    return client.get("/v1/tables/people").json()["remaining"]["epsilon"]


def test_what_is_public_is_shown(live):
    me = live.ada.get("/v1/me").json()
    assert (me["analyst"], me["tables"]) == ("ada", ["people"])
    table = live.ada.get("/v1/tables/people").json()
    assert [each["name"] for each in table["column"]] == ["age", "job"]
    assert table["remaining"] == {"epsilon": "1"}
    assert "ε = 3" in table["promise"]
    assert "people.parquet" not in json.dumps(table)
    assert live.ada.get("/health/ready").status_code == 200
    answer = live.ada.get("/v1/me")
    assert answer.headers["cache-control"] == "no-store"
    assert "server" not in answer.headers


def test_a_price_is_free_and_exact(live):
    before = left(live.bob)
    price = live.bob.post("/v1/tables/people/price", json={**COUNT, "forecast": True}).json()
    assert (price["charge"], price["after"]) == ({"epsilon": "0.05"}, {"epsilon": "0.95"})
    assert price["expected"]["basis"] == "bound"
    assert left(live.bob) == before


def watched(live, key):
    """Ask, watch everything that could show the outcome before its time, and return the answer."""
    began, first = time.time(), ask(live.ada, key)
    assert first.status_code == 202
    state = first.json()
    assert state["state"] in ("queued", "running")
    assert state["outcome"] is None
    ready = datetime.fromisoformat(state["ready_at"]).timestamp()
    assert began < ready
    for body in (*OTHER_TEXTS, COUNT):  # the same query while it runs
        again = ask(live.ada, key, body)
        assert (again.status_code == 202 or time.time() >= ready, again.json()["id"]) == (True, state["id"]), again.text
    seen_early, last = 0, 202
    while last == 202:
        answer = live.ada.get(f"/v1/releases/{state['id']}")
        history = live.ada.get("/v1/releases?table=people").json()["releases"]
        drawn = ("report", "chart.svg", "numbers")
        report = min(live.ada.get(f"/v1/releases/{state['id']}/{name}").status_code for name in drawn)
        last = answer.status_code
        if time.time() < ready:
            seen_early += last != 202 or report != 404
            seen_early += any(each["id"] == state["id"] and each["outcome"] is not None for each in history)
        time.sleep(0.1)
    assert seen_early == 0
    return answer


def test_a_paid_request_is_answered_once_and_never_early(live):
    found = undropped(lambda: watched(live, "mean age, first try")).json()
    state = found
    assert found["state"] == "released"
    release = outcome_from_json(json.dumps(found["outcome"]))
    assert release.private
    assert release.circumstances.ledger_head
    for body in (*OTHER_TEXTS, COUNT):
        again = ask(live.ada, "mean age, first try", body)
        assert (again.status_code, again.json()) == (200, found)
    assert left(live.ada) == "0.95"
    for change in ({"epsilon": "0.06"}, {"by": []}, {"where": "age > 3"}, {"kind": "nothing"}, {"epsilon": []}):
        reused = ask(live.ada, "mean age, first try", {"query": {**COUNT["query"], **change}})
        assert (reused.status_code, reused.json()["type"]) == (422, "urn:sidelight:problem:key-reused")
    for name, kind in (("report", "text/html"), ("chart.svg", "image/svg+xml")):
        file = live.ada.get(f"/v1/releases/{state['id']}/{name}")
        assert (file.status_code, file.headers["content-type"].partition(";")[0]) == (200, kind)
        assert "sandbox" in file.headers["content-security-policy"]
        assert file.headers["content-disposition"].startswith("attachment")
    numbers = live.ada.get(f"/v1/releases/{state['id']}/numbers").json()
    assert numbers == page_numbers(release, most_bytes=2**22)
    proof = live.ada.get(f"/v1/releases/{state['id']}/proof").json()
    assert proof["chain_intact"]
    assert proof["ledger_head"] == release.circumstances.ledger_head
    # other analysts neither see it nor can use it as a prediction
    assert live.bob.get(f"/v1/releases/{state['id']}").status_code == 404
    stolen = {"query": {**COUNT["query"], "prediction": {"release": state["id"]}}}
    assert live.bob.post("/v1/tables/people/price", json=stolen).status_code == 422
    assert live.ada.post("/v1/tables/people/price", json=stolen).status_code == 200


def test_the_same_key_at_once_is_charged_once(live):
    before = Decimal(left(live.bob))
    for place in range(10):  # on a busy machine some come when the answer is there, or all are dropped
        with ThreadPoolExecutor(6) as threads:
            answers = list(
                threads.map(lambda _, key=f"at once {place}": ask(live.bob, key, Prefer="wait=20"), range(6))
            )
        texts = {json.dumps(each.json()["outcome"], sort_keys=True) for each in answers if each.status_code == 200}
        assert len(texts) == 1
        after = Decimal(left(live.bob))
        assert before - after == Decimal("0" if texts == {"null"} else "0.05")
        before = after
        if sorted(each.status_code for each in answers) == [200] * 4 + [202] * 2:  # four are held, and not more
            break
    else:
        raise AssertionError([each.status_code for each in answers])


def test_refusals_come_before_any_charge(live):
    dear = {"query": {"kind": "count", "epsilon": "0.6"}}
    for body, status, code in (
        ({"query": {"kind": "count"}}, 422, "query"),
        ({"query": {"kind": "count", "epsilon": "0.1", "by": ["nothing"]}}, 422, "schema"),
        ({"query": {"kind": "covariance", "columns": ["age"], "epsilon": "0.1"}}, 403, "not-allowed"),
        (dear, 403, "not-allowed"),
        ({"query": {"kind": "count", "epsilon": "0.0001"}}, 403, "not-allowed"),
        ({"query": {"kind": "count", "rho": "0.1"}}, 422, "claim"),
        ({"query": {"kind": "count", "epsilon": "1e12000000"}}, 400, "malformed"),
        ({"query": []}, 400, "malformed"),
        ({"query": {}, "more": 1}, 400, "malformed"),
        ({"query": {"kind": "count", "epsilon": "0.1", "prediction": {"public": "../people.parquet"}}}, 422, "query"),
        ({"query": {"kind": "count", "epsilon": "0.1", "prediction": {"release": "../budget.db"}}}, 422, "query"),
    ):
        answer = ask(live.dan, "refused", body)
        assert (answer.status_code, answer.json()["type"]) == (status, f"urn:sidelight:problem:{code}"), answer.text
        assert answer.headers["content-type"] == "application/problem+json"
    texts = {
        live.dan.post("/v1/tables/people/price", json={"query": {"kind": "count", "epsilon": 1, "prediction": each}})
        .json()["detail"]
        .replace(repr(next(iter(each.values()))), "NAME")
        .replace("public names", "release names")
        for each in ({"public": "../people.parquet", "origin": "x"}, {"public": "nothing", "origin": "x"})
    }
    assert len(texts) == 1  # whether it exists is not revealed
    assert ask(live.dan, "").json()["type"].endswith("key-required")
    assert live.dan.post("/v1/tables/people/releases", json=COUNT).status_code == 400
    assert live.dan.get("/v1/tables/nothing").status_code == 404
    assert live.dan.put("/v1/tables/people").status_code == 405
    assert left(live.dan) == "1"


def test_a_token_is_needed_and_counts_at_once(live):
    stranger = httpx.Client(base_url=live.url, timeout=60)
    wrong = "sl_0011223344556677_" + "a" * 43
    said = {
        stranger.get("/v1/me", headers={"Authorization": each}).text for each in ("", "Bearer x", f"Bearer {wrong}")
    }
    assert len(said) == 1  # missing, unknown and wrong are one answer
    assert stranger.get("/v1/me").headers["www-authenticate"] == "Bearer"
    assert stranger.get("/v1/me", headers={"Host": "evil.example"}).status_code == 421
    assert stranger.get("/health/live", headers={"Host": "evil.example"}).status_code == 200
    store = IdentityStore(read_config(live.file).store)
    extra = store.issue("ada", now=time.time(), actions=["read"])
    headers = {"Authorization": f"Bearer {extra}"}
    assert stranger.get("/v1/tables/people", headers=headers).status_code == 200
    refused = stranger.post("/v1/tables/people/releases", json=COUNT, headers={**headers, "Idempotency-Key": "x"})
    assert refused.status_code == 403
    store.revoke(extra.split("_")[1])
    assert stranger.get("/v1/me", headers=headers).status_code == 401
    for _ in range(12):
        last = stranger.get("/v1/me", headers={"Authorization": f"Bearer {wrong}"}).status_code
    assert last == 429
    assert live.ada.get("/v1/me").status_code == 200  # a right token is always taken
    store.close()


def test_what_waits_is_dropped_when_its_token_is_revoked(live):
    extra = tokens_of(live.file)["dan"]
    with httpx.Client(base_url=live.url, headers={"Authorization": f"Bearer {extra}"}, timeout=60) as client:
        blockers = [ask(live.cy, f"blocker {place}").json() for place in range(2)]
        waiting = ask(client, "waits behind it").json()
        assert waiting["starts_at"] > blockers[-1]["starts_at"]
        store = IdentityStore(read_config(live.file).store)
        store.revoke(extra.split("_")[1])
        store.close()
        one = f"/v1/releases/{waiting['id']}"
        state = until(lambda: (found := live.dan.get(one)).status_code == 200 and found.json())
    assert (state["state"], state["outcome"]) == ("dropped", None)
    paid = [live.cy.get(f"/v1/releases/{each['id']}").json()["state"] != "dropped" for each in blockers]
    assert Decimal(left(live.dan)) == 1 - sum(paid) * Decimal("0.05")  # the blockers', of the same group


def test_the_client_asks_as_a_session_does(live):
    with sl.connect(live.url, token=live.tokens["bob"]) as remote:
        before = Decimal(remote.spent["people"]["epsilon"])
        assert remote.tables["people"].schema.names == ("age", "job")
        assert len(list(remote.tables["people"].dummy(10).schema.columns)) == 2
        price = remote.price(sl.Mean("age", by="job", epsilon="0.1"))
        assert price.fits
        assert "leaves epsilon" in str(price)
        with pytest.raises(SchemaError):  # found here: nothing is sent
            remote.release(sl.Mean("wage", epsilon="0.1"))
        with pytest.raises(RangeError, match="costs between"):
            remote.release(sl.Count(epsilon="0.9"))
        first = patiently(lambda: remote.release(sl.Mean("age", by="job", epsilon="0.1"), key="mean"))
        assert isinstance(first, sl.Release)
        predicted = sl.Mean("age", by="job", epsilon="0.1", prediction=sl.Predicted(first))
        better = remote.release(predicted, wait=False)
        statement = "SELECT job, COUNT(*) FROM people GROUP BY job"
        table = patiently(lambda: remote.sql(statement, epsilon="0.1", key="table"))
        assert table.kind == "sql"
        found = patiently(lambda: remote.release(predicted, key=better.key))
        assert found.prediction is not None
        assert remote.fetch(better.id) == found
        assert first.to_json() in [each.to_json() for each in remote.releases()]
        spent = remote.spent["people"]["epsilon"]
        assert Decimal(remote.remaining["people"]["epsilon"]) == 1 - Decimal(spent)
        assert Decimal(spent) - before == Decimal("0.3")
        assert remote.statement() == remote.tables["people"].promise
        with pytest.raises(KeyReusedError):
            remote.release(sl.Mean("age", epsilon="0.1"), key="mean")
        with pytest.raises(RangeError):  # a law of an own class is not data
            remote.price(sl.Quantiles([0.5], column="age", epsilon="0.1", prediction=OwnPrior(0, 1)))
        patiently(lambda: remote.release(sl.Count(epsilon="0.5"), key="half"))
        with pytest.raises(BudgetError) as refused:
            remote.release(sl.Count(epsilon="0.5"))
        assert refused.value.remaining == f"epsilon = {remote.remaining['people']['epsilon']}"
    with pytest.raises(ServiceError, match="token"):
        sl.connect(live.url, token="sl_a_b").tables  # noqa: B018


@contextmanager
def suppress_unavailable():
    try:
        yield
    except ServiceError as error:
        if error.code != "unavailable":
            raise


class OwnPrior(sl.priors.Cauchy):
    """A prior that would report what it is called with."""


def test_many_requests_wait_at_once_in_one_thread(live):
    """`sl.connect_async` asks as `sl.connect` does; a second reader of the history finds the same releases."""
    queries = [sl.Count(by="job", epsilon="0.01"), sl.Count(epsilon="0.01")]

    async def asked():
        async with sl.connect_async(live.url, token=live.tokens["dan"]) as remote:
            assert "count" in (await remote.tables())["people"].kinds

            async def awaited(key, query):
                for _ in range(20):  # as `patiently`
                    with suppress_unavailable():
                        return await remote.release(query, key=key)
                raise AssertionError("dropped again and again")

            price, before = await remote.price(queries[0], forecast=False), await remote.remaining()
            assert price.fits
            pending = await remote.release(queries[0], key="awaited", wait=False)
            first, second = await asyncio.gather(*map(awaited, ("awaited", "second"), queries))
            again = await remote.release(queries[0], key="awaited")
            assert [again.to_json(), (await remote.fetch(pending.id)).to_json()] == [first.to_json()] * 2
            with pytest.raises(KeyReusedError):
                await remote.release(queries[1], key="awaited")
            assert isinstance(await awaited("sql", sl.SQL("SELECT COUNT(*) FROM people", epsilon="0.01")), sl.Release)
            seen = [each.to_json() async for each in remote.releases()]
            return first, second, before, await remote.remaining(), seen

    first, second, before, after, seen = asyncio.run(asked())
    assert Decimal(before["people"]["epsilon"]) - Decimal(after["people"]["epsilon"]) == Decimal("0.03")
    assert {first.to_json(), second.to_json()} <= set(seen)
    with sl.connect(live.url, token=live.tokens["dan"]) as remote:
        assert [each.to_json() for each in remote.releases()] == seen


def test_curl_asks_as_well(live):
    found = subprocess.run(
        [
            *(
                "curl",
                "-s",
                "-H",
                f"Authorization: Bearer {live.tokens['ada']}",
                "-H",
                "Content-Type: application/json",
            ),
            *("-d", json.dumps(COUNT), f"{live.url}/v1/tables/people/price"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(found.stdout)["charge"] == {"epsilon": "0.05"}


def test_made_up_rows_and_dry_runs_say_so(live):
    rows = live.ada.get("/v1/tables/people/dummy?rows=5")
    assert len(rows.text.splitlines()) == 6
    assert "made-up" in str(rows.headers).lower()
    dry = live.ada.post("/v1/tables/people/dry-run", json=COUNT).json()
    assert not outcome_from_json(json.dumps(dry["outcome"])).private
    assert live.ada.get("/v1/tables/people/dummy?rows=0").status_code == 400


def test_the_price_of_an_error_and_the_errors_of_prices(live):
    needed = live.ada.post("/v1/tables/people/accuracy", json=COUNT | {"within": 10}).json()
    assert needed["name"] == "epsilon"
    schema = read_config(live.file).tables["people"].schema
    here = sl.epsilon_for(sl.Count(by="job", epsilon=1), schema, within=10)
    assert float(needed["amount"]) == pytest.approx(float(here), rel=0.01)
    sweep = live.ada.post("/v1/tables/people/accuracy", json=COUNT).json()["sweep"]
    assert [float(each["amount"]) for each in sweep] == [0.05 * factor for factor in (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)]
    errors = [each["expected"]["size"] for each in sweep]
    assert errors == sorted(errors, reverse=True)
    wrong = live.ada.post("/v1/tables/people/accuracy", json=COUNT | {"within": None})
    assert wrong.status_code == 422


@pytest.mark.parametrize(
    ("sent", "place"),
    [
        ({"query": {"kind": "count", "epsilom": 1}}, "/query/epsilom"),
        (
            {"query": {"kind": "mean", "column": "age", "epsilon": 1, "prediction": {"a/b": 1}}},
            "/query/prediction/a~1b",
        ),
        ({"query": {"kind": "coun", "epsilon": 1}}, "/query/kind"),
        ({"query": {"kind": "quantiles", "column": "age", "levels": [2], "epsilon": 1}}, "/query"),
    ],
)
def test_a_problem_says_where_in_the_request_the_mistake_stands(live, sent, place):
    found = live.ada.post("/v1/tables/people/price", json=sent)
    assert (found.status_code, found.json().get("place")) == (422, place), found.text


def test_everything_that_was_charged_is_in_a_ledger_that_verifies(live):
    """Agreement of all answers with the ledger; runs last."""
    config = read_config(live.file)
    with open_ledger(config.ledger, key=config.key_file.read_bytes(), create=False) as ledger:
        assert ledger.verify().ok
        entries = ledger.entries()
        assert {entry.state for entry in entries} <= {"released", "failed"}
        spent = {name: ledger.scope(f"people/{name}").spent().basic.total for name in ("ada", "bob", "institute")}
        assert sum(spent.values()) == ledger.scope("people").spent().basic.total
    lines = (live.folder / "audit.jsonl").read_text().splitlines()
    assert check_audit_log(live.folder / "audit.jsonl") == len(lines) > len(entries)
    assert not any(secret in "\n".join(lines) for secret in live.tokens.values())
    words = [value for line in lines for name, value in json.loads(line).items() if name not in ("at", "starts_at")]
    assert not any("0.05" in str(each) for each in words)  # no price; a time may have these digits
