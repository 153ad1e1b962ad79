"""Clocks that differ or are set, windows whose renewal is changed, what is ready, and headers of proxies."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from benchmarks.temporary_postgres import NoServerError, empty_database, temporary_server

import sidelight as sl
from analyst_server import tokens_of, write_survey
from sidelight.cli.analysts import check_survey
from sidelight.errors import ProblemError, SidelightError, StorageError
from sidelight.guarantees import Claims
from sidelight.server import clocks, worker
from sidelight.server.app import analyst_app
from sidelight.server.budgets import ASKED, Budgets, utc_text
from sidelight.server.config_file import read_config
from sidelight.server.guard import address_of
from sidelight.server.service import AnalystService
from sidelight.server.slots import Slots
from sidelight.server.windows import period_of, window_of

httpx = pytest.importorskip("httpx")
ONE = Claims.of(sl.PureDP("0.01"))


class Clock:
    """A clock that a test sets, beside a monotonic one."""

    def __init__(self):
        self.wall = self.steady = time.time()

    def time(self):
        return self.wall

    def monotonic(self):
        return self.steady

    def run(self, seconds):
        self.wall += seconds
        self.steady += seconds


class Client:
    """A client of an application that does not listen."""

    def __init__(self, app, token):
        self._app, self._usual = app, {"Authorization": f"Bearer {token}"}

    def get(self, path, headers=None):
        async def got():
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.get(path, headers=self._usual | (headers or {}))

        return asyncio.run(got())


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A service that is not listening, its clock, and a client of its application."""
    file, clock = write_survey(tmp_path), Clock()
    monkeypatch.setattr(clocks, "time", clock)
    with closing(AnalystService(read_config(file))) as service:
        service.budgets.begin()
        app = analyst_app(service)
        token = tokens_of(file)["ada"]
        yield SimpleNamespace(service=service, clock=clock, client=Client(app, token), file=file)


# --- clocks of replicas


def charged(budgets, *, at, seconds, key="one"):
    table = budgets.config.tables["people"]
    request = {"kind": "count", **({} if seconds is None else {ASKED: {"seconds": seconds, "analyst": "ada"}})}
    given = {"key": key, "once": True, "at_utc": utc_text(at), "sent": "digest"}
    return budgets.reserve(table, table.accounts[0], ONE, moment=at, request=request, **given)


def test_an_entry_is_given_up_by_its_own_slot(tmp_path):
    """Also by a replica whose file has other durations: a rolling change of them fails no paid request."""
    config = read_config(write_survey(tmp_path))
    shorter = write_survey(tmp_path)
    shorter.write_text(shorter.read_text().replace('default = "4 s"', 'default = "1 s"'))
    start = time.time()
    with closing(Budgets(config, create=True)) as budgets, closing(Budgets(read_config(shorter))) as other:
        budgets.open_scopes()
        charged(budgets, at=start, seconds="20")
        charged(budgets, at=start, seconds=None, key="of another program")

        def states():
            return [each.state for each in budgets.ledger.entries()]

        other.give_up_late(now=start + 10.9)
        assert states() == ["reserved", "reserved"]
        other.give_up_late(now=start + 11.1)  # without a duration of its own: the longest one of the file
        assert states() == ["reserved", "failed"]
        other.give_up_late(now=start + 29.9)
        assert states() == ["reserved", "failed"]
        other.give_up_late(now=start + 30.1)
        assert states() == ["failed", "failed"]
        assert budgets.ledger.verify().ok


def test_a_clock_that_differs_from_the_database_charges_nothing(served, monkeypatch, caplog):
    """By less than the ten seconds after which others give up, it is not noticed and does no harm."""

    @contextmanager
    def read():
        yield SimpleNamespace(dialect="postgresql", row=lambda text: (time.time() - 45,))

    store = SimpleNamespace(read=read)
    ahead = Budgets.clock_ahead(SimpleNamespace(ledger=SimpleNamespace(store=store)))
    assert 44 < ahead < 46
    assert served.service.budgets.clock_ahead() == 0  # a ledger in a file
    table = served.service.config.tables["people"]
    asking = SimpleNamespace(table=table, account=table.accounts[0], holder=None)
    for off in (-45.0, 45.0, 6.0):
        monkeypatch.setattr(served.service.budgets, "clock_ahead", lambda off=off: off)
        with caplog.at_level(logging.ERROR):
            assert served.service.clock.compare() == off
        assert f"differs from the database's by {off:.0f} s" in caplog.text
        assert not served.service.is_ready()
        with pytest.raises(ProblemError) as refused:
            asyncio.run(served.service.accept(asking, {}, name="0", digest="0"))
        assert refused.value.code == "unavailable"
    monkeypatch.setattr(served.service.budgets, "clock_ahead", lambda: 4.0)
    served.service.clock.compare()
    assert served.service.is_ready()


