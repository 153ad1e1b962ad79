"""Read a column once and order its codes: from memory through one buffer, from an engine through counts or a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import NumberCoding
from sidelight.aggregates.collect import coded_frame, coded_rows
from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.aggregates.ranks import Codes, CountedCodes, DitheredRanks, order_codes
from sidelight.grid import Grid
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.records.quiet import quietly
from sidelight.records.rows import Wanted

#: Rows to a block where their number is not known beforehand.
_BLOCK_ROWS = 1 << 20
#: A grid with so few codes is counted by the engine.
_FEW_CODES = 1 << 20


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

    def fold_codes(self, codes: NDArray[np.int64]) -> None:
        """Add codes that are already bounded."""
        self._blocks.append(codes)
        self._used.append(len(codes))

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
    coding = NumberCoding(column, FixedPoint.on_grid(table.schema.number(column), grid))
    if table.rows.length is None and _is_coarse(grid):
        frame, (code,) = coded_frame(table, coding)
        return DitheredRanks(quietly(lambda: _counted(frame, code)), grid, source)
    buffer = CodeBuffer(coding.encode, rows=table.rows.length or 0)
    if table.schema.person is None:
        for batch in table.rows.batches(Wanted(numbers=(column,))):
            buffer.fold(batch.numbers[column])
    else:
        for (codes,) in coded_rows(table, coding):
            buffer.fold_codes(codes)
    return DitheredRanks(buffer.finish(), grid, source)


def _is_coarse(grid: Grid) -> bool:
    """Expect many rows a code, so that an engine's counts are far fewer than its rows."""
    return grid.snap == "nearest" or grid.last - grid.first < _FEW_CODES


def _counted(frame: Any, code: str) -> Codes:
    """Let the engine count each code."""
    import narwhals.stable.v2 as nw

    found = frame.group_by(code).agg(nw.len().alias("rows")).collect()
    codes, counts = found[code].to_numpy(), found["rows"].to_numpy().astype(np.int64)
    order = np.argsort(codes)
    return CountedCodes(codes[order], counts[order])
