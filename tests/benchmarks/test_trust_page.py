"""The trust page says what the last audit measured, about everything that releases something.

That it is about everything is asked by `make audit`, after it has written the page: a new query is not measured yet.
"""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from benchmarks.audit_queries import ELSEWHERE, names
from benchmarks.audit_tight import CASES, Tight
from benchmarks.planted_bugs import counted
from benchmarks.trust_page import NUMBERS, PAGE, ROOT, parts_of
from benchmarks.trust_text import FAULTS, defects, render

from sidelight.audit import QueryAudit

SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NOW = json.loads(NUMBERS.read_text(encoding="utf-8"))


def test_the_page_is_made_from_the_last_numbers() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(NOW, SECURITY), "python -m benchmarks.trust_page --render"


@pytest.mark.slow
def test_the_numbers_are_of_everything() -> None:
    assert set(NOW) == set(parts_of(long=True, seconds=1)), "make audit"
    attacked = set(NOW["queries"]["found"]) | set(ELSEWHERE)
    assert attacked >= names(), "make trust"
    assert {name.partition(", ")[0] for name in attacked} <= names(), "make trust"  # "Count, public totals" is a Count
    assert set(NOW["tight"]["found"]) == set(CASES), "make trust"


def test_no_claim_was_refuted_and_tight_ones_nearly() -> None:
    audits = {name: QueryAudit.from_json(data) for name, data in NOW["queries"]["found"].items()}
    assert [name for name, each in audits.items() if each.refuted or each.raised != (0, 0)] == []
    close = {name: Tight(**data) for name, data in NOW["tight"]["found"].items()}
    assert [name for name, each in close.items() if each.surely > each.claimed or each.share < 0.6] == []


@pytest.mark.slow
def test_nothing_was_lost_or_broken() -> None:
    faults, fuzzed = {name: NOW[name]["found"] for name in FAULTS}, NOW["fuzzing"]["found"]
    wrong = ("lost", "doubled", "forked", "overspent", "forgotten", "broken", "stuck")
    assert {name: each[what] for name, each in faults.items() for what in wrong if each.get(what)} == {}
    assert faults["kills"]["kills"] >= 200
    assert fuzzed["inputs"] >= 500
    assert fuzzed["defects"] == 0
    ours = [Tight(**data) for name, data in NOW["membership"]["found"].items() if name.startswith("sl.")]
    assert ours
    assert all(each.surely <= each.claimed for each in ours)


@pytest.mark.slow
def test_no_planted_bug_was_missed() -> None:
    found = NOW["planted"]["found"]
    assert counted(found)["missed"] == 0
    assert counted(found)["caught"] >= 30
    for each in found.values():
        file, *_, test = each["test"].split("::")
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


def test_every_class_of_defects_is_on_the_page() -> None:
    listed = SECURITY.partition("## Defects before")[2].partition("## Not privacy")[0].count("\n### ")
    found = defects(SECURITY)
    assert len(found) == listed > 15
    assert all(each.affected and each.happened for each in found)
    assert all(each.tests for each in found)


def test_links_of_the_page_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([\w./-]+\.md)\)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / link).is_file(), link


def test_the_page_says_how_to_report() -> None:
    assert "Report a vulnerability" in PAGE.read_text(encoding="utf-8").partition("## How to report")[2]


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_a_refuted_claim_would_be_seen(share: float) -> None:
    changed: Any = copy.deepcopy(NOW)
    for each in next(iter(changed["queries"]["found"].values()))["judged"]:
        each["surely"] = share * each["claimed"]
    found = render(changed, SECURITY).count("**REFUTED**") - render(NOW, SECURITY).count("**REFUTED**")
    assert found == (share > 1)  # what has no protection is refuted on the page as well


def test_a_missed_bug_would_be_seen() -> None:
    changed: Any = copy.deepcopy(NOW)
    for each in changed["planted"]["found"].values():
        each["outcome"] = "missed"
    assert render(changed, SECURITY).count("**MISSED**") == len(changed["planted"]["found"])
    assert "0 caught" in render(changed, SECURITY)
