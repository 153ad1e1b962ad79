"""Trap 9: eight processes that all see "enough left". Exactly what fits is granted, on both stores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sidelight.errors import BudgetError, InProgressError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation, Stored, open_ledger

REQUEST = {"kind": "x"}
PROCESSES = 8


def pure(epsilon: str) -> Claims:
    return Claims.of(PureDP(epsilon))


def test_eight_processes_cannot_overspend_together(address: str, in_children: Callable[..., list[Any]]) -> None:
    with open_ledger(address) as ledger:
        ledger.open_scope("people", budget=PureDP("0.5"))

    def ask(number: int) -> int:
        granted = 0
        with open_ledger(address) as ledger:
            scope = ledger.scope("people")
            for _ in range(12):
                try:
                    reservation = scope.reserve(pure("0.007"), request=REQUEST)
                except BudgetError:
                    continue
                assert isinstance(reservation, Reservation)
                reservation.release(f"process {number}")
                granted += 1
        return granted

    granted = in_children(ask, count=PROCESSES)
    assert sum(granted) == 71  # ⌊0.5 / 0.007⌋ of 96 asked
    with open_ledger(address) as ledger:
        assert ledger.scope("people").totals().epsilon == 71 * 7 * 10**27
        assert len(ledger.entries()) == 71
        assert ledger.verify().ok


def test_joint_charges_in_opposite_orders_neither_deadlock_nor_overspend(
    address: str, in_children: Callable[..., list[Any]]
) -> None:
    with open_ledger(address) as ledger:
        for name in ("a", "b"):
            ledger.open_scope(name, budget=PureDP("0.1"))

    def ask(number: int) -> int:
        names = ("a", "b") if number % 2 else ("b", "a")
        granted = 0
        with open_ledger(address) as ledger:
            for _ in range(3):
                try:
                    reservation = ledger.reserve({name: pure("0.01") for name in names}, request=REQUEST)
                except BudgetError:
                    continue
                assert isinstance(reservation, Reservation)
                reservation.release("x")
                granted += 1
        return granted

    assert sum(in_children(ask, count=PROCESSES)) == 10
    with open_ledger(address) as ledger:
        assert ledger.verify().ok


def test_one_key_is_drawn_once(address: str, in_children: Callable[..., list[Any]]) -> None:
    with open_ledger(address) as ledger:
        ledger.open_scope("people", budget=PureDP(1))

    def ask(number: int) -> str:
        with open_ledger(address) as ledger:
            while True:
                try:
                    result = ledger.scope("people").reserve(pure("0.1"), request=REQUEST, key="monday")
                except InProgressError:
                    continue
                if isinstance(result, Stored):
                    return result.text
                result.release(f"drawn by {number}")

    answers = in_children(ask, count=PROCESSES)
    assert len(set(answers)) == 1
    with open_ledger(address) as ledger:
        assert ledger.scope("people").totals().epsilon == 10**29


def test_eight_processes_make_one_ledger_and_one_scope(address: str, in_children: Callable[..., list[Any]]) -> None:
    def make(_: int) -> str:
        with open_ledger(address) as ledger:
            ledger.open_scope("people", budget=PureDP(1))
            return ledger.ledger_id

    assert len(set(in_children(make, count=PROCESSES))) == 1
    with open_ledger(address) as ledger:
        assert [event.kind for event in ledger.events()] == ["open", "scope"]


@pytest.mark.parametrize("where", ["file", "memory"])
def test_threads_share_one_handle(tmp_path: Path, where: str) -> None:
    with open_ledger(tmp_path / "b.db" if where == "file" else "sqlite://", testing=True) as ledger:
        scope = ledger.open_scope("people", budget=PureDP("0.5"))

        def ask(_: int) -> bool:
            try:
                reservation = scope.reserve(pure("0.03"), request=REQUEST)
            except BudgetError:
                return False
            assert isinstance(reservation, Reservation)
            reservation.release("x")
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(ask, range(40))) == 16
        assert ledger.verify().ok


def test_reading_does_not_block_others(file_ledger: Ledger) -> None:
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    with file_ledger.store.read() as transaction:
        before = transaction.rows("SELECT count(*) FROM event")
        scope.reserve(pure("0.1"), request=REQUEST)
        assert transaction.rows("SELECT count(*) FROM event") == before  # one consistent moment
    assert len(file_ledger.events()) == 3
