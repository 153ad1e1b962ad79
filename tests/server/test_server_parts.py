"""Parts of a server by themselves: its file, budgets that isolate, seats, tokens, and lines that cannot be changed."""

from __future__ import annotations

import asyncio
import json
import os
import time
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sidelight as sl
from analyst_server import USUAL, serving, write_survey
from sidelight.accounting import Totals
from sidelight.cli.analysts import _probed, new_analyst_token, resume_service, revoke_analyst_token, set_pause
from sidelight.errors import BudgetError, ClaimError, LedgerError, PlanError, RangeError, StorageError
from sidelight.guarantees import Claims
from sidelight.ledger import open_ledger
from sidelight.server.answers import table_json
from sidelight.server.audit_log import AuditLog, check_audit_log
from sidelight.server.budgets import Budgets
from sidelight.server.config import Division, rule_of
from sidelight.server.config_file import read_config
from sidelight.server.identity import DAY, IdentityStore
from sidelight.server.pricing import answer_job
from sidelight.server.schedule import SeatSchedule
from sidelight.server.service import AnalystService
from sidelight.wire import ProblemError


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share": "{epsilon = 1.1}"}, "add up to more than its budget"),
        ({"share": "{rho = 1}"}, "budget must have epsilon"),
        ({"largest": "{epsilon = 0.0001}"}, "smallest is larger than largest"),
        ({"more": "sharing2 = 1"}, "unknown key 'sharing2'"),
        ({"currency": "epsilons"}, "did you mean 'epsilon'"),
        ({"currency": "epsilon and delta"}, "budget must have epsilon and delta"),
        ({"more": "population = 'x'"}, "there is no .population.x"),
    ],
)
def test_mistakes_in_the_file_are_refused_with_their_place(tmp_path, changes, message):
    with pytest.raises(PlanError, match=message):
        read_config(write_survey(tmp_path, **changes))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("people.parquet", "people.csv", "Convert it to Parquet"),
        ('name = "people"', 'name = "../people"', "is not a valid name"),
        ('name = "bob"', 'name = "ada"', "two accounts"),
        ('"cy", "dan"', '"ada", "dan"', "has an account already"),
        ('"count", "mean"', '"count", "selection"', "kinds names"),
        ('default = "4 s"', 'default = "0.1 s"', "too short"),
        ('default = "4 s"', 'default = "4 hours"', "a number and a unit"),
        ("port = 0", 'port = 0\nhost = "0.0.0.0"', "in the clear"),
        ("seats = 1", "seats = 1000", "seats must lie in"),
        ("seats = 1", 'seats = 1\nmemory = "90000 GiB"', "are more than the"),
        ("[[table]]", '[public.p]\npath = "people.parquet"\norigin = "x"\n[[table]]', "the private source"),
    ],
)
def test_a_file_that_would_harm_somebody_is_refused(tmp_path, old, new, message):
    file = write_survey(tmp_path)
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(PlanError, match=message):
        read_config(file)


def test_one_source_in_two_tables_needs_a_common_population(tmp_path):
    file = write_survey(tmp_path)
    head, _, table = file.read_text().partition("[[table]]")
    other = table.replace('name = "people"', 'name = "again"')
    file.write_text(f"{head}[[table]]{table}\n[[table]]{other}")
    with pytest.raises(PlanError, match="two budgets"):
        read_config(file)
    shared = '[population.all]\ncurrency = "epsilon"\nbudget = {epsilon = 6}\n'
    both = f"[[table]]{table}\n[[table]]{other}".replace("capacity", 'population = "all"\ncapacity')
    file.write_text(f"{head}{shared}{both}")
    config = read_config(file)
    budgets = Budgets(config, create=True)
    budgets.open_scopes()
    assert budgets.ledger.scope("people/ada").ledger.ancestry("people/ada")[-1].scope_id == "all"
    budgets.close()


