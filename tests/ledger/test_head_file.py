"""A ledger with a head file spends only if it contains the head in it, in whatever process."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import sqlite3
import threading
import warnings
from pathlib import Path

import pytest
from benchmarks.temporary_postgres import NoServerError, empty_database, temporary_server

from sidelight.errors import LedgerDamagedError, LedgerError, LedgerUnavailableError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation, Stored, journal, open_ledger, reservation, store
from sidelight.ledger.head_file import GuardedStore, read_head

COUNT = {"kind": "count"}


def opened(folder: Path, address: str | None = None) -> Ledger:
    """Open the ledger of a folder, with its head file, as a process that has seen no head."""
    journal._newest.clear()
    if not (folder / "not-mounted").exists():
        (folder / "elsewhere").mkdir(exist_ok=True)
    return open_ledger(address or folder / "budget.db", head_file=folder / "elsewhere" / "head")


def charge(ledger: Ledger, amount: str = "0.5") -> Reservation:
    scope = ledger.open_scope("people", budget=PureDP(1))
    found = scope.reserve(Claims.of(PureDP(amount)), request=COUNT)
    assert isinstance(found, Reservation)
    return found


def copied(source: Path, target: Path) -> None:
    """Copy a ledger by SQLite's backup, which leaves the file of the target where it is."""
    with sqlite3.connect(source) as old, sqlite3.connect(target) as new:
        old.backup(new)
    old.close()
    new.close()


