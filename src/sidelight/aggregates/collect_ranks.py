"""Read a column once and order its codes: from memory through one buffer, from elsewhere in batches or as counts."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from sidelight.aggregates.code_buffer import CodeBuffer
from sidelight.aggregates.coding import Coding, NumberCoding
from sidelight.aggregates.collect import coded_frame, coded_rows
from sidelight.aggregates.fixed_point import Encoding, FixedPoint
from sidelight.aggregates.float_codes import FloatCodes
from sidelight.aggregates.groups import Groups
from sidelight.aggregates.label_groups import labelled_rows
from sidelight.aggregates.ranks import Codes, CountedCodes, DitheredRanks, order_codes
from sidelight.errors import SchemaError
from sidelight.grid import Grid, Outcomes
from sidelight.noise import Source
from sidelight.records import Number, Table
from sidelight.records.quiet import quietly
from sidelight.records.rows import Wanted

#: A grid with so few codes has many rows a code.
_FEW_CODES = 1 << 20


def collect_ranks(
    table: Table, column: str, grid: Outcomes, source: Source, *, groups: Groups | None = None
) -> DitheredRanks:
    """Read a number column in one pass and return its ranks on a public grid.

    Guarantee: one protected unit adds or takes away at most `table.schema.rows_per_unit` records. A record's code
    depends on that record alone. Nothing about the values raises.

    Args:
        table: the rows and their schema.
        column: a declared `Number`.
        grid: the public grid; the column's bounds clamp before the grid's ends do.
        source: where the dither comes from; asked when ranks are.
        groups: which rows count, and how many of a unit, whatever their group: at most `groups.norms.total` of one.
    """
    if groups is not None:
        coding = NumberCoding(column, encoding_of(table.schema.number(column), grid))
        return DitheredRanks(collect_codes(table, coding, groups), grid, source)
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


def collect_group_ranks(
    table: Table, column: str, grid: Outcomes, source: Source, *, groups: Groups
) -> tuple[DitheredRanks, ...]:
    """Read a number column in one pass and return its ranks in each declared group, in the order of the cells.

    Guarantee: one unit adds or takes away at most `groups.norms.total` records in all, in at most `groups.norms.l0`
    groups, at most `groups.norms.linf` in each.
    """
    if groups.label is not None:
        raise SchemaError("ranks by group need declared labels; declare a Category")
    encode = encoding_of(table.schema.number(column), grid)
    cells, codes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    coding = groups.coding(NumberCoding(column, encode))
    for *axes, code in coded_rows(table, coding, cap=groups.cap):
        cell = np.zeros(len(code), np.int64)
        for axis, size in zip(axes, groups.shape, strict=True):
            cell = cell * size + axis
        cells.append(cell)
        codes.append(code)
    all_cells, all_codes = np.concatenate(cells), np.concatenate(codes)
    order = np.argsort(all_cells, kind="stable")
    ends = np.searchsorted(all_cells[order], np.arange(groups.cells + 1))
    return tuple(
        DitheredRanks(order_codes(all_codes[order[start:end]]), grid, source) for start, end in pairwise(ends.tolist())
    )


def collect_codes(table: Table, coding: Coding, groups: Groups) -> Codes:
    """Return the codes of a number in all rows that count, in order: of totals, where the groups are of totals.

    Guarantee: one unit adds or takes away at most `groups.norms.total` of them.
    """
    whole = groups.coding(coding)
    buffer = CodeBuffer(FixedPoint.on_grid(Number("x"), Grid(resolution=Fraction(1))), rows=0)
    if groups.label is None:
        for *_, codes in coded_rows(table, whole, cap=groups.cap, totals=groups.totals):
            buffer.fold_codes(np.array(codes, np.int64))
    else:
        buffer.fold_codes(labelled_rows(table, groups, whole)[1][-1])
    return buffer.finish()


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
