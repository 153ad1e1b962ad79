"""No file of a server is two things at once, whatever path, link, folder or pattern names it."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import sidelight as sl
from analyst_server import write_people, write_survey
from sidelight.cli.analysts import check_survey
from sidelight.errors import PlanError, StorageError
from sidelight.guarantees import Claims
from sidelight.server.budgets import Budgets
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
        ('head_file = "elsewhere/ledger.head"', 'head_file = "head-link"'),
        ("seats = 1", 'seats = 1\nscratch = "."'),
        ("seats = 1", 'seats = 1\nscratch = ".."'),
        ("[work]", '[public.x]\npath = "ledger.key"\norigin = "us"\n[work]'),
        ("[work]", '[public.x]\npath = "people.parquet"\norigin = "us"\n[work]'),
        ("[work]", '[public.x]\npath = "people-link.parquet"\norigin = "us"\n[work]'),
    ],
)
def test_a_file_that_is_two_things_is_refused(tmp_path: Path, old: str, new: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "head-link").symlink_to("elsewhere/key-link")
    (tmp_path / "elsewhere" / "key-link").symlink_to("../ledger.key")
    write_people(tmp_path)
    os.link(tmp_path / "people.parquet", tmp_path / "people-link.parquet")
    before = (tmp_path / "people.parquet").read_bytes()
    with pytest.raises(PlanError, match=r"one file|private|emptied"):
        read_config(survey(tmp_path, only=(old, new)))
    assert (tmp_path / "people.parquet").read_bytes() == before


@pytest.mark.parametrize("source", ["all", "all/*.parquet"])
def test_no_new_file_of_a_server_is_read_as_rows(tmp_path: Path, source: str) -> None:
    (tmp_path / "all").mkdir()
    write_people(tmp_path)
    os.rename(tmp_path / "people.parquet", tmp_path / "all/x.parquet")
    rows = ('path = "people.parquet"', f'path = "{source}"')
    with pytest.raises(PlanError, match="the audit log would be a file of the private source 'people'"):
        read_config(survey(tmp_path, rows=rows, log=('audit = "audit.jsonl"', 'audit = "all/audit.parquet"')))
    assert read_config(survey(tmp_path, rows=rows)).audit.name == "audit.jsonl"


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


def begun(file: Path, *, spend: str | None = None) -> None:
    """Start and end a server as far as its ledger and store; charge a table before it ends."""
    config = read_config(file)
    with closing(Budgets(config, create=True)) as budgets:
        budgets.begin()
        if spend is not None:
            account = config.tables[spend].accounts[0]
            how: dict[str, Any] = {"moment": 0.0, "request": {"kind": "count"}, "key": "a"}
            budgets.reserve(config.tables[spend], account, Claims.of(sl.PureDP("0.5")), **how)


def parts(folder: Path, sources: dict[str, str], *, rule: str = 'partitioned_by = "month"', more: str = "") -> Path:
    """Write a server's file with a table of each source below one population."""
    file = write_survey(folder)
    head, _, table = file.read_text().partition("[[table]]")
    table = table.replace("capacity", f'population = "visitors"\n{more}\ncapacity')
    made = [
        "[[table]]" + table.replace('name = "people"', f'name = "{name}"').replace("people.parquet", source)
        for name, source in sources.items()
    ]
    budget = 3 if rule else 9
    population = f'[population.visitors]\ncurrency = "epsilon"\nbudget = {{epsilon = {budget}}}\n{rule}\n'
    file.write_text(head + population + "\n".join(made))
    return file


def test_a_new_name_is_no_new_budget(tmp_path: Path) -> None:
    """A part of a partition that is renamed, moved or exchanged keeps what its people were charged."""
    write_people(tmp_path)
    for name in ("jan", "feb", "mar"):
        (tmp_path / f"{name}.parquet").write_bytes((tmp_path / "people.parquet").read_bytes())
        os.utime(tmp_path / f"{name}.parquet", ns=(0, 10**18 + len(name)))
    first = {"jan": "jan.parquet", "feb": "feb.parquet"}
    begun(parts(tmp_path, first))
    begun(parts(tmp_path, {"january": "jan.parquet", "feb": "feb.parquet"}))  # nothing was spent
    begun(parts(tmp_path, first), spend="jan")
    renamed = {"first": "jan.parquet", "feb": "feb.parquet"}
    exchanged = {"jan": "feb.parquet", "feb": "jan.parquet"}
    os.link(tmp_path / "jan.parquet", tmp_path / "moved.parquet")
    moved = {"first": "moved.parquet", "feb": "feb.parquet"}
    for sources in (renamed, exchanged, moved):
        with pytest.raises(PlanError, match="was served as 'jan', whose people have a budget"):
            begun(parts(tmp_path, sources))
        with pytest.raises(PlanError, match="was served as 'jan'"):
            check_survey(parts(tmp_path, sources))
    for sources in (first, {"feb": "feb.parquet", "mar": "mar.parquet"}, {"mar": "mar.parquet", **first}):
        begun(parts(tmp_path, sources))
    begun(parts(tmp_path, renamed, more="other_people = true"))