def months(folder, *, population, table="", second="other.parquet"):
    """Write a file with two tables below a population."""
    file = write_survey(folder, strict="true\n" + table)
    (folder / "other.parquet").write_bytes((folder / "people.parquet").read_bytes())
    head, _, one = file.read_text().partition("[[table]]")
    one = one.replace("capacity", 'population = "visitors"\ncapacity')
    other = one.replace('name = "people"', 'name = "later"').replace("people.parquet", second)
    file.write_text(f"{head}[population.visitors]\n{population}\n[[table]]{one}\n[[table]]{other}")
    return file


PARTS = 'currency = "epsilon"\nbudget = {epsilon = 3}\npartitioned_by = "month of the first visit"'


def test_parts_of_a_population_share_no_budget(tmp_path):
    """The full budget for each table of the population: no person is in two."""
    with pytest.raises(PlanError, match="add up to more than its budget"):
        read_config(months(tmp_path, population=PARTS.replace("partitioned_by", "#")))
    config = read_config(months(tmp_path, population=PARTS))
    budgets = Budgets(config, create=True)
    budgets.open_scopes()
    budgets.check_isolation()
    for table in config.tables.values():
        for account in table.accounts:
            budgets.reserve(table, account, Claims.of(sl.PureDP(1)), moment=0.0, request={"kind": "count"}, key="a")
            assert budgets.remaining(table, account, moment=0.0) == {"epsilon": "0"}
    assert budgets.ledger.scope("visitors").totals().epsilon == 3 * 10**30
    assert budgets.ledger.verify().ok
    described = table_json(config, config.tables["later"], config.tables["later"].accounts[0], {})
    assert described["population"]["partitioned_by"] == "month of the first visit"
    assert "ε = 3" in described["population"]["promise"]
    budgets.close()
    file = tmp_path / "survey.toml"  # without the rule it is another population
    file.write_text(
        file.read_text().replace("partitioned_by = ", "sharing = 'first come'#").replace('"reserved"', '"first come"')
    )
    other = Budgets(read_config(file))
    with pytest.raises(LedgerError, match="exists with another"):
        other.open_scopes()
    other.close()


def test_what_is_left_of_a_part_is_its_own(tmp_path):
    """First come, with tables that may each spend all: what one spent is still there for the other."""
    file = months(tmp_path, population=PARTS.replace("epsilon = 3", "epsilon = 2") + "\nsharing = 'first come'")
    file.write_text(file.read_text().replace('"reserved"', '"first come"'))
    config = read_config(file)
    budgets = Budgets(config, create=True)
    budgets.open_scopes()
    people, later = config.tables["people"], config.tables["later"]
    for place in (0, 1):
        account = people.accounts[place]
        budgets.reserve(people, account, Claims.of(sl.PureDP("0.9")), moment=0.0, request={"kind": "count"}, key="a")
    assert budgets.remaining(people, people.accounts[2], moment=0.0) == {"epsilon": "0.2"}
    assert budgets.remaining(later, later.accounts[2], moment=0.0) == {"epsilon": "1"}
    budgets.close()


@pytest.mark.parametrize(
    ("population", "second", "message"),
    [
        (PARTS, "people.parquet", "two budgets"),
        (PARTS.replace("month of the first visit", " "), "other.parquet", "public rule"),
        (PARTS.replace("partitioned_by", "frozen = true #"), "other.parquet", "frozen belongs to"),
        (PARTS.replace('"epsilon"', '"rho"').replace("{epsilon", "{rho"), "other.parquet", "frozen = true"),
    ],
)
def test_a_partition_that_would_not_hold_is_refused(tmp_path, population, second, message):
    with pytest.raises(PlanError, match=message):
        read_config(months(tmp_path, population=population, second=second))


RHO = {
    "currency": "rho",
    "budget": "{rho = 3}",
    "share": "{rho = 1}",
    "largest": "{rho = 1}",
    "smallest": "{rho = 0.001}",
}


