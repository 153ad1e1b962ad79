"""One agreement from the first report on: the ledger's terms, the observers' relation, and what a server keeps."""

from __future__ import annotations

import asyncio
import re
from fractions import Fraction
from pathlib import Path

import httpx
import pytest
from service_fixtures import *  # noqa: F403 - fixtures
from service_fixtures import NAMES, PLAN, made_reports, write_plan
from starlette.testclient import TestClient

import sidelight as sl
from sidelight.errors import LedgerError, RangeError, RefusedError
from sidelight.experts import Receipt, Reporter, Reporting, RWAdaBatch, RWMeta, Server, ServiceError, worst_over
from sidelight.experts.service.answers import terms_json
from sidelight.experts.service.app import service_app
from sidelight.experts.service.rounds import Rounds
from sidelight.experts.service.store import ServiceStore
from sidelight.ledger import open_ledger
from sidelight.testing import SeededEntropy

TERMS = Reporting(actions=3, mu=1, sensitivity="0.1", neighbours="move", rounds=30)


def reporter_of(ledger, terms=TERMS, name="north", index=None):
    return Reporter(name, terms, ledger=ledger, index=index, entropy=SeededEntropy("agreement", path=[name]))


@pytest.mark.parametrize(
    ("changed", "value"),
    [("sensitivity", "0.01"), ("fill", "0.5"), ("gain_range", "2"), ("max_rounds_per_person", "2")],
)
def test_a_ledger_keeps_to_the_terms_of_its_first_report(changed, value):
    # at a tenth of the sensitivity a later round would get a tenth of the noise, and cost the same
    other = Reporting.from_json(TERMS.to_json() | {changed: value})
    with open_ledger("sqlite://", testing=True) as ledger:
        reporter_of(ledger, other)  # nothing was reported yet
        reporter_of(ledger).report(1, None)
        with pytest.raises(LedgerError, match=rf"other terms in this ledger \({changed}\)"):
            reporter_of(ledger, other)
        assert reporter_of(ledger).rounds_left == 29
        with pytest.raises(LedgerError, match=r"that of the client 'north', and 'south' would get a second budget"):
            reporter_of(ledger, other, name="south")


@pytest.mark.parametrize("at_once", [False, True])
def test_a_reporter_that_was_opened_before_the_first_report_is_bound_by_it(monkeypatch, at_once):
    other = Reporting.from_json(TERMS.to_json() | {"sensitivity": "0.01"})
    with open_ledger("sqlite://", testing=True) as ledger:
        first, second = reporter_of(ledger), reporter_of(ledger, other)
        if at_once:  # the first reserves between the check of the second and its charge
            reserve = second.scope.reserve

            def late(*args, **rest):
                first.report(1, None)
                return reserve(*args, **rest)

            monkeypatch.setattr(second.scope, "reserve", late)
        else:
            first.report(1, None)
        with pytest.raises(LedgerError, match=r"other terms in this ledger \(sensitivity\)") as caught:
            second.report(2, None)
        assert caught.value.charge_stands is at_once
        assert [entry.state for entry in first.scope.entries()] == ["released", "failed"][: 1 + at_once]
        assert first.report(3, None).round == 3


def test_of_two_clients_that_come_at_once_the_first_keeps_the_ledger():
    with open_ledger("sqlite://", testing=True) as ledger:
        ledger.open_scope("experts/south", budget=TERMS.budget)  # made between the check and the scope of its own
        with pytest.raises(LedgerError, match="second budget"):
            reporter_of(ledger)
        assert reporter_of(ledger, name="south").rounds_left == 30


def test_pages_with_different_terms_name_different_ledgers():
    """A reader who tries one page after the other in one folder is not refused for the terms of the first."""
    folder = Path(__file__).parents[2]
    texts = [path.read_text() for path in (folder / "README.md", *sorted((folder / "docs").rglob("*.md")))]
    named = [set(re.findall(r'ledger=f?"([^"]+\.db)"', text)) for text in texts if "Reporter(" in text]
    files = [name.format(name=each) for names in named for name in names for each in ["north"]]
    assert len(files) >= 3
    assert len(set(files)) == len(files)


@pytest.mark.parametrize("neighbours", ["presence", "move"])
def test_what_observers_are_told_speaks_of_the_declared_neighbours(neighbours):
    terms = Reporting.from_json(TERMS.to_json() | {"neighbours": neighbours})
    player = RWAdaBatch(actions=3, noise_scale=float(terms.noise_scale))
    server = Server(reporting=terms, player=player, clients=["north"])
    claim = server.observers_guarantee(20).claim(1.0)
    assert claim.neighbours is terms.relation
    assert claim.audience == "observers_only"


