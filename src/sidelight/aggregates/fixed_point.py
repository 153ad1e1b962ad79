"""How a number becomes a bounded integer: clamp, scale, floor. One meaning, two lowerings that agree bit for bit.

Only operations that every engine computes equally are used: minimum and maximum after missing values are gone,
multiplication, addition, comparison, `floor` (casts and `round` differ), and a cast of whole numbers of at most 2**62.
There is no division: Polars divides by a constant through its reciprocal. The clamp comes before the scaling, so that
nothing overflows; it is repeated on integers, because a bound of a grid need not be a float.

For a step of p/q the quotient floor(x*q/p) is guessed by the reciprocal of p and put right by a comparison each way,
so that a multiple of the step never falls into the cell below its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sidelight.grid import DROPPED_BITS, MANTISSA_BITS, FloatGrid, Grid
from sidelight.records import Number
from sidelight.records.numbers import nearest_float

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw


class NumberEncoding:
    """Make integers of numbers: missing values are dropped, or take a declared value.

    Every code lies in first..last, whatever the value, and depends on that value alone. `_encode` does it to arrays,
    `lower` has an engine do it, and both give the same integers.
    """

    first: int
    last: int
    fill: float | None

    def codes(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Encode the values that are not left out."""
        out = np.empty(values.shape[0], np.int64)
        return out[: self.codes_into(values, out)]

    def codes_into(self, values: NDArray[np.float64], out: NDArray[np.int64]) -> int:
        """Encode into the start of `out`, and return how many values were not left out."""
        size = len(values)
        kept = self.keep(values)
        self.all_codes_into(values, out[:size], kept)
        if kept is None or self.fill is not None:
            return size
        packed = out[:size][kept]
        out[: len(packed)] = packed
        return len(packed)

    def keep(self, values: NDArray[np.float64]) -> NDArray[np.bool_] | None:
        """Tell which values are there; None if all are."""
        missing = np.isnan(values)
        return ~missing if missing.any() else None

    def all_codes_into(
        self, values: NDArray[np.float64], out: NDArray[np.int64], kept: NDArray[np.bool_] | None
    ) -> None:
        """Encode every value in place; a missing one gets the code of `fill`, or of 0."""
        with np.errstate(all="ignore"):  # a signalling NaN makes NumPy warn, and rows must not decide that
            self._encode(values, out, kept)

    def lower(self, frame: nw.LazyFrame[Any], column: str, name: str) -> nw.LazyFrame[Any]:
        """Add the codes of a column under a name, inside an engine; a missing value gets that of `fill`, or of 0."""
        raise NotImplementedError

    def keep_expression(self, column: nw.Expr) -> nw.Expr | None:
        """Tell inside an engine which rows stay; None if all do."""
        return None if self.fill is not None else ~is_missing(column)

    def _present(self, column: nw.Expr) -> nw.Expr:
        """Return the column with `fill`, or 0, where a value is missing."""
        import narwhals.stable.v2 as nw

        stand_in = nw.lit(0.0 if self.fill is None else self.fill)
        return nw.when(is_missing(column)).then(stand_in).otherwise(column)

    def _encode(self, values: NDArray[np.float64], out: NDArray[np.int64], kept: NDArray[np.bool_] | None) -> None:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class FixedPoint(NumberEncoding):
    """code(x) = floor(clamp(x, lower_bound, upper_bound) * scale / divisor + half), clamped to first..last.

    `half` is 0 or 1/2; `shift` is half * divisor. Missing values take the code of `fill`, or are left out where it is
    None.

    Guarantee: every code lies in first..last, whatever the value.
    """

    lower_bound: float
    upper_bound: float
    scale: float
    divisor: float
    shift: float
    first: int
    last: int
    fill: float | None

    @classmethod
    def on_grid(cls, number: Number, grid: Grid) -> FixedPoint:
        """Encode a column on a public grid; the column's bounds clamp first.

        >>> encode = FixedPoint.on_grid(Number("age", lower=0, upper=120), Grid(resolution=Fraction(1), snap="nearest"))
        >>> encode.codes(np.array([-5.0, 41.2, np.nan, np.inf])).tolist()
        [0, 41, 120]
        """
        grid_low, grid_high = grid.first * grid.resolution, (grid.last + 1) * grid.resolution
        lower = grid_low if number.lower is None else min(max(number.lower, grid_low), grid_high)
        upper = grid_high if number.upper is None else max(min(number.upper, grid_high), grid_low)
        scale, divisor = _scale(grid.resolution)
        return cls(
            lower_bound=nearest_float(lower),
            upper_bound=nearest_float(upper),
            scale=scale,
            divisor=divisor,
            shift=grid.half_step * divisor,
            first=grid.first,
            last=grid.last,
            fill=number.fill,
        )

    def _encode(self, values: NDArray[np.float64], out: NDArray[np.int64], kept: NDArray[np.bool_] | None) -> None:
        work = np.maximum(values, self.lower_bound)
        if kept is not None:
            np.copyto(work, 0.0 if self.fill is None else self.fill, where=~kept)
            np.maximum(work, self.lower_bound, out=work)
        np.minimum(work, self.upper_bound, out=work)
        np.multiply(work, self.scale, out=work)
        if self.shift:
            np.add(work, self.shift, out=work)
        if self.divisor == 1.0:
            np.floor(work, out=work)
        else:
            quotient = np.floor(work * (1.0 / self.divisor))
            correction = ((quotient + 1.0) * self.divisor <= work).astype(np.float64)
            correction -= quotient * self.divisor > work
            work = quotient + correction
        np.copyto(out, work, casting="unsafe")
        if not self._ends_within:
            np.maximum(out, self.first, out=out)
            np.minimum(out, self.last, out=out)

    @cached_property
    def _ends_within(self) -> bool:
        """Whether the codes of both bounds lie in first..last: then all codes do, for every step is monotone."""
        low, high = (bound * self.scale + self.shift for bound in (self.lower_bound, self.upper_bound))
        within = self.divisor == 1.0 and math.isfinite(low) and math.isfinite(high)
        return within and self.first <= math.floor(low) and math.floor(high) <= self.last

    def lower(self, frame: nw.LazyFrame[Any], column: str, name: str) -> nw.LazyFrame[Any]:
        """Add the codes of a column under a name, inside an engine."""
        import narwhals.stable.v2 as nw

        scaled = self._present(nw.col(column)).clip(self.lower_bound, self.upper_bound) * self.scale
        if self.shift:
            scaled = scaled + self.shift
        if self.divisor == 1.0:
            whole = scaled.floor()
        else:
            guess = (scaled * (1.0 / self.divisor)).floor()
            more, less = (guess + 1.0) * self.divisor <= scaled, guess * self.divisor > scaled
            whole = guess + nw.when(more).then(nw.lit(1.0)).when(less).then(nw.lit(-1.0)).otherwise(nw.lit(0.0))
        return frame.with_columns(whole.cast(nw.Int64).clip(self.first, self.last).alias(name))