@pytest.mark.parametrize("currency", ["rho", "mu"])
def test_a_promise_in_rho_or_mu_is_stated_at_a_delta(tmp_path, currency):
    amounts = {key: text.replace("rho", currency) for key, text in RHO.items()} | {"share": f"{{{currency} = 0.5}}"}
    table = read_config(write_survey(tmp_path, **amounts, strict='true\nstated_delta = "1e-6"')).tables["people"]
    stated = Claims.of(table.budget).approx_at("1e-6")
    assert stated is not None
    assert f"{currency if currency == 'mu' else 'ρ'}".replace("mu", "μ") in table.promise
    assert f"ApproxDP(ε = {str(float(stated.epsilon))[:4]}" in table.promise
    assert table.promise.endswith("δ = 1e-6).")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strict": 'true\nstated_delta = "1e-6"'}, "for budgets in rho or mu"),
        ({**RHO, "strict": 'true\nstated_delta = "0.01"'}, "at most 1/capacity"),
        ({**RHO, "strict": 'true\nstated_delta = "0"'}, "delta must be positive"),
        ({**RHO, "strict": "true\nstated_delta = true"}, "stated_delta"),
    ],
)
def test_a_delta_that_says_little_is_refused(tmp_path, changes, message):
    with pytest.raises(PlanError, match=message):
        read_config(write_survey(tmp_path, **changes))


def test_a_changed_budget_of_a_population_is_noticed(tmp_path):
    file = write_survey(tmp_path)
    text = file.read_text().replace("capacity", 'population = "all"\ncapacity')
    shared = '[population.all]\ncurrency = "epsilon"\nbudget = {epsilon = 3}\n[[table]]'
    file.write_text(text.replace("[[table]]", shared))
    budgets = Budgets(read_config(file), create=True)
    budgets.open_scopes()
    budgets.open_scopes()
    budgets.close()
    file.write_text(file.read_text().replace("budget = {epsilon = 3}\n[[table]]", "budget = {epsilon = 30}\n[[table]]"))
    again = Budgets(read_config(file))
    with pytest.raises(LedgerError, match="exists with another"):
        again.open_scopes()
    again.close()


@pytest.mark.parametrize(
    "select",
    [
        "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
        "SELECT COUNT(*) FROM '/etc/passwd'",
        "SELECT COUNT(*) FROM people, '/etc/passwd'",
        "SELECT COUNT(*) FROM people UNION SELECT COUNT(*) FROM read_text('/etc/passwd')",
        "SELECT (SELECT COUNT(*) FROM '/etc/passwd') FROM people",
        "SELECT COUNT(*) FROM other",
        "SELECT AVG(getenv('HOME')) FROM people",
        "SELECT COUNT(*) FROM people; DROP TABLE people",
        "ATTACH '/etc/passwd'",
    ],
)
def test_sql_reads_its_table_and_nothing_else(tmp_path, select):
    config = read_config(write_survey(tmp_path))
    query = json.dumps({"kind": "sql", "select": select, "epsilon": "0.1"})
    found = answer_job(config, {"do": "price", "table": "people", "query": query, "kind": "sql"})
    assert found["problem"]["code"] in ("query", "schema")
    assert "unexpected" not in found["problem"]
    assert "root:" not in found["problem"]["text"]


CURRENCIES = {
    "epsilon": lambda amount: sl.PureDP(amount),
    "rho": lambda amount: sl.ZCDP(amount),
    "mu": lambda amount: sl.GDP(amount),
    "epsilon and delta": lambda amount: sl.ApproxDP(amount, Fraction(amount) / 10**7),
}


