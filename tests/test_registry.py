"""The registry is whole: whatever it names is there, and whatever is there stands in it."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import sidelight as sl
from sidelight.plans import query_table
from sidelight.registry import ENTRIES, PLAN_KINDS, Entry, card_of

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.kind)
def test_an_entry_names_what_is_there(entry: Entry) -> None:
    assert entry.name in sl.__all__
    assert getattr(import_module(entry.home), entry.name) is getattr(sl, entry.name)
    assert entry.name in (ROOT / "docs" / entry.page).read_text(encoding="utf-8"), f"{entry.page} is silent about it"
    assert (ROOT / "tests" / entry.audit).is_file()
    assert re.fullmatch(r"[a-z][a-z_]*", entry.kind)
    if entry.plan is not None:
        page = (ROOT / "docs" / "reference" / "plan-files.md").read_text(encoding="utf-8")
        assert f'`kind = "{entry.kind}"`' in page
        assert query_table(entry.kind).keys


def test_kinds_and_names_are_there_once() -> None:
    assert len({entry.kind for entry in ENTRIES}) == len(ENTRIES)
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)
    assert set(PLAN_KINDS) <= {entry.kind for entry in ENTRIES}
    assert card_of("a kind of tomorrow") == "numbers"


def test_every_public_query_is_registered() -> None:
    """A public class that can be prepared against a schema is a query."""
    queries = {name for name in sl.__all__ if isinstance(each := getattr(sl, name), type) and hasattr(each, "prepare")}
    assert queries - {entry.name for entry in ENTRIES} == set()