def is_missing(column: nw.Expr) -> Any:
    """Null and NaN are missing; engines differ in which of the two they make of a missing number."""
    return column.is_null() | column.is_nan()


def _scale(step: Fraction) -> tuple[float, float]:
    """Return (q, p) as floats for a step of p/q, or (1/step, 1) where p is a power of two or p, q are no floats."""
    p, q = step.numerator, step.denominator
    if p & (p - 1) and max(p, q) <= 2**53:
        return float(q), float(p)
    return float(1 / step), 1.0


# How a number becomes an integer on a grid of floats: the leading bits of its own pattern. Two lowerings that agree.
#
# The pattern of |x| as an integer grows with |x|, and so does its signed version with x. An arithmetic shift by four
# rounds it down, towards minus infinity for negative numbers too, because -((m + 15) >> 4) = (-m) >> 4. So five integer
# operations code a number, whatever the bounds; no scaling, no division, no rounding of a float.
#
# Engines have no bit operations in common. There the exponent is found by comparisons with powers of two and exact
# multiplications by them, and the mantissa by one floor: the same integers (`tests/aggregates/test_float_codes.py`).


_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)
_SIGN_BIT = np.int64(63)
#: The exponent field of 1.0, and the exponent of the smallest normal double.
_BIAS = 1023
_LEAST_EXPONENT = -1022


