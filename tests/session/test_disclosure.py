"""Deployment records: by the registry's schema, from the ledger alone, and without a value of a release."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from benchmarks.disclosures import FACTS, SCHEMA, records, wrong_in

import sidelight as sl
from plan_schema_check import problems
from sidelight.errors import LedgerError, RangeError
from sidelight.ledger import Scope

COLUMNS = [sl.PersonId("member", max_rows=3), sl.Number("age", lower=0, upper=110, granularity=1)]


@pytest.fixture
def session(tmp_path: Path) -> sl.Session:
    return sl.Session(sl.dummy(COLUMNS, 400), budget=sl.ApproxDP(2, "1e-6"), ledger=tmp_path / "budget.db")


def test_every_record_is_valid(tmp_path: Path) -> None:
    found = {title: wrong_in(made) for title, made in records(tmp_path)}
    assert len(found) > 20
    assert {title: wrong for title, wrong in found.items() if wrong} == {}


def test_a_database_has_a_record_of_its_people_and_all_its_tables(tmp_path: Path) -> None:
    code = sl.Table({"k": ["1"], "kind": ["q"]}, schema=[sl.Key("k"), sl.Category("kind", ["q"])], public=True)
    database = sl.Database({"loan": sl.dummy(COLUMNS, 40), "code": code}, name="library")
    session = sl.Session(database, budget=sl.PureDP(2), ledger=tmp_path / "budget.db")
    session.release(sl.Mean("age", epsilon=1), of="loan")
    made = session.disclosure(**FACTS)
    assert wrong_in(made) == []
    deployment = made.record["deployment"]
    assert deployment["privacy_loss"]["privacy_unit"] == "Person"
    assert "all tables of library" in deployment["privacy_loss"]["privacy_unit_details"]
    assert "- loan.age: numbers from 0 to 110" in deployment["dp_variant"]["unprotected_quantities"]
    assert "code.kind" in deployment["dp_variant"]["data_domain"]


@pytest.mark.planted("a YAML writer without quotes")
def test_the_check_can_fail(session: sl.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.release(sl.Count(epsilon="0.5"))
    record: Any = dict(session.disclosure(**FACTS).record)
    deployment = record["deployment"]
    for part, key, value in (
        ("basic", "data_product_type", "A table"),
        ("privacy_loss", "privacy_parameters", {"mu": 1}),
        ("administrative", "tier", 4),
        ("administrative", "registry_authors", "A. Ny"),
    ):
        changed = {**record, "deployment": {**deployment, part: {**deployment[part], key: value}}}
        assert list(problems(changed, SCHEMA)), key
    without = {**deployment["basic"]}
    del without["data_curators"]
    assert list(problems({**record, "deployment": {**deployment, "basic": without}}, SCHEMA))
    monkeypatch.setattr("sidelight.session.deployment_record._scalar", str)  # a writer without quotes
    assert wrong_in(session.disclosure(name="a: b # c", **FACTS))


def test_it_says_what_the_ledger_knows(session: sl.Session) -> None:
    session.release(sl.Count(epsilon="0.5"))
    mean = session.release(sl.Mean("age", epsilon="0.25"))
    made = session.disclosure(name="Loans", units=150, **FACTS)
    deployment = made.record["deployment"]
    loss = deployment["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": 2, "delta": 1e-6}
    assert loss["number_of_privacy_units"] == 150
    assert "at most 3 rows" in loss["privacy_unit_details"]
    assert "mean of age: PureDP(ε = 0.25" in loss["privacy_parameters_details"]
    assert "discrete Laplace" in deployment["implementation"]["mechanisms"]
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    assert deployment["administrative"]["tier"] == 2
    assert (
        session.disclosure(justification="x", actors="y", **FACTS).record["deployment"]["administrative"]["tier"] == 3
    )
    assert f"{mean.value['mean'][0]:.6g}" not in made.to_yaml()  # no released number, and nothing else of the rows
    assert made.file_name.startswith("loans_town_library_")
    assert "Privacy loss" in [heading for heading, _ in made.sections()]
    assert "<table>" in made._repr_html_()


def test_a_statement_is_one_query_and_no_batch(session: sl.Session) -> None:
    statement = 'SELECT COUNT(*) FILTER (WHERE age > 30) AS n, AVG(age) AS a FROM "generated rows"'
    session.release(sl.SQL(statement, epsilon="0.5"))
    made = session.disclosure(**FACTS)
    deployment = made.record["deployment"]
    assert wrong_in(made) == []
    assert deployment["basic"]["data_product_type"] == "SQL queries"
    assert statement in deployment["basic"]["description"]
    assert statement in deployment["privacy_loss"]["privacy_parameters_details"]
    assert "batches" not in deployment["implementation"]["composition"]
    session.release_together([sl.Count(epsilon="0.1"), sl.Mean("age", epsilon="0.1")], delta="1e-7")
    assert "1 batches" in session.disclosure(**FACTS).record["deployment"]["implementation"]["composition"]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({}, "only you know"),
        ({**FACTS, "curatr": "x"}, "did you mean 'curator'"),
        ({**FACTS, "curator_type": "School"}, "Government"),
        ({**FACTS, "authors": "A. Ny"}, "list"),
        ({**FACTS, "sector": "Sport"}, "Healthcare"),
    ],
)
def test_mistakes_are_named(session: sl.Session, facts: dict[str, Any], why: str) -> None:
    session.release(sl.Count(epsilon="0.5"))
    with pytest.raises(RangeError, match=why):
        session.disclosure(**facts)


def test_it_needs_a_ledger_and_a_release(session: sl.Session) -> None:
    with pytest.raises(LedgerError, match="nothing was released"):
        session.disclosure(**FACTS)
    alone = sl.Session(session.table, budget=sl.PureDP(1))
    with pytest.raises(LedgerError, match="pass ledger"):
        alone.disclosure(**FACTS)


def test_exact_totals_are_named_as_such(tmp_path: Path) -> None:
    """What is published without noise is never said to have noise, whatever the publisher writes of it."""
    people = sl.Table({"block": ["11", "12", "21"] * 200}, schema=[sl.Category("block", ["11", "12", "21"])], name="t")
    blocks = sl.Hierarchy("block", {"town": 1}, invariants=sl.Invariant("town", reason="Towns Act, s. 4"))
    kept = sl.Invariant("town", reason="Towns Act, s. 4", of=blocks)
    session = sl.Session(people, budget=sl.ZCDP(1), invariants=kept, ledger=tmp_path / "budget.db")
    session.release(sl.Count(by=blocks, rho="0.1"))
    for facts in (FACTS, {**FACTS, "unprotected": "The opening hours."}):
        deployment = session.disclosure(**facts).record["deployment"]
        said = deployment["dp_variant"]["unprotected_quantities"]
        assert said.startswith("Released exactly, without noise: ")
        assert "Towns Act, s. 4" in said.splitlines()[0]
        assert "No statistic" not in said
    assert "The opening hours." in said
    assert "the exact totals and public parameters" in deployment["implementation"]["post_processing"]


def test_without_exact_totals_nothing_is_without_noise(session: sl.Session) -> None:
    session.release(sl.Count(epsilon="0.5"))
    deployment = session.disclosure(**FACTS).record["deployment"]
    said = deployment["dp_variant"]["unprotected_quantities"]
    assert said.startswith("No statistic of the rows is released without noise")
    assert "exact totals" not in deployment["implementation"]["post_processing"]


def test_times_of_charges_are_those_of_the_ledger(session: sl.Session) -> None:
    """Charges of a program have times of their own, so no sentence may say that they have one."""
    for _ in range(2):
        session.release(sl.Count(epsilon="0.1"))
        time.sleep(1.1)
    account = session._account
    assert isinstance(account, Scope)
    assert len({entry.at_utc for entry in account.entries()}) == 2
    mechanisms = session.disclosure(**FACTS).record["deployment"]["implementation"]["mechanisms"]
    assert "charges of one run carry one time" not in mechanisms
    assert "those of a session in a program their own" in mechanisms


def test_an_estimated_error_is_not_called_a_probability(tmp_path: Path) -> None:
    rows = sl.dummy([sl.Number("a", lower=0, upper=10), sl.Number("b", lower=0, upper=10)], 2000)
    session = sl.Session(rows, budget=sl.ApproxDP(5, "1e-6"), ledger=tmp_path / "budget.db")
    model = sl.LinearRegression(epsilon=1, delta="1e-7", session=session).fit_table(rows, target="b", features=["a"])
    release = session.release(sl.Quantiles([0.5], column="a", epsilon=1))
    assert model.release_.error is not None
    assert release.error is not None
    assert not model.release_.error.proved
    assert release.error.proved
    head, fitted, median = session.disclosure(**FACTS).record["deployment"]["implementation"]["utility"].splitlines()
    assert "probability" not in head
    assert ": estimated at 95 %, not proved: off by " in fitted
    assert ": worst case at 95 %: off by " in median
