"""Plans of several tables: priced without the private files, run on them, checked for their owner, asked in SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

import sidelight as sl
from plan_schema_check import problems, schema
from sidelight.errors import PlanError
from sidelight.guarantees import PersonOf
from sidelight.ledger import open_ledger
from sidelight.plans import FolderResolver, Section, read_plan
from sidelight.plans.columns import TIED_COLUMN_TABLE, write_column
from sidelight.plans.sources import DATABASE_TABLE, VIEW
from sidelight.plans.toml_text import toml_lines
from sidelight.records.fold_text import fold_text, parse_fold

Run = Callable[..., Any]
PLAN = """
title = "A clinic"

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
kind = "key"
name = "id"
[[table.visit.column]]
kind = "reference"
name = "ward"
to = "ward"
[[table.visit.column]]
name = "days"
lower = 0
upper = 30
granularity = 1

[table.drug]
path = "drug.csv"
[[table.drug.column]]
kind = "via"
name = "visit"
to = "visit"
max_rows = 9
[[table.drug.column]]
name = "dose"
lower = 0
upper = 9
granularity = 1

[table.ward]
path = "ward.csv"
public = true
[[table.ward.column]]
kind = "key"
name = "ward"
[[table.ward.column]]
kind = "category"
name = "floor"
categories = ["1", "2"]

[[view]]
name = "people"
of = "person"
per_person = true
features = {visits = 'count(visit, where = ward.floor == "1", upper = 5)', stay = 'sum(visit, days, upper = 60)'}

[budget]
epsilon = 30

[ledger]
url = "budget.db"

[[query]]
kind = "count"
from = "visit"
by = ["ward.floor"]
max_groups = 2
epsilon = 4

[[query]]
kind = "mean"
from = "people"
column = "visits"
epsilon = 4

