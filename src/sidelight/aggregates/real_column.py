"""A number column without a granularity, as clamped floats, for arrays and inside engines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sidelight.aggregates.fixed_point import is_missing
from sidelight.records import Number
from sidelight.records.numbers import LARGEST_FLOAT, nearest_float
from sidelight.records.rows import Batch, Wanted

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    from sidelight.aggregates.coding import Frame

#: Codes or floats, and which of them are known (None: all): arrays, or expressions of an engine.
Value: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True)
class RealColumn:
    """A number column as clamped floats."""

    number: Number

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The bounds, or the ends of the floats."""
        low, high = self.number.lower, self.number.upper
        return (
            -LARGEST_FLOAT if low is None else nearest_float(low),
            LARGEST_FLOAT if high is None else nearest_float(high),
        )

    def kernel(self, batch: Batch) -> Value:
        values = batch.numbers[self.number.name]
        with np.errstate(all="ignore"):
            missing = np.isnan(values)
            stand_in = 0.0 if self.number.fill is None else self.number.fill
            clamped = np.clip(np.where(missing, stand_in, values), *self.ends)
        return clamped, None if self.number.fill is not None else ~missing

    def lower(self, frame: Frame, wanted: Wanted, name: str) -> tuple[Frame, nw.Expr | None]:
        import narwhals.stable.v2 as nw

        column = nw.col(wanted.number_alias(self.number.name))
        stand_in = nw.lit(0.0 if self.number.fill is None else self.number.fill)
        clamped = nw.when(is_missing(column)).then(stand_in).otherwise(column).clip(*self.ends)
        known = None if self.number.fill is not None else ~is_missing(column)
        return frame.with_columns(clamped.alias(name)), known
