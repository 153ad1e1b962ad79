"""Charges a second in a ledger with many scopes, as a service with many analysts keeps one; refusals and pages with it.

A population, five tables and their analysts: every charge is booked in three scopes by one transaction, and read back.
`recorded` are charges with their outcomes. PostgreSQL, and a file for comparison; both with durable commits, in memory
where there is a place, so that the numbers are the ledger's and not a disk's. `python -m benchmarks.server_ledger`
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from benchmarks.measuring import AbsentError, print_figures, sized
from benchmarks.temporary_postgres import NoServerError, empty_database, quick_place, temporary_server
from sidelight.errors import BudgetError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation, Scope, open_ledger

SCOPES = sized((200, 2000), (8, 12))
CHARGES = sized(200, 5)
PARTS = 5
TABLES = 5


def filled(ledger: Ledger, scopes: int) -> list[Scope]:
    """Open a population, its tables and analysts, with this number of scopes; return those of the analysts."""
    ledger.open_scope("population", budget=PureDP(TABLES))
    tables = [ledger.open_scope(f"table-{each}", budget=PureDP(1), parent="population") for each in range(TABLES)]
    share = PureDP(f"{TABLES / scopes:.6f}")
    return [
        ledger.open_scope(f"{table.scope_id}/analyst-{each}", budget=share, parent=table.scope_id)
        for each in range(max(1, (scopes - 1 - TABLES) // TABLES))
        for table in tables
    ]


def per_second(times: int, job: Callable[[int], object]) -> float:
    """Return how often a job runs in a second, one after the other: the best of five parts."""
    part, best = times // PARTS, 0.0
    for first in range(0, part * PARTS, part):
        start = time.perf_counter()
        for number in range(first, first + part):
            job(number)
        best = max(best, part / (time.perf_counter() - start))
    return best


def figures_of(ledger: Ledger, scopes: int) -> dict[str, float]:
    """Return what one ledger does in a second."""
    analysts = filled(ledger, scopes)
    claims = Claims.of(PureDP("0.0001"))

    def charge(number: int, *, name: str = "charged") -> Reservation:
        granted = analysts[number % len(analysts)].reserve(
            claims, request={"kind": "count", "number": str(number)}, key=f"{name} {number}", once=True
        )
        assert isinstance(granted, Reservation)
        return granted

    def refused(number: int) -> None:
        try:
            analysts[number % len(analysts)].reserve(Claims.of(PureDP(1)), request={"kind": "count"})
        except BudgetError:
            return
        raise AssertionError("a budget was overspent")

    charge(-1)
    return {
        "charges": per_second(CHARGES, charge),
        "recorded": per_second(CHARGES, lambda number: charge(number, name="recorded").release("x" * 500)),
        "refusals": per_second(CHARGES, refused),
        "pages": per_second(CHARGES, lambda number: analysts[number % len(analysts)].page(limit=50)),
    }


@contextmanager
def _server() -> Iterator[str]:
    try:
        with temporary_server() as server:
            yield server.address
    except NoServerError as reason:
        raise AbsentError(f"no PostgreSQL: {reason}") from None


@cache
def measure() -> dict[str, float]:
    """Return the figures of both kinds of ledger at both sizes."""
    found: dict[str, float] = {}
    with ExitStack() as stack:
        server = stack.enter_context(_server())
        place = stack.enter_context(tempfile.TemporaryDirectory(dir=quick_place(megabytes=100)))
        for scopes, name in zip(SCOPES, ("few", "many"), strict=True):
            address = stack.enter_context(empty_database(server))
            for kind, url in (("postgresql", address), ("sqlite", str(Path(place) / f"{name}.db"))):
                with open_ledger(url, key=b"k" * 32) as ledger:
                    for what, value in figures_of(ledger, scopes).items():
                        found[f"{kind}_{what}_{name}_scopes"] = value
    return found


if __name__ == "__main__":
    print_figures(measure())