@settings(max_examples=60, deadline=None)
@given(
    currency=st.sampled_from(sorted(CURRENCIES)),
    shares=st.lists(st.decimals("0.01", "1", places=3), min_size=1, max_size=4),
    history=st.lists(st.tuples(st.integers(0, 3), st.decimals("0.001", "0.7", places=4)), max_size=25),
)
def test_what_a_share_grants_the_whole_grants(currency, shares, history):
    """With shares that fit, no history of others makes the whole refuse what a share grants."""
    make = CURRENCIES[currency]
    if currency == "mu":
        whole = sl.GDP(Fraction(str(Decimal(sum(each * each for each in shares)).sqrt() + Decimal("1e-20"))))
    else:
        total = sum(Fraction(str(each)) for each in shares)
        whole = make(total)
    budgets = [make(Fraction(str(each))) for each in shares]
    assert Division(name="t", budget=whole, parts=budgets).fits()
    rules, top = [rule_of(each) for each in budgets], rule_of(whole)
    totals, above = [Totals.zero() for _ in rules], Totals.zero()
    for who, amount in history:
        place = who % len(rules)
        claims = Claims.of(make(Fraction(str(amount))))
        charge = rules[place].charge(claims)
        assert charge == top.charge(claims)
        if rules[place].grants(totals[place], charge):
            assert top.grants(above, charge)
            totals[place], above = totals[place].plus(charge), above.plus(charge)


@pytest.mark.planted("the default (epsilon, delta) rule in place of one route")
def test_with_the_default_rule_one_analyst_would_change_the_price_of_others(tmp_path):
    from sidelight.accounting import Rule

    claims = Claims.of(sl.ZCDP("1e-6"))
    whole = sl.ApproxDP(1, "1e-6")
    assert Rule.for_budget(whole).charges(claims) != (rule_of(whole).charge(claims),)
    file = write_survey(
        tmp_path,
        currency="epsilon and delta",
        budget='{epsilon = 3, delta = "3e-6"}',
        share='{epsilon = 1, delta = "1e-7"}',  # a scope chooses a pair by its own budget
        largest='{epsilon = 0.5, delta = "1e-7"}',
        smallest='{epsilon = 0.001, delta = "1e-12"}',
    )
    budgets = Budgets(read_config(file), create=True)
    budgets.open_scopes()
    table = budgets.config.tables["people"]
    with pytest.raises(ClaimError):  # one route: a request without a pair is refused before any charge
        budgets.quote(table, table.accounts[0], claims, delta=None, moment=0.0)
    quote = budgets.quote(table, table.accounts[0], claims, delta="1e-8", moment=0.0)
    assert quote.charge["delta"] == "0.00000001"
    budgets.close()


WINDOWS = "renew = {every = 'month', budget = {epsilon = 0.25}, windows = 3}"
JANUARY, FEBRUARY, MARCH, APRIL = (datetime(2026, month, 10, tzinfo=UTC).timestamp() for month in (1, 2, 3, 4))


@pytest.fixture
def renewed(tmp_path):
    file = write_survey(tmp_path)
    file.write_text(file.read_text().replace('{name = "bob",', f'{{name = "bob", {WINDOWS},'))
    budgets = Budgets(read_config(file), create=True)
    budgets.open_scopes()
    yield budgets
    assert budgets.ledger.verify().ok
    budgets.close()


def charge(budgets, amount, *, key, moment):
    table = budgets.config.tables["people"]
    given = {"request": {"kind": "count", "epsilon": amount}, "key": key, "once": True, "sent": f"digest of {key}"}
    return budgets.reserve(table, table.accounts[1], Claims.of(sl.PureDP(amount)), moment=moment, **given)


def left(budgets, moment):
    table = budgets.config.tables["people"]
    return budgets.remaining(table, table.accounts[1], moment=moment)["epsilon"]


