"""A server whose ledger is exchanged for an older copy while it runs, or while it does not, spends nothing again."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from analyst_server import serving, tokens_of, undropped, unless_busy, write_survey
from sidelight.cli.analysts import check_survey, resume_service, show_status
from sidelight.errors import LedgerError, LedgerUnavailableError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import journal
from sidelight.server.budgets import Budgets
from sidelight.server.config_file import read_config

HEAD = 'head_file = "elsewhere/ledger.head"\n'


def copied(source: Path, target: Path) -> None:
    """Copy a ledger by SQLite's backup, as its own tools restore one."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def asked(client: httpx.Client, key: str, epsilon: str) -> httpx.Response:
    sent: dict[str, Any] = {"json": {"query": {"kind": "count", "epsilon": epsilon}}}
    return client.post("/v1/tables/people/releases", headers={"Idempotency-Key": key}, **sent)


@pytest.mark.slow
@pytest.mark.planted("a ledger restored under a running server")
@pytest.mark.parametrize("head_file", [True, False])
def test_a_running_server_spends_nothing_from_a_restored_ledger(tmp_path: Path, head_file: bool) -> None:
    unless_busy(lambda folder: restored(folder, head_file=head_file), tmp_path)


def restored(folder: Path, *, head_file: bool) -> None:
    file = write_survey(folder)
    file.write_text(file.read_text() if head_file else file.read_text().replace(HEAD, ""))
    headers = {"Authorization": f"Bearer {tokens_of(file)['ada']}", "Prefer": "wait=30"}
    with serving(file) as (url, _), httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        early = undropped(lambda: asked(client, "early", "0.1")).json()
        copied(folder / "budget.db", folder / "backup.db")
        late = undropped(lambda: asked(client, "late", "0.5")).json()
        assert [early["state"], late["state"]] == ["released", "released"]
        copied(folder / "backup.db", folder / "budget.db")
        for key in ("second", "third"):
            again = asked(client, key, "0.5").json()
            assert again["state"] == "dropped", again
            assert "unavailable" in again["problem"]["type"]
        assert client.get("/health/ready").status_code == 503
        assert client.get(f"/v1/releases/{late['id']}/proof").status_code == 404
        assert client.get(f"/v1/releases/{early['id']}/proof").json()["chain_intact"] is False
    assert "nothing is charged: " in file.with_suffix(".log").read_text()
    config = read_config(file)
    journal._newest.clear()
    with closing(Budgets(config, read_only=True)) as budgets:
        assert len(budgets.ledger.entries()) == 1
        if head_file:
            with pytest.raises(LedgerError, match="does not verify"):
                budgets.check_head()


def test_a_start_without_its_head_file_is_refused_until_the_owner_says_so(tmp_path: Path) -> None:
    file = write_survey(tmp_path)
    config = read_config(file)
    with closing(Budgets(config, create=True)) as budgets:
        budgets.begin()
    os.rename(tmp_path / "elsewhere", tmp_path / "not-mounted")
    for start in (lambda: check_survey(file), lambda: begun(file)):
        with pytest.raises(LedgerError, match=r"is missing, and the ledger is not new.*server resume FILE --head"):
            start()
    with pytest.raises(LedgerError, match="cannot be written"):  # not onto the disk of the ledger
        resume_service(file, table=None, analyst=None, clock=False, head=True)
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "elsewhere").mkdir()
    resume_service(file, table=None, analyst=None, clock=False, head=True)
    assert '"head"' in (tmp_path / "audit.jsonl").read_text()
    begun(file)
    check_survey(file)
    with pytest.raises(LedgerError, match="only where it is missing"):
        resume_service(file, table=None, analyst=None, clock=False, head=True)


def test_a_head_file_behind_a_link_stays_there(tmp_path: Path) -> None:
    """The lock, the draft and the file lie on the other disk, and the link is not replaced by a file on this one."""
    file = write_survey(tmp_path / "own")
    file.write_text(file.read_text().replace("elsewhere/ledger.head", "ledger.head"))
    (tmp_path / "disk").mkdir()
    link = tmp_path / "own" / "ledger.head"
    link.symlink_to(tmp_path / "disk" / "ledger.head")
    begun(file)
    assert link.is_symlink()
    assert read_config(file).head_file == tmp_path / "disk" / "ledger.head"
    assert sorted(each.name for each in (tmp_path / "disk").iterdir()) == ["ledger.head", "ledger.head.lock"]


