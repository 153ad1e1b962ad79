"""`sidelight ledger show|verify|export|reap` on a ledger that a plan made."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import open_ledger
from sidelight.ledger import place as places

Run = Callable[..., Any]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with open_ledger("budget.db") as book:
        scope = book.open_scope("people", budget=PureDP(1))
        first = scope.reserve(Claims.of(PureDP("0.25")), request={"kind": "quantiles", "column": "age"})
        first.release("{}")  # type: ignore[union-attr]
        scope.reserve(Claims.of(PureDP("0.5")), request={"kind": "count"}, key="dead")
    return tmp_path / "budget.db"


def test_show_lists_scopes_and_entries(sidelight: Run, ledger: Path) -> None:
    result = sidelight("ledger", "show", ledger)
    assert result.status == 0, result.err
    for text in [
        "Scope people",
        "PureDP(ε = 1)",
        "quantiles of age",
        "released",
        "reserved",
        "0.75 of 1",
        "ε = 0.25",
        "head ",
    ]:
        assert text in result.out, text
    assert "bookkeeping, not a guarantee" in result.out
    unknown = sidelight("ledger", "show", ledger, "--scope", "peple")
    assert unknown.status == 2
    assert "no scope 'peple'" in unknown.err


def test_verify_and_expected_heads(sidelight: Run, ledger: Path) -> None:
    result = sidelight("ledger", "verify", ledger)
    assert result.status == 0, result.err
    assert "intact: 5 events, 2 entries, 1 scope, head" in result.out
    assert "--expect-head" in result.out
    head = result.out.rsplit("head ", 1)[1].strip()
    assert sidelight("ledger", "verify", ledger, "--expect-head", head).status == 0
    older = sidelight("ledger", "verify", ledger, "--expect-head", "0" * 63 + "1")
    assert older.status == 1
    assert "older copy" in older.err
    assert sidelight("ledger", "verify", ledger, "--expect-head", "abc").status == 2


def test_verify_finds_an_edit(sidelight: Run, ledger: Path) -> None:
    with sqlite3.connect(ledger) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE event SET body = replace(body, '0.5', '0.1')")
    connection.close()
    result = sidelight("ledger", "verify", ledger)
    assert result.status == 1
    assert "NOT intact" in result.err
    assert "Traceback" not in result.err


def test_reap_gives_up_what_is_unfinished_and_keeps_the_charge(sidelight: Run, ledger: Path) -> None:
    assert sidelight("ledger", "reap", ledger, "--scope", "peple").status == 2
    result = sidelight("ledger", "reap", ledger, "--scope", "people")
    assert result.status == 0, result.err
    assert "1 unfinished entry was marked as abandoned" in result.out
    assert "0 unfinished" in sidelight("ledger", "reap", ledger).out
    shown = sidelight("ledger", "show", ledger).out
    assert "failed" in shown
    assert "0.75 of 1" in shown


def test_export_writes_json_lines(sidelight: Run, ledger: Path, tmp_path: Path) -> None:
    result = sidelight("ledger", "export", ledger, "-o", tmp_path / "events.jsonl")
    assert result.status == 0, result.err
    lines = (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert f"{len(lines)} events" in result.out
    assert [json.loads(line)["kind"] for line in lines] == ["open", "scope", "reserve", "release", "reserve"]


def test_a_ledger_that_cannot_be_written_is_shown(
    sidelight: Run, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    monkeypatch.setattr(places.os, "access", lambda path, mode: path != ledger or not mode & os.W_OK)
    assert "Scope people" in sidelight("ledger", "show", ledger).out
    assert "intact" in sidelight("ledger", "verify", ledger).out
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before
    assert sidelight("ledger", "export", ledger, "-o", tmp_path / "events.jsonl").status == 0
    refused = sidelight("ledger", "reap", ledger)
    assert refused.status == 2
    assert "cannot be written by this user" in refused.err


@pytest.mark.parametrize("command", [("show",), ("verify",), ("export", "-o", "x.jsonl"), ("reap",)])
def test_no_command_makes_a_ledger(sidelight: Run, ledger: Path, command: tuple[str, ...]) -> None:
    result = sidelight("ledger", command[0], "other.db", *command[1:])
    assert result.status == 2
    assert "there is no ledger" in result.err
    assert not Path("other.db").exists()


@pytest.mark.parametrize("ending", ["", "\n", " \r\n"])
def test_a_ledger_with_a_key_is_inspected_with_its_file(
    sidelight: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """The key is the text of the file without white space at its ends, as an analyst server reads it."""
    monkeypatch.chdir(tmp_path)
    Path("ledger.key").write_text(f"c2l4dGVlbiBieXRlcyBvciBtb3Jl{ending}")
    with open_ledger("keyed.db", key=b"c2l4dGVlbiBieXRlcyBvciBtb3Jl") as book:
        scope = book.open_scope("people", budget=PureDP(1))
        scope.reserve(Claims.of(PureDP("0.25")), request={"kind": "count"})
    for command in (["show"], ["verify"], ["export", "-o", "out.jsonl"], ["reap"]):
        found = sidelight("ledger", *command, "keyed.db", "--key-file", "ledger.key")
        assert found.status == 0, found.err
        without = sidelight("ledger", *command, "keyed.db")
        assert (without.status, "--key-file FILE" in without.err) == (2, True)
    Path("other.key").write_text("another sixteen bytes")
    assert "the key does not belong" in sidelight("ledger", "show", "keyed.db", "--key-file", "other.key").err
    assert "cannot be read" in sidelight("ledger", "show", "keyed.db", "--key-file", "none.key").err
    before = Path("ledger.key").read_text()
    assert sidelight("ledger", "export", "keyed.db", "--key-file", "ledger.key", "-o", "ledger.key").status == 2
    assert Path("ledger.key").read_text() == before
