"""Addresses of ledgers: what is understood, what is shown, what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidelight.errors import LedgerError
from sidelight.ledger.place import check_file, file_system, parse_place


def test_a_path_and_its_url_are_the_same_place(tmp_path: Path) -> None:
    path = tmp_path / "budget with 100%25.db"
    assert parse_place(path).path == path
    assert parse_place(str(path)).path == path
    assert parse_place(f"sqlite:///{tmp_path}/b.db").path == tmp_path / "b.db"
    assert parse_place("sqlite:///budget.db").path == Path.cwd() / "budget.db"


def test_a_link_is_followed_once(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    assert parse_place(tmp_path / "link.db").path == tmp_path / "real.db"


@pytest.mark.parametrize("text", ["sqlite://", "sqlite:///:memory:", ":memory:"])
def test_memory(text: str) -> None:
    assert parse_place(text).in_memory


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "sqlite://budget.db",
        "sqlite:///b.db?mode=ro",
        "mysql://u@h/d",
        "sqlite:///a\x00b",
        "sqlite:rel.db",
        "SQLite:rel.db",
        "sqlite3:rel.db",
        "postgresql:budget",
    ],
)
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(LedgerError):
        parse_place(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ann:s3cret@db:5432/budget", "postgresql://ann:***@db:5432/budget"),
        ("postgres://ann@db/budget", "postgresql://ann@db/budget"),
        ("postgresql+psycopg:///budget?host=/run&password=s3cret", "postgresql:///budget?***"),
    ],
)
def test_a_password_is_never_shown(text: str, shown: str) -> None:
    place = parse_place(text)
    assert place.dialect == "postgresql"
    assert place.shown == shown
    assert "s3cret" not in repr(place)


def test_missing_directory_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"directory .* does not exist"):
        check_file(tmp_path / "no" / "budget.db", create=True)
    with pytest.raises(LedgerError, match="there is no ledger"):
        check_file(tmp_path / "budget.db", create=False)
    with pytest.raises(LedgerError, match="is not a file"):
        check_file(tmp_path, create=True)


def test_a_file_that_is_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("dear diary")
    with pytest.raises(LedgerError, match="not a SQLite database"):
        check_file(tmp_path / "notes.txt", create=True)


def test_a_second_hard_link(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch()
    os.link(tmp_path / "a.db", tmp_path / "b.db")
    with pytest.raises(LedgerError, match="hard link"):
        check_file(tmp_path / "a.db", create=True)


MOUNTS = r"""
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
22 21 0:30 / /home rw - nfs4 server:/home rw
23 22 0:31 / /home/ann/local\040disk rw - xfs /dev/sdb rw
24 21 0:32 / /mnt/share rw - cifs //server/share rw
25 21 0:33 / /mnt/share rw - ext4 /dev/sdc rw
"""


@pytest.mark.parametrize(
    ("directory", "kind"),
    [
        ("/var", "ext4"),
        ("/home/ann", "nfs4"),
        ("/homes", "ext4"),
        ("/home/ann/local disk/x", "xfs"),
        ("/mnt/share", "ext4"),
    ],
)
def test_the_file_system_of_a_directory(directory: str, kind: str) -> None:
    assert file_system(Path(directory), mounts=MOUNTS) == kind


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidelight.ledger.place.file_system", lambda _: "nfs4")
    with pytest.raises(LedgerError, match=r"network file system \(nfs4\)"):
        check_file(tmp_path / "budget.db", create=True)
