"""The backup copy of a migration: same permissions as the ledger, and no accidental charges."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from sidelight.errors import LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import connections, open_ledger
from sidelight.ledger import ledger as opening


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with open_ledger(tmp_path / "budget.db") as ledger:
        scope = ledger.open_scope("people", budget=PureDP(1))
        scope.reserve(Claims.of(PureDP("0.25")), request={"kind": "count"})
    (tmp_path / "budget.db").chmod(0o600)
    return tmp_path / "budget.db"


def test_a_copy_is_closed_to_others_while_it_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, modes = sqlite3.connect, []

    def watched(place: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(place, **options)
        if str(place).endswith(".part"):
            modes.append(Path(place).stat().st_mode & 0o777)
        return connection

    before = os.umask(0o022)
    try:
        with open_ledger(path) as ledger:
            monkeypatch.setattr(connections.sqlite3, "connect", watched)
            kept = ledger.store.decide(lambda transaction: opening._keep(transaction, path, 0))
    finally:
        os.umask(before)
    assert modes == [0o600]
    assert kept.stat().st_mode & 0o777 == 0o400


def test_a_read_only_file_can_be_read_but_not_charged(path: Path) -> None:
    """Root may write everything, and in a container most are root."""
    path.chmod(0o400)
    with pytest.raises(LedgerError, match=r"cannot be written by this user.*read_only=True"):
        open_ledger(path)
    with open_ledger(path, read_only=True) as ledger:
        assert ledger.verify().ok
        assert len(ledger.entries()) == 1
