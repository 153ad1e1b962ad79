"""Readers that take no lock: whatever a writer does meanwhile, they give one moment of the file or none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidelight.errors import LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, open_ledger, store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with open_ledger(tmp_path / "budget.db") as ledger:
        ledger.open_scope("people", budget=PureDP(1))
    return tmp_path / "budget.db"


@pytest.fixture
def reader(path: Path) -> Iterator[Ledger]:
    with open_ledger(path, read_only=True) as ledger:
        yield ledger


def spend(path: Path) -> None:
    with open_ledger(path) as ledger:  # closing writes the log into the file and removes it
        ledger.scope("people").reserve(Claims.of(PureDP("0.25")), request={"kind": "count"})


def read(reader: Ledger, meanwhile: Callable[[], None]) -> None:
    with reader.store.read() as transaction:
        transaction.row("SELECT COUNT(*) FROM event")
        meanwhile()


def test_a_log_that_goes_before_the_file_is_opened(reader: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer that was there closes just before the file is opened, and another one comes."""
    log = path.with_name(path.name + "-wal")
    log.touch()
    monkeypatch.setattr(store, "has_log", lambda _: log.unlink(missing_ok=True))
    with pytest.raises(LedgerError, match="was written while it was read; try again"):
        read(reader, lambda: spend(path))


def test_half_of_a_commit_is_not_called_damage(reader: Ledger, path: Path) -> None:
    def damaged() -> None:
        raise LedgerError("the file is damaged; restore a backup")

    def written() -> None:
        os.utime(path, ns=(1, 1))
        damaged()

    with pytest.raises(LedgerError, match="was written while it was read; try again"):
        read(reader, written)
    with pytest.raises(LedgerError, match="restore a backup"):
        read(reader, damaged)


def test_a_reader_of_the_log_does_not_mind_a_writer(path: Path) -> None:
    with open_ledger(path) as writer, open_ledger(path, read_only=True) as reader:
        writer.scope("people").reserve(Claims.of(PureDP("0.25")), request={"kind": "count"})
        with reader.store.read() as transaction:
            before = transaction.row("SELECT COUNT(*) FROM event")
            writer.scope("people").reserve(Claims.of(PureDP("0.25")), request={"kind": "count"})
            os.utime(path, ns=(1, 1))
            assert transaction.row("SELECT COUNT(*) FROM event") == before
        assert len(reader.entries()) == 2