@pytest.mark.slow
@pytest.mark.postgres
def test_the_clock_of_a_database_is_compared(tmp_path):
    try:
        with temporary_server() as server, empty_database(server.address) as ledger:
            file = write_survey(tmp_path)
            file.write_text(file.read_text().replace('url = "budget.db"', f'url = "{ledger}"'))
            with closing(Budgets(read_config(file), create=True)) as budgets:
                assert abs(budgets.clock_ahead()) < 1
    except NoServerError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


# --- a clock that is set


def test_no_step_of_the_clock_is_followed_inside_a_slot(served):
    service, clock = served.service, served.clock
    clock.run(10)
    began = service.clock.now()
    slot = service.schedule.place("people/ada", 4.0, now=began)
    for step in (-60, 100):
        clock.wall += step
        assert service.clock.now() == pytest.approx(began)
    clock.run(slot.end - began + 1)
    assert service.clock.now() == pytest.approx(clock.wall)  # forward, once no seat is taken
    seen = service.clock.now()
    clock.wall -= 60
    assert service.clock.now() == pytest.approx(seen)  # and never back


def test_workers_and_slots_go_by_the_monotonic_clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(worker, "time", clock)
    job = {"clock": clock.time() - clock.monotonic()}
    before = worker.slot_time(job)
    clock.wall -= 60
    clock.steady += 2
    assert worker.slot_time(job) == pytest.approx(before + 2)
    accepted = SimpleNamespace(
        job={"clock": time.time() - time.monotonic() + 3600}
    )  # the clock was set back by an hour
    began = time.monotonic()
    asyncio.run(Slots(None, None, None)._until(time.time() + 3600.1, accepted))
    assert time.monotonic() - began < 60


def test_a_clock_set_forward_by_days_is_not_believed_until_it_is_put_right(served, caplog):
    client, clock = served.client, served.clock
    assert (client.get("/v1/me").status_code, client.get("/health/ready").status_code) == (200, 200)
    clock.wall += 2 * 86_400
    with caplog.at_level(logging.ERROR):
        assert (client.get("/v1/me").status_code, client.get("/health/ready").status_code) == (503, 503)
    assert "set it back, or restart if it is right" in caplog.text
    clock.wall -= 2 * 86_400
    assert (client.get("/v1/me").status_code, client.get("/health/ready").status_code) == (200, 200)


# --- what is ready, and headers of proxies


@pytest.mark.parametrize("part", ["store", "budgets"])
def test_a_server_that_cannot_answer_is_not_ready(served, monkeypatch, part):
    def lost(*given, **named):
        raise StorageError("lost")

    for name in ("_row", "newest_head"):
        if hasattr(getattr(served.service, part), name):
            monkeypatch.setattr(getattr(served.service, part), name, lost)
    if part == "store":
        found = served.client.get("/v1/me").json()
        assert "nothing was charged" not in found["detail"]  # it may be the answer of a request that was accepted
    assert served.client.get("/health/ready").status_code == 503
    assert served.client.get("/health/live").status_code == 200


@pytest.mark.parametrize("path", ["/v1/tables/", "/v1/tables/people/", "/v1/me/", "/v1/tables/people/price/"])
def test_no_redirect_leaves_tls(served, path):
    for headers in ({}, {"Authorization": ""}):
        found = served.client.get(path, headers=headers)
        assert (found.status_code, found.json()["type"]) == (404, "urn:sidelight:problem:not-found")
        assert "location" not in found.headers


@pytest.mark.parametrize(
    ("lines", "address"),
    [
        (["9.9.9.9, 5.5.5.5"], "5.5.5.5"),
        (["9.9.9.9", "6.6.6.6"], "6.6.6.6"),
        (["9.9.9.9, 8.8.8.8", "7.7.7.7, 6.6.6.6"], "6.6.6.6"),
        ([], "10.0.0.1"),
    ],
)
def test_the_last_forwarded_address_counts(lines, address):
    """The proxy may add a line of its own, after one that the client wrote."""
    from starlette.requests import Request

    headers = [(b"x-forwarded-for", each.encode()) for each in lines]
    request = Request({"type": "http", "headers": headers, "client": ("10.0.0.1", 1)})
    config = SimpleNamespace(listen=SimpleNamespace(behind_proxy=("10.0.0.0/8",)))
    assert address_of(request, config) == address
    assert address_of(request, SimpleNamespace(listen=SimpleNamespace(behind_proxy=()))) == "10.0.0.1"


