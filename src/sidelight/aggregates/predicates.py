"""Expressions of columns (`records.expressions`) as codings, for arrays and inside engines.

A number or label is a code and whether it is known; a condition is two masks, where it is true and where it is false,
so that three-valued logic needs no nulls, which engines treat differently: `not` swaps them, `and` intersects the true
ones and unites the false ones. Numbers with a granularity are compared as whole numbers of steps, others as clamped
floats against the float that is nearest to the constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import CodeArrays, Coding, CombinedCoding, EveryRow, Keep, both
from sidelight.aggregates.expression_values import BatchScope, ColumnScope, FrameScope, code_of, truth_of
from sidelight.aggregates.real_column import Value
from sidelight.aggregates.rehearsal import generated_rows, rehearsed
from sidelight.errors import SchemaError
from sidelight.records import Category, Number, Schema
from sidelight.records.expression_shapes import LabelShape, RealShape, StepShape, TruthShape
from sidelight.records.expressions import Expression
from sidelight.records.rows import Batch, Wanted

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    from sidelight.aggregates.coding import Frame


@dataclass(frozen=True, eq=False)
class ExpressionCoding(Coding):
    """An expression as one code: the index of a label, the steps of a number, or 0 and 1 for false and true.

    Rows for which it is missing or unknown are dropped.
    """

    expression: Expression
    schema: Schema

    def __post_init__(self) -> None:
        with rehearsed(self.expression):
            if isinstance(self.shape, RealShape):
                raise SchemaError(f"{self.expression} needs a granularity to be a derived column of its own")
            self.kernel(generated_rows(self.schema, self.expression.columns))

    @cached_property
    def shape(self) -> TruthShape | LabelShape | StepShape | RealShape:
        return self.expression.check(self.schema)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        if not self.expression.columns:  # a constant: an engine must read some column
            return EveryRow.of(self.schema).numbers
        return tuple(name for name in self.expression.columns if isinstance(self._declared[name], Number))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        if not self.expression.columns:
            return EveryRow.of(self.schema).texts
        return tuple(name for name in self.expression.columns if isinstance(self._declared[name], Category))

    @cached_property
    def _declared(self) -> dict[str, Any]:
        return {column.name: column for column in self.schema.columns}

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        if isinstance(self.shape, StepShape):
            return ((self.shape.first, self.shape.last),)
        return ((0, len(self.shape.labels) - 1 if isinstance(self.shape, LabelShape) else 1),)

    drops = True  # something may be missing in every expression

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        codes, kept = self._evaluated(BatchScope(self.schema, batch), lambda mask: mask.astype(np.int64))
        return (np.broadcast_to(np.asarray(codes, np.int64), (batch.length,)),), kept

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        import narwhals.stable.v2 as nw

        scope = FrameScope(self.schema, frame, wanted, names[0])

        def as_code(mask: nw.Expr) -> nw.Expr:
            return nw.when(mask).then(nw.lit(1, nw.Int64)).otherwise(nw.lit(0, nw.Int64))

        codes, kept = self._evaluated(scope, as_code)
        if not self.expression.columns:
            frame, _ = EveryRow.of(self.schema).lower(scope.frame, wanted, names)
            return frame.with_columns((nw.col(names[0]) + codes).alias(names[0])), kept
        return scope.frame.with_columns(codes.cast(nw.Int64).alias(names[0])), kept

    def _evaluated(self, scope: ColumnScope, as_code: Callable[[Any], Any]) -> Value:
        if not isinstance(self.shape, TruthShape):
            return code_of(self.expression, scope)
        true, false = truth_of(self.expression, scope)
        return as_code(true), true | false


@dataclass(frozen=True, eq=False)
class Filtered(CombinedCoding):
    """A coding of the rows for which a condition is true."""

    parts: tuple[Coding, ...] = field(init=False)
    coding: Coding
    condition: ExpressionCoding

    def __post_init__(self) -> None:
        if not isinstance(self.condition.shape, TruthShape):
            raise SchemaError(
                f"where must be a condition, and {self.condition.expression} is none; compare it with something"
            )
        object.__setattr__(self, "parts", (self.coding, self.condition))

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return self.coding.ranges

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        codes, kept = self.coding.kernel(batch)
        true, _ = truth_of(self.condition.expression, BatchScope(self.condition.schema, batch))
        passed: NDArray[np.bool_] = np.broadcast_to(np.asarray(true, bool), (batch.length,))
        return codes, both(kept, passed)

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        frame, kept = self.coding.lower(frame, wanted, names)
        scope = FrameScope(self.condition.schema, frame, wanted, "where")
        true, _ = truth_of(self.condition.expression, scope)
        passed = scope.kept(true)
        return scope.frame, both(kept, passed)
