"""Scopes: fixed for good, parents, several at once, partitions; and claims that a scope cannot charge."""

from __future__ import annotations

import math
import re
import unicodedata
from fractions import Fraction
from typing import Any

import pytest

from sidelight.accounting import Totals
from sidelight.errors import BudgetError, ClaimError, LedgerError
from sidelight.guarantees import GDP, ZCDP, ApproxDP, Claims, Neighbours, Person, PersonPeriod, PureDP, Row
from sidelight.ledger import Ledger, Reservation, Scope, decide
from sidelight.ledger.balances import Balances, balances_from_json
from sidelight.noise import Source, bernoulli
from sidelight.testing import SeededEntropy

REQUEST = {"kind": "count"}
ONE = 10**30


def pure(epsilon: str, **context: object) -> Claims:
    return Claims.of(PureDP(epsilon, **context))  # type: ignore[arg-type]


def spend(scope: Scope, claims: Claims) -> None:
    result = scope.reserve(claims, request=REQUEST)
    assert isinstance(result, Reservation)
    result.release("x")


def test_opening_again_gives_the_same_scope(ledger: Ledger) -> None:
    budget = ApproxDP(3, "1e-6")
    spend(ledger.open_scope("people", budget=budget, routes=["basic", "gdp"]), pure("0.5"))
    again = ledger.open_scope("people", budget=budget, routes=["basic", "gdp"])
    assert again.totals().epsilon == ONE // 2
    assert sum(event.kind == "scope" for event in ledger.events()) == 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"budget": PureDP(2)}, "budget"),
        ({"unit": Person("id", 3)}, "unit"),
        ({"neighbours": Neighbours.REPLACE}, "neighbours"),
        ({"parent": "all"}, "parent_id"),
        ({"partitioned_by": "country"}, "partitioned_by"),
    ],
)
def test_a_scope_never_changes(file_ledger: Ledger, change: dict[str, object], named: str) -> None:
    file_ledger.open_scope("all", budget=PureDP(9))
    file_ledger.open_scope("people", budget=PureDP(1))
    with pytest.raises(LedgerError, match=f"another .*{named}"):
        file_ledger.open_scope("people", **{"budget": PureDP(1), **change})  # type: ignore[arg-type]


def test_other_routes_or_shares_are_another_scope(file_ledger: Ledger) -> None:
    budget = ApproxDP(1, "1e-6")
    file_ledger.open_scope("people", budget=budget)
    with pytest.raises(LedgerError, match="another rule"):
        file_ledger.open_scope("people", budget=budget, routes=["gdp"])
    with pytest.raises(LedgerError, match="another rule"):
        file_ledger.open_scope("people", budget=budget, shares={"items": "0.2", "gdp": "0.4", "zcdp": "0.4"})


def test_unit_and_neighbours_are_the_budgets_unless_said(file_ledger: Ledger) -> None:
    scope = file_ledger.open_scope("a", budget=PureDP(1), unit=Person("id", 2), neighbours=Neighbours.REPLACE)
    assert scope.definition.budget == PureDP(1, unit=Person("id", 2), neighbours=Neighbours.REPLACE)
    other = file_ledger.open_scope("b", budget=PureDP(1, unit=Person("id", 2)))
    assert other.definition.unit == Person("id", 2)
    assert file_ledger.scope("b").definition == other.definition
    assert file_ledger.verify().ok


@pytest.mark.parametrize(
    "claims",
    [
        pure("0.1", unit=Person("id", 2)),
        pure("0.1", neighbours=Neighbours.REPLACE),
        pure("0.1", neighbours=Neighbours.LOCAL),
        pure("0.1", audience="observers_only"),
    ],
)
def test_claims_for_somebody_else_are_refused(file_ledger: Ledger, claims: Claims) -> None:
    """Traps 13 and 14."""
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    with pytest.raises(ClaimError):
        scope.reserve(claims, request=REQUEST)
    assert scope.totals() == Totals.zero()


def test_add_remove_claims_enter_a_replace_scope_as_two_steps(file_ledger: Ledger) -> None:
    scope = file_ledger.open_scope("people", budget=PureDP(1), neighbours=Neighbours.REPLACE)
    spend(scope, pure("0.3"))
    assert scope.totals().epsilon == 6 * ONE // 10
    assert scope.entries()[0].claims == pure("0.6", neighbours=Neighbours.REPLACE)
    assert file_ledger.verify().ok


