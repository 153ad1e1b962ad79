"""Read a column once and order its codes, in all rows or in each group of rows held in memory.

Sums of numbers that are clipped to an interval of the group's own use the same rows: codes of such intervals all have
the same number of levels, so that one sensitivity fits the sums of all groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Norm
from sidelight.aggregates.coding import Coding, NumberCoding, cells_of
from sidelight.aggregates.collect import coded_frame, coded_rows, reduced_in_parallel, rows_that_count
from sidelight.aggregates.fixed_point import FixedPoint, FloatCodes, NumberEncoding
from sidelight.aggregates.group_sums import GroupStatistics, Kind, Whole, chunk_sums, statistics_of
from sidelight.aggregates.groups import Groups, labelled_rows, present_groups
from sidelight.aggregates.ranks import (
    CountedCodes,
    DitheredRanks,
    OrderedCodes,
    SortedFloats,
    count_codes,
    order_codes,
)
from sidelight.aggregates.remote_codes import fits_in_groups, remote_codes, remote_codes_by_group
from sidelight.aggregates.values import LEVELS, Value
from sidelight.grid import DROPPED_BITS, FloatGrid, Grid, Outcomes
from sidelight.noise import Source
from sidelight.records import Number, Table
from sidelight.records.rows import Batch, Wanted, collected, hide_engine_errors
from sidelight.records.source_protocols import DistributedRows, ReadsInParallel

# Codes as they come in: blocks that grow without copying, and counts once there are many and they repeat.
#
# `fold`, `merge` and `finish` of ranks: a new buffer is empty, batches are folded in, two buffers merge by putting
# their parts together, and `finish` orders everything. A file larger than memory fits if its codes repeat (a
# declared granularity); otherwise a code a row is kept.

#: Rows per block where their number is not known beforehand.
_BLOCK_ROWS = 1 << 20

#: Try to replace codes by counts when this many are held (128 MB).
_MANY = 1 << 24
Counted = tuple[NDArray[np.int64], NDArray[np.int64]]


class CodeBuffer:
    """Codes of a column: blocks of single codes, and distinct codes with their counts."""

    __slots__ = ("_blocks", "_counted", "_encode", "_limit", "_used")

    def __init__(self, encode: NumberEncoding, *, rows: int = 0, buffers: int = 1) -> None:
        self._encode = encode
        self._blocks = [np.empty(rows, np.int64)]
        self._used = [0]
        self._counted: list[Counted] = []
        self._limit = max(_MANY // buffers, rows + 1)

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

    def finish(self) -> OrderedCodes:
        """Order all codes; the buffer is empty afterwards."""
        counted, self._counted = self._counted, []
        codes = self._take()
        if not counted:
            return order_codes(codes)
        return CountedCodes(*_sum_counts([*counted, _count(codes)]))

    def _compact(self) -> None:
        """Replace codes by counts where there are far fewer; otherwise try again after as many more."""
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


#: A grid with at most this many codes has many rows per code.
_FEW_CODES = 1 << 20


def collect_ranks(
    table: Table, column: str, grid: Outcomes, source: Source, *, groups: Groups | None = None
) -> DitheredRanks:
    """Read a number column in one pass and return its ranks on a public grid.

    Guarantee: one protected unit adds or takes away at most `table.schema.rows_per_unit` records. A record's code
    depends on that record alone. Nothing about the values raises.

    Args:
        table: The rows and their schema.
        column: A declared `Number`.
        grid: The public grid; the column's bounds clamp before the grid's ends do.
        source: The source of the dither.
        groups: Which rows count, at most `groups.norms.total` of a unit in all groups together.
    """
    number = table.schema.number(column)
    coding = NumberCoding(column, encoding_of(number, grid))
    if groups is not None:
        return DitheredRanks(collect_codes(table, coding, groups), grid, source)
    if isinstance(table.rows, DistributedRows):
        return DitheredRanks(remote_codes(table.rows, rows_that_count(table, coding)), grid, source)
    if (
        isinstance(grid, FloatGrid)
        and table.rows.length is not None
        and number.fill is None
        and table.schema.person is None
    ):
        return DitheredRanks(_sorted_floats(table, column, grid, table.rows.length), grid, source)
    if not table.rows.streams and table.rows.length is None and _is_coarse(grid):
        frame, (code,) = coded_frame(table, coding)
        return DitheredRanks(hide_engine_errors(lambda: _counted(frame, code), rows=table.rows), grid, source)
    if table.schema.person is None and isinstance(table.rows, ReadsInParallel):
        streams = table.rows.in_parallel(Wanted(numbers=(column,)))

        def folded(stream: Iterator[Batch]) -> CodeBuffer:
            own = CodeBuffer(coding.encode, buffers=len(streams))
            for batch in stream:
                own.fold(batch.numbers[column])
            return own

        whole = reduce(CodeBuffer.merge, reduced_in_parallel(streams, folded))
        return DitheredRanks(whole.finish(), grid, source)
    buffer = CodeBuffer(coding.encode, rows=table.rows.length or 0)
    if table.schema.person is None:
        for batch in table.rows.batches(Wanted(numbers=(column,))):
            buffer.fold(batch.numbers[column])
    else:
        for (codes,) in coded_rows(table, coding):
            buffer.fold_codes(codes)
    return DitheredRanks(buffer.finish(), grid, source)


def _sorted_floats(table: Table, column: str, grid: FloatGrid, rows: int) -> SortedFloats:
    """Copy a column that is in memory, and sort it: on a grid of floats nothing else is done to every record."""
    values = np.empty(rows, np.float64)
    used = 0
    for batch in table.rows.batches(Wanted(numbers=(column,))):
        found = batch.numbers[column]
        if used + len(found) > len(values):  # the rows of a view are not known before they are made
            values = np.concatenate([values[:used], np.empty(max(used, len(found)), np.float64)])
        values[used : used + len(found)] = found
        used += len(found)
    return SortedFloats(values[:used], grid)


def collect_group_ranks(
    table: Table, column: str, grid: Outcomes, source: Source, *, groups: Groups
) -> tuple[DitheredRanks, ...]:
    """Read a number column in one pass and return its ranks in each declared group, in the order of the cells.

    Guarantee: one unit adds or takes away at most `groups.norms.total` records in all, in at most `groups.norms.l0`
    groups, at most `groups.norms.linf` in each.
    """
    coding = NumberCoding(column, encoding_of(table.schema.number(column), grid))
    return ranks_by_group(table, coding, grid, source, groups=groups)


def ranks_by_group(
    table: Table, coding: Coding, grid: Outcomes, source: Source, *, groups: Groups
) -> tuple[DitheredRanks, ...]:
    """Return the ranks of any coded number in each declared group, in the order of the cells.

    Guarantee: that of `collect_group_ranks`.
    """
    if isinstance(table.rows, DistributedRows):
        counted = rows_that_count(table, groups.coding(coding), cap=groups.cap)
        return tuple(
            DitheredRanks(each, grid, source) for each in remote_codes_by_group(table.rows, counted, groups.shape)
        )
    return rows_by_group(table, groups, [coding]).ranks(0, grid, source)


def is_additive_by_group(coding: Coding, groups: Groups) -> bool:
    """Return whether distributed rows give ranks by group: labels are declared, and all codes fit into 63 bits."""
    return groups.label is None and not groups.totals and fits_in_groups(coding, groups.shape)


def collect_codes(table: Table, coding: Coding, groups: Groups) -> OrderedCodes:
    """Return the codes of a number in all rows that count, in order: of totals, where the groups are of totals.

    Guarantee: one unit adds or takes away at most `groups.norms.total` of them.
    """
    whole = groups.coding(coding)
    if isinstance(table.rows, DistributedRows) and groups.label is None:
        return remote_codes(table.rows, rows_that_count(table, whole, cap=groups.cap, totals=groups.totals))
    buffer = CodeBuffer(FixedPoint.on_grid(Number("x"), Grid(resolution=Fraction(1))), rows=0)
    if groups.label is None:
        for *_, codes in coded_rows(table, whole, cap=groups.cap, totals=groups.totals):
            buffer.fold_codes(np.array(codes, np.int64))
    else:
        buffer.fold_codes(labelled_rows(table, groups, whole)[1][-1])
    return buffer.finish()


def encoding_of(number: Number, grid: Outcomes) -> NumberEncoding:
    """Return how the values of a column become codes of a grid."""
    return FixedPoint.on_grid(number, grid) if isinstance(grid, Grid) else FloatCodes.on_grid(number, grid)


def _is_coarse(grid: Outcomes) -> bool:
    """Return whether to expect many rows per code, so that an engine's counts are far fewer than its rows."""
    return (isinstance(grid, Grid) and grid.snap == "nearest") or grid.last - grid.first < _FEW_CODES


