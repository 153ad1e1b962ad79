"""Notes in a ledger that outlive every process: added once, never changed or deleted, and no part of the chain.

They live in the ledger's table `meta`, whose triggers refuse every change of a row but the head. So they are restored,
moved and lost together with the charges that they are about. An export has none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sidelight.errors import RangeError
from sidelight.ledger.journal import lock_head

if TYPE_CHECKING:
    from sidelight.ledger.ledger import Ledger
    from sidelight.ledger.schema import Transaction


def keep_notes(ledger: Ledger, topic: str, notes: Mapping[str, str]) -> None:
    """Add notes under a topic, by name; those that are there stay as they are."""
    _check_topic(topic)
    known = read_notes(ledger, topic)
    new = {name: text for name, text in notes.items() if name not in known}

    def add(transaction: Transaction) -> None:
        lock_head(transaction)  # another process may add the same
        for name in sorted(new.keys() - _notes(transaction, topic).keys()):
            transaction.run(
                "INSERT INTO meta (key, value) VALUES (:name, :value)", name=f"{topic} {name}", value=new[name]
            )

    if new:
        ledger.store.decide(add)


def read_notes(ledger: Ledger, topic: str) -> dict[str, str]:
    """Return the notes under a topic, by name."""
    _check_topic(topic)
    with ledger.store.read() as transaction:
        return _notes(transaction, topic)


def _notes(transaction: Transaction, topic: str) -> dict[str, str]:
    rows = transaction.rows("SELECT key, value FROM meta WHERE key LIKE :topic", topic=f"{topic} %")
    return {str(key).removeprefix(f"{topic} "): str(value) for key, value in rows}


def _check_topic(topic: str) -> None:
    if not (topic.isascii() and topic.isalpha() and topic.islower()):
        raise RangeError(f"a topic of notes is one word of small letters, got {topic!r}")
