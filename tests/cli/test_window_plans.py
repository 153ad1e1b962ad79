"""Plans with a window: both prices before anything is opened, both accounts charged, and mistakes refused by place."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

from plan_schema_check import problems, schema
from sidelight.errors import PlanError
from sidelight.guarantees import GDP, Claims
from sidelight.ledger import open_ledger
from sidelight.plans import read_plan

Run = Callable[..., Any]
PLAN = """
[database]
name = "clinic"

[table.person]
path = "person.csv"
[[table.person.column]]
kind = "person"
name = "who"
max_rows = 1
[[table.person.column]]
kind = "category"
name = "sex"
categories = ["F", "M"]

[table.visit]
path = "visit.csv"
[[table.visit.column]]
kind = "person"
name = "who"
max_rows = 4
[[table.visit.column]]
kind = "date"
name = "day"
start = "2024-01-01"
end = "2024-12-31"

[window]
length = "month"
start = "2024-01"
end = "2024-12"
dates = {visit = "day"}
budget = {epsilon = 1}

[[view]]
name = "people"
of = "person"
per_person = true
features = {visits = 'count(visit, upper = 5)'}

[budget]
epsilon = 5

[ledger]
url = "budget.db"

[[query]]
kind = "count"
title = "Visitors"
from = "visit"
by = ["person.sex"]
within = "2024-02"
epsilon = 0.5

[[query]]
kind = "mean"
title = "Visits a person"
from = "people"
column = "visits"
within = ["2024-03", "2024-04"]
epsilon = 0.25
"""


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    people = [f"p{number}" for number in range(40)]
    (tmp_path / "person.csv").write_text("\n".join(["who,sex", *(f"{who},F" for who in people), ""]))
    days = [f"{who},2024-0{2 + place % 3}-09" for place, who in enumerate(people * 2)]
    (tmp_path / "visit.csv").write_text("\n".join(["who,day", *days, ""]))
    (tmp_path / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _changed(folder: Path, old: str, new: str) -> Path:
    assert PLAN.count(old) == 1
    (folder / "plan.toml").write_text(PLAN.replace(old, new))
    return folder / "plan.toml"


def test_both_prices_and_what_is_read_are_printed_and_nothing_is_opened(sidelight: Run, clinic: Path) -> None:
    for name in ("person", "visit"):
        (clinic / f"{name}.csv").unlink()
    result = sidelight("plan", "plan.toml")
    assert result.status == 0, result.err
    said = " ".join(result.out.split())
    assert "'Visitors' is charged PureDP(ε = 0.5) to the lifetime account, and PureDP(ε = 0.5) to 2024-02." in said
    assert "'Visits a person' is charged PureDP(ε = 0.25) to the lifetime account, and PureDP(ε = 0.5) to each" in said
    assert "'Visitors' reads visit, at most 4 rows a person, of which K = 1 count; looks up person.sex." in said
    assert "'Visits a person' reads person, one row a person, of which K = 1 count; folds visits = count(" in said
    assert "add or remove one month of a person of clinic" in said
    assert not (clinic / "budget.db").exists()


def test_a_run_charges_both_accounts_once(sidelight: Run, clinic: Path) -> None:
    for _ in range(2):
        assert sidelight("run", "plan.toml").status == 0
    with open_ledger("sqlite:///budget.db") as ledger:
        found = {scope.scope_id: Fraction(scope.totals().epsilon, 10**30) for scope in ledger.scopes()}
        half = Fraction(1, 2)
        months = {f"clinic:periods:2024-0{month}": half for month in (2, 3, 4)}
        assert found == {"clinic": Fraction(3, 4), "clinic:periods": half, **months}
        assert ledger.verify().ok


def test_caps_per_period_are_priced_charged_and_kept_apart_from_accuracy(sidelight: Run, clinic: Path) -> None:
    _changed(
        clinic, 'within = "2024-02"\nepsilon = 0.5', 'within = ["2024-02", "2024-03"]\ncap = "block"\nepsilon = 0.5'
    )
    result = sidelight("plan", "plan.toml")
    assert result.status == 0, result.err
    said = " ".join(result.out.split())
    assert "'Visitors' is charged PureDP(ε = 0.5) to the lifetime account, and PureDP(ε = 0.25) to each of" in said
    assert "'Visitors' reads visit, at most 4 rows a person and period, of which K = 1 count" in said
    assert sidelight("run", "plan.toml").status == 0
    with open_ledger("sqlite:///budget.db") as ledger:
        found = {scope.scope_id: Fraction(scope.totals().epsilon, 10**30) for scope in ledger.scopes()}
    assert found["clinic"] == Fraction(3, 4)
    assert found["clinic:periods:2024-02"] == Fraction(1, 4)
    assert found["clinic:periods:2024-03"] == Fraction(3, 4)
    for command in (("accuracy", "plan.toml", "--within", "9", "--query", "1"), ("plan", "plan.toml", "--sweep")):
        refused = sidelight(*command)
        assert refused.status != 0
        assert "divides its price among 2 periods" in " ".join(refused.err.split())


def test_a_plan_that_is_short_in_one_month_runs_nothing(sidelight: Run, clinic: Path) -> None:
    _changed(
        clinic, 'within = ["2024-03", "2024-04"]\nepsilon = 0.25', 'within = ["2024-02", "2024-04"]\nepsilon = 0.5'
    )
    assert sidelight("plan", "plan.toml").status == 1
    result = sidelight("run", "plan.toml")
    assert result.status != 0
    assert "does not fit the budget of its periods" in result.err
    assert not (clinic / "budget.db").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('within = "2024-02"', 'within = "2025-02"', "none of them"),
        ('within = "2024-02"', 'within = ["2024-02", "2024-03", "2024-04"]', "the first and the last"),
        ('within = "2024-02"', "within = 2024", "within"),
        ('within = "2024-02"', 'cap = "block"', "name them by within"),
        ('within = "2024-02"', 'within = "2024-02"\ncap = "month"', "cap"),
        ('within = ["2024-03", "2024-04"]', 'within = ["2024-03", "2024-04"]\ncap = "block"', "have no date"),
        ('length = "month"', 'length = "hour"', "length"),
        ('dates = {visit = "day"}', 'dates = {person = "day"}', "sl.Date"),
        ("budget = {epsilon = 1}", "budget = {epsilon = 6}", "at least as much"),
        ("budget = {epsilon = 1}", "", "'budget' is missing"),
        ('[ledger]\nurl = "budget.db"', "", "outlive the process"),
        ('from = "visit"\nby = ["person.sex"]', 'from = "person"\nby = ["sex"]', "no table whose rows have a date"),
        ('path = "person.csv"', 'path = "visit.csv"', "'person' is read from the rows of 'visit'"),
    ],
)
def test_mistakes_are_refused_with_their_place(clinic: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        read_plan(_changed(clinic, old, new))


def test_a_plan_with_a_window_fits_the_schema(clinic: Path) -> None:
    import tomllib

    assert not list(problems(tomllib.loads(PLAN), schema()))
    assert read_plan(clinic / "plan.toml").window_budget is not None


def test_what_a_person_who_comes_every_month_is_promised() -> None:
    """The numbers of the page on budgets for periods; mu composes in squares."""
    found = []
    for months in (1, 12, 36, 60):
        approx = Claims.of(GDP(f"{0.2367 * months**0.5:.10f}")).approx_at("1e-6")
        assert approx is not None
        found.append(round(float(approx.epsilon), 2))
    assert found == [1.0, 3.9, 7.32, 9.91]


# --- several plans about the same people ------------------------------------------------------------------------------

SHOP = """
[source]
path = "shop.csv"

