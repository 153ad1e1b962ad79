"""Entry states, idempotency keys, retries: who pays when."""

from __future__ import annotations

from typing import Any

import pytest

from sidelight.errors import BudgetError, InProgressError, LedgerError, RangeError
from sidelight.guarantees import GDP, ApproxDP, BoundedRange, Claims, PureDP
from sidelight.ledger import Ledger, Reservation, Scope, Stored, open_ledger

REQUEST = {"kind": "count", "column": "age", "levels": ["0.5"], "note": None}


def pure(epsilon: str) -> Claims:
    return Claims.of(PureDP(epsilon))


def reserve(scope: Scope, epsilon: str, key: str | None = None, **more: bool) -> Reservation:
    result = scope.reserve(pure(epsilon), request=REQUEST, key=key, **more)
    assert isinstance(result, Reservation)
    return result


def epsilon_spent(scope: Scope) -> int:
    return scope.totals().epsilon


def test_charge_then_release(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    reservation = reserve(scope, "0.3", "monday")
    assert epsilon_spent(scope) == 3 * 10**29
    head = reservation.release('{"value":42}')
    assert head == ledger.head()
    (entry,) = scope.entries()
    assert (entry.state, entry.text, entry.key, entry.attempt) == ("released", '{"value":42}', "monday", 1)
    assert entry.claims == pure("0.3")
    assert entry.request == REQUEST
    assert ledger.verify(expect_head=head).ok


def test_the_same_key_returns_the_stored_answer_for_nothing(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    reservation = reserve(scope, "0.6", "monday")
    head = reservation.release("answer")
    before = ledger.head()
    again = scope.reserve(pure("0.6"), request=REQUEST, key="monday")
    assert again == Stored(entry_id=reservation.entry_id, state="released", text="answer", head=head)
    assert ledger.head() == before


def test_a_refusal_costs_the_same_and_is_stored_alike(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    released, refused = reserve(scope, "0.3", "a"), reserve(scope, "0.3", "b")
    released.release("text")
    refused.refuse("text")
    again = scope.reserve(pure("0.3"), request=REQUEST, key="b")
    assert isinstance(again, Stored)
    assert again.state == "refused"
    one, two = scope.entries()
    assert one.charge == two.charge
    events = {event.kind: event for event in ledger.events()}
    assert set(events["release"].content) == set(events["refuse"].content)  # I7
    assert ledger.verify().ok


def test_without_a_key_every_request_is_its_own(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    for _ in range(3):
        reserve(scope, "0.1").release("x")
    assert epsilon_spent(scope) == 3 * 10**29


def test_a_key_in_progress(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    reserve(scope, "0.3", "monday")
    with pytest.raises(InProgressError, match="reserved and has no outcome"):
        reserve(scope, "0.3", "monday")
    assert epsilon_spent(scope) == 3 * 10**29


def test_resume_pays_again_and_discards_the_late_outcome(ledger: Ledger) -> None:
    """Trap 10: a second draw is a second charge."""
    scope = ledger.open_scope("people", budget=PureDP(1))
    dead = reserve(scope, "0.3", "monday")
    second = reserve(scope, "0.3", "monday", resume=True)
    assert epsilon_spent(scope) == 6 * 10**29
    with pytest.raises(LedgerError, match="already failed; this late outcome is discarded"):
        dead.release("too late")
    dead.fail()  # says the same again: fine
    second.release("in time")
    again = scope.reserve(pure("0.3"), request=REQUEST, key="monday")
    assert isinstance(again, Stored)
    assert again.text == "in time"
    assert [entry.attempt for entry in scope.entries()] == [1, 2]
    assert ledger.verify().ok


def test_reap(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    other = ledger.open_scope("others", budget=PureDP(1))
    one, two, three = reserve(scope, "0.1", "a"), reserve(scope, "0.1", "b"), reserve(other, "0.1", "a")
    assert scope.reap(key="b") == [two.entry_id]
    assert scope.reap() == [one.entry_id]
    assert ledger.reap() == [three.entry_id]
    assert ledger.reap() == []
    assert {entry.state for entry in ledger.entries()} == {"failed"}
    assert epsilon_spent(scope) == 2 * 10**29
    assert ledger.verify().ok


def test_one_outcome_only(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    reservation = reserve(scope, "0.1")
    head = reservation.release("a")
    assert reservation.release("a") == head  # a repeated call after a lost answer
    for late in (lambda: reservation.release("b"), lambda: reservation.refuse("a"), lambda: reservation.fail()):
        with pytest.raises(LedgerError, match="already released"):
            late()
    assert ledger.head() == head


def test_a_failed_attempt_stays_paid_and_the_next_pays_again(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    for attempt in (1, 2, 3):
        reserve(scope, "0.3", "monday").fail()
        assert epsilon_spent(scope) == 3 * attempt * 10**29
    with pytest.raises(BudgetError):
        reserve(scope, "0.3", "monday")


def test_another_request_with_the_same_key_is_an_error_never_the_stored_value(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    reserve(scope, "0.1", "monday").release("a")
    with pytest.raises(LedgerError, match="for another request"):
        scope.reserve(pure("0.1"), request={"kind": "median"}, key="monday")
    with pytest.raises(LedgerError, match="for another request"):
        scope.reserve(pure("0.2"), request=REQUEST, key="monday")


def test_keys_are_remembered_per_scope(ledger: Ledger) -> None:
    for name in ("a", "b"):
        reserve(ledger.open_scope(name, budget=PureDP(1)), "0.1", "monday").release(name)
    assert [entry.text for entry in ledger.entries()] == ["a", "b"]


def test_a_refused_budget_touches_nothing_and_says_the_three_numbers(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    reserve(scope, "0.8").release("x")
    before = ledger.head()
    with pytest.raises(BudgetError) as refused:
        reserve(scope, "0.3", "monday")
    for number, text in (
        ("0.3", refused.value.requested),
        ("0.2", refused.value.remaining),
        ("0.1", refused.value.difference),
    ):
        assert number in text
        assert text in str(refused.value)
    assert "'people'" in str(refused.value)
    assert ledger.head() == before
    reserve(scope, "0.2", "monday").release("one may ask again for less, up to the last drop")
    with pytest.raises(BudgetError):
        reserve(scope, "1e-30")


def test_an_outcome_repeats_its_reservations_time(ledger: Ledger) -> None:
    """How long a run took is a function of the data, and the hash would commit to it."""
    scope = ledger.open_scope("people", budget=PureDP(1))
    first = "2026-01-01T00:00:00.000000Z"
    for key in ("a", "b", "c"):
        result = scope.reserve(pure("0.1"), request=REQUEST, key=key, at_utc=first)
        assert isinstance(result, Reservation)
        {"a": result.release, "b": result.refuse, "c": lambda _, result=result: result.fail()}[key]("x")
    reserve(scope, "0.1", "d").release("x")
    events = ledger.events()
    times = {event.entry_id: event.at_utc for event in events if event.kind == "reserve"}
    outcomes = [event for event in events if event.kind in ("release", "refuse", "fail")]
    assert len(outcomes) == 4
    assert all(event.at_utc == times[event.entry_id] for event in outcomes)
    assert sum(event.at_utc == first for event in events) == 6


@pytest.mark.parametrize("reason", ["KeyError: 'Ann'", "", "ZeroDivisionError", None])
def test_a_reason_outside_the_closed_list_is_refused(file_ledger: Ledger, reason: str) -> None:
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    with pytest.raises(LedgerError, match="closed list"):
        reserve(scope, "0.1").fail(reason)  # type: ignore[arg-type]


@pytest.mark.parametrize("request_", [{}, {"n": 3}, {"x": 0.5}, {"flag": True}, {"é": "x"}, ["kind"]])
def test_a_request_is_a_mapping_of_strings(file_ledger: Ledger, request_: dict[str, object]) -> None:
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    with pytest.raises(LedgerError):
        scope.reserve(pure("0.1"), request=request_)
    assert epsilon_spent(scope) == 0


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 501, "\ud800", 7])
def test_names_that_cannot_be_shown_are_refused(file_ledger: Ledger, name: str) -> None:
    with pytest.raises(LedgerError, match="printable"):
        file_ledger.open_scope(name, budget=PureDP(1))
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    with pytest.raises(LedgerError, match="printable"):
        scope.reserve(pure("0.1"), request=REQUEST, key=name)


@pytest.mark.parametrize("epsilon", ["0", "nan", "inf", "-1", float("nan")])
def test_zero_cost_releases_do_not_exist(file_ledger: Ledger, epsilon: str) -> None:
    """Trap 16."""
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    with pytest.raises(RangeError):
        scope.reserve(pure(epsilon), request=REQUEST)
    assert epsilon_spent(scope) == 0


def test_a_charge_of_1e_40_is_never_lost(file_ledger: Ledger) -> None:
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    reserve(scope, "1e-40").release("x")
    assert epsilon_spent(scope) == 1
    with pytest.raises(BudgetError):
        reserve(scope, "1")


def test_ten_tenths_fit_exactly(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    for _ in range(10):
        reserve(scope, "0.1").release("x")
    with pytest.raises(BudgetError):
        reserve(scope, "1e-40")
    assert ledger.verify().ok


def test_a_mixed_history_under_one_budget(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=ApproxDP(3, "1e-6"))
    for claims in (Claims.of(BoundedRange("0.2")), Claims.of(GDP("0.3")), Claims.of(ApproxDP("0.1", "1e-8"))):
        result = scope.reserve(claims, request=REQUEST)
        assert isinstance(result, Reservation)
        result.release("x")
    composed = scope.totals().composed
    assert composed is not None  # from the release that declared a mu on
    assert composed.closed == frozenset()
    assert ledger.verify().ok


def test_it_outlives_the_process_handle(address: str) -> None:
    with open_ledger(address) as ledger:
        reserve(ledger.open_scope("people", budget=PureDP(1)), "0.7", "k").release("kept")
    with open_ledger(address, create=False) as ledger:
        scope = ledger.scope("people")
        with pytest.raises(BudgetError):
            reserve(scope, "0.4")
        again = scope.reserve(pure("0.7"), request=REQUEST, key="k")
        assert isinstance(again, Stored)
        assert again.text == "kept"
        assert [one.scope_id for one in ledger.scopes()] == ["people"]


def test_a_closed_scope_grants_nothing_more(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    reserve(scope, "0.1", "k").release("kept")
    head = scope.close()
    assert scope.close() == head
    with pytest.raises(LedgerError, match="grants nothing more"):
        reserve(scope, "0.1")
    assert isinstance(scope.reserve(pure("0.1"), request=REQUEST, key="k"), Stored)
    assert ledger.verify().ok


def test_a_failed_key_pays_again_and_once_is_final(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    reserve(scope, "0.2", "monday").fail()
    reserve(scope, "0.2", "monday").fail()  # the default: a second attempt is a second draw, and pays
    assert epsilon_spent(scope) == 4 * 10**29
    before = ledger.head()
    again = scope.reserve(pure("0.2"), request=REQUEST, key="monday", once=True)
    assert isinstance(again, Stored)
    assert (again.state, again.text, again.head) == ("failed", "", before)
    assert ledger.head() == before
    first = reserve(scope, "0.2", "tuesday", once=True)
    with pytest.raises(InProgressError):
        reserve(scope, "0.2", "tuesday", once=True)
    scope.reap(key="tuesday")
    assert scope.reserve(pure("0.2"), request=REQUEST, key="tuesday", once=True).state == "failed"  # type: ignore[union-attr]
    with pytest.raises(LedgerError, match="another request"):
        scope.reserve(pure("0.1"), request=REQUEST, key="tuesday", once=True)
    with pytest.raises(LedgerError, match="discarded"):
        first.release("late")
    reserve(scope, "0.2", "friday", once=True).release("answer")
    assert scope.reserve(pure("0.2"), request=REQUEST, key="friday", once=True).text == "answer"  # type: ignore[union-attr]
    assert epsilon_spent(scope) == 8 * 10**29
    assert ledger.verify().ok


@pytest.mark.parametrize("given", [{"key": "a", "resume": True}, {"key": None}])
def test_once_wants_a_key_and_no_resume(file_ledger: Ledger, given: dict[str, Any]) -> None:
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    with pytest.raises(LedgerError, match="once=True"):
        scope.reserve(pure("0.1"), request=REQUEST, once=True, **given)