def test_a_new_name_in_a_population_that_adds_up_is_counted(tmp_path: Path) -> None:
    write_people(tmp_path)
    begun(parts(tmp_path, {"jan": "people.parquet"}, rule=""), spend="jan")
    begun(parts(tmp_path, {"january": "people.parquet"}, rule=""))
    alone = write_survey(tmp_path)
    with pytest.raises(PlanError, match="was served as 'jan'"):
        begun(alone)


def called(folder: Path, name: str, source: str) -> Path:
    """Write the usual configuration with another name and source of its table."""
    return survey(folder, name=('name = "people"', f'name = "{name}"'), rows=("people.parquet", source))


@pytest.fixture
def served_folder(tmp_path: Path) -> Path:
    """A folder with rows in two files, one of which is a link to another folder."""
    (tmp_path / "rows" / "deep").mkdir(parents=True)
    (tmp_path / "far").mkdir()
    write_people(tmp_path)
    os.rename(tmp_path / "people.parquet", tmp_path / "rows/deep/a.parquet")
    write_people(tmp_path, rows=200)
    os.rename(tmp_path / "people.parquet", tmp_path / "far/b.parquet")
    os.symlink(tmp_path / "far/b.parquet", tmp_path / "rows/b.parquet")
    return tmp_path


NAMES_OF_THE_SAME_ROWS = (
    "rows",
    "rows/*.parquet",
    "rows/**/*.parquet",
    "rows/b.parquet",
    "far",
    "far/b.parquet",
    "far/[ab].parquet",
    "./far/../rows/b.parquet",
)


@pytest.mark.planted("files of a folder under another name")
@pytest.mark.parametrize("first", NAMES_OF_THE_SAME_ROWS)
def test_a_file_of_a_folder_or_a_pattern_keeps_its_budget(served_folder: Path, first: str) -> None:
    begun(called(served_folder, "people", first), spend="people")
    for second in NAMES_OF_THE_SAME_ROWS:
        with pytest.raises(PlanError, match="was served as 'people'"):
            begun(called(served_folder, "persons", second))
    if "*" not in first and first != "rows":  # the other file was not served
        begun(called(served_folder, "others", "rows/deep/a.parquet"))


def test_files_that_are_moved_or_come_later_keep_the_budget_of_their_folder(served_folder: Path) -> None:
    begun(called(served_folder, "people", "rows"), spend="people")
    write_people(served_folder)
    os.rename(served_folder / "people.parquet", served_folder / "rows/later.parquet")
    with pytest.raises(PlanError, match="was served as 'people'"):  # a file of a folder that was served
        begun(called(served_folder, "persons", "rows/lat*.parquet"))
    os.rename(served_folder / "rows", served_folder / "renamed")
    with pytest.raises(PlanError, match="was served as 'people'"):  # by its files, which a new name does not change
        begun(called(served_folder, "persons", "renamed"))
    os.rename(served_folder / "renamed/later.parquet", served_folder / "moved.parquet")
    begun(called(served_folder, "news", "moved.parquet"))  # never served
    begun(called(served_folder, "people", "renamed"))
    os.rename(served_folder / "renamed/deep/a.parquet", served_folder / "a.parquet")
    with pytest.raises(PlanError, match="was served as 'people'"):
        begun(called(served_folder, "persons", "a.parquet"))


def test_a_file_url_is_its_path(served_folder: Path) -> None:
    assert identities(f"file://{served_folder}/rows") == identities(served_folder / "rows")


@pytest.mark.planted("a new store of tokens")
def test_a_new_store_of_tokens_does_not_forget_what_was_served(tmp_path: Path) -> None:
    begun(called(tmp_path, "people", "people.parquet"), spend="people")
    renamed = called(tmp_path, "persons", "people.parquet")
    renamed.write_text(renamed.read_text().replace("identity.db", "other.db"))
    with pytest.raises(PlanError, match="was served as 'people'"):
        begun(renamed)
