"""The invariants I1 to I8 over random histories, against a model in plain integers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from sidelight.errors import BudgetError, InProgressError, LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Reservation, Stored, open_ledger

ONE = 10**30
PARENT = {"north": "all", "south": "all", "all": None, "alone": None}
CAPACITY = {"north": ONE, "south": ONE, "all": 3 * ONE // 2, "alone": ONE // 2}
SCOPES = st.sampled_from(["north", "south", "all", "alone"])
KEYS = st.sampled_from(["a", "b", None])
EPSILONS = st.sampled_from(["0.05", "0.1", "0.3", "0.7", "1/3", "1e-31"])


def quanta(epsilon: str) -> int:
    return -(-Fraction(epsilon) * ONE // 1)


def request(epsilon: str) -> dict[str, object]:
    return {"kind": "count", "epsilon": epsilon}


class Histories(RuleBasedStateMachine):
    """Random requests, outcomes, reaps and re-openings; after each step the ledger equals the model and verifies."""

    reservations: Bundle[Reservation] = Bundle("reservations")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = open_ledger("sqlite://", testing=True)
        for name in ("all", "alone", "north", "south"):
            budget = PureDP(Fraction(CAPACITY[name], ONE))
            self.ledger.open_scope(name, budget=budget, parent=PARENT[name])
        self.spent = dict.fromkeys(PARENT, 0)
        self.live: dict[tuple[str, str], list[str]] = {}  # (scope, key) -> [state, text, epsilon]
        self.open: dict[str, tuple[str, str] | None] = {}  # entry -> its (scope, key), if it has one
        self.states: dict[str, str] = {}
        self.heads: list[str] = []

    def teardown(self) -> None:
        self.ledger.close()

    def chain(self, scope: str) -> list[str]:
        parent = PARENT[scope]
        return [scope] if parent is None else [scope, parent]

    @rule(target=reservations, scope=SCOPES, epsilon=EPSILONS, key=KEYS, resume=st.booleans())
    def reserve(self, scope: str, epsilon: str, key: str | None, resume: bool) -> Reservation | None:
        earlier = None if key is None else self.live.get((scope, key))
        price = quanta(epsilon)
        fits = all(self.spent[name] + price <= CAPACITY[name] for name in self.chain(scope))
        head = self.ledger.head()
        try:
            result = self.ledger.scope(scope).reserve(
                Claims.of(PureDP(epsilon)), request=request(epsilon), key=key, resume=resume
            )
        except InProgressError:
            assert earlier is not None
            assert earlier[0] == "reserved"
            assert not resume
            return self._unchanged(head)
        except BudgetError:
            assert not fits
            assert earlier is None or earlier[0] == "reserved"
            return self._unchanged(head)
        except LedgerError as refused:
            if "another request" not in str(refused):
                raise
            assert earlier is not None
            assert earlier[2] != epsilon
            return self._unchanged(head)
        if isinstance(result, Stored):
            assert earlier is not None
            assert (result.state, result.text) == (earlier[0], earlier[1])
            return self._unchanged(head)
        assert fits
        if earlier is not None:
            assert resume
            self._reaped(scope, key)
        for name in self.chain(scope):
            self.spent[name] += price
        self.states[result.entry_id] = "reserved"
        self.open[result.entry_id] = None if key is None else (scope, key)
        if key is not None:
            self.live[scope, key] = ["reserved", "", epsilon]
        return result

    def _unchanged(self, head: str) -> None:
        assert self.ledger.head() == head

    def _reaped(self, scope: str, key: str | None) -> None:
        for entry, place in self.open.items():
            if place == (scope, key) and self.states[entry] == "reserved":
                self.states[entry] = "failed"
        self.live.pop((scope, str(key)), None)

    @rule(reservation=consumes(reservations), outcome=st.sampled_from(["released", "refused", "failed"]))
    def settle(self, reservation: Reservation | None, outcome: str) -> None:
        if reservation is None:
            return
        entry = reservation.entry_id
        act = {
            "released": lambda: reservation.release(f"text {entry}"),
            "refused": lambda: reservation.refuse(f"text {entry}"),
            "failed": lambda: reservation.fail(),
        }[outcome]
        if self.states[entry] != "reserved":  # reaped meanwhile
            if outcome == "failed":
                act()
                return
            with pytest.raises(LedgerError, match="discarded"):
                act()
            return
        self.heads.append(act())
        self.states[entry] = outcome
        place = self.open[entry]
        if place is not None:
            if outcome == "failed":
                del self.live[place]
            else:
                self.live[place][:2] = [outcome, f"text {entry}"]

    @rule(scope=SCOPES)
    def reap(self, scope: str) -> None:
        for entry in self.ledger.scope(scope).reap():
            assert self.states[entry] == "reserved"
            self.states[entry] = "failed"
            place = self.open[entry]
            if place is not None:
                del self.live[place]

    @rule(scope=SCOPES, epsilon=EPSILONS)
    def external(self, scope: str, epsilon: str) -> None:
        price = quanta(epsilon)
        try:
            self.ledger.scope(scope).record_external(Claims.of(PureDP(epsilon)), note="another tool")
        except BudgetError:
            assert any(self.spent[name] + price > CAPACITY[name] for name in self.chain(scope))
            return
        for name in self.chain(scope):
            self.spent[name] += price

    @invariant()
    def the_totals_are_the_models(self) -> None:
        for name, total in self.spent.items():
            assert self.ledger.scope(name).totals().epsilon == total
            assert total <= CAPACITY[name]

    @invariant()
    def the_entries_are_the_models(self) -> None:
        assert {entry.entry_id: entry.state for entry in self.ledger.entries()} == self.states

    @precondition(lambda self: len(self.states) % 3 == 0)
    @invariant()
    def it_verifies_and_contains_every_head_ever_given_out(self) -> None:
        head = self.heads[0] if self.heads else None
        verification = self.ledger.verify(
            expect_head=head, rederive=lambda asked: Claims.of(PureDP(str(asked["epsilon"])))
        )
        assert verification.ok, verification


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