def _counted(frame: Any, code: str) -> OrderedCodes:
    """Let the engine count each code."""
    import narwhals.stable.v2 as nw

    found = collected(frame.group_by(code).agg(nw.len().alias("rows")))
    codes, counts = found[code].to_numpy(), found["rows"].to_numpy().astype(np.int64)
    order = np.argsort(codes)
    return CountedCodes(codes[order], counts[order])


Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class GroupRows:
    """The rows that count: the index of each row's group among the requested ones, and its codes. Private.

    Guarantee: one unit adds or takes away rows as `groups.norms` says.
    """

    groups: Groups
    size: int
    places: Whole
    codes: tuple[Whole, ...]

    @cached_property
    def _order(self) -> tuple[NDArray[np.intp], list[int]]:
        """The rows by group, and where each group begins."""
        order = np.argsort(self.places, kind="stable")
        return order, np.searchsorted(self.places[order], np.arange(self.size + 1)).tolist()

    def ranks(self, of: int, grid: Outcomes, source: Source) -> tuple[DitheredRanks, ...]:
        """Return the ranks of one of the numbers in each group."""
        order, ends = self._order
        codes = self.codes[of]
        return tuple(DitheredRanks(order_codes(codes[order[start:end]]), grid, source) for start, end in pairwise(ends))

    def clipped(self, of: int, grid: Outcomes, value: Value, lower: Floats, upper: Floats) -> Whole:
        """Return the code of each row in the interval of its group: 0..M, whatever the row holds.

        Args:
            of: The index of the number.
            grid: The grid of its codes.
            value: The levels of the interval (`level_value`), or of -farthest..farthest if signed.
            lower, upper: The ends of each group's interval, public or released.
        """
        low, high = lower[self.places], upper[self.places]
        numbers = np.minimum(np.maximum(numbers_of(grid, self.codes[of]), low), high)
        if value.first == 0:
            share = (numbers - low) / (high - low)
        else:
            share = numbers / np.maximum(np.abs(low), np.abs(high)) / 2 + 0.5
        found: Whole = np.floor(share * value.levels + 0.5).astype(np.int64)
        return np.minimum(np.maximum(found, 0), value.levels)

    def statistics(
        self, values: Sequence[Value], codes: Sequence[Whole], *, kind: Kind, norm: Norm = "l1"
    ) -> GroupStatistics:
        """Add up statistics of codes of 0..M by group, as `group_statistics` does.

        Guarantee: that of `group_statistics`: a row has the norm of its value's levels in whichever group it is.
        """
        state = chunk_sums(self.groups, values, kind, self.size, self.places, codes)
        return statistics_of(self.groups, state, values, kind=kind, norm=norm)

    def __repr__(self) -> str:
        return "GroupRows(private)"