[[column]]
kind = "person"
name = "customer"
max_rows = 3
[[column]]
kind = "category"
name = "kind"
categories = ["a", "b"]

[budget]
epsilon = 2

[ledger]
url = "budget.db"
parent = "people"
parent_budget = {epsilon = 1}

[[query]]
kind = "count"
epsilon = 0.75
"""


def _shops(folder: Path) -> tuple[Path, Path]:
    """Write a plan of a shop, and one of another that is in no other way tied to it."""
    plans = []
    for name in ("shop", "other"):
        (folder / f"{name}.csv").write_text("customer,kind\n1,a\n2,b\n")
        plans.append(folder / f"{name}.toml")
        plans[-1].write_text(SHOP.replace("shop.csv", f"{name}.csv"))
    return plans[0], plans[1]


def test_plans_about_the_same_people_share_a_budget(sidelight: Run, tmp_path: Path) -> None:
    one, two = _shops(tmp_path)
    shown = " ".join(sidelight("plan", one).out.split())
    assert "Guarantee over all data sets together" in shown
    assert "Remaining for 'people' afterwards, in any of them: one pure query up to ε = 0.25" in shown
    assert sidelight("run", one, "-o", tmp_path / "one.html").status == 0
    refused = sidelight("plan", two)
    assert refused.status == 1
    found = sidelight("run", two, "-o", tmp_path / "two.html")
    assert found.status == 1
    assert "does not fit the budget of 'people'" in " ".join(found.err.split())
    with open_ledger(tmp_path / "budget.db") as ledger:
        assert [each.scope_id for each in ledger.scopes()] == ["people", "shop"]
    two.write_text(two.read_text().replace("0.75", "0.25"))
    assert sidelight("run", two, "-o", tmp_path / "two.html").status == 0
    with open_ledger(tmp_path / "budget.db") as ledger:
        assert Fraction(ledger.scope("people").totals().epsilon, 10**30) == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('parent = "people"\n', "", "both"),
        ("parent_budget = {epsilon = 1}\n", "", "both"),
        ('parent = "people"', 'parent = "shop"', "rename one"),
        ("{epsilon = 1}", "{}", "got nothing"),
        ('kind = "person"\nname = "customer"\nmax_rows = 3\n[[column]]\n', "", "protects people"),
    ],
)
def test_mistakes_of_a_common_budget_are_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    one, _ = _shops(tmp_path)
    one.write_text(one.read_text().replace(old, new))
    with pytest.raises(PlanError, match=words):
        read_plan(one)


def test_a_plan_that_says_another_common_budget_is_refused(sidelight: Run, tmp_path: Path) -> None:
    one, two = _shops(tmp_path)
    assert sidelight("run", one, "-o", tmp_path / "one.html").status == 0
    two.write_text(two.read_text().replace("{epsilon = 1}", "{epsilon = 5}"))
    found = sidelight("plan", two)
    assert found.status == 2
    assert "write parent_budget as in the plan that came first" in " ".join(found.err.split())
