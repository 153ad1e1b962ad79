"""How a row becomes a few bounded integers, the only thing a statistic sees of it.

A coding reads some columns and gives, for each row, `len(ranges)` integers within public ranges, or drops the row. The
kernel codes a batch of NumPy arrays, `lower` lets an engine do it, and both give the same integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.fixed_point import NumberEncoding
from sidelight.records import Category, Column, Label, Number, Schema
from sidelight.records.expressions import Named
from sidelight.records.rows import Batch, DistinctTexts, Wanted

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    Frame: TypeAlias = nw.LazyFrame[Any]

#: One array of codes for each range, all of one length.
CodeArrays = tuple[NDArray[np.int64], ...]
Keep = NDArray[np.bool_] | None


class Coding(Protocol):
    """A record-wise map from columns to integers. Unless overridden it reads no column and drops no row."""

    @property
    def numbers(self) -> tuple[str, ...]:
        """The number columns that it reads."""
        return ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The text columns that it reads."""
        return ()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The public range of each integer, both ends included."""

    @property
    def drops(self) -> bool:
        """Whether some rows may be left out."""
        return False

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        """Return codes for every row, and which rows stay (None: all). Codes of dropped rows mean nothing."""

    @property
    def mark_ranges(self) -> tuple[tuple[int, int], ...]:
        """The public range of each mark."""
        return ()

    def marks(self, batch: Batch) -> CodeArrays | None:
        """Return integers that tell the rows of a person apart when some of them are chosen; None: the codes do.

        Where passes with other codes are paid for as one, as with cells that each have their own map and budget, the
        same rows of a person must count in all of them.
        """
        return None

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        """Add the same codes to a frame of `wanted` as columns of these names, and tell which rows stay (None: all).

        A step that later steps use more than once is a column of its own: engines repeat nested expressions.
        """


def column_of(schema: Schema, of: object) -> Column | None:
    """Return the declaration of a column that is given by name; None for a derived one."""
    name = of if isinstance(of, str) else of.name if isinstance(of, Named) else None
    return next((column for column in schema.columns if column.name == name), None)


def both(first: Any, second: Any) -> Any:
    """Return the rows that stay in both masks of arrays or expressions; None keeps all."""
    return second if first is None else first if second is None else first & second


def cells_of(codes: Iterable[NDArray[np.int64]], shape: Sequence[int], rows: int) -> NDArray[np.int64]:
    """Return the cell of each row in an array of this shape, by its codes along the axes."""
    cells: NDArray[np.int64] | None = None
    for code, size in zip(codes, shape, strict=False):
        cells = code if cells is None else cells * size + code
    return np.zeros(rows, np.int64) if cells is None else cells


@dataclass(frozen=True)
class NumberCoding(Coding):
    """A number column in fixed point, or by the patterns of its floats."""

    column: str
    encode: NumberEncoding

    @property
    def numbers(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return ((self.encode.first, self.encode.last),)

    @property
    def drops(self) -> bool:
        """Missing numbers are left out unless a fill value is declared."""
        return self.encode.fill is None

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        values = batch.numbers[self.column]
        codes = np.empty(len(values), np.int64)
        kept = self.encode.keep(values)
        self.encode.all_codes_into(values, codes, kept)
        return (codes,), kept if self.drops else None

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        import narwhals.stable.v2 as nw

        alias = wanted.number_alias(self.column)
        return self.encode.lower(frame, alias, names[0]), self.encode.keep_expression(nw.col(alias))


@dataclass(frozen=True)
class CategoryCoding(Coding):
    """A category column as the places of its labels."""

    category: Category

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.category.name,)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return ((0, len(self.category.labels) - 1),)

    @property
    def drops(self) -> bool:
        """Labels that are not listed, or missing cells, are left out where the declaration says so."""
        return self.category.unknown_code is None or self.category.missing_code is None

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        """Look every label up; -1 stands for a row left out."""
        default = -1 if self.category.unknown_code is None else self.category.unknown_code
        texts = batch.texts[self.category.name]
        if isinstance(texts, DistinctTexts):
            codes = texts.codes(self.category, self._table, default)
        else:
            table, cells = self._table(), texts.tolist()
            codes = np.fromiter(map(table.get, cells, repeat(default)), np.int64, len(cells))
        return (codes,), codes >= 0 if self.drops else None

    def _table(self) -> dict[str | None, int]:
        return self._places

    @cached_property
    def _places(self) -> dict[str | None, int]:  # kept here as well: hashing a million labels takes as long as a batch
        return _codes_of(self.category)

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        import narwhals.stable.v2 as nw

        labels = list(self.category.labels)
        column = nw.col(wanted.text_alias(self.category.name))
        unknown, missing = self.category.unknown_code, self.category.missing_code
        found = column.replace_strict(
            labels, list(range(len(labels))), default=-1 if unknown is None else unknown, return_dtype=nw.Int64
        )
        code = nw.when(column.is_null()).then(nw.lit(-1 if missing is None else missing, nw.Int64)).otherwise(found)
        return frame.with_columns(code.alias(names[0])), nw.col(names[0]) >= 0 if self.drops else None


@lru_cache(maxsize=16)
def _codes_of(category: Category) -> dict[str | None, int]:
    """Return the code of each label, made once: a million labels take a second, and rows come in many batches."""
    missing = category.missing_code
    places: dict[str | None, int] = {label: place for place, label in enumerate(category.labels)}
    return places | {None: -1 if missing is None else missing}


@dataclass(frozen=True)
class EveryRow(Coding):
    """The code 0 for every row. It reads one column, because an engine cannot read none."""

    column: str
    is_number: bool

    @classmethod
    def of(cls, schema: Schema) -> EveryRow:
        """Return the coding that reads the first number column, or else the first text column."""
        numbers = [column.name for column in schema.columns if isinstance(column, Number)]
        texts = [column.name for column in schema.columns if isinstance(column, (Category, Label))]
        return cls((numbers or texts)[0], bool(numbers))

    @property
    def numbers(self) -> tuple[str, ...]:
        return (self.column,) if self.is_number else ()

    @property
    def texts(self) -> tuple[str, ...]:
        return () if self.is_number else (self.column,)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        return (np.zeros(batch.length, np.int64),), None

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        import narwhals.stable.v2 as nw

        alias = wanted.number_alias(self.column) if self.is_number else wanted.text_alias(self.column)
        zero = nw.lit(0, nw.Int64)
        return frame.with_columns(nw.when(nw.col(alias).is_null()).then(zero).otherwise(zero).alias(names[0])), None


@dataclass(frozen=True)
class CombinedCoding(Coding):
    """Several codings of one row; a row stays if it stays in all of them."""

    parts: tuple[Coding, ...]

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.numbers))

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.texts))

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return tuple(ends for part in self.parts for ends in part.ranges)

    @property
    def drops(self) -> bool:
        return any(part.drops for part in self.parts)

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        codes: list[NDArray[np.int64]] = []
        kept: Keep = None
        for part in self.parts:
            more, stays = part.kernel(batch)
            codes.extend(more)
            kept = both(kept, stays)
        return tuple(codes), kept

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        kept: nw.Expr | None = None
        left = list(names)
        for part in self.parts:
            width = len(part.ranges)
            frame, stays = part.lower(frame, wanted, left[:width])
            left = left[width:]
            kept = both(kept, stays)
        return frame, kept