def test_a_window_paces_and_adds_nothing(renewed):
    assert left(renewed, JANUARY) == "0.25"
    charge(renewed, "0.2", key="a", moment=JANUARY)
    assert (left(renewed, JANUARY), left(renewed, FEBRUARY)) == ("0.05", "0.25")
    with pytest.raises(BudgetError):
        charge(renewed, "0.1", key="b", moment=JANUARY)
    charge(renewed, "0.25", key="c", moment=FEBRUARY)
    assert left(renewed, JANUARY) == "0"  # the rest of January is not available later, and January is closed
    with pytest.raises(LedgerError):  # a clock that was set back reopens nothing
        charge(renewed, "0.01", key="d", moment=JANUARY)
    charge(renewed, "0.25", key="e", moment=MARCH)
    assert left(renewed, APRIL) == "0"
    with pytest.raises(ProblemError) as refused:  # windows is how many may ever be opened
        charge(renewed, "0.01", key="f", moment=APRIL)
    assert refused.value.code == "budget"
    assert renewed.ledger.scope("people/bob").spent().basic.total == Fraction("0.7")
    assert renewed.ledger.scope("people").spent().basic.total == Fraction("0.7")


def test_one_key_in_two_windows_is_one_request(renewed):
    first = charge(renewed, "0.1", key="a", moment=JANUARY)
    first.fail()
    again = charge(renewed, "0.1", key="a", moment=FEBRUARY)
    assert (again.entry_id, again.state) == (first.entry_id, "failed")
    assert renewed.ledger.scope("people/bob").spent().basic.total == Fraction("0.1")


def test_windows_that_are_more_than_the_share_are_refused(tmp_path):
    file = write_survey(tmp_path)
    more = WINDOWS.replace("0.25", "0.5")
    file.write_text(file.read_text().replace('{name = "bob",', f'{{name = "bob", {more},'))
    with pytest.raises(PlanError, match="people/bob"):
        read_config(file)


@pytest.mark.planted("a charge past the server to a table whose shares are reserved")
def test_a_charge_to_the_table_itself_is_seen(tmp_path):
    config = read_config(write_survey(tmp_path))
    budgets = Budgets(config, create=True)
    budgets.open_scopes()
    table = config.tables["people"]
    assert budgets.sharing(table) == "reserved"
    budgets.ledger.scope("people").reserve(Claims.of(sl.PureDP("2.5")), request={"kind": "count"})
    budgets.close()
    again = Budgets(config)
    assert again.sharing(table) == "first come"
    assert again.remaining(table, table.accounts[0], moment=0.0) == {"epsilon": "0.5"}
    with pytest.raises(PlanError, match="no longer fit"):
        again.check_isolation()
    again.close()


def test_shares_of_mu_add_up_in_squares():
    assert Division(name="t", budget=sl.GDP(1), parts=[sl.GDP("0.7"), sl.GDP("0.7")]).fits()
    assert not Division(name="t", budget=sl.GDP(1), parts=[sl.GDP("0.5"), sl.GDP("0.9")]).fits()


def test_scopes_of_the_ledger_are_compared_with_the_file(tmp_path):
    config = read_config(write_survey(tmp_path))
    budgets = Budgets(config, create=True)
    budgets.open_scopes()
    budgets.close()
    other = Budgets(read_config(write_survey(tmp_path, share="{epsilon = 0.9}")))
    with pytest.raises(LedgerError, match="exists with another"):
        other.open_scopes()
    other.close()


def test_scopes_that_the_file_no_longer_names_still_count(tmp_path):
    file = write_survey(tmp_path)
    budgets = Budgets(read_config(file), create=True)
    budgets.open_scopes()
    budgets.check_isolation()
    budgets.close()
    file.write_text(file.read_text().replace('{name = "bob"', '{name = "eve"'))
    again = Budgets(read_config(file))
    with pytest.raises(LedgerError, match="more than its budget"):
        again.open_scopes()
    again.ledger.close_scope("people/bob")
    again.open_scopes()  # closed: it counts with what it spent, which is nothing
    again.check_isolation()
    again.close()


