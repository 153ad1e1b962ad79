"""What a refusal costs and says: no history is read, no lock is held while it is worded, its class tells what it is."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from sidelight.accounting import Rule, Totals, granted_with_routes
from sidelight.errors import (
    BudgetError,
    ClaimError,
    KeyReusedError,
    LedgerDamagedError,
    LedgerError,
    LedgerUnavailableError,
    ScopeClosedError,
    ScopeError,
)
from sidelight.guarantees import GDP, ZCDP, ApproxDP, Claims, PureDP
from sidelight.guarantees.conversions import gdp_within
from sidelight.ledger import Ledger, open_ledger, scope_keeper
from sidelight.ledger.schema import Transaction

REQUEST = {"kind": "count"}
TENTH = Claims.of(PureDP("0.1"))


class Read:
    """The statements that were run, and how many rows they returned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        for name in ("rows", "row", "each"):
            monkeypatch.setattr(Transaction, name, self._counted(getattr(Transaction, name)))

    def _counted(self, method: Any) -> Any:
        def counted(transaction: Transaction, sql: str, **parameters: Any) -> Any:
            found = method(transaction, sql, **parameters)
            if not isinstance(found, tuple | list | None):
                found = list(found)
            self.rows += len(found) if isinstance(found, list) else 1
            return found

        return counted


@pytest.mark.parametrize("budget", [PureDP("0.1"), ApproxDP("0.1", "1e-6")], ids=["pure", "epsilon and delta"])
def test_a_refusal_reads_no_history(file_ledger: Ledger, monkeypatch: pytest.MonkeyPatch, budget: Any) -> None:
    scope = file_ledger.open_scope("people", budget=budget)
    rows = []
    for _ in range(2):
        with monkeypatch.context() as watched:
            read = Read(watched)
            with pytest.raises(BudgetError):
                scope.reserve(Claims.of(PureDP(1)), request=REQUEST)
            rows.append(read.rows)
        for _ in range(20):
            scope.reserve(Claims.of(PureDP("0.001")), request=REQUEST)
    assert rows[0] == rows[1] < 20


