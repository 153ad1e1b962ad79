"""Releases with seeded noise, for tests: reproducible, branded, and refused by every ledger but a testing one.

Only this module hands a seeded entropy to the release door. There is no seed argument on queries, no environment
variable and no global.
"""

from __future__ import annotations

from typing import Any

from sidelight.errors import LedgerError
from sidelight.ledger import Ledger
from sidelight.release import Outcome
from sidelight.session import ArrayQuery, Session
from sidelight.session.session import release_once
from sidelight.testing.seeded import SeededEntropy


def seeded_release(query: ArrayQuery, data: Any, *, seed: int | str | bytes) -> Outcome:
    """Release once with seeded noise. The result prints NOT PRIVATE and `private` is False."""
    return release_once(query, data, entropy=SeededEntropy(seed))


class SeededSession(Session):
    """A session with seeded noise, on no ledger or on one that was opened with `testing=True`."""

    def __init__(self, table: Any, *, seed: int | str | bytes, **rest: Any) -> None:
        super().__init__(table, **rest)
        self._entropy = SeededEntropy(seed)

    def _check(self, ledger: Ledger) -> None:
        if not ledger.testing:
            raise LedgerError("seeded noise is not private: pass open_ledger(url, testing=True), a ledger for tests")
