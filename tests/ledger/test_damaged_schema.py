"""A ledger whose schema is damaged so that its words are no text is refused in words, not by an error nobody knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidelight.errors import LedgerError
from sidelight.ledger import open_ledger


def test_a_schema_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    open_ledger(f"sqlite:///{path}").close()
    content = path.read_bytes()
    assert b"CREATE TABLE" in content
    path.write_bytes(content.replace(b"CREATE TABLE", b"CREATE \x8eABLE"))
    with pytest.raises(LedgerError):
        open_ledger(f"sqlite:///{path}")
