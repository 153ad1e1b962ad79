"""Rows through a fixed affine map as integer vectors of bounded length: clip(A(x - c), radius). Two lowerings.

The map and the centre are public, or were released before. A row's integers depend on no other row: the map is applied
column by column (one matrix product over all rows would change last bits of rows when another is added, and a last bit
can move a truncation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.aggregates.clipped_vector import clipped_codes, limits, lower_clipped
from sidelight.aggregates.coding import CodeArrays, Keep
from sidelight.aggregates.fixed_point import is_missing
from sidelight.errors import RangeError
from sidelight.records import Number
from sidelight.records.numbers import LARGEST_FLOAT, Real, exact_number, nearest_float
from sidelight.records.rows import Batch, Wanted

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    from sidelight.aggregates.coding import Frame

Floats = NDArray[np.float64]
#: What becomes of a row that misses a number or holds an infinite one, where its column declares no fill value.
Unusable = Literal["zero", "drop"]

#: Products of a number below 2**400 with an entry of the map stay far from overflow.
_ENTRY_LIMIT = 2.0**200
#: Entries of a working array: it stays in the cache.
_BLOCK_CELLS = 1 << 15


def affine(columns: Sequence[Floats], matrix: Floats, centre: Floats) -> Floats:
    """Return A(x - c) with one row an output and one column a record, so that each record's bits are its own.

    >>> affine([np.array([1.0, 2.0])], np.array([[2.0], [-1.0]]), np.array([1.0])).tolist()
    [[0.0, 2.0], [0.0, -1.0]]
    """
    rows = len(columns[0])
    if matrix.shape[0] == matrix.shape[1] and not (matrix - np.diag(np.diag(matrix))).any():
        # the other terms are zeros, which change no number
        return np.stack([(column - centre[i]) * matrix[i, i] for i, column in enumerate(columns)])
    out = np.zeros((len(matrix), rows))
    step = max(1, _BLOCK_CELLS // len(matrix))
    for start in range(0, rows, step):
        part = out[:, start : start + step]
        term = np.empty_like(part)
        for place, column in enumerate(columns):
            shifted = column[start : start + step] - centre[place]
            np.multiply(matrix[:, place, None], shifted, out=term)
            part += term
    return out


@dataclass(frozen=True, eq=False)
class RowMap:
    """The map x ↦ A(x - centre) and the length that its results are clipped to; all public."""

    centre: Floats
    matrix: Floats
    radius: Fraction

    @classmethod
    def of(cls, width: int, *, centre: ArrayLike | None, matrix: ArrayLike | None, radius: Real) -> RowMap:
        """Check and freeze a map of `width` columns; without a matrix nothing is turned, without a centre it is 0."""
        middle = np.zeros(width) if centre is None else np.array(centre, np.float64)
        turn = np.eye(width) if matrix is None else np.array(matrix, np.float64)
        if middle.shape != (width,) or not np.isfinite(middle).all() or (np.abs(middle) > _ENTRY_LIMIT).any():
            raise RangeError(f"the centre must be {width} finite numbers within 2**200 of 0, got shape {middle.shape}")
        if turn.ndim != 2 or turn.shape[1] != width or not len(turn):
            raise RangeError(f"the map must be a matrix with {width} columns, got shape {turn.shape}")
        if not np.isfinite(turn).all() or (np.abs(turn) > _ENTRY_LIMIT).any():
            raise RangeError("the map must hold finite numbers within 2**200 of 0")
        length = exact_number(radius, name="radius")
        if not Fraction(2) ** -100 < length < Fraction(2) ** 100:
            raise RangeError(f"radius must be positive, between 2**-100 and 2**100, got {radius}")
        middle.flags.writeable = turn.flags.writeable = False
        return cls(middle, turn, length)


@dataclass(frozen=True, kw_only=True)
class MappedVector:
    """Number columns as one integer vector: map, scale by the radius, clip the length, truncate."""

    columns: tuple[Number, ...]
    row_map: RowMap
    levels: int
    unusable: Unusable = "drop"

    def __post_init__(self) -> None:
        if not self.columns or len({column.name for column in self.columns}) != len(self.columns):
            raise RangeError("a mapped vector needs at least one column, and each column once")
        if self.unusable not in ("zero", "drop"):
            raise RangeError(f"unusable must be 'zero' or 'drop', got {self.unusable!r}")
        if self.levels < 1 or self.levels**2 * (self.width + 16) > 2**52:
            raise RangeError(
                f"levels must be at least 1, and levels**2 * (entries + 16) at most 2**52, got {self.levels} levels "
                f"and {self.width} entries"
            )

    @property
    def width(self) -> int:
        """How many entries the vector has: the rows of the matrix."""
        return len(self.row_map.matrix)

    @property
    def radius(self) -> Fraction:
        """The length that mapped rows are clipped to."""
        return self.row_map.radius

    @property
    def numbers(self) -> tuple[str, ...]:
        """The number columns."""
        return tuple(column.name for column in self.columns)

    @property
    def texts(self) -> tuple[str, ...]:
        """No text columns are read."""
        return ()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """No entry is longer than the whole vector."""
        return ((-self.levels, self.levels),) * self.width

    @property
    def drops(self) -> bool:
        """A row is left out if it cannot be used and is not to count as zero."""
        return self.unusable == "drop"

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        """Code a batch, column by column."""
        columns, usable = clean(self.columns, batch)
        return self.codes(columns, usable), usable if self.drops else None

    def codes(self, columns: Sequence[Floats], usable: Keep) -> CodeArrays:
        """Code clean columns; rows that cannot be used are zero."""
        with np.errstate(all="ignore"):  # no warning that a value decides
            mapped = affine(columns, self.row_map.matrix, self.row_map.centre)
            mapped *= nearest_float(1 / self.radius)
            codes = clipped_codes(list(mapped), self.levels)
        return codes if usable is None else tuple(code * usable for code in codes)

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        """Code inside an engine, in the order of the kernel."""
        import narwhals.stable.v2 as nw

        usable: Any = None
        shifted = []
        for place, column in enumerate(self.columns):
            values = nw.col(wanted.number_alias(column.name))
            missing = is_missing(values)
            low, high, stand_in = limits(column)
            part = nw.when(missing).then(nw.lit(stand_in)).otherwise(values)
            bad = missing if column.fill is None else None
            for beyond, bound in ((part > LARGEST_FLOAT, column.upper), (part < -LARGEST_FLOAT, column.lower)):
                if bound is None:
                    bad = beyond if bad is None else bad | beyond
            if bad is not None:
                usable = ~bad if usable is None else usable & ~bad
            centre = float(self.row_map.centre[place])
            shifted.append((part.clip(low, high) - centre).alias(f"shifted{place}"))
        frame = frame.with_columns(*shifted)
        mapped = []
        for row, name in zip(self.row_map.matrix, names, strict=True):
            total: Any = nw.lit(0.0)
            for place, entry in enumerate(row):
                total = total + nw.col(f"shifted{place}") * float(entry)
            mapped.append((total * nearest_float(1 / self.radius)).alias(name))
        if usable is not None:
            frame = frame.with_columns(usable.alias("usable"))
        frame = lower_clipped(frame.with_columns(*mapped), names, self.levels)
        if usable is None or self.drops:
            return frame, usable
        zero = nw.lit(0, nw.Int64)
        return frame.with_columns(
            *(nw.when(nw.col("usable")).then(nw.col(name)).otherwise(zero).alias(name) for name in names)
        ), None


def clean(columns: Sequence[Number], batch: Batch) -> tuple[list[Floats], Keep]:
    """Return the columns clamped and filled, without NaN, and which rows can be used (None: all)."""
    usable: Keep = None
    cleaned = []
    for column in columns:
        values = batch.numbers[column.name]
        low, high, stand_in = limits(column)
        bad = np.isnan(values)
        values = np.where(bad, stand_in, values)
        if column.fill is not None:
            bad = np.zeros(len(values), bool)
        if column.upper is None:
            bad |= values > LARGEST_FLOAT
        if column.lower is None:
            bad |= values < -LARGEST_FLOAT
        if bad.any():
            usable = ~bad if usable is None else usable & ~bad
        cleaned.append(np.minimum(np.maximum(values, low), high))
    return cleaned, usable