@dataclass(frozen=True, kw_only=True)
class FloatCodes(NumberEncoding):
    """The codes of a `FloatGrid`, clamped to its ends.

    Guarantee: every code lies in first..last, whatever the value, and depends on that value alone.
    """

    first: int
    last: int
    fill: float | None
    lowest: float
    highest: float

    @classmethod
    def on_grid(cls, number: Number, grid: FloatGrid) -> FloatCodes:
        """Encode a column on a grid of floats, whose ends are the column's bounds.

        >>> encode = FloatCodes.on_grid(Number("x"), FloatGrid(lowest=0.0, highest=1.0))
        >>> (encode.codes(np.array([-5.0, -0.0, 0.5, np.nan, np.inf])) >> 48).tolist()
        [0, 0, 1022, 1023]
        """
        return cls(first=grid.first, last=grid.last, fill=number.fill, lowest=grid.lowest, highest=grid.highest)

    def codes_into(self, values: NDArray[np.float64], out: NDArray[np.int64]) -> int:
        """Encode into the start of `out`, and return how many values were not left out.

        A missing value has a pattern beyond that of infinity: codes that all lie on the grid need no second look.
        """
        found = out[: len(values)]
        _shortened(values, found)
        if not len(found) or (found.min() >= self.first and found.max() <= self.last):
            return len(found)
        return super().codes_into(values, out)

    def _encode(self, values: NDArray[np.float64], out: NDArray[np.int64], kept: NDArray[np.bool_] | None) -> None:
        if kept is not None:
            values = np.where(kept, values, 0.0 if self.fill is None else self.fill)
        _shortened(values, out)
        np.maximum(out, self.first, out=out)
        np.minimum(out, self.last, out=out)

    def lower(self, frame: nw.LazyFrame[Any], column: str, name: str) -> nw.LazyFrame[Any]:
        """Add the codes of a column under a name, inside an engine."""
        import narwhals.stable.v2 as nw

        value, size, exponent = f"{name}_value", f"{name}_size", f"{name}_exponent"
        bounded = self._present(nw.col(column)).clip(self.lowest, self.highest)
        frame = frame.with_columns(bounded.alias(value)).with_columns(nw.col(value).abs().alias(size))
        # size * 2**exponent = |value| throughout. First into [1, 2**1024), but for numbers below the normal ones, which
        # end below 1 with the exponent of the smallest normal one: the same line, as in the pattern.
        small = nw.col(size) < 1.0
        frame = frame.with_columns(
            nw.when(small).then(nw.col(size) * 2.0**-_LEAST_EXPONENT).otherwise(nw.col(size)).alias(size),
            nw.when(small).then(nw.lit(float(_LEAST_EXPONENT))).otherwise(nw.lit(0.0)).alias(exponent),
        )
        for bits in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1):
            large = nw.col(size) >= 2.0**bits
            frame = frame.with_columns(
                nw.when(large).then(nw.col(size) * 2.0**-bits).otherwise(nw.col(size)).alias(size),
                nw.when(large).then(nw.col(exponent) + float(bits)).otherwise(nw.col(exponent)).alias(exponent),
            )
        sign = nw.when(nw.col(value) < 0.0).then(nw.lit(-1.0)).otherwise(nw.lit(1.0))
        octave = ((nw.col(exponent) + float(_BIAS)) * sign).cast(nw.Int64) * 2**MANTISSA_BITS
        within = ((nw.col(size) - 1.0) * 2.0**MANTISSA_BITS * sign).floor().cast(nw.Int64)
        return frame.with_columns((octave + within).clip(self.first, self.last).alias(name))


def _shortened(values: NDArray[np.float64], out: NDArray[np.int64]) -> None:
    """Write the signed patterns of doubles without their last bits."""
    patterns = np.ascontiguousarray(values, np.float64).view(np.int64)
    sign = patterns >> _SIGN_BIT  # 0, or all ones for a negative number
    np.bitwise_and(patterns, _MAGNITUDE, out=out)
    np.bitwise_xor(out, sign, out=out)
    np.subtract(out, sign, out=out)  # minus the magnitude, where the sign says so
    np.right_shift(out, DROPPED_BITS, out=out)