def test_ancestors_are_charged_too_each_by_its_own_rule(ledger: Ledger) -> None:
    ledger.open_scope("world", budget=ZCDP(1))
    ledger.open_scope("population", budget=PureDP("1.5"), parent="world")
    a = ledger.open_scope("a", budget=PureDP(1), parent="population")
    b = ledger.open_scope("b", budget=PureDP(1), parent="population")
    spend(a, pure("0.9"))
    assert ledger.scope("population").totals().epsilon == 9 * ONE // 10
    assert 0 < ledger.scope("world").totals().rho < ONE // 2
    head = ledger.head()
    with pytest.raises(BudgetError, match="scope 'population'"):
        spend(b, pure("0.7"))
    assert ledger.head() == head
    assert b.totals() == Totals.zero()
    assert b.remaining().epsilon == Fraction("0.6")
    spend(b, pure("0.5"))
    assert [entry.scope_id for entry in ledger.scope("population").entries()] == ["a", "b"]
    assert ledger.verify().ok


def test_a_refusal_names_one_scope_the_nearest_that_is_short(file_ledger: Ledger) -> None:
    """No mention of other exhausted scopes, or of who spent them, in a refusal."""
    for name, budget, parent in (("a", "0.3", None), ("b", "0.2", "a"), ("people", "0.4", "b"), ("c", "0.1", "a")):
        file_ledger.open_scope(name, budget=PureDP(budget), parent=parent)
    scope = file_ledger.scope("people")
    for price, name in (("0.5", "people"), ("0.35", "b"), ("0.25", "b")):
        with pytest.raises(BudgetError, match=f"scope '{name}': requested") as refused:
            spend(scope, pure(price))
        assert refused.value.scope_id == name
        assert re.findall(r"scope '(\w+)'", str(refused.value)) == [name]


def test_a_person_has_another_column_name_in_the_parent(file_ledger: Ledger) -> None:
    file_ledger.open_scope("population", budget=PureDP(1, unit=Person("person", 100)))
    scope = file_ledger.open_scope("visits", budget=PureDP(1, unit=Person("patient", 5)), parent="population")
    spend(scope, pure("0.4", unit=Person("patient", 5)))
    (entry,) = file_ledger.scope("population").entries()
    assert entry.claims == pure("0.4", unit=Person("person", 100))
    assert file_ledger.verify().ok


@pytest.mark.parametrize(
    ("child", "parent"),
    [
        (PureDP(1, unit=Person("id", 2)), PureDP(1)),
        (PureDP(1, neighbours=Neighbours.REPLACE), PureDP(1)),
        (PureDP(1), PureDP(1, neighbours=Neighbours.LOCAL)),
        (PureDP(1, unit=PersonPeriod("clinic", "day")), PureDP(1, unit=PersonPeriod("clinic", "month"))),
        (PureDP(1, unit=PersonPeriod("clinic", "day")), PureDP(1, unit=PersonPeriod("school", "day"))),
    ],
)
def test_a_parent_that_could_not_count_the_child_is_refused(file_ledger: Ledger, child: PureDP, parent: PureDP) -> None:
    file_ledger.open_scope("top", budget=parent)
    with pytest.raises(ClaimError):
        file_ledger.open_scope("below", budget=child, parent="top")


def test_a_missing_parent(file_ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="no scope 'top'"):
        file_ledger.open_scope("below", budget=PureDP(1), parent="top")


def test_remaining_of_an_add_remove_scope_under_a_replace_one_is_granted(file_ledger: Ledger) -> None:
    file_ledger.open_scope("top", budget=ApproxDP(1, "1e-6"), neighbours=Neighbours.REPLACE)
    scope = file_ledger.open_scope("below", budget=ApproxDP(9, "1e-6"), parent="top")
    left = scope.remaining(delta="1e-8")
    assert left.epsilon == Fraction(1, 2)
    assert left.approx is None
    assert left.mu is not None
    spend(scope, Claims.of(GDP(left.mu)))
    assert scope.remaining().mu is None or scope.remaining().mu < Fraction(1, 1000)