# --- windows whose renewal is changed


def moment(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@contextmanager
def renewing(folder, every, budget="0.05", *, windows=4):
    """The budgets of a file in which one account is renewed; the ledger stays from one to the next."""
    file = write_survey(folder)
    renew = f"renew = {{every = '{every}', budget = {{epsilon = {budget}}}, windows = {windows}}}"
    file.write_text(file.read_text().replace('{name = "bob",', f'{{name = "bob", {renew},'))
    with closing(Budgets(read_config(file), create=True)) as budgets:
        budgets.open_scopes()
        yield Account(budgets)
        assert budgets.ledger.verify().ok


class Account:
    def __init__(self, budgets):
        self.budgets, self.table = budgets, budgets.config.tables["people"]
        self.account = self.table.accounts[1]

    def left(self, at):
        return self.budgets.remaining(self.table, self.account, moment=moment(at))["epsilon"]

    def ask(self, amount, at):
        """Charge what the price says fits, and only that."""
        claims, when = Claims.of(sl.PureDP(amount)), moment(at)
        quote = self.budgets.quote(self.table, self.account, claims, delta=None, moment=when)
        given = {"request": {"kind": "count"}, "key": f"{amount} {at}", "once": True, "sent": at}
        try:
            self.budgets.reserve(self.table, self.account, claims, moment=when, **given)
            granted = True
        except SidelightError:
            granted = False
        assert granted == quote.fits
        return granted

    def window(self, at):
        return self.budgets.window_name(self.table, self.account, moment=moment(at))

    def other(self, at):
        return self.budgets.other_windows(moment=moment(at))


@pytest.mark.parametrize("changed", ["0.08", "0.04"])
def test_an_open_window_keeps_its_budget(tmp_path, changed):
    with renewing(tmp_path, "month") as account:
        assert account.other("2027-02-02") == []
        assert account.ask("0.01", "2027-02-02")
        assert account.other("2027-02-02") == []
    with renewing(tmp_path, "month", changed) as account:
        assert account.left("2027-02-03") == "0.04"
        (said,) = account.other("2027-02-03")
        assert "people/bob/2027-02" in said
        assert "until 2027-03-01 UTC" in said
        assert not account.ask("0.045", "2027-02-03")
        assert account.ask("0.04", "2027-02-03")
        assert not account.ask("0.01", "2027-02-03")
        assert account.left("2027-03-01") == changed
        assert account.ask(changed, "2027-03-01")
        assert account.other("2027-03-01") == []


@pytest.mark.parametrize("first", ["day", "week", "month"])
@pytest.mark.parametrize("then", ["day", "week", "month"])
def test_a_changed_period_begins_after_the_open_window(tmp_path, first, then):
    """Names of windows do not sort by time: 2027-01-05 < 2027-w01, and 2027-01 < 2027-01-05."""
    with renewing(tmp_path, first) as account:
        assert account.ask("0.03", "2027-01-05T12:00")
        opened = account.window("2027-01-05T12:00")
        end = period_of(opened)[1]
    with renewing(tmp_path, then) as account:
        assert account.window("2027-01-05T13:00") == opened
        assert account.left("2027-01-05T13:00") == "0.02"
        assert bool(account.other("2027-01-05T13:00")) == (first != then)
        assert account.ask("0.02", "2027-01-05T13:00")
        assert not account.ask("0.01", "2027-01-05T14:00")
        after = datetime.fromtimestamp(end + 1, UTC).isoformat()[:19]
        assert account.left(after) == "0.05"
        assert account.ask("0.05", after)
        assert account.window(after) == window_of(account.account.renew, end + 1)
        assert account.left("2027-01-04" if first == "day" else "2026-12-20") == "0"  # set back: nothing is reopened
        assert not account.ask("0.01", "2026-12-20")


def test_windows_end_at_the_border_of_years(tmp_path):
    with renewing(tmp_path, "week") as account:
        assert account.ask("0.05", "2026-12-31T23:00")  # 2026-w53 ends on January 3
        assert account.left("2027-01-02") == "0"
        assert account.ask("0.05", "2027-01-04T00:00:01")
        assert account.left("2027-01-01") == "0"


def test_a_check_says_that_an_open_window_differs(tmp_path, capsys):
    with renewing(tmp_path, "month") as account:
        today = datetime.now(UTC).isoformat()[:19]
        assert account.ask("0.01", today)
        account.budgets.begin()
    with renewing(tmp_path, "month", "0.08"):
        pass
    check_survey(tmp_path / "survey.toml")
    assert "is open with the budget and the period of an earlier file" in " ".join(capsys.readouterr().out.split())
