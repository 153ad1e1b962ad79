"""Random histories through a real ledger: persons, failures, refusals, and mu and rho in mid-history.

The model only sums the declared claims. A request that these sums grant must be granted while every charge so far was
plain; the ledger must stay verifiable, and the remaining budget that it states must be granted.
"""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import pytest

from sidelight.errors import BudgetError
from sidelight.guarantees import GDP, ZCDP, ApproxDP, BoundedRange, Claims, Context, Person, PureDP, Row
from sidelight.guarantees.conversions import gdp_within
from sidelight.ledger import Ledger, Reservation, Scope, open_ledger

F = Fraction
E, D = F(3), F("1e-6")


def some_event(
    draw: random.Random, context: Context
) -> tuple[Claims, Fraction | None, tuple[Fraction, Fraction] | None]:
    """Return claims, their declared delta, and the declared pair, if any."""
    e, d = F(draw.randint(1, 7), 8), draw.choice([F("1e-8"), F("1e-7"), F("4e-7")])
    kind = draw.choice(["pure", "pure", "range", "item", "gaussian", "gaussian", "both", "mu", "rho"])
    mu = GDP(gdp_within(e, d), **context)
    match kind:
        case "pure":
            return Claims.of(PureDP(e, **context)), None, (e, F(0))
        case "range":
            return Claims.of(BoundedRange(e, **context)), None, (e, F(0))
        case "item":
            return Claims.of(ApproxDP(e, d, **context)), None, (e, d)
        case "gaussian":
            return Claims.of(mu), d, (e, d)
        case "both":
            return Claims.of(mu, ApproxDP(e, d, **context)), None, (e, d)
        case "mu":
            return Claims.of(mu), None, None
        case _:
            return Claims.of(ZCDP(e * e / 40, **context)), None, None


def asked(scope: Scope, draw: random.Random, number: int, claims: Claims, delta: Fraction | None) -> bool:
    """Ask, and end a reservation in one of the ways there are: a failure is charged as a release is."""
    try:
        reserved = scope.reserve(claims, request={"kind": "x", "number": str(number)}, delta=delta)
    except BudgetError:
        return False
    assert isinstance(reserved, Reservation)
    draw.choice([lambda: reserved.release("{}"), lambda: reserved.refuse("{}"), reserved.fail, lambda: None])()
    return True


def live(ledger: Ledger, seed: int, *, person: bool, events: int) -> tuple[int, int]:
    """Live one history; return how often a plain request was granted, and how often anything was refused."""
    draw = random.Random(seed)
    context: Context = {"unit": Person("id", 2)} if person else {"unit": Row()}
    scope = ledger.open_scope(f"history {seed}", budget=ApproxDP(E, D, **context))
    sums, plain, granted, refused = (F(0), F(0)), True, 0, 0
    for number in range(events):
        claims, delta, pair = some_event(draw, context)
        stood = scope.totals()
        fits = pair is not None and sums[0] + pair[0] <= E and sums[1] + pair[1] <= D
        given = asked(scope, draw, number, claims, delta)
        if plain and fits:
            assert given, (seed, number)
        if not given:
            assert scope.totals() == stood  # a refusal changes nothing
            refused += 1
            continue
        granted += plain and fits
        plain = plain and fits
        sums = (sums[0] + pair[0], sums[1] + pair[1]) if pair is not None else sums
    left = scope.remaining()
    if left.epsilon is not None:
        assert asked(scope, draw, events, Claims.of(PureDP(left.epsilon, **context)), None)
    scope.reap()
    return granted, refused


@pytest.mark.parametrize("person", [False, True], ids=["rows", "persons"])
def test_no_plain_request_is_refused_and_every_history_verifies(tmp_path: Path, person: bool) -> None:
    with open_ledger(tmp_path / "budget.db") as ledger:
        counts = [live(ledger, seed, person=person, events=9) for seed in range(5)]
        assert ledger.verify().ok
        assert sum(granted for granted, _ in counts) > 8
        assert sum(refused for _, refused in counts) > 2
        assert any(scope.totals().composed is not None for scope in ledger.scopes())
        assert any(scope.totals().beside is not None for scope in ledger.scopes())


@pytest.mark.parametrize("number", [60, 59])
def test_a_refusal_names_the_routes_that_would_have_granted_it(tmp_path: Path, number: int) -> None:
    """Sixty times 0.05 is the whole sum; routes named from the start would grant 135."""
    with open_ledger(tmp_path / "budget.db") as ledger:
        scope = ledger.open_scope("people", budget=ApproxDP(E, D))
        for each in range(number):
            scope.reserve(Claims.of(PureDP("0.05")), request={"kind": "x", "number": str(each)})
        with pytest.raises(BudgetError, match=r"write routes=\['basic', 'gdp', 'zcdp'\] next to budget=") as refused:
            scope.reserve(Claims.of(PureDP("0.1")), request={"kind": "last"})
        assert 'routes = ["basic", "gdp", "zcdp"] under [budget]' in str(refused.value)
        assert refused.value.requested.startswith("ε 0.1")
        with pytest.raises(BudgetError) as plainly:
            scope.reserve(Claims.of(PureDP(2)), request={"kind": "last"})
        assert "routes=" not in str(plainly.value)
        named = ledger.open_scope("named", budget=ApproxDP(E, D), routes=["basic", "gdp", "zcdp"])
        for each in range(number):
            named.reserve(Claims.of(PureDP("0.05")), request={"kind": "x", "number": str(each)})
        named.reserve(Claims.of(PureDP("0.1")), request={"kind": "last"})  # the advice is true