def rows_by_group(
    table: Table, groups: Groups, codings: Sequence[Coding], *, only: Sequence[tuple[str, ...]] | None = None
) -> GroupRows:
    """Read the rows that count in one pass: all declared groups, or those of the keys `only`, public by now."""
    whole = groups.coding(*codings)
    width = len(groups.axes)
    if groups.label is None:
        parts = list(coded_rows(table, whole, cap=groups.cap, totals=groups.totals))
        none = np.empty(0, np.int64)
        columns = [np.concatenate([none, *(part[at] for part in parts)]) for at in range(width + len(codings))]
        places = cells_of(columns, groups.shape, len(columns[-1]))
        return GroupRows(groups, groups.cells, places, tuple(columns[width:]))
    assert only is not None
    names, rows = labelled_rows(table, groups, whole)
    keys, found = present_groups(groups, names, rows)
    at = {tuple(key): place for place, key in enumerate(only)}
    places = np.array([at.get(key, -1) for key in keys], np.int64)[found] if keys else found
    shown = places >= 0
    return GroupRows(groups, len(only), places[shown], tuple(code[shown] for code in rows[width + 1 :]))


def level_value(coding: Coding, *, signed: bool = False) -> Value:
    """Return a number clipped to an interval of each group as codes of that interval: 0..2**30.

    If signed, codes stand for -farthest..farthest instead, 2**29 levels each way.
    """
    first, last = (-LEVELS // 2, LEVELS // 2) if signed else (0, LEVELS)
    return Value(coding=coding, step=Fraction(1), first=first, last=last)


def numbers_of(grid: Outcomes, codes: Whole) -> Floats:
    """Return the numbers that codes of rows stand for; of a grid of floats the double of a code with zeros at the end.

    >>> from sidelight.grid import FloatGrid, float_code
    >>> numbers_of(FloatGrid(), np.array([float_code(x) for x in (-2.5, 0.0, 1.5, 1024.0)])).tolist()
    [-2.5, 0.0, 1.5, 1024.0]
    """
    if isinstance(grid, Grid):
        return np.asarray(codes * float(grid.resolution))
    sizes = np.ascontiguousarray(np.abs(codes) << DROPPED_BITS).view(np.float64)
    return np.asarray(np.where(codes < 0, -sizes, sizes))
