"""`--json` of every command: what comes fits the schema that `sidelight schema --of` prints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures
from synthetic_plan_fixtures import seeded_json as seeded_json
from test_privacy_page_command import REPORT
from typer.main import get_command

from plan_schema_check import problems
from sidelight.cli import auditing
from sidelight.cli.answer_schema import ANSWERS, answer_schema
from sidelight.cli.app import app

Run = Callable[..., Any]
PAGES = Path(__file__).parents[2] / "docs" / "reference"
#: Commands without `--json`, and why.
WITHOUT = {
    "schema": "prints JSON by itself",
    "completion": "prints a script for a shell",
    "serve": "runs until it is interrupted, and answers over HTTP",
}


@pytest.fixture(autouse=True)
def _here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def answer(sidelight: Run, command: str, *arguments: str, status: int = 0) -> dict[str, Any]:
    """Run a command with `--json -` and return what it printed, checked against its schema."""
    result = sidelight(*command.split(), *arguments, "--json", "-")
    assert result.status == status, result.err
    found: dict[str, Any] = json.loads(result.out)
    assert list(problems(found, answer_schema(command), command)) == []
    assert found["command"] == command
    assert found["ok"] == (status == 0)
    assert (found["error"] is None) == (status == 0)
    return found


def named() -> Iterator[tuple[str, Any]]:
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        yield from [(name, command)] if inner is None else [(f"{name} {each}", inner[each]) for each in inner]


def test_every_command_has_it_or_a_reason() -> None:
    having = {name for name, command in named() if any("--json" in each.opts for each in command.params)}
    assert having == set(ANSWERS)
    assert {name for name, _ in named()} - having == set(WITHOUT)


def test_the_page_names_every_command_and_key(sidelight: Run) -> None:
    page = (PAGES / "json.md").read_text(encoding="utf-8")
    for command, forms in ANSWERS.items():
        assert f"`{command}`" in page, command
        for key in {key for form in forms for key in form}:
            assert f"`{key}`" in page, (command, key)
    printed = json.loads(sidelight("schema", "--of", "plan").out)
    assert printed == json.loads(json.dumps(answer_schema("plan")))
    wrong = sidelight("schema", "--of", "plam")
    assert wrong.status == 2
    assert "did you mean 'plan'?" in wrong.err


def test_the_schemas_refuse_what_is_not_so() -> None:
    """The control: a check that lets everything pass would pass all of these tests."""
    right = {"command": "explain", "version": "1", "ok": True, "error": None, "terms": {"epsilon": "small"}}
    assert list(problems(right, answer_schema("explain"))) == []
    for wrong in ({**right, "terms": 3}, {**right, "more": 1}, {**right, "ok": "yes"}, {"command": "explain"}):
        assert list(problems(wrong, answer_schema("explain")))


def test_from_a_file_to_a_ledger(sidelight: Run, folder: Path) -> None:
    made = answer(sidelight, "init", "people.csv", "--number", "age:0:110:1", "-o", "first.toml")
    assert (made["declared"], made["not_declared"], made["from_rows"]) == (["age"], ["hours"], [])
    checked = answer(sidelight, "check", "plan.toml")
    assert checked["private"] is False
    assert checked["rows"] == 400
    priced = answer(sidelight, "plan", "plan.toml")
    assert priced["fits"] is True
    assert priced["queries"][0]["title"] == "Quartiles of age"
    assert priced["queries"][0]["expected"]["basis"] == "bound"
    assert len(answer(sidelight, "plan", "plan.toml", "--sweep")["sweeps"]) == 2
    needed = answer(sidelight, "accuracy", "plan.toml", "--within", "20")
    assert needed["price"] == "epsilon"
    assert needed["expected"]["likely"] <= 20
    ran = answer(sidelight, "run", "plan.toml")
    assert ran["items"][0]["title"] == "Quartiles of age"
    assert ran["account"]["head"]
    answer(sidelight, "report", _written(folder, ran), "-o", "again.html")
    asked = 'SELECT COUNT(*) FROM "people"'
    assert "translation" in answer(sidelight, "sql", "plan.toml", asked, "--epsilon", "0.1", "--dry-run")
    assert answer(sidelight, "sql", "plan.toml", asked, "--epsilon", "0.1")["type"] == "report"
    shown = answer(sidelight, "ledger show", "budget.db")
    assert [len(scope["entries"]) for scope in shown["scopes"]] == [3]
    assert answer(sidelight, "ledger verify", "budget.db")["head"] == shown["head"]
    assert answer(sidelight, "ledger export", "budget.db", "-o", "events.jsonl")["events"] > 3
    assert answer(sidelight, "ledger reap", "budget.db")["given_up"] == []


def _written(folder: Path, found: dict[str, Any]) -> str:
    path = folder / "releases.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    return str(path)


def test_a_refusal_is_told_in_the_file_and_a_mistake_leaves_none(sidelight: Run, folder: Path) -> None:
    text = (folder / "plan.toml").read_text(encoding="utf-8")
    (folder / "large.toml").write_text(text.replace("epsilon = 0.25", "epsilon = 25"), encoding="utf-8")
    found = answer(sidelight, "plan", "large.toml", status=1)
    assert found["fits"] is False
    assert "does not fit its budget" in found["error"]
    refused = answer(sidelight, "run", "large.toml", status=1)
    assert set(refused) == {"command", "version", "ok", "error"}
    asked = 'SELECT COUNT(*) FROM "people"'
    assert "translation" in answer(sidelight, "sql", "plan.toml", asked, "--epsilon", "99", status=1)
    wrong = sidelight("plan", "nowhere.toml", "--json", "out.json")
    assert wrong.status == 2
    assert not (folder / "out.json").exists()


@pytest.mark.parametrize("place", ["people.csv", "plan.toml"])
def test_nothing_but_json_is_written_over(sidelight: Run, folder: Path, place: str) -> None:
    before = (folder / place).read_bytes()
    result = sidelight("explain", "epsilon", "--json", place)
    assert result.status == 2
    assert "was not written by `sidelight explain`" in result.err
    assert (folder / place).read_bytes() == before
    assert sidelight("explain", "epsilon", "--json", "out.json").status == 0
    assert sidelight("explain", "delta", "--json", "out.json").status == 0
    assert list(json.loads((folder / "out.json").read_text(encoding="utf-8"))["terms"]) == ["delta"]


def test_nothing_that_a_command_reads_or_writes_otherwise_is_lost(sidelight: Run, folder: Path) -> None:
    assert sidelight("run", "plan.toml", "-o", "same.html", "--json", "same.html").status == 2
    found = answer(sidelight, "run", "plan.toml")
    kept = _written(folder, found)
    before = Path(kept).read_bytes()
    for command in (
        ("report", kept, "-o", "r.html", "--json", kept),
        ("report", kept, "-o", kept),
        ("explain", "epsilon", "--json", kept),
    ):
        assert sidelight(*command).status == 2, command
        assert Path(kept).read_bytes() == before


def test_what_people_read_goes_to_standard_error(sidelight: Run) -> None:
    result = sidelight("plan", "plan.toml", "--json", "-")
    assert "Guarantee:" in result.err
    assert "Guarantee:" in sidelight("plan", "plan.toml", "--json", "out.json").out


def test_words_pages_and_tables(sidelight: Run, folder: Path, seeded_json: str) -> None:
    assert list(answer(sidelight, "explain", "ε")["terms"]) == ["epsilon"]
    (folder / "report.json").write_text(json.dumps(REPORT), encoding="utf-8")
    assert answer(sidelight, "privacy-page", "report.json")["output"] == "privacy-page.html"
    (folder / "synthetic.json").write_text(seeded_json, encoding="utf-8")
    drawn = answer(sidelight, "table", "synthetic.json", "-o", "rows.csv", "--rows", "7")
    assert (drawn["rows"], drawn["private"]) == (7, False)
    assert len(answer(sidelight, "demo", "--draws", "2")["ways"]) == 4


def test_an_audit(sidelight: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "USUAL_SECONDS", 1.0)
    monkeypatch.setattr(auditing, "USUAL_RUNS", 16)
    assert len(answer(sidelight, "audit", "plan.toml")["queries"]) == 2


def test_tokens_are_printed_and_not_kept(sidelight: Run, folder: Path) -> None:
    page = (PAGES / "experts-toml.md").read_text(encoding="utf-8")
    (example, *_) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    (folder / "experts.toml").write_text(example, encoding="utf-8")
    clients = [each["client"] for each in answer(sidelight, "token list", "experts.toml")["clients"]]
    made = answer(sidelight, "token new", "experts.toml", "--all")
    assert [each["client"] for each in made["tokens"]] == clients
    kept = sidelight("token", "new", "experts.toml", clients[0], "--json", "tokens.json")
    assert kept.status == 2
    assert not (folder / "tokens.json").exists()
    assert answer(sidelight, "token revoke", "experts.toml", clients[0])["client"] == clients[0]
    assert answer(sidelight, "token list", "experts.toml")["clients"][0]["token"] is None


def test_a_day_of_a_sequence(sidelight: Run, folder: Path) -> None:
    page = (PAGES / "plan-files.md").read_text(encoding="utf-8")
    (example,) = (text for text in re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL) if "[sequence]" in text)
    (folder / "daily.toml").write_text(example, encoding="utf-8")
    minutes = "minutes\n" + "".join(f"{3 + number % 40}\n" for number in range(300))
    (folder / "trips-2025-11-15.csv").write_text(minutes, encoding="utf-8")
    assert answer(sidelight, "plan", "daily.toml")["days_left"] is None
    asked = ("daily.toml", "--day", "2025-11-15", "--features", "1,0,0.3")
    assert answer(sidelight, "today", *asked)["days"] == 1
    assert answer(sidelight, "today", *asked)["again"] is True


def test_an_analyst_server_is_looked_after(sidelight: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sidelight.cli.demo_server import write_demo
    from sidelight.server import calibrate

    write_demo(folder / "demo")
    file = str(folder / "demo" / "survey.toml")
    measured = [calibrate.fitted("count", {1: (0.5, 10)}), calibrate.CalibratedKind(kind="sql", problem="none")]
    monkeypatch.setattr(calibrate, "calibrate", lambda *given, **more: measured)
    (proposed,) = answer(sidelight, "server calibrate", file, "--table", "people")["tables"]
    assert proposed["durations"] == {"count": 2.5}
    assert 'count = "2.5 s"' in proposed["lines"]
    assert sidelight("server", "calibrate", file, "--table", "peple").status == 2
    assert answer(sidelight, "server check", file)["tables"][0]["requests"] == 3000
    assert answer(sidelight, "server pause", file, "people", "--analyst", "bob")["paused"]
    accounts = answer(sidelight, "server status", file)["accounts"]
    assert [(each["account"], each["paused"]) for each in accounts] == [("ada", False), ("bob", True)]
    assert not answer(sidelight, "server resume", file, "people", "--analyst", "bob")["paused"]
    assert answer(sidelight, "server resume", file, "--clock")["table"] is None
    assert sidelight("server", "resume", file).status == 2
    token = answer(sidelight, "token new", file, "ada", "--days", "3")["tokens"][0]["token"]
    assert token.split("_")[1] in [each["token"] for each in answer(sidelight, "token list", file)["clients"]]
    assert answer(sidelight, "token revoke", file, token.split("_")[1])["client"] == token.split("_")[1]
    assert sidelight("token", "new", file, "eve").status == 2
