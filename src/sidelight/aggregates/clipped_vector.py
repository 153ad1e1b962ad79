"""Rows as integer vectors of bounded length: centre, scale by the radius, clip the length, truncate. Two lowerings.

Let M be the public number of levels, z = (x - centre) / radius, s = max(1, ‖z‖). The codes are trunc(M z_i / s).

Why Σ code_i² <= M² exactly, in spite of floating point: squares, sums, root, quotient and product each err by a
relative u = 2**-53, so Σ code_i² <= M² (1 + (d + 12) u) in real numbers; it is an integer, and M² (d + 16) <= 2**52
makes the right side less than M² + 1. Everything is computed column by column: a row's codes depend on no other row (a
matrix product over all rows would not promise that), and truncation only shortens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import CodeArrays, Coding, Keep
from sidelight.aggregates.fixed_point import is_missing
from sidelight.errors import RangeError
from sidelight.records import Number
from sidelight.records.numbers import nearest_float
from sidelight.records.rows import Batch, Wanted

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    from sidelight.aggregates.coding import Frame

#: Numbers are clamped here before anything is computed from them, and scaled ones to the second, so that no square
#: overflows; a row that long is clipped to the radius anyway.
_NUMBER_LIMIT = 2.0**400
_SCALED_LIMIT = 2.0**200
#: Entries of a working array of the kernel, and rows at least; rows that are gathered at once from columns that may
#: be strided.
_BLOCK_CELLS = 1 << 21
_LEAST_ROWS = 1 << 10
_GATHERED_ROWS = 1 << 9


@dataclass(frozen=True, kw_only=True)
class ClippedVector(Coding):
    """Several number columns as one integer vector of Euclidean length at most `levels`."""

    columns: tuple[Number, ...]
    radius: Fraction
    levels: int
    centres: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise RangeError("a vector needs at least one column")
        if len({column.name for column in self.columns}) != len(self.columns):
            raise RangeError("a vector names one column twice")
        if not Fraction(2) ** -100 < self.radius < Fraction(2) ** 100:
            raise RangeError(f"radius must lie between 2**-100 and 2**100, got {float(self.radius):.3g}")
        if any(abs(centre) > 2**200 for centre in self.centres):
            raise RangeError("centres must lie within 2**200 of 0")
        if self.levels < 1 or self.levels**2 * (len(self.columns) + 16) > 2**52:
            raise RangeError(
                f"levels must be at least 1, and levels**2 * (columns + 16) at most 2**52, got {self.levels} levels "
                f"and {len(self.columns)} columns; 2**14 levels suit every practical number of columns"
            )

    @property
    def width(self) -> int:
        return len(self.columns)

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return ((-self.levels, self.levels),) * len(self.columns)

    @property
    def drops(self) -> bool:
        """A row is left out if a column without a fill value is missing."""
        return any(column.fill is None for column in self.columns)

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        whole, kept = self.whole_floats(batch)
        return tuple(whole.astype(np.int64)), kept

    def whole_floats(self, batch: Batch, *, out: NDArray[np.float64] | None = None) -> tuple[NDArray[np.float64], Keep]:
        """Code a batch as floats that are whole numbers, one column to a row, in the memory of `out` if there is some.

        The codes of `kernel`, for products in floats: at most `levels`, so exact.
        """
        with np.errstate(all="ignore"):  # as in `FixedPoint`: no warning that a value decides
            return self._whole_floats(batch, out)

    def _whole_floats(self, batch: Batch, out: NDArray[np.float64] | None) -> tuple[NDArray[np.float64], Keep]:
        """Work on blocks of all columns that fit the cache; each entry is computed independently of the others."""
        columns = [batch.numbers[column.name] for column in self.columns]
        length = len(columns[0])
        codes = (np.empty((len(columns), length)) if out is None else out)[:, :length]
        kept: Keep = None
        step = min(length, max(_LEAST_ROWS, _BLOCK_CELLS // len(columns)))
        work = np.empty((len(columns), step))
        for start in range(0, length, max(step, 1)):
            block = slice(start, min(start + step, length))
            part = work[:, : block.stop - start]
            _gather(columns, block, out=part)
            squares = self._scale(part)
            missing = np.isnan(squares)  # a row that misses a number has no length
            if missing.any():
                _gather(columns, block, out=part)
                there = self._fill(part)
                squares = self._scale(part)
                kept = np.ones(length, bool) if kept is None else kept
                kept[block] = there
            part *= float(self.levels) / np.sqrt(np.maximum(squares, 1.0))
            np.trunc(part, out=codes[:, block])
        return codes, kept

    def _scale(self, part: NDArray[np.float64]) -> NDArray[np.float64]:
        """Clamp, centre and scale the columns in place; return the squared lengths of the rows."""
        _centre_and_scale(part, *self._public_scaling)
        length = squared_lengths(part)
        if not length.max(initial=0.0) < _SCALED_LIMIT:  # some entry may be beyond the limit, or missing
            np.clip(part, -_SCALED_LIMIT, _SCALED_LIMIT, out=part)
            length = squared_lengths(part)
        return length

    @cached_property
    def _public_scaling(self) -> tuple[Any, Any, Any, float]:
        """Return the bounds and centres of the columns (None for none), and the factor from units to radii."""
        low = high = middle = None
        if any(column.lower is not None or column.upper is not None for column in self.columns):
            low, high, _ = (np.array(each)[:, None] for each in zip(*map(limits, self.columns), strict=True))
        if any(self.centres):
            middle = np.array([nearest_float(centre) for centre in self.centres])[:, None]
        return low, high, middle, nearest_float(1 / self.radius)

    def _fill(self, part: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Put stand-ins for missing numbers; return which rows miss none that has no fill value."""
        missing = np.isnan(part)
        stand_in = np.array([limits(column)[2] for column in self.columns])[:, None]
        dropping = np.array([column.fill is None for column in self.columns])
        np.copyto(part, stand_in, where=missing)
        return np.asarray(~missing[dropping].any(axis=0))

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        """Code inside an engine. `trunc` is a floor either way: engines' casts differ."""
        import narwhals.stable.v2 as nw

        kept: Any = None
        parts = []
        for column, centre, name in zip(self.columns, self.centres, names, strict=True):
            values = nw.col(wanted.number_alias(column.name))
            missing = is_missing(values)
            low, high, stand_in = limits(column)
            if column.fill is None:
                kept = ~missing if kept is None else kept & ~missing
            part = nw.when(missing).then(nw.lit(stand_in)).otherwise(values).clip(low, high)
            part = (part - nearest_float(centre)) * nearest_float(1 / self.radius)
            parts.append(part.alias(name))
        return lower_clipped(frame.with_columns(*parts), names, self.levels), kept