[[query]]
kind = "sql"
select = "SELECT COUNT(*) AS drugs FROM drug JOIN visit ON drug.visit = visit.id WHERE visit.days >= 3"
epsilon = 4
"""


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    people = [f"p{number}" for number in range(200)]
    visits = [(f"v{number}", people[number % 200], "ns"[number % 2], number % 7) for number in range(500)]
    files = {
        "person": ["who,sex", *(f"{who},{'FM'[place % 2]}" for place, who in enumerate(people))],
        "visit": ["id,who,ward,days", *(f"{key},{who},{ward},{days}" for key, who, ward, days in visits)],
        "drug": ["visit,dose", *(f"v{number % 500},{number % 9}" for number in range(900))],
        "ward": ["ward,floor", "n,1", "s,2"],
    }
    for name, lines in files.items():
        (tmp_path / f"{name}.csv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def changed(folder: Path, old: str, new: str) -> Path:
    assert old in PLAN
    path = folder / "plan.toml"
    path.write_text(PLAN.replace(old, new, 1), encoding="utf-8")
    return path


def test_it_is_priced_without_the_private_files(sidelight: Run, clinic: Path) -> None:
    for name in ("person", "visit", "drug"):
        (clinic / f"{name}.csv").unlink()
    plan = read_plan(clinic / "plan.toml")
    assert {each.prepared.claims.unit for each in plan.queries} == {PersonOf("clinic")}
    result = sidelight("plan", "plan.toml")
    assert result.status == 0, result.err
    assert "add or remove one person of clinic, with all their rows in all tables" in result.out
    assert result.out.count("does not exist yet") == 3
    assert not (clinic / "budget.db").exists()


def test_it_runs_once_and_is_stored(sidelight: Run, clinic: Path) -> None:
    result = sidelight("run", "plan.toml", "--json", "out.json")
    assert result.status == 0, result.err
    count, mean, joined = (each["outcome"] for each in json.loads((clinic / "out.json").read_text())["items"])
    assert count["query"]["view"]["of"] == "visit"
    assert mean["query"]["view"]["features"].keys() == {"visits", "stay"}
    assert "drug" in joined["query"]["statement"]
    with open_ledger("sqlite:///budget.db") as ledger:
        (scope,) = ledger.scopes()
        assert (scope.definition.unit, len(scope.entries())) == (PersonOf("clinic"), 3)
    again = sidelight("run", "plan.toml")
    assert "3 of 3 charges were paid in an earlier run" in again.out


def test_the_answers_are_those_of_a_session(clinic: Path) -> None:
    """At a price at which noise is nothing the numbers of the plan are those of the tables."""
    path = changed(clinic, "epsilon = 30", "epsilon = 900000")
    path.write_text(path.read_text().replace("epsilon = 4\n", "epsilon = 100000\n"), encoding="utf-8")
    plan = read_plan(path)
    data = plan.data.open()
    assert isinstance(data, sl.Database)
    session = sl.Session(data, budget=plan.budget)
    from dataclasses import replace

    found = [session.release(each.query, of=replace(each.of, tables=data.linked)).value for each in plan.queries]  # type: ignore[arg-type, type-var]
    assert [round(float(each)) for each in found[0]["count"][:2]] == [100, 100]
    assert float(found[1]["mean"][0]) == pytest.approx(250 / 200, abs=0.01)
    long = sum(number % 500 % 7 >= 3 for number in range(900))
    assert round(float(found[2]["drugs"][0])) == long


MISTAKES = {
    "a circle": (
        'kind = "person"\nname = "who"\nmax_rows = 4',
        'kind = "via"\nname = "who"\nto = "drug"\nmax_rows = 4',
    ),
    "no path": ('kind = "person"\nname = "who"\nmax_rows = 4\n[[table.visit.column]]\n', ""),
    "repeated public key": ("ward.csv", "twice.csv"),
    "unknown table": ('to = "ward"', 'to = "wards"'),
    "a source too": ("[database]", '[source]\npath = "visit.csv"\n[database]'),
    "no from": ('from = "visit"\n', ""),
    "unknown view": ('from = "people"', 'from = "peple"'),
    "unknown fold": ("count(visit", "cuont(visit"),
    "unknown column": ('by = ["ward.floor"]', 'by = ["ward.flor"]'),
    "from of a statement": ('kind = "sql"', 'kind = "sql"\nfrom = "drug"'),
    "public rows": ('from = "visit"', 'from = "ward"'),
    "two names of a key": ('kind = "key"\nname = "id"', 'kind = "key"\nname = "id"\ncolumns = ["id"]'),
    "a view called as a table": ('name = "people"', 'name = "visit"'),
    "an unknown key": ("public = true", "open = true"),
}
SAID = {
    "a circle": "declares no sl.Key",
    "no path": "no path to a person",
    "repeated public key": "twice",
    "unknown table": "leads to a table 'wards'",
    "a source too": "source does not go with [database]",
    "no from": 'Write from = "..."',
    "unknown view": "did you mean 'people'",
    "unknown fold": "did you mean 'count'",
    "unknown column": "'ward.flor'",
    "from of a statement": "leave the key from out",
    "public rows": "no view or private table 'ward'",
    "two names of a key": "or several by columns",
    "a view called as a table": "is the name of a table or view",
    "an unknown key": "unknown key 'open'",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named_before_anything_is_charged(sidelight: Run, clinic: Path, name: str) -> None:
    (clinic / "twice.csv").write_text("ward,floor\nn,1\nn,2\n", encoding="utf-8")
    path = changed(clinic, *MISTAKES[name])
    with pytest.raises(PlanError, match=re.escape(SAID[name])):
        read_plan(path)
    assert sidelight("run", "plan.toml").status != 0
    assert not (clinic / "budget.db").exists()


def test_a_circle_of_ways_to_the_person(clinic: Path) -> None:
    path = changed(clinic, *MISTAKES["a circle"])
    drug = '[[table.drug.column]]\nkind = "key"\nname = "visit"\n'
    path.write_text(path.read_text().replace("[table.ward]", drug + "[table.ward]"), encoding="utf-8")
    with pytest.raises(PlanError, match="goes in a circle: visit -> drug -> visit"):
        read_plan(path)


def test_keys_of_two_kinds_are_refused_before_a_charge(sidelight: Run, clinic: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"visit": pa.array([1, 2]), "dose": pa.array([1, 2])}), clinic / "drug.parquet")
    whole = "id,who,ward,days\n1,p1,n,2\n"
    (clinic / "visit.csv").write_text(whole, encoding="utf-8")
    pq.write_table(
        pa.table({"id": ["1"], "who": ["p1"], "ward": ["n"], "days": pa.array([2])}), clinic / "visit.parquet"
    )
    path = changed(clinic, "visit.csv", "visit.parquet")
    path.write_text(path.read_text().replace("drug.csv", "drug.parquet"), encoding="utf-8")
    result = sidelight("run", "plan.toml")
    assert result.status != 0
    assert "of two kinds" in result.err
    assert not (clinic / "budget.db").exists()


def test_a_session_on_one_table_of_the_database_is_refused(clinic: Path) -> None:
    data = read_plan(clinic / "plan.toml").data.open()
    assert isinstance(data, sl.Database)
    with pytest.raises(sl.errors.SchemaError, match="budget is for its people as a whole"):
        sl.Session(data["visit"], budget=sl.PureDP(1))
    with pytest.raises(sl.errors.SchemaError, match="part of the database"):
        sl.Count(epsilon=1).release(data["visit"])


def test_check_shows_contested_and_dangling_rows_to_the_owner(sidelight: Run, clinic: Path) -> None:
    visit, drug = clinic / "visit.csv", clinic / "drug.csv"
    visit.write_text(visit.read_text() + "v1,p9,x,2\nv600,,n,2\n", encoding="utf-8")  # v1 is p1's; x is not a ward
    drug.write_text(drug.read_text() + "v999,1\n,1\n", encoding="utf-8")
    before = sidelight("run", "plan.toml")
    assert "not checked yet" in before.out
    assert not re.search("contested|dangling", before.out + before.err + Path("report.html").read_text())
    result = sidelight("check", "plan.toml", "--json", "found.json")
    assert result.status == 0, result.err
    found = {each["table"]: each for each in json.loads((clinic / "found.json").read_text())["tables"]}
    assert (found["visit"]["contested"], found["visit"]["dangling"], found["visit"]["repeated_keys"]) == (0, 1, 1)
    assert found["visit"]["references"] == [{"name": "ward", "to": "ward", "missing": 0, "dangling": 1, "of_others": 0}]
    assert (found["drug"]["contested"], found["drug"]["dangling"]) == (2, 2)  # two drugs of v1
    assert (found["person"]["persons"], found["person"]["elsewhere"]) == (200, 0)
    assert "2 of 902 rows (0.222 %) contested" in result.out
    assert "ward" not in found


def test_a_statement_over_the_database(sidelight: Run, clinic: Path) -> None:
    statement = (
        "SELECT p.sex, COUNT(*) AS visits FROM visit v JOIN person p ON v.who = p.who JOIN ward w ON v.ward = w.ward "
        "WHERE w.floor = '1' GROUP BY p.sex"
    )
    dry = sidelight("sql", "plan.toml", statement, "--epsilon", "1", "--dry-run")
    assert dry.status == 0, dry.err
    assert not (clinic / "budget.db").exists()
    result = sidelight("sql", "plan.toml", statement, "--epsilon", "1", "--json", "answer.json")
    assert result.status == 0, result.err
    answer = json.loads((clinic / "answer.json").read_text())
    assert answer["items"][0]["outcome"]["query"]["view"]["of"] == "visit"
    wrong = sidelight("sql", "plan.toml", "SELECT COUNT(*) FROM vists", "--epsilon", "1")
    assert wrong.status != 0
    assert "visit" in wrong.err


def test_other_commands_take_it_or_say_that_they_do_not(sidelight: Run, clinic: Path) -> None:
    assert sidelight("accuracy", "plan.toml", "--within", "20", "--query", "1").status == 0
    refused = sidelight("dummy", "plan.toml")
    assert refused.status != 0
    assert "takes a plan with one [source]" in refused.err


def test_columns_and_views_are_written_as_they_are_read() -> None:
    for tie in (sl.Key("a"), sl.Key("a", "b"), sl.Reference("a", to="t"), sl.PersonVia("a", "b", to="t", max_rows=3)):
        assert TIED_COLUMN_TABLE.read_section(Section(write_column(tie))) == tie
    features = {"n": sl.fold.count("visit", where=sl.col("ward.floor") == "1", upper=3)}
    features["gap"] = sl.fold.gap("visit", "day", "largest", empty=0)
    features["both"] = sl.fold.last("my visits", ["x", "y.z"], order="day.of")
    for fold in features.values():
        assert parse_fold(fold_text(fold)).to_json() == fold.to_json()
    written = VIEW.keys["features"].form.write(features, FolderResolver())
    values = {"name": "v", "of": "t", "features": written}
    found = VIEW.read_values(Section(values))["features"]
    assert {name: each.to_json() for name, each in found.items()} == {
        name: each.to_json() for name, each in features.items()
    }
    assert toml_lines(values)


def test_the_schema_of_plans_takes_it_and_refuses_a_source_beside_it(clinic: Path) -> None:
    import tomllib

    plan = tomllib.loads(PLAN)
    assert not list(problems(plan, schema()))
    assert list(problems(plan | {"source": {"path": "x.csv"}}, schema()))
    assert list(problems({key: value for key, value in plan.items() if key != "database"}, schema()))


def test_a_public_table_out_of_a_private_file_is_refused_before_it_is_read(clinic: Path) -> None:
    """Its keys would be quoted where they repeat, and those are persons."""
    (clinic / "link.csv").symlink_to(clinic / "person.csv")
    for path in ("person.csv", "./person.csv", "link.csv"):
        (clinic / "plan.toml").write_text(PLAN.replace('path = "ward.csv"', f'path = "{path}"'))
        with pytest.raises(PlanError, match="it is the source of 'person', which is private"):
            read_plan(clinic / "plan.toml")


def test_one_file_as_the_rows_of_two_people_is_refused(clinic: Path) -> None:
    (clinic / "plan.toml").write_text(PLAN.replace('path = "drug.csv"', 'path = "visit.csv"'))
    with pytest.raises(PlanError, match="'visit' and 'drug' are the same rows"):
        read_plan(clinic / "plan.toml")


def test_a_prediction_from_a_private_table_is_refused(clinic: Path) -> None:
    old = "max_groups = 2\nepsilon = 4\n"
    new = old + 'prediction = {public = "%s", origin = "s"}\n'
    with pytest.raises(PlanError, match="the private source of this plan"):
        read_plan(changed(clinic, old, new % "visit.csv"))


def test_the_example_of_the_page_is_priced(sidelight: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "plan-files.md").read_text(encoding="utf-8")
    (example,) = (text for text in re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL) if "[database]" in text)
    (tmp_path / "plan.toml").write_text(example, encoding="utf-8")
    (tmp_path / "concept.csv").write_text("code,group\na,antibiotic\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = sidelight("plan", "plan.toml")
    assert result.status == 0, result.err
    for key in {*DATABASE_TABLE.keys, *VIEW.keys, *TIED_COLUMN_TABLE.tables} - {"column"}:
        assert re.search(rf'`"?{key}[" =`]', page), key


PAIRS = """
[[view]]
name = "doses"
of = "visit"
pairs_with = "drug"
on = "visit"
where = "days < dose"
max_rows = 6

