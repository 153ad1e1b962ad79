"""How a number becomes an integer on a grid of floats: the leading bits of its own pattern. Two lowerings that agree.

The pattern of |x| as an integer grows with |x|, and so does its signed version with x. An arithmetic shift by four
rounds it down, towards minus infinity for negative numbers too, because -((m + 15) >> 4) = (-m) >> 4. So five integer
operations code a number, whatever the bounds; no scaling, no division, no rounding of a float.

Engines have no bit operations in common. There the exponent is found by comparisons with powers of two and exact
multiplications by them, and the mantissa by one floor: the same integers (`tests/aggregates/test_float_codes.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.fixed_point import Encoding
from sidelight.grid import DROPPED_BITS, MANTISSA_BITS, FloatGrid
from sidelight.records import Number

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)
_SIGN_BIT = np.int64(63)
#: The exponent field of 1.0, and the exponent of the smallest normal double.
_BIAS = 1023
_LEAST_EXPONENT = -1022


@dataclass(frozen=True, kw_only=True)
class FloatCodes(Encoding):
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