def test_every_commit_keeps_its_head(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "head"
    with opened(tmp_path) as ledger:
        assert read_head(file) == ledger.newest_head()
        assert ledger.newest_head()[0] == 0
        reservation = charge(ledger)
        assert read_head(file) == ledger.newest_head()
        reservation.release("{}")
        assert read_head(file) == ledger.newest_head()
        charge(ledger, "0.1")
        ledger.reap()
        ledger.close_scope("people")
        assert read_head(file) == ledger.newest_head()


@pytest.mark.parametrize("spent", ["0", "0.2"])
def test_a_restored_ledger_grants_nothing_to_a_new_process_and_keeps_the_head(tmp_path: Path, spent: str) -> None:
    """Also after a copy from before the first charge; however often it is tried, the head that shows it stays."""
    with opened(tmp_path) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
        if spent != "0":
            charge(ledger, spent)
    copied(tmp_path / "budget.db", tmp_path / "backup.db")
    with opened(tmp_path) as ledger:
        charge(ledger).release("{}")
    kept = read_head(tmp_path / "elsewhere" / "head")
    copied(tmp_path / "backup.db", tmp_path / "budget.db")
    for _ in range(5):
        with opened(tmp_path) as ledger:
            before = ledger.scope("people").totals()
            with pytest.raises(LedgerDamagedError, match="the head file has event"):
                charge(ledger)
            assert ledger.scope("people").totals() == before
    assert read_head(tmp_path / "elsewhere" / "head") == kept
    with opened(tmp_path) as ledger:
        assert not ledger.verify(expect_head=kept[1] if kept else None).ok


def test_a_history_that_grew_elsewhere_never_replaces_the_head(tmp_path: Path) -> None:
    """Spent from by a tool that knows no head file until it is longer than what was kept: still another history."""
    with opened(tmp_path) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
    copied(tmp_path / "budget.db", tmp_path / "backup.db")
    with opened(tmp_path) as ledger:
        charge(ledger)
    kept = read_head(tmp_path / "elsewhere" / "head")
    copied(tmp_path / "backup.db", tmp_path / "budget.db")
    journal._newest.clear()
    with open_ledger(tmp_path / "budget.db") as unguarded:
        for _ in range(4):
            charge(unguarded, "0.1").release("{}")
        assert unguarded.newest_head()[0] > kept[0] if kept else False
    with opened(tmp_path) as ledger, pytest.raises(LedgerDamagedError, match="the head file has event"):
        charge(ledger, "0.1")
    assert read_head(tmp_path / "elsewhere" / "head") == kept


def test_a_restore_between_charge_and_outcome_records_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
        copied(tmp_path / "budget.db", tmp_path / "backup.db")
        reservation = charge(ledger)
        copied(tmp_path / "backup.db", tmp_path / "budget.db")
        journal._newest.clear()
        with pytest.raises(LedgerError):
            reservation.release("{}")


@pytest.mark.parametrize("charged", [False, True])
def test_a_missing_head_file_is_refused_until_the_owner_says_so(tmp_path: Path, charged: bool) -> None:
    with opened(tmp_path) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
        if charged:
            charge(ledger)
    (tmp_path / "elsewhere").rename(tmp_path / "not-mounted")
    with opened(tmp_path) as ledger:
        with pytest.raises(LedgerError, match=r"is missing, and the ledger is not new.*resume FILE --head"):
            charge(ledger, "0.1")
        assert not (tmp_path / "elsewhere").exists()
        assert isinstance(ledger.store, GuardedStore)
        (tmp_path / "elsewhere").mkdir()
        ledger.store.start_head_file()
        charge(ledger, "0.1")
        assert read_head(tmp_path / "elsewhere" / "head") == ledger.newest_head()
        with pytest.raises(LedgerError, match="only where it is missing"):
            ledger.store.start_head_file()


def test_a_head_file_that_vanishes_or_is_damaged_stops_charges(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        charge(ledger, "0.1")
        (tmp_path / "elsewhere" / "head").write_text("{")
        with pytest.raises(LedgerError, match="is not a head file"):
            charge(ledger, "0.1")
        for text in (
            "[" * 100_000,
            '{"seq": Infinity, "hash": "' + "0" * 64 + '"}',
            '{"seq": "1", "hash": "x"}',
            '{"seq": "-1", "hash": "' + "0" * 64 + '"}',
            '{"seq": "9999999999999999999", "hash": "' + "0" * 64 + '"}',
            "null",
        ):
            (tmp_path / "elsewhere" / "head").write_text(text)
            with pytest.raises(LedgerError, match="is not a head file"):
                charge(ledger, "0.1")
        shutil.rmtree(tmp_path / "elsewhere")
        with pytest.raises(LedgerError, match="is missing"):
            charge(ledger, "0.1")
        assert len(ledger.entries()) == 1


def test_a_lost_ledger_is_not_made_anew_under_its_head_file(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        charge(ledger)
    for each in tmp_path.glob("budget.db*"):
        each.unlink()
    with pytest.raises(LedgerDamagedError, match="the head file has event"):
        opened(tmp_path)

    assert not list(tmp_path.glob("budget.db*"))  # not even an empty file


def test_no_folder_is_made_for_a_head_file(tmp_path: Path) -> None:
    """It is that of a disk which is not mounted, and the file would lie on the disk of the ledger."""
    (tmp_path / "link").symlink_to(tmp_path / "not-mounted" / "head")
    for file in (tmp_path / "not-mounted" / "head", tmp_path / "link"):
        with pytest.raises(LedgerError, match=r"the folder '.*not-mounted' of the head file does not exist"):
            open_ledger(tmp_path / "budget.db", head_file=file)
    assert [each.name for each in tmp_path.iterdir()] == ["link"]


@pytest.mark.parametrize("linked", ["file", "folder", "file that is not there yet"])
def test_a_head_file_behind_a_link_is_on_the_other_disk(tmp_path: Path, linked: str) -> None:
    """The link stays, so that a restore of the whole folder of the ledger gives no budget back."""
    disk, own = tmp_path / "disk", tmp_path / "own"
    disk.mkdir()
    own.mkdir()
    head = own / "disk" / "head" if linked == "folder" else own / "head"
    (own / "disk" if linked == "folder" else head).symlink_to(disk if linked == "folder" else disk / "head")
    if linked == "file":  # made before the link was
        open_ledger(own / "budget.db", head_file=disk / "head").close()
    for amount in ("0.1", "0.5"):
        journal._newest.clear()
        with open_ledger(own / "budget.db", head_file=head) as ledger:
            charge(ledger, amount)
            assert read_head(disk / "head") == ledger.newest_head()
        if amount == "0.1":
            shutil.copytree(own, tmp_path / "backup", symlinks=True)
    shutil.rmtree(own)
    shutil.copytree(tmp_path / "backup", own, symlinks=True)
    journal._newest.clear()
    with open_ledger(own / "budget.db", head_file=head) as ledger:
        with pytest.raises(LedgerDamagedError, match="the head file has event"):
            charge(ledger)
        assert len(ledger.entries()) == 1
    assert sorted(each.name for each in disk.iterdir()) == ["head", "head.lock"]
    assert (own / "disk" if linked == "folder" else head).is_symlink()


@pytest.mark.parametrize("name", ["budget.db", "budget.db-wal", "budget.db-journal", "other.db"])
def test_a_head_file_is_no_file_of_a_ledger(tmp_path: Path, name: str) -> None:
    for each in ("budget.db", "other.db"):
        open_ledger(tmp_path / each).close()
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(LedgerError, match="choose another"):
        open_ledger(tmp_path / "budget.db", head_file=tmp_path / name)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def failing(name: str, monkeypatch: pytest.MonkeyPatch, *, code: int = errno.ENOSPC) -> None:
    """Let a step of writing the head file fail, as a disk does."""

    def fail(*_given: object, **_named: object) -> None:
        raise OSError(code, os.strerror(code))

    owner, attribute = {
        "lock": (fcntl, "flock"),
        "draft": (Path, "unlink"),
        "sync": (os, "fsync"),
        "rename": (Path, "replace"),
    }[name]
    monkeypatch.setattr(owner, attribute, fail)


@pytest.mark.parametrize("step", ["lock", "draft", "sync"])
def test_a_head_file_that_cannot_be_written_costs_nothing(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft is on its disk before the charge is committed."""
    with opened(tmp_path) as ledger:
        charge(ledger, "0.1")
        before, kept = ledger.newest_head(), read_head(tmp_path / "elsewhere" / "head")
        with monkeypatch.context() as patch:
            failing(step, patch)
            for _ in range(3):
                with pytest.raises(LedgerUnavailableError, match=r"No space left on device.*nothing was charged"):
                    charge(ledger, "0.1")
            assert isinstance(ledger.store, GuardedStore)
            with pytest.raises(LedgerUnavailableError, match="No space left"):
                ledger.store.check_writable()
        assert ledger.newest_head() == before
        assert read_head(tmp_path / "elsewhere" / "head") == kept
        charge(ledger, "0.1")  # there is room again
        assert read_head(tmp_path / "elsewhere" / "head") == ledger.newest_head()
    assert not (tmp_path / "elsewhere" / "head.new").exists()


def test_a_head_file_that_cannot_be_replaced_costs_one_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that is a mount point of its own: noticed after the first commit, and before every other."""
    with opened(tmp_path) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
        kept = read_head(tmp_path / "elsewhere" / "head")
        with monkeypatch.context() as patch:
            failing("rename", patch, code=errno.EBUSY)
            with pytest.raises(LedgerUnavailableError, match=r"what was charged stands\. Make room"):
                charge(ledger, "0.1")
            for _ in range(3):
                with pytest.raises(LedgerUnavailableError, match=r"busy.*nothing was charged"):
                    charge(ledger, "0.1")
        assert len(ledger.entries()) == 1
        assert read_head(tmp_path / "elsewhere" / "head") == kept
        charge(ledger, "0.1")
        assert len(ledger.entries()) == 2
        assert read_head(tmp_path / "elsewhere" / "head") == ledger.newest_head()


@pytest.mark.parametrize("seconds", [0.0, 0.6])
def test_an_outcome_that_was_committed_is_not_called_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Only the head file fails: the error, after one attempt or several, says where the outcome is."""
    monkeypatch.setattr(reservation, "OUTCOME_SECONDS", seconds)
    claims = Claims.of(PureDP("0.5"))
    with opened(tmp_path) as ledger:
        scope = ledger.open_scope("people", budget=PureDP(1))
        charged = scope.reserve(claims, request=COUNT, key="k")
        assert isinstance(charged, Reservation)
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            failing("rename", patch)
            with pytest.raises(LedgerUnavailableError) as raised:
                charged.release("the value")
        said = str(raised.value)
        assert f"The charge of entry {charged.entry_id} stands, and its outcome is in the ledger" in said
        assert "its key returns it at no cost" in said
        assert not any(false in said for false in ("nothing came out", "not written", "pays again", "the value"))
        assert raised.value.charge_stands
        assert [entry.text for entry in ledger.entries()] == ["the value"]
        again = scope.reserve(claims, request=COUNT, key="k")
        assert isinstance(again, Stored)
        assert (again.text, len(ledger.entries())) == ("the value", 1)
        assert read_head(tmp_path / "elsewhere" / "head") == ledger.newest_head()


def test_a_failure_that_was_committed_promises_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as ledger:
        charged = charge(ledger)
        with monkeypatch.context() as patch:
            failing("rename", patch)
            with pytest.raises(LedgerUnavailableError, match="stands, and nothing came out"):
                charged.fail()
        assert [entry.state for entry in ledger.entries()] == ["failed"]


def test_an_outcome_that_was_not_committed_is_not_called_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservation, "OUTCOME_SECONDS", 0.0)
    with opened(tmp_path) as ledger:
        charged = charge(ledger)
        with monkeypatch.context() as patch:
            failing("draft", patch)
            with pytest.raises(LedgerUnavailableError, match=r"the outcome was not written.*nothing came out"):
                charged.release("the value")
        assert [entry.state for entry in ledger.entries()] == ["reserved"]


def test_a_charge_that_is_not_committed_leaves_the_head(tmp_path: Path) -> None:
    """Its draft is on disk, and is not the head of anything: the next charge replaces it."""
    with opened(tmp_path) as ledger:
        charge(ledger, "0.1")
        kept = read_head(tmp_path / "elsewhere" / "head")
        with sqlite3.connect(tmp_path / "budget.db") as other:
            other.execute("CREATE TRIGGER entry_stop BEFORE INSERT ON entry BEGIN SELECT RAISE(ABORT, 'stop'); END")
        other.close()
        with pytest.raises(LedgerUnavailableError, match="stop"):
            charge(ledger, "0.1")
        assert read_head(tmp_path / "elsewhere" / "head") == kept
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "_check_under_way", lambda _connection: 1 / 0)  # the last step before the commit
            with pytest.raises(ZeroDivisionError):
                ledger.open_scope("more", budget=PureDP(1))
        assert (tmp_path / "elsewhere" / "head.new").exists()
        assert read_head(tmp_path / "elsewhere" / "head") == kept
        ledger.open_scope("more", budget=PureDP(1))
        assert read_head(tmp_path / "elsewhere" / "head") == ledger.newest_head()


def test_a_lock_that_is_not_given_up_is_waited_for_and_then_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger, open(tmp_path / "elsewhere" / "head.lock", "a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        ledger.store.wait_seconds = 0.05
        with pytest.raises(LedgerUnavailableError, match=r"locked by another process for 0.05 s; nothing was charged"):
            ledger.open_scope("people", budget=PureDP(1))
        assert ledger.scopes() == []


def test_a_child_that_is_forked_in_the_middle_of_a_charge_does_not_keep_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
        ledger.store.wait_seconds = 0.05
        replace, (reader, writer) = GuardedStore._replace, os.pipe()
        children: list[int] = []

        def forking(store: GuardedStore) -> None:
            if not children:
                children.append(os.fork())
                if children[0] == 0:
                    os.close(writer)
                    os.read(reader, 1)  # until the test is over
                    os._exit(0)
            replace(store)

        monkeypatch.setattr(GuardedStore, "_replace", forking)
        try:
            charge(ledger, "0.1").release("{}")
            assert len(children) == 1
        finally:
            os.close(writer)
            os.close(reader)
            os.waitpid(children[0], 0)


def test_two_writers_share_a_head_file(tmp_path: Path) -> None:
    """What another process commits and keeps between a commit and its keeping is no other history."""
    with opened(tmp_path) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
        failed: list[BaseException] = []

        def spend() -> None:
            try:
                with open_ledger(tmp_path / "budget.db", head_file=tmp_path / "elsewhere" / "head") as own:
                    for _ in range(15):
                        charge(own, "0.001")
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=spend) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert not failed
        assert read_head(tmp_path / "elsewhere" / "head") == ledger.newest_head()
        assert len(ledger.entries()) == 45


def test_a_head_that_was_seen_elsewhere_is_required(tmp_path: Path) -> None:
    """Without a file: the head of another process is enough to recognise an older copy."""
    journal._newest.clear()
    with open_ledger(tmp_path / "budget.db") as ledger:
        ledger.open_scope("people", budget=PureDP(1))
        copied(tmp_path / "budget.db", tmp_path / "backup.db")
        charge(ledger, "0.1")
        head = ledger.newest_head()
        copied(tmp_path / "backup.db", tmp_path / "budget.db")
        with pytest.raises(LedgerDamagedError, match="this process has seen event"):
            ledger.newest_head()
    journal._newest.clear()
    with open_ledger(tmp_path / "budget.db") as ledger:
        journal.see_head(ledger.ledger_id, head)
        with pytest.raises(LedgerDamagedError, match="this process has seen event"):
            charge(ledger, "0.1")
        assert ledger.entries() == []


@pytest.mark.postgres
def test_a_server_that_lost_its_newest_charges_grants_nothing(tmp_path: Path) -> None:
    """As a restore to a point in time, or a standby that lags: the rows of the newest events are not there."""
    psycopg = pytest.importorskip("psycopg")
    try:
        with temporary_server() as server, empty_database(server.address) as address:
            with opened(tmp_path, address) as ledger:
                ledger.open_scope("people", budget=PureDP(1))
            tables = ("meta", "scope", "event", "entry")
            with psycopg.connect(address) as connection:
                for each in tables:
                    connection.execute(f"CREATE TABLE old_{each} AS TABLE {each}")
            with opened(tmp_path, address) as ledger:
                charge(ledger).release("{}")
            kept = read_head(tmp_path / "elsewhere" / "head")
            with psycopg.connect(address) as connection:
                connection.execute("SET session_replication_role = replica")  # as a restore does
                for each in reversed(tables):
                    connection.execute(f"DELETE FROM {each}")
                for each in tables:
                    connection.execute(f"INSERT INTO {each} SELECT * FROM old_{each}")
            with opened(tmp_path, address) as ledger:
                assert ledger.verify().ok  # by itself it is a good ledger
                with pytest.raises(LedgerDamagedError, match="the head file has event"):
                    charge(ledger)
                assert ledger.entries() == []
            assert read_head(tmp_path / "elsewhere" / "head") == kept
            assert json.loads((tmp_path / "elsewhere" / "head").read_text()).keys() == {"seq", "hash"}
    except NoServerError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")
