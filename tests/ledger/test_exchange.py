"""Export, import and external charges: can only add, each charge once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sidelight.errors import BudgetError, ClaimError, LedgerError, ScopeClosedError
from sidelight.guarantees import GDP, Claims, PureDP
from sidelight.ledger import Ledger, Reservation, open_ledger

ONE = 10**30
KEY = bytes(range(32))


def pure(epsilon: str) -> Claims:
    return Claims.of(PureDP(epsilon))


def spend(ledger: Ledger, name: str, epsilon: str) -> None:
    result = ledger.scope(name).reserve(pure(epsilon), request={"kind": "x", "note": "Zeile\u2028zwei\n"})
    assert isinstance(result, Reservation)
    result.release("Wert: 3,5 \u2029")


@pytest.fixture
def source(tmp_path: Path) -> Ledger:
    ledger = open_ledger(tmp_path / "source.db")
    ledger.open_scope("people", budget=PureDP(1))
    spend(ledger, "people", "0.2")
    return ledger


def test_an_export_is_one_line_an_event_and_reads_back(ledger: Ledger, tmp_path: Path) -> None:
    ledger.open_scope("people", budget=PureDP(1))
    spend(ledger, "people", "0.2")
    path = tmp_path / "export.jsonl"
    assert ledger.export(path) == 4
    lines = path.read_text(encoding="utf-8").split("\n")
    assert [json.loads(line)["kind"] for line in lines if line] == ["open", "scope", "reserve", "release"]
    assert [json.loads(line)["hash"] for line in lines if line] == [event.hash for event in ledger.events()]
    assert not list(tmp_path.glob("*.part"))


def test_an_import_charges_the_spent_budget(ledger: Ledger, source: Ledger, tmp_path: Path) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    spend(ledger, "people", "0.3")
    source.scope("people").record_external(pure("0.1"), note="R script")
    source.export(tmp_path / "export")
    imported = ledger.import_events(tmp_path / "export")
    assert imported.ledger_id == source.ledger_id
    assert imported.booked == 2
    assert imported.head == ledger.head()
    assert scope.totals().epsilon == 6 * ONE // 10
    assert ledger.verify().ok


def test_imports_and_idealized_charges_are_passed_on(ledger: Ledger, source: Ledger, tmp_path: Path) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    assert (scope.numerics(), scope.spent().surely) == ("exact", None)
    source.scope("people").record_external(Claims.of(PureDP("0.1", numerics="idealized")), note="a tool")
    source.export(tmp_path / "first")
    assert ledger.import_events(tmp_path / "first").booked == 2
    assert scope.numerics() == "idealized"
    assert scope.spent().surely == PureDP("0.3", numerics="idealized")
    ledger.export(tmp_path / "second")
    with open_ledger(tmp_path / "last.db") as last:
        scope = last.open_scope("people", budget=PureDP(1))
        assert last.import_events(tmp_path / "second").booked == 2
        assert (scope.totals().epsilon, scope.numerics()) == (3 * ONE // 10, "idealized")


def test_each_charge_is_booked_once(ledger: Ledger, source: Ledger, tmp_path: Path) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    source.export(tmp_path / "first")
    ledger.import_events(tmp_path / "first")
    head = ledger.head()
    assert ledger.import_events(tmp_path / "first").booked == 0
    assert ledger.head() == head
    spend(source, "people", "0.1")
    source.export(tmp_path / "second")
    assert ledger.import_events(tmp_path / "second").booked == 1
    assert scope.totals().epsilon == 3 * ONE // 10
    assert ledger.import_events(tmp_path / "first").booked == 0
    assert ledger.verify().ok


def test_a_scope_that_was_left_out_can_be_booked_later(file_ledger: Ledger, source: Ledger, tmp_path: Path) -> None:
    source.open_scope("houses", budget=PureDP(1))
    spend(source, "houses", "0.4")
    source.export(tmp_path / "export")
    here = {name: file_ledger.open_scope(name, budget=PureDP(1)) for name in ("people", "houses")}
    assert file_ledger.import_events(tmp_path / "export", into={"people": "people"}).booked == 1
    assert file_ledger.import_events(tmp_path / "export").booked == 1
    assert here["people"].totals().epsilon == 2 * ONE // 10
    assert here["houses"].totals().epsilon == 4 * ONE // 10


def test_under_another_name_and_up_to_the_ancestors(file_ledger: Ledger, source: Ledger, tmp_path: Path) -> None:
    source.export(tmp_path / "export")
    top = file_ledger.open_scope("population", budget=PureDP(1))
    file_ledger.open_scope("folk", budget=PureDP(1), parent="population")
    with pytest.raises(LedgerError, match="no scope 'people' here"):
        file_ledger.import_events(tmp_path / "export")
    file_ledger.import_events(tmp_path / "export", into={"people": "folk"})
    assert top.totals().epsilon == 2 * ONE // 10
    with pytest.raises(LedgerError, match="has no scope 'nobody'"):
        file_ledger.import_events(tmp_path / "export", into={"nobody": "folk"})
    assert file_ledger.verify().ok


def test_a_family_of_scopes_keeps_its_shape(file_ledger: Ledger, tmp_path: Path) -> None:
    with open_ledger(tmp_path / "other.db") as other:
        for ledger in (other, file_ledger):
            ledger.open_scope("all", budget=PureDP(1), partitioned_by="country")
            for name in ("de", "fr"):
                ledger.open_scope(name, budget=PureDP(1), parent="all")
        spend(other, "de", "0.3")
        spend(other, "fr", "0.2")
        other.export(tmp_path / "export")
    with pytest.raises(LedgerError, match="Map the parts to parts"):
        file_ledger.import_events(tmp_path / "export", into={"all": "all"})
    file_ledger.open_scope("flat", budget=PureDP(1))
    with pytest.raises(LedgerError, match=r"book what 'all' spent: ledger.scope\('flat'\).record_external"):
        file_ledger.import_events(tmp_path / "export", into={"all": "flat"})
    for name, reason in (("absent", "No such file"), ("other.db", "not UTF-8"), ("", "directory")):
        (tmp_path / "other.db").write_bytes(b"\xff\xfe")
        with pytest.raises(LedgerError, match=rf"cannot be read \(.*{reason}"):
            file_ledger.import_events(tmp_path / name)
    assert file_ledger.import_events(tmp_path / "export").booked == 2
    assert file_ledger.scope("all").totals().epsilon == 3 * ONE // 10
    assert file_ledger.verify().ok


def test_two_scopes_into_one_is_refused(file_ledger: Ledger, source: Ledger, tmp_path: Path) -> None:
    source.open_scope("more", budget=PureDP(1))
    spend(source, "more", "0.1")
    source.export(tmp_path / "export")
    file_ledger.open_scope("people", budget=PureDP(1))
    with pytest.raises(LedgerError, match="booked into one"):
        file_ledger.import_events(tmp_path / "export", into={"people": "people", "more": "people"})


def test_an_import_that_does_not_fit_writes_nothing(ledger: Ledger, source: Ledger, tmp_path: Path) -> None:
    ledger.open_scope("people", budget=PureDP("0.1"))
    source.export(tmp_path / "export")
    head = ledger.head()
    with pytest.raises(
        BudgetError, match=r"spent elsewhere does not fit scope 'people'.*nothing was booked"
    ) as refused:
        ledger.import_events(tmp_path / "export")
    assert "promised is exceeded" in str(refused.value)
    assert "ledger.scope('people').close()" in str(refused.value)
    assert "Ask for less" not in str(refused.value)  # what was spent cannot be asked for again, at a lower price
    assert (refused.value.scope_id, refused.value.requested) == ("people", "ε 0.2")
    assert ledger.head() == head


def test_what_does_not_fit_a_scope_is_booked_above_it(file_ledger: Ledger, source: Ledger, tmp_path: Path) -> None:
    source.export(tmp_path / "export")
    top = file_ledger.open_scope("population", budget=PureDP(1))
    below = file_ledger.open_scope("people", budget=PureDP("0.1"), parent="population")
    with pytest.raises(BudgetError, match="book it into 'population'"):
        file_ledger.import_events(tmp_path / "export")
    below.close()
    with pytest.raises(ScopeClosedError, match=r"Nothing was booked.*book it into 'population'"):
        file_ledger.import_events(tmp_path / "export")
    with pytest.raises(ScopeClosedError, match=r"Nothing was booked.*book it into 'population'"):
        below.record_external(pure("0.1"), note="a tool")
    assert file_ledger.import_events(tmp_path / "export", into={"people": "population"}).booked == 1
    assert top.totals().epsilon == 2 * ONE // 10
    assert file_ledger.verify().ok


def test_claims_are_priced_again_by_the_rule_here(file_ledger: Ledger, tmp_path: Path) -> None:
    with open_ledger(tmp_path / "other.db") as other:
        other.open_scope("people", budget=GDP(1)).reserve(Claims.of(GDP("0.5")), request={"kind": "x"})
        other.export(tmp_path / "export")
    file_ledger.open_scope("people", budget=PureDP(1))
    with pytest.raises(ClaimError):
        file_ledger.import_events(tmp_path / "export")  # a Gaussian cannot be counted by a pure budget


@pytest.mark.parametrize("where", ["value", "cut", "dropped", "swapped", "garbage", "empty", "binary"])
def test_a_changed_export_is_refused(file_ledger: Ledger, source: Ledger, tmp_path: Path, where: str) -> None:
    path = tmp_path / "export"
    source.export(path)
    lines = path.read_text(encoding="utf-8").split("\n")
    changed = {
        "value": "\n".join(lines).replace("3,5", "3,6"),
        "cut": "\n".join(lines)[:-40],
        "dropped": "\n".join(lines[:2] + lines[3:]),
        "swapped": "\n".join([*lines[:2], lines[3], lines[2]]),
        "garbage": "hello",
        "empty": "",
        "binary": None,
    }[where]
    path.write_bytes(b"\xff\xfe") if changed is None else path.write_text(changed, encoding="utf-8")
    file_ledger.open_scope("people", budget=PureDP(1))
    with pytest.raises(LedgerError):
        file_ledger.import_events(path)
    assert file_ledger.scope("people").totals().epsilon == 0


def test_own_export_missing_file_and_test_ledgers(file_ledger: Ledger, tmp_path: Path) -> None:
    file_ledger.open_scope("people", budget=PureDP(1))
    spend(file_ledger, "people", "0.2")
    file_ledger.export(tmp_path / "own")
    spend(file_ledger, "people", "0.1")
    assert file_ledger.import_events(tmp_path / "own").booked == 0
    assert file_ledger.scope("people").totals().epsilon == 3 * ONE // 10
    with pytest.raises(LedgerError, match="cannot be read"):
        file_ledger.import_events(tmp_path / "nothing")
    with open_ledger("sqlite://", testing=True) as pretend:
        pretend.open_scope("people", budget=PureDP(1))
        pretend.export(tmp_path / "pretend")
        with pytest.raises(LedgerError, match="never exchange"):
            pretend.import_events(tmp_path / "own")
    with pytest.raises(LedgerError, match="never exchange"):
        file_ledger.import_events(tmp_path / "pretend")


def test_an_export_with_a_key_needs_it(file_ledger: Ledger, tmp_path: Path) -> None:
    file_ledger.open_scope("people", budget=PureDP(1))
    with open_ledger(tmp_path / "keyed.db", key=KEY) as keyed:
        keyed.open_scope("people", budget=PureDP(1))
        spend(keyed, "people", "0.1")
        keyed.export(tmp_path / "export")
    with pytest.raises(LedgerError, match="secret key"):
        file_ledger.import_events(tmp_path / "export")
    assert file_ledger.import_events(tmp_path / "export", key=KEY).booked == 1


def test_external_spending(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    head = scope.record_external(pure("0.75"), note="OpenDP, 3 March")
    assert head == ledger.head()
    assert scope.totals().epsilon == 3 * ONE // 4
    with pytest.raises(BudgetError, match=r"spent elsewhere does not fit.*close it"):
        scope.record_external(pure("0.26"), note="too much")
    with pytest.raises(LedgerError, match="printable"):
        scope.record_external(pure("0.1"), note="")
    assert ledger.head() == head
    assert ledger.verify().ok


def test_claims_that_are_none_are_refused_in_words(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    wrong: Any
    for wrong in (PureDP("0.1"), "0.1", 0.1, None):
        with pytest.raises(ClaimError, match=r"write Claims\.of"):
            scope.record_external(wrong, note="a bare claim")
        with pytest.raises(ClaimError, match="Claims hold a tuple"):
            Claims(wrong)
    with pytest.raises(ClaimError, match="a claim is one of"):
        Claims.of(wrong)
    assert scope.totals().epsilon == 0


def test_an_export_into_a_missing_directory(file_ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be written"):
        file_ledger.export(tmp_path / "no" / "export")