def test_a_head_file_that_cannot_be_written_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = write_survey(tmp_path)
    begun(file)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with closing(Budgets(read_config(file))) as budgets:
        budgets.watch_head()
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(LedgerUnavailableError):
            budgets.watch_head()
    assert caplog.messages == [
        "nothing is charged: the ledger or its head file cannot be read or written; is a disk full?"
    ]


@pytest.mark.parametrize("command", [check_survey, show_status])
def test_what_a_start_refuses_is_not_called_a_balance(tmp_path: Path, command: Callable[[Path], None]) -> None:
    """An older ledger, one that is not there although its head is, and a head file that is not there."""
    file = write_survey(tmp_path)
    begun(file)
    copied(tmp_path / "budget.db", tmp_path / "backup.db")
    command(file)
    with closing(Budgets(read_config(file))) as budgets:
        budgets.ledger.scope("people/ada").record_external(Claims.of(PureDP("0.5")), note="another tool")
    copied(tmp_path / "backup.db", tmp_path / "budget.db")
    journal._newest.clear()
    with pytest.raises(LedgerError, match="the head file has event"):
        command(file)
    for each in tmp_path.glob("budget.db*"):
        each.unlink()
    before = sorted(tmp_path.rglob("*"))
    for start in (lambda: command(file), lambda: begun(file)):
        with pytest.raises(LedgerError, match=r"no ledger at .*budget.db, and the head file has event"):
            start()
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "backup.db").rename(tmp_path / "budget.db")
    (tmp_path / "elsewhere" / "ledger.head").unlink()
    with pytest.raises(LedgerError, match="is missing, and the ledger is not new"):
        command(file)


def test_a_status_writes_nothing_and_gives_new_accounts_their_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_survey(tmp_path, share="{epsilon = 0.5}")
    before = sorted(tmp_path.rglob("*"))
    show_status(file)
    assert sorted(tmp_path.rglob("*")) == before
    begun(file)
    file.write_text(file.read_text().replace("analyst = [", 'analyst = [{name = "eve", budget = {epsilon = 0.25}}, '))
    found = _content(tmp_path)
    check_survey(file)
    capsys.readouterr()
    show_status(file)
    assert "people\teve\tepsilon 0.25" in capsys.readouterr().out
    assert _content(tmp_path) == found
    assert not (tmp_path / "identity.db").exists()


def begun(file: Path) -> None:
    with closing(Budgets(read_config(file), create=True)) as budgets:
        budgets.begin()


def test_a_check_writes_nothing(tmp_path: Path) -> None:
    """A scope is never changed once it is made, so a mistake that only a check has seen can be corrected."""
    file = write_survey(tmp_path, share="{epsilon = 0.5}")
    before = sorted(each.name for each in tmp_path.iterdir())
    check_survey(file)
    assert sorted(each.name for each in tmp_path.iterdir()) == before
    file = write_survey(tmp_path)
    begun(file)
    found = _content(tmp_path)
    extended = file.read_text().replace(
        '{name = "bob", budget = {epsilon = 1}}', '{name = "eve", budget = {epsilon = 1}}'
    )
    file.write_text(extended)
    with pytest.raises(LedgerError, match="more than its budget"):  # what a start would say
        check_survey(file)
    write_survey(tmp_path, budget="{epsilon = 4}")
    with pytest.raises(LedgerError, match="exists with another budget"):
        check_survey(file)
    write_survey(tmp_path, more='[[table]]\nname = "more"\n' + _second_table(file))
    check_survey(file)
    assert _content(tmp_path) == found


def _second_table(file: Path) -> str:
    table = file.read_text().partition("[[table]]")[2].partition('name = "people"')[2]
    return table.replace("capacity", "other_people = true\ncapacity")


def _content(folder: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "budget.db")) as ledger:
        return [row for name in ("meta", "scope", "event", "entry") for row in ledger.execute(f"SELECT * FROM {name}")]
