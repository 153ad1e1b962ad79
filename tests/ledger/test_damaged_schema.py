"""Clear refusal of a ledger with a schema that is not valid text."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from sidelight.errors import LedgerError
from sidelight.ledger import open_ledger
from sidelight.ledger.place import check_output
from sidelight.ledger.schema import Dialect, create_statements


def test_a_schema_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    open_ledger(f"sqlite:///{path}").close()
    content = path.read_bytes()
    assert b"CREATE TABLE" in content
    path.write_bytes(content.replace(b"CREATE TABLE", b"CREATE \x8eABLE"))
    with pytest.raises(LedgerError, match="damaged"):
        open_ledger(f"sqlite:///{path}")
    with pytest.raises(LedgerError, match="is a database, perhaps a ledger"):
        check_output(path)


@pytest.mark.parametrize(
    ("dialect", "digest"),
    [
        ("sqlite", "052d1b267ed1709c678560f5609e5c3e0840de60cf9fd6a5a363f98932045a5a"),
        ("postgresql", "57626668477f681145018871d9b5945220b13a366ada2c8bd6587934543aa0c3"),
    ],
)
def test_the_statements_of_schema_2_are_those_of_every_version(dialect: Dialect, digest: str) -> None:
    """Verification compares the triggers in a file with these texts: with another wording no older ledger is intact."""
    text = json.dumps(list(create_statements(dialect)), sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest() == digest


@pytest.mark.parametrize("content", [b"", b"x", b"{}\n", b"x" * 99, b"y" * 511, b"z" * 5000, b"\x8e\x00" * 700])
def test_a_file_that_is_not_a_database_may_be_overwritten(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(content)
    check_output(path)