@pytest.mark.planted("an older copy of the ledger")
def test_an_older_copy_of_the_ledger_is_refused_at_the_start(tmp_path):
    config = read_config(write_survey(tmp_path))
    budgets = Budgets(config, create=True)
    budgets.open_scopes()
    budgets.check_head()
    budgets.close()
    copy = (tmp_path / "budget.db").read_bytes()
    budgets = Budgets(config)
    budgets.scope(config.tables["people"], config.tables["people"].accounts[0]).reserve(
        Claims.of(sl.PureDP("0.1")), request={"kind": "count"}
    )
    budgets.close()
    for each in tmp_path.glob("budget.db*"):
        each.unlink()
    (tmp_path / "budget.db").write_bytes(copy)
    code = (
        "import sys\nfrom sidelight.server.budgets import Budgets\n"
        "from sidelight.server.config_file import read_config\n"
        "Budgets(read_config(sys.argv[1])).check_head()"
    )
    import subprocess
    import sys

    found = subprocess.run([sys.executable, "-c", code, str(tmp_path / "survey.toml")], capture_output=True, text=True)
    assert found.returncode == 1
    assert "does not verify" in found.stderr


ARRIVALS = st.lists(
    st.tuples(st.floats(0, 5), st.sampled_from("abc"), st.sampled_from([1.0, 2.0, 4.0])), min_size=1, max_size=30
)


