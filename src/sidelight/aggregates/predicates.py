"""Expressions of columns as codings: what `records.expressions` describes, done to arrays and inside engines alike.

A number or label is a code and whether it is known; a condition is two masks, where it is true and where it is false,
so that three-valued logic needs no nulls, which engines treat differently: not exchanges them, and intersects the true
ones and unites the false ones. Numbers with a granularity are compared as whole numbers of steps, others as clamped
floats against the float that is nearest to the constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import CodeArrays, Coding, EveryRow, Keep
from sidelight.aggregates.expression_scopes import BatchScope, FrameScope, Scope, Value
from sidelight.aggregates.expression_values import code_of, truth_of
from sidelight.errors import SchemaError
from sidelight.records import Category, Number, Schema
from sidelight.records.expressions import Expression
from sidelight.records.rows import Batch, Wanted
from sidelight.records.shapes import Labels, Reals, Steps, Truths

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    from sidelight.aggregates.coding import Frame


@dataclass(frozen=True, eq=False)
class ExpressionCoding:
    """An expression as one code: the place of a label, the steps of a number, or 0 and 1 for false and true.

    Rows of which it is missing or unknown are left out.
    """

    expression: Expression
    schema: Schema

    def __post_init__(self) -> None:
        if isinstance(self.shape, Reals):
            raise SchemaError(f"{self.expression} needs a granularity to be a derived column of its own")

    @cached_property
    def shape(self) -> Truths | Labels | Steps | Reals:
        """What the expression gives."""
        return self.expression.check(self.schema)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The number columns that it reads."""
        if not self.expression.columns:  # of a constant: an engine cannot read no column
            return EveryRow.of(self.schema).numbers
        return tuple(name for name in self.expression.columns if isinstance(self._declared[name], Number))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The category columns that it reads."""
        if not self.expression.columns:
            return EveryRow.of(self.schema).texts
        return tuple(name for name in self.expression.columns if isinstance(self._declared[name], Category))

    @cached_property
    def _declared(self) -> dict[str, Any]:
        return {column.name: column for column in self.schema.columns}

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The ends of the codes."""
        if isinstance(self.shape, Steps):
            return ((self.shape.first, self.shape.last),)
        return ((0, len(self.shape.labels) - 1 if isinstance(self.shape, Labels) else 1),)

    @property
    def drops(self) -> bool:
        """Something may be missing in every expression."""
        return True

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        """Evaluate a batch."""
        codes, kept = self._evaluated(BatchScope(self.schema, batch), lambda mask: mask.astype(np.int64))
        return (np.broadcast_to(np.asarray(codes, np.int64), (batch.length,)),), kept

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        """Evaluate inside an engine."""
        import narwhals.stable.v2 as nw

        scope = FrameScope(self.schema, frame, wanted, names[0])

        def as_code(mask: nw.Expr) -> nw.Expr:
            return nw.when(mask).then(nw.lit(1, nw.Int64)).otherwise(nw.lit(0, nw.Int64))

        codes, kept = self._evaluated(scope, as_code)
        if not self.expression.columns:
            frame, _ = EveryRow.of(self.schema).lower(scope.frame, wanted, names)
            return frame.with_columns((nw.col(names[0]) + codes).alias(names[0])), kept
        return scope.frame.with_columns(codes.cast(nw.Int64).alias(names[0])), kept

    def _evaluated(self, scope: Scope, as_code: Callable[[Any], Any]) -> Value:
        if not isinstance(self.shape, Truths):
            return code_of(self.expression, scope)
        true, false = truth_of(self.expression, scope)
        return as_code(true), true | false


@dataclass(frozen=True, eq=False)
class Filtered:
    """A coding of the rows for which a condition is true."""

    coding: Coding
    condition: ExpressionCoding

    def __post_init__(self) -> None:
        if not isinstance(self.condition.shape, Truths):
            raise SchemaError(
                f"where must be a condition, and {self.condition.expression} is none; compare it with something"
            )

    @property
    def numbers(self) -> tuple[str, ...]:
        """The number columns of both, each once."""
        return tuple(dict.fromkeys([*self.coding.numbers, *self.condition.numbers]))

    @property
    def texts(self) -> tuple[str, ...]:
        """The text columns of both, each once."""
        return tuple(dict.fromkeys([*self.coding.texts, *self.condition.texts]))

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Those of the coding."""
        return self.coding.ranges

    @property
    def drops(self) -> bool:
        """Rows that do not pass are left out."""
        return True

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        """Code a batch, and tell which rows pass."""
        codes, kept = self.coding.kernel(batch)
        true, _ = truth_of(self.condition.expression, BatchScope(self.condition.schema, batch))
        passed: NDArray[np.bool_] = np.broadcast_to(np.asarray(true, bool), (batch.length,))
        return codes, passed if kept is None else kept & passed

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        """Code inside an engine, and tell which rows pass."""
        frame, kept = self.coding.lower(frame, wanted, names)
        scope = FrameScope(self.condition.schema, frame, wanted, "where")
        true, _ = truth_of(self.condition.expression, scope)
        passed = scope.kept(true)
        return scope.frame, passed if kept is None else kept & passed


def filtered(coding: Coding, where: Expression | None, schema: Schema) -> Coding:
    """Return the coding of the rows that pass a public condition; None lets all pass."""
    return coding if where is None else Filtered(coding, ExpressionCoding(where, schema))
