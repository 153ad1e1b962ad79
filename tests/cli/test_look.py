"""`sidelight init --look`: what stands in the rows is published by no command before the owner confirmed it."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plan_schema_check import schema
from sidelight.cli.app import app

SECRET = "Anna Smith HIV+ 0151 234"  # short enough for a label
REPEATED = "called Bob Miller"  # forty times, of one person
COMMANDS = (
    ("plan", "plan.toml"),
    ("plan", "plan.toml", "--sweep"),
    ("check", "plan.toml"),
    ("run", "plan.toml"),
    ("sql", "plan.toml", "SELECT COUNT(*) FROM people", "--epsilon", "1"),
    ("sql", "plan.toml", "SELECT COUNT(*) FROM people", "--epsilon", "1", "--dry-run"),
    ("audit", "plan.toml"),
    ("accuracy", "plan.toml", "--within", "5"),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    remarks = ["none"] * 350 + ["recheck"] * 109 + [SECRET] + [REPEATED] * 40
    write(
        ("id", "age", "sex", "visit", "remark", "story"),
        [
            (
                "p0" if remark == REPEATED else f"p{number // 2}",
                20 + number % 60,
                "FM"[number % 2],
                f"2024-01-{1 + number % 28:02d}",
                remark,
                f"{number}: came in with {remark}",
            )
            for number, remark in enumerate(remarks)
        ],
    )
    return tmp_path


def write(header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    with Path("people.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def typed(*words: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == status, result.output
    return result.output


def columns() -> dict[str, dict[str, object]]:
    return {each["name"]: each for each in tomllib.loads(Path("plan.toml").read_text(encoding="utf-8"))["column"]}


def confirm(*, keep: int = 0) -> None:
    """Remove the key from every declaration but the last ones."""
    lines = Path("plan.toml").read_text(encoding="utf-8").splitlines()
    marked = [position for position, line in enumerate(lines) if line.startswith("from_rows = true")]
    for position in marked[: len(marked) - keep]:
        lines[position] = ""
    Path("plan.toml").write_text("\n".join(lines), encoding="utf-8")


def test_every_declaration_from_rows_has_the_key_and_free_text_has_no_declaration() -> None:
    said = typed("init", "people.csv", "--look")
    assert "FROM PRIVATE ROWS" in said
    assert "not declared, and never read: story" in said
    found = columns()
    assert {name: each["kind"] for name, each in found.items()} == {
        "id": "person",
        "age": "number",
        "sex": "category",
        "visit": "date",
        "remark": "category",
    }
    assert all(each["from_rows"] is True for each in found.values())
    assert found["remark"]["categories"] == ["none", "recheck"]
    for secret in (SECRET, REPEATED):
        assert secret not in said
        assert secret not in Path("plan.toml").read_text()


def test_what_the_owner_declared_is_not_marked() -> None:
    typed("init", "people.csv", "--look", "--number", "age:0:110:1", "--category", "sex:F,M:1", "--person", "id")
    assert {name for name, each in columns().items() if "from_rows" in each} == {"visit", "remark"}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_takes_a_plan_before_the_last_declaration_is_confirmed(words: tuple[str, ...]) -> None:
    typed("init", "people.csv", "--look")
    before = set(Path().iterdir())
    said = typed(*words, status=2)
    assert "'id', 'age', 'sex', 'visit', 'remark'" in said
    assert "remove the line `from_rows = true`" in said.replace("\n", " ")
    confirm(keep=1)
    assert "declarations of 'remark' were read from private rows" in typed(*words, status=2).replace("\n", " ")
    assert set(Path().iterdir()) == before  # no ledger, no report, no note of a check


def test_a_confirmed_plan_runs() -> None:
    typed("init", "people.csv", "--look")
    confirm()
    typed("check", "plan.toml")
    typed("run", "plan.toml")
    assert Path("report.html").exists()


def test_a_daily_plan_is_refused_too() -> None:
    Path("plan.toml").write_text(
        '[source]\npath = "trips-{day}.csv"\n[[column]]\nname = "fare"\nlower = 0\nupper = 9\nfrom_rows = true\n'
        '[budget]\nepsilon = 3\n[ledger]\nurl = "b.db"\n[sequence]\nlevels = [0.5]\nepsilon = 0.1\ncolumn = "fare"\n'
    )
    for words in (("today", "plan.toml", "--day", "2026-01-01"), ("plan", "plan.toml")):
        assert "'fare' were read from private rows" in typed(*words, status=2).replace("\n", " ")
    assert not Path("b.db").exists()


@pytest.mark.parametrize(
    "edit",
    [
        'from_rows = "false"',
        "from_rows = 0",
        "from_rows = []",
        "from_row = true",
        "From_Rows = false",
        "from_rows.x = false",
        "from_rows = true\nfrom_rows = false",
        '"from_rows" = true',
        '"from\\u005frows" = true',
        "from_rows = tru",
    ],
)
def test_edits_that_do_not_confirm(edit: str) -> None:
    """Only a key that is gone, or that says false, confirms a declaration."""
    typed("init", "people.csv", "--look")
    confirm(keep=1)
    text = Path("plan.toml").read_text()
    Path("plan.toml").write_text(text.replace("from_rows = true", f"{edit} #"))
    typed("run", "plan.toml", status=2)
    assert not Path("report.html").exists()


@pytest.mark.parametrize(
    "name",
    [
        'x"\n[budget]\nepsilon = 99',
        "x\x7fy",
        "x\u2028from_rows = false",
        "from_rows",
        'a"]\nfrom_rows = false\n#',
        "x\ny",
        "\\",
        "'''",
        "# x",
    ],
)
def test_hostile_names_and_labels_stay_texts(name: str) -> None:
    write((name, "kind"), [(number, name if number % 2 else "b") for number in range(100)])
    typed("init", "people.csv", "--look")
    found = columns()
    assert all(each["from_rows"] is True for each in found.values())
    assert found[name]["upper"] == 100
    if name.isprintable():
        assert found["kind"]["categories"] == sorted([name, "b"])
    else:
        assert "kind" not in found
    assert repr(name) in typed("run", "plan.toml", status=2)


def test_a_hostile_file_name_stays_a_comment() -> None:
    file = "x\ntitle = 'y'\n#.csv"
    Path("people.csv").rename(file)
    typed("init", file, "--number", "age:0:110")
    assert tomllib.loads(Path("plan.toml").read_text())["source"]["path"] == file
    assert tomllib.loads(Path("plan.toml").read_text())["title"] != "y"


@pytest.mark.parametrize("epsilon", [".5", "5.", "+1", "1e-1", "0_1", " 1 "])
def test_a_budget_is_written_as_toml_reads_it(epsilon: str) -> None:
    typed("init", "people.csv", "--number", "age:0:110", "--epsilon", epsilon, "--delta", ".000001")
    typed("plan", "plan.toml")


def test_a_few_rows_have_no_labels() -> None:
    write(("sex", "note"), [("F", "x"), ("M", "y"), ("F", "x")])
    assert "no column is declared" in typed("init", "people.csv", "--look", status=2)


def test_bounds_hold_the_values_that_they_come_from() -> None:
    write(("x",), [(-0.5 + number / 100,) for number in range(100)])
    typed("init", "people.csv", "--look")
    assert (columns()["x"]["lower"], columns()["x"]["upper"]) == (-1, 1)


def test_the_schema_for_editors_knows_the_key() -> None:
    kinds = schema()["properties"]["column"]["items"]["oneOf"]
    assert [each["properties"]["from_rows"] for each in kinds] == [{"type": "boolean"}] * 5


def test_json_names_the_columns_and_not_their_labels() -> None:
    said = json.loads(typed("init", "people.csv", "--look", "--json", "found.json") and Path("found.json").read_text())
    assert said["from_rows"] == ["id", "age", "sex", "visit", "remark"]
    assert "recheck" not in json.dumps(said)


def test_cells_as_people_write_them_are_read_as_check_would_propose() -> None:
    """Decimal commas, other dates, words for missing and two spellings; of two ways both are named."""
    write(
        ("id", "cost", "visit", "seen", "sex"),
        [
            (
                f"{'pP'[number % 2]}{number // 2}",
                "k.A." if number % 9 == 0 else SECRET[:10] if number == 5 else f"1.{number:03d},50",
                f"{1 + number % 28}.{1 + number % 12}.2025",
                f"0{1 + number % 9}/0{1 + number % 7}/2024",
                ("M", "m", "W", "w ")[number % 4],
            )
            for number in range(400)
        ],
    )
    typed("init", "people.csv", "--look")
    found = columns()
    assert {key: found["cost"][key] for key in ("kind", "decimal", "thousands", "missing_texts", "upper")} == {
        "kind": "number",
        "decimal": ",",
        "thousands": ".",
        "missing_texts": ["k.A."],
        "upper": 2000,
    }
    assert (found["visit"]["kind"], found["visit"]["formats"]) == ("date", ["%d.%m.%Y"])
    assert (found["visit"]["start"], found["visit"]["end"]) == ("2025-01-01", "2025-12-31")
    assert found["id"]["casefold"] is True
    assert (found["sex"]["strip"], found["sex"]["casefold"], len(found["sex"]["categories"])) == (True, True, 2)
    text = Path("plan.toml").read_text(encoding="utf-8")
    assert 'the cells can also be read with formats = ["%m/%d/%Y"]' in text
    assert SECRET[:10] not in text
    confirm()
    said = typed("check", "plan.toml")
    assert "1 of 400 cells unreadable" in said