def _centre_and_scale(part: NDArray[np.float64], low: Any, high: Any, middle: Any, factor: float) -> None:
    """Clamp, centre and scale entries in place; None for no bounds and for no centre."""
    if low is not None:
        np.clip(part, low, high, out=part)
    if middle is not None:
        # without bounds, what is beyond the limits here is beyond the scaled ones too
        part -= middle
    if factor != 1.0:
        part *= factor


def codes_of_number(
    values: Any, *, low: float, high: float, middle: float, factor: float, levels: int
) -> NDArray[np.int64]:
    """Return the codes of one bounded column from the floats of its declaration, by the steps of `ClippedVector`.

    For who holds these floats and not the declaration, such as the reader of a published report. No value may be NaN.

    Args:
        values: The numbers.
        low, high: The bounds as floats.
        middle: The centre as a float.
        factor: The inverse of the radius as a float.
        levels: M.
    """
    part = np.array(values, np.float64, ndmin=1)
    _centre_and_scale(part, low, high, middle, factor)
    return clipped_codes([part], levels)[0]


def _gather(columns: Sequence[NDArray[np.float64]], block: slice, *, out: NDArray[np.float64]) -> None:
    """Copy some rows, one column to a row of `out`; a few rows at once, which come from the same lines."""
    for start in range(block.start, block.stop, _GATHERED_ROWS):
        rows, to = slice(start, min(start + _GATHERED_ROWS, block.stop)), start - block.start
        target = out[:, to : to + rows.stop - start]
        for place, column in enumerate(columns):
            target[place] = column[rows]


def squared_lengths(part: Sequence[NDArray[np.float64]] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum the squares of every column of `part`, entry after entry.

    One after the other: `sum` may change the order with the number of rows, and then a row's length with its company.
    """
    length = part[0] * part[0]
    square = np.empty_like(length)
    for row in part[1:]:
        np.multiply(row, row, out=square)
        length += square
    return np.asarray(length)


def clipped_codes(scaled: Sequence[NDArray[np.float64]], levels: int) -> CodeArrays:
    """Return trunc(levels · z / max(1, ‖z‖)), entry by entry: the last step, where the length becomes at most `levels`.

    One array an entry, without NaN. No row looks at another.
    """
    bounded = [np.minimum(np.maximum(part, -_SCALED_LIMIT), _SCALED_LIMIT) for part in scaled]
    factor = float(levels) / np.sqrt(np.maximum(squared_lengths(bounded), 1.0))
    return tuple(np.trunc(part * factor).astype(np.int64) for part in bounded)


def lower_clipped(frame: Frame, names: Sequence[str], levels: int) -> Frame:
    """Do the step of `clipped_codes` inside an engine, to columns of these names."""
    import narwhals.stable.v2 as nw

    frame = frame.with_columns(*(nw.col(name).clip(-_SCALED_LIMIT, _SCALED_LIMIT) for name in names))
    length = nw.col(names[0]) * nw.col(names[0])
    for name in names[1:]:
        length = length + nw.col(name) * nw.col(name)
    factor = nw.lit(float(levels)) / length.clip(lower_bound=1.0).sqrt()
    frame = frame.with_columns(factor.alias("factor"))
    frame = frame.with_columns(*((nw.col(name) * nw.col("factor")).alias(name) for name in names))
    negative = {name: (nw.col(name) * -1.0).floor() * -1.0 for name in names}
    wholes = (nw.when(nw.col(n) < 0.0).then(negative[n]).otherwise(nw.col(n).floor()) for n in names)
    return frame.with_columns(*(whole.cast(nw.Int64).alias(n) for whole, n in zip(wholes, names, strict=True)))


def limits(column: Number) -> tuple[float, float, float]:
    """Return the clamp of a column, and what stands in for a missing number."""
    low = -_NUMBER_LIMIT if column.lower is None else max(nearest_float(column.lower), -_NUMBER_LIMIT)
    high = _NUMBER_LIMIT if column.upper is None else min(nearest_float(column.upper), _NUMBER_LIMIT)
    return low, high, 0.0 if column.fill is None else column.fill
