"""A ledger that is opened for reading: all of it is there, nothing is written, and whatever spends is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidelight.errors import LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import open_ledger
from sidelight.ledger import place as places
from sidelight.ledger.place import check_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with open_ledger(tmp_path / "budget.db") as ledger:
        scope = ledger.open_scope("people", budget=PureDP(1))
        scope.reserve(Claims.of(PureDP("0.25")), request={"kind": "count"}).release("{}")  # type: ignore[union-attr]
    return tmp_path / "budget.db"


def files(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def test_a_reader_sees_everything_and_leaves_no_trace(path: Path, tmp_path: Path) -> None:
    before = files(tmp_path)
    with open_ledger(path, read_only=True) as ledger:
        assert ledger.verify().ok
        assert [scope.scope_id for scope in ledger.scopes()] == ["people"]
        assert len(ledger.entries()) == 1
        assert ledger.head() == ledger.events()[-1].hash
        assert files(tmp_path) == before
    assert files(tmp_path) == before


def test_whatever_writes_is_refused(path: Path, tmp_path: Path) -> None:
    before = files(tmp_path)
    with open_ledger(path, read_only=True) as ledger:
        scope = ledger.scope("people")
        for write in (
            lambda: scope.reserve(Claims.of(PureDP("0.25")), request={"kind": "count"}),
            lambda: ledger.open_scope("others", budget=PureDP(1)),
            lambda: ledger.close_scope("people"),
            lambda: scope.record_external(Claims.of(PureDP("0.1")), note="elsewhere"),
        ):
            with pytest.raises(LedgerError, match="opened for reading only; nothing was written"):
                write()
    assert files(tmp_path) == before


def test_commits_that_are_still_in_the_log_are_read(path: Path) -> None:
    """A reader that took the file as it stands would miss the last charge: forgotten spending."""
    with open_ledger(path) as writer, open_ledger(path, read_only=True) as reader:
        writer.scope("people").reserve(Claims.of(PureDP("0.5")), request={"kind": "count"})
        assert (path.parent / "budget.db-wal").stat().st_size > 0
        assert len(reader.entries()) == 2
        assert reader.head() == writer.head()
        assert reader.verify().ok
    with open_ledger(path, read_only=True) as reader:
        assert len(reader.entries()) == 2


def test_a_file_that_changes_during_a_read_is_rejected(path: Path) -> None:
    with open_ledger(path, read_only=True) as ledger:
        with pytest.raises(LedgerError, match="was written while it was read; try again"), ledger.store.read():
            os.utime(path, ns=(1, 1))
        assert ledger.verify().ok


def test_a_reader_makes_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no ledger"):
        open_ledger(tmp_path / "other.db", read_only=True)
    assert files(tmp_path) == {}


def test_permission_to_write_is_asked_of_those_who_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places.os, "access", lambda _, mode: not mode & os.W_OK)
    check_file(path, create=False, read_only=True)
    with pytest.raises(LedgerError, match=r"cannot be written by this user.*read_only=True"):
        check_file(path, create=False)
    monkeypatch.setattr(places.os, "access", lambda _, mode: not mode & os.R_OK)
    with pytest.raises(LedgerError, match="cannot be read by this user"):
        check_file(path, create=False, read_only=True)
