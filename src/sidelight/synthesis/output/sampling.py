"""Synthetic rows from a released distribution. All of it is post-processing: it reads the release and nothing else.

Systematic sampling by default: rows at equal steps through the cells, with one uniform start. Each cell's count is then
within 1 of its expectation, where independent draws would add noise of the size of √count.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.noise import Source
from sidelight.noise.integers_and_coins import below
from sidelight.synthesis.cells.packing import Mass

#: Rows beyond this are a mistake: positions are computed in 64-bit integers.
MOST_ROWS = 10**9


class PublicEntropy:
    """Reproducible bytes for post-processing: SHAKE-128 of a text, block by block. Not for noise, and says so."""

    branding = "public: for post-processing only"

    def __init__(self, text: str) -> None:
        self._hash = hashlib.shake_128(b"sidelight/synthetic-rows/1\0" + text.encode(), usedforsecurity=False)
        self._block = 0

    def read(self, nbytes: int) -> bytes:
        """Return the next bytes; each call begins a new block."""
        block = self._hash.copy()
        block.update(self._block.to_bytes(8, "little"))
        self._block += 1
        return block.digest(nbytes)


def sample_codes(mass: Mass, rows: int, source: Source) -> NDArray[np.int64]:
    """Draw coded rows by systematic sampling, in random order.

    Law: the number of rows of every cell is floor(rows * w) or one more, with mean rows * w.

    >>> from sidelight.synthesis.cells.domain import Domain
    >>> mass = Mass.of(Domain(("sex",), (2,)), np.array([0.25, 0.75]), size=100)
    >>> with Source(PublicEntropy("example")) as source:
    ...     np.bincount(sample_codes(mass, 8, source)[:, 0]).tolist()
    [2, 6]
    """
    if isinstance(rows, bool) or int(rows) != rows or not 0 <= rows <= MOST_ROWS:
        raise RangeError(f"rows must be a whole number from 0 to {MOST_ROWS}, got {rows!r}")
    total = mass.total
    start = below(total, source)
    steps = np.arange(rows, dtype=np.int64)
    # (start + i * total) / rows, in parts that stay below 2**63
    whole, rest = divmod(total, max(rows, 1))
    high, low = divmod(start, max(rows, 1))
    positions = steps * whole + high + (steps * rest + low) // max(rows, 1)
    order = np.argsort(source.words(rows), kind="stable")
    return mass.codes(positions)[order]
