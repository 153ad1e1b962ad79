"""A report with every kind that a plan knows, over generated people and with seeded noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sidelight.accuracy.expected import with_expected
from sidelight.plans import Plan, read_plan
from sidelight.records import Table
from sidelight.registry import PLAN_KINDS
from sidelight.report import Account, Item, Report, Use
from sidelight.testing import seeded_release

COLUMNS = """
[[column]]
name = "age"
lower = 16
upper = 99
granularity = 1
[[column]]
name = "weekly_working_hours"
lower = 0
upper = 168
granularity = 0.5
[[column]]
name = "income"
lower = 0
upper = 1000000
granularity = 1
[[column]]
name = "height"
lower = 100
upper = 250
granularity = 0.1
[[column]]
name = "weight"
lower = 10
upper = 200
granularity = 0.1
[[column]]
name = "sex"
kind = "category"
categories = ["F", "M"]
[[column]]
name = "job"
kind = "category"
categories = ["nurse", "driver", "cook and baker of cakes", "teacher", "none"]
[[column]]
name = "renewed"
kind = "category"
categories = ["no", "yes"]
other = false
"""
JOBS = ["nurse", "driver", "cook and baker of cakes", "teacher", "none"]
PRICE = "epsilon = 2\ndelta = 1e-6"
PUBLIC = 'prediction = {public = "survey.csv", origin = "survey of 2024, published"}'
MODEL = f'features = ["age", "weekly_working_hours"]\n{PRICE}'
QUERIES = {
    "quantiles": 'column = "income"\nlevels = [0.1, 0.25, 0.5, 0.75, 0.9]\nepsilon = 0.5',
    "distribution": 'column = "age"\nepsilon = 0.5',
    "covariance": f'columns = ["age", "weekly_working_hours", "income"]\nradius = 20000\n{PRICE}',
    "adassp": f'{MODEL}\ntarget = "income"\nfeature_norm = 200',
    "logistic_regression": f'features = ["age", "job"]\n{PRICE}\ntarget = "renewed"',
    "linear_svc": f'{MODEL}\ntarget = "renewed"',
    "linear_regression": f'{MODEL}\ntarget = "income"',
    "additive_regression": f'{MODEL}\ntarget = "income"',
    "additive_classifier": f'features = ["age", "job"]\n{PRICE}\ntarget = "renewed"',
    "stable_median": f'column = "weekly_working_hours"\nspread = 1\n{PRICE}',
    "stable_mode": f'column = "job"\n{PRICE}',
    "gaussian": f'columns = ["height", "weight"]\n{PUBLIC}\n{PRICE}',
    "gaussian_mixture": f'columns = ["height", "weight"]\ncomponents = 2\n{PUBLIC}\nepsilon = 6\ndelta = 1e-5',
    "count": f'by = ["job", "sex"]\nwhere = "age >= 18"\nepsilon = 0.5\n{PUBLIC.replace("survey.csv", "jobs.csv")}',
    "histogram": 'column = "age"\nbins = [20, 30, 40, 50, 60, 70]\nepsilon = 0.5',
    "mean": 'column = "income"\nby = "job"\nepsilon = 0.5',
    "sum": 'column = "weekly_working_hours"\nby = "job"\nepsilon = 0.5',
    "proportion": 'condition = \'renewed == "yes"\'\nby = "job"\nepsilon = 0.5',
    "variance": 'column = "height"\nby = "sex"\nepsilon = 1',
    "standard_deviation": 'column = "weight"\nepsilon = 1',
    "summary": 'column = "income"\nby = "sex"\nepsilon = 2',
    "count_distinct": 'column = "job"\nepsilon = 1',
    "top_k": 'column = "job"\nk = 3\nepsilon = 1',
    "sql": 'select = "SELECT job, COUNT(*), AVG(income) FROM people WHERE age >= 18 GROUP BY job"\nepsilon = 1',
    "synthetic_table": f'columns = ["sex", "job", "income", "renewed"]\nways = 2\n{PRICE}',
}
STATEMENT = (
    "For every fixed query plan: everything released of people is ApproxDP(ε = 60, δ = 0.0001; idealized) for one row."
)


def write_people(folder: Path) -> None:
    """Write `people.csv` and, of the same population, `survey.csv`."""
    rng = np.random.default_rng(1)
    lines = ["age,weekly_working_hours,income,sex,job,renewed,height,weight"]
    jobs = rng.choice(JOBS, 3000, p=[0.6, 0.1, 0.1, 0.1, 0.1])
    for job in jobs:
        age, first = int(np.clip(rng.normal(42, 14), 16, 99)), rng.random() < 0.5
        income = int(np.clip(900 * age + rng.normal(0, 4000), 0, 1_000_000))
        hours = round(2 * float(np.clip(rng.normal(38, 1), 0, 168))) / 2
        renewed = "yes" if age + rng.normal(0, 10) > 42 else "no"
        lines.append(f"{age},{hours},{income},{'F' if first else 'M'},{job},{renewed},{_body(rng, first=first)}")
    (folder / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    public = [_body(rng, first=place % 2 == 0) for place in range(60)]
    expected = [f"{job},{sex},{900 if job == 'nurse' else 150}" for job in JOBS for sex in ("F", "M")]
    (folder / "jobs.csv").write_text("\n".join(["job,sex,count", *expected]) + "\n", encoding="utf-8")
    (folder / "survey.csv").write_text("\n".join(["height,weight", *public]) + "\n", encoding="utf-8")


def plan_of_every_kind(folder: Path) -> Plan:
    """Write people and a plan that asks for one of each kind; a kind that is new must be added above."""
    assert set(QUERIES) == set(PLAN_KINDS)
    write_people(folder)
    queries = "".join(
        f'\n[[query]]\nkind = "{kind}"\ntitle = "A question of the kind {kind}"\n{text}\n'
        for kind, text in QUERIES.items()
    )
    source = '[source]\npath = "people.csv"\n'
    path = folder / "plan.toml"
    path.write_text(f"{source}{COLUMNS}[budget]\nepsilon = 60\ndelta = 1e-4\n{queries}", encoding="utf-8")
    return read_plan(path)


def every_kind(folder: Path) -> Report:
    """Release one of each kind."""
    plan = plan_of_every_kind(folder)
    table = Table(plan.one.path, schema=plan.schema, name=plan.name)
    items = [
        Item(
            title=each.title,
            outcome=with_expected(seeded_release(each.query, table, seed=3), each.query, each.prepared, plan.schema),
        )
        for each in plan.queries
    ]
    account = Account(
        statement=STATEMENT,
        uses=(Use(route="Sum of μ² (Gaussian)", fraction=0.4, text="0.2010040394450520 of 12.24 (40.0 %)"),),
        remaining="one more pure query up to ε = 1.8, or any number of queries whose μ² sum to at most 0.7",
        place="budget.db",
        scope="people",
        head="6c29441ef59130134cff38a3c0490c82878cea894ca8c8135ac0a542de9bfee0",
        epsilon=60.0,
        delta=1e-4,
    )
    return Report(title="Everything that can be asked", day="2026-11-15", items=tuple(items), account=account)


def _body(rng: np.random.Generator, *, first: bool) -> str:
    height, weight = (150, 40) if first else (195, 110)
    return f"{rng.normal(height, 4):.1f},{rng.normal(weight, 4):.1f}"