@settings(max_examples=100, deadline=None)
@given(seats=st.integers(1, 5), arrivals=ARRIVALS)
def test_seats_are_held_alone_from_tick_to_end(seats, arrivals):
    schedule = SeatSchedule(seats=seats, tick=0.25, queue=20, longest_wait=30)
    now, slots = 1000.0, []
    for pause, account, duration in arrivals:
        now += pause
        try:
            slots.append((now, schedule.place(account, duration, now=now), duration))
        except ProblemError as problem:
            if problem.code != "busy" or problem.more["retry_after"] < 1:
                raise
    for place, (arrived, slot, duration) in enumerate(slots):
        assert slot.start >= arrived - 1e-6  # a tick is a float
        assert slot.start - arrived <= 30
        assert slot.end == slot.start + duration
        assert abs(slot.start / 0.25 - round(slot.start / 0.25)) < 1e-6
        for _, other, _ in slots[:place]:
            overlap = other.start < slot.end and slot.start < other.end
            assert not (overlap and other.seat == slot.seat)
        own = [o for _, o, _ in slots if o.account == slot.account and o.start <= slot.start < o.end]
        assert len(own) <= max(1, seats // 2)


def test_one_account_cannot_fill_the_queue():
    schedule = SeatSchedule(seats=2, tick=0.25, queue=8, longest_wait=600)
    for _ in range(2):
        schedule.place("greedy", 2.0, now=100.1)
    with pytest.raises(ProblemError):
        schedule.place("greedy", 2.0, now=100.1)
    assert schedule.place("other", 2.0, now=100.1).start < 101


def test_tokens_expire_and_no_clock_revives_them(tmp_path):
    store, now = IdentityStore(tmp_path / "identity.db"), time.time()
    token = store.issue("ada", now=now, days=1)
    holder = store.holder(f"Bearer {token}", now=now)
    assert (holder.analyst, holder.may("ask", "people")) == ("ada", True)
    assert token not in (tmp_path / "identity.db").read_bytes().decode("latin-1")
    with pytest.raises(ProblemError):
        store.holder(f"Bearer {token}", now=now + 2 * DAY)
    with pytest.raises(ProblemError):  # the clock is set back
        store.holder(f"Bearer {token}", now=now)
    with pytest.raises(StorageError, match="40 days"):
        store.check_clock(now + 50 * DAY)
    assert store.latest(now + 50 * DAY, keep=False) == now + 50 * DAY  # who only looks confirms nothing
    with pytest.raises(StorageError, match="--clock"):
        store.check_clock(now + 50 * DAY)
    store.latest(now + 50 * DAY)
    store.check_clock(now + 50 * DAY)
    only = store.issue("ada", now=now + 2 * DAY, tables=["people"], actions=["read"])
    found = store.holder(f"Bearer {only}", now=now + 2 * DAY)
    assert (found.may("read", "people"), found.may("read", "other"), found.may("ask", "people")) == (True, False, False)
    store.pause("people", "ada", now=now)
    assert store.is_paused("people", "ada")
    assert not store.is_paused("people", "bob")
    store.resume("people", "ada", now=now)
    assert not store.is_paused("people", "ada")
    store.close()


@pytest.mark.planted("a line of the audit log that was changed")
def test_a_changed_audit_log_is_noticed(tmp_path):
    log = AuditLog(tmp_path / "audit.jsonl")
    for place in range(3):
        log.write(action="accepted", number=place)
    log.close()
    assert check_audit_log(tmp_path / "audit.jsonl") == 3
    again = AuditLog(tmp_path / "audit.jsonl")
    again.write(action="accepted", number=3)
    again.close()
    assert check_audit_log(tmp_path / "audit.jsonl") == 4
    text = (tmp_path / "audit.jsonl").read_text()
    (tmp_path / "audit.jsonl").write_text(text.replace('"number": 1', '"number": 7'))
    with pytest.raises(StorageError, match="line 3"):
        check_audit_log(tmp_path / "audit.jsonl")


def test_what_the_owner_does_stands_in_the_log_between_lines_of_the_service(tmp_path):
    file = write_survey(tmp_path)
    log = AuditLog(read_config(file).audit)
    log.write(action="accepted", number=0)
    new_analyst_token(file, analyst="ada", tables=[], actions="read,ask", days=3, words="a note")
    log.write(action="accepted", number=1)
    set_pause(file, table="people", analyst="ada", paused=True)
    resume_service(file, table="people", analyst="ada", clock=True)
    revoke_analyst_token(file, client="ada")
    log.write(action="accepted", number=2)
    with pytest.raises(RangeError):  # what was not done is not logged
        revoke_analyst_token(file, client="ada")
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    done = ["accepted", "token new", "accepted", "pause", "clock", "resume", "token revoke", "accepted"]
    assert [each["action"] for each in lines] == done
    assert check_audit_log(tmp_path / "audit.jsonl") == len(done)
    assert "sl_" not in (tmp_path / "audit.jsonl").read_text()


def test_a_check_prices_a_query_of_each_kind(tmp_path):
    file = write_survey(tmp_path)
    config = read_config(file)
    largest, unpriced = _probed(config, config.tables["people"])
    assert largest > 1000
    assert unpriced == {}
    file.write_text(file.read_text().replace('"count", "mean"', '"count", "gaussian_mixture"'))
    config = read_config(file)
    assert list(_probed(config, config.tables["people"])[1]) == ["gaussian_mixture"]


def test_a_forecast_that_takes_too_long_leaves_the_price():
    class Slow(AnalystService):
        def __init__(self):
            self._prices = {}

        async def job(self, asking, name, query):
            return {"query": "", "kind": "count"}

        async def computed(self, holder, job):
            if job["forecast"] or holder.analyst == "bob":
                raise ProblemError("too-dear")
            return {"guarantee": "a price", "expected": None}

    def price(analyst, *, forecast):
        asking = SimpleNamespace(holder=SimpleNamespace(analyst=analyst))
        return asyncio.run(Slow().priced(asking, {}, forecast=forecast))

    found = price("ada", forecast=True)
    assert (found["guarantee"], found["expected"]["basis"]) == ("a price", "nothing")
    assert price("ada", forecast=False)["expected"] is None
    with pytest.raises(ProblemError):  # the price itself takes too long
        price("bob", forecast=True)


@pytest.mark.parametrize(("query", "price", "asked"), [(100, 100, 1), (100, 20_000, 2), (20_000, 100, 2)])
def test_a_price_is_remembered_if_it_is_short(query, price, asked):
    """A statement of 345 characters whose columns double each other kept a price of 1 MB."""
    jobs = []

    class Counting(AnalystService):
        def __init__(self):
            self._prices = {}

        async def job(self, asking, name, query):
            return {"query": query["select"], "kind": "sql"}

        async def computed(self, holder, job):
            jobs.append(job)
            return {"guarantee": "a price", "request": "x" * price}

    service, asking = Counting(), SimpleNamespace(holder=SimpleNamespace(analyst="ada"))
    for _ in range(2):
        asyncio.run(service.priced(asking, {"select": "x" * query}, forecast=True))
    assert len(jobs) == asked


@pytest.mark.parametrize(("terms", "fits"), [(95, True), (96, False), (97, False), (100, False)])
@pytest.mark.parametrize("together", [False, True])
def test_what_the_ledger_cannot_store_has_no_price(tmp_path, terms, fits, *, together):
    """It was priced as fitting, and each request for it was answered with "cannot answer now"."""
    pair = {"currency": "epsilon and delta", "budget": "{epsilon = 3, delta = 3e-5}", "strict": "false"}
    pair |= {"share": "{epsilon = 1, delta = 1e-5}", "largest": "{epsilon = 0.5, delta = 1e-6}"}
    pair |= {"smallest": "{epsilon = 0.001, delta = 0}", "more": "together = true"}
    config = read_config(write_survey(tmp_path, **pair))
    terms -= 2 * together  # a batch is a mapping and a list
    query = {"kind": "sql", "select": f"SELECT COUNT(*) AS a, {'+'.join('a' * terms)} AS b FROM people", "epsilon": "1"}
    if together:
        query = {"kind": "together", "queries": [query], "delta": "1e-7"}
    job = {"do": "price", "table": "people", "query": json.dumps(query), "kind": query["kind"]}
    found = answer_job(config, job)
    if not fits:
        assert found["problem"]["code"] == "query"
        assert "nested too deep" in found["problem"]["text"]
        return
    with open_ledger(tmp_path / "budget.db") as ledger:  # and the ledger stores, verifies and exports what has one
        ledger.open_scope("people", budget=sl.PureDP(1))
        request = {**found["answer"]["request"], "server": {"seconds": "4"}}
        ledger.scope("people").reserve(Claims.of(sl.PureDP("0.1")), request=request).fail()
        assert ledger.verify().ok
        assert ledger.export(tmp_path / "events.jsonl") == 4
    with open_ledger(tmp_path / "other.db") as other:
        other.open_scope("people", budget=sl.PureDP(1))
        other.import_events(tmp_path / "events.jsonl")


def test_a_server_does_not_start_without_its_sources(tmp_path):
    pytest.importorskip("uvicorn")
    file = write_survey(tmp_path)
    (tmp_path / "people.parquet").write_bytes(b"no Parquet")
    with pytest.raises(AssertionError, match="a source of 'people' cannot be opened"), serving(file):
        pass


def test_a_torn_line_of_the_audit_log_harms_no_other(tmp_path, monkeypatch):
    log, write = AuditLog(tmp_path / "audit.jsonl"), os.write
    log.write(action="accepted", number=0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, line: write(file, line[:10]))
        with pytest.raises(StorageError):
            log.write(action="accepted", number=1)
    log.write(action="accepted", number=2)
    log.close()
    assert check_audit_log(tmp_path / "audit.jsonl") == 3
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    (tmp_path / "audit.jsonl").write_text("\n".join([lines[0], lines[2]]) + "\n")
    with pytest.raises(StorageError, match="line 2"):
        check_audit_log(tmp_path / "audit.jsonl")


def test_prices_are_functions_of_file_and_request(tmp_path):
    config = read_config(write_survey(tmp_path))
    job = {"do": "price", "table": "people", "query": '{"kind":"count","epsilon":"0.1"}', "kind": "count"}
    first = answer_job(config, job)
    (tmp_path / "people.parquet").unlink()  # no price opens the source
    assert answer_job(config, job) == first
    assert first["answer"]["guarantee"] == "PureDP(ε = 0.1)"
    assert json.dumps(first)
    assert USUAL["currency"] == "epsilon"
    strict = answer_job(config, {**job, "query": '{"kind":"count","mu":"0.1"}'})
    assert "problem" in strict or strict["answer"]["claims"]
