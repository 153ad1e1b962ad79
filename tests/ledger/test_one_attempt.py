"""Keys with one attempt: a failure is final, also for requests under other scopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sidelight.errors import InProgressError, KeyReusedError, LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation, Scope, Stored
from sidelight.ledger import verify as verification
from sidelight.ledger.chain import canonical
from sidelight.ledger.decide import Request

REQUEST = {"kind": "count", "column": "age"}
TENTH = Claims.of(PureDP("0.1"))


def ask(scope: Scope, key: str = "k", **more: Any) -> Reservation | Stored:
    return scope.reserve(TENTH, request=REQUEST, key=key, **more)


def granted(scope: Scope, key: str = "k", **more: Any) -> Reservation:
    found = ask(scope, key, **more)
    assert isinstance(found, Reservation)
    return found


def tenths(scope: Scope) -> int:
    return scope.totals().epsilon // 10**29


@pytest.mark.parametrize("again", [{}, {"once": True}, {"resume": True}], ids=["plain", "once", "resume"])
@pytest.mark.parametrize("end", [Reservation.fail, lambda first: None], ids=["failed", "died"])
def test_a_key_that_was_asked_once_never_gets_a_second_attempt(
    ledger: Ledger, again: dict[str, bool], end: Callable[[Reservation], object]
) -> None:
    """The promise is the entry's, not the caller's: one who leaves `once` out does not draw a second time."""
    scope = ledger.open_scope("people", budget=PureDP(1))
    end(granted(scope, once=True))
    if end is not Reservation.fail and "resume" not in again:
        with pytest.raises(InProgressError):
            ask(scope, **again)
        scope.reap(key="k")
    found = ask(scope, **again)
    assert isinstance(found, Stored)
    assert (found.state, found.text, tenths(scope)) == ("failed", "", 1)
    assert ask(scope) == found
    assert len(scope.entries()) == 1
    assert ledger.verify().ok


def test_without_once_a_second_attempt_pays_as_ever(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    granted(scope).fail()
    granted(scope)
    granted(scope, resume=True).release("third")
    assert tenths(scope) == 3


def test_a_given_up_entry_says_failed_and_no_more(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    granted(scope, "a", once=True).fail()
    granted(scope, "b", once=True)
    granted(scope, "c", once=True)
    ask(scope, "b", resume=True)
    assert len(scope.reap(reason="failed")) == 1
    bodies = [event.body for event in ledger.events() if event.kind == "fail"]
    assert bodies == [canonical({"reason": "failed"})] * 3
    assert ledger.verify().ok


def test_entries_are_given_up_by_their_age(ledger: Ledger) -> None:
    scope = ledger.open_scope("people", budget=PureDP(1))
    old = granted(scope, "old", at_utc="2026-01-01T00:00:00.000000Z")
    granted(scope, "new", at_utc="2026-01-01T00:00:10.000000Z")
    assert ledger.reap(before="2026-01-01T00:00:05.000000Z", reason="failed") == [old.entry_id]
    with pytest.raises(LedgerError, match="at_utc"):
        scope.reap(before="yesterday")
    with pytest.raises(LedgerError, match="discarded"):
        old.release("late")


def window(ledger: Ledger, month: str) -> dict[str, Claims]:
    """Return the claims of a request that a month's scope pays, remembered by the analyst's."""
    ledger.open_scope(f"ada/{month}", budget=PureDP("0.2"), parent="ada")
    return {f"ada/{month}": TENTH, "ada": TENTH}


def test_the_same_key_in_another_window_is_the_same_request(ledger: Ledger) -> None:
    ada = ledger.open_scope("ada", budget=PureDP(1))
    first = ledger.reserve(window(ledger, "10"), scope_id="ada", request=REQUEST, key="k", once=True)
    assert isinstance(first, Reservation)
    first.release("answer")
    again = ledger.reserve(window(ledger, "11"), scope_id="ada", request=REQUEST, key="k", once=True)
    assert isinstance(again, Stored)
    assert again.text == "answer"
    assert tenths(ada) == 1
    ledger.reserve(window(ledger, "11"), scope_id="ada", request=REQUEST, key="other")
    december = window(ledger, "12")
    with pytest.raises(KeyReusedError):  # without once the scopes that pay are part of the request
        ledger.reserve(december, scope_id="ada", request=REQUEST, key="other")


def test_a_query_is_recognised_by_the_text_that_was_sent(ledger: Ledger) -> None:
    """A later version may write the same query in other words, or prove less for it."""
    scope = ledger.open_scope("people", budget=PureDP(1))
    granted(scope, once=True, sent="digest 1").release("answer")
    other = {"kind": "count", "column": "age", "by": "a later version"}
    found = scope.reserve(Claims.of(PureDP("0.05")), request=other, key="k", once=True, sent="digest 1")
    assert isinstance(found, Stored)
    for sent in (None, "digest 2"):
        assert isinstance(ask(scope, once=True, sent=sent), Stored)  # or by its request
        with pytest.raises(KeyReusedError, match="another request"):
            scope.reserve(TENTH, request=other, key="k", once=True, sent=sent)


def test_a_second_attempt_of_such_a_key_is_found_by_an_auditor(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a version that forgets what the entry says."""
    scope = ledger.open_scope("people", budget=PureDP(1))
    granted(scope, once=True).fail()
    with monkeypatch.context() as planted:
        planted.setattr("sidelight.ledger.decide.has_one_attempt", lambda body: False)
        granted(scope).fail()
    assert "second attempt" in ledger.verify().problems[0]
    monkeypatch.setattr(verification, "has_one_attempt", lambda body: False)
    assert ledger.verify().ok  # the check above is what found it


def test_entries_of_earlier_versions_have_attempts_as_they_had(ledger: Ledger) -> None:
    """A stored entry says nothing of `once` unless it was asked so: bodies without it are as they were."""
    plain = Request(entry_id="e", scope_id="s", key="k", shares=(), request=REQUEST, at_utc="")
    assert set(plain.body(1)) == {"attempt", "charges", "idem_key", "request"}
    scope = ledger.open_scope("people", budget=PureDP(1))
    granted(scope).fail()
    found = ask(scope, once=True)
    assert isinstance(found, Stored)
    granted(scope)
    assert tenths(scope) == 2
