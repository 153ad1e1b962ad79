"""From a file to a plan and a report: `sidelight init`, `check`, and the reminder of `run`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sidelight.cli.app import app

ROWS = "id,age,sex,visit,note\n" + "".join(
    f'p{number // 2},{20 + number % 60},{"FM"[number % 2]},2024-01-{1 + number % 28:02d},"a, b"\n'
    for number in range(80)
)
FLAGS = [
    *("--person", "id", "--max-rows", "2", "--number", "age:0:110:1", "--category", "sex:F,M"),
    *("--date", "visit:2020-01-01:2025-12-31"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(ROWS)
    return tmp_path


def typed(*words: str, answers: str | None = None, status: int = 0) -> str:
    result = CliRunner().invoke(app, list(words), input=answers)
    assert result.exit_code == status, result.output
    return result.output


def test_flags_become_a_plan_that_prices_and_runs() -> None:
    said = typed("init", "people.csv", *FLAGS)
    assert "not declared, and never read: note" in said
    plan = tomllib.loads(Path("plan.toml").read_text())
    assert [column["kind"] for column in plan["column"]] == ["person", "number", "category", "date"]
    assert {query["kind"] for query in plan["query"]} == {"count", "mean", "quantiles"}
    assert sum(query["epsilon"] for query in plan["query"]) <= 1.5
    assert "FROM PRIVATE ROWS" not in Path("plan.toml").read_text()
    typed("plan", "plan.toml")
    assert "sidelight check plan.toml" in typed("run", "plan.toml")
    assert "sidelight check" not in typed("run", "plan.toml")  # only the first time
    assert Path("report.html").exists()


def test_labels_may_have_spaces_between_them_and_commas_within() -> None:
    """`F, M` has no label with a space before it, which no row would have; quotation marks keep what is inside."""
    typed("init", "people.csv", "--category", "sex:F, M:1", "--category", 'note:"a, b",c, " d"')
    plan = tomllib.loads(Path("plan.toml").read_text())
    assert [column["categories"] for column in plan["column"]] == [["F", "M"], ["a, b", "c", " d"]]


def test_a_declaration_of_one_label_a_person_is_checked() -> None:
    """Each of the 40 people has a row with F and one with M: all of them have more labels than declared."""
    typed("init", "people.csv", "--person", "id", "--max-rows", "2", "--category", "sex:F,M:1")
    assert "sex: 40 of 40 people with more than 1 label, where per_person says 1" in typed("check", "plan.toml")


def test_the_header_alone_decides_what_init_writes() -> None:
    typed("init", "people.csv", *FLAGS)
    first = Path("plan.toml").read_text()
    Path("people.csv").write_text(ROWS.splitlines()[0] + "\n")
    typed("init", "people.csv", *FLAGS, "--overwrite")
    assert Path("plan.toml").read_text() == first


def test_nothing_is_written_over_unless_said() -> None:
    Path("plan.toml").write_text("mine")
    assert "--overwrite" in typed("init", "people.csv", *FLAGS, status=2)
    assert Path("plan.toml").read_text() == "mine"
    typed("init", "people.csv", *FLAGS, "-o", "people.csv", "--overwrite", status=2)
    assert Path("people.csv").read_text() == ROWS
    assert "--force is now named --overwrite" in typed("init", "people.csv", *FLAGS, "--force")
    assert Path("plan.toml").read_text() != "mine"


def test_questions() -> None:
    answers = "person\n2\nnumber\n0\n110\n1\ncategory\nF,M\ndate\n2020-01-01\n2025-12-31\nskip\n2\n0\n"
    typed("init", "people.csv", "--ask", answers=answers)
    plan = tomllib.loads(Path("plan.toml").read_text())
    assert [column["kind"] for column in plan["column"]] == ["person", "number", "category", "date"]
    assert plan["budget"] == {"epsilon": 2}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("", "no column is declared"),
        ("--number agee:0:1", "no column 'agee'"),
        ("--number age:5:1", "lower < upper"),
        ("--number age:0:1:1:1", "too many parts"),
        ("--max-rows 3 --number age", "needs --person"),
        ("--date visit:2020-01-01", "first day:last day"),
        ("--date visit:2020-01-01:2021-01-01:week", '"day" or "hour"'),
        ("--number age --label age", "declared twice"),
        ("--category sex", "needs its public list"),
        ("--number age --epsilon none", "--epsilon must be a positive number"),
        ("--number age --delta x", "--delta"),
    ],
)
def test_mistakes(flags: str, words: str) -> None:
    assert words in typed("init", "people.csv", *flags.split(), status=2).replace("\n", " ")
    assert not Path("plan.toml").exists()


def test_a_file_without_a_header_is_refused_unseen() -> None:
    Path("people.csv").write_text("p1,31,F\np2,40,M\n")
    said = typed("init", "people.csv", "--number", "31", status=2)
    assert "probably a record" in said
    assert "p1" not in said


def test_check_counts_and_a_checked_plan_is_not_reminded_of() -> None:
    Path("people.csv").write_text(ROWS + "p9,,x,soon,\n")
    typed("init", "people.csv", *FLAGS)
    said = typed("check", "plan.toml")
    assert said.startswith("NOT PRIVATE")
    assert "sex: 1 of 81 cells with a label that is not declared" in said
    assert "visit: 1 of 81 cells unreadable, no date" in said
    assert "sidelight check" not in typed("run", "plan.toml")


def test_the_note_of_a_check_says_nothing_of_the_rows() -> None:
    typed("init", "people.csv", *FLAGS)
    typed("check", "plan.toml")
    first = Path(".plan.toml.checked").read_text()
    Path("people.csv").write_text(ROWS + "p9,,x,soon,\n")
    typed("check", "plan.toml")
    assert Path(".plan.toml.checked").read_text() == first