def test_the_worst_round_pays_for_clipping():
    rule = RWAdaBatch(actions=3, noise_scale=1.0).rule
    plain, clipped = (worst_over(rule, mu=1.0, times=[5, 9], epsilon=1.0, clip_failure=p) for p in (0.0, 1e-3))
    assert clipped - plain == pytest.approx((1 + 2.718281828) * 1e-3)


@pytest.mark.parametrize("kind", ["rw_meta", "rw_ftpl"])
def test_the_page_says_what_is_kept(tmp_path, kind):
    terms = Reporting.from_json(TERMS.to_json() | {"kind": "coordinate"})
    player = {"rw_meta": RWMeta, "rw_ftpl": sl.experts.RWFTPL}[kind](actions=3, noise_scale=float(terms.noise_scale))
    server = Server(reporting=terms, player=player, clients={"north": 0, "south": 1, "east": 2}, allow_seeded=True)
    reports = []
    for name, place in server.clients.items():
        with open_ledger("sqlite://", testing=True) as ledger:
            reports.append(reporter_of(ledger, terms, name, place).report(1, 0.4))
    server.open_round()
    for report in reports:
        server.receive(report)
    server.close_round()
    kept = server.player.state().get("reports", [])
    assert (kept == [[report.floats()[0] for report in reports]]) == (kind == "rw_meta")
    with TestClient(service_app(write_plan(tmp_path, kind=f'"{kind}"'))) as client:
        page = client.get("/").text
    assert ("noisy gains of the last 1 round and averages of all are kept" in page) == (kind == "rw_meta")
    assert ("Only sums are kept after a round" in page) == (kind != "rw_meta")


def test_a_report_that_waited_for_a_closing_that_failed_is_not_acknowledged(tmp_path):
    plan = write_plan(tmp_path, PLAN)
    reports = made_reports(plan.reporting, 2)

    async def play():
        rounds = Rounds(plan, ServiceStore(plan.folder))
        for name in NAMES:
            assert await rounds.receive(reports[1, name]) is Receipt.ACCEPTED
        save, waiting = rounds._store.save, []

        def fails(content):
            loop.call_soon_threadsafe(
                lambda: waiting.append(asyncio.ensure_future(rounds.receive(reports[2, "a"])))
            )  # it guesses the next round, which memory has open and the disk does not know
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05), loop).result()
            raise OSError("no space left")

        loop = asyncio.get_running_loop()
        rounds._store.save = fails
        with pytest.raises(OSError, match="no space"):
            await rounds._close()
        with pytest.raises(RefusedError) as caught:
            await waiting[0]
        assert caught.value.code == "storage"
        rounds._store.save = save
        await rounds.stop()
        again = Rounds(plan, ServiceStore(plan.folder))  # and the folder can be served again
        assert again.view.round == 1
        assert again.received == len(NAMES)
        await again.stop()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/v1/round", {"state": "open", "round": "1"}),
        ("/v1/round", {"state": "open", "round": True, "action": 0}),
        ("/v1/reports", {"round": 1}),
        ("/v1/reports", {"round": 1, "receipt": "late"}),
        ("/v1/reports", {"round": 1, "receipt": ["accepted"]}),
    ],
)
def test_whatever_a_service_answers_is_an_error_of_one_kind(plan, path, answer):
    with open_ledger("sqlite://", testing=True) as ledger:
        reporter = reporter_of(ledger, plan.reporting, "a")
        report = reporter.report(1, None)

        def lies(request):
            body = terms_json(plan) if request.url.path == "/v1/terms" else answer | {"nonce": report.nonce}
            return httpx.Response(200, json=body)

        transport = httpx.MockTransport(lies)
        with sl.experts.Client("http://127.0.0.1", "token", reporter=reporter, transport=transport) as client:
            with pytest.raises(ServiceError) as caught:
                next(client.rounds()) if path == "/v1/round" else client.report(1, None)
            assert caught.value.code == "malformed"


@pytest.mark.parametrize("mu", [Fraction(2**800 + 1, 3**500), "1e-250"])
def test_terms_that_no_report_could_state_are_refused_before_any_charge(mu):
    with pytest.raises(RangeError, match="digits to write"):
        Reporting(actions=3, mu=mu, sensitivity="0.1", neighbours="presence", rounds=2)


@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "tokens", "version": 1}', '{"kind": "tokens", "version": 9}'])
def test_tokens_that_cannot_be_read_are_a_typed_refusal_and_no_path_is_logged(service, plan, caplog, text):
    plan.tokens.write_text(text, encoding="utf-8")
    answer = service.post("/v1/reports", json={})
    assert (answer.status_code, answer.json()["code"]) == (503, "storage")
    assert str(plan.tokens) not in caplog.text + answer.text
