"""One idealized release makes every statement about its budget idealized: where it is said, and where it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.disclosures import FACTS
from typer.testing import CliRunner

import sidelight as sl
from sidelight.accounting import Rule
from sidelight.cli.app import app
from sidelight.guarantees import Claims
from sidelight.ledger import open_ledger

MARK = "; idealized)"
COLUMNS = [sl.Number("a", lower=0, upper=1), sl.Number("b", lower=0, upper=1)]
ROWS = {"a": [0.1, 0.2] * 50, "b": [0.3, 0.4] * 50}
IDEALIZED = sl.Covariance(["a", "b"], epsilon="0.5", radius=1)
EXACT = sl.Covariance(["a", "b"], epsilon="0.25", radius=1, noise="laplace")
#: A release, a budget of any kind that pays for it.
BUDGETS = [sl.PureDP(1), sl.ApproxDP(3, "1e-6"), sl.ZCDP(2), sl.GDP(3)]


def people(name: str = "t") -> sl.Table:
    rows = {**ROWS, "who": list(range(100))}
    return sl.Table(rows, schema=[*COLUMNS, sl.PersonId("who", max_rows=1)], name=name)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("kept", [False, True])
def test_a_session_says_so(budget: Any, kept: bool, tmp_path: Path) -> None:
    session = sl.Session(people(), budget=budget, ledger=tmp_path / "b.db" if kept else None)
    session.release(EXACT)
    assert "dealized" not in session.statement() + session._repr_html_() + str(session.spent.surely)
    release = session.release(IDEALIZED)
    assert release.circumstances.numerics == "idealized"
    assert "idealized)" in str(release.guarantee)
    session.release(EXACT)  # what comes later does not take it away
    assert f"together {type(budget).__name__}(" in session.statement()
    assert session.statement().count(MARK) == 1
    assert "Idealized: part of it is proved for real-number arithmetic" in session.statement()
    assert MARK in session._repr_html_()
    sure = session.spent.surely
    assert sure == (sl.PureDP(1, unit=people().schema.unit, numerics="idealized") if sure is not None else None)
    assert (sure is not None) == isinstance(budget, sl.PureDP | sl.ApproxDP)
    if kept:  # a session that is opened later knows it from the ledger
        assert sl.Session(people(), budget=budget, ledger=tmp_path / "b.db").statement() == session.statement()


def test_batches_and_failures_count_as_releases_do(tmp_path: Path) -> None:
    session = sl.Session(people(), budget=sl.ApproxDP(2, "1e-6"), ledger=tmp_path / "b.db")
    session.release_together([EXACT, IDEALIZED], delta="1e-7")
    assert MARK in session.statement()
    with open_ledger(tmp_path / "b.db") as ledger:
        scope = ledger.open_scope("other", budget=sl.PureDP(1))
        assert MARK not in scope.statement()
        reserved: Any = scope.reserve(Claims.of(sl.PureDP("0.1", numerics="idealized")), request={"kind": "x"})
        reserved.fail()
        assert MARK in scope.statement()
        booked = ledger.open_scope("booked", budget=sl.PureDP(1))
        booked.record_external(Claims.of(sl.PureDP("0.1", numerics="idealized")), note="a tool")
        assert (MARK in booked.statement(), MARK in str(booked.spent().surely)) == (True, True)
        asked = ledger.open_scope("asked", budget=sl.PureDP(1))
        asked.reserve(Claims.of(sl.PureDP("0.1")), request={"kind": "x", "numerics": "idealized"})
        assert MARK not in asked.statement()  # the word in a request is no claim


def test_a_common_budget_says_so_for_all_of_its_data_sets(tmp_path: Path) -> None:
    common: dict[str, Any] = {"parent": sl.CommonBudget("all", sl.PureDP(2)), "ledger": tmp_path / "b.db"}
    shop, clinic = (sl.Session(people(name), budget=sl.PureDP(1), **common) for name in ("shop", "clinic"))
    shop.release(EXACT)
    clinic.release(IDEALIZED)
    own, together = shop.statement().split(" Everything ever ")
    assert MARK not in own
    assert MARK in together
    assert clinic.statement().count(MARK) == 2


def test_periods_say_so_each_for_itself(tmp_path: Path) -> None:
    rows = {**ROWS, "who": list(range(100)), "day": np.repeat(["2024-01-05", "2024-02-05"], 50).tolist()}
    columns = [*COLUMNS, sl.PersonId("who", max_rows=1), sl.Date("day", start="2024-01-01", end="2024-02-29")]
    window = sl.Window("month", start="2024-01", end="2024-02", dates={"visit": "day"})
    made = sl.Database({"visit": sl.Table(rows, schema=columns)}, name="clinic", window=window)
    budgets: dict[str, Any] = {"budget": sl.PureDP(3), "window_budget": sl.PureDP(2)}
    session = sl.Session(made, **budgets, ledger=tmp_path / "b.db")
    session.release(EXACT, of=made.view("visit").within("2024-01"))
    session.release(IDEALIZED, of=made.view("visit").within("2024-02"))
    assert session.statement().count(MARK) == 2
    assert MARK in session.periods.statement()
    said = [str(session.periods.spent(month).surely) for month in ("2024-01", "2024-02")]
    assert ["idealized)" in each for each in said] == [False, True]


def test_an_import_takes_it_along(tmp_path: Path) -> None:
    session = sl.Session(people(), budget=sl.PureDP(1), ledger=tmp_path / "b.db")
    session.release(IDEALIZED)
    with open_ledger(tmp_path / "b.db") as ledger:
        ledger.export(tmp_path / "b.jsonl")
    other = sl.Session(people(), budget=sl.PureDP(1), ledger=tmp_path / "other.db")
    assert MARK not in other.statement()
    with open_ledger(tmp_path / "other.db") as ledger:
        ledger.import_events(tmp_path / "b.jsonl")
    assert MARK in other.statement()
    other.release(EXACT)
    deployment = other.disclosure(**FACTS).record["deployment"]
    assert MARK in deployment["privacy_loss"]["privacy_parameters_details"]
    assert "exact but for charges without a stored release" in deployment["implementation"]["mechanisms"]


def test_a_deployment_record_says_so(tmp_path: Path) -> None:
    session = sl.Session(people(), budget=sl.PureDP(1), ledger=tmp_path / "b.db")
    session.release(EXACT)
    assert "dealized" not in session.disclosure(**FACTS).to_yaml()
    session.release(IDEALIZED)
    deployment = session.disclosure(**FACTS).record["deployment"]
    details = deployment["privacy_loss"]["privacy_parameters_details"]
    assert f"together PureDP(ε = 1{MARK}" in details
    assert "exact but for covariance" in deployment["implementation"]["mechanisms"]


def test_a_budget_that_is_idealized_itself() -> None:
    rule = Rule.for_budget(sl.PureDP(1, numerics="idealized"))
    assert MARK in rule.statement()


PLAN = """
title = "Two columns"
[source]
path = "rows.csv"
name = "rows"
[[column]]
name = "a"
lower = 0
upper = 1
[[column]]
name = "b"
lower = 0
upper = 1
[budget]
epsilon = 1
[ledger]
url = "budget.db"
[[query]]
kind = "covariance"
columns = ["a", "b"]
epsilon = 0.5
radius = 1
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    lines = ["a,b", *(f"{a},{b}" for a, b in zip(ROWS["a"], ROWS["b"], strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "exact.toml").write_text(PLAN + 'noise = "laplace"\n')

    def run(*words: str) -> str:
        result = CliRunner().invoke(app, [*words])
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    return run


def test_the_command_line_says_so(command: Callable[..., str], tmp_path: Path) -> None:
    promise = f"together PureDP(ε = 1{MARK}"
    assert promise not in command("plan", "exact.toml")
    assert f"Guarantee: Everything ever released under this budget is {promise}" in command("plan", "plan.toml")
    command("run", "exact.toml", "-o", "exact.html")
    assert "dealized" not in command("ledger", "show", "budget.db")
    assert "dealized" not in (tmp_path / "exact.html").read_text()
    command("run", "plan.toml", "-o", "report.html")
    assert promise in command("ledger", "show", "budget.db")
    assert promise in command("plan", "exact.toml")  # what was charged before is part of the promise
    command("ledger", "show", "budget.db", "--json", "shown.json")
    assert promise in json.dumps(json.loads((tmp_path / "shown.json").read_text()), ensure_ascii=False)
    report = (tmp_path / "report.html").read_text().replace("\u00a0", " ")
    assert promise in report
    assert f"what has been released is together PureDP(ε = 1{MARK}" in report
