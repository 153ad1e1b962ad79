"""Scopes that share a budget: one currency and route, and reserved shares."""

from __future__ import annotations

import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sidelight.errors import BudgetError, ClaimError, LedgerDamagedError, ScopeError
from sidelight.guarantees import GDP, ZCDP, ApproxDP, Claim, Claims, Neighbours, PureDP
from sidelight.guarantees.conversions import gdp_within
from sidelight.ledger import Ledger, Scope, open_ledger
from sidelight.ledger import decide as deciding
from sidelight.ledger import definition as definitions

BASIC = {"routes": ["basic"]}


def ask(scope: Scope, claim: Claim, **more: Any) -> None:
    found: Any = scope.reserve(Claims.of(claim), request={"kind": "x"}, **more)
    found.release("{}")


def test_shares_of_more_than_the_whole_are_refused(ledger: Ledger) -> None:
    ledger.open_scope("people", budget=PureDP(1), sharing="reserved")
    ledger.open_scope("people/ada", budget=PureDP("0.6"), parent="people")
    with pytest.raises(ScopeError, match="reserved there"):
        ledger.open_scope("people/bob", budget=PureDP("0.5"), parent="people")
    bob = ledger.open_scope("people/bob", budget=PureDP("0.4"), parent="people")
    assert bob.definition.sharing == "reserved"
    assert ledger.open_scope("people/bob", budget=PureDP("0.4"), parent="people").definition == bob.definition
    with pytest.raises(ScopeError, match="another sharing"):
        ledger.open_scope("people", budget=PureDP(1))
    first = ledger.open_scope("busy", budget=PureDP(1), sharing="first come")
    for name in ("ada", "bob"):
        ledger.open_scope(f"busy/{name}", budget=PureDP("0.9"), parent="busy")
    assert first.definition.sharing == "first come"
    assert ledger.verify().ok


@pytest.mark.parametrize(
    ("whole", "shares", "fits"),
    [
        (GDP(1), [GDP("0.7"), GDP("0.7")], True),
        (GDP(1), [GDP("0.5"), GDP("0.9")], False),
        (ZCDP(1), [ZCDP("0.5"), ZCDP("0.5")], True),
        (ApproxDP(1, "1e-6"), [ApproxDP("0.5", "4e-7"), ApproxDP("0.5", "6e-7")], True),
        (ApproxDP(1, "1e-6"), [ApproxDP("0.5", "5e-7"), ApproxDP("0.5", "6e-7")], False),
    ],
    ids=str,
)
def test_shares_are_added_in_their_own_quanta(file_ledger: Ledger, whole: Any, shares: list[Any], fits: bool) -> None:
    """Of mu its square, of epsilon and delta both."""
    routes: Any = BASIC if isinstance(whole, ApproxDP) else {}
    file_ledger.open_scope("people", budget=whole, sharing="reserved", **routes)
    file_ledger.open_scope("a", budget=shares[0], parent="people", **routes)
    if fits:
        file_ledger.open_scope("b", budget=shares[1], parent="people", **routes)
    else:
        with pytest.raises(ScopeError, match="more than its budget"):
            file_ledger.open_scope("b", budget=shares[1], parent="people", **routes)


def test_what_was_charged_directly_and_what_was_closed_counts_as_spent(file_ledger: Ledger) -> None:
    people = file_ledger.open_scope("people", budget=PureDP(1), sharing="reserved")
    ask(people, PureDP("0.2"))
    ada = file_ledger.open_scope("ada", budget=PureDP("0.5"), parent="people")
    ask(ada, PureDP("0.1"))
    with pytest.raises(ScopeError):
        file_ledger.open_scope("bob", budget=PureDP("0.4"), parent="people")
    assert people.keeps_shares()
    ada.close()
    bob = file_ledger.open_scope("bob", budget=PureDP("0.7"), parent="people")
    assert people.keeps_shares()
    ask(people, PureDP("0.01"))  # the owner may; the shares no longer fit, and the next request fails with an error
    assert not people.keeps_shares()
    with pytest.raises(BudgetError) as refused:
        ask(bob, PureDP("0.7"))
    assert refused.value.scope_id == "people"
    assert file_ledger.verify().ok


def test_parts_of_a_partition_each_have_the_whole(file_ledger: Ledger) -> None:
    months = file_ledger.open_scope("months", budget=PureDP(1), partitioned_by="the month", sharing="reserved")
    for name in ("may", "june"):
        ask(file_ledger.open_scope(name, budget=PureDP(1), parent="months"), PureDP(1))
    with pytest.raises(ScopeError):
        file_ledger.open_scope("july", budget=PureDP("1.1"), parent="months")
    assert months.keeps_shares()


@pytest.mark.parametrize(
    ("top", "below", "message"),
    [
        ({"budget": ApproxDP(1, "1e-6")}, {}, r"routes=\['basic'\]"),
        ({"budget": PureDP(1)}, {"budget": ZCDP("0.1")}, "one currency"),
        ({"budget": ApproxDP(1, "1e-6"), **BASIC}, {"budget": ApproxDP("0.5", "1e-7")}, "epsilon and delta"),
        ({"budget": PureDP(1)}, {"budget": PureDP("0.1"), "neighbours": Neighbours.REPLACE}, "kind of neighbours"),
        ({"budget": PureDP(1), "sharing": None}, {"budget": PureDP("0.1"), "sharing": "reserved"}, "above it does not"),
        ({"budget": PureDP(1), "sharing": "some"}, {}, "sharing is one of"),
    ],
)
def test_one_currency_and_one_route(file_ledger: Ledger, top: Any, below: Any, message: str) -> None:
    def both() -> None:
        file_ledger.open_scope("people", **{"sharing": "reserved", **top})
        file_ledger.open_scope("ada", parent="people", **below)

    with pytest.raises((ScopeError, ClaimError), match=message):
        both()


