"""What is recorded before the power is cut (`benchmarks.power_loss`), and what has to hold of what is left.

    python -m benchmarks.power_loss_stories ledger|journal FOLDER

A story says on its standard output, in one write each, what the outside world has seen.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sidelight.errors import SidelightError
from sidelight.experts.service.store import ServiceStore
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Reservation, journal, open_ledger

SITTINGS, CHARGES = 3, 4
ROUNDS, REPORTS = 3, 5
_TENTH = 10**29


def _mark(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def ledger_story(folder: Path) -> None:
    """Spend in several sittings: open, charge, look at the data, store the value, hand it out, close."""
    for sitting in range(SITTINGS):
        with open_ledger(folder / "budget.db") as ledger:
            scope = ledger.open_scope("people", budget=PureDP(2))
            for number in range(CHARGES):
                key = f"{sitting}-{number}"
                reservation = scope.reserve(Claims.of(PureDP("0.1")), request={"kind": "count"}, key=key)
                assert isinstance(reservation, Reservation)
                _mark(f"opened {key}")
                reservation.release(f"value of {key}")
                _mark(f"left {key}")


def check_ledger(folder: Path, marks: list[str]) -> dict[str, int]:
    """Return charges that were lost, charges of one key that are there twice, and ledgers that cannot be used."""
    opened, left = ({mark.split()[1] for mark in marks if mark.startswith(word)} for word in ("opened", "left"))
    journal._newest.clear()  # each cut is a world of its own, and one process would refuse the older copy
    try:
        with open_ledger(folder / "budget.db", create=not opened) as ledger:
            scope = ledger.open_scope("people", budget=PureDP(2))
            entries = {entry.key: entry.state for entry in scope.entries()}
            lost = len(opened - set(entries)) + sum(entries.get(key) not in (None, "released") for key in left)
            spent = len(scope.entries())
            doubled = spent - len(entries) + (scope.totals().epsilon != spent * _TENTH)
            return {"lost": lost, "doubled": doubled, "broken": int(not ledger.verify().ok)}
    except SidelightError:
        return {"lost": 0, "doubled": 0, "broken": 1}


def journal_story(folder: Path) -> None:
    """Take reports as the service does: append, wait until durable, acknowledge; close rounds with a snapshot."""

    async def rounds() -> None:
        with ThreadPoolExecutor(1) as executor:
            store, closed = ServiceStore(folder), list[str]()
            store.save({"closed": closed})
            for round_ in range(ROUNDS):
                book = store.journal(executor=executor)
                texts = [f"{round_}-{number}" for number in range(REPORTS)]
                for text in texts:
                    book.append(text)
                    await book.durable()
                    _mark(f"acknowledged {text}")
                book.close()
                closed += texts
                store.save({"closed": closed})
            store.close()

    asyncio.run(rounds())


def check_journal(folder: Path, marks: list[str]) -> dict[str, int]:
    """Return reports that were lost after their acknowledgement, and reports that count twice."""
    acknowledged = {mark.split()[1] for mark in marks}
    try:
        store = ServiceStore(folder)
        found = store.load()
        store.close()
    except SidelightError:
        return {"lost": 0, "doubled": 0, "broken": 1}
    texts = [*found[0]["closed"], *found[1]] if found is not None else []
    return {"lost": len(acknowledged - set(texts)), "doubled": len(texts) - len(set(texts)), "broken": 0}


STORIES: dict[str, Callable[[Path], None]] = {"ledger": ledger_story, "journal": journal_story}
CHECKS: dict[str, Callable[[Path, list[str]], dict[str, int]]] = {"ledger": check_ledger, "journal": check_journal}

if __name__ == "__main__":
    STORIES[sys.argv[1]](Path(sys.argv[2]))
