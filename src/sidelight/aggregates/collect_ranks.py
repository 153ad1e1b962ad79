"""Read a column once and order its codes: from memory through one buffer, from an engine through counts or a stream."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.aggregates.ranks import Codes, DitheredRanks, order_codes
from sidelight.grid import Grid
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.records.rows import BATCH_ROWS, Wanted

#: Rows to a block where their number is not known beforehand.
_BLOCK_ROWS = 1 << 20


class CodeBuffer:
    """Codes in blocks that grow without copying: one block where the number of rows is known.

    `empty`, `fold`, `merge` and `finish` of ranks: a buffer is empty at first, batches are folded in, two buffers merge
    by putting their blocks together, and `finish` orders them all.
    """

    __slots__ = ("_blocks", "_encode", "_used")

    def __init__(self, encode: FixedPoint, *, rows: int = 0) -> None:
        self._encode = encode
        self._blocks = [np.empty(rows, np.int64)]
        self._used = [0]

    def fold(self, values: NDArray[np.float64]) -> None:
        """Add the values of a batch."""
        if self._blocks[-1].shape[0] - self._used[-1] < values.shape[0]:
            self._blocks.append(np.empty(max(_BLOCK_ROWS, values.shape[0]), np.int64))
            self._used.append(0)
        self._used[-1] += self._encode.codes_into(values, self._blocks[-1][self._used[-1] :])

    def merge(self, other: CodeBuffer) -> CodeBuffer:
        """Return the buffer of both."""
        both = CodeBuffer(self._encode)
        both._blocks = self._blocks + other._blocks
        both._used = self._used + other._used
        # The last block may be written to: start a new one, so that folding into the result leaves both parts alone.
        both._blocks.append(np.empty(0, np.int64))
        both._used.append(0)
        return both

    def finish(self) -> Codes:
        """Order all codes; the buffer is empty afterwards."""
        blocks, used = self._blocks, self._used
        self._blocks, self._used = [np.empty(0, np.int64)], [0]
        if len(blocks) == 1:
            return order_codes(blocks[0][: used[0]])
        codes = np.empty(sum(used), np.int64)
        place = codes.shape[0]
        while blocks:  # free each block as it is copied: the peak stays near one copy
            block, count = blocks.pop(), used.pop()
            codes[place - count : place] = block[:count]
            place -= count
        return order_codes(codes)

    def __repr__(self) -> str:
        return "CodeBuffer(private)"


def collect_ranks(table: Table, column: str, grid: Grid, source: Source) -> DitheredRanks:
    """Read a number column in one pass and return its ranks on a public grid.

    Guarantee: one protected unit adds or takes away at most `table.schema.rows_per_unit` records. A record's code
    depends on that record alone. Nothing about the values raises.

    Args:
        table: the rows and their schema.
        column: a declared `Number`.
        grid: the public grid; the column's bounds clamp before the grid's ends do.
        source: where the dither comes from; asked when ranks are.
    """
    encode = FixedPoint.on_grid(table.schema.number(column), grid)
    wanted = Wanted(numbers=(column,))
    buffer = CodeBuffer(encode, rows=table.rows.length or 0)
    for batch in table.rows.batches(wanted, rows=BATCH_ROWS):
        buffer.fold(batch.numbers[column])
    return DitheredRanks(buffer.finish(), grid, source)