def test_a_gaussian_is_charged_the_declared_pair_everywhere(file_ledger: Ledger) -> None:
    """The route "basic" would choose a pair by the budget of each scope: table and analyst would differ."""
    people = file_ledger.open_scope("people", budget=ApproxDP(4, "1e-6"), sharing="reserved", **BASIC)
    ada = file_ledger.open_scope("ada", budget=ApproxDP(1, "1e-8"), parent="people", **BASIC)
    gaussian = GDP(gdp_within(Fraction("0.5"), Fraction("1e-9")))
    ask(ada, gaussian, delta="1e-9")
    ask(ada, PureDP("0.25"))
    assert people.totals() == ada.totals()
    assert people.totals().epsilon <= 75 * 10**28
    with pytest.raises(ClaimError, match="same amount everywhere"):
        ask(ada, gaussian)
    assert file_ledger.verify().ok


CURRENCIES: dict[str, Any] = {
    "epsilon": (lambda x: PureDP(x), {}),
    "rho": (lambda x: ZCDP(x), {}),
    "mu": (lambda x: GDP(x), {}),
    "epsilon and delta": (lambda x: ApproxDP(x, Fraction(x) / 10**6), BASIC),
}


def refused_by_others(ledger: Ledger, draw: random.Random, make: Any, routes: Any, *, sharing: Any) -> int:
    """Live a history in a random tree; return how often a request was refused by a scope above the one asked."""
    ledger.open_scope("top", budget=make("4"), sharing=sharing, **routes)
    leaves: list[Scope] = []
    for table in range(3):
        ledger.open_scope(f"t{table}", budget=make("1.3"), parent="top", **routes)
        for who in range(draw.choice([1, 2, 3])):
            share = make(draw.choice(["0.4", "0.3", "0.1"]))
            leaves.append(ledger.open_scope(f"t{table}/{who}", budget=share, parent=f"t{table}", **routes))
    others = 0
    for number in range(60):
        price = make(f"{draw.choice([0.04, 0.1, 0.17, 1e-12]):.12f}")
        try:
            ask(leaf := draw.choice(leaves), price, key=str(number))
        except BudgetError as refused:
            others += refused.scope_id != leaf.scope_id
    return others


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("currency", CURRENCIES)
def test_what_a_scope_grants_the_scopes_above_it_grant(tmp_path: Path, currency: str) -> None:
    make, routes = CURRENCIES[currency]
    for seed in range(3):
        with open_ledger(tmp_path / f"{seed}.db") as ledger:
            assert refused_by_others(ledger, random.Random(seed), make, routes, sharing="reserved") == 0
            assert ledger.verify().ok


@pytest.mark.planted("shares that are not added up")
def test_shares_that_are_not_added_up_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "check_shares", lambda *given: None)
    with open_ledger(tmp_path / "budget.db") as ledger:
        ledger.open_scope("people", budget=PureDP("0.5"), sharing="reserved")
        ada, bob = (ledger.open_scope(name, budget=PureDP("0.4"), parent="people") for name in ("ada", "bob"))
        ask(ada, PureDP("0.4"))
        with pytest.raises(BudgetError) as refused:
            ask(bob, PureDP("0.4"))
        assert refused.value.scope_id == "people"
        assert "reserves more" in ledger.verify().problems[0]


@pytest.mark.planted("the default rule of epsilon and delta in the place of one route")
def test_the_default_rule_would_let_one_change_the_rule_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With routes side by side a request of rho 1e-12 closes the sum of epsilons for everybody."""
    monkeypatch.setattr(definitions, "check_sharing", lambda *given: None)
    side_by_side: Any = {"routes": ["basic", "zcdp"]}
    with open_ledger(tmp_path / "budget.db") as ledger:
        ledger.open_scope("people", budget=ApproxDP(2, "1e-6"), **side_by_side)
        ada, bob = (
            ledger.open_scope(name, budget=ApproxDP(1, "5e-7"), parent="people", **side_by_side) for name in ("a", "b")
        )
        ask(ada, ZCDP("1e-12"))

        def whole() -> None:
            for number in range(5):  # his budget, which the plain sum would grant
                ask(bob, PureDP("0.2"), key=str(number))

        with pytest.raises(BudgetError) as refused:
            whole()
        assert refused.value.scope_id == "people"
        assert "basic" in ledger.scope("people").totals().closed
        assert "basic" not in bob.totals().closed


@pytest.mark.planted("a child that was deleted or moved past the triggers")
@pytest.mark.parametrize("change", ["DELETE FROM scope", "UPDATE scope SET parent_id = 'other'"])
def test_a_missing_child_is_noticed_before_its_share_is_given_away(tmp_path: Path, change: str) -> None:
    path = tmp_path / "budget.db"
    with open_ledger(path) as ledger:
        ledger.open_scope("table", budget=PureDP(1), sharing="reserved")
        ledger.open_scope("other", budget=PureDP(1), sharing="reserved")
        ledger.open_scope("a", budget=PureDP(1), parent="table")
        code = (
            "import sqlite3, sys\ndatabase = sqlite3.connect(sys.argv[1])\n"
            "for name in ('scope_delete', 'scope_update', 'event_delete', 'event_update'):\n"
            "    database.execute(f'DROP TRIGGER {name}')\n"
            "database.execute(sys.argv[2])\ndatabase.commit()"
        )
        subprocess.run([sys.executable, "-c", code, str(path), f"{change} WHERE scope_id = 'a'"], check=True)
        with pytest.raises(LedgerDamagedError):
            ledger.open_scope("b", budget=PureDP(1), parent="table")
