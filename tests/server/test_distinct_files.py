"""No file of a server is two things at once, whatever path, link, folder or pattern names it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import sidelight as sl
from analyst_server import write_people, write_survey
from sidelight.errors import PlanError, StorageError
from sidelight.server.config_file import read_config
from sidelight.server.distinct_files import identities
from sidelight.server.identity import IdentityStore


def survey(folder: Path, **changes: str) -> Path:
    """Write the usual configuration with texts of it replaced."""
    file = write_survey(folder)
    text = file.read_text()
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('store = "identity.db"', 'store = "budget.db"'),
        ('store = "identity.db"', 'store = "budget.db-wal"'),
        ('store = "identity.db"', 'store = "./elsewhere/../budget.db-shm"'),
        ('audit = "audit.jsonl"', 'audit = "budget.db"'),
        ('audit = "audit.jsonl"', 'audit = "ledger.key"'),
        ('audit = "audit.jsonl"', 'audit = "identity.db"'),
        ('audit = "audit.jsonl"', 'audit = "identity.db.lock"'),
        ('audit = "audit.jsonl"', 'audit = "people.parquet"'),
        ('audit = "audit.jsonl"', 'audit = "people-link.parquet"'),
        ('head_file = "elsewhere/ledger.head"', 'head_file = "ledger.key"'),
        ('head_file = "elsewhere/ledger.head"', 'head_file = "budget.db"'),
        ("seats = 1", 'seats = 1\nscratch = "."'),
        ("seats = 1", 'seats = 1\nscratch = ".."'),
        ("[work]", '[public.x]\npath = "ledger.key"\norigin = "us"\n[work]'),
        ("[work]", '[public.x]\npath = "people.parquet"\norigin = "us"\n[work]'),
        ("[work]", '[public.x]\npath = "people-link.parquet"\norigin = "us"\n[work]'),
    ],
)
def test_a_file_that_is_two_things_is_refused(tmp_path: Path, old: str, new: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    write_people(tmp_path)
    os.link(tmp_path / "people.parquet", tmp_path / "people-link.parquet")
    before = (tmp_path / "people.parquet").read_bytes()
    with pytest.raises(PlanError, match=r"one file|private|emptied"):
        read_config(survey(tmp_path, only=(old, new)))
    assert (tmp_path / "people.parquet").read_bytes() == before


def test_the_usual_files_are_taken(tmp_path: Path) -> None:
    assert read_config(write_survey(tmp_path)).store.name == "identity.db"


@pytest.mark.parametrize("second", ["all", "all/x.parquet", "all/../all", "link.parquet", "all/*.parquet"])
def test_the_same_rows_get_one_budget(tmp_path: Path, second: str) -> None:
    (tmp_path / "all").mkdir()
    write_people(tmp_path)
    os.rename(tmp_path / "people.parquet", tmp_path / "all/x.parquet")
    os.link(tmp_path / "all/x.parquet", tmp_path / "link.parquet")
    write_people(tmp_path)
    file = write_survey(tmp_path)
    text = file.read_text().replace('path = "people.parquet"', 'path = "all/x.parquet"')
    table = text[text.index("[[table]]") :].replace('"all/x.parquet"', f'"{second}"')
    table = table.replace('name = "people"', 'name = "again"')
    file.write_text(text + table)
    with pytest.raises(PlanError, match="two budgets"):
        read_config(file)
    file.write_text(text + table.replace("capacity", "other_people = true\ncapacity"))
    assert sorted(read_config(file).tables) == ["again", "people"]


def test_a_store_of_tokens_is_not_made_in_a_ledger(tmp_path: Path) -> None:
    people = sl.Table({"age": [1, 2]}, schema=[sl.Number("age", lower=0, upper=9)])
    sl.Session(people, budget=sl.PureDP(1), ledger=tmp_path / "budget.db")
    with pytest.raises(StorageError, match="is a ledger"):
        IdentityStore(tmp_path / "budget.db")


def test_spellings_of_one_server_are_one_source() -> None:
    """Two spellings would be two budgets for the same people."""
    here = [
        "postgresql://localhost/db",
        "postgresql://127.0.0.1:5432/db",
        "postgresql://ann:secret@LOCALHOST/%64b",
        "postgresql:///db?host=/var/run/postgresql",
        "postgresql:///?dbname=db&port=5432",
    ]
    assert len({identities(each) for each in here}) == 1
    assert identities("postgresql:///db?host=far") == identities("postgresql://Far./db")
    others = ["postgresql://localhost/other", "postgresql://localhost:5433/db", "postgresql://far/db"]
    assert len({identities(each) for each in (here[0], *others)}) == 4
