"""How a number column becomes the place of its bin: edges at any distance, one meaning and two lowerings.

Hand-made because the fixed-point codings have steps of one size, and people's bins (age groups, incomes) do not.
Only comparisons with the edges' nearest floats are used, which every engine computes alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sidelight.aggregates.coding import CodeArrays, Keep
from sidelight.records.rows import Batch, Wanted

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw


@dataclass(frozen=True)
class BinCoding:
    """The number of inner edges at or below a value: bins are closed below, and the outer ones take what lies outside.

    `missing` is the code of a missing number; its row is left out where it is None. `places` is the number of codes.

    Guarantee: every code lies in 0..places-1, whatever the value.
    """

    column: str
    inner: tuple[float, ...]
    missing: int | None
    places: int

    @property
    def numbers(self) -> tuple[str, ...]:
        """The number column."""
        return (self.column,)

    @property
    def texts(self) -> tuple[str, ...]:
        """No text columns are read."""
        return ()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The places of the bins, and of the missing ones."""
        return ((0, self.places - 1),)

    @property
    def drops(self) -> bool:
        """Missing numbers are left out unless they have a code."""
        return self.missing is None

    @cached_property
    def _edges(self) -> Any:
        return np.array(self.inner, np.float64)

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        """Look every number up."""
        values = batch.numbers[self.column]
        with np.errstate(all="ignore"):  # a signalling NaN makes NumPy warn, and rows must not decide that
            absent = np.isnan(values)
            codes = np.searchsorted(self._edges, values, side="right").astype(np.int64)
        codes[absent] = 0 if self.missing is None else self.missing
        return (codes,), ~absent if self.drops else None

    def lower(
        self, frame: nw.LazyFrame[Any], wanted: Wanted, names: Sequence[str]
    ) -> tuple[nw.LazyFrame[Any], nw.Expr | None]:
        """Count the edges below inside an engine."""
        import narwhals.stable.v2 as nw

        column = nw.col(wanted.number_alias(self.column))
        absent = column.is_null() | column.is_nan()
        one, none = nw.lit(1, nw.Int64), nw.lit(0, nw.Int64)
        code: Any = none
        for edge in self.inner:
            code = code + nw.when(column >= edge).then(one).otherwise(none)
        stand_in = nw.lit(0 if self.missing is None else self.missing, nw.Int64)
        code = nw.when(absent).then(stand_in).otherwise(code)
        return frame.with_columns(code.alias(names[0])), ~absent if self.drops else None
