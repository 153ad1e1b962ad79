"""A sequence with seeded noise, for tests: branded, and only on a ledger for tests."""

from __future__ import annotations

from typing import Any

from sidelight.errors import LedgerError
from sidelight.ledger import Ledger
from sidelight.quantiles.sequence import Sequence
from sidelight.testing.seeded import SeededEntropy


class SeededSequence(Sequence):
    """A `Sequence` whose noise is a function of the seed. Its releases print NOT PRIVATE."""

    def __init__(self, *args: Any, seed: int | str | bytes, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._entropy = SeededEntropy(seed)

    def _check(self, ledger: Ledger) -> None:
        if not ledger.testing:
            raise LedgerError("seeded noise is not private: pass open_ledger(url, testing=True), a ledger for tests")