[[query]]
kind = "count"
from = "doses"
of = "rows"
where = "ward.floor == '1'"
epsilon = 2
"""


def test_pairs_are_a_view_of_a_plan(sidelight: Run, clinic: Path) -> None:
    (clinic / "plan.toml").write_text(PLAN + PAIRS, encoding="utf-8")
    assert sidelight("plan", "plan.toml").status == 0
    result = sidelight("run", "plan.toml", "--json", "out.json")
    assert result.status == 0, result.err
    view = json.loads((clinic / "out.json").read_text())["items"][-1]["outcome"]["query"]["view"]
    assert (view["of"], view["pairs_with"], view["on"], view["max_rows"]) == ("visit", "drug", "visit", "6")
    for old, new, message in (
        ("max_rows = 6\n", "", "pairs need max_rows"),
        ('on = "visit"', 'on = "ward"', "no reference leads"),
        ('on = "visit"', "per_person = true", "views without pairs_with"),
        ('pairs_with = "drug"\n', "", "pairs, with pairs_with"),
    ):
        with pytest.raises(PlanError, match=message):
            read_plan_of(clinic, PLAN + PAIRS.replace(old, new))


def read_plan_of(folder: Path, text: str) -> Any:
    (folder / "plan.toml").write_text(text, encoding="utf-8")
    return read_plan(folder / "plan.toml")


def test_init_proposes_a_database_and_assumes_no_tie(sidelight: Run, clinic: Path) -> None:
    (clinic / "plan.toml").unlink()
    for old, new in (("visit", "visit_id"), ("id", "visit_id")):
        file = clinic / ("drug.csv" if old == "visit" else "visit.csv")
        file.write_text(file.read_text().replace(f"{old},", f"{new},", 1), encoding="utf-8")
    refused = sidelight("init", ".")
    assert refused.status != 0
    assert "--person COLUMN" in refused.err
    options = ("--person", "who", "--number", "visit.days:0:30:1", "--category", "person.sex:F,M")
    made = sidelight("init", ".", *options, "--json", "made.json")
    assert made.status == 0, made.err
    assert "proposed, not assumed: drug.visit_id names a row of visit" in made.out
    assert "not read: ward" in made.out
    plan = read_plan("plan.toml")
    assert {each.name for each in plan.data.tables} == {"person", "visit"}
    assert all(not each.schema.links for each in plan.data.tables)
    assert {each.rows for each in plan.queries} == {"person", "visit"}
    assert sidelight("plan", "plan.toml").status == 0
    assert sidelight("run", "plan.toml").status == 0


def test_init_asks_about_each_tie(clinic: Path) -> None:
    from typer.testing import CliRunner

    from sidelight.cli.app import app

    drug, visit = clinic / "drug.csv", clinic / "visit.csv"
    drug.write_text(drug.read_text().replace("visit,", "visit_id,", 1), encoding="utf-8")
    visit.write_text(visit.read_text().replace("id,", "visit_id,", 1), encoding="utf-8")
    command = ["init", ".", "--person", "who", "--number", "drug.dose:0:9:1", "--ask", "-o", "new.toml"]
    result = CliRunner().invoke(app, command, input="y\ny\n")  # drugs are tied to visits, wards are public
    assert result.exit_code == 0, result.output
    assert "does drug.visit_id name a row of visit by its visit_id, whose person the row belongs to?" in result.output
    tables = {each.name: each for each in read_plan("new.toml").data.tables}
    assert tables["drug"].schema.via == sl.PersonVia("visit_id", to="visit", max_rows=5)
    assert tables["visit"].schema.key == sl.Key("visit_id")


def test_init_declares_the_column_of_the_table_that_is_named(sidelight: Run, tmp_path: Path) -> None:
    """A column of another table may be called as a path is written."""
    (tmp_path / "a.csv").write_text("who,visit.cost\n1,2\n", encoding="utf-8")
    (tmp_path / "visit.csv").write_text("who,cost\n1,2\n", encoding="utf-8")
    plan, command = tmp_path / "plan.toml", ("init", str(tmp_path), "--person", "who", "--overwrite")
    for path, wanted in (("visit.cost", ["who"]), ("a.visit.cost", ["who", "visit.cost"])):
        made = sidelight(*command, "--number", f"{path}:0:9:1", "-o", str(plan))
        assert made.status == 0, made.err
        tables = {each.name: list(each.schema.names) for each in read_plan(plan).data.tables}
        assert tables == {"a": wanted, "visit": ["who", "cost"] if wanted == ["who"] else ["who"]}


def test_files_of_one_header_are_one_table(sidelight: Run, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for name in ("a", "b"):
        (tmp_path / "parts" / f"{name}.csv").write_text("age\n31\n", encoding="utf-8")
    made = sidelight("init", str(tmp_path / "parts"), "--number", "age:0:110", "-o", str(tmp_path / "plan.toml"))
    assert made.status == 0, made.err
    assert read_plan(tmp_path / "plan.toml").one.schema.names == ("age",)
