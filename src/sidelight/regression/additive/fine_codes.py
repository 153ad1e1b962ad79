"""Rows of an additive model as integers: one fine code per column, made row by row from public declarations.

A number has the code c of the linear encoding, -2²⁰..2²⁰, and a fine code of 1024 cells of even width; a missing one
has a cell of its own, recognised by the mask and never by c. A category has the place of its label. Lines see c, every
other release the fine codes alone, so that whatever a row adds is looked up in public tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.coding import CodeArrays, Coding, CombinedCoding, Keep
from sidelight.aggregates.collect import coded_rows, rows_that_count
from sidelight.records import Category, Number, Table
from sidelight.records.rows import Batch, Wanted
from sidelight.records.source_protocols import DistributedRows
from sidelight.regression.descent.distributed_rows import DistributedExamples
from sidelight.regression.descent.integer_rows import Integers
from sidelight.regression.descent.mapped_rows import KEPT_BYTES, summed
from sidelight.regression.descent.row_sums import CodedPasses, CodedSum
from sidelight.regression.rows import Admits, Block, RowPolicy, StreamedRows
from sidelight.regression.table_rows import LEVELS, ExampleDecoder, RowEncoder, coding_of, scaled_number

#: Fine cells of a number; the code of a missing one comes after them.
FINE_CELLS = 1024
_SHIFT = 11
#: The integer of a missing number; others are in -LEVELS..LEVELS.
MISSING = LEVELS + 1
#: Labels of a category: its places are written in two bytes.
MOST_LABELS = 1 << 14


@dataclass(frozen=True)
class NumberOrMissing(Coding):
    """A number of a public range, as in the linear encoding, and `MISSING` for none: no row is left out."""

    scaled: ClippedVector

    @property
    def numbers(self) -> tuple[str, ...]:
        return self.scaled.numbers

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return ((-LEVELS, MISSING),)

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        (code,), kept = self.scaled.kernel(batch)
        return (code if kept is None else np.where(kept, code, MISSING),), None

    def lower(self, frame: Any, wanted: Wanted, names: Sequence[str]) -> tuple[Any, Any]:
        import narwhals.stable.v2 as nw

        frame, kept = self.scaled.lower(frame, wanted, names)
        if kept is None:
            return frame, None
        code = nw.when(kept).then(nw.col(names[0])).otherwise(nw.lit(MISSING, nw.Int64))
        return frame.with_columns(code.alias(names[0])), None


def fine_code(code: Integers) -> Integers:
    """Return the fine code of a number's integer: 0..1023, or 1024 for a missing one.

    >>> fine_code(np.array([-LEVELS, 0, LEVELS, MISSING])).tolist()
    [0, 512, 1023, 1024]
    """
    found = np.minimum((code + LEVELS) >> _SHIFT, FINE_CELLS - 1)
    return np.where(code == MISSING, FINE_CELLS, found)


def fine_size(column: Number | Category) -> int:
    """Return how many fine codes a column has."""
    return FINE_CELLS + 1 if isinstance(column, Number) else len(column.labels)


@dataclass(frozen=True)
class LineEncoder(RowEncoder):
    """The linear encoding, in which a missing number counts as the middle of its range unless its rows are dropped."""

    keep_missing: bool = True

    @cached_property
    def codings(self) -> tuple[Coding, ...]:
        """How each column becomes integers."""
        return tuple(
            NumberOrMissing(scaled_number(column))
            if isinstance(column, Number) and column.fill is None and self.keep_missing
            else coding_of(column)
            for column in self.columns
        )

    def rows(self, codes: CodeArrays) -> Iterator[Any]:
        """Return the rows of coded columns, dense or CSR, in blocks of bounded size."""
        known = (
            np.where(code == MISSING, 0, code) if isinstance(column, Number) else code
            for column, code in zip(self.columns, codes, strict=True)
        )
        yield from super().rows(tuple(known))


@dataclass(frozen=True)
class FineEncoder(LineEncoder):
    """The fine codes of rows, (rows, columns) in two bytes each."""

    def rows(self, codes: CodeArrays) -> Iterator[Any]:
        """Return the fine codes of coded columns."""
        out = np.empty((len(codes[0]), len(self.columns)), np.int16, order="F")
        for place, (column, code) in enumerate(zip(self.columns, codes, strict=True)):
            out[:, place] = fine_code(code) if isinstance(column, Number) else code
        yield out


@dataclass(frozen=True, kw_only=True)
class FinePolicy:
    """Which rows take part, by their targets alone: fine codes are bounded as they are."""

    loss: Admits

    def block(self, rows: Any, labels: Any) -> Block:
        """Return the rows whose target is a finite number or a declared class."""
        targets, known = self.loss.admit(labels)
        if not known.all():
            rows, targets = np.asfortranarray(rows[known]), targets[known]
        return Block(rows, None, targets, np.empty((len(targets), 0)))


class FineRows:
    """Fine codes and targets on this machine, kept where they fit: PRIVATE."""

    def __init__(self, rows: StreamedRows) -> None:
        self._rows = rows

    def added_up(self, statistic: CodedSum) -> Integers:
        """Return the sum over all rows, in one pass."""
        blocks = self._rows.blocks()
        return summed(lambda block: statistic(block.features, block.targets), blocks, statistic.shape)

    def __repr__(self) -> str:
        return "FineRows()"


@dataclass(frozen=True, repr=False)
class AdditiveExamples:
    """Columns and target of a table's rows, at most `max_rows` of a person, not yet looked at.

    Args:
        columns: The declared columns.
        target: The column to predict.
        labels: What each code of a category stands for, None where its rows take no part; None for a number.
        keep_missing: Whether a missing number has a cell of its own; else its row takes no part.
        own: Rows of arrays, which are not those of the session's table; None for columns of that table.
    """

    columns: tuple[Number | Category, ...]
    target: Number | Category
    labels: tuple[Any, ...] | None
    keep_missing: bool = True
    own: Table | None = None

    def __post_init__(self) -> None:
        _ = self.coding  # public work, done before anything is charged

    @cached_property
    def coding(self) -> Coding:
        """How a row becomes integers: its columns, then its target."""
        return CombinedCoding((*self.line_encoder.codings, coding_of(self.target)))

    @cached_property
    def line_encoder(self) -> LineEncoder:
        """Rows of the line stage."""
        return LineEncoder(self.columns, keep_missing=self.keep_missing)

    @cached_property
    def fine_encoder(self) -> FineEncoder:
        """Rows of all other stages."""
        return FineEncoder(self.columns, keep_missing=self.keep_missing)

    def for_lines(self, table: Table, policy: RowPolicy) -> StreamedRows | DistributedExamples:
        """Return the bounded rows of the line stage."""
        decoder, source = ExampleDecoder(self.line_encoder, self.target, self.labels), self.own or table
        if isinstance(source.rows, DistributedRows):
            return DistributedExamples(source.rows, rows_that_count(source, self.coding), decoder, policy)
        return StreamedRows(lambda: decoder(coded_rows(source, self.coding)), policy=policy)

    def batches(self, table: Table) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Return rows of the line encoding and their targets."""
        return ExampleDecoder(self.line_encoder, self.target, self.labels)(coded_rows(table, self.coding))

    def blocks(self, table: Table, targets: Admits) -> Iterator[Block]:
        """Return the fine codes and coded targets of the rows that take part."""
        policy = FinePolicy(loss=targets)
        decoder = ExampleDecoder(self.fine_encoder, self.target, self.labels)
        for features, labels in decoder(coded_rows(table, self.coding)):
            yield policy.block(features, labels)

    @contextmanager
    def fine(self, table: Table, targets: Admits) -> Iterator[CodedPasses]:
        """Return the fine codes for the passes of one fit; what workers keep is dropped at its end."""
        decoder, source = ExampleDecoder(self.fine_encoder, self.target, self.labels), self.own or table
        policy: Any = FinePolicy(loss=targets)
        if isinstance(source.rows, DistributedRows):
            there = DistributedExamples(source.rows, rows_that_count(source, self.coding), decoder, policy)
            with there.coded(data_norm=None, dense=True) as kept:
                yield kept
            return
        rows = StreamedRows(lambda: decoder(coded_rows(source, self.coding)), policy=policy, keep_bytes=KEPT_BYTES)
        yield FineRows(rows)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"AdditiveExamples({len(self.columns)} columns)"


def prediction_codes(
    columns: Sequence[Number | Category], table: Table, *, keep_missing: bool = True
) -> NDArray[np.int64]:
    """Return the fine codes of new rows, (rows, columns): no row is left out.

    A missing number has its cell, or the middle of its range where rows without one took no part; a label that is not
    listed has the code -1.
    """
    wanted = CombinedCoding(tuple(coding_of(column) for column in columns))
    parts = []
    for batch in table.rows.batches(Wanted(numbers=wanted.numbers, texts=wanted.texts)):
        found = []
        for column in columns:
            (code,), kept = coding_of(column).kernel(batch)
            if isinstance(column, Number):
                code = fine_code(code if kept is None else np.where(kept, code, MISSING if keep_missing else 0))
            found.append(code)
        parts.append(np.stack(found, axis=1))
    return np.concatenate(parts) if parts else np.empty((0, len(columns)), np.int64)