def test_several_scopes_in_one_transaction(ledger: Ledger) -> None:
    a, b = (ledger.open_scope(name, budget=PureDP(1)) for name in ("a", "b"))
    both = {"a": pure("0.6"), "b": pure("0.3")}
    first = ledger.reserve(both, request=REQUEST, key="k")
    assert isinstance(first, Reservation)
    assert first.scope_id == "a"
    first.release("joint")
    with pytest.raises(BudgetError, match="scope 'a'"):
        ledger.reserve(both, request=REQUEST)
    assert (a.totals().epsilon, b.totals().epsilon) == (6 * ONE // 10, 3 * ONE // 10)
    assert b.entries()[0].claims == pure("0.3")
    assert not isinstance(ledger.reserve(both, request=REQUEST, key="k"), Reservation)
    assert ledger.verify().ok


def test_scopes_that_meet_in_an_ancestor_need_its_claims(file_ledger: Ledger) -> None:
    """A person in both data sets changes both inputs of one query: μ and μ make 2μ, which no composition gives."""
    top = file_ledger.open_scope("population", budget=GDP(10))
    for name in ("a", "b"):
        file_ledger.open_scope(name, budget=GDP(5), parent="population")
    each = {name: Claims.of(GDP(1)) for name in ("a", "b")}
    with pytest.raises(ClaimError, match="meet in 'population'"):
        file_ledger.reserve(each, request=REQUEST)
    stated = file_ledger.reserve({**each, "population": Claims.of(GDP(2))}, request=REQUEST)
    assert isinstance(stated, Reservation)
    assert top.totals().mu_squared == 4 * ONE
    assert file_ledger.verify().ok


def test_no_scope_and_unknown_scopes(file_ledger: Ledger) -> None:
    with pytest.raises(LedgerError):
        file_ledger.reserve({}, request=REQUEST)
    with pytest.raises(LedgerError, match="no scope 'nowhere'"):
        file_ledger.reserve({"nowhere": pure("0.1")}, request=REQUEST)
    file_ledger.open_scope("a", budget=PureDP(1))
    with pytest.raises(LedgerError, match="one of those charged"):
        file_ledger.reserve({"a": pure("0.1")}, scope_id="b", request=REQUEST)


def test_a_partition_costs_its_most_expensive_part(ledger: Ledger) -> None:
    whole = ledger.open_scope("all", budget=PureDP(1), partitioned_by="country")
    parts = [ledger.open_scope(name, budget=PureDP(1), parent="all") for name in ("de", "fr", "it")]
    spend(parts[0], pure("0.6"))
    spend(parts[1], pure("0.5"))
    assert whole.totals().epsilon == 6 * ONE // 10
    spend(whole, pure("0.3"))  # a query over all parts adds
    assert whole.totals().epsilon == 9 * ONE // 10
    assert [part.remaining().epsilon for part in parts] == [Fraction("0.1"), Fraction("0.2"), Fraction("0.7")]
    assert whole.remaining().epsilon == Fraction("0.1")
    with pytest.raises(BudgetError, match="scope 'all'"):
        spend(parts[0], pure("0.2"))
    spend(parts[1], pure("0.2"))
    spend(parts[2], pure("0.7"))
    assert whole.totals().epsilon == ONE
    with pytest.raises(BudgetError):
        spend(whole, pure("1e-30"))
    assert ledger.verify().ok


def test_a_joint_query_over_two_parts_costs_their_maximum(file_ledger: Ledger) -> None:
    whole = file_ledger.open_scope("all", budget=PureDP(1), partitioned_by="country")
    for name in ("de", "fr"):
        file_ledger.open_scope(name, budget=PureDP(1), parent="all")
    file_ledger.reserve({"de": pure("0.4"), "fr": pure("0.5")}, request=REQUEST)
    assert whole.totals().epsilon == ONE // 2
    assert file_ledger.verify().ok


def test_a_route_closed_in_one_part_is_closed_for_the_whole(file_ledger: Ledger) -> None:
    whole = file_ledger.open_scope("all", budget=ApproxDP(1, "1e-6"), partitioned_by="country")
    de, fr = (file_ledger.open_scope(name, budget=ApproxDP(1, "1e-6"), parent="all") for name in ("de", "fr"))
    spend(fr, pure("0.2"))
    spend(de, Claims.of(ZCDP("0.001")))
    assert whole.totals().closed == {"basic", "gdp"}
    assert whole.totals().epsilon == 2 * ONE // 10
    left = fr.remaining().epsilon
    assert left is not None
    assert left < Fraction("0.2")  # fr itself has 0.8 left by adding up, the whole has only zCDP
    spend(fr, pure(str(left)))
    assert file_ledger.verify().ok


def test_parts_exhausting_different_routes_do_not_add_up_to_a_grant(file_ledger: Ledger) -> None:
    """One part is beyond Σε, the other beyond ρ and μ²: no single route holds for the whole."""
    file_ledger.open_scope("all", budget=ApproxDP(1, "1e-6"), partitioned_by="country")
    de, fr = (file_ledger.open_scope(name, budget=ApproxDP(9, "1e-6"), parent="all") for name in ("de", "fr"))
    for _ in range(40):
        spend(de, pure("0.03"))  # Σε 1.2, within zCDP
    assert file_ledger.scope("all").totals().epsilon > ONE
    with pytest.raises(BudgetError):
        spend(fr, pure("0.9"))  # within Σε alone, far beyond ρ
    left = fr.remaining().epsilon
    assert left is not None
    assert left < Fraction("0.3")
    spend(fr, pure(str(left)))
    assert file_ledger.verify().ok


@pytest.mark.parametrize("neighbours", [Neighbours.REPLACE, Neighbours.LOCAL])
def test_parts_compose_in_parallel_for_add_remove_only(file_ledger: Ledger, neighbours: Neighbours) -> None:
    file_ledger.open_scope("all", budget=PureDP(1), neighbours=neighbours, partitioned_by="country")
    with pytest.raises(ClaimError):
        file_ledger.open_scope("de", budget=PureDP(1), neighbours=neighbours, parent="all")


def test_a_replace_whole_pays_twice_its_most_expensive_part(file_ledger: Ledger) -> None:
    """A cost of 6, not 4: both records may lie in the part at 3."""
    whole = file_ledger.open_scope("all", budget=PureDP(6), neighbours=Neighbours.REPLACE, partitioned_by="country")
    de, fr = (file_ledger.open_scope(name, budget=PureDP(9), parent="all") for name in ("de", "fr"))
    spend(fr, pure("1"))
    spend(de, pure("3"))
    assert whole.totals().epsilon == 6 * ONE
    assert file_ledger.verify().ok


def test_a_partitioned_scope_stands_at_the_top(file_ledger: Ledger) -> None:
    file_ledger.open_scope("top", budget=PureDP(1))
    with pytest.raises(LedgerError, match="stands at the top"):
        file_ledger.open_scope("all", budget=PureDP(1), parent="top", partitioned_by="country")


def test_scopes_below_a_part_charge_that_part(file_ledger: Ledger) -> None:
    whole = file_ledger.open_scope("all", budget=PureDP(1), partitioned_by="country")
    file_ledger.open_scope("de", budget=PureDP(1), parent="all")
    file_ledger.open_scope("fr", budget=PureDP(1), parent="all")
    berlin = file_ledger.open_scope("berlin", budget=PureDP(1), parent="de")
    spend(berlin, pure("0.4"))
    spend(file_ledger.scope("fr"), pure("0.3"))
    assert whole.balances().parts["de"].epsilon == 4 * ONE // 10
    assert whole.totals().epsilon == 4 * ONE // 10
    assert file_ledger.verify().ok


def test_balances_read_back() -> None:
    books = Balances(own=Totals(epsilon=3), parts={"ü": Totals(rho=1, closed=frozenset({"gdp"}))}, shut=True)
    assert balances_from_json(books.to_json()) == books
    assert balances_from_json(Balances().to_json()) == Balances()
    with pytest.raises(LedgerError):
        balances_from_json({"epsilon": "1", "more": "2"})


def test_a_scope_reads_well(file_ledger: Ledger) -> None:
    scope = file_ledger.open_scope("people", budget=ApproxDP(3, "1e-6"), unit=Row())
    assert "people" in repr(scope)
    assert "ApproxDP" in repr(scope)
    assert "ApproxDP" in scope.statement()
    assert "left" in str(scope.remaining())
    assert "bookkeeping" in str(scope.spent())
    assert not hasattr(scope.spent(), "epsilon")  # trap 4


def test_a_coin_that_shows_before_the_unit_is_added() -> None:
    """Why a joint charge with a secret in between needs frozen parts or pure budgets.

    Each part announces a coin, heads with probability delta, and after heads shows its rows: each is (0, delta).
    An adversary who adds a unit to a part after it announced heads sees the unit far more often than delta.
    """
    delta, parts, runs = Fraction(1, 100), 50, 400
    seen = 0
    with Source(SeededEntropy("coins")) as source:
        for _ in range(runs):
            seen += any(bernoulli(delta.numerator, delta.denominator, source) for _ in range(parts))
    expected = 1 - (1 - float(delta)) ** parts
    assert abs(seen / runs - expected) < 6 * math.sqrt(expected * (1 - expected) / runs)
    assert expected > 39 * delta  # the charge of the most expensive part


LOOKALIKES = [
    *("people ", " people", "\u3000people", "peo\u034fple", "people\u3164", "people\U000e0041"),
    unicodedata.normalize("NFD", "besuché"),
]


@pytest.mark.parametrize("name", LOOKALIKES)
def test_a_name_that_reads_like_another_is_refused_when_it_is_new(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Two spellings of one name would be two budgets, and two charges; what older ledgers hold stays readable."""
    people = ledger.open_scope("people", budget=PureDP(1))
    refused = pytest.raises(LedgerError, match=r"spelt in composed letters|must be printable")
    with refused:
        ledger.open_scope(name, budget=PureDP(1))
    with refused:
        people.reserve(pure("0.1"), request=REQUEST, key=name)
    assert (len(ledger.scopes()), people.entries()) == (1, [])
    if name.isprintable():
        with monkeypatch.context() as before:
            before.setattr(decide, "check_spelling", lambda *_, **__: None)
            before.setattr(decide, "check_new_scope", lambda *_, **__: None)
            made = ledger.open_scope(name, budget=PureDP(1))
            reserved: Any = made.reserve(pure("0.1"), request=REQUEST, key=name)
            reserved.release("the value")
        again: Any = ledger.open_scope(name, budget=PureDP(1)).reserve(pure("0.1"), request=REQUEST, key=name)
        assert again.text == "the value"


@pytest.mark.parametrize("name", ["people\ufe0f", "people\u180b", "people\u2800", "peop\U000e0100le"])
def test_a_name_has_nothing_that_is_not_drawn(ledger: Ledger, name: str) -> None:
    ledger.open_scope("people", budget=PureDP(1))
    with pytest.raises(LedgerError):
        ledger.open_scope(name, budget=PureDP(1))


@pytest.mark.parametrize("name", ["Older people", "older  people", "older people", "OLDER PEOPLE", "\uff4flder people"])
def test_a_name_that_is_read_as_another_one_is_refused(ledger: Ledger, name: str) -> None:
    ledger.open_scope("older people", budget=PureDP(1))
    if name == "older people":
        assert ledger.open_scope(name, budget=PureDP(1)).scope_id == name
        return
    with pytest.raises(LedgerError, match=r"has a scope 'older people'.*people hardly tell the two apart"):
        ledger.open_scope(name, budget=PureDP(1))
    assert len(ledger.scopes()) == 1


SAME = [
    *(("istanbul", "İSTANBUL"), ("istanbul", "İSTANBUL".lower()), ("ısparta", "ISPARTA"), ("Straße", "STRAẞE")),
    *(
        ("people", f"people{sign}")
        for sign in "\u2d7f\u17d2\u0345\ufffc\u1cd0\u05bf\ua9e5\U0001d159\U00016fe4\U0001107f"
    ),
    *(("people-2024", f"people{dash}2024") for dash in "\u2010\u2011\u2012\u2013\u2014\u2212\uff0d"),
    *(
        (f"north{one}south", f"north{other}south")
        for one, other in ["/\u2215", ":\u2236", "|\u2223", ",\u201a", "*\u2217"]
    ),
    *(("O'Neil", f"O{sign}Neil") for sign in "\u2018\u2019\u02bc\u2032`\u00b4"),
    *(("café", "café\u0301"), ("ö", "ö\u0308"), ("q\u0307", "q\u0307\u0307"), ("ΣΑΣ", "σας"), ("ﬁt", "fit")),
    *(("می\u200cخواهم", "میخواهم"), ("ශ්\u200dරී", "ශ්රී"), ("CO₂", "CO2"), ("❤", "❤\ufe0f")),
]
DIFFERENT = [
    *(("Masse", "Maße"), ("Busse", "Buße"), ("10²", "102"), ("2³", "23"), ("m²", "m2"), ("1½", "11/2"), ("™", "TM")),
    *(
        ("people", "peöple"),
        ("data", "ḍata"),
        ("が", "か"),
        ("קמץ", "קָמץ"),
        ("a b", "ab"),
        ("कि", "क"),
        ("日本", "日木"),
    ),
]


@pytest.mark.parametrize(("first", "second"), [*SAME, *((two, one) for one, two in SAME)])
def test_names_that_people_hardly_tell_apart_have_one_budget(ledger: Ledger, first: str, second: str) -> None:
    ledger.open_scope(first, budget=PureDP(1))
    with pytest.raises(LedgerError, match="hardly tell the two apart"):
        ledger.open_scope(second, budget=PureDP(1))
    assert len(ledger.scopes()) == 1


@pytest.mark.parametrize(
    ("held", "new", "said"),
    [
        ("people", "people\u2d7f", r"\(character 7 is U\+2D7F \(TIFINAGH CONSONANT JOINER\), not the end\)"),
        ("a" * 70 + "b", "a" * 70 + "B", r"\(character 71 is U\+0042 \(LATIN CAPITAL LETTER B\), not U\+0062"),
    ],
)
def test_the_refusal_says_where_two_names_differ(ledger: Ledger, held: str, new: str, said: str) -> None:
    ledger.open_scope(held, budget=PureDP(1))
    with pytest.raises(LedgerError, match=said):
        ledger.open_scope(new, budget=PureDP(1))


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_names_that_differ_have_their_own_budgets(ledger: Ledger, first: str, second: str) -> None:
    for name in (first, second):
        ledger.open_scope(name, budget=PureDP(1))
    assert len(ledger.scopes()) == 2


def test_scopes_of_an_older_ledger_that_are_alike_stay_usable(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(decide, "check_new_scope", lambda *_, **__: None)
        for name in ("istanbul", "İSTANBUL", "people\u2d7f"):
            ledger.open_scope(name, budget=PureDP(1))
    for name in ("istanbul", "İSTANBUL", "people\u2d7f"):
        ledger.open_scope(name, budget=PureDP(1)).reserve(pure("0.1"), request=REQUEST)
    with pytest.raises(LedgerError, match="hardly tell the two apart"):
        ledger.open_scope("people", budget=PureDP(1))


@pytest.mark.parametrize(
    "name", ["می\u200cخواهم", "ශ්\u200dරී", "क्\u200dष", "👨\u200d👩\u200d👧", "🏳\ufe0f\u200d🌈", "👍🏽", "🇩🇪"]
)
def test_joiners_stand_where_unicode_uses_them(ledger: Ledger, name: str) -> None:
    ledger.open_scope(name, budget=PureDP(1)).reserve(pure("0.1"), request=REQUEST, key=name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("日本\u3000語", r"character 3 is U\+3000 \(IDEOGRAPHIC SPACE\).*write a plain space"),
        ("peo\u200dple", r"character 4 is U\+200D \(ZERO WIDTH JOINER\).*leave it out"),
        ("می\u200c", r"character 3 is U\+200C"),
        ("👨\u200d\u200d👩", r"character 2 is U\+200D"),
        ("a\tb", r"character 2 is U\+0009 \(a control character"),
    ],
)
def test_what_does_not_print_is_named(ledger: Ledger, name: str, words: str) -> None:
    with pytest.raises(LedgerError, match=words):
        ledger.open_scope(name, budget=PureDP(1))
