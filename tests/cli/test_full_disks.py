"""A disk that is full once a plan was charged: the charges stand, the status says so, and what was paid is kept."""

from __future__ import annotations

import json
import os
import re
import resource
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures
from synthetic_plan_fixtures import town as town

from sidelight.cli import answers
from sidelight.errors import SourceError
from sidelight.ledger import open_ledger
from sidelight.session import Session

Run = Callable[..., Any]
LEDGER = '[ledger]\nurl = "budget.db"\n'
_JSON = re.compile(r"'([^']*sidelight-[^']*\.json)'")


def _no_room(_: object, path: Path | str, *__: object) -> Path:
    raise SourceError(f"{str(path)!r} cannot be written: No space left on device")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the JSON fail, and nothing else."""
    monkeypatch.setattr(answers, "_write", lambda place, _: _no_room(_, place))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder of the test."""
    folder = tmp_path / "kept"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def _without_ledger(folder: Path) -> None:
    file = folder / "plan.toml"
    file.write_text(file.read_text(encoding="utf-8").replace(LEDGER, ""), encoding="utf-8")


def test_after_a_charge_json_that_cannot_be_written_has_the_status_of_a_charge(
    sidelight: Run, folder: Path, full: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = sidelight("run", "plan.toml", "--json", "out.json")
    assert result.status == 1
    assert "'out.json' cannot be written: No space left on device. There is no such JSON, and the charges stand" in (
        result.err
    )
    assert "50 %: " in result.out
    assert not Path("out.json").exists()
    assert "out.json" not in result.out  # no command with a file that does not exist
    with open_ledger("budget.db", read_only=True) as ledger:
        assert [each.state for each in ledger.entries()] == ["released", "released"]


def test_before_a_charge_it_is_a_mistake_as_before(
    sidelight: Run, folder: Path, full: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = sidelight("plan", "plan.toml", "--json", "out.json")
    assert result.status == 2
    assert "charges" not in result.err.rpartition("error:")[2]


def test_a_statement_too(sidelight: Run, folder: Path, full: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    asked = ["sql", "plan.toml", "SELECT COUNT(*) FROM people", "--epsilon", "0.1", "--json", "out.json"]
    result = sidelight(*asked)
    assert result.status == 1
    assert "There is no such JSON, and the charges stand" in result.err


def test_the_error_of_the_report_stays_and_both_are_told(
    sidelight: Run, folder: Path, full: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sidelight.cli.running.write_report", _no_room)
    result = sidelight("run", "plan.toml", "--json", "out.json")
    assert result.status == 1
    assert "'out.json' cannot be written: No space left on device. There is no such JSON, and the charges" in result.err
    assert "error: 'report.html' cannot be written: No space left on device. There is no report, and" in result.err


def test_a_synthetic_table_that_no_ledger_stores_is_kept(
    sidelight: Run, town: Path, full: None, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(town)
    _without_ledger(town)
    result = sidelight("run", "plan.toml", "--json", "releases.json")
    assert result.status == 1
    named = _JSON.search(result.err)
    assert named
    file = Path(named[1])
    assert file.parent == kept
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f"sidelight table {file} -o synthetic.csv" in result.out
    monkeypatch.undo()
    monkeypatch.chdir(town)
    assert sidelight("table", str(file), "-o", "rows.csv").status == 0
    assert (town / "rows.csv").stat().st_size > 0


def test_where_no_file_can_be_written_it_is_printed(
    sidelight: Run, town: Path, full: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(town)
    _without_ledger(town)

    def fails(**_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("sidelight.cli.running.write_report", lambda report, path: path)
        patch.setattr(tempfile, "mkstemp", fails)
        result = sidelight("run", "plan.toml", "--json", "releases.json")
    assert result.status == 1
    assert "it was printed on standard output, as JSON" in result.err
    found, _ = json.JSONDecoder().raw_decode(result.out[result.out.index('{\n "command"') :])
    assert [item["title"] for item in found["items"]] == ["Who works as what"]
    assert "keep the JSON as releases.json" in result.out  # no ledger returns it again
    assert "JSON: " not in result.out


def test_an_error_between_two_queries_is_no_status_of_nothing_spent(
    sidelight: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    release = Session.release

    def fails(self: Session, query: Any, **more: Any) -> Any:
        if getattr(query, "column", None) == "hours":
            raise SourceError("the reason")
        return release(self, query, **more)

    monkeypatch.setattr(Session, "release", fails)
    result = sidelight("run", "plan.toml")
    assert result.status == 1
    assert "error: the reason. The charges of what was released before it stand" in result.err


def _command(
    *arguments: str, folder: Path, room: int | None = None, output: Any = subprocess.PIPE, **variables: str
) -> Any:
    def limit() -> None:
        if room is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    return subprocess.run(
        [sys.executable, "-c", "from sidelight.cli import main; main()", *arguments],
        cwd=folder,
        stdout=output,
        stderr=subprocess.PIPE,
        encoding=variables.get("PYTHONIOENCODING"),
        text=True,
        check=False,
        env=os.environ | {"TMPDIR": str(folder)} | variables,
        preexec_fn=limit,
    )


def test_no_room_for_anything_prints_what_was_paid(town: Path) -> None:
    _without_ledger(town)
    found = _command("run", "plan.toml", "--json", "releases.json", folder=town, room=100)
    assert found.returncode == 1, found.stderr
    assert "There is no report, and the charges stand" in found.stderr
    assert "it was printed on standard output, as JSON" in found.stderr
    assert '"Who works as what"' in found.stdout
    assert not list(town.glob("*.json")) + list(town.glob("*.html"))


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
@pytest.mark.parametrize("json_output", [(), ("--json", "-")])
def test_letters_that_standard_output_does_not_have_cost_no_answer(
    folder: Path, encoding: str, json_output: tuple[str, ...]
) -> None:
    _without_ledger(folder)
    file = folder / "plan.toml"
    text = file.read_text(encoding="utf-8")
    file.write_text(re.sub(r'title = "[^"]*"', 'title = "Łódź 🙂 é"', text), encoding="utf-8")
    more = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    found = _command("run", "plan.toml", *json_output, folder=folder, **more)
    assert found.returncode == 0, found.stderr
    if json_output:
        assert "Łódź 🙂 é" in str(json.loads(found.stdout))


full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


@full_device
def test_json_for_a_full_standard_output_is_kept(town: Path) -> None:
    _without_ledger(town)
    with open("/dev/full", "w") as full:
        found = _command("run", "plan.toml", "--json", "-", folder=town, output=full)
    assert found.returncode == 1
    named = _JSON.search(found.stderr)
    assert named, found.stderr
    assert json.loads(Path(named[1]).read_text(encoding="utf-8"))["items"]


@full_device
@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_full_standard_output_before_the_charge_says_that_nothing_was_released(folder: Path, command: str) -> None:
    with open("/dev/full", "w") as full:
        found = _command(command, "plan.toml", folder=folder, output=full)
    assert found.returncode == 1
    assert "standard output cannot be written (a full disk, a closed pipe). Nothing was released" in found.stderr
    assert "is in the report" not in found.stderr
    assert not (folder / "report.html").exists()
