"""Codes as they come in: blocks that grow without copying, and counts once there are many and they repeat.

`fold`, `merge` and `finish` of ranks: a new buffer is empty, batches are folded in, two buffers merge by putting their
parts together, and `finish` orders everything. A file larger than memory fits if its codes repeat (a declared
granularity); otherwise a code a row is kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.fixed_point import Encoding
from sidelight.aggregates.ranks import Codes, CountedCodes, count_codes, order_codes

#: Rows to a block where their number is not known beforehand.
_BLOCK_ROWS = 1 << 20
#: Try to replace codes by counts when so many are held (128 MB).
_MANY = 1 << 24

Counted = tuple[NDArray[np.int64], NDArray[np.int64]]


class CodeBuffer:
    """Codes of a column: blocks of single codes, and distinct codes with their counts."""

    __slots__ = ("_blocks", "_counted", "_encode", "_limit", "_used")

    def __init__(self, encode: Encoding, *, rows: int = 0) -> None:
        self._encode = encode
        self._blocks = [np.empty(rows, np.int64)]
        self._used = [0]
        self._counted: list[Counted] = []
        self._limit = max(_MANY, rows + 1)

    def fold(self, values: NDArray[np.float64]) -> None:
        """Encode the values of a batch straight into the buffer."""
        if len(self._blocks[-1]) - self._used[-1] < len(values):
            self._blocks.append(np.empty(max(_BLOCK_ROWS, len(values)), np.int64))
            self._used.append(0)
        self._used[-1] += self._encode.codes_into(values, self._blocks[-1][self._used[-1] :])
        self._compact()

    def fold_codes(self, codes: NDArray[np.int64]) -> None:
        """Add codes that are already bounded."""
        self._blocks.append(codes)
        self._used.append(len(codes))
        self._compact()

    def merge(self, other: CodeBuffer) -> CodeBuffer:
        """Return the buffer of both. Folding into it leaves the two parts as they are."""
        both = CodeBuffer(self._encode)
        both._blocks = [*self._blocks, *other._blocks, np.empty(0, np.int64)]
        both._used = [*self._used, *other._used, 0]
        both._counted = self._counted + other._counted
        return both

    def finish(self) -> Codes:
        """Order all codes; the buffer is empty afterwards."""
        counted, self._counted = self._counted, []
        codes = self._take()
        if not counted:
            return order_codes(codes)
        return CountedCodes(*_sum_counts([*counted, _count(codes)]))

    def _compact(self) -> None:
        """Replace codes by counts where there are far fewer; look again only after as many again."""
        if sum(self._used) < self._limit:
            return
        codes = self._take()
        counted = _count(codes)
        if 4 * len(counted[0]) <= len(codes):
            self._counted = [_sum_counts([*self._counted, counted])]
        else:
            self._blocks, self._used = [codes, np.empty(0, np.int64)], [len(codes), 0]
            self._limit = 2 * len(codes)

    def _take(self) -> NDArray[np.int64]:
        """Return all single codes in one array and forget them."""
        blocks, used = self._blocks, self._used
        self._blocks, self._used = [np.empty(0, np.int64)], [0]
        if len(blocks) == 1:
            return blocks[0][: used[0]]
        codes = np.empty(sum(used), np.int64)
        place = len(codes)
        while blocks:  # each block is freed as it is copied: the peak stays near one copy
            block, count = blocks.pop(), used.pop()
            codes[place - count : place] = block[:count]
            place -= count
        return codes

    def __repr__(self) -> str:
        return "CodeBuffer(private)"


def _count(codes: NDArray[np.int64]) -> Counted:
    """Count codes of any range. The array is sorted or, where its range is small, left as it was."""
    low = int(codes.min()) if len(codes) else 0
    counted = count_codes(codes)
    if counted is not None:
        codes += low
        return counted
    codes.sort()
    starts = np.flatnonzero(np.diff(codes, prepend=codes[:1] - 1))
    return codes[starts], np.diff(starts, append=len(codes))


def _sum_counts(parts: list[Counted]) -> Counted:
    """Add the counts of equal codes."""
    codes = np.concatenate([part[0] for part in parts])
    counts = np.concatenate([part[1] for part in parts])
    order = np.argsort(codes, kind="stable")
    codes, counts = codes[order], counts[order]
    starts = np.flatnonzero(np.diff(codes, prepend=codes[:1] - 1))
    return codes[starts], np.add.reduceat(counts, starts) if len(starts) else counts