def test_what_would_fit_is_searched_for_when_the_locks_are_gone(
    file_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search takes as long as many charges, and a thousand refusals must not hold up those who are granted."""
    scope = file_ledger.open_scope("people", budget=ApproxDP(1, "1e-6"))
    seen = []

    def waiting(*given: Any) -> str:
        with sqlite3.connect(str(file_ledger.place.path), timeout=0) as other:
            other.execute("BEGIN IMMEDIATE")  # raises where the charge still holds the file
            other.rollback()
        seen.append(given)
        return "nothing"

    monkeypatch.setattr(scope_keeper, "what_would_fit", waiting)
    with pytest.raises(BudgetError, match="nothing;"):
        scope.reserve(Claims.of(PureDP(2)), request=REQUEST)
    assert len(seen) == 1


def replayed(rule: Rule, history: list[Claims]) -> bool:
    """Return whether the budget with its routes named grants a history: the slow way."""
    other, totals = Rule.for_budget(rule.budget, routes=["basic", "gdp", "zcdp"]), Totals.zero()
    try:
        for claims in history:
            totals = totals.plus(other.charge(claims))
    except ClaimError:
        return False
    return other.holds(totals)


def some_claims(draw: random.Random) -> tuple[Claims, str | None]:
    if draw.random() < 0.9:
        return Claims.of(PureDP(f"{draw.uniform(0.002, 0.02):.3f}")), None
    epsilon, delta = f"{draw.uniform(0.01, 0.05):.3f}", draw.choice(["1e-9", "1e-8", "1e-7"])
    pair = ApproxDP(epsilon, delta)
    gaussian = GDP(gdp_within(pair.epsilon, pair.delta))
    return draw.choice(
        [
            (Claims.of(PureDP(epsilon)), None),
            (Claims.of(pair), None),
            (Claims.of(gaussian), delta),
            (Claims.of(gaussian), None),
            (Claims.of(gaussian, pair), None),
            (Claims.of(PureDP(1), pair), None),
            (Claims.of(ZCDP("0.005")), None),
        ]
    )


def test_advice_by_totals_is_true() -> None:
    """Whatever the totals promise of named routes, a replay of the whole history confirms."""
    said = 0
    for seed in range(4):
        draw = random.Random(seed)
        rule = Rule.for_budget(ApproxDP(1, "1e-6"))
        totals, history = Totals.zero(), []
        for _ in range(150):
            claims, delta = some_claims(draw)
            charge = rule.charge(claims, totals=totals, delta=delta)
            if rule.grants(totals, charge):
                totals, history = totals.plus(charge), [*history, claims]
            elif granted_with_routes(rule, totals, claims):
                said += 1
                assert replayed(rule, [*history, claims])
                break
    assert said > 0
    assert not granted_with_routes(Rule.for_budget(PureDP(1)), Totals.zero(), TENTH)


def test_advice_is_given_where_it_matters() -> None:
    rule, totals = Rule.for_budget(ApproxDP(3, "1e-6")), Totals.zero()
    for _ in range(60):
        totals = totals.plus(rule.charge(Claims.of(PureDP("0.05")), totals=totals))
    assert granted_with_routes(rule, totals, Claims.of(PureDP("0.05")))
    assert not granted_with_routes(rule, totals, Claims.of(PureDP(3)))


def test_each_kind_of_trouble_has_a_class_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    with open_ledger(path) as ledger:
        scope = ledger.open_scope("people", budget=PureDP(1))
        scope.reserve(TENTH, request=REQUEST, key="k").release("{}")  # type: ignore[union-attr]
        with pytest.raises(KeyReusedError):
            scope.reserve(TENTH, request={"kind": "other"}, key="k")
        with pytest.raises(ScopeError, match="exists with another"):
            ledger.open_scope("people", budget=PureDP(2))
        with pytest.raises(ScopeError, match="no scope"):
            ledger.scope("nobody")
        scope.close()
        with pytest.raises(ScopeClosedError):
            scope.reserve(TENTH, request=REQUEST)
    changed = sqlite3.connect(path)
    changed.executescript("DROP TRIGGER scope_update; UPDATE scope SET totals = replace(totals, '1', '0')")
    changed.close()
    with open_ledger(path) as ledger, pytest.raises(LedgerDamagedError, match="newest event signs"):
        ledger.open_scope("more", budget=PureDP(1))
    with open_ledger(tmp_path / "busy.db") as one, open_ledger(tmp_path / "busy.db", wait_seconds=0.05) as two:
        scope = one.open_scope("people", budget=PureDP(1))
        two.scope("people")
        with one.store.write(), pytest.raises(LedgerUnavailableError, match="locked"):
            two.scope("people").reserve(TENTH, request=REQUEST)
    kinds = (KeyReusedError, ScopeError, ScopeClosedError, LedgerDamagedError, LedgerUnavailableError)
    assert all(issubclass(kind, LedgerError) for kind in kinds)


def test_a_page_reads_its_own_entries_and_no_more(file_ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, bob = (file_ledger.open_scope(name, budget=PureDP(1)) for name in ("ada", "bob"))
    for number in range(12):
        for scope in (ada, bob):
            found: Any = scope.reserve(Claims.of(PureDP("0.01")), request=REQUEST, key=f"key {number}")
            found.release(f"answer {number}") if number % 3 else found.fail()
    last: Any = bob.reserve(TENTH, request=REQUEST, key="unfinished")
    whole = [entry for entry in file_ledger.entries() if entry.scope_id == "ada"]
    assert ada.page(limit=100) == whole
    pages, after = [], None
    while page := ada.page(limit=5, after=after):
        pages.append(page)
        after = page[-1].entry_id
    assert [len(page) for page in pages] == [5, 5, 2]
    assert [entry for page in pages for entry in page] == whole
    read = Read(monkeypatch)
    assert ada.entry_of("key 4") == whole[4]
    assert len(ada.page(limit=3)) == 3
    assert read.rows <= 15
    assert ada.entry_of("unfinished") is None
    assert bob.entry_of("unfinished").state == "reserved"  # type: ignore[union-attr]
    with pytest.raises(LedgerError, match="no entry"):  # of another scope: not even that it is there
        ada.page(after=last.entry_id)


def test_the_newest_attempt_of_a_key_is_found(file_ledger: Ledger) -> None:
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    for text in ("", "second"):
        found: Any = scope.reserve(TENTH, request=REQUEST, key="k")
        found.release(text) if text else found.fail()
    entry = scope.entry_of("k")
    assert entry is not None
    assert (entry.attempt, entry.text) == (2, "second")
