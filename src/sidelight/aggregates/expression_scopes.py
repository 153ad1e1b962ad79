"""Where the columns of an expression come from, each read once: a batch of arrays, or the frame of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sidelight.aggregates.coding import CategoryCoding, Coding, NumberCoding
from sidelight.aggregates.fixed_point import FixedPoint, is_missing
from sidelight.grid import Grid
from sidelight.records import Category, Number, Schema
from sidelight.records.expressions import Named
from sidelight.records.numbers import LARGEST_FLOAT, nearest_float
from sidelight.records.rows import Batch, Wanted
from sidelight.records.shapes import Steps

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
        """Clamp a batch."""
        values = batch.numbers[self.number.name]
        with np.errstate(all="ignore"):
            missing = np.isnan(values)
            stand_in = 0.0 if self.number.fill is None else self.number.fill
            clamped = np.clip(np.where(missing, stand_in, values), *self.ends)
        return clamped, None if self.number.fill is not None else ~missing

    def lower(self, frame: Frame, wanted: Wanted, name: str) -> tuple[Frame, nw.Expr | None]:
        """Clamp inside an engine."""
        import narwhals.stable.v2 as nw

        column = nw.col(wanted.number_alias(self.number.name))
        stand_in = nw.lit(0.0 if self.number.fill is None else self.number.fill)
        clamped = nw.when(is_missing(column)).then(stand_in).otherwise(column).clip(*self.ends)
        known = None if self.number.fill is not None else ~is_missing(column)
        return frame.with_columns(clamped.alias(name)), known


class Scope:
    """Where columns come from, each read once: a batch, or the frame of an engine, which grows by columns."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._read: dict[str, Value] = {}

    def column(self, name: str) -> Value:
        if name not in self._read:
            self._read[name] = self._find(name)
        return self._read[name]

    def _leaf(self, name: str) -> Coding | RealColumn:
        column = next(each for each in self.schema.columns if each.name == name)
        if isinstance(column, Category):
            return CategoryCoding(column)
        assert isinstance(column, Number)
        return RealColumn(column) if column.granularity is None else NumberCoding(name, snapped(column))

    def _find(self, name: str) -> Value:
        raise NotImplementedError

    def kept(self, value: Any) -> Any:
        """Return a value that will be used more than once."""
        return value

    def choose(self, value: Any, thresholds: Sequence[Any], results: Sequence[int]) -> Any:
        """Return results[j], where j is how many of the increasing thresholds the value has reached."""
        raise NotImplementedError


class BatchScope(Scope):
    def __init__(self, schema: Schema, batch: Batch) -> None:
        super().__init__(schema)
        self._batch = batch

    def _find(self, name: str) -> Value:
        leaf = self._leaf(name)
        if isinstance(leaf, RealColumn):
            return leaf.kernel(self._batch)
        (codes,), kept = leaf.kernel(self._batch)
        return codes, kept

    def choose(self, value: Any, thresholds: Sequence[Any], results: Sequence[int]) -> Any:
        return np.array(results, np.int64)[np.searchsorted(np.array(thresholds), value, side="right")]


class FrameScope(Scope):
    def __init__(self, schema: Schema, frame: Frame, wanted: Wanted, prefix: str) -> None:
        super().__init__(schema)
        self.frame, self._wanted, self._prefix, self._made = frame, wanted, prefix, 0

    def _name(self) -> str:
        self._made += 1
        return f"{self._prefix}_e{self._made}"

    def _find(self, name: str) -> Value:
        import narwhals.stable.v2 as nw

        leaf, code, known = self._leaf(name), self._name(), self._name()
        if isinstance(leaf, RealColumn):
            self.frame, stays = leaf.lower(self.frame, self._wanted, code)
        else:
            self.frame, stays = leaf.lower(self.frame, self._wanted, [code])
        if stays is None:
            return nw.col(code), None
        self.frame = self.frame.with_columns(stays.alias(known))
        return nw.col(code), nw.col(known)

    def kept(self, value: Any) -> Any:
        import narwhals.stable.v2 as nw

        name = self._name()
        self.frame = self.frame.with_columns(value.alias(name))
        return nw.col(name)

    def choose(self, value: Any, thresholds: Sequence[Any], results: Sequence[int]) -> Any:
        import narwhals.stable.v2 as nw

        def tree(first: int, last: int) -> Any:  # by halves: engines limit how deep an expression may be
            if first == last:
                return nw.lit(results[first], nw.Int64)
            middle = (first + last) // 2
            reached = column >= thresholds[middle]
            return nw.when(reached).then(tree(middle + 1, last)).otherwise(tree(first, middle))

        column = self.kept(value)
        if not thresholds:  # an engine makes no column of a constant alone
            return nw.when(column == column).then(tree(0, 0)).otherwise(tree(0, 0))
        return tree(0, len(thresholds))


def snapped(number: Number) -> FixedPoint:
    """Return the codes of a column with a granularity: the nearest whole number of steps within its bounds."""
    assert number.granularity is not None
    found = Named(number.name).shape(Schema([number]))
    assert isinstance(found, Steps)
    return FixedPoint.on_grid(number, Grid(resolution=found.step, first=found.first, last=found.last, snap="nearest"))
