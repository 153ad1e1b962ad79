"""Read a column once and order its codes: from memory through one buffer, from elsewhere in batches or as counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from sidelight.aggregates.code_buffer import CodeBuffer
from sidelight.aggregates.coding import NumberCoding
from sidelight.aggregates.collect import coded_frame, coded_rows
from sidelight.aggregates.fixed_point import Encoding, FixedPoint
from sidelight.aggregates.float_codes import FloatCodes
from sidelight.aggregates.ranks import Codes, CountedCodes, DitheredRanks
from sidelight.grid import Grid, Outcomes
from sidelight.noise import Source
from sidelight.records import Number, Table
from sidelight.records.quiet import quietly
from sidelight.records.rows import Wanted

#: A grid with so few codes has many rows a code.
_FEW_CODES = 1 << 20


def collect_ranks(table: Table, column: str, grid: Outcomes, source: Source) -> DitheredRanks:
    """Read a number column in one pass and return its ranks on a public grid.

    Guarantee: one protected unit adds or takes away at most `table.schema.rows_per_unit` records. A record's code
    depends on that record alone. Nothing about the values raises.

    Args:
        table: the rows and their schema.
        column: a declared `Number`.
        grid: the public grid; the column's bounds clamp before the grid's ends do.
        source: where the dither comes from; asked when ranks are.
    """
    coding = NumberCoding(column, encoding_of(table.schema.number(column), grid))
    if not table.rows.streams and table.rows.length is None and _is_coarse(grid):
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


def encoding_of(number: Number, grid: Outcomes) -> Encoding:
    """Return how the values of a column become codes of a grid."""
    return FixedPoint.on_grid(number, grid) if isinstance(grid, Grid) else FloatCodes.on_grid(number, grid)


def _is_coarse(grid: Outcomes) -> bool:
    """Expect many rows a code, so that an engine's counts are far fewer than its rows."""
    return (isinstance(grid, Grid) and grid.snap == "nearest") or grid.last - grid.first < _FEW_CODES


def _counted(frame: Any, code: str) -> Codes:
    """Let the engine count each code."""
    import narwhals.stable.v2 as nw

    found = frame.group_by(code).agg(nw.len().alias("rows")).collect()
    codes, counts = found[code].to_numpy(), found["rows"].to_numpy().astype(np.int64)
    order = np.argsort(codes)
    return CountedCodes(codes[order], counts[order])
